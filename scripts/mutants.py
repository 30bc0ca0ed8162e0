#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""mutants.py ROOT OUT ARGS [NAME...]: do the unit tests notice faults?

Started by mutants.sh in a tree whose user-mode kernel is built. For each
mutant of ROOT/scripts/mutants.list one place of the driver is changed, the
kernel built, and started with ARGS, and if need be once more so that it fills
free pages; the mutant is caught when a case fails, the kernel complains, or it
does not come to its end. OUT gets the logs.

A mutant in the list is a line "mutant NAME FILE: what is wrong", FILE as seen
from drivers/virtio/balloon, and then lines that begin with "-" (to go), "+" (to
come) or a blank (to stay). What goes and stays has to be in FILE exactly once.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

RUN_SECONDS = 90
# A start of its own is for the suite that cares how free pages are filled
FILLING = ["page_poison=1", "kunit.filter_glob=virtio_balloon_report"]
BAD = re.compile(r"^ *not ok \d+ (?P<case>\S+)|(?P<splat>Kernel panic|BUG: |WARNING: |KASAN: )")
SUBTEST = re.compile(r"^ *# Subtest: (\S+)")
PLAN = re.compile(r"^1\.\.(\d+)$")
SUITE_OK = re.compile(r"^ok \d+ ")


@dataclass
class Mutant:
    name: str
    file: str
    why: str
    old: list = field(default_factory=list)
    new: list = field(default_factory=list)

    def apply(self, text):
        """The changed text; None if the place is not there, or not the only one."""
        old, new = "\n".join(self.old) + "\n", "\n".join(self.new)
        return text.replace(old, new + "\n" if new else "") if text.count(old) == 1 else None


def read_list(path):
    mutants = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("mutant "):
            _, name, file, why = line.split(" ", 3)
            mutants.append(Mutant(name, file.rstrip(":"), why))
        elif line[:1] in ("-", "+", " "):
            if line[0] != "+":
                mutants[-1].old.append(line[1:])
            if line[0] != "-":
                mutants[-1].new.append(line[1:])
    names = [mutant.name for mutant in mutants]
    for name in names:
        if names.count(name) > 1:
            sys.exit(f"{path}: {name} is there twice")
    return mutants


def put(path, text):
    """Write a new file, as the old one may be linked from elsewhere."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def build(log):
    with log.open("w", encoding="utf-8") as out:
        done = subprocess.run(["make", f"-j{os.cpu_count()}", "ARCH=um", "O=.kunit",
                               "CC=ccache gcc", "HOSTCC=ccache gcc"], check=False,
                              stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    return done.returncode == 0


def verdict(lines, out):
    """What the tests say: None if all is well."""
    suites = passed = 0
    subtest = "?"
    for line in lines:
        out.write(line)
        if match := SUBTEST.match(line):
            subtest = match[1]
        elif match := PLAN.match(line):
            suites = int(match[1])
        elif SUITE_OK.match(line):
            passed += 1
        elif match := BAD.search(line):
            return f"{subtest}" if match["case"] else f"{subtest} ({line.strip()[:60]})"
    if not suites or passed < suites:
        return f"{subtest} (did not end)"
    return None


def run(kernel, args, log):
    command = ["timeout", "-k", "1", str(RUN_SECONDS), kernel, *args]
    with log.open("w", encoding="utf-8") as out, \
         subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        try:
            return verdict(process.stdout, out)
        finally:
            process.terminate()


def try_mutant(mutant, driver, out, args):
    """Returns (caught, words)."""
    path = driver / mutant.file
    original = path.read_text(encoding="utf-8")
    changed = mutant.apply(original)
    if changed is None:
        return False, f"its place is not in {mutant.file}, once; bring mutants.list up to date"
    put(path, changed)
    try:
        if not build(out / f"{mutant.name}.build.log"):
            return False, f"does not compile; see {out}/{mutant.name}.build.log"
        kernel = shutil.copy(".kunit/linux", out / "linux")
        caught = run(kernel, args, out / f"{mutant.name}.log") or \
            run(kernel, args + FILLING, out / f"{mutant.name}.filling.log")
    finally:
        put(path, original)
    return bool(caught), f"caught by {caught}" if caught else "NOT CAUGHT"


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    root, out, args = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3].split()
    mutants = read_list(root / "scripts/mutants.list")
    driver = Path("drivers/virtio/balloon")
    wanted = sys.argv[4:] or [mutant.name for mutant in mutants]
    unknown = set(wanted) - {mutant.name for mutant in mutants}
    if unknown:
        sys.exit(f"no such mutant: {', '.join(sorted(unknown))}")

    trouble = run(".kunit/linux", args, out / "none.log")
    if trouble:
        sys.exit(f"the unchanged driver fails in {trouble}; see {out}/none.log")
    failed = 0
    for mutant in mutants:
        if mutant.name not in wanted:
            continue
        begin = time.monotonic()
        caught, words = try_mutant(mutant, driver, out, args)
        failed += not caught
        print(f"{'ok' if caught else 'not ok'} mutant {mutant.name}: {words}, "
              f"{time.monotonic() - begin:.0f} s # {mutant.why}", flush=True)
    print(f"{len(wanted) - failed} caught, {failed} not")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
