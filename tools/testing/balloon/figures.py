# SPDX-License-Identifier: GPL-2.0
"""Figures of two kernels side by side: medians, ratios, goals, as a table and as JSON."""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """What a figure has to be: the text for the table, and a test of (first, second, ratio)."""

    text: str
    met: callable


def ratio_goal(limit):
    """The second kernel's figure is at most this part of the first's."""
    return Goal(f"<= {limit:.3g}", lambda _first, _second, ratio:
                ratio is not None and ratio <= limit)


def least_goal(value, unit):
    """The second kernel's figure is at least this."""
    return Goal(f">= {value:g} {unit}", lambda _first, second, _ratio: second >= value)


def most_goal(value, unit):
    """The second kernel's figure is at most this."""
    return Goal(f"<= {value:g} {unit}".rstrip(), lambda _first, second, _ratio: second <= value)


NO_MORE = Goal("no more", lambda first, second, _ratio: second <= first)


@dataclass(frozen=True)
class Figure:
    """One row of the table: where its values are found, what they are, what they should be."""

    key: str
    text: str
    unit: str
    goal: Goal = None


@dataclass(frozen=True)
class Result:
    """One figure of both kernels: medians, spread from least to most, median of the ratios."""

    figure: Figure
    medians: tuple
    ranges: tuple
    ratio: float  # None where the first kernel has 0

    @property
    def met(self):
        """True or False if there is a goal, else None."""
        goal = self.figure.goal
        return goal.met(*self.medians, self.ratio) if goal else None


def compare(figure, first, second):
    """Return the Result of a figure from two equally long lists of runs, {key: value} each.

    Runs are taken in pairs that ran one after the other, so that what slows the
    machine for a while slows both; the ratio is the median of the pairs' ratios.
    """
    values = [[run[figure.key] for run in runs] for runs in (first, second)]
    ratios = [b / a for a, b in zip(*values) if a]
    return Result(figure, tuple(statistics.median(v) for v in values),
                  tuple((min(v), max(v)) for v in values),
                  statistics.median(ratios) if ratios else None)


def number(value):
    """A value with about three digits."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _row(result, width):
    figure = result.figure
    cells = [f"{figure.text:<{width}} {figure.unit:<6}"]
    for median, (low, high) in zip(result.medians, result.ranges):
        cells.append(f"{number(median):>8} {f'{number(low)}..{number(high)}':<13}")
    cells.append(f"{'-' if result.ratio is None else f'{result.ratio:.3f}':>6}")
    if figure.goal:
        cells.append(f"  {figure.goal.text:<9} {'yes' if result.met else 'NO'}")
    return " ".join(cells).rstrip()


def table(groups, names):
    """Lay out [(heading, [Result])] as text; names are those of the two kernels."""
    width = max(len(result.figure.text) for _heading, results in groups for result in results)
    head = " ".join([" " * (width + 7), *[f"{name:>8} {'from..to':<13}" for name in names],
                     f"{'ratio':>6}", f"  {'goal':<9} met"])
    lines = [head, "-" * len(head)]
    for heading, results in groups:
        lines += [heading, *[_row(result, width) for result in results], ""]
    return "\n".join(lines[:-1])


def as_json(groups):
    """The same as plain data."""
    return [{"key": result.figure.key, "text": result.figure.text, "unit": result.figure.unit,
             "medians": result.medians, "ranges": result.ranges, "ratio": result.ratio,
             "goal": result.figure.goal.text if result.figure.goal else None, "met": result.met}
            for _heading, results in groups for result in results]
