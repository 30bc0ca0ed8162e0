# SPDX-License-Identifier: GPL-2.0
"""What a scenario is, and how one run of it is judged.

    @scenario("N2", "a target above RAM and a target of 0 move nothing")
    def limits(run):
        with run.vm(memory=512 * MIB) as vm:
            ...
            run.check(vm.query_balloon() == vm.memory, "the balloon moved")

A check that fails ends the scenario. Where the base kernel's own driver is
known to fail one, the scenario declares it: stock={"cpu": "spins while out of
memory"}, and run.check(..., code="cpu"). On a stock kernel such a check is
reported as known instead, and it is an error if none of those declared failed
there, so that the declarations stay true. On other kernels they have no effect.
"""

import contextlib
import random
from dataclasses import dataclass, field

import audit
from kernels import Kernel
from machine import VM, GuestFailure
from vmtrace import Finding
from waiting import Timeout

SCENARIOS = {}
SETTLE = 3.0  # seconds


class CheckFailed(Exception):
    """The guest, the host or the trace is not as it has to be."""


@dataclass(frozen=True)
class Scenario:
    """One row of the table of scenarios."""

    name: str
    title: str
    body: callable
    variants: tuple
    stock: dict

    def run(self, kernel, seed, full):
        """Run it to its end, and return the Run; raise if anything is not as it has to be."""
        run = Run(self, kernel, seed, full)
        self.body(run)
        run.finish()
        return run


def scenario(name, title, variants=("series", "stock", "debug"), stock=None):
    """Register a function as a scenario, for the kernel variants where it means something."""
    def register(body):
        SCENARIOS[name] = Scenario(name, title, body, variants, stock or {})
        return body
    return register


@dataclass
class Run:
    """One run of one scenario on one kernel."""

    scenario: Scenario
    kernel: Kernel
    seed: int
    full: bool = False
    known: dict = field(default_factory=dict)  # code -> text: seen on stock, and declared

    def __post_init__(self):
        self.random = random.Random(self.seed)

    @contextlib.contextmanager
    def vm(self, rest=True, kills=False, **options):
        """A VM whose log and trace are audited when the body is done.

        rest: the balloon is at rest at the end, and its size is audited too.
        kills: the scenario has processes killed for lack of memory, and looks at that itself.
        """
        options.setdefault("balloon", {})
        with VM(self.kernel, **options) as vm:
            try:
                yield vm
                vm.check_alive()
            except Exception as error:
                for finding in audit.audit_log(vm.console())[:3]:
                    error.add_note(f"{finding.code}: {finding.text}")
                raise
            self._audit(vm, rest, kills)

    def _audit(self, vm, rest, kills):
        findings = [finding for finding in audit.audit_log(vm.console())
                    if not (kills and finding.code == "oom-kill")]
        if vm.trace:
            findings += audit.audit_trace(vm.trace)
            if rest:
                findings += audit.audit_rest(vm.trace, vm.pages_out(vm.query_balloon()))
        self._judge(findings)

    def _judge(self, findings):
        bad = []
        for finding in findings:
            excuse = {**audit.KNOWN_ON_STOCK, **self.scenario.stock}.get(finding.code)
            if excuse and self.kernel.is_stock:
                self.known[finding.code] = excuse
            else:
                bad.append(f"{finding.code}: {finding.text}")
        if bad:
            more = f"\n  and {len(bad) - 8} more" if len(bad) > 8 else ""
            raise CheckFailed("\n  ".join(bad[:8]) + more)

    def check(self, condition, text, code="check"):
        """Fail the scenario with text unless condition holds; code names a declared difference."""
        if not condition:
            self._judge([Finding(code, text)])

    def check_exact(self, vm, size, within=SETTLE):
        """The guest is exactly this many bytes by the host, the trace and its own counts.

        The driver may tell its size a little before it has sent the last pages: so the
        figures have to agree within some seconds.
        """
        pages, seen = vm.pages_out(size), None

        def exact():
            nonlocal seen
            seen = vm.exact()
            return seen.balanced() and seen.host == pages
        try:
            vm.wait(exact, "", within)
        except Timeout:
            self.check(False, f"the balloon should hold {pages} pages, and it is {seen}")
        resident = vm.resident()
        self.check(resident <= size, f"the host backs {resident} bytes of a guest of {size}")

    def move(self, vm, size, timeout=120.0):
        """Ask for a size, wait for it, and check it from all sides."""
        vm.set_balloon(size)
        vm.wait_balloon(size, timeout)
        self.check_exact(vm, size)

    @contextlib.contextmanager
    def survival(self, code):
        """Judge the end of the guest, or of its answers, under this code."""
        try:
            yield
        except (Timeout, GuestFailure):
            if not (self.kernel.is_stock and code in self.scenario.stock):
                raise
            self.known[code] = self.scenario.stock[code]

    def finish(self):
        """Check that what is declared for stock was seen there."""
        declared = self.scenario.stock
        if self.kernel.is_stock and declared and not set(declared) & set(self.known):
            raise CheckFailed(f"declared for stock, but not seen: {', '.join(declared)}")
