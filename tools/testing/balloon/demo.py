#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Boot a guest, move its balloon step by step, say what happens, and draw it.

What is seen is written to build/demo/balloon.svg and balloon.png.
"""

import argparse
import time
from dataclasses import dataclass

import kernels
import plot
import program
import vmtrace
from guest import Memory
from machine import BALLOON_PAGE, GIB, MIB, VM, GuestFailure
from waiting import Timeout

MEMORY = GIB
USED = 600  # MiB that the program in the guest writes to
PAUSE = 0.08  # seconds between two looks at the host's memory
GUEST_PAUSE = 0.12  # and at the guest's, which costs the guest time
REST = 1.2  # seconds that each step is shown at least, once it is done
LIMIT = 120.0  # seconds after which a step has failed
HEAD = (("", "balloon", "balloon", "guest", "guest", "host", "notifi-"),
        ("step", "target", "actual", "MemTotal", "MemFree", "memory", "cations"))
WIDTHS = (34, 8, 8, 9, 9, 9, 9)


@dataclass(frozen=True)
class Step:
    """One step: what the table calls it, what is said before, and the action.

    The action begins something in the guest or at the host, and returns a
    function that tells whether it is done.
    """

    name: str
    words: str
    action: callable


def look(_vm):
    """Do nothing but watch."""
    return lambda: True


def use(mib):
    """A program in the guest writes to that much memory, and ends."""
    def action(vm):
        job = vm.agent.start("touch", mib)

        def done():
            now = job.state()
            if now.state == "running":
                return False
            job.kill()
            if now.code:
                raise GuestFailure(f"the program in the guest ended with {now.code}: it could "
                                   f"not write to {mib} MiB")
            return True
        return done
    return action


def balloon(mib):
    """The host asks for a balloon of that size."""
    def action(vm):
        size = vm.memory - mib * MIB
        vm.set_balloon(size)
        return lambda: vm.query_balloon() == size
    return action


STEPS = (
    Step("start", "The guest has 1 GiB and its balloon is empty. The host backs only what the "
         "guest has touched so far.", look),
    Step(f"guest uses and frees {USED} MiB", f"A program in the guest writes to {USED} MiB and "
         "ends. The memory is free again, but the host still backs it.", use(USED)),
    Step("balloon to 256 MiB", "The host asks for a balloon of 256 MiB: the driver takes free "
         "pages from the guest and gives them to the host.", balloon(256)),
    Step("balloon to 512 MiB", "256 MiB more. The guest's MemTotal shrinks along.", balloon(512)),
    Step("balloon to 768 MiB", "And 256 MiB more: a quarter of the guest is left.", balloon(768)),
    Step("balloon to 384 MiB", "Now back: 384 MiB return to the guest. The host backs them only "
         "when they are touched, so its memory stays low.", balloon(384)),
    Step("balloon to 0", "The balloon is emptied, and MemTotal is what it was.", balloon(0)),
    Step(f"guest uses and frees {USED} MiB", "The same program again: the memory is usable, and "
         "the host has to back it again.", use(USED)),
)


def to_mib(size):
    """Bytes in whole MiB."""
    return round(size / MIB)


class Demo:
    """One guest, and what was seen of it; times are in seconds since the demo began."""

    def __init__(self, vm):
        self.vm = vm
        self.begin = time.time()  # the clock of the trace's time stamps
        self.host = []  # (time, bytes that the host backs)
        self.guest = []  # (time, MemTotal, MemFree), in bytes
        self.marks = []
        self.rows = []

    def _now(self):
        return time.time() - self.begin

    def look_at_guest(self):
        """Note the guest's own account of its memory."""
        memory = Memory(self.vm.agent.read("/proc/meminfo"))
        self.guest.append((self._now(), memory.total, memory.free))

    def look(self):
        """Note what the host backs; now and then ask the guest too."""
        self.vm.check_alive()
        self.host.append((self._now(), self.vm.resident()))
        if not self.guest or self._now() - self.guest[-1][0] > GUEST_PAUSE:
            self.look_at_guest()

    def target(self):
        """Size of the balloon that the host asked for last."""
        targets = self.vm.trace.update().targets
        return targets[-1][1] * BALLOON_PAGE if targets else 0

    def balloon(self):
        """Size of the balloon."""
        return self.vm.memory - self.vm.query_balloon()

    def _watch(self, step, done):
        """Look until the step is done and has been shown for a moment."""
        begin = said = time.monotonic()
        rest_until = None
        while rest_until is None or time.monotonic() < rest_until:
            self.look()
            now = time.monotonic()
            if rest_until is None and done():
                rest_until = now + REST
            elif rest_until is None and now - begin > LIMIT:
                raise Timeout(f"'{step.name}' is not done after {LIMIT:.0f} s")
            elif rest_until is None and now - said > 2:
                said = now
                print(f"    ... {now - begin:.0f} s, balloon {to_mib(self.balloon())} MiB, "
                      f"the host backs {to_mib(self.host[-1][1])} MiB", flush=True)
            time.sleep(PAUSE)

    def run(self, number, step):
        """Make one step, and say what it did."""
        print(f"{number}. {step.words}", flush=True)
        kicks = self.vm.trace.snapshot().kicks.total()
        self.marks.append((self._now(), str(number)))
        self._watch(step, step.action(self.vm))
        self.look_at_guest()
        kicks = self.vm.trace.snapshot().kicks.total() - kicks
        sizes = [to_mib(size) for size in (self.target(), self.balloon(), *self.guest[-1][1:],
                                           self.host[-1][1])]
        self.rows.append((f"{number}. {step.name}", *sizes, kicks))
        print("   -> balloon {1} MiB; the guest has {3} of {2} MiB free; the host backs {4} MiB"
              .format(*sizes), flush=True)

    def table(self):
        """The table of all steps, as text; sizes in MiB."""
        def text(row):
            cells = [str(row[0]).ljust(WIDTHS[0])]
            return "".join(cells + [str(c).rjust(w) for c, w in zip(row[1:], WIDTHS[1:])])
        rule = "-" * sum(WIDTHS)
        return "\n".join([text(HEAD[0]).rstrip(), text(HEAD[1]), rule, *map(text, self.rows)])

    def _trace_line(self, changes):
        """A size in the trace as a line from the beginning until now."""
        points = [(0, 0)] + [(when - self.begin, pages * BALLOON_PAGE / MIB)
                             for when, pages in changes if when > self.begin]
        return [*points, (self.host[-1][0], points[-1][1])]

    def plot(self):
        """Draw balloon, target and host memory over time; returns the paths."""
        trace = self.vm.trace.update()
        lines = [
            plot.Line("host memory of the guest", [(t, size / MIB) for t, size in self.host],
                      colour=plot.BLUE),
            plot.Line("guest MemTotal", [(t, total / MIB) for t, total, _free in self.guest],
                      colour=plot.GREEN, width=1.5),
            plot.Line("balloon size", self._trace_line(trace.actual), colour=plot.ORANGE,
                      steps=True, width=4),
            plot.Line("balloon target", self._trace_line(trace.targets), colour="#000000",
                      dashed=True, steps=True, width=1.5),
        ]
        panel = plot.Panel("", lines, "time (s); the numbers at the top are the steps",
                           "memory (MiB)", tuple(self.marks))
        kernel = self.vm.kernel
        return plot.draw(kernels.BUILD / "demo" / "balloon", [panel],
                         f"A guest of {to_mib(self.vm.memory)} MiB and its balloon, Linux "
                         f"{kernel.release} ({kernel.variant})")


def show(variant):
    """The whole demo on one kernel."""
    kernel = kernels.find(variant)
    print(f"Booting a guest of {to_mib(MEMORY)} MiB with Linux {kernel.release} ({variant}), "
          "some seconds ...", flush=True)
    with VM(kernel, memory=MEMORY, balloon={}, trace=vmtrace.COUNT_EVENTS) as vm:
        demo = Demo(vm)
        for number, step in enumerate(STEPS, 1):
            demo.run(number, step)
        pictures = demo.plot()
    print(f"\nSizes in MiB at the end of each step:\n\n{demo.table()}\n")
    for path in pictures:
        print(f"wrote {path.relative_to(kernels.TOP)}")
    print("The picture shows: memory that the guest has used stays with the host until the "
          "balloon\ntakes it; it comes back to the guest as soon as the balloon shrinks, and "
          "costs the host\nnothing until the guest uses it again.")


def main(argv):
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", default="series", choices=kernels.VARIANTS,
                        help="kernel to boot (default: series)")
    options = parser.parse_args(argv)
    show(options.variant)


if __name__ == "__main__":
    program.run(main)
