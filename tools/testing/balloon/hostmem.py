# SPDX-License-Identifier: GPL-2.0
"""The host's view of a guest's memory: what of it is backed, and huge pages for it."""

import contextlib
import fcntl
import re
import subprocess
from pathlib import Path

from waiting import wait_until

HUGE = 2 * 1024 * 1024
_POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


class HostMemoryError(Exception):
    """The host cannot do what a test needs; the text says what would help."""


def _mapping(pid, address):
    """Return {field: KiB} of the mapping of a process that holds address."""
    fields, found = {}, False
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as file:
        for line in file:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
            if head and found:
                break
            if head:
                found = int(head[1], 16) <= address < int(head[2], 16)
            elif found and line.rstrip().endswith("kB"):
                name, value, _unit = line.split()
                fields[name.rstrip(":")] = int(value)
    if not fields:
        raise HostMemoryError(f"process {pid} has no mapping at {address:#x}")
    return fields


def resident(pid, address):
    """Bytes of the mapping at address that the host backs, huge pages included."""
    fields = _mapping(pid, address)
    names = ("Rss", "Shared_Hugetlb", "Private_Hugetlb")
    return sum(fields.get(name, 0) for name in names) * 1024


def _set_pool(count):
    path = _POOL / "nr_hugepages"
    try:
        path.write_text(str(count), encoding="ascii")
    except PermissionError:
        subprocess.run(["sudo", "-n", "sh", "-c", f"echo {count} > {path}"],
                       capture_output=True, check=False)
    except OSError as error:
        raise HostMemoryError(f"cannot set {path}: {error}") from error


def _pool(name):
    return int((_POOL / name).read_text(encoding="ascii"))


@contextlib.contextmanager
def _pool_to_ourselves():
    """Keep other runs of this code from changing the pool; wait for one that does."""
    def lock():
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
    with open(_POOL / "nr_hugepages", "rb") as file:
        wait_until(lock, "another run to be done with the host's huge pages", 600, 0.2)
        yield


@contextlib.contextmanager
def huge_pages(count):
    """Have count free 2 MiB pages on the host while the context lasts; restore the pool after."""
    if not _POOL.is_dir():
        raise HostMemoryError(f"this host has no huge pages of 2 MiB ({_POOL} is missing)")
    with _pool_to_ourselves():
        yield from _grown_pool(count)


def _grown_pool(count):
    before = _pool("nr_hugepages")
    missing = count - _pool("free_hugepages")
    if missing > 0:
        _set_pool(before + missing)
    try:
        free = _pool("free_hugepages")
        if free < count:
            raise HostMemoryError(
                f"needs {count} free huge pages of 2 MiB on the host and got {free}: "
                "run as root, with that much memory free, or set vm.nr_hugepages yourself")
        yield
    finally:
        if _pool("nr_hugepages") != before:
            _set_pool(before)
