# SPDX-License-Identifier: GPL-2.0
"""The guest runs out of memory while the balloon holds what would save it."""

import time

from machine import BALLOON_PAGE, GIB, MIB
from scenario import scenario
from waiting import Timeout

DOOM = {"deflate-on-oom": True}
FILE = "/dev/zram0"
LEFT = GIB // 8  # of a 1 GiB guest with a balloon of 7/8
NEAR = 4 * MIB  # of a target at the very edge
GAP_LIMIT_MS = 2000
TAKES_BACK = "takes again at once what it gave back"
REST = 3.0  # seconds without a change of the size
QUIET = 5.0  # seconds in which nothing may be taken again: well within any hold-off
STALE_AFTER = 10.0  # seconds, statistics under pressure
THRASHED = 10000  # pages read again, as a sign of it
FIRST_BACK = 1.0  # seconds until a deflate request shows


def _inflated(vm, size):
    """Ask for a size and wait until the driver tells it."""
    vm.set_balloon(size)
    vm.wait_balloon(size)


def inflated_as_far(vm, size):
    """Ask for a size, and wait for it or for the balloon to have come to rest before it."""
    vm.set_balloon(size)
    before = None
    while vm.query_balloon() not in (size, before):
        before = vm.query_balloon()
        time.sleep(REST)


def _kills(vm):
    return vm.agent.memory().vmstat["oom_kill"]


def _check_beat(run, beat):
    gap = beat.take().value
    run.check(gap <= GAP_LIMIT_MS, f"the guest stood still for {gap} ms", "starved")


def _check_held_off(run, vm, ended=()):
    """What was given back is not taken again, even when these programs end: nothing is inflated."""
    before = vm.agent.memory().vmstat["balloon_inflate"]
    for job in ended:
        job.kill()
    time.sleep(QUIET)
    taken = vm.agent.memory().vmstat["balloon_inflate"] - before
    run.check(taken == 0, f"{taken} pages were taken again within the hold-off", "retaken")


def _check_agrees(run, vm):
    """Host and guest agree on the size, and MemTotal is what it was: deflate-on-oom keeps it."""
    def agree():
        return vm.pages_out(vm.query_balloon()) == vm.agent.memory().balloon_pages
    try:
        vm.wait(agree, "", 5)
    except Timeout:
        run.check(False, f"the host counts {vm.pages_out(vm.query_balloon())} pages, the guest "
                  f"{vm.agent.memory().balloon_pages}")
    total = vm.agent.memory().total
    run.check(total == vm.base_total, f"MemTotal is {total}, it was {vm.base_total}")


def _hold(run, vm, sizes, between=None):
    """Start programs that take so many MiB each; all have to get it, and nothing is killed."""
    before = _kills(vm)
    beat = vm.agent.start("beat").wait_ready()
    jobs = [vm.agent.start("hold", size) for size in sizes]
    if between:
        between(jobs)
        beat.take()  # the host's pause is no gap of the guest's
    vm.wait(lambda: all(job.state().ready or job.state().state != "running" for job in jobs),
            "the programs to get their memory", 180)
    states = [job.state().state for job in jobs]
    held = vm.agent.memory().balloon_pages
    run.check(states == ["running"] * len(jobs),
              f"programs were killed: {states}; the balloon holds {held} pages", "killed")
    run.check(_kills(vm) == before, "the OOM killer came", "killed")
    _check_beat(run, beat)
    return jobs


def _release(run, vm, jobs):
    """With the programs gone a new target is followed at once, to the page."""
    for job in jobs:
        job.kill()
    for size in (512 * MIB, vm.memory):
        _inflated(vm, size)
        _check_agrees(run, vm)


def outlive(run, near):
    """Living on takes more than the memory that is left: it must not be taken again at once.

    near: so many bytes more may be left than asked for, by a guest at its floor.
    """
    with run.vm(memory=GIB, balloon=DOOM) as vm:
        inflated_as_far(vm, LEFT)
        size = vm.query_balloon()
        run.check(size - LEFT < near, f"the balloon left {size} bytes")
        jobs = _hold(run, vm, [600])
        _check_held_off(run, vm)
        _check_agrees(run, vm)
        _release(run, vm, jobs)


@scenario("N9", "600 MiB of a 1 GiB guest taken with a balloon of 7/8: given back, and left")
def survive(run):
    """The guest uses most of the 128 MiB itself."""
    outlive(run, NEAR)


@scenario("O1", "four programs run out of memory at once: all survive")
def storm(run):
    """Each of them finds the memory gone, and what one was given another takes."""
    with run.vm(memory=GIB, balloon=DOOM) as vm:
        inflated_as_far(vm, LEFT)
        jobs = _hold(run, vm, [150] * 4)
        _check_held_off(run, vm)
        _release(run, vm, jobs)


