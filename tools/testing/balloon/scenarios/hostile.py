# SPDX-License-Identifier: GPL-2.0
"""Hosts that change their mind."""

import time

from machine import BALLOON_PAGE, GIB, MIB
from scenario import scenario

DEEP = 128 * MIB
IN_FLIGHT = 128 * MIB // BALLOON_PAGE  # what may be on its way when the target changes


@scenario("X1", "a target that moves every 10 ms, then stays: exact")
def restless(run):
    """Whatever was under way, the last target counts."""
    with run.vm(memory=GIB) as vm:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            vm.check_alive()
            vm.set_balloon(run.random.randrange(256 * MIB, GIB) // BALLOON_PAGE * BALLOON_PAGE)
            time.sleep(0.01)
        size = 300 * MIB + BALLOON_PAGE
        run.move(vm, size)
        vm.set_balloon(size + BALLOON_PAGE)
        vm.set_balloon(size)
        run.move(vm, vm.memory)


def _check_turn(run, vm, begin):
    """Judge what was inflated after the target was lowered; True if that was on the way."""
    trace, full = vm.trace.update(), vm.pages_out(DEEP)
    left = full - (trace.at_target - begin)
    after_request = trace.counters.inflated - trace.at_target
    after_read = trace.counters.inflated - (trace.at_read or trace.at_target)
    run.check(after_read <= IN_FLIGHT,
              f"{after_read} pages were inflated after the driver had read the lower target")
    # The interrupt may be late: QEMU's lock is held while it discards pages.
    run.check(left < full // 4 or after_request <= left // 2,
              f"{after_request} of the {left} pages that were left were inflated "
              "after the host had lowered the target")
    return left > 0


@scenario("X2", "a lower target stops an inflation under way")
def turn_back(run):
    """Hardly a page is inflated once the host has taken its request back."""
    with run.vm(memory=2 * GIB) as vm:
        turned = 0
        for _ in range(4):
            begin = vm.trace.snapshot().inflated
            vm.set_balloon(DEEP)
            vm.wait(lambda: vm.query_balloon() < vm.memory, "the balloon to move", interval=0)
            vm.set_balloon(vm.memory)
            vm.wait_balloon(vm.memory)
            run.check_exact(vm, vm.memory)
            turned += _check_turn(run, vm, begin)
        run.check(turned, "each inflation had come to its end before the target was lowered")
