#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""An interactive guest with the balloon attached, its console on this terminal.

From another terminal, with the socket that is printed at the start:
    vm.py --qmp SOCKET                  show the guest's size
    vm.py --qmp SOCKET --target 256     ask for a guest of 256 MiB, and show it move
"""

import argparse
import os
import socket
import sys
import termios
import time

import kernels
import program
from machine import MIB, VM
from qmp import Qmp

BANNER = """
  Guest of {memory} MiB with kernel {kernel} ({variant}) and a balloon.
  Here is its console; Ctrl-A X ends it.

  QMP socket: {socket}
  From another terminal:
    {program} --qmp {socket} --target {target}

  In the guest, try:
    grep -E 'Mem(Total|Free)' /proc/meminfo
    grep balloon /proc/vmstat
    ls /sys/bus/virtio/drivers/virtio_balloon/virtio*
    rmmod virtio_balloon; insmod /modules/virtio_balloon.ko
"""


def parse(argv):
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="series", choices=kernels.VARIANTS)
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="guest RAM")
    parser.add_argument("--smp", type=int, default=2, metavar="N", help="number of CPUs")
    parser.add_argument("--device", default="", metavar="deflate-on-oom=on,...",
                        help="properties of the balloon device")
    parser.add_argument("--qmp", metavar="SOCKET", help="talk to a guest that runs already")
    parser.add_argument("--target", type=int, metavar="MIB", help="with --qmp: the size to ask for")
    options = parser.parse_args(argv)
    if options.target is not None and not options.qmp:
        parser.error("--target goes with --qmp SOCKET")
    return options


def show(path, target):
    """Print the size of the guest behind a QMP socket, after asking for another, if given."""
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(path)
        except OSError as error:
            sys.exit(f"{path}: {error.strerror}: is the guest running?")
        qmp = Qmp(sock)
        if target is not None:
            qmp.command("balloon", value=target * MIB)
        size, quiet = None, 0
        while quiet < (20 if target is not None else 1):
            now = qmp.command("query-balloon")["actual"]
            quiet = quiet + 1 if now == size else 0
            if now != size:
                print(f"guest: {now / MIB:.1f} MiB")
            if target is None or now == target * MIB:
                break
            size = now
            time.sleep(0.1)


def interact(options):
    """Run a guest on this terminal."""
    if not os.isatty(0):
        sys.exit("vm.py needs a terminal; for scripts, use the classes in machine.py")
    balloon = dict(pair.partition("=")[::2] for pair in options.device.split(",") if pair)
    kernel = kernels.find(options.variant)
    settings = termios.tcgetattr(0)
    vm = VM(kernel, memory=options.memory * MIB, smp=options.smp, balloon=balloon, trace=(),
            append="guest.shell", interactive=True,
            extra=("-qmp", "unix:control,server=on,wait=off"))
    try:
        print(BANNER.format(memory=options.memory, kernel=kernel.release, variant=kernel.variant,
                            socket=vm.folder / "control", program=os.path.relpath(__file__),
                            target=options.memory // 2), flush=True)
        vm.launch()
        vm.wait_end()
    finally:
        vm.stop()
        termios.tcsetattr(0, termios.TCSADRAIN, settings)


def main(argv):
    """Run a guest, or talk to one."""
    options = parse(argv)
    if options.qmp:
        show(options.qmp, options.target)
    else:
        interact(options)


if __name__ == "__main__":
    program.run(main)
