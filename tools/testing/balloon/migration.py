# SPDX-License-Identifier: GPL-2.0
"""Migrations of guests: to a file and back, or to a second QEMU."""

import shlex
from dataclasses import dataclass

from guest import Job
from machine import GIB, KIB, VM, GuestFailure

HINTING = {"free-page-hint": True, "iothread": "hints"}
IOTHREAD = ("-object", "iothread,id=hints")
# A guest whose RAM is a multiple of 256 KiB loses dirty pages under TCG with QEMU 7.2
ODD = 8 * KIB
MEMORY = GIB + ODD


@dataclass(frozen=True)
class Cost:
    """What a migration took: seconds, seconds of downtime, bytes on the wire, pages sent."""

    total_s: float
    downtime_s: float
    wire: int
    normal: int
    zero: int
    rounds: int


def begin(vm, uri, bandwidth=0, downtime_ms=400):
    """Start a migration; bandwidth in bytes a second, 0 for no limit."""
    vm.qmp.command("migrate-set-parameters", max_bandwidth=bandwidth,
                   downtime_limit=downtime_ms)
    vm.qmp.command("migrate", uri=uri)


def status(vm):
    """Return what query-migrate says."""
    return vm.qmp.command("query-migrate")


def finish(vm, timeout=300.0, watch=None):
    """Wait for the migration to complete, and return its Cost; watch() sees each status."""
    def over():
        now = status(vm)
        if watch and "ram" in now:
            watch(now)
        if now["status"] in ("failed", "cancelled"):
            raise GuestFailure(f"the migration {now['status']}: {now.get('error-desc')}")
        return now["status"] == "completed" and now
    info = vm.wait(over, "the migration to complete", timeout, 0.01)
    ram = info["ram"]
    return Cost(info["total-time"] / 1000, info["downtime"] / 1000, ram["transferred"],
                ram["normal"], ram["duplicate"], ram["dirty-sync-count"])


def to_file(vm, path, **limits):
    """Migrate to a file; the guest is stopped afterwards. Return the Cost."""
    begin(vm, f"exec:cat >{shlex.quote(str(path))}", **limits)
    return finish(vm)


class Arrival(VM):
    """The other end of a migration: a VM like the source, in which the guest arrives from uri."""

    def __init__(self, source, uri):
        options = {**vars(source.options), "extra": (*source.options.extra, "-incoming", uri)}
        super().__init__(source.kernel, **options)
        self.base_total = source.base_total

    def start(self):
        """Launch, and wait until the guest runs here."""
        self.launch()
        self.wait_arrival()

    def wait_arrival(self, timeout=120.0):
        """Wait until the guest runs here, and its agent answers."""
        self.wait(lambda: self.qmp.command("query-status")["status"] == "running",
                  "the guest to run on arrival", timeout)
        self.agent.attach()


def job_there(vm, job):
    """The job of a guest that has moved."""
    return Job(vm.agent, job.kind, job.slot)
