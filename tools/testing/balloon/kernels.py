# SPDX-License-Identifier: GPL-2.0
"""Where the built kernels are, and what belongs to each."""

from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
BUILD = TOP / "build"
VARIANTS = ("series", "stock", "debug", "distro", "distro-stock")


class KernelMissing(Exception):
    """The kernel asked for has not been built; the text says how to build it."""


@dataclass(frozen=True)
class Kernel:
    """A bootable kernel: image, balloon module, and the other modules it may need."""

    variant: str
    image: Path
    balloon: Path
    modules: tuple
    release: str

    @property
    def is_stock(self):
        """The balloon driver is the base kernel's own."""
        return self.variant.endswith("stock")

    @property
    def is_distro(self):
        """The kernel is the distribution's, prebuilt."""
        return self.variant.startswith("distro")


def find(variant, base="6.12"):
    """Return the Kernel of a variant from build/, or raise KernelMissing."""
    if variant.startswith("distro"):
        folder, how = BUILD / "distro", "scripts/distro.sh"
    else:
        folder = BUILD / f"{base}-{variant}"
        how = f"make kernel BASE={base} VARIANT={variant}"
    balloon = folder / "stock" if variant == "distro-stock" else folder
    balloon /= "virtio_balloon.ko"
    for path in (folder / "bzImage", balloon):
        if not path.exists():
            raise KernelMissing(f"{path} is missing; run: {how}")
    release = folder / "release"
    return Kernel(variant, folder / "bzImage", balloon,
                  tuple(sorted((folder / "modules").glob("*.ko"))),
                  release.read_text(encoding="ascii").strip() if release.exists() else "unknown")
