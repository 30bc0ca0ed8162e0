# SPDX-License-Identifier: GPL-2.0
"""The balloon goes where the host says."""

from machine import BALLOON_PAGE, GIB, MIB
from qmp import QmpError
from scenario import scenario

EVERYWHERE = ("series", "stock", "debug", "distro", "distro-stock")


def walk_targets(run, vm, count):
    """Move to random sizes from a quarter of the RAM up, whole pages; at the end to all of it."""
    for _ in range(count):
        pages = run.random.randrange(vm.memory // 4, vm.memory) // BALLOON_PAGE
        run.move(vm, pages * BALLOON_PAGE)
    run.move(vm, vm.memory)


@scenario("N1", "five random targets, up and down, each reached to the page", EVERYWHERE)
def walk(run):
    """The host's memory is checked too: all of it was touched before."""
    with run.vm(memory=GIB) as vm:
        vm.agent.run("touch", 700)
        run.check(vm.resident() > 700 * MIB, "memory that was touched is not backed: RSS is wrong")
        walk_targets(run, vm, 5)


@scenario("N2", "a target above RAM is clamped, a target of 0 is refused, nothing moves")
def limits(run):
    """What the host cannot have, it does not get."""
    with run.vm(memory=512 * MIB) as vm:
        before = vm.trace.snapshot()
        vm.set_balloon(2 * GIB)
        try:
            vm.set_balloon(0)
            run.check(False, "QEMU took a target of 0")
        except QmpError as error:
            run.check("target" in str(error), f"unexpected error for a target of 0: {error}")
        # Had the driver begun to move, it would show in what the next real move costs.
        run.move(vm, 256 * MIB)
        moved = vm.trace.snapshot() - before
        run.check((moved.inflated, moved.deflated) == (vm.pages_out(256 * MIB), 0),
                  f"to take {vm.pages_out(256 * MIB)} pages the driver moved {moved}")
        vm.set_balloon(2 * GIB)
        vm.wait_balloon(vm.memory)
        run.check_exact(vm, vm.memory)


def _stop_on_the_way(vm, target):
    """Send the balloon off, and stop the VM; True if it was stopped on its way."""
    start = vm.query_balloon()
    vm.set_balloon(target)
    vm.wait(lambda: vm.query_balloon() != start, "the balloon to start moving", interval=0)
    vm.qmp.command("stop")
    return vm.query_balloon() not in (start, target)


@scenario("N3", "stop and cont while moving, the final size exact")
def stop_cont(run):
    """Stopped in mid-move, both ways."""
    with run.vm(memory=2 * GIB) as vm:
        caught = {256 * MIB: 0, vm.memory: 0}
        for _ in range(15):
            for target in caught:
                caught[target] += _stop_on_the_way(vm, target)
                frozen = vm.query_balloon()
                run.check(vm.qmp.command("query-status")["status"] == "paused", "not paused")
                run.check(vm.query_balloon() == frozen, "the balloon of a stopped VM moved")
                vm.qmp.command("cont")
                vm.wait_balloon(target)
                run.check_exact(vm, target)
            if min(caught.values()) >= 2:
                break
        for target, count in caught.items():
            run.check(count >= 1, f"the VM was never stopped on its way to {target >> 20} MiB")
