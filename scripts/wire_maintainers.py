#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Merge the project's MAINTAINERS into the one of a kernel on standard input.

wire_maintainers.py OURS: a section that the kernel has gets our file patterns; one that it has
not goes where the alphabet puts it.
"""

import re
import sys
from pathlib import Path

SECTION = re.compile(r"^(?=\S)(?!.*:\t)(.+)\n((?:[A-Z]:\t.*\n)+)", re.M)


def merge(theirs, ours):
    """Return a section's lines with our file patterns among theirs."""
    lines = theirs.splitlines()
    files = {line for line in lines + ours.splitlines() if line.startswith("F:")}
    others = [line for line in lines if not line.startswith("F:")]
    return "\n".join(others + sorted(files)) + "\n"


def add(text, name, body):
    """Return the kernel's text with one more of our sections."""
    sections = list(SECTION.finditer(text, text.index("\nMaintainers List")))
    for match in sections:
        if match[1] == name:
            return text[:match.start(2)] + merge(match[2], body) + text[match.end(2):]
    before = max((match for match in sections if match[1] < name), key=lambda match: match[1])
    return f"{text[:before.end()]}\n{name}\n{body}{text[before.end():]}"


def main(argv):
    """Merge."""
    text = sys.stdin.read()
    for name, body in SECTION.findall(Path(argv[0]).read_text(encoding="utf-8")):
        text = add(text, name, body)
    sys.stdout.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
