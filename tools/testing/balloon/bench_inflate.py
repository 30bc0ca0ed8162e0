# SPDX-License-Identifier: GPL-2.0
"""Inflate and deflate: seconds, traffic, guest instructions, huge pages, fragmentation."""

import time

import hostmem
import plot
from figures import NO_MORE, Figure, least_goal, ratio_goal
from machine import BALLOON_PAGE, GIB, MIB, VM, GuestFailure
from meter import Meter, device_time
from vmtrace import COUNT_EVENTS, PAGE_EVENTS

# What is left to the guest is far from what it needs at the least: close to that, the free pages
# on the page lists of CPUs decide, which a kernel may or may not drain. (Stock's guest panicked
# once with 384 MiB left; the series waits there until the kernel has drained them.)
FULL, SMALL = 4 * GIB, GIB
MOVED = FULL - SMALL
TOUCHED = MOVED - 300 * MIB
# One line of trace for each change of size. More is switched on for the counts only, because
# a driver that sends many small buffers would pay for each line of trace.
TIMING_EVENTS = ("virtio_balloon_to_target", "virtio_balloon_set_config")
TRAFFIC_GOAL = ratio_goal(1 / 64)


def _per_move(key, text, goal):
    """The rows about one kind of move."""
    return [Figure(f"{key}_s", text, "s", goal),
            Figure(f"{key}_device_s", "  of that, QEMU's device (the floor)", "s"),
            Figure(f"{key}_above", "  as a multiple of the floor", "x"),
            Figure(f"{key}_cpus_s", "  CPU time of the virtual CPUs", "s"),
            Figure(f"{key}_main_s", "  CPU time of QEMU's main loop", "s")]


def _traffic(key, text):
    return [Figure(f"{key}_kicks", f"{text}, notifications", "/GiB", TRAFFIC_GOAL),
            Figure(f"{key}_interrupts", f"{text}, used interrupts", "/GiB", TRAFFIC_GOAL),
            Figure(f"{key}_config", f"{text}, config reads and writes", "/GiB"),
            Figure(f"{key}_buffers", f"{text}, buffers", "/GiB")]


GROUPS = (
    (f"4 GiB guest, 2 CPUs, {MOVED // MIB} MiB moved", [
        *_per_move("untouched", "inflate, memory untouched", ratio_goal(0.7)),
        *_per_move("touched", "inflate, memory touched before", ratio_goal(0.7)),
        *_per_move("deflate", "deflate, until actual is exact", ratio_goal(0.7)),
        Figure("usable_s", "deflate, until the guest can use it", "s", ratio_goal(0.4)),
    ]),
    ("the same, traffic for each GiB moved", [*_traffic("inflate", "inflate"),
                                              *_traffic("deflate", "deflate")]),
    ("1 GiB guest, 1 CPU, -icount: guest instructions for each 4 KiB page", [
        Figure("inflate_insns", "inflate", "insns", ratio_goal(0.5)),
        Figure("deflate_insns", "deflate", "insns", ratio_goal(0.5)),
    ]),
    ("512 MiB guest on 2 MiB huge pages of the host, 384 MiB inflated", [
        Figure("groups", "aligned 2 MiB in the balloon whole", ""),
        Figure("huge_freed", "huge pages that the host got back", ""),
        Figure("huge_percent", "huge pages back for whole 2 MiB", "%", least_goal(95, "%")),
    ]),
    ("1 GiB guest, 1 CPU, 600 MiB of it fragmented, 320 MiB inflated", [
        Figure("order9_before", "free blocks of order 9 before", ""),
        Figure("order9_lost", "free blocks of order 9 lost", "", NO_MORE),
    ]),
)


def move(vm, size):
    """Move the balloon and return {s, cpus, main, others, curve}.

    s runs from the host's new target to the driver's write of the exact size,
    both as QEMU's trace dates them; curve is [(seconds, MiB in the balloon)].
    """
    want = vm.pages_out(size)
    meter = Meter(vm)
    vm.set_balloon(size)
    vm.wait_balloon(size)
    cost = meter.read()
    trace = vm.trace.update()
    begin = trace.targets[-1][0]
    told = [(when - begin, pages) for when, pages in trace.actual if when > begin]
    cost["s"] = next(when for when, pages in told if pages == want)
    cost["curve"] = [(when, pages * BALLOON_PAGE / MIB) for when, pages in told]
    return cost


