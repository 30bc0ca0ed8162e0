# SPDX-License-Identifier: GPL-2.0
"""The module on the distribution's own kernel."""

import kernels
from machine import GIB, MIB
from scenario import Run, scenario
from scenarios import hinting, lifecycle, moving, oom, reporting, statistics


def _give_back(run):
    """As N14, at the pace of the reporting core that the distribution's kernel has."""
    with run.vm(memory=2 * GIB, balloon=reporting.REPORTING, trace=()) as vm:
        reporting.touch_and_free(run, vm, 1200 * MIB, most_within=30.0, all_within=60.0)


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
