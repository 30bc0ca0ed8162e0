# SPDX-License-Identifier: GPL-2.0
"""Free page reporting: seconds until memory is back, cost to the guest, churn, memory used."""

import statistics
import time

import plot
from figures import NO_MORE, Figure, most_goal, ratio_goal
from machine import GIB, MIB, VM, GuestFailure
from meter import Meter
from vmtrace import COUNT_EVENTS

REPORTING = {"free-page-reporting": True}
PARAMETERS = "/sys/module/page_reporting/parameters"
QUEUE = 3  # inflate, deflate, statistics, reporting
FREED = 3276  # MiB, of 4 GiB
# The part of what was freed that counts as all: some is left in small blocks
ALL = 0.98
GIVE_UP = 60.0
# Loops of page faults: kind, tasks, rounds in each
LOOPS = (("anon", 1, 100), ("anon", 4, 25), ("file", 1, 12), ("file", 4, 3))
LOOP_TURNS = 3
CHURN_SECONDS = 40
MIX_ROUNDS = 2


def _loop_key(kind, tasks):
    return f"loss_{kind}_{tasks}"


GROUPS = (
    (f"4 GiB guest, {FREED} MiB freed at once", [
        Figure("most_s", "90 % back", "s", most_goal(3, "s")),
        Figure("all_s", "all back", "s", most_goal(5, "s")),
    ]),
    ("the same, 1000 MiB of the guest fragmented in pieces of 64 KiB", [
        Figure("fragmented_most_s", "90 % back", "s", most_goal(3, "s")),
        Figure("fragmented_all_s", "all back", "s", most_goal(5, "s")),
    ]),
    ("1 GiB guest, 1 CPU, -icount: page faults, 128 MiB over and over; time lost by reporting", [
        Figure(_loop_key(kind, tasks), f"{what}, {tasks} task{'s' * (tasks > 1)}", "%",
               most_goal(0.3, "%"))
        for kind, what in (("anon", "anonymous, huge pages"), ("file", "private file mapping"))
        for tasks in (1, 4)]),
    (f"1 GiB guest, 128 MiB allocated and freed in a loop for {CHURN_SECONDS} s", [
        Figure("reports", "blocks reported", "", NO_MORE),
        Figure("discarded", "memory discarded by the host", "MiB", NO_MORE),
    ]),
    ("1 GiB guest, 1 CPU, -icount: 300 MiB in single free pages, reported; some more is freed", [
        Figure("latency_us", "longest wait of a real-time task", "us", ratio_goal(0.5)),
    ]),
    ("4 GiB guest, builds of a kind with pauses", [
        Figure("rss_gib_s", "memory of the host over time", "GiB s", ratio_goal(0.8)),
        Figure("mix_s", "  the time it took", "s"),
        Figure("mix_cpus_s", "  CPU time of the virtual CPUs", "s"),
    ]),
)


def watch(vm, condition, interval=0.05):
    """Return [(seconds, bytes that the host backs)] until the condition holds of them."""
    begin, samples = time.monotonic(), []
    while True:
        vm.check_alive()
        samples.append((time.monotonic() - begin, vm.resident()))
        if condition(samples):
            return samples
        time.sleep(interval)


def settle(vm):
    """Wait until nothing comes back any more, and return what the host backs."""
    def quiet(samples):
        now, size = samples[-1]
        return now > 6 and all(abs(size - then) < 2 * MIB
                               for when, then in samples if when > now - 5)
    return watch(vm, quiet, 0.25)[-1][1]


def _run_job(vm, *words):
    """Run a job of the guest to its end; return its value."""
    job = vm.agent.start(*words)
    vm.wait(lambda: job.state().state != "running", f"the guest's job {words}", 900)
    state = job.state()
    job.kill()
    if state.state != "exited":
        raise GuestFailure(f"the guest's job {words} failed: {state}")
    return state.value


def _give_back(vm, prefix, run):
    base = settle(vm)
    _run_job(vm, "touch", FREED if not prefix else FREED - 1000)
    peak = vm.resident()
    rise = peak - base

    def over(samples):
        return samples[-1][1] <= peak - rise or samples[-1][0] >= GIVE_UP
    samples = watch(vm, lambda samples: over(samples) or samples[-1][1] <= peak - ALL * rise, 0.02)

    def reached(part):
        return next((when for when, size in samples if size <= peak - part * rise), GIVE_UP)
    run[f"{prefix}most_s"], run[f"{prefix}all_s"] = reached(0.9), reached(ALL)
    run[f"{prefix}curve"] = [(when, size / MIB) for when, size in samples]


