# SPDX-License-Identifier: GPL-2.0
"""The host's end of the guest agent (guest/agent.c says what the protocol is)."""

import errno
import os
import re
import socket
import time
from dataclasses import dataclass

from waiting import Timeout, wait_until

MAX_LINE = 4096  # as in guest/agent.c
CHECK = 0.2  # seconds between two looks at whether the guest is alive
_FRAME = re.compile(rb"\x02(\d+) (\d+) (\d+)\n")


class AgentError(Exception):
    """The guest could not do what was asked; status is an errno (or sh's exit status)."""

    def __init__(self, command, status, output):
        known = status in errno.errorcode and not command.startswith("sh ")
        reason = os.strerror(status) if known else f"status {status}"
        super().__init__(f"guest: {command}: {reason} {output.strip()[-300:]}".rstrip())
        self.status = status
        self.output = output


class Memory:
    """One snapshot of the guest's meminfo, vmstat and buddyinfo.

    info[name] is in KiB, vmstat[name] a count; zones[name] lists the free
    blocks by order, summed over the nodes.
    """

    def __init__(self, text):
        self.info = {}
        self.vmstat = {}
        self.zones = {}
        for line in text.splitlines():
            words = line.split()
            if line.startswith("Node"):
                counts = [int(word) for word in words[4:]]
                have = self.zones.get(words[3], [0] * len(counts))
                self.zones[words[3]] = [a + b for a, b in zip(have, counts)]
            elif words and words[0].endswith(":"):
                self.info[words[0][:-1]] = int(words[1])
            elif len(words) == 2:
                self.vmstat[words[0]] = int(words[1])

    @property
    def total(self):
        """MemTotal in bytes."""
        return self.info["MemTotal"] * 1024

    @property
    def free(self):
        """MemFree in bytes."""
        return self.info["MemFree"] * 1024

    @property
    def used(self):
        """MemTotal without MemFree, in bytes."""
        return self.total - self.free

    @property
    def balloon_pages(self):
        """Guest pages in the balloon by the kernel's own event counters, since boot."""
        return self.vmstat["balloon_inflate"] - self.vmstat["balloon_deflate"]

    def free_blocks(self, order):
        """Free blocks of exactly this order."""
        return sum(zone[order] for zone in self.zones.values() if order < len(zone))

    def free_at_least(self, order):
        """Free memory that stands in blocks of this order or larger, in units of that order."""
        return sum(count << (o - order) for zone in self.zones.values()
                   for o, count in enumerate(zone) if o >= order)


@dataclass
class JobState:
    """What a job says of itself; the meaning of progress and value is in guest/work.c."""

    state: str
    code: int
    progress: int
    value: int
    ready: bool


class Job:
    """A background process in the guest."""

    def __init__(self, agent, kind, slot):
        self._agent = agent
        self.kind = kind
        self.slot = slot

    def _ask(self, verb):
        state, code, progress, value, ready = self._agent.call(f"{verb} {self.slot}").split()
        return JobState(state, int(code), int(progress), int(value), ready == "1")

    def state(self):
        """Return the job's JobState."""
        return self._ask("stat")

    def take(self):
        """Return the job's JobState and set its value back to 0."""
        return self._ask("take")

    def wait_ready(self, timeout=120.0):
        """Wait until the job's pattern stands; raise if the job ended before."""
        def ready():
            now = self.state()
            if now.state != "running":
                raise AgentError(f"job {self.kind}", now.value, f"{now.state} {now.code}")
            return now.ready
        wait_until(ready, f"the guest's job {self.kind} to be ready", timeout)
        return self

    def kill(self):
        """End the job; returns when the process and its memory are gone."""
        self._agent.call(f"kill {self.slot}")


