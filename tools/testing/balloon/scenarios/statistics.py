# SPDX-License-Identifier: GPL-2.0
"""Statistics arrive, in time and true."""

import time

from machine import GIB, MIB
from scenario import scenario
from scenarios.moving import EVERYWHERE

STALE_AFTER = 3.0  # seconds
NAMES = frozenset((
    "stat-swap-in", "stat-swap-out", "stat-major-faults", "stat-minor-faults", "stat-free-memory",
    "stat-total-memory", "stat-available-memory", "stat-disk-caches", "stat-htlb-pgalloc",
    "stat-htlb-pgfail"))
MISSING = (1 << 64) - 1  # QEMU's value for a statistic that was not supplied


def _watch(run, vm, seconds):
    """Watch the age of the statistics for some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        vm.check_alive()
        updated, _ = vm.stats()
        age = time.time() - updated - 1  # last-update is in whole seconds
        run.check(age <= STALE_AFTER, f"the last statistics are {age:.1f} s old")
        time.sleep(0.1)


def _check_values(run, vm):
    """The last statistics agree with what the guest sees now."""
    def updated_since(start):
        return vm.stats()[0] > start
    start = vm.stats()[0]
    vm.wait(lambda: updated_since(start), "new statistics", 10)
    stats, memory = vm.stats()[1], vm.agent.memory()
    missing = sorted(name for name in NAMES if stats.get(name, MISSING) == MISSING)
    run.check(not missing, f"not supplied: {', '.join(missing)}")
    run.check(stats["stat-total-memory"] == memory.total,
              f"total is {stats['stat-total-memory']}, MemTotal {memory.total}")
    for name, field in (("free", "MemFree"), ("available", "MemAvailable")):
        told, seen = stats[f"stat-{name}-memory"], memory.info[field] * 1024
        run.check(abs(told - seen) < 32 * MIB, f"{name} is {told}, {field} {seen}")
    told, seen = stats["stat-minor-faults"], memory.vmstat["pgfault"] - memory.vmstat["pgmajfault"]
    run.check(seen * 0.5 <= told <= memory.vmstat["pgfault"],
              f"minor faults are {told}, the guest counts {seen}")


def watch_statistics(run, seconds=8, **options):
    """Poll every second from boot; idle, while moving, and after."""
    with run.vm(memory=GIB, **options) as vm:
        vm.poll_stats(1)
        vm.wait(lambda: vm.stats()[0] > 0, "the first statistics", 15)
        _watch(run, vm, seconds)
        _check_values(run, vm)
        vm.set_balloon(300 * MIB)
        _watch(run, vm, 2)
        vm.wait_balloon(300 * MIB)
        _watch(run, vm, seconds)
        _check_values(run, vm)
        run.check_exact(vm, 300 * MIB)


@scenario("N8", "statistics every second: never older than 3 s, the total exact", EVERYWHERE)
def idle(run):
    """On a guest that has nothing else to do."""
    watch_statistics(run)
