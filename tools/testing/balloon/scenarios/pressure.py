# SPDX-License-Identifier: GPL-2.0
"""Targets that cannot be reached: the guest survives, and stays quiet."""

import time

from guest import AgentError
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


def _check_floor(run, vm):
    """The floor is tunable within bounds, in force at once, and to be seen."""
    parameter = "/sys/module/virtio_balloon/parameters/floor"
    attribute = f"/sys/bus/virtio/devices/{vm.bound_device()}/balloon/floor"
    for absurd in ("-2", "many", "99999999999", "999999999"):
        try:
            vm.agent.write(parameter, absurd)
            run.check(False, f"a floor of {absurd} was taken")
        except AgentError:
            pass
    run.check(vm.agent.read(parameter).strip() == "-1", "the default is gone")
    default = int(vm.agent.read(attribute))
    run.check(MIB < default < 32 * MIB, f"the default is {default} bytes")
    for mib, size in ((200, 200 * MIB), (0, 0), (-1, default)):
        vm.agent.write(parameter, mib)
        run.check(int(vm.agent.read(attribute)) == size, f"{mib} gives another floor")


def _check_at_floor(run, vm):
    """Inflation stops there, says why, and goes on when the floor is gone."""
    folder = f"/sys/bus/virtio/devices/{vm.bound_device()}/balloon"
    vm.agent.write("/sys/module/virtio_balloon/parameters/floor", 200)
    vm.set_balloon(128 * MIB)
    vm.wait(lambda: vm.agent.read(f"{folder}/state").strip() == "at floor", "the floor")
    run.check(_wait_settled(vm, 60), "the size never came to rest", "busy")
    available = vm.agent.memory().info["MemAvailable"] * 1024
    run.check(abs(available - 200 * MIB) < 16 * MIB, f"{available} bytes are available")
    run.check(vm.agent.read(f"{folder}/reason").strip() == "short of memory", "for another reason")
    vm.agent.write("/sys/module/virtio_balloon/parameters/floor", -1)
    vm.wait_balloon(128 * MIB, timeout=15)
    run.check(vm.agent.read(f"{folder}/state").strip() == "idle", "it is not idle at the target")


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


@scenario("O10", "the floor: set, checked, kept, shown; and no more when it is gone",
          variants=("series", "debug"))
def floor(run):
    """A floor of 200 MiB in a guest of 512, and absurd ones."""
    with run.vm(memory=512 * MIB) as vm:
        _check_floor(run, vm)
        _check_at_floor(run, vm)
        run.move(vm, vm.memory)
