# SPDX-License-Identifier: GPL-2.0
"""The module on the distribution's own kernel."""

import kernels
from machine import GIB, MIB
from scenario import Run, scenario
from scenarios import lifecycle, moving, reporting, statistics


def _give_back(run):
    """As N14, at the pace of the reporting core that the distribution's kernel has."""
    with run.vm(memory=2 * GIB, balloon=reporting.REPORTING, trace=()) as vm:
        reporting.touch_and_free(run, vm, 1200 * MIB, most_within=30.0, all_within=60.0)


@scenario("N22", "our module on the distribution's kernel: N1, N4, N8, N14", variants=("series",))
def distro(run):
    """The scenarios that need nothing but the module, on build/distro."""
    inner = Run(run.scenario, kernels.find("distro"), run.seed, run.full)
    for body in (moving.walk, lifecycle.rebind, statistics.idle, _give_back):
        body(inner)
