# SPDX-License-Identifier: GPL-2.0
"""The module on the distribution's own kernel."""

import kernels
from scenario import Run, scenario
from scenarios import lifecycle, moving, statistics


@scenario("N22", "our module on the distribution's kernel: N1, N4, N8", variants=("series",))
def distro(run):
    """The scenarios that need nothing but the module, on build/distro."""
    inner = Run(run.scenario, kernels.find("distro"), run.seed, run.full)
    for body in (moving.walk, lifecycle.rebind, statistics.idle):
        body(inner)
