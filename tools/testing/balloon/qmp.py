# SPDX-License-Identifier: GPL-2.0
"""A QMP client: commands with a timeout, and the events that came meanwhile."""

import json
import socket
import time

from waiting import Timeout


class QmpError(Exception):
    """QEMU refused a command; the text is its own."""


class QmpClosed(Exception):
    """QEMU closed the connection: it ended."""


class Qmp:
    """One QMP connection on a connected socket.

    events holds every event not yet taken, oldest first, each as QEMU sent it:
    {"event": name, "data": {...}, "timestamp": {...}}.
    """

    def __init__(self, sock, timeout=30.0):
        self._sock = sock
        self._buffer = b""
        self._timeout = timeout
        self._next_id = 0
        self.events = []
        self._receive(time.monotonic() + timeout)  # the greeting
        self.command("qmp_capabilities")

    def close(self):
        """Close the connection; QEMU stays."""
        self._sock.close()

    def _receive(self, deadline):
        """Return the next message, or None at the deadline."""
        while b"\n" not in self._buffer:
            self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._sock.recv(65536)
            except socket.timeout:
                return None
            except OSError as error:
                raise QmpClosed(f"QMP connection lost: {error}") from error
            if not data:
                raise QmpClosed("QEMU closed its QMP connection")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)

    def command(self, name, timeout=None, **arguments):
        """Run a command and return its result; underscores in argument names mean dashes."""
        self._next_id += 1
        request = {"execute": name, "id": self._next_id}
        if arguments:
            request["arguments"] = {k.replace("_", "-"): v for k, v in arguments.items()}
        try:
            self._sock.settimeout(self._timeout)
            self._sock.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise QmpClosed(f"QMP connection lost: {error}") from error
        deadline = time.monotonic() + (timeout or self._timeout)
        while True:
            message = self._receive(deadline)
            if message is None:
                raise Timeout(f"QEMU did not answer {name} in {timeout or self._timeout:g} s")
            if "event" in message:
                self.events.append(message)
            elif message.get("id") == self._next_id:
                if "error" in message:
                    raise QmpError(message["error"]["desc"])
                return message["return"]

    def hmp(self, line):
        """Run a human monitor command and return what it prints."""
        return self.command("human-monitor-command", command_line=line)

    def poll_events(self):
        """Collect what has arrived, without waiting, and return the list of events."""
        while True:
            message = self._receive(time.monotonic())
            if message is None:
                return self.events
            if "event" in message:
                self.events.append(message)

    def wait_event(self, name, timeout=60.0, **data):
        """Take and return the first event of that name whose data has these values."""
        deadline = time.monotonic() + timeout
        while True:
            for event in self.events:
                have = event.get("data", {})
                if event["event"] == name and all(have.get(k) == v for k, v in data.items()):
                    self.events.remove(event)
                    return event
            message = self._receive(deadline)
            if message is None:
                raise Timeout(f"QEMU sent no event {name} {data or ''} in {timeout:g} s")
            if "event" in message:
                self.events.append(message)
