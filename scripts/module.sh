#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# module.sh BASE: build virtio_balloon as an external module against the
# kernel build folder KDIR, by default the headers that Debian packages.
# Leaves build/module-RELEASE/virtio_balloon.ko and prints its path.
set -eu
. "$(dirname "$0")/lib.sh"

base=${1:?usage: module.sh BASE}

# check_kdir DIR: can modules be built there, and can this one?
check_kdir() {
	local auto=$1/include/config/auto.conf

	[ -f "$1/Makefile" ] ||
		die "KDIR=$1 is not a kernel build folder; give one like /lib/modules/\$(uname -r)/build"
	[ -f "$auto" ] && [ -f "$1/Module.symvers" ] ||
		die "KDIR=$1 holds a kernel that is not built; build it, or give the folder of a distro's kernel headers"
	release=$(cat "$1/include/config/kernel.release" 2>/dev/null) ||
		release=$(sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' "$1/include/generated/utsrelease.h")
	case $release in
	"$base".*) ;;
	*) die "KDIR=$1 is for kernel '$release'; the module is for $base" ;;
	esac
	grep -q '^CONFIG_MODULES=y' "$auto" ||
		die "the kernel of KDIR=$1 takes no modules (CONFIG_MODULES)"
	grep -q '^CONFIG_MEMORY_BALLOON=y' "$auto" ||
		die "the kernel of KDIR=$1 has no CONFIG_MEMORY_BALLOON; the module needs it"
}

kdir=${KDIR:-}
if [ -z "$kdir" ]; then
	kdir=$("$ROOT/scripts/debian.sh" "$base" headers)
fi
[ -d "$kdir" ] || die "KDIR=$kdir is not a folder"
kdir=$(cd "$kdir" && pwd -P)
check_kdir "$kdir"
out=$BUILD/module-$release
mkdir -p "$out/src"
exec 9>"$out/lock"
lock 9 "$out/lock"
"$ROOT/scripts/overlay.sh" --copy "$out/src"
cmp -s "$ROOT/Makefile" "$out/src/Makefile" || cp "$ROOT/Makefile" "$out/src/Makefile"
unset MAKEFLAGS MFLAGS MAKELEVEL KBUILD_OUTPUT
make -C "$kdir" -j"$(nproc)" M="$out/src" CONFIG_VIRTIO_BALLOON=m \
	CONFIG_VIRTIO_BALLOON_KUNIT_TEST= modules </dev/null >"$out/log" 2>&1 || {
	grep -E 'error|ERROR|warning' "$out/log" >&2 || tail -n 20 "$out/log" >&2
	die "the module build failed; the whole log is $out/log"
}
! grep -A3 'warning:' "$out/log" >&2 || die "the module build warns; the whole log is $out/log"
cp "$out/src/drivers/virtio/balloon/virtio_balloon.ko" "$out/virtio_balloon.ko.part"
mv "$out/virtio_balloon.ko.part" "$out/virtio_balloon.ko"
echo "$out/virtio_balloon.ko"
