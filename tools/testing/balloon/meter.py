# SPDX-License-Identifier: GPL-2.0
"""What a guest's work costs the host: CPU time by thread, the device's own time, other load."""

import os
import time
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)  # fields of /proc/stat: idle, iowait


def _on_cpu(schedstat):
    """Seconds that a task has run, from its schedstat file."""
    return int(schedstat.read_text(encoding="ascii").split()[0]) / 1e9


def _machine_busy():
    """Seconds that all CPUs of the host together were not idle."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(word) for word in file.readline().split()[1:9]]
    return sum(value for at, value in enumerate(fields) if at not in _IDLE) / _TICK


class Meter:
    """CPU time of QEMU's threads from the creation of this object on, in seconds."""

    def __init__(self, vm):
        self._tasks = Path(f"/proc/{vm.pid}/task")
        self._cpus = {str(cpu["thread-id"]) for cpu in vm.qmp.command("query-cpus-fast")}
        self._main = str(vm.pid)
        self._begin = self._read()
        self._busy = _machine_busy() - time.process_time()
        self._clock = time.monotonic()

    def _read(self):
        return {task.name: _on_cpu(task / "schedstat") for task in self._tasks.iterdir()}

    def read(self):
        """Return {"cpus": virtual CPUs, "main": main loop, "others": CPUs that other programs kept
        busy meanwhile, on average}."""
        spent = {task: now - self._begin.get(task, 0) for task, now in self._read().items()}
        busy = _machine_busy() - time.process_time() - self._busy
        elapsed = time.monotonic() - self._clock
        return {
            "cpus": sum(value for task, value in spent.items() if task in self._cpus),
            "main": spent[self._main],
            "others": max(busy - sum(spent.values()), 0) / elapsed,
        }


def device_time(trace_log, offset):
    """Seconds the device has spent on buffers since that offset of the trace file.

    A buffer's time runs from its virtqueue_pop to its virtqueue_fill: reading
    the page numbers, finding the memory, and the madvise calls. No driver can
    make the host do less for the same pages, so this is the floor.
    """
    total, begun = 0.0, {}
    with open(trace_log, "rb") as file:
        file.seek(offset)
        for line in file:
            stamp, _, rest = line.partition(b":")
            words = rest.split()
            if not words or words[0] not in (b"virtqueue_pop", b"virtqueue_fill"):
                continue
            when = float(stamp.partition(b"@")[2])
            element = words[4]  # name vq Q elem E
            if words[0] == b"virtqueue_pop":
                begun[element] = when
            elif element in begun:
                total += when - begun.pop(element)
    return total
