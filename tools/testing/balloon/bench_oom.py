# SPDX-License-Identifier: GPL-2.0
"""Short of memory: give back on OOM, inflate against a cache, stalls, an unreachable target."""

import time

import plot
from bench_inflate import move
from figures import NO_MORE, Figure, least_goal, most_goal, ratio_goal
from machine import GIB, MIB, VM, GuestFailure
from meter import Meter
from scenarios.oom import DOOM, cached_file, inflated_as_far
from vmtrace import COUNT_EVENTS, PAGE_EVENTS

TAKEN, WANTED = 896 * MIB, 600  # bytes in the balloon of a 1 GiB guest; MiB that a program wants
CACHED = 1200  # MiB of the file that is read against the balloon
EVENTS, SWAP_EVENTS = 10, 3  # times out of memory
SETTLE, WINDOW, REPORTED = 30, 60, 600  # seconds


GROUPS = (
    (f"1 GiB guest, {TAKEN // MIB} MiB for the balloon, deflate-on-oom, {WANTED} MiB allocated", [
        Figure("alloc_taken", "in the balloon before", "MiB", least_goal(TAKEN / MIB, "MiB")),
        Figure("alloc_s", "until the program has it", "s", ratio_goal(0.25)),
        Figure("alloc_trips", "notifications of the deflate queue", "", NO_MORE),
        Figure("alloc_config", "config reads and writes", "", NO_MORE),
        Figure("alloc_gap", "longest gap of a 20 ms heartbeat", "ms", most_goal(2000, "ms")),
        Figure("alloc_kills", "processes killed", "", most_goal(0, "")),
    ]),
    (f"1 GiB guest, a {CACHED} MiB file read in a loop, inflate to 1/6 of RAM", [
        Figure("cache_s", "seconds to the target", "s", ratio_goal(0.7)),
        Figure("cache_inflated", "pages inflated / target", "x", most_goal(1, "x")),
        Figure("cache_deflated", "pages deflated", "", most_goal(0, "")),
    ]),
    (f"512 MiB guest, out of memory {EVENTS} times ({SWAP_EVENTS} with swap): full stall each", [
        Figure("stall_none", "no balloon", "ms"),
        Figure("stall_held", "half of it in the balloon", "ms", NO_MORE),
        Figure("stall_above", "  as a multiple of no balloon", "x", most_goal(1.1, "x")),
        Figure("swap_none", "768 MiB of swap, swappiness 0, no balloon", "ms"),
        Figure("swap_held", "the same, half of it in the balloon", "ms", NO_MORE),
        Figure("swap_above", "  as a multiple of no balloon", "x", most_goal(1.1, "x")),
    ]),
    (f"512 MiB guest, a target out of reach, deflate-on-oom: {WINDOW} s, given for {REPORTED} s", [
        Figure("idle_s", "CPU time of the virtual CPUs, no target", "s"),
        Figure("reach_s", "the same, target out of reach", "s", NO_MORE),
        Figure("reach_above", "  beyond that without a target", "s", most_goal(0.6, "s")),
    ]),
)


def allocation(kernel, run):
    """Fill in what a program meets that wants what the balloon holds."""
    with VM(kernel, memory=GIB, balloon=DOOM, trace=PAGE_EVENTS) as vm:
        inflated_as_far(vm, GIB - TAKEN)
        taken = vm.pages_out(vm.query_balloon())
        run["alloc_taken"] = taken * 4096 / MIB
        beat = vm.agent.start("beat").wait_ready()
        before, kills = vm.trace.snapshot(), vm.agent.memory().vmstat["oom_kill"]
        meter, begin = Meter(vm), time.monotonic()
        beat.take()
        job = vm.agent.start("hold", WANTED)
        vm.wait(lambda: job.state().ready or job.state().state != "running",
                "the program to get its memory", 120)
        run["alloc_s"] = time.monotonic() - begin
        run["alloc_others"] = meter.read()["others"]
        spent = vm.trace.snapshot() - before
        run["alloc_gap"] = beat.take().value
        run["alloc_kills"] = vm.agent.memory().vmstat["oom_kill"] - kills
        run["alloc_trips"] = spent.kicks[1]
        run["alloc_config"] = spent.config_reads + spent.config_writes
        first = vm.trace.update().actual
        start = next(when for when, pages in reversed(first) if pages >= taken)
        run["alloc_curve"] = [(when - start, pages * 4096 / MIB) for when, pages in first
                              if when >= start]


