# SPDX-License-Identifier: GPL-2.0
"""QEMU's command line for a test guest."""

from dataclasses import dataclass

import initramfs
import vmtrace

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
QEMU = "qemu-system-x86_64"
BALLOON_ID = "balloon0"

# maxcpus: guest/init.c starts the other CPUs, and says why.
_KERNEL_OPTIONS = "console=ttyS0 loglevel=7 panic=-1 oops=panic mitigations=off maxcpus=1"


@dataclass(frozen=True)
class Options:
    """What a guest is made of. All sizes are in bytes.

    memory      guest RAM; QEMU rounds it to 8 KiB
    smp         number of CPUs
    machine     QEMU machine with its options: pc, q35, "microvm,acpi=off"
    balloon     properties of the balloon device, {} for the defaults, None for no balloon;
                {"deflate-on-oom": True, "free-page-reporting": True}
    modules     modules that init loads, each "name" or "name:parameter=value"
    files       paths of files that the guest has in /files, executable
    append      more for the kernel command line
    backend     None, or the -object of guest RAM without id and size:
                "memory-backend-memfd,hugetlb=on,hugetlbsize=2M,prealloc=on"
    trace       trace events (vmtrace.COUNT_EVENTS, PAGE_EVENTS, DISCARD_EVENTS), () for none
    icount      None, or the -icount option: "shift=3,sleep=off"; vCPUs then share a thread
    accel       None for the probed default, or "tcg" or "kvm"
    host_thp    let the host back guest RAM with transparent huge pages
    interactive the console is on this terminal, Ctrl-A X ends the guest
    extra       more QEMU arguments; relative paths are in the VM's folder
    """

    memory: int = GIB
    smp: int = 2
    machine: str = "pc"
    balloon: dict | None = None
    modules: tuple = ("virtio_balloon",)
    files: tuple = ()
    append: str = ""
    backend: str | None = None
    trace: tuple = vmtrace.PAGE_EVENTS
    icount: str | None = None
    accel: str | None = None
    host_thp: bool = False
    interactive: bool = False
    extra: tuple = ()

    @property
    def is_mmio(self):
        """The machine has virtio-mmio devices, and no PCI."""
        return self.machine.startswith("microvm")

    @property
    def loads_driver(self):
        """The guest has a balloon, and init loads the driver for it."""
        names = [module.partition(":")[0] for module in self.modules]
        return self.balloon is not None and "virtio_balloon" in names


def _property(value):
    if isinstance(value, bool):
        return "on" if value else "off"
    return value


def _device(options):
    kind = "virtio-balloon-device" if options.is_mmio else "virtio-balloon-pci"
    words = [kind, f"id={BALLOON_ID}"]
    words += [f"{name}={_property(value)}" for name, value in options.balloon.items()]
    return ["-device", ",".join(words)]


def _serial_lines(options, folder):
    console = f"stdio,id=console,mux=on,signal=off,logfile={folder}/console.log"
    if not options.interactive:
        console = f"file,id=console,path={folder}/console.log"
    agent = ["-serial", "chardev:agent"]
    if options.is_mmio:  # microvm has one serial line of its own
        agent = ["-device", "isa-serial,chardev=agent,iobase=0x2f8,irq=3,index=1"]
    return [
        "-chardev", console, "-serial", "chardev:console",
        "-chardev", f"socket,id=agent,path={folder}/agent", *agent,
        "-chardev", f"socket,id=qmp,path={folder}/qmp", "-mon", "chardev=qmp,mode=control",
    ]


def _acceleration(options, accel):
    if accel == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    threads = "single" if options.icount else "multi"
    words = ["-accel", f"tcg,thread={threads}", "-cpu", "qemu64"]
    return words + (["-icount", options.icount] if options.icount else [])


def _memory(options):
    size = f"{options.memory // KIB}K"
    words = ["-m", size]
    if options.backend:
        words += ["-object", f"{options.backend},id=ram,size={size}"]
    return words


def command_line(kernel, options, folder, accel):
    """Return the argument list that starts this guest; its files are in folder."""
    modules = ",".join(options.modules)
    return [
        QEMU, "-nodefaults", "-no-user-config", "-display", "none",
        "-machine", options.machine + (",memory-backend=ram" if options.backend else ""),
        "-smp", str(options.smp), *_acceleration(options, accel), *_memory(options),
        "-kernel", str(kernel.image), "-initrd", str(initramfs.build(kernel, options.files)),
        "-append", f"{_KERNEL_OPTIONS} guest.modules={modules} {options.append}".strip(),
        *_serial_lines(options, folder),
        *(_device(options) if options.balloon is not None else []),
        "-msg", "timestamp=on", "-D", f"{folder}/trace.log",
        *[word for event in options.trace for word in ("-trace", f"enable={event}")],
        *options.extra,
    ]
