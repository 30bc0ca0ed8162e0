# SPDX-License-Identifier: GPL-2.0
"""Every kind of ring and transport, and host memory in huge pages."""

import hostmem
from machine import GIB, MIB
from scenario import scenario
from scenarios import reporting
from scenarios.moving import walk_targets
from scenarios.statistics import watch_statistics
from vmtrace import COUNT_EVENTS


def _give_back(run, **options):
    balloon = {**options.pop("balloon", {}), **reporting.REPORTING}
    with run.vm(memory=GIB, balloon=balloon, trace=COUNT_EVENTS, **options) as vm:
        reporting.touch_and_free(run, vm, 600 * MIB)


def _walk_and_watch(run, **options):
    with run.vm(memory=512 * MIB, **options) as vm:
        vm.agent.run("touch", 300)
        walk_targets(run, vm, 3)
    watch_statistics(run, 3, **options)
    _give_back(run, **options)


def _transport(name, what, **options):
    @scenario(f"N18-{name}", f"{what}: walk, statistics, reporting", stock=reporting.SLOW)
    def transport(run):
        _walk_and_watch(run, **options)
    return transport


_transport("packed", "packed rings", balloon={"packed": True})
_transport("legacy", "legacy device", balloon={"disable-modern": True, "disable-legacy": False})
_transport("modern", "modern only device", balloon={"disable-legacy": True})
_transport("noeventidx", "no event index", balloon={"event_idx": False})
_transport("mmio", "virtio-mmio on microvm", machine="microvm,acpi=off")


@scenario("N19", "a 2 MiB hugetlb backend gets its pages back", stock={
    "hugetlb": "splits every group over two buffers, and the host frees nothing",
})
def hugetlb(run):
    """Pages of a group go to the host together, or QEMU cannot free the huge page."""
    memory, size = 512 * MIB, 128 * MIB
    with hostmem.huge_pages(memory // hostmem.HUGE):
        backend = "memory-backend-memfd,hugetlb=on,hugetlbsize=2M,prealloc=on"
        with run.vm(memory=memory, backend=backend) as vm:
            before = vm.resident()
            run.check(before == memory, f"the guest begins with {before} bytes backed")
            vm.set_balloon(size)
            vm.wait_balloon(size)
            run.check(vm.exact().balanced(), f"the counts differ: {vm.exact()}")
            groups = vm.trace.held.whole_groups()
            freed = (before - vm.resident()) // hostmem.HUGE
            run.check(groups >= 0.9 * (memory - size) // hostmem.HUGE,
                      f"only {groups} whole groups among the pages taken")
            run.check(freed >= 0.95 * groups,
                      f"the host got back {freed} huge pages of {groups} whole groups", "hugetlb")
            vm.set_balloon(memory)
            vm.wait_balloon(memory)
            run.check(vm.exact().balanced(), f"the counts differ: {vm.exact()}")
            vm.agent.run("touch", 300)