class Agent:
    """The agent of one guest, on a connected socket.

    While an answer is awaited, check() is called now and then; it raises if none can come.
    """

    def __init__(self, sock, check):
        self._sock = sock
        self._check = check
        self._buffer = b""
        self._next_id = 0
        self.boots = []  # boot ids, one for each hello

    def _frame(self, deadline):
        """Return (id, status, text) of the next frame, or None at the deadline."""
        while True:
            head = _FRAME.search(self._buffer)
            if head and len(self._buffer) >= head.end() + int(head[3]):
                end = head.end() + int(head[3])
                text = self._buffer[head.end():end].decode(errors="replace")
                self._buffer = self._buffer[end:]
                return int(head[1]), int(head[2]), text
            self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._sock.recv(65536)
            except socket.timeout:
                return None
            if not data:
                raise ConnectionError("the guest's serial line closed: QEMU ended")
            self._buffer += data

    def wait_boot(self, check=None, timeout=180.0):
        """Wait for the agent of a new boot; check is called instead of the usual one."""
        seen = len(set(self.boots))
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            frame = self._frame(time.monotonic() + CHECK)
            if frame and frame[0] == 0:
                self.boots.append(frame[2].strip())
            if len(set(self.boots)) > seen:
                return
            (check or self._check)()
        raise Timeout(f"the guest's agent did not start within {timeout:g} s")

    def call(self, command, timeout=60.0):
        """Run a command of the agent and return its output; AgentError if it fails."""
        self._next_id += 1
        line = f"{self._next_id} {command}\n".encode()
        if len(line) > MAX_LINE:
            raise ValueError(f"a command of {len(line)} bytes is too long for the guest's agent")
        self._sock.settimeout(timeout)
        self._sock.sendall(line)
        deadline = time.monotonic() + timeout
        while True:
            frame = self._frame(min(deadline, time.monotonic() + CHECK))
            if frame is None:
                self._check()
                if time.monotonic() < deadline:
                    continue
                raise Timeout(f"the guest did not answer '{command[:60]}' in {timeout:g} s")
            number, status, text = frame
            if number == 0:
                self.boots.append(text.strip())
            elif number == self._next_id:
                if status:
                    raise AgentError(command, status, text)
                return text

    def attach(self, timeout=60.0):
        """Meet an agent that runs already, as after a VM was restored."""
        self._sock.sendall(b"\n")
        self.call("ping", timeout)

    def read(self, path):
        """Return the contents of a file."""
        return self.call(f"cat {path}")

    def write(self, path, text, timeout=60.0):
        """Write text to a file in one write."""
        self.call(f"write {path} {text}", timeout)

    def ls(self, path):
        """Return the names in a directory."""
        return self.call(f"ls {path}").split()

    def insmod(self, name, params=""):
        """Load /modules/NAME.ko."""
        self.call(f"insmod {name} {params}".rstrip(), 120.0)

    def rmmod(self, name, timeout=120.0):
        """Unload a module; returns when its exit function has run."""
        self.call(f"rmmod {name}", timeout)

    def memory(self):
        """Return a Memory snapshot."""
        return Memory(self.call("memory"))

    def tasks(self):
        """Return [(pid, state, cpu ticks of 10 ms, name)] of all processes and kernel threads."""
        rows = [line.split(" ", 3) for line in self.call("tasks").splitlines()]
        return [(int(pid), state, int(ticks), name) for pid, state, ticks, name in rows]

    def dmesg(self):
        """Return the kernel log as [(seconds since boot, text)]."""
        lines = []
        for line in self.call("dmesg").splitlines():
            head, _, text = line.partition(";")
            fields = head.split(",")
            if len(fields) >= 3 and fields[2].isdigit():
                lines.append((int(fields[2]) / 1e6, text))
        return lines

    def start(self, kind, *args):
        """Start a background job (kinds: guest/work.c) and return a Job."""
        words = " ".join(str(arg) for arg in args)
        return Job(self, kind, int(self.call(f"job {kind} {words}".rstrip())))

    def run(self, kind, *args, timeout=300.0):
        """Run a job to its end in the foreground."""
        words = " ".join(str(arg) for arg in args)
        return self.call(f"run {kind} {words}".rstrip(), timeout)

    def sh(self, script, timeout=60.0):
        """Run a line of shell through busybox and return its output."""
        return self.call(f"sh {script}", timeout)
