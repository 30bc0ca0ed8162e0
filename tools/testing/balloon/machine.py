# SPDX-License-Identifier: GPL-2.0
"""A guest under QEMU: started, watched from both sides, and always ended.

    kernel = kernels.find("series")
    with VM(kernel, memory=512 * MIB, balloon={}) as vm:
        vm.set_balloon(256 * MIB)
        vm.wait_balloon(256 * MIB)
        print(vm.agent.memory().total, vm.resident(), vm.trace.snapshot())
"""

import ctypes
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import hostmem
import qemu
import vmtrace
from guest import Agent, AgentError
from kernels import BUILD
from qemu import BALLOON_ID, GIB, KIB, MIB  # GIB, KIB, MIB for those who import from here
from qmp import Qmp, QmpClosed
from waiting import Timeout, wait_until

__all__ = ["BALLOON_PAGE", "GIB", "KIB", "MIB", "VM", "Exact", "GuestFailure", "Machine",
           "best_accel", "past_stale_code"]

BALLOON_PAGE = 4096
KEPT_FAILURES = 20  # folders in build/failed
STALE = "Oops: int3"
TRIES = 3  # where QEMU ran stale code

_PR_SET_PDEATHSIG, _PR_SET_THP_DISABLE = 1, 41


class GuestFailure(Exception):
    """The guest or QEMU ended, or the guest reset itself, and nobody had asked for it."""


class StaleCode(GuestFailure):
    """QEMU ran code of the guest's after the kernel had patched it: guest/init.c says more."""


def past_stale_code(action, *args):
    """Return action(*args); a guest that died of QEMU's fault is told of, and tried again."""
    for _ in range(1, TRIES):
        try:
            return action(*args)
        except StaleCode as error:
            print("# QEMU ran code of the guest's that had been patched, and the guest died: "
                  f"once more. {'; '.join(getattr(error, '__notes__', ()))}", flush=True)
    return action(*args)


def _child_setup(host_thp):
    """Run in the child: die with the parent, and back guest RAM with small pages only."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if not host_thp:
        libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def _keep(folder):
    """Copy a VM's folder below build/failed, drop the oldest there, and return the copy."""
    kept = BUILD / "failed"
    kept.mkdir(parents=True, exist_ok=True)
    target = kept / folder.name
    shutil.copytree(folder, target, dirs_exist_ok=True,
                    ignore=lambda _, names: [name for name in names if name in ("qmp", "agent")])
    by_age = sorted(kept.iterdir(), key=lambda path: path.stat().st_mtime)
    for old in by_age[:-KEPT_FAILURES]:
        shutil.rmtree(old, ignore_errors=True)
    return target


