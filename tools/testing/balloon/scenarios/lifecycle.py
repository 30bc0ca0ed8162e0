# SPDX-License-Identifier: GPL-2.0
"""The driver comes and goes: bind, load, plug, reset."""

import time

from machine import GIB, MIB
from scenario import scenario
from scenarios.moving import EVERYWHERE

GONE_WITHIN = 5.0  # seconds, for an unplug while inflating
BACK_WITHIN = 10.0  # seconds from the driver's start to the target


def _check_released(run, vm, how):
    """No driver: the host has been told 0, and the guest has all its memory."""
    actual, total = vm.query_balloon(), vm.agent.memory().total
    run.check(actual == vm.memory, f"after {how} the host still counts "
              f"{vm.pages_out(actual)} pages in the balloon")
    run.check(total == vm.base_total, f"after {how} MemTotal is {total}, it was {vm.base_total}")


def _come_and_go(run, vm, size):
    device = vm.bound_device()
    vm.write_driver("unbind", device)
    _check_released(run, vm, "unbind")
    vm.write_driver("bind", device)
    vm.wait_balloon(size)
    run.check_exact(vm, size)

    vm.agent.rmmod("virtio_balloon")
    _check_released(run, vm, "rmmod")
    vm.agent.insmod("virtio_balloon")
    vm.wait_driver()
    vm.wait_balloon(size)
    run.check_exact(vm, size)


def suspend_to_ram(vm):
    """S3, and back."""
    text = "PM: suspend exit"
    before = vm.console().count(text)
    vm.agent.sh("(sleep 1; echo mem >/sys/power/state) >/dev/null 2>&1 &")
    vm.wait(lambda: vm.qmp.command("query-status")["status"] == "suspended",
            "the guest to go to sleep")
    vm.qmp.command("system_wakeup")
    # what is sent to the agent before that is lost
    vm.wait(lambda: vm.console().count(text) > before, "the guest to wake up")
    time.sleep(0.5)


@scenario("N4", "unbind and bind, rmmod and insmod, idle and inflated", EVERYWHERE)
def rebind(run):
    """No driver, no balloon; a new driver goes to the target that stands."""
    with run.vm(memory=512 * MIB) as vm:
        vm.agent.run("touch", 300)
        _come_and_go(run, vm, vm.memory)
        run.move(vm, 200 * MIB)
        _come_and_go(run, vm, 200 * MIB)
        run.move(vm, vm.memory)


def _unplug_while_inflating(run, vm):
    vm.plug_balloon()
    vm.wait_driver()
    vm.set_balloon(256 * MIB)
    vm.wait(lambda: vm.query_balloon() < vm.memory, "the balloon to start moving", interval=0)
    begin = time.monotonic()
    vm.unplug_balloon()
    took = time.monotonic() - begin
    run.check(took <= GONE_WITHIN, f"unplug took {took:.1f} s, more than {GONE_WITHIN:g}")
    vm.wait(lambda: vm.bound_device() is None, "the guest to be rid of the device")
    total = vm.agent.memory()
    run.check(total.total == vm.base_total,
              f"after the unplug MemTotal is {total.total}, it was {vm.base_total}")
    run.check(total.balloon_pages == 0, f"{total.balloon_pages} pages were not returned")


@scenario("N5", "unplugged while inflating: gone in 5 s, all pages back")
def unplug(run):
    """The device goes away in the middle of its work."""
    with run.vm(memory=2 * GIB, balloon=None, rest=False) as vm:
        for _ in range(3):
            _unplug_while_inflating(run, vm)


@scenario("N6", "reset while inflated: at the target within 10 s of the driver's start")
def reset(run):
    """The host keeps the target over a reset, the guest knows nothing of it."""
    size = 300 * MIB
    with run.vm(memory=GIB) as vm:
        run.move(vm, size)
        vm.reset()
        vm.wait_driver()
        # The host counts the old size until the new driver says otherwise: look at the pages.
        run.check_exact(vm, size, within=3 * BACK_WITHIN)
        took = vm.trace.page_time() - vm.trace.driver_ok_time()
        run.check(took <= BACK_WITHIN, f"at the target {took:.1f} s after the driver's start")
        run.move(vm, vm.memory)
