#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measure two kernels in turn, by default stock and series, and print them side by side.

Leaves build/bench/NAME.txt, .json, .svg and .png.
"""

import argparse
import json
import os
import statistics
import time

import bench_hinting
import bench_inflate
import bench_oom
import bench_reporting
import figures
import kernels
import plot
import program
from machine import past_stale_code

# Name: a module with GROUPS of figures, MEASUREMENTS that fill a run with them, and panels().
BENCHMARKS = {"inflate": bench_inflate, "reporting": bench_reporting, "oom": bench_oom,
              "hinting": bench_hinting}
FOLDER = kernels.BUILD / "bench"
NOISE = 0.15  # CPUs that other programs may keep busy before seconds mean little


def measure(module, kernel):
    """Make every measurement once and return the run, {key: value}."""
    run = {}
    for title, measurement in module.MEASUREMENTS:
        begin = time.monotonic()
        past_stale_code(measurement, kernel, run)
        print(f"#   {kernel.variant}: {title}, {time.monotonic() - begin:.0f} s", flush=True)
    return run


def footer(runs_by_name, pairs):
    """Return the lines below the table: how it was measured, and how quiet the machine was."""
    others = statistics.median(value for _name, runs in runs_by_name for run in runs
                               for key, value in run.items() if key.endswith("_others"))
    lines = [f"Medians of {pairs} runs of each kernel, made in turn; the ratio is the median of "
             "the pairs' ratios.",
             f"Host: {os.cpu_count()} CPUs; other programs kept {others:.2f} of them busy."]
    if others > NOISE:
        lines.append("That is too much for the seconds to mean anything: repeat it on a quiet "
                     "machine.")
    return lines


def save(name, module, runs_by_name):
    """Write table, JSON and pictures of the runs so far, and return the table."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    names, (first, second) = zip(*runs_by_name)
    groups = [(heading, [figures.compare(figure, first, second) for figure in rows])
              for heading, rows in module.GROUPS]
    text = "\n".join([figures.table(groups, names), "", *footer(runs_by_name, len(second))]) + "\n"
    (FOLDER / f"{name}.txt").write_text(text, encoding="ascii")
    data = {"kernels": names, "figures": figures.as_json(groups), "runs": [first, second]}
    (FOLDER / f"{name}.json").write_text(json.dumps(data, indent=1), encoding="ascii")
    plot.draw(FOLDER / name, module.panels(runs_by_name),
              f"{name}: {names[0]} and {names[1]}, the run with the median time", size=(1200, 900))
    return text


def bench(name, variants, pairs):
    """Run one benchmark and print its table."""
    module = BENCHMARKS[name]
    pair = [kernels.find(variant) for variant in variants]
    names = variants if variants[0] != variants[1] else [f"{variants[0]} {n}" for n in "AB"]
    runs_by_name = [(label, []) for label in names]
    begin = time.monotonic()
    for number in range(1, pairs + 1):
        print(f"# {name}: pair {number} of {pairs}, {time.monotonic() - begin:.0f} s so far",
              flush=True)
        # Both first, so that a run that fails leaves no half pair.
        measured = [measure(module, kernel) for kernel in pair]
        for run, (_label, runs) in zip(measured, runs_by_name):
            runs.append(run)
        text = save(name, module, runs_by_name)
    print(f"\n{text}\nwrote {FOLDER.relative_to(kernels.TOP)}/{name}.txt, .json, .svg, .png")


def parse(argv):
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", help="one of: " + ", ".join(BENCHMARKS))
    parser.add_argument("--pairs", type=int, default=5, help="runs of each kernel (default: 5)")
    parser.add_argument("--kernels", nargs=2, metavar=("A", "B"), default=["stock", "series"],
                        choices=kernels.VARIANTS, help="which to compare (default: stock series)")
    options = parser.parse_args(argv)
    if options.only and options.only not in BENCHMARKS:
        parser.error(f"there is no benchmark '{options.only}'; there is: {', '.join(BENCHMARKS)}")
    if options.pairs < 1:
        parser.error("--pairs has to be 1 or more")
    return options


def main(argv):
    """Run what the command line asks for."""
    options = parse(argv)
    for name in [options.only] if options.only else BENCHMARKS:
        bench(name, options.kernels, options.pairs)


if __name__ == "__main__":
    program.run(main)