class Machine:
    """One QEMU process and the ways to talk to it and to its guest.

    options     qemu.Options
    folder      console.log, trace.log, qemu.log, command; removed at the end, and kept
                below build/failed if the body of the with statement raises
    qmp         qmp.Qmp, once launched
    agent       guest.Agent, once launched; answers after start()
    trace       vmtrace.Trace, once launched; None without trace events
    """

    def __init__(self, kernel, **options):
        self.kernel = kernel
        self.options = qemu.Options(**options)
        self.folder = Path(tempfile.mkdtemp(prefix="balloon-vm-"))
        self.agent = self.qmp = self.trace = None
        self._process = None
        self._ram_address = None
        self._listeners = {}

    def __enter__(self):
        try:
            self.start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, _kind, error, _traceback):
        if error is not None and self.folder.exists():
            error.add_note("console.log, trace.log, qemu.log and the command: "
                           f"{_keep(self.folder)}")
        self.stop()

    def _listen(self, name):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / name))
        listener.listen(1)
        listener.settimeout(0.2)
        self._listeners[name] = listener

    def _accept(self, name):
        def accept():
            self._check_process()
            try:
                return self._listeners[name].accept()[0]
            except socket.timeout:
                return None
        sock = wait_until(accept, f"QEMU to connect its {name} socket", 60)
        self._listeners.pop(name).close()
        return sock

    def _spawn(self, command):
        interactive = self.options.interactive
        with open(self.folder / "qemu.log", "wb") as log:
            # Between fork and exec the child only calls prctl(2), and this process has no threads.
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                command, stdin=None if interactive else subprocess.DEVNULL,
                stdout=None if interactive else log, stderr=log, cwd=self.folder,
                preexec_fn=lambda: _child_setup(self.options.host_thp))

    def launch(self):
        """Start QEMU and connect to it; the guest begins to run, nothing is awaited."""
        if not shutil.which(qemu.QEMU):
            raise GuestFailure(f"{qemu.QEMU} is missing; run: apt-get install qemu-system-x86")
        accel = self.options.accel or best_accel(self.kernel)
        command = qemu.command_line(self.kernel, self.options, self.folder, accel)
        (self.folder / "command").write_text(shlex.join(command) + "\n", encoding="utf-8")
        (self.folder / "trace.log").touch()
        self._listen("agent")
        self._listen("qmp")
        self._spawn(command)
        self.agent = Agent(self._accept("agent"), self.check_alive)
        self.qmp = Qmp(self._accept("qmp"))
        if self.options.trace:
            self.trace = vmtrace.Trace(self.folder / "trace.log")

    def start(self):
        """Launch, and wait until the guest's agent answers."""
        self.launch()
        self.agent.wait_boot()

    def stop(self):
        """End QEMU and remove the folder; safe to call again."""
        for listener in self._listeners.values():
            listener.close()
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_end(self):
        """Wait until QEMU ends by itself."""
        self._process.wait()

    def reset(self, timeout=180.0):
        """system_reset, and wait for the new boot's agent."""
        self.qmp.command("system_reset")
        # The firmware resets once more of its own, so that says nothing here.
        self.agent.wait_boot(self._check_process, timeout=timeout)
        self.qmp.poll_events().clear()

    def _check_process(self):
        code = self._process.poll()
        if code is not None:
            log = (self.folder / "qemu.log").read_text(encoding="utf-8", errors="replace")
            raise GuestFailure(f"QEMU ended with status {code}: {log.strip()[-800:]}")

    def check_alive(self):
        """Raise GuestFailure if QEMU ended or the guest reset itself."""
        self._check_process()
        try:
            events = self.qmp.poll_events()
        except QmpClosed:
            self._process.wait(timeout=10)
            self._check_process()
            raise
        if any(event["event"] == "RESET" and event["data"]["guest"] for event in events):
            console = self.console()
            kind = StaleCode if STALE in console else GuestFailure
            raise kind(f"the guest reset itself; end of its console:\n{console[-1500:]}")

    def wait(self, condition, what, timeout=60.0, interval=0.02):
        """wait_until() that also ends when the guest dies."""
        def checked():
            self.check_alive()
            return condition()
        return wait_until(checked, what, timeout, interval)

    def console(self):
        """Everything the guest printed on its console."""
        path = self.folder / "console.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    @property
    def pid(self):
        """QEMU's process id."""
        return self._process.pid

    def resident(self):
        """Bytes of guest RAM that the host backs."""
        if self._ram_address is None:
            # "Host virtual address for 0x0 (pc.ram) is 0x7f..."
            self._ram_address = int(self.qmp.hmp("gpa2hva 0").split()[-1], 16)
        return hostmem.resident(self.pid, self._ram_address)


@dataclass(frozen=True)
class Exact:
    """The balloon's size as seen from everywhere, in 4 KiB pages; balanced() if all agree."""

    host: int  # query-balloon
    written: int  # the last actual the driver wrote
    sent: int  # pages sent and not taken back
    guest: int  # vmstat balloon_inflate - balloon_deflate
    total: int  # MemTotal before less MemTotal now

    def balanced(self):
        """All figures agree."""
        return len(set(vars(self).values())) == 1


