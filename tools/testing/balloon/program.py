# SPDX-License-Identifier: GPL-2.0
"""What the programs of this folder have in common: how they end."""

import signal
import sys

from guest import AgentError
from hostmem import HostMemoryError
from initramfs import BuildError
from kernels import KernelMissing
from machine import GuestFailure
from plot import PlotError
from qmp import QmpClosed
from waiting import Timeout

# What a user may run into; anything else is a fault of the program, and shows its traceback.
EXPECTED = (AgentError, BuildError, GuestFailure, HostMemoryError, KernelMissing, PlotError,
            QmpClosed, Timeout)


def run(main):
    """Run main(arguments), say in a line what went wrong, and exit with its status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except EXPECTED as error:
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        sys.exit(f"error: {error}{notes}")
    except KeyboardInterrupt:
        sys.exit(130)
