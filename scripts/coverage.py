#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""coverage.py GCOV REASONS: what the unit tests reach of the driver.

GCOV is what gcov --json-format --stdout says, a document a line. REASONS lists
what need not be reached: "FILE FUNCTION: reason", for the lines of FUNCTION,
or "FILE FUNCTION -- text of a line: reason" for one of them.
"""

import json
import os
import sys
from collections import defaultdict
from pathlib import Path

GOAL = 90
DRIVER = "drivers/virtio/"
CORE = "mm/page_reporting.c"


def read_gcov(gcov):
    """{file: {line: (function, count, branches)}}, of our own C files."""
    files = defaultdict(dict)
    for document in gcov.read_text(encoding="utf-8").splitlines():
        for file in json.loads(document)["files"]:
            path = os.path.normpath(file["file"])
            if not path.endswith(".c") or DRIVER not in path and not path.endswith(CORE):
                continue
            name = CORE if path.endswith(CORE) else path.split(DRIVER)[-1]
            for line in file["lines"]:
                counts = [branch["count"] for branch in line["branches"]]
                files[name][line["line_number"]] = (line.get("function_name", "?"),
                                                    line["count"], counts)
    return files


def read_reasons(path):
    reasons = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            place, reason = line.split(": ", 1)
            reasons[place] = reason
    return reasons


def reason_for(reasons, used, file, function, text):
    for place in (f"{file} {function} -- {text}", f"{file} {function}"):
        if place in reasons:
            used.add(place)
            return reasons[place]
    return None


def share(hit, total):
    return f"{hit:5} of {total:5} {100 * hit / total if total else 100:6.1f} %"


def summary(files):
    """Print the table; returns the share of lines in percent."""
    sums = [0, 0, 0, 0]
    print(f"{'':28} {'lines':^22}   {'branches':^22}")
    for name, lines in sorted(files.items()):
        branches = [count for _, _, counts in lines.values() for count in counts]
        row = [sum(count > 0 for _, count, _ in lines.values()), len(lines),
               sum(count > 0 for count in branches), len(branches)]
        sums = [a + b for a, b in zip(sums, row)]
        print(f"{name:28} {share(row[0], row[1])}   {share(row[2], row[3])}")
    print(f"{'in all':28} {share(sums[0], sums[1])}   {share(sums[2], sums[3])}")
    return 100 * sums[0] / sums[1]


def not_reached(files, reasons):
    """Print the lines that were not reached; returns how many have no reason."""
    used, bare = set(), 0
    for name, lines in sorted(files.items()):
        source = Path("" if name == CORE else DRIVER, name).read_text(encoding="utf-8").splitlines()
        for number, (function, count, _) in sorted(lines.items()):
            if count:
                continue
            text = source[number - 1].strip()
            reason = reason_for(reasons, used, name, function, text)
            bare += reason is None
            print(f"  {name}:{number}: {text}\n      {reason or 'NO REASON GIVEN'}")
    for place in sorted(set(reasons) - used):
        print(f"  {place}: is reached, or gone: take it off the list")
    return bare + len(set(reasons) - used)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    files = read_gcov(Path(sys.argv[1]))
    if not files:
        sys.exit("gcov has said nothing of the driver")
    lines = summary(files)
    print("\nnot reached:")
    wrong = not_reached(files, read_reasons(Path(sys.argv[2])))
    if lines < GOAL:
        print(f"error: {lines:.1f} % of lines are less than {GOAL} %", file=sys.stderr)
        wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
