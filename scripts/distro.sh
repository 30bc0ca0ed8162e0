#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# distro.sh BASE: leave build/distro with Debian's prebuilt cloud kernel
# (bzImage, release), its own balloon module (stock/), other modules that
# guests may need (modules/) and our external module built for it.
set -eu
. "$(dirname "$0")/lib.sh"

base=${1:?usage: distro.sh BASE}
extra="virtio_blk virtio_mmio zram"

need xz xz-utils
image=$("$ROOT/scripts/debian.sh" "$base" image)
release=$(basename "$image"/lib/modules/*)
modules=$image/lib/modules/$release

# unpack_module NAME DIR: find NAME in the package, leave DIR/NAME.ko.
unpack_module() {
	local file

	file=$(find "$modules" -name "${1//[-_]/[-_]}.ko.xz" | head -n 1)
	[ -n "$file" ] || return 1
	xz -dc "$file" >"$2/$1.ko"
}

# with_depends NAME...: the names of modules and of those they depend on.
with_depends() {
	PATH=$PATH:/sbin:/usr/sbin
	need modprobe kmod
	[ -f "$modules/modules.dep.bin" ] || depmod -b "$image" "$release"
	modprobe -d "$image" -S "$release" -D -a "$@" |
		sed -n 's|^insmod .*/\([^/]*\)\.ko[^/]*$|\1|p' | sort -u
}

module=$(KDIR='' "$ROOT/scripts/module.sh" "$base")
out=$BUILD/distro
part=$out.part
rm -rf "$part"
mkdir -p "$part/stock" "$part/modules"
cp "$image/boot/vmlinuz-$release" "$part/bzImage"
cp "$image/boot/config-$release" "$part/config"
cp "$module" "$part/virtio_balloon.ko"
unpack_module virtio_balloon "$part/stock" || die "$image has no virtio_balloon module"
# shellcheck disable=SC2086 # a list
for name in $(with_depends $extra); do
	unpack_module "$name" "$part/modules" || die "$image has no module $name"
done
echo "$release" >"$part/release"
replace_dir "$out"
say "Debian's kernel $release and our module: in ${out#"$ROOT"/}"
