# SPDX-License-Identifier: GPL-2.0
"""All scenarios; importing this package registers them with scenario.SCENARIOS."""

from scenarios import (distro, hinting, hostile, lifecycle, moving, oom, pressure, reporting,
                       selftests, statistics, transports)