@scenario("O2", "out of memory in a memory cgroup: not the balloon's business")
def cgroup(run):
    """The killer comes for the group; the balloon keeps every page."""
    with run.vm(memory=GIB, balloon=DOOM, kills=True) as vm:
        _inflated(vm, 512 * MIB)
        group = "/sys/fs/cgroup/small"
        vm.agent.sh(f"echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir {group}; "
                    f"echo {64 * MIB} >{group}/memory.max")
        moved = vm.agent.memory().vmstat["balloon_deflate"]
        job = vm.agent.start("sh", f"echo $$ >{group}/cgroup.procs; exec tail /dev/zero")
        vm.wait(lambda: job.state().state == "killed", "the killer to come for the group")
        events = dict(line.split() for line in vm.agent.read(f"{group}/memory.events").splitlines())
        run.check(int(events["oom_kill"]) >= 1, f"no OOM kill in the group: {events}")
        time.sleep(1)
        moved = vm.agent.memory().vmstat["balloon_deflate"] - moved
        run.check(moved == 0, f"{moved} pages were given back for a group's sake")
        _check_agrees(run, vm)
        job.kill()
        _inflated(vm, vm.memory)


@scenario("O9", "deflate-on-oom, and a target out of reach: what was given back is left alone",
          stock={"retaken": TAKES_BACK,
                 "starved": "gives and takes while the guest stands still"})
def out_of_reach(run):
    """An inflation that never came to its end is what takes memory back."""
    with run.survival("starved"), run.vm(memory=GIB, balloon=DOOM, rest=False) as vm:
        vm.set_balloon(8 * MIB)
        vm.wait(lambda: vm.query_balloon() < 192 * MIB, "the balloon to take what is free")
        jobs = _hold(run, vm, [600])
        _check_held_off(run, vm, ended=jobs)
        _release(run, vm, [])


def _pause(vm):
    """Return a function that stops the VM once the balloon gives back, and lets it go on."""
    size = vm.query_balloon()

    def pause(_jobs):
        vm.wait(lambda: vm.query_balloon() > size, "the balloon to give back", interval=0)
        for _ in range(3):
            vm.qmp.command("stop")
            time.sleep(1)
            vm.qmp.command("cont")
            time.sleep(0.05)
    return pause


@scenario("O3", "out of memory while the host is paused: answered after cont")
def paused(run):
    """The storm is under way, and the host is away for a second, three times."""
    with run.vm(memory=GIB, balloon=DOOM) as vm:
        inflated_as_far(vm, LEFT)
        jobs = _hold(run, vm, [600], _pause(vm))
        _check_held_off(run, vm)
        _release(run, vm, jobs)


