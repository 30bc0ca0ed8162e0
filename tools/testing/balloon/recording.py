# SPDX-License-Identifier: GPL-2.0
"""What a guest and its host look like while something is done with them, as table and chart."""

import time
from dataclasses import dataclass

import plot
from guest import Memory
from machine import BALLOON_PAGE, MIB
from waiting import Timeout

PAUSE = 0.08  # seconds between two looks at the host's memory
GUEST_PAUSE = 0.12  # and at the guest's, which costs the guest time
REST = 1.2  # seconds that each step is shown at least, once it is done
LIMIT = 120.0  # seconds after which a step has failed
HEAD = (("", "balloon", "balloon", "guest", "guest", "host", "notifi-"),
        ("step", "target", "actual", "MemTotal", "MemFree", "memory", "cations"))
WIDTHS = (34, 8, 8, 9, 9, 9, 9)
STYLES = {
    "host": ("host memory of the guest", {"colour": plot.BLUE}),
    "total": ("guest MemTotal", {"colour": plot.GREEN, "width": 1.5}),
    "used": ("guest memory in use", {"colour": plot.GREEN, "width": 1.5}),
    "available": ("guest MemAvailable", {"colour": plot.GREEN, "width": 1.5}),
    "balloon": ("balloon size", {"colour": plot.ORANGE, "steps": True, "width": 4}),
    "target": ("balloon target", {"colour": "#000000", "dashed": True, "steps": True,
                                  "width": 1.5}),
}


@dataclass(frozen=True)
class Step:
    """One step: what the table calls it, what is said before, and the action.

    The action takes the VM, begins something in the guest or at the host, and returns a
    function that tells whether it is done.
    """

    name: str
    words: str
    action: callable


def to_mib(size):
    """Bytes in whole MiB."""
    return round(size / MIB)


def table(rows):
    """Steps as text; sizes in MiB."""
    def text(row):
        cells = [str(row[0]).ljust(WIDTHS[0])]
        return "".join(cells + [str(c).rjust(w) for c, w in zip(row[1:], WIDTHS[1:])])
    rule = "-" * sum(WIDTHS)
    return "\n".join([text(HEAD[0]).rstrip(), text(HEAD[1]), rule, *map(text, rows)])


class Recording:
    """One guest, and what was seen of it; times are in seconds since the recording began."""

    def __init__(self, vm):
        self.vm = vm
        self.begin = time.time()  # the clock of the trace's time stamps
        self.seen = {name: [] for name in ("host", "total", "used", "available")}
        self.memory = None
        self.marks = []
        self.rows = []

    def _now(self):
        return time.time() - self.begin

    def _note(self, name, size):
        self.seen[name].append((self._now(), size / MIB))

    def _look_at_guest(self):
        self.memory = Memory(self.vm.agent.read("/proc/meminfo"))
        self._note("total", self.memory.total)
        self._note("used", self.memory.used)
        self._note("available", self.memory.info["MemAvailable"] * 1024)

    def _look(self):
        self.vm.check_alive()
        self._note("host", self.vm.resident())
        if not self.memory or self._now() - self.seen["total"][-1][0] > GUEST_PAUSE:
            self._look_at_guest()

    def _target(self):
        targets = self.vm.trace.update().targets
        return targets[-1][1] * BALLOON_PAGE if targets else 0

    def _balloon(self):
        return self.vm.memory - self.vm.query_balloon()

    def _watch(self, step, done):
        """Look until the step is done and has been shown for a moment."""
        begin = said = time.monotonic()
        rest_until = None
        while rest_until is None or time.monotonic() < rest_until:
            self._look()
            now = time.monotonic()
            if rest_until is None and done():
                rest_until = now + REST
            elif rest_until is None and now - begin > LIMIT:
                raise Timeout(f"'{step.name}' is not done after {LIMIT:.0f} s")
            elif rest_until is None and now - said > 2:
                said = now
                print(f"    ... {now - begin:.0f} s, balloon {to_mib(self._balloon())} MiB, "
                      f"the host backs {self.seen['host'][-1][1]:.0f} MiB", flush=True)
            time.sleep(PAUSE)

    def make(self, number, step):
        """Make one step, and say what it did."""
        print(f"{number}. {step.words}", flush=True)
        kicks = self.vm.trace.snapshot().kicks.total()
        self.marks.append((self._now(), str(number)))
        self._watch(step, step.action(self.vm))
        self._look_at_guest()
        kicks = self.vm.trace.snapshot().kicks.total() - kicks
        sizes = [*map(to_mib, (self._target(), self._balloon(), self.memory.total,
                               self.memory.free)), round(self.seen["host"][-1][1])]
        self.rows.append((f"{number}. {step.name}", *sizes, kicks))
        print("   -> balloon {1} MiB; the guest has {3} of {2} MiB free; the host backs {4} MiB"
              .format(*sizes), flush=True)

    def _points(self, name, trace):
        if name in self.seen:
            return self.seen[name]
        changes = trace.actual if name == "balloon" else trace.targets
        points = [(0, 0)] + [(when - self.begin, pages * BALLOON_PAGE / MIB)
                             for when, pages in changes if when > self.begin]
        return [*points, (self.seen["host"][-1][0], points[-1][1])]

    def panel(self, title, names):
        """A chart of the lines that are named, over time."""
        trace = self.vm.trace.update()
        lines = [plot.Line(STYLES[name][0], self._points(name, trace), **STYLES[name][1])
                 for name in names]
        return plot.Panel(title, lines, "time (s); the numbers at the top are the steps",
                          "memory (MiB)", tuple(self.marks))
