# SPDX-License-Identifier: GPL-2.0
"""The module on the distribution's own kernel."""

import kernels
from machine import GIB, MIB
from scenario import Run, scenario
from scenarios import hinting, lifecycle, moving, oom, reporting, statistics

ORDER = 9  # of the blocks that the distribution's kernel reports
BLOCK = 2 * MIB
DMA = 16 * MIB  # a zone that it does not report, being too small


def _give_back(run):
    """As N14, by the reporting core that the distribution's kernel has.

    It is slower, and reports blocks of 2 MiB only; how many stay whole is that kernel's matter.
    """
    with run.vm(memory=2 * GIB, balloon=reporting.REPORTING, trace=()) as vm:
        base, peak = reporting.use_and_free(run, vm, 1200 * MIB)
        most, _all = reporting.returned(vm, base, peak, 30.0)
        run.check(most is not None, f"90 % of {(peak - base) // MIB} MiB were not back in 30 s")

        def whole_blocks_back():
            whole = vm.agent.memory().free_at_least(ORDER) * BLOCK
            return vm.resident() <= vm.memory - whole + DMA
        vm.wait(whole_blocks_back, "the host to have back each whole block that is free", 60, 0.5)


def _outlive(run):
    """As N9, with a kernel that uses more memory itself."""
    oom.outlive(run, 64 * MIB)


def _stored(run):
    """As N12, with blocks from the page allocator, which writes zeroes to them."""
    hinting.to_file(run, 2 * hinting.SLACK)


@scenario("N22", "our module on the distribution's kernel: N1, N4, N8, N9, N12, N14",
          variants=("series",))
def distro(run):
    """The scenarios that need nothing but the module, on build/distro."""
    inner = Run(run.scenario, kernels.find("distro"), run.seed, run.full)
    for body in (moving.walk, lifecycle.rebind, statistics.idle, _outlive, _stored,
                 _give_back):
        body(inner)