class VM(Machine):
    """A Machine with a balloon (or a place to plug one).

    Sizes of the balloon are sizes of the guest in bytes, as in QMP: RAM less what the
    balloon holds. base_total is MemTotal in bytes with an empty balloon.
    """

    def __init__(self, kernel, **options):
        super().__init__(kernel, **options)
        self.memory = self.options.memory
        self.base_total = None

    def start(self):
        """Launch, and wait for the agent, and for the driver if there is one to load."""
        super().start()
        if self.options.loads_driver:
            self.wait_driver()
            if self.base_total is None:
                raise GuestFailure("the balloon took "
                                   f"{self.pages_out(self.query_balloon())} pages unasked")
        elif self.options.balloon is None:
            self.base_total = self.agent.memory().total

    def wait_driver(self, timeout=60.0):
        """Wait until the driver is bound; note MemTotal if the balloon is empty."""
        self.wait(self.bound_device, "the balloon driver to bind to its device", timeout)
        if self.base_total is None and self.query_balloon() == self.memory:
            self.base_total = self.agent.memory().total

    def bound_device(self):
        """Name of the device the driver is bound to, as virtio0, or None."""
        try:
            names = self.agent.ls("/sys/bus/virtio/drivers/virtio_balloon")
        except AgentError:  # not loaded
            return None
        return next((name for name in names if name.startswith("virtio")), None)

    def write_driver(self, name, text):
        """Write to a file of the driver in the guest's sysfs: bind, unbind."""
        self.agent.write(f"/sys/bus/virtio/drivers/virtio_balloon/{name}", text)

    def set_balloon(self, size):
        """Ask for a guest of this many bytes; returns at once."""
        self.qmp.command("balloon", value=size)

    def query_balloon(self):
        """The guest's size in bytes as the driver last told it."""
        return self.qmp.command("query-balloon")["actual"]

    def wait_balloon(self, size, timeout=120.0):
        """Wait until query-balloon says this size."""
        self.wait(lambda: self.query_balloon() == size,
                  lambda: f"the guest to be {size} bytes (it is {self.query_balloon()})", timeout)

    def pages_out(self, size):
        """4 KiB pages in the balloon when the guest is this many bytes."""
        return (self.memory - size) // BALLOON_PAGE

    def exact(self):
        """Return the balloon's size as seen from everywhere, an Exact; needs PAGE_EVENTS."""
        memory = self.agent.memory()
        trace = self.trace.update()
        return Exact(self.pages_out(self.query_balloon()),
                     trace.actual[-1][1] if trace.actual else 0, trace.held.count,
                     memory.balloon_pages, (self.base_total - memory.total) // BALLOON_PAGE)

    def poll_stats(self, seconds):
        """Set the interval at which QEMU asks for statistics; 0 turns it off."""
        self.qmp.command("qom-set", path=f"/machine/peripheral/{BALLOON_ID}",
                         property="guest-stats-polling-interval", value=seconds)

    def stats(self):
        """Return (time of the last update in seconds since the epoch, {name: value})."""
        answer = self.qmp.command("qom-get", path=f"/machine/peripheral/{BALLOON_ID}",
                                  property="guest-stats")
        return answer["last-update"], answer["stats"]

    def plug_balloon(self, **properties):
        """Hot-plug the balloon device."""
        words = {"driver": "virtio-balloon-pci", "id": BALLOON_ID, **properties}
        self.qmp.command("device_add", **words)

    def unplug_balloon(self, timeout=60.0):
        """Hot-unplug the balloon device and wait until it is gone."""
        self.qmp.command("device_del", id=BALLOON_ID)
        self.qmp.wait_event("DEVICE_DELETED", timeout, device=BALLOON_ID)


def _kvm_boots(kernel):
    """Boot a guest with KVM; /dev/kvm being there, or firmware running, proves nothing."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    machine = Machine(kernel, memory=256 * MIB, accel="kvm", modules=(), trace=())
    try:
        machine.launch()
        machine.agent.wait_boot(timeout=15)
        return True
    except (Timeout, GuestFailure, QmpClosed, ConnectionError):
        return False
    finally:
        machine.stop()


def best_accel(kernel):
    """Return "kvm" if a guest has been seen to boot with it since the host booted, else "tcg"."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    path = BUILD / "guest" / "kvm-probe.json"
    try:
        known = json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        known = {}
    if known.get("boot") != boot:
        known = {"boot": boot, "kvm": _kvm_boots(kernel)}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known), encoding="ascii")
    return "kvm" if known["kvm"] else "tcg"
