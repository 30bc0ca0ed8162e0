# SPDX-License-Identifier: GPL-2.0
"""The programs of tools/testing/selftests/balloon, in a guest."""

import re

import initramfs
import kernels
from machine import MIB
from scenario import Run, scenario

SOURCES = kernels.TOP / "tools/testing/selftests/balloon"
ABI = kernels.TOP / "Documentation/ABI/testing/sysfs-bus-virtio-drivers-balloon"
PROGRAMS = ("attributes", "reporting", "tracing", "memory")
ALLOWED = "BALLOON_TEST_BIND=1 BALLOON_TEST_OOM=1"
LONGEST = 900.0  # seconds, for one program

OTHER_DRIVER = "the balloon has another driver, or none"
OTHER_CORE = "this kernel has another page reporting, or none"
EMPTY = "the balloon is empty"

_RESULT = re.compile(r"^(ok|not ok) \d+ (\S+)(?: # SKIP (.*))?", re.MULTILINE)
_PLAN = re.compile(r"^1\.\.(\d+)$", re.MULTILINE)


def build(base="6.12"):
    """Compile the programs, static, against the base tree's harness; return their paths."""
    tree = initramfs.run([kernels.TOP / "scripts/base.sh", base]).strip()
    folder = kernels.BUILD / "selftests"
    folder.mkdir(parents=True, exist_ok=True)
    # "../kselftest_harness.h": from any folder of the base tree's selftests
    flags = ["-D_GNU_SOURCE=", f"-I{tree}/tools/testing/selftests/kselftest"]
    for name in PROGRAMS:
        initramfs.compile_static(folder / name, [SOURCES / f"{name}.c"], flags)
    return [folder / name for name in PROGRAMS]


def run_program(vm, name):
    """Run one program; returns (results, output), results being [(test, verdict)].

    The verdict is "ok", "not ok", or the reason for which the test was skipped.
    """
    setting = f"BALLOON_ABI=/files/{ABI.name} {ALLOWED}"
    output = vm.agent.sh(f"cd /files; {setting} ./{name} 2>&1; true", LONGEST)
    return [(test, reason or verdict) for verdict, test, reason in _RESULT.findall(output)], output


def _judge(run, name, results, output, excuses):
    """Every test passed, or was skipped for one of these reasons."""
    plan = _PLAN.search(output)
    run.check(plan and int(plan[1]) == len(results) > 0,
              f"{name} did not run to its end:\n{output[-1500:]}")
    bad = [f"{name}: {test}: {verdict}" for test, verdict in results
           if verdict != "ok" and verdict not in excuses]
    run.check(not bad, "\n".join([*bad[:8], output[-3000:]]))


def _all(run, excuses, memory=512 * MIB):
    """Run all programs with the balloon at half, and with an empty one."""
    files = (*build(), ABI)
    balloon = {"deflate-on-oom": True, "free-page-reporting": True}
    with run.vm(memory=memory, balloon=balloon, files=files, trace=(), kills=True) as vm:
        for size, more in ((memory, {EMPTY}), (memory // 2, set())):
            vm.set_balloon(size)
            vm.wait_balloon(size)
            for name in PROGRAMS:
                results, output = run_program(vm, name)
                _judge(run, name, results, output, excuses | more)
        vm.set_balloon(memory)
        vm.wait_balloon(memory)


@scenario("K1", "the kernel selftests: all pass; with the base kernel's driver all skip")
def selftests(run):
    """With all that a host can offer, and what the tests do only if asked."""
    _all(run, {OTHER_DRIVER, OTHER_CORE} if run.kernel.is_stock else set())


@scenario("K2", "the kernel selftests with our module on the distribution's kernel",
          variants=("series",))
def distro(run):
    """Its own page reporting is not the one that is tested."""
    inner = Run(run.scenario, kernels.find("distro"), run.seed, run.full)
    _all(inner, {OTHER_CORE})
