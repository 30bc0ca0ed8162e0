#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show each mechanism of the balloon in a guest: say what happens, print it, and draw it.

The whole story is in build/demo/balloon.png, and each chapter of it in a picture of its own.
"""

import argparse
from dataclasses import dataclass

import kernels
import migration
import plot
import program
import vmtrace
from machine import GIB, MIB, VM, GuestFailure, past_stale_code
from recording import Recording, Step, table, to_mib

MEMORY = GIB
USED = 600  # MiB that the program in the guest writes to
SPEED = 200 * 1000 * 1000  # bytes a second that a migration may send


@dataclass(frozen=True)
class Chapter:
    """What is shown on one guest: device are the properties of its balloon, lines what is drawn."""

    name: str
    title: str
    device: dict
    lines: tuple
    steps: tuple


def look(_vm):
    """Do nothing but watch."""
    return lambda: True


def use(mib):
    """A program in the guest writes to that much memory, and ends."""
    def action(vm):
        job = vm.agent.start("touch", mib)

        def done():
            now = job.state()
            if now.state == "running":
                return False
            job.kill()
            if now.code:
                raise GuestFailure(f"the program in the guest ended with {now.code}: it could "
                                   f"not write to {mib} MiB")
            return True
        return done
    return action


def balloon(mib):
    """The host asks for a balloon of that size."""
    def action(vm):
        size = vm.memory - mib * MIB
        vm.set_balloon(size)
        return lambda: vm.query_balloon() == size
    return action


def wait_balloon(mib):
    """Watch until the balloon has that size."""
    return lambda vm: lambda: vm.query_balloon() == vm.memory - mib * MIB


def wait_host(mib):
    """Watch until the host backs less than that."""
    return lambda vm: lambda: vm.resident() < mib * MIB


CHAPTERS = (
    Chapter("inflate", "Inflate and deflate", {}, ("host", "total", "balloon", "target"), (
        Step("start", "The guest has 1 GiB and its balloon is empty. The host backs only what "
             "the guest has touched so far.", look),
        Step(f"guest uses and frees {USED} MiB", f"A program in the guest writes to {USED} MiB "
             "and ends. The memory is free again, but the host still backs it.", use(USED)),
        Step("balloon to 256 MiB", "The host asks for a balloon of 256 MiB: the driver takes "
             "free pages from the guest and gives them to the host.", balloon(256)),
        Step("balloon to 768 MiB", "512 MiB more: a quarter of the guest is left, and its "
             "MemTotal shrinks along.", balloon(768)),
        Step("balloon to 384 MiB", "Now back: 384 MiB return to the guest. The host backs them "
             "only when they are touched, so its memory stays low.", balloon(384)),
        Step("balloon to 0", "The balloon is emptied, and MemTotal is what it was.", balloon(0)),
        Step(f"guest uses and frees {USED} MiB", "The same program again: the memory is usable, "
             "and the host has to back it again.", use(USED)),
    )),
    Chapter("oom", "Deflate on OOM", {"deflate-on-oom": True},
            ("host", "available", "balloon", "target"), (
        Step("balloon to 768 MiB", "Another guest, which may take back memory when it runs out "
             "of it. The host asks for a balloon of 768 MiB.", balloon(768)),
        Step(f"guest uses and frees {USED} MiB", f"A program needs {USED} MiB, far more than is "
             "left. The balloon gives way; nobody is killed.", use(USED)),
        Step("balloon back at 768 MiB", "The program has ended. The balloon waits until memory "
             "has been plentiful for ten seconds, then takes it again.", wait_balloon(768)),
    )),
    Chapter("reporting", "Free page reporting", {"free-page-reporting": True}, ("host", "used"), (
        Step("start", "A third guest: it tells the host what memory is free. Nobody asks it "
             "for a balloon.", look),
        Step(f"guest uses and frees {USED} MiB", f"A program writes to {USED} MiB and ends.",
             use(USED)),
        Step("host has it back", "Within seconds the host has the freed memory back, and the "
             "guest still may use it.", wait_host(USED // 2)),
        Step(f"guest uses and frees {USED} MiB", "The same program again finds its memory.",
             use(USED)),
        Step("host has it back", "And back once more.", wait_host(USED // 2)),
    )),
)
HINTED = "Free page hinting"


def show_chapter(kernel, chapter):
    """Make the steps of a chapter; returns (rows, panel)."""
    print(f"\n{chapter.title}", flush=True)
    with VM(kernel, memory=MEMORY, balloon=chapter.device, trace=vmtrace.COUNT_EVENTS) as vm:
        recording = Recording(vm)
        for number, step in enumerate(chapter.steps, 1):
            recording.make(number, step)
        return recording.rows, recording.panel(chapter.title, chapter.lines)


def migrate(kernel, hinting):
    """Migrate a guest that has freed its memory; returns (Cost, [(seconds, MiB sent)])."""
    with VM(kernel, memory=migration.MEMORY, balloon=migration.HINTING if hinting else {},
            extra=migration.IOTHREAD, trace=()) as vm:
        vm.agent.run("touch", USED)
        points = []

        def watch(info):
            points.append((info.get("total-time", 0) / 1000, info["ram"]["transferred"] / MIB))
        migration.begin(vm, "exec:cat >/dev/null", bandwidth=SPEED)
        return migration.finish(vm, watch=watch), [(0, 0), *points]


def show_hinting(kernel):
    """Migrate two guests, one of which says what is free; returns (lines of text, panel)."""
    print(f"\n{HINTED}\n1. Two guests have used and freed {USED} MiB and are migrated at "
          f"{SPEED // 10**6} MB/s, the second with free page hinting: it says what is free, and "
          "that is not sent.", flush=True)
    text, lines = [], []
    for name, hinting in (("without hinting", False), ("with hinting", True)):
        cost, points = past_stale_code(migrate, kernel, hinting)
        text.append(f"migration {name}: {cost.wire / MIB:.0f} MiB sent in {cost.total_s:.1f} s, "
                    f"downtime {cost.downtime_s * 1000:.0f} ms")
        print(f"   -> {text[-1]}", flush=True)
        lines.append(plot.Line(name, points))
    return text, plot.Panel(HINTED, lines, "time since the migration began (s)", "sent (MiB)")


def show(variant):
    """The whole demo on one kernel."""
    kernel = kernels.find(variant)
    print(f"Guests of {to_mib(MEMORY)} MiB with Linux {kernel.release} ({variant}); each boots in "
          "some seconds.", flush=True)
    told, panels = [], {}
    for chapter in CHAPTERS:
        rows, panels[chapter.name] = past_stale_code(show_chapter, kernel, chapter)
        told.append(f"{chapter.title}: sizes in MiB at the end of each step\n\n{table(rows)}\n")
    text, panels["hinting"] = show_hinting(kernel)
    folder, about = kernels.BUILD / "demo", f"Linux {kernel.release} ({kernel.variant})"
    for name, panel in panels.items():
        plot.draw(folder / name, [panel], about)
    whole = plot.draw(folder / "balloon", list(panels.values()),
                      f"Guests of {to_mib(MEMORY)} MiB and their balloons, {about}", (1600, 1120))
    print("", *told, HINTED, "", *text, "", sep="\n")
    for path in whole:
        print(f"wrote {path.relative_to(kernels.TOP)}")


def main(argv):
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", default="series", choices=kernels.VARIANTS,
                        help="kernel to boot (default: series)")
    options = parser.parse_args(argv)
    show(options.variant)


if __name__ == "__main__":
    program.run(main)
