#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""spec.py DRIVER KTAP: the clauses of the specification and their tests.

DRIVER is the folder of the driver; its tests/clauses has the clauses, and its
table of feature bits says which of them concern it. KTAP is the output of the
suites. A case named vb_o1_something checks the clause VB-O1.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

CASE = re.compile(r"^    (?P<result>ok|not ok) \d+ (?P<name>vb_(?P<kind>[a-z])(?P<number>\d+)_\w+)"
                  r"(?P<skip> # SKIP)?")


@dataclass
class Clause:
    level: str
    feature: str
    text: str
    cases: dict = field(default_factory=dict)


def read_clauses(path):
    clauses = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, level, feature, text = line.split("\t")
            if name in clauses:
                sys.exit(f"{path}: {name} is there twice")
            clauses[name] = Clause(level, feature, text)
    return clauses


def add_cases(clauses, ktap):
    for line in ktap.read_text(encoding="utf-8", errors="replace").splitlines():
        match = CASE.match(line)
        if not match:
            continue
        name = f"VB-{match['kind'].upper()}{match['number']}"
        if name not in clauses:
            sys.exit(f"the case {match['name']} is about no clause; see tests/clauses")
        result = "skipped" if match["skip"] else match["result"]
        cases = clauses[name].cases
        # suites run on several kernels: a failure counts most, a skip least
        if result == "not ok" or cases.get(match["name"], "skipped") == "skipped":
            cases[match["name"]] = result


def has_feature(driver, feature):
    """Whether the driver's table of feature bits names the feature."""
    return feature == "-" or re.search(rf"^\tVIRTIO_BALLOON_F_{feature},$", driver, re.MULTILINE)


def show(name, clause, due):
    """Print the clause; returns what is wrong with it, or nothing."""
    print(f"{name:7} {clause.level:2}  {clause.text}")
    for case, result in clause.cases.items():
        print(f"{'':13}{result}  {case}")
    if clause.cases:
        bad = [case for case, result in clause.cases.items() if result != "ok"]
        return f"{name}: {', '.join(bad)}" if bad else None
    if due:
        print(f"{'':13}NO TEST")
        return f"{name} has no test"
    print(f"{'':13}later: the driver does not offer {clause.feature}")
    return None


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    clauses = read_clauses(folder / "balloon/tests/clauses")
    add_cases(clauses, Path(sys.argv[2]))
    driver = (folder / "virtio_balloon.c").read_text(encoding="utf-8")
    wrong = [show(name, clause, has_feature(driver, clause.feature))
             for name, clause in clauses.items()]
    wrong = [text for text in wrong if text]
    tested = sum(bool(clause.cases) for clause in clauses.values())
    print(f"\n{len(clauses)} clauses, {tested} with tests, {len(wrong)} wrong")
    for text in wrong:
        print(f"error: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