def seconds(kernel, run):
    """Fill in how soon the host has freed memory back."""
    with VM(kernel, memory=4 * GIB, balloon=REPORTING, trace=()) as vm:
        meter = Meter(vm)
        _give_back(vm, "", run)
        vm.agent.start("fragment", 1000).wait_ready()
        _give_back(vm, "fragmented_", run)
        run["seconds_others"] = meter.read()["others"]


def loops(kernel, run):
    """Fill in what reporting takes from loops of page faults, by guest instructions.

    In one boot, without the driver and with it in turn: where things lie in
    memory makes as much of a difference as reporting does.
    """
    with VM(kernel, memory=GIB, smp=1, balloon=REPORTING, trace=(),
            icount="shift=3,sleep=off") as vm:
        device = vm.bound_device()
        for kind, tasks, rounds in LOOPS:
            times = {"unbind": [], "bind": []}
            _run_job(vm, "faults", kind, 128, tasks, 1)  # the first of a kind fills the page cache
            for how in ("unbind", "bind") * LOOP_TURNS:
                vm.write_driver(how, device)
                time.sleep(4)  # all that was free before is reported once; hours for the guest
                times[how].append(_run_job(vm, "faults", kind, 128, tasks, rounds))
            off, on = (statistics.median(times[how]) for how in ("unbind", "bind"))
            run[_loop_key(kind, tasks)] = 100 * (on / off - 1)


def churn(kernel, run):
    """Fill in how much is reported, in vain, while memory is allocated and freed all the time."""
    events = (*COUNT_EVENTS, "ram_block_discard_range")
    with VM(kernel, memory=GIB, balloon=REPORTING, trace=events) as vm:
        settle(vm)
        job = vm.agent.start("churn", 128)
        before = vm.trace.snapshot()
        time.sleep(CHURN_SECONDS)
        counts = vm.trace.snapshot() - before
        job.kill()
    run["reports"] = counts.discards
    run["discarded"] = counts.discarded_bytes / MIB


def latency(kernel, run):
    """Fill in how long a pass keeps the CPU, when most free blocks were reported before."""
    with VM(kernel, memory=GIB, smp=1, balloon=REPORTING, trace=(),
            icount="shift=3,sleep=off") as vm:
        # short lists of free pages on the CPU: the allocator empties long ones in one go
        vm.agent.write("/proc/sys/vm/percpu_pagelist_high_fraction", "1000000")
        vm.agent.start("fragment", 600, 4).wait_ready()
        vm.agent.write(f"{PARAMETERS}/page_reporting_order", "0")
        time.sleep(20)
        job, longest = vm.agent.start("latency").wait_ready(), 0
        for _ in range(5):
            _run_job(vm, "touch", 16)
            job.take()  # not what starting a process costs
            time.sleep(6)
            longest = max(longest, job.take().value)
        run["latency_us"] = longest / 1000


def mix(kernel, run):
    """Fill in what a guest costs the host over time, when it works in bursts."""
    with VM(kernel, memory=4 * GIB, balloon=REPORTING, trace=()) as vm:
        settle(vm)
        meter = Meter(vm)
        job = vm.agent.start("mix", MIX_ROUNDS)
        samples = watch(vm, lambda _samples: job.state().state != "running", 0.1)
        cost = meter.read()
    run["mix_others"], run["mix_cpus_s"] = cost["others"], cost["cpus"]
    run["mix_s"] = samples[-1][0]
    run["mix_curve"] = [(when, size / MIB) for when, size in samples]
    run["rss_gib_s"] = sum((later - when) * size / GIB
                           for (when, size), (later, _) in zip(samples, samples[1:]))


MEASUREMENTS = (
    ("seconds until memory is back", seconds),
    ("page faults", loops),
    ("churn", churn),
    ("latency", latency),
    ("memory over time", mix),
)


def panels(runs_by_name):
    """Memory coming back, whole and fragmented, and the builds: the runs with the median time."""
    def lines(key, by):
        return [plot.Line(name, sorted(runs, key=lambda run: run[by])[(len(runs) - 1) // 2][key],
                          colour=colour)
                for (name, runs), colour in zip(runs_by_name, (plot.ORANGE, plot.BLUE))]
    left = "memory that backs the guest (MiB)"
    return [plot.Panel(f"{FREED} MiB freed at 0 s", lines("curve", "all_s"),
                       "seconds since the memory was freed", left),
            plot.Panel("the same in a fragmented guest", lines("fragmented_curve",
                                                               "fragmented_all_s"),
                       "seconds since the memory was freed", left),
            plot.Panel("builds with pauses", lines("mix_curve", "rss_gib_s"), "seconds", left)]
