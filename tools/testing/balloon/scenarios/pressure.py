# SPDX-License-Identifier: GPL-2.0
"""Targets that cannot be reached: the guest survives, and stays quiet."""

import time

from machine import MIB
from scenario import scenario

SETTLED_AFTER = 10.0  # seconds without a change of the balloon's size
CPU_LIMIT = 0.05
GAP_LIMIT_MS = 2000
LINES_LIMIT = 3


def _balloon_ticks(vm):
    """CPU time in ticks of all kworkers and kswapds: whatever works on the balloon's behalf."""
    return sum(ticks for _, _, ticks, name in vm.agent.tasks()
               if name.startswith(("kworker", "kswapd", "kcompactd")))


def _wait_settled(vm, timeout):
    """Wait until the size has not changed for a while; True if it came to that."""
    size, since = vm.query_balloon(), time.monotonic()
    deadline = since + timeout
    while time.monotonic() < deadline:
        vm.check_alive()
        now = vm.query_balloon()
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since >= SETTLED_AFTER:
            return True
        time.sleep(0.2)
    return False


def _balloon_lines(vm):
    return [text for _, text in vm.agent.dmesg() if "virtio_balloon" in text]


def _check_quiet(run, vm, beat, end):
    """From now to the end the guest answers, and the balloon costs next to nothing."""
    ticks, begin = _balloon_ticks(vm), time.monotonic()
    beat.take()
    while time.monotonic() < end:
        vm.check_alive()
        gap = beat.take().value
        run.check(gap <= GAP_LIMIT_MS, f"the guest stood still for {gap} ms", "starved")
        time.sleep(1)
    cpu = (_balloon_ticks(vm) - ticks) / 100 / (time.monotonic() - begin)
    run.check(cpu <= CPU_LIMIT, f"the balloon's threads use {cpu:.1%} of a CPU", "busy")
    lines = _balloon_lines(vm)
    run.check(len(lines) <= LINES_LIMIT, f"{len(lines)} lines in the log, as: {lines[-1:]}",
              "noisy")


def _reach_for_all(run, vm, duration):
    end = time.monotonic() + duration
    beat = vm.agent.start("beat").wait_ready()
    user = vm.agent.start("hold", 40).wait_ready()
    vm.set_balloon(8 * MIB)
    vm.wait(lambda: vm.query_balloon() < 256 * MIB, "the balloon to take what is free")
    run.check(_wait_settled(vm, duration / 2), "the size never came to rest", "busy")
    _check_quiet(run, vm, beat, end)
    run.check(user.state().state == "running", "the guest's process was killed", "oom-kill")
    run.move(vm, 256 * MIB)
    run.move(vm, vm.memory)


@scenario("N10", "an unreachable target: no panic, no OOM kill, responsive, quiet", stock={
    "starved": "takes the last page, and the guest hangs or panics",
    "oom-kill": "makes the OOM killer end processes",
    "busy": "retries five times a second, and keeps kswapd running",
    "noisy": "a line at each failed attempt",
})
def unreachable(run):
    """Deflate-on-oom is off, and the target is below what the guest needs to live."""
    duration = 600 if run.full else 60
    with run.survival("starved"), run.vm(memory=512 * MIB) as vm:
        _reach_for_all(run, vm, duration)
