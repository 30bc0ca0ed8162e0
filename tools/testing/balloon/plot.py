# SPDX-License-Identifier: GPL-2.0
"""Line charts through gnuplot, each as SVG and as PNG.

    panel = Panel("inflate", [Line("stock", points), Line("series", points)],
                  x="time since the target was set (s)", y="balloon (MiB)")
    draw(Path("build/bench/inflate"), [panel], title="...")
"""

import shutil
import subprocess
from dataclasses import dataclass

# Okabe and Ito: told apart with every common kind of colour vision, and in print.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#777777"
_CYCLE = (ORANGE, BLUE, GREEN, PURPLE, GREY)
_TERMINALS = {
    "svg": "svg size {w},{h} font 'DejaVu Sans,13' background 'white'",
    "png": "pngcairo size {w},{h} font 'DejaVu Sans,11' background 'white'",
}


class PlotError(Exception):
    """No picture could be made; the text says what to do."""


@dataclass(frozen=True)
class Line:
    """One line of a chart: points [(x, y)]; a step line keeps each y until the next x."""

    title: str
    points: list
    colour: str = ""
    dashed: bool = False
    steps: bool = False
    width: float = 2.5


@dataclass(frozen=True)
class Panel:
    """One pair of axes; marks are (x, text) for vertical lines named at the top."""

    title: str
    lines: list
    x: str
    y: str
    marks: tuple = ()


def _quote(text):
    return "'" + text.replace("'", "''") + "'"


def _data(name, points):
    rows = "\n".join(f"{x:.6g} {y:.6g}" for x, y in points)
    return f"${name} << END\n{rows}\nEND"


def _curve(name, line, colour):
    style = "steps" if line.steps else "lines"
    return (f"${name} using 1:2 with {style} lw {line.width} lc rgb '{line.colour or colour}' "
            f"dt {2 if line.dashed else 1} title {_quote(line.title)}")


def _panel(number, panel):
    """Return the commands for one panel."""
    names = [f"d{number}_{i}" for i in range(len(panel.lines))]
    top = max((y for line in panel.lines for _x, y in line.points), default=0) or 1
    right = max((x for line in panel.lines for x, _y in line.points), default=0) or 1
    commands = [_data(name, line.points) for name, line in zip(names, panel.lines)]
    commands += [
        "unset label", "unset arrow", f"set title {_quote(panel.title)}",
        f"set xlabel {_quote(panel.x)}", f"set ylabel {_quote(panel.y)}",
        f"set xrange [0:{right * 1.02:g}]", f"set yrange [0:{top * 1.1:g}]",
    ]
    for x, text in panel.marks:
        commands += [
            f"set arrow from first {x:g}, graph 0 to first {x:g}, graph 1 nohead "
            f"lc rgb '{GREY}' lw 0.8 dt 3",
            f"set label {_quote(text)} at first {x:g}, graph 0.965 offset character 0.4,0 "
            f"tc rgb '{GREY}'",
        ]
    curves = [_curve(name, line, _CYCLE[i % len(_CYCLE)])
              for i, (name, line) in enumerate(zip(names, panel.lines))]
    return [*commands, "plot " + ", \\\n  ".join(curves)]


def _script(kind, path, panels, title, size):
    width, height = size
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    commands = [
        "set terminal " + _TERMINALS[kind].format(w=width, h=height),
        f"set output {_quote(str(path))}", "set encoding utf8",
        "set termoption noenhanced",
        "set grid lc rgb '#dddddd' lw 0.8", "set border 3", "set tics nomirror out",
        "set key below center horizontal samplen 2.5 width 1 spacing 1.3",
        "set xlabel offset 0,-0.2", "set bmargin 6.5",
        f"set multiplot layout {rows},{columns} title {_quote(title)} font ',15' noenhanced",
    ]
    for number, panel in enumerate(panels):
        commands += _panel(number, panel)
    return "\n".join([*commands, "unset multiplot"]) + "\n"


def draw(stem, panels, title, size=(1000, 560)):
    """Write stem.svg and stem.png, two panels a row, and return their paths."""
    if not shutil.which("gnuplot"):
        raise PlotError("gnuplot is not installed; run: apt-get install gnuplot-nox")
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind in _TERMINALS:
        path = stem.with_name(f"{stem.name}.{kind}")
        done = subprocess.run(["gnuplot", "-"], input=_script(kind, path, panels, title, size),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise PlotError(f"gnuplot could not draw {path}: {done.stderr.strip()[-500:]}")
        paths.append(path)
    return paths
