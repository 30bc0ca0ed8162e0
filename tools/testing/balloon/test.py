#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Run the VM scenarios and print one line for each, as in TAP; the last line counts them.

Without --variant: every scenario on the series kernel, and a few on stock, to show that the
scenarios themselves are right.
"""

import argparse
import signal
import sys
import time
import traceback

import kernels
import scenarios  # pylint: disable=unused-import
from machine import past_stale_code
from scenario import SCENARIOS

ON_STOCK = ("N1", "N19", "K1")  # by default, besides everything on series


def parse(argv):
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=kernels.VARIANTS, help="run on this kernel only")
    parser.add_argument("--only", metavar="N1,N4", help="run these scenarios only")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run all of it N times")
    parser.add_argument("--full", action="store_true", help="the long form of each scenario")
    parser.add_argument("--seed", type=int, help="seed of the random choices (default: the time)")
    parser.add_argument("--list", action="store_true", help="list the scenarios and end")
    options = parser.parse_args(argv)
    if options.repeat < 1:
        parser.error("--repeat needs a number of 1 or more")
    options.only = options.only.split(",") if options.only else None
    for name in options.only or ():
        if name not in SCENARIOS:
            parser.error(f"no scenario {name}; there are: {', '.join(SCENARIOS)}")
    return options


def plan(options):
    """Return [(scenario, variant)] to run, in order."""
    rows = []
    for item in SCENARIOS.values():
        if options.only and item.name not in options.only:
            continue
        if options.variant:
            variants = [options.variant] if options.variant in item.variants else []
        else:
            variants = ["series"] + (["stock"] if item.name in ON_STOCK else [])
        rows += [(item, variant) for variant in variants]
    return rows


def describe(error):
    """Return what is worth knowing of an exception, as lines."""
    lines = str(error).splitlines() or [type(error).__name__]
    if isinstance(error, (AssertionError, TypeError, AttributeError, KeyError, ValueError)):
        lines += "".join(traceback.format_tb(error.__traceback__)).splitlines()
    return lines + getattr(error, "__notes__", [])


def run_one(item, variant, seed, full):
    """Run one scenario, print its line, and return whether it passed."""
    begin = time.monotonic()
    name = f"{item.name} {variant}"
    try:
        run = past_stale_code(item.run, kernels.find(variant), seed, full)
    except Exception as error:  # pylint: disable=broad-except  # whatever it is, it failed
        lines = describe(error)
        print(f"not ok {name}: {item.title} # {lines[0]}")
        for line in lines[1:] + [f"seed {seed}"]:
            print(f"#   {line}")
        return False
    finally:
        sys.stdout.flush()
    print(f"ok {name}: {item.title} # {time.monotonic() - begin:.1f} s")
    for code, text in sorted(run.known.items()):
        print(f"#   known on stock ({code}): {text}")
    sys.stdout.flush()
    return True


def main(argv):
    """Run what the command line asks for; the exit status says whether all passed."""
    options = parse(argv)
    if options.list:
        for item in SCENARIOS.values():
            print(f"{item.name:14} {item.title} ({', '.join(item.variants)})")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = plan(options) * options.repeat
    if not rows:
        sys.exit(f"none of these scenarios means anything on {options.variant}; see --list")
    seed = options.seed if options.seed is not None else int(time.time())
    passed = failed = 0
    for number, (item, variant) in enumerate(rows):
        if run_one(item, variant, seed + number, options.full):
            passed += 1
        else:
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