def page_cache(kernel, run):
    """Fill in what it takes to inflate while a file in use fills the page cache."""
    size = GIB // 6 // 4096 * 4096
    with VM(kernel, memory=GIB, balloon={}, trace=COUNT_EVENTS) as vm:
        cached_file(vm, CACHED)
        before = vm.agent.memory().vmstat
        cost = move(vm, size)
        after = vm.agent.memory().vmstat
    run["cache_s"], run["cache_others"], run["cache_curve"] = (
        cost["s"], cost["others"], cost["curve"])
    run["cache_inflated"] = (after["balloon_inflate"] - before["balloon_inflate"]) * 4096 / (
        GIB - size)
    run["cache_deflated"] = after["balloon_deflate"] - before["balloon_deflate"]


def _oom_stalls(vm, times):
    """Run out of memory; return the full memory stalls in ms, as the guest's log has them."""
    vm.agent.run("oomloop", times, "/tmp/stalls", timeout=600)
    rows = [line.split() for line in vm.agent.read("/tmp/stalls").splitlines()]
    return [int(row[3]) / 1000 for row in rows if row[0].startswith("event")]


def _stall_average(vm, size, times):
    """Average full memory stall in ms; each time the balloon is first brought to this size."""
    found = [] if size else _oom_stalls(vm, times)
    while len(found) < times:
        for target in (vm.memory, size):
            vm.set_balloon(target)
            vm.wait_balloon(target)
        found += _oom_stalls(vm, 1)
    return sum(found) / times


def _stalls_of(kernel, balloon, swap):
    memory = 512 * MIB
    disk = ("-drive", "file=swap,if=virtio,format=raw,cache=unsafe") if swap else ()
    vm = VM(kernel, memory=memory, balloon=balloon, trace=(), extra=disk)
    with open(vm.folder / "swap", "wb") as file:
        file.truncate(768 * MIB)
    with vm:
        if swap:
            vm.agent.sh("mkswap /dev/vda && swapon /dev/vda && echo 0 >/proc/sys/vm/swappiness")
        return _stall_average(vm, None if balloon is None else memory // 2,
                              SWAP_EVENTS if swap else EVENTS)


def stalls(kernel, run):
    """Fill in the stalls of a guest that runs out of memory."""
    for key, swap in (("stall", False), ("swap", True)):
        run[f"{key}_none"] = _stalls_of(kernel, None, swap)
        run[f"{key}_held"] = _stalls_of(kernel, DOOM, swap)
        if not run[f"{key}_none"]:
            raise GuestFailure("the guest ran out of memory without any stall")
        run[f"{key}_above"] = run[f"{key}_held"] / run[f"{key}_none"]


def _window(vm, run):
    """CPU seconds of the virtual CPUs in a window, given for the time reported."""
    time.sleep(SETTLE)
    meter = Meter(vm)
    time.sleep(WINDOW)
    cost = meter.read()
    run["reach_others"] = cost["others"]
    return cost["cpus"] * REPORTED / WINDOW


def unreachable(kernel, run):
    """Fill in what a target out of reach costs, seen from the host: the guest may not answer."""
    with VM(kernel, memory=512 * MIB, balloon=DOOM, trace=()) as vm:
        run["idle_s"] = _window(vm, run)
        vm.agent.start("hold", 40).wait_ready()
        vm.set_balloon(8 * MIB)
        run["reach_s"] = _window(vm, run)
    run["reach_above"] = run["reach_s"] - run["idle_s"]


MEASUREMENTS = (
    ("allocation", allocation),
    ("page cache", page_cache),
    ("stalls", stalls),
    ("target out of reach", unreachable),
)


def _panel(runs_by_name, title, key):
    """One chart: of each kernel the run with the median time."""
    lines = []
    for (name, runs), colour in zip(runs_by_name, (plot.ORANGE, plot.BLUE)):
        middle = sorted(runs, key=lambda run: run[f"{key}_s"])[(len(runs) - 1) // 2]
        lines.append(plot.Line(name, middle[f"{key}_curve"], colour=colour, steps=True))
    return plot.Panel(title, lines, "seconds", "MiB")


def panels(runs_by_name):
    """The charts: sizes over time."""
    return [_panel(runs_by_name, f"balloon while {WANTED} MiB are allocated", "alloc"),
            _panel(runs_by_name, "balloon, inflating against a page cache", "cache")]
