# SPDX-License-Identifier: GPL-2.0
"""Free page hinting: migrations that leave out what is free."""

import time

import migration
from machine import MIB
from migration import HINTING, IOTHREAD, MEMORY
from scenario import scenario

LIVE, FREED = 8, 300  # MiB
# So many bytes a second: what is sent before the host hears of it is not much then
BANDWIDTH = 100 * MIB
# On the wire: what the guest uses, and so much for what it dirties, and for small blocks
SLACK = 48 * MIB


def _free_as_before(run, vm, free, what):
    """What was hinted is back with the guest."""
    def back():
        return vm.agent.memory().free > free - 16 * MIB
    vm.wait(back, f"the guest to have its memory back {what}", 20, 0.1)
    run.check(vm.agent.memory().free < free + 64 * MIB, "too much is free")


def _check_sums(run, vm, job):
    """The program that checks its memory goes on, and found nothing wrong."""
    start = job.state()
    vm.wait(lambda: job.state().progress > start.progress + 1, "the program to go on", 60, 0.1)
    state = job.state()
    run.check(state.state == "running" and state.value == 0,
              f"{state.value} words of live memory are not what was written; it is {state.state}")


def _prepare(vm):
    """Live memory that is checked all the time, and memory that was touched and is free."""
    sums = vm.agent.start("checksum", LIVE).wait_ready()
    vm.agent.run("touch", FREED)
    time.sleep(1)
    return sums


def _check_cost(run, cost, used, slack=SLACK):
    run.check(cost.wire <= used + slack,
              f"{cost.wire >> 20} MiB on the wire for {used >> 20} MiB in use: {cost}")


def to_file(run, slack):
    """Hinted memory is not sent, live memory is intact, both sides have their memory back."""
    with run.vm(memory=MEMORY, balloon=HINTING, extra=IOTHREAD, rest=False) as vm:
        sums = _prepare(vm)
        before = vm.agent.memory()
        path = vm.folder / "stream"
        cost = migration.to_file(vm, path, bandwidth=BANDWIDTH)
        _check_cost(run, cost, before.used, slack)
        with migration.Arrival(vm, f"exec:cat {path}") as there:
            _check_sums(run, there, migration.job_there(there, sums))
            _free_as_before(run, there, before.free, "on arrival")
            there.set_balloon(MEMORY // 2 // 4096 * 4096)
            there.wait_balloon(MEMORY // 2 // 4096 * 4096)
        vm.qmp.command("cont")
        _check_sums(run, vm, sums)
        _free_as_before(run, vm, before.free, "at the source")


@scenario("N12", "300 MiB touched and freed, migrated to a file, restored; source goes on")
def stored(run):
    """The stream is little larger than what the guest uses."""
    to_file(run, SLACK)


@scenario("N13", "a migration cancelled in the middle, and again: all back, and it works anew")
def cancelled(run):
    """The first is too slow to end; what it hinted goes back when it is cancelled."""
    with run.vm(memory=MEMORY, balloon=HINTING, extra=IOTHREAD, rest=False) as vm:
        sums = _prepare(vm)
        before = vm.agent.memory()
        for _ in range(2):
            migration.begin(vm, "exec:cat >/dev/null", bandwidth=MIB)
            vm.wait(lambda: vm.agent.memory().free < before.free - FREED * MIB,
                    "blocks to be hinted", 20, 0.05)
            vm.qmp.command("migrate_cancel")
            vm.wait(lambda: migration.status(vm)["status"] == "cancelled", "the end of it")
            _free_as_before(run, vm, before.free, "after a migration that was cancelled")
        cost = migration.to_file(vm, "/dev/null", bandwidth=BANDWIDTH)
        _check_cost(run, cost, before.used)
        vm.qmp.command("cont")
        _check_sums(run, vm, sums)
        _free_as_before(run, vm, before.free, "after the migration")
