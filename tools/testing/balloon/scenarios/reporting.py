# SPDX-License-Identifier: GPL-2.0
"""Free page reporting: memory that the guest freed comes back, and nothing else changes."""

import time

from machine import GIB, MIB
from scenario import scenario
from scenarios.lifecycle import suspend_to_ram
from scenarios.statistics import watch_statistics
from vmtrace import COUNT_EVENTS, DRIVER_OK

REPORTING = {"free-page-reporting": True}
PARAMETERS = "/sys/module/page_reporting/parameters"
MOST_WITHIN, ALL_WITHIN = 5.0, 10.0  # seconds after memory was freed
# Of what was freed some stays with the guest: blocks that are smaller than those reported.
KEPT = 0.02
QUEUE = 3  # inflate, deflate, statistics, reporting
SLOW = {"slow": "returns a sixteenth of each list every two seconds"}


def settled(vm, quiet=4.5, timeout=90.0):
    """Wait until the host gets nothing more back for two periods, and return what it backs."""
    size, since = vm.resident(), time.monotonic()
    end = since + timeout
    while time.monotonic() < min(since + quiet, end):
        vm.check_alive()
        time.sleep(0.1)
        now = vm.resident()
        if now < size - MIB or now > size + 4 * MIB:
            size, since = now, time.monotonic()
    return size


def returned(vm, base, peak, timeout):
    """Watch memory come back; returns (seconds to 90 %, seconds to all) or None for each."""
    begin, most = time.monotonic(), None
    rise = peak - base
    while time.monotonic() - begin < timeout:
        vm.check_alive()
        left, now = vm.resident() - base, time.monotonic() - begin
        if most is None and left <= 0.1 * rise:
            most = now
        if left <= KEPT * rise:
            return most, now
        time.sleep(0.02)
    return most, None


