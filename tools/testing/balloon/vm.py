#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""An interactive guest with the balloon attached, its console on this terminal.

From another terminal, with the socket that is printed at the start:
    vm.py --qmp SOCKET                  show the guest's size
    vm.py --qmp SOCKET --target 256     ask for a guest of 256 MiB, and show it move
    vm.py --qmp SOCKET --migrate        migrate the guest to nowhere, and show what was sent
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
from migration import IOTHREAD
from qmp import Qmp

DEVICE = "deflate-on-oom=on,free-page-reporting=on,free-page-hint=on,iothread=hints"
BANNER = """
  Guest of {memory} MiB with kernel {kernel} ({variant}) and a balloon:
  {device}
  Here is its console; Ctrl-A X ends it.

  From another terminal (QMP socket: {socket}):
    {program} --qmp {socket} --target {target}
    {program} --qmp {socket} --migrate

  In the guest, try:
    grep . /sys/bus/virtio/devices/*/balloon/*      the balloon, what it does, and why
    head -c 300M /dev/zero > /tmp/x; rm /tmp/x      memory used and freed:
    grep . /sys/kernel/debug/page_reporting/*       it is reported in a few seconds
    tail /dev/zero                                  out of memory: the balloon gives way first
    echo 1 > /sys/kernel/tracing/events/virtio_balloon/enable
    cat /sys/kernel/tracing/trace_pipe              then ask for another size
    rmmod virtio_balloon; insmod /modules/virtio_balloon.ko
"""


def parse(argv):
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="series", choices=kernels.VARIANTS)
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="guest RAM")
    parser.add_argument("--smp", type=int, default=2, metavar="N", help="number of CPUs")
    parser.add_argument("--device", default=DEVICE, metavar="PROPERTY=VALUE,...",
                        help="properties of the balloon device; an iothread is called hints "
                             "(default: %(default)s)")
    parser.add_argument("--qmp", metavar="SOCKET", help="talk to a guest that runs already")
    parser.add_argument("--target", type=int, metavar="MIB", help="with --qmp: the size to ask for")
    parser.add_argument("--migrate", action="store_true", help="with --qmp: migrate to nowhere")
    options = parser.parse_args(argv)
    if (options.target is not None or options.migrate) and not options.qmp:
        parser.error("--target and --migrate go with --qmp SOCKET")
    return options


def show(qmp, target):
    """Print the guest's size, after asking for another, if given."""
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


def migrate(qmp):
    """Migrate the guest to nowhere, print what that took, and let it go on."""
    qmp.command("migrate", uri="exec:cat >/dev/null")
    while True:
        now = qmp.command("query-migrate")
        if now["status"] in ("completed", "failed", "cancelled"):
            break
        time.sleep(0.1)
    print(f"migration {now['status']}")
    if now["status"] == "completed":
        print(f"{now['ram']['transferred'] / MIB:.0f} MiB sent in {now['total-time'] / 1000:.1f} s")
        qmp.command("cont")


def talk(options):
    """Do what is asked with the guest behind a QMP socket."""
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.connect(options.qmp)
        except OSError as error:
            sys.exit(f"{options.qmp}: {error.strerror}: is the guest running?")
        qmp = Qmp(sock)
        if options.migrate:
            migrate(qmp)
        else:
            show(qmp, options.target)


def interact(options):
    """Run a guest on this terminal."""
    if not os.isatty(0):
        sys.exit("vm.py needs a terminal; for scripts, use the classes in machine.py")
    balloon = dict(pair.partition("=")[::2] for pair in options.device.split(",") if pair)
    kernel = kernels.find(options.variant)
    settings = termios.tcgetattr(0)
    vm = VM(kernel, memory=options.memory * MIB, smp=options.smp, balloon=balloon, trace=(),
            append="guest.shell", interactive=True,
            extra=("-qmp", "unix:control,server=on,wait=off", *IOTHREAD))
    try:
        print(BANNER.format(memory=options.memory, kernel=kernel.release, variant=kernel.variant,
                            device=options.device, socket=vm.folder / "control",
                            program=os.path.relpath(__file__), target=options.memory // 2),
              flush=True)
        vm.launch()
        vm.wait_end()
    finally:
        vm.stop()
        termios.tcsetattr(0, termios.TCSADRAIN, settings)


def main(argv):
    """Run a guest, or talk to one."""
    options = parse(argv)
    if options.qmp:
        talk(options)
    else:
        interact(options)


if __name__ == "__main__":
    program.run(main)
