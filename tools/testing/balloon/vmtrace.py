# SPDX-License-Identifier: GPL-2.0
"""What QEMU's trace says about the balloon device: counters, the set of pages held, broken rules.

QEMU writes one line an event to a file (log backend, with time stamps). All
balloon events come under QEMU's big lock, so the lines of one queue run follow
its virtio_queue_notify without anything from another queue in between: that is
how a page is known to come from the inflate or the deflate queue.

The guest must have no virtio device but the balloon, or the counts mix.
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

INFLATE, DEFLATE, STATS = 0, 1, 2
DRIVER_OK = 4
GROUP = 512  # balloon pages in 2 MiB

COUNT_EVENTS = (
    "virtio_queue_notify", "virtio_notify", "virtio_set_status", "virtqueue_pop", "virtqueue_fill",
    "virtio_balloon_get_config", "virtio_balloon_set_config", "virtio_balloon_to_target",
    "virtio_balloon_bad_addr",
)
PAGE_EVENTS = COUNT_EVENTS + ("virtio_balloon_handle_output",)
DISCARD_EVENTS = PAGE_EVENTS + ("ram_block_discard_range",)


class PageSet:
    """A set of page frame numbers, as a byte for each."""

    def __init__(self):
        self._bytes = bytearray()
        self.count = 0

    def add(self, pfn):
        """Put a page in; False if it was in already."""
        if pfn >= len(self._bytes):
            self._bytes.extend(bytes(pfn + 1 - len(self._bytes) + (1 << 16)))
        if self._bytes[pfn]:
            return False
        self._bytes[pfn] = 1
        self.count += 1
        return True

    def remove(self, pfn):
        """Take a page out; False if it was not in."""
        if pfn >= len(self._bytes) or not self._bytes[pfn]:
            return False
        self._bytes[pfn] = 0
        self.count -= 1
        return True

    def clear(self):
        """Take all pages out."""
        self._bytes = bytearray()
        self.count = 0

    def __contains__(self, pfn):
        return pfn < len(self._bytes) and bool(self._bytes[pfn])

    def whole_groups(self):
        """Number of aligned 2 MiB groups that are in the set with all their pages."""
        whole = b"\1" * GROUP
        return sum(self._bytes[at:at + GROUP] == whole for at in range(0, len(self._bytes), GROUP))


@dataclass
class Counters:
    """Counts since the start of the trace; subtract two to get an interval.

    kicks, interrupts and buffers are by queue number.
    """

    kicks: Counter = field(default_factory=Counter)
    interrupts: Counter = field(default_factory=Counter)
    buffers: Counter = field(default_factory=Counter)
    config_reads: int = 0
    config_writes: int = 0
    inflated: int = 0
    deflated: int = 0
    discards: int = 0
    discarded_bytes: int = 0

    def __sub__(self, other):
        def minus(mine, theirs):
            if isinstance(mine, Counter):
                return Counter({k: mine[k] - theirs[k] for k in mine if mine[k] != theirs[k]})
            return mine - theirs
        return Counters(**{name: minus(mine, getattr(other, name))
                           for name, mine in vars(self).items()})


@dataclass(frozen=True)
class Finding:
    """A broken rule: a short code, and what was seen."""

    code: str
    text: str


class Trace:
    """Reads a trace file as it grows.

    counters    Counters so far
    held        PageSet of the pages the host believes to be in the balloon
    actual      [(time, pages)] of every write of the configuration field
    targets     [(time, pages)] of every change of num_pages by the host
    at_target   Counters.inflated at the last of these changes
    at_read     Counters.inflated when the driver first read the last change, or None
    statuses    [(time, value)] of every write of the device status
    findings    [Finding] of rules broken on the way

    Times are seconds since the epoch. Call update() before looking at any.
    """

    MAX_FINDINGS = 50

    def __init__(self, path):
        self._path = path
        self._offset = 0
        self._rest = b""
        self._queue = None  # the queue being run
        self._queues = {}  # vring address -> queue number
        self._stats_out = 0  # statistics buffers that the device has
        self._page_stamp = b""
        self._handlers = {
            b"virtio_queue_notify": self._on_kick,
            b"virtio_notify": self._on_interrupt,
            b"virtio_set_status": self._on_status,
            b"virtqueue_pop": self._on_pop,
            b"virtqueue_fill": self._on_fill,
            b"virtio_balloon_handle_output": self._on_page,
            b"virtio_balloon_get_config": self._on_config_read,
            b"virtio_balloon_set_config": self._on_config_write,
            b"virtio_balloon_to_target": self._on_target,
            b"virtio_balloon_bad_addr": self._on_bad_addr,
            b"ram_block_discard_range": self._on_discard,
        }
        self.counters = Counters()
        self.held = PageSet()
        self.status = 0
        self.actual = []
        self.targets = []
        self.at_target = 0
        self.at_read = None
        self.statuses = []
        self.findings = []

    def update(self):
        """Read what was written since the last time; returns self."""
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            data = file.read()
        self._offset += len(data)
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._line(line)
        return self

    def snapshot(self):
        """Bring up to date and return a copy of the counters."""
        self.update()
        return deepcopy(self.counters)

    def driver_ok_time(self):
        """Time of the last DRIVER_OK, or None."""
        times = [when for when, value in self.statuses if value & DRIVER_OK]
        return times[-1] if times else None

    def page_time(self):
        """Time of the last page that was inflated or deflated, or None."""
        return self._time(self._page_stamp) if self._page_stamp else None

    def _find(self, code, text):
        if len(self.findings) < self.MAX_FINDINGS:
            self.findings.append(Finding(code, text))

    def _line(self, line):
        # 1234@1700000000.123456:event words...
        stamp, colon, rest = line.partition(b":")
        name, _, text = rest.partition(b" ")
        handler = self._handlers.get(name)
        if not colon or not handler:
            return
        handler(stamp, text.split())

    @staticmethod
    def _time(stamp):
        return float(stamp.partition(b"@")[2])

    def _on_kick(self, stamp, words):  # vdev V n N vq Q
        queue = int(words[3])
        self._queue = queue
        self._queues[words[5]] = queue
        self.counters.kicks[queue] += 1
        if not self.status & DRIVER_OK:
            self._find(f"kick-before-driver-ok-{queue}",
                       f"queue {queue} notified with status {self.status:#x}, "
                       f"before DRIVER_OK, at {self._time(stamp):.6f}")

    def _on_interrupt(self, _stamp, words):  # vdev V vq Q
        self.counters.interrupts[self._queues.get(words[3])] += 1

    def _on_pop(self, stamp, words):  # vq Q elem E in_num I out_num O
        queue = self._queues.get(words[1])
        self.counters.buffers[queue] += 1
        if queue == STATS:
            self._stats_out += 1
            if self._stats_out > 1:
                self._find("two-stats-buffers", f"{self._stats_out} statistics buffers "
                           f"outstanding at {self._time(stamp):.6f}")

    def _on_fill(self, _stamp, words):  # vq Q elem E len L idx I
        if self._queues.get(words[1]) == STATS:
            self._stats_out -= 1

    def _on_status(self, stamp, words):  # vdev V val N
        self.status = int(words[3])
        self.statuses.append((self._time(stamp), self.status))
        if self.status == 0:
            self.held.clear()
            self._stats_out = 0

    def _on_page(self, stamp, words):  # section name: S gpa: A
        pfn = int(words[4], 16) >> 12
        self._page_stamp = stamp
        if self._queue == INFLATE:
            self.counters.inflated += 1
            if not self.held.add(pfn):
                self._find("inflated-twice", f"page {pfn:#x} inflated while in the balloon, "
                           f"at {self._time(stamp):.6f}")
        else:
            self.counters.deflated += 1
            if not self.held.remove(pfn):
                self._find("deflated-not-held", f"page {pfn:#x} deflated while not in the "
                           f"balloon, at {self._time(stamp):.6f}")

    def _on_config_read(self, _stamp, words):  # num_pages: N actual: A
        self.counters.config_reads += 1
        if self.at_read is None and self.targets and int(words[1]) == self.targets[-1][1]:
            self.at_read = self.counters.inflated

    def _on_config_write(self, stamp, words):  # actual: A oldactual: B
        self.counters.config_writes += 1
        self.actual.append((self._time(stamp), int(words[1])))

    def _on_target(self, stamp, words):  # balloon target: T num_pages: N
        self.targets.append((self._time(stamp), int(words[4])))
        self.at_target = self.counters.inflated
        self.at_read = None

    def _on_bad_addr(self, stamp, words):
        self._find("bad-addr", f"{b' '.join(words).decode()} at {self._time(stamp):.6f}")

    def _on_discard(self, _stamp, words):  # NAME @ HVA + LENGTH: madvise: M fallocate: F ret: R
        self.counters.discards += 1
        length = words[words.index(b"+") + 1].rstrip(b":")
        self.counters.discarded_bytes += int(length, 0)