def use_and_free(run, vm, size):
    """The guest uses so much memory and frees it; returns what the host backs before and then."""
    for _ in range(4):
        base = settled(vm)
        vm.agent.run("touch", size // MIB)
        peak = vm.resident()
        if peak - base >= size // 2:
            return base, peak
        # The host still backed, held in reserve, what was free before.
    run.check(False, f"the guest took only {peak - base} bytes")
    return base, peak


def touch_and_free(run, vm, size):
    """The guest uses so much memory and frees it; the host has it back soon."""
    base, peak = use_and_free(run, vm, size)
    most, everything = returned(vm, base, peak, 2 * ALL_WITHIN)
    run.check(most is not None and most <= MOST_WITHIN,
              f"90 % of {(peak - base) // MIB} MiB were back after {most} s", "slow")
    run.check(everything is not None and everything <= ALL_WITHIN,
              f"all of {(peak - base) // MIB} MiB were back after {everything} s, "
              f"{(vm.resident() - base) // MIB} MiB are missing", "slow")


@scenario("N14", "60 % of memory touched and freed: most back in 5 s, all in 10 s", stock=SLOW)
def give_back(run):
    """Free memory that is whole, and in a guest that is fragmented."""
    with run.vm(memory=2 * GIB, balloon=REPORTING, trace=COUNT_EVENTS) as vm:
        touch_and_free(run, vm, 1200 * MIB)
        vm.agent.start("fragment", 500).wait_ready()
        touch_and_free(run, vm, 1200 * MIB)


@scenario("N8-reporting", "statistics every second while free pages are reported")
def statistics(run):
    """Statistics do not queue behind reports."""
    watch_statistics(run, 4, balloon=REPORTING)


def _time_of_churn(run, balloon):
    with run.vm(memory=GIB, smp=1, balloon=balloon, trace=(), icount="shift=3,sleep=off") as vm:
        times = []
        for _ in range(3):
            job = vm.agent.start("faults", "anon", 128, 1, 60)
            vm.wait(lambda job=job: job.state().state != "running", "the loop to end", 600)
            run.check(job.state().state == "exited", f"the loop failed: {job.state()}")
            times.append(job.state().value)
            job.kill()
        return sorted(times)[1]


@scenario("N15", "128 MiB allocated and freed in a loop: reporting costs at most 1 %")
def churn(run):
    """By guest instructions: the clock of the guest counts nothing else."""
    off = _time_of_churn(run, {})
    on = _time_of_churn(run, REPORTING)
    run.check(on <= 1.01 * off, f"{off} us without reporting, {on} us with it")


def _check_poison_order(run, vm):
    """The configuration was written before DRIVER_OK, and no report came before that."""
    vm.trace.update()
    written = vm.trace.actual[0][0] if vm.trace.actual else None
    ready = next(when for when, value in vm.trace.statuses if value & DRIVER_OK)
    run.check(written is not None and written < ready,
              "poison_val was not written before DRIVER_OK")


def _filled(run, append, offered):
    """One kernel command line, and a host that knows of page poison or does not."""
    fills = not append.startswith("init_on_alloc")
    balloon = {**REPORTING, "page-poison": offered}
    with run.vm(memory=512 * MIB, balloon=balloon, trace=COUNT_EVENTS, append=append) as vm:
        job = vm.agent.start("zeroes", 200).wait_ready()
        vm.wait(lambda: job.state().progress >= 3, "the guest to use its memory again and again")
        state = job.state()
        run.check(state.value == 0, f"{state.value} words of new memory were not zero ({append})")
        job.kill()
        reports = vm.trace.snapshot().kicks[QUEUE]
        text = vm.console()
        run.check("corruption" not in text, f"{append}: the kernel found its free pages changed")
        if fills and not offered:
            run.check(not reports, f"{append}: {reports} reports to a host without page poison")
            run.check(text.count("no free page reporting") == 1,
                      f"{append}: the log does not say, once, why nothing is reported", "silent")
            return
        run.check(reports, f"{append}: nothing was reported")
        if fills:
            _check_poison_order(run, vm)


@scenario("N16", "init_on_alloc, init_on_free, page_poison: nothing is corrupted", stock={
    "silent": "does not say why nothing is reported",
})
def filled(run):
    """Free pages that hold a value keep it, or are not reported."""
    for append in ("init_on_alloc=1", "init_on_free=1", "page_poison=1"):
        for offered in (True, False):
            _filled(run, append, offered)


def _kills(vm):
    return vm.console().count("Killed process")


def _press(run, order):
    """Pressure in a small guest; order is that of reporting, None for none. OOM kills."""
    balloon = {} if order is None else REPORTING
    append = "" if order is None else (f"page_reporting.page_reporting_order={order} "
                                       "page_reporting.page_reporting_delay_ms=0")
    with run.vm(memory=256 * MIB, balloon=balloon, trace=(), append=append) as vm:
        room = vm.agent.memory().info["MemAvailable"] // 1024
        jobs = [vm.agent.start("churn", room // 2 - 14) for _ in range(2)]
        end = time.monotonic() + 8
        while time.monotonic() < end:
            vm.check_alive()
            time.sleep(0.5)
        running = [job.state().state == "running" for job in jobs]
        progress = sum(job.state().progress for job in jobs)
        run.check(all(running) and not _kills(vm),
                  f"order {order}: {_kills(vm)} processes were killed")
        run.check(progress > 4, f"order {order}: only {progress} rounds in 8 s")


@scenario("X3", "a guest of 256 MiB under pressure: reporting is no cause of OOM kills")
def small_guest(run):
    """With blocks of 4 KiB, 2 MiB and 4 MiB, as without reporting."""
    for order in (None, 0, 9, 10):
        _press(run, order)


@scenario("X4", "unbind and bind while free pages are reported", variants=("series", "debug"))
def rebind(run):
    """Nothing is lost, and a new driver reports again."""
    with run.vm(memory=GIB, balloon=REPORTING, trace=COUNT_EVENTS) as vm:
        vm.agent.write(f"{PARAMETERS}/page_reporting_order", "0")
        settled(vm)
        free = vm.agent.memory().free
        device = vm.bound_device()
        job = vm.agent.start("churn", 200)
        for _ in range(6):
            begin = time.monotonic()
            vm.write_driver("unbind", device)
            took = time.monotonic() - begin
            run.check(took <= 5, f"unbinding took {took:.1f} s")
            vm.write_driver("bind", device)
            time.sleep(run.random.uniform(0.5, 2.5))
        job.kill()
        touch_and_free(run, vm, 500 * MIB)
        # what lies on the lists of CPUs does not count as free, and leaves them bit by bit
        vm.wait(lambda: vm.agent.memory().free >= free - 24 * MIB,
                lambda: f"{(free - vm.agent.memory().free) // MIB} MiB to be free again", 30, 0.2)


@scenario("X5", "memory goes offline and comes back while free pages are reported")
def offline(run):
    """The core's marks and counts stay in step: unbinding waits until all marks are found."""
    script = ("cd /sys/devices/system/memory; "
              "for block in 5 6; do echo offline >memory$block/state; done; sleep 0.5; "
              "cat memory5/state memory6/state; "
              "for block in 5 6; do echo online_movable >memory$block/state; done")
    with run.vm(memory=GIB, balloon=REPORTING, trace=COUNT_EVENTS,
                append="movablecore=512M") as vm:
        vm.agent.write(f"{PARAMETERS}/page_reporting_order", "0")
        settled(vm)
        job = vm.agent.start("churn", 100)
        total = vm.agent.memory().total
        for _ in range(4):
            states = vm.agent.sh(script, timeout=120).split()
            run.check(states == ["offline", "offline"], f"the blocks are {states}")
            run.check(vm.agent.memory().total == total, "MemTotal is not what it was")
        job.kill()
        device = vm.bound_device()
        begin = time.monotonic()
        vm.write_driver("unbind", device)
        took = time.monotonic() - begin
        run.check(took <= 5, f"unbinding took {took:.1f} s")
        vm.write_driver("bind", device)
        touch_and_free(run, vm, 400 * MIB)


@scenario("N7-reporting", "suspended to RAM while free pages are reported: goes on after", stock={
    **SLOW, "kick-before-driver-ok-2": "notifies the statistics queue before DRIVER_OK"})
def suspend(run):
    """Twice, with a process that frees and allocates."""
    with run.vm(memory=GIB, balloon=REPORTING, trace=COUNT_EVENTS) as vm:
        job = vm.agent.start("churn", 100)
        for _ in range(2):
            suspend_to_ram(vm)
            vm.wait_driver()
        job.kill()
        touch_and_free(run, vm, 600 * MIB)