@scenario("O4", "sysrq-f: a program is killed, the guest and most of the balloon live on")
def sysrq(run):
    """The kernel tells the notifier, takes what it gives, and kills all the same."""
    with run.vm(memory=GIB, balloon=DOOM, kills=True) as vm:
        _inflated(vm, 512 * MIB)
        beat = vm.agent.start("beat").wait_ready()
        victim = vm.agent.start("hold", 100).wait_ready()
        vm.agent.write("/proc/sysrq-trigger", "f")
        vm.wait(lambda: victim.state().state == "killed", "sysrq-f to kill", 30)
        _check_beat(run, beat)
        held = vm.agent.memory().balloon_pages
        run.check(held >= vm.pages_out(512 * MIB) // 2, f"only {held} pages are left")
        _check_agrees(run, vm)
        _inflated(vm, 600 * MIB)
        _check_agrees(run, vm)
        _inflated(vm, vm.memory)


def _empty_at_kill(run, vm):
    """Allocate to the end: the killer may come, but only when the balloon has nothing left."""
    beat = vm.agent.start("beat").wait_ready()
    job = vm.agent.start("hold", vm.memory // MIB + 200)
    vm.wait(lambda: job.state().state != "running", "the guest to run out of memory", 180)
    held = vm.agent.memory().balloon_pages
    run.check(job.state().state == "killed", f"the program ended otherwise: {job.state()}")
    run.check(held == 0, f"a program was killed with {held} pages in the balloon", "retaken")
    _check_beat(run, beat)
    job.kill()


@scenario("O5", "a balloon of 1 %: emptied before the killer comes")
def nearly_empty(run):
    """More is asked for than there is: the balloon gives its all first."""
    with run.vm(memory=GIB, balloon=DOOM, kills=True) as vm:
        _inflated(vm, GIB - GIB // 100 // BALLOON_PAGE * BALLOON_PAGE)
        _empty_at_kill(run, vm)
        _check_held_off(run, vm)
        _release(run, vm, [])


@scenario("O6", "a balloon of 95 %: half of the memory comes back, and is left alone",
          stock={"retaken": TAKES_BACK, "starved": "gives too little at a time"})
def nearly_full(run):
    """2 GiB, and 102 MiB would be left of it, which is less than the kernel can do without."""
    with run.vm(memory=2 * GIB, balloon=DOOM) as vm:
        inflated_as_far(vm, 2 * GIB - 2 * GIB * 95 // 100 // BALLOON_PAGE * BALLOON_PAGE)
        run.check(vm.query_balloon() < 2 * GIB // 10, f"the guest has {vm.query_balloon()} bytes")
        jobs = _hold(run, vm, [1024])
        _check_held_off(run, vm, ended=jobs)
        _release(run, vm, [])


def cached_file(vm, mib):
    """Start reading a file of this size in a loop, and wait until the page cache is full of it.

    The file is a zram disk that was never written, which takes no memory of its own.
    """
    vm.agent.write("/sys/block/zram0/disksize", f"{mib}M")
    reader = vm.agent.start("readfile", FILE).wait_ready()
    vm.wait(lambda: reader.state().progress > mib, "the file to be read once")
    return reader


def _against_cache(run, balloon):
    size = GIB // 6 // BALLOON_PAGE * BALLOON_PAGE
    with run.vm(memory=GIB, balloon=balloon) as vm:
        reader = cached_file(vm, 1200)
        before = vm.agent.memory()
        run.check(before.info["MemFree"] < 128 * 1024, f"the cache is not full: {before.info}")
        _inflated(vm, size)
        after = vm.agent.memory()
        moved = [after.vmstat[name] - before.vmstat[name]
                 for name in ("balloon_inflate", "balloon_deflate")]
        run.check(moved == [vm.pages_out(size), 0],
                  f"{moved[0]} pages inflated and {moved[1]} deflated for {vm.pages_out(size)}")
        run.check(reader.state().state == "running", "the reader was killed")
        reader.kill()
        _inflated(vm, vm.memory)


@scenario("N11", "inflate to 1/6 of RAM against a page cache in use: no page moved twice")
def page_cache(run):
    """Without deflate-on-oom and with it: the cache gives way, the balloon does not."""
    _against_cache(run, {})
    _against_cache(run, DOOM)


def _first_back(vm, size):
    """Ask for a size; seconds from the host's request until the first memory is back."""
    before = vm.trace.snapshot().deflated
    begin = time.monotonic()
    vm.set_balloon(size)
    vm.wait(lambda: vm.trace.snapshot().deflated > before, "memory to come back", 30, 0.005)
    return time.monotonic() - begin


def _refaults(vm):
    """Pages of files that had to be read again because they had just been dropped."""
    return vm.agent.memory().vmstat["workingset_refault_file"]


@scenario("O7", "a deflate request while the guest thrashes without swap: served within 1 s")
def thrashing(run):
    """Its programs' files do not fit what is left, and every page has to be read again."""
    with run.vm(memory=GIB) as vm:
        cached_file(vm, 400).kill()
        _inflated(vm, 320 * MIB)
        vm.agent.start("fill", 40).wait_ready()
        readers = [vm.agent.start("readfile", FILE).wait_ready() for _ in range(4)]
        begin = _refaults(vm)
        vm.wait(lambda: _refaults(vm) > begin + THRASHED, "the guest to thrash", 60, 0.2)
        took = _first_back(vm, vm.memory)
        run.check(took <= FIRST_BACK, f"the first memory was back after {took:.2f} s")
        vm.wait_balloon(vm.memory)
        for reader in readers:
            reader.kill()


def _check_fresh(run, vm, end):
    """Until the end, statistics are never older than allowed; return the number of updates."""
    seen = set()
    while time.monotonic() < end:
        vm.check_alive()
        updated, _ = vm.stats()
        seen.add(updated)
        age = time.time() - updated - 1  # last-update is in whole seconds
        run.check(age <= STALE_AFTER, f"the last statistics are {age:.1f} s old", "stale")
        time.sleep(0.1)
    return len(seen)


@scenario("O8", "statistics while inflation fights a full guest: never older than 10 s")
def statistics_pressed(run):
    """N8 under pressure: memory in use by programs that go on allocating."""
    with run.vm(memory=GIB, balloon=DOOM) as vm:
        vm.poll_stats(1)
        vm.wait(lambda: vm.stats()[0] > 0, "the first statistics", 15)
        churn = vm.agent.start("churn", 200).wait_ready()
        vm.set_balloon(300 * MIB)
        updates = _check_fresh(run, vm, time.monotonic() + 20)
        run.check(updates >= 3, f"{updates} updates in 20 s")
        churn.kill()
        vm.set_balloon(vm.memory)
        vm.wait_balloon(vm.memory)
        start = vm.stats()[0]
        vm.wait(lambda: vm.stats()[0] > start, "new statistics", 10)
        told, total = vm.stats()[1]["stat-total-memory"], vm.agent.memory().total
        run.check(told == total, f"total is {told}, MemTotal {total}")
