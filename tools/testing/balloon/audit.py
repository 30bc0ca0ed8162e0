# SPDX-License-Identifier: GPL-2.0
"""Rules that every run keeps, whatever it tests: a clean kernel log and a clean trace."""

import re

from vmtrace import Finding

_SPLATS = re.compile("|".join((
    r"WARNING: ", r"\bBUG: ", r"kernel BUG at", r"\bOops\b", r"general protection fault",
    r"Kernel panic", r"blocked for more than \d+ seconds",
    r"self-detected stall", r"rcu_\w+ detected .*stalls", r"soft lockup", r"hard LOCKUP",
    r"possible recursive locking", r"possible circular locking", r"inconsistent lock state",
    r"suspicious RCU usage", r"sleeping function called", r"scheduling while atomic",
    r"UBSAN: ", r"kmemleak: \d+ new", r"Bad page (state|map)", r"list_(add|del) corruption",
    r"refcount_t: ", r"page allocation failure", r"unable to handle", r"workqueue lockup",
    r"init: cannot",
)))
_OOM = re.compile(r"invoked oom-killer|Out of memory: Killed|oom-kill:")

# What the base kernel's own driver is known to break. Nothing else is let through.
KNOWN_ON_STOCK = {
    "kick-before-driver-ok-2": "notifies the statistics queue before DRIVER_OK",
}


def audit_log(text):
    """Return Findings for a kernel log: splats under "splat", OOM kills under "oom-kill"."""
    findings = []
    for line in text.splitlines():
        if _SPLATS.search(line):
            findings.append(Finding("splat", line.strip()[:200]))
        elif _OOM.search(line):
            findings.append(Finding("oom-kill", line.strip()[:200]))
    return findings


def audit_trace(trace):
    """Return Findings for all of a trace up to now."""
    return list(trace.update().findings)


def audit_rest(trace, pages):
    """Return Findings for a balloon at rest with so many 4 KiB pages by the host's account.

    The last size the driver wrote, the pages it sent and the host's figure have to agree.
    """
    trace.update()
    findings = []
    told = trace.actual[-1][1] if trace.actual else 0
    if told != pages:
        findings.append(Finding("actual-differs", f"the last actual written is {told}, "
                                f"the host counts {pages} pages"))
    if trace.held.count != pages:
        findings.append(Finding("pages-differ", f"the pages sent and not taken back are "
                                f"{trace.held.count}, the host counts {pages}"))
    return findings
