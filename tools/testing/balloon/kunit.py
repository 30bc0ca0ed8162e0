#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""kunit.py VARIANT LOG [ARGUMENT...]: run the KUnit suites inside a guest.

For kernels that have them: VARIANT=debug. Those that are built in run at boot,
those of the driver when it is loaded. LOG gets what the kernel says, without
the times, which kunit.py of the kernel reads as KTAP. ARGUMENTs are for the
kernel's command line.
"""

import re
import sys
from pathlib import Path

import kernels
import program
from machine import GIB, Machine

TIME = re.compile(r"^\[ *\d+\.\d+\] ", re.MULTILINE)
# Suites wait for what the real driver would wait for, and the guest is emulated
PATIENCE = 3600.0


def main(argv):
    """Boot, load the driver, keep the log."""
    if len(argv) < 2:
        sys.exit(__doc__)
    variant, log, *arguments = argv
    append = ["kunit.enable=1", "movablecore=256M", *arguments]
    with Machine(kernels.find(variant), memory=GIB, smp=2, trace=(), modules=(),
                 append=" ".join(append)) as vm:
        try:
            for needed in ("vhost_iotlb", "vringh"):
                vm.agent.insmod(needed)
            job = vm.agent.start("sh", "insmod /modules/virtio_balloon.ko")
            vm.wait(lambda: job.state().state != "running", "the suites to end", PATIENCE, 1)
        finally:
            text = TIME.sub("", vm.console().replace("\r", ""))
            Path(log).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    program.run(main)