def touch(vm):
    """Have the guest write to nearly all of its memory and free it.

    Two programs, so that each finds what the balloon left on the lists of its
    own CPU; huge pages, because it takes a third of the time.
    """
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    vm.agent.write(path, "always")
    jobs = [vm.agent.start("touch", TOUCHED // MIB // 2) for _ in range(2)]
    for job in jobs:
        vm.wait(lambda job=job: job.state().state != "running", "the guest to touch its memory")
        if job.state().state != "exited":
            raise GuestFailure(f"the guest could not touch its memory: {job.state()}")
        job.kill()
    vm.agent.write(path, "madvise")


# A program of the guest that looks at its free memory every 5 ms: often enough, and seldom enough
# not to slow the move. It notes the guest's clock, which is compared with the host's before,
# because an answer on a serial line has to wait while the device works.
WATCH = ("mkfifo /tmp/never; exec 3<>/tmp/never; while [ ! -e /tmp/stop ]; do "
         "read -t 0.005 -u 3 _; { read -r _ total _; read -r _ free _; } </proc/meminfo; "
         "echo $EPOCHREALTIME $total $free; done >/tmp/watch")
# Freed pages may stay on lists of each CPU, where they are usable, but not in MemFree.
USABLE_MARGIN = MOVED // 100


def clock_offset(vm):
    """Seconds by which the guest's clock is ahead, from the quickest of some exchanges."""
    exchanges = []
    for _ in range(16):
        sent = time.time()
        guest = float(vm.agent.sh("echo $EPOCHREALTIME"))
        back = time.time()
        exchanges.append((back - sent, guest - (sent + back) / 2))
    return min(exchanges)[1]


def usable_time(samples, total, free):
    """The time of the first sample with MemTotal complete and MemFree about what it ends as."""
    return next(when for when, now_total, now_free in samples
                if now_total == total and now_free >= free - USABLE_MARGIN)


def watched_deflate(vm):
    """Deflate while the guest watches its free memory; return (seconds, [(seconds, MiB])).

    The guest can use the memory when MemTotal is what it was with an empty
    balloon, and MemFree about what it is when actual is exact.
    """
    offset = clock_offset(vm)
    job = vm.agent.start("sh", WATCH)
    time.sleep(0.3)
    move(vm, FULL)
    memory = vm.agent.memory()
    vm.agent.sh("touch /tmp/stop")
    rows = vm.agent.read("/tmp/watch").splitlines()
    job.kill()
    begin = vm.trace.targets[-1][0]
    samples = [(float(when) - offset - begin, int(total) * 1024, int(free) * 1024)
               for when, total, free in (row.split() for row in rows)]
    low = min(free for _when, _total, free in samples)
    curve = [(when, (free - low) / MIB) for when, _total, free in samples if when > 0]
    return usable_time(samples, vm.base_total, memory.free), curve


def _note(run, key, cost):
    run.update({f"{key}_s": cost["s"], f"{key}_cpus_s": cost["cpus"], f"{key}_main_s": cost["main"],
                f"{key}_others": cost["others"], f"{key}_curve": cost["curve"]})


def timed(vm, run):
    """All moves with as little trace as possible."""
    _note(run, "untouched", move(vm, SMALL))
    _note(run, "deflate", move(vm, FULL))
    touch(vm)
    _note(run, "touched", move(vm, SMALL))
    run["usable_s"], run["usable_curve"] = watched_deflate(vm)


def _counted_move(vm, size):
    """Move the balloon with full trace and return (Counters, seconds of the device)."""
    before = vm.trace.snapshot()
    log = vm.folder / "trace.log"
    offset = log.stat().st_size
    move(vm, size)
    return vm.trace.snapshot() - before, device_time(log, offset)


def _note_traffic(run, key, counters):
    gib = MOVED / GIB
    run[f"{key}_kicks"] = counters.kicks.total() / gib
    run[f"{key}_interrupts"] = counters.interrupts.total() / gib
    run[f"{key}_config"] = (counters.config_reads + counters.config_writes) / gib
    run[f"{key}_buffers"] = counters.buffers.total() / gib


def counted(vm, run):
    """The same moves with the trace that counts, and dates each buffer."""
    for event in COUNT_EVENTS:
        vm.qmp.hmp(f"trace-event {event} on")
    counters, run["untouched_device_s"] = _counted_move(vm, SMALL)
    _note_traffic(run, "inflate", counters)
    counters, run["deflate_device_s"] = _counted_move(vm, FULL)
    _note_traffic(run, "deflate", counters)
    touch(vm)
    _counters, run["touched_device_s"] = _counted_move(vm, SMALL)


def seconds_and_traffic(kernel, run):
    """Fill in what the large guest shows."""
    with VM(kernel, memory=FULL, smp=2, balloon={}, trace=TIMING_EVENTS) as vm:
        timed(vm, run)
        counted(vm, run)
    for key in ("untouched", "touched", "deflate"):
        run[f"{key}_above"] = run[f"{key}_s"] / run[f"{key}_device_s"]


def _instructions(vm, size):
    """Guest instructions for each page of a move; the VM stands still before and after."""
    vm.qmp.command("stop")
    before = vm.qmp.command("query-replay")["icount"]
    pages = abs(vm.query_balloon() - size) // BALLOON_PAGE
    vm.set_balloon(size)
    vm.qmp.command("cont")
    vm.wait(lambda: vm.query_balloon() == size, "the balloon to move", interval=0.002)
    vm.qmp.command("stop")
    after = vm.qmp.command("query-replay")["icount"]
    vm.qmp.command("cont")
    return (after - before) / pages


def instructions(kernel, run):
    """Fill in what the guest has to do for each page, whatever the machine is busy with.

    QEMU counts the instructions itself. The host's work takes none of the
    guest's time, and with one CPU it is done before the driver goes on. sleep=on
    because with sleep=off an idle guest runs from timer to timer as fast as it
    can, a thousand times the instructions that an idle guest runs here.
    """
    with VM(kernel, memory=GIB, smp=1, balloon={}, trace=(), icount="shift=3,sleep=on") as vm:
        _instructions(vm, 256 * MIB)  # the first time sets up what later moves find
        _instructions(vm, GIB)
        run["inflate_insns"] = _instructions(vm, 256 * MIB)
        run["deflate_insns"] = _instructions(vm, GIB)


def huge_pages(kernel, run):
    """Fill in what a host gets back that backs the guest with 2 MiB pages."""
    memory, size = 512 * MIB, 128 * MIB
    backend = "memory-backend-memfd,hugetlb=on,hugetlbsize=2M,prealloc=on"
    with hostmem.huge_pages(memory // hostmem.HUGE + 1):
        with VM(kernel, memory=memory, balloon={}, backend=backend, trace=PAGE_EVENTS) as vm:
            before = vm.resident()
            vm.set_balloon(size)
            vm.wait_balloon(size)
            run["groups"] = vm.trace.update().held.whole_groups()
            run["huge_freed"] = (before - vm.resident()) // hostmem.HUGE
    run["huge_percent"] = 100 * run["huge_freed"] / run["groups"]


def fragmentation(kernel, run):
    """Fill in what an inflation costs a guest in large free blocks.

    Of the fragmented memory 300 MiB are free, in pieces: what the balloon takes
    beyond that has to come out of large blocks, and any more of them is waste.
    One CPU, or chance has it how much is out of reach on the lists of the other.
    """
    with VM(kernel, memory=GIB, smp=1, balloon={}, trace=()) as vm:
        # Proactive compaction would make large blocks while we count them.
        vm.agent.write("/proc/sys/vm/compaction_proactiveness", "0")
        vm.agent.start("fragment", 600).wait_ready()
        before = vm.agent.memory().free_at_least(9)
        vm.set_balloon(GIB - 320 * MIB)
        vm.wait_balloon(GIB - 320 * MIB)
        run["order9_before"] = before
        run["order9_lost"] = before - vm.agent.memory().free_at_least(9)


MEASUREMENTS = (
    ("seconds and traffic", seconds_and_traffic),
    ("guest instructions", instructions),
    ("huge pages", huge_pages),
    ("fragmentation", fragmentation),
)


def _middle(runs, key):
    """The run whose value is the median one."""
    return sorted(runs, key=lambda run: run[key])[(len(runs) - 1) // 2]


def _panel(runs_by_name, title, key, curve, start):
    """One chart: of each kernel the run with the median time, and QEMU's own part as a mark."""
    lines = []
    for (name, runs), colour in zip(runs_by_name, (plot.ORANGE, plot.BLUE)):
        points = [(0, start), *_middle(runs, f"{key}_s")[f"{curve}_curve"]]
        lines.append(plot.Line(name, points, colour=colour))
    device = "deflate" if key == "usable" else key
    floor = min(run[f"{device}_device_s"] for _name, runs in runs_by_name for run in runs)
    return plot.Panel(title, lines, "seconds since the new target", "MiB",
                      ((floor, "the device's own part"),))


def panels(runs_by_name):
    """The charts: sizes over time."""
    return [
        _panel(runs_by_name, "balloon, inflating untouched memory", "untouched", "untouched", 0),
        _panel(runs_by_name, "balloon, inflating touched memory", "touched", "touched", 0),
        _panel(runs_by_name, "balloon, deflating", "deflate", "deflate", MOVED / MIB),
        _panel(runs_by_name, "free memory in the guest, deflating", "usable", "usable", 0),
    ]
