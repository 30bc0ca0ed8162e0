# SPDX-License-Identifier: GPL-2.0
"""Free page hinting: what a migration takes, idle and at work, and what it leaves behind."""

import time

import migration
import plot
from figures import NO_MORE, Figure, least_goal, most_goal, ratio_goal
from machine import GIB, MIB, VM
from meter import Meter

IDLE, LOADED, LARGE = 8, 4, 64  # GiB
FILLS = (0, 1)  # init_on_alloc
LIMITED = 1000 * 1000 * 1000  # bytes a second


def _idle_rows(fill):
    goal = ratio_goal(0.5 if fill else 0.9)
    return [
        Figure(f"idle{fill}_s", "migration, as fast as it goes", "s", goal),
        Figure(f"idle{fill}_below", "  below that without hinting", "%", least_goal(85, "%")),
        Figure(f"idle{fill}_mib", "  on the wire", "MiB", NO_MORE),
        Figure(f"idle{fill}_used", "  as a multiple of the memory in use", "x",
               most_goal(1.15, "x")),
        Figure(f"idle{fill}_down_ms", "  downtime", "ms"),
        Figure(f"idle{fill}_rss", "  growth of the host's memory for it", "MiB", NO_MORE),
        Figure(f"limited{fill}_s", "migration at 1 GB/s", "s", NO_MORE),
        Figure(f"limited{fill}_used", "  as a multiple of the memory in use", "x"),
    ]


GROUPS = (
    *((f"{IDLE} GiB guest, idle, all of it touched and freed, init_on_alloc={fill}",
       _idle_rows(fill)) for fill in FILLS),
    (f"{LOADED} GiB guest, touched and freed, builds of a kind under way, 1 GB/s", [
        Figure("loaded_s", "migration", "s", NO_MORE),
        Figure("loaded_below", "  below that without hinting", "%", least_goal(55, "%")),
        Figure("loaded_mib", "  on the wire", "MiB", NO_MORE),
        Figure("loaded_down_ms", "  downtime", "ms"),
    ]),
    (f"{LARGE} GiB guest, untouched, init_on_alloc=1", [
        Figure("large_s", "migration, as fast as it goes", "s", ratio_goal(0.5)),
        Figure("large_rss", "  growth of the host's memory for it", "MiB", NO_MORE),
    ]),
)


def _guest(kernel, gib, hinting, fill):
    return VM(kernel, memory=gib * GIB + migration.ODD, trace=(), extra=migration.IOTHREAD,
              balloon=migration.HINTING if hinting else {}, append=f"init_on_alloc={fill}")


def _migrate(vm, **limits):
    """Migrate to nowhere; return (Cost, bytes in use before, growth of RSS), the guest goes on."""
    used, resident = vm.agent.memory().used, vm.resident()
    cost = migration.to_file(vm, "/dev/null", **limits)
    grown = vm.resident() - resident
    vm.qmp.command("cont")
    time.sleep(2)
    return cost, used, grown


def _touch(vm, gib):
    vm.agent.run("touch", gib * 1024 * 7 // 8, timeout=600)
    time.sleep(2)


def _idle(kernel, run, fill):
    with _guest(kernel, IDLE, False, fill) as vm:
        _touch(vm, IDLE)
        without, _, _ = _migrate(vm)
    with _guest(kernel, IDLE, True, fill) as vm:
        _touch(vm, IDLE)
        meter = Meter(vm)
        cost, used, grown = _migrate(vm)
        run[f"idle{fill}_others"] = meter.read()["others"]
        run[f"idle{fill}_s"] = cost.total_s
        run[f"idle{fill}_below"] = 100 * (1 - cost.total_s / without.total_s)
        run[f"idle{fill}_mib"] = cost.wire / MIB
        run[f"idle{fill}_used"] = cost.wire / used
        run[f"idle{fill}_down_ms"] = cost.downtime_s * 1000
        run[f"idle{fill}_rss"] = grown / MIB
        cost, used, _ = _migrate(vm, bandwidth=LIMITED)
        run[f"limited{fill}_s"] = cost.total_s
        run[f"limited{fill}_used"] = cost.wire / used
    run[f"without{fill}_s"] = without.total_s


def idle(kernel, run):
    """Fill in what an idle guest takes, with pages zeroed on allocation and without."""
    for fill in FILLS:
        _idle(kernel, run, fill)


def _loaded(kernel, hinting):
    with _guest(kernel, LOADED, hinting, 0) as vm:
        _touch(vm, LOADED)
        vm.agent.start("mix", 1000)
        time.sleep(3)
        return _migrate(vm, bandwidth=LIMITED)[0]


def loaded(kernel, run):
    """Fill in what a guest takes that is at work."""
    without, cost = _loaded(kernel, False), _loaded(kernel, True)
    run["loaded_s"] = cost.total_s
    run["loaded_below"] = 100 * (1 - cost.total_s / without.total_s)
    run["loaded_mib"] = cost.wire / MIB
    run["loaded_down_ms"] = cost.downtime_s * 1000


def large(kernel, run):
    """Fill in what a guest takes most of whose memory was never used."""
    with _guest(kernel, LARGE, True, 1) as vm:
        time.sleep(2)
        cost, _, grown = _migrate(vm)
    run["large_s"], run["large_rss"] = cost.total_s, grown / MIB


MEASUREMENTS = (
    ("idle guest", idle),
    ("guest at work", loaded),
    ("large guest", large),
)


def panels(runs_by_name):
    """Seconds of each migration, a step for each kind."""
    kinds = ("idle0_s", "idle1_s", "limited0_s", "limited1_s", "loaded_s", "large_s")
    lines = []
    for (name, runs), colour in zip(runs_by_name, (plot.ORANGE, plot.BLUE)):
        points = []
        for number, kind in enumerate(kinds):
            middle = sorted(run[kind] for run in runs)[(len(runs) - 1) // 2]
            points += [(number, middle), (number + 1, middle)]
        lines.append(plot.Line(name, points, colour=colour, steps=True))
    return [plot.Panel("migration: idle, idle with init_on_alloc, both at 1 GB/s, at work, large",
                       lines, "kind of migration", "seconds")]
