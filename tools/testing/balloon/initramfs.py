# SPDX-License-Identifier: GPL-2.0
"""The guest's initramfs: our init, busybox and the kernel's modules, in a newc cpio archive.

Both the compiled init and the archive are kept under build/guest, by a hash of
what went into them, so that a second boot builds nothing.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from kernels import BUILD

_SOURCES = Path(__file__).resolve().parent / "guest"
_CACHE = BUILD / "guest"
_STATIC = ["-static", "-O2", "-Wall", "-Werror"]
_CFLAGS = ["-D_GNU_SOURCE", "-Wextra"]
KEPT = 12  # archives in the cache
_DIRECTORIES = ("bin", "dev", "files", "modules", "proc", "sys", "tmp")


class BuildError(Exception):
    """The initramfs could not be made; the text says what to do."""


def _digest(parts):
    sha = hashlib.sha256()
    for part in parts:
        sha.update(len(part).to_bytes(8, "little"))
        sha.update(part)
    return sha.hexdigest()[:16]


def _write_once(path, data, mode=0o644):
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(name, mode)
    os.replace(name, path)


def _drop_old(pattern):
    by_age = sorted(_CACHE.glob(pattern), key=lambda path: path.stat().st_mtime)
    for path in by_age[:-KEPT]:
        path.unlink(missing_ok=True)


def _tool(name, package):
    path = shutil.which(name)
    if not path:
        raise BuildError(f"{name} is not installed; run: apt-get install {package}")
    return path


def run(command):
    """Run a tool that has to succeed, and return what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def compile_static(target, sources, flags):
    """Compile a program of the guest's."""
    run([_tool("gcc", "gcc libc6-dev"), *_STATIC, *flags, "-o", target, *sources])


def build_init():
    """Compile the static init unless it is there, and return its path."""
    files = sorted(_SOURCES.glob("*.[ch]"))
    key = _digest([file.read_bytes() for file in files] + [" ".join(_STATIC + _CFLAGS).encode()])
    path = _CACHE / f"init-{key}"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "init"
        compile_static(target, [file for file in files if file.suffix == ".c"], _CFLAGS)
        _write_once(path, target.read_bytes(), 0o755)
    return path


def _module_bytes(path):
    """Return a module without its debug information, which may be ten times its size."""
    data = path.read_bytes()
    if b".debug_info" not in data:
        return data
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / path.name
        run([_tool("strip", "binutils"), "--strip-debug", "-o", target, path])
        return target.read_bytes()


class Cpio:
    """A newc archive, written entry by entry into memory."""

    def __init__(self):
        self._parts = []
        self._inode = 0

    def add(self, name, mode, data=b"", device=(0, 0)):
        """Add one entry; mode carries the file type."""
        self._inode += 1
        encoded = name.encode() + b"\0"
        fields = [self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
        self._parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]

    def finish(self):
        """Return the whole archive."""
        self.add("TRAILER!!!", 0)
        return b"".join(self._parts)


def _static_busybox():
    path = Path(_tool("busybox", "busybox-static"))
    if b"/ld-linux" in path.read_bytes()[:4096]:  # the interpreter's name, near the headers
        raise BuildError(f"{path} needs shared libraries; run: apt-get install busybox-static")
    return path


def _applets(busybox):
    return run([busybox, "--list"]).split()


def _assemble(init, busybox, modules, files):
    archive = Cpio()
    for name in _DIRECTORIES:
        archive.add(name, stat.S_IFDIR | 0o755)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("init", stat.S_IFREG | 0o755, init)
    archive.add("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes())
    for name in _applets(busybox):
        if name != "busybox":
            archive.add(f"bin/{name}", stat.S_IFLNK | 0o777, b"busybox")
    for name, data in modules.items():
        archive.add(f"modules/{name}", stat.S_IFREG | 0o644, data)
    for name, data in files.items():
        archive.add(f"files/{name}", stat.S_IFREG | 0o755, data)
    return archive.finish()


def build(kernel, files=()):
    """Return the path of the initramfs for a Kernel, making it if need be.

    files: paths of files, programs for instance, that the guest is to have in /files.
    """
    init = build_init().read_bytes()
    busybox = _static_busybox()
    modules = {path.name: _module_bytes(path) for path in (*kernel.modules, kernel.balloon)}
    files = {Path(path).name: Path(path).read_bytes() for path in files}
    named = [*modules.items(), ("", b""), *files.items()]
    key = _digest([init, busybox.read_bytes(), Path(__file__).read_bytes(),
                   *[part for name, data in named for part in (name.encode(), data)]])
    path = _CACHE / f"initramfs-{key}.cpio"
    if not path.exists():
        _write_once(path, _assemble(init, busybox, modules, files))
        _drop_old("initramfs-*")
    return path
