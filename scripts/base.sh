#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# base.sh BASE: print the path of a pristine kernel source tree.
#
# The tree comes from Debian's package linux-source-BASE and is unpacked once
# into the cache, or it is the one that KDIR names, which is only checked.
set -eu -o pipefail
. "$(dirname "$0")/lib.sh"

# check_tree DIR BASE: is DIR the source of a BASE kernel, with nothing built in it?
check_tree() {
	local dir=$1 base=$2 have

	[ -f "$dir/Makefile" ] && [ -f "$dir/Kconfig" ] && [ -d "$dir/mm" ] &&
		[ -f "$dir/drivers/virtio/Kconfig" ] ||
		die "KDIR=$dir is not a kernel source tree; give the top folder of one"
	have=$(awk '$1 == "VERSION" { v = $3 } $1 == "PATCHLEVEL" { print v "." $3; exit }' \
		"$dir/Makefile")
	[ "$have" = "$base" ] ||
		die "KDIR=$dir is a ${have:-nameless} kernel, not $base; give another tree"
	[ ! -e "$dir/.config" ] && [ ! -d "$dir/include/config" ] ||
		die "KDIR=$dir has been configured or built; run 'make mrproper' there, or give a clean tree"
}

unpack() {
	local tarball=$1 dir=$2

	say "unpacking $tarball (once, 1.7 GiB)"
	rm -rf "$dir.part"
	mkdir "$dir.part"
	# head ends tar at its third complaint: a full disk gives one for each file
	if ! tar -xf "$tarball" -C "$dir.part" --strip-components=1 2>&1 | head -n 3 >&2; then
		advise_full "$CACHE"
		rm -rf "$dir.part"
		die "unpacking $tarball failed"
	fi
	mv "$dir.part" "$dir"
}

base=${1:?usage: base.sh BASE}
if [ -n "${KDIR:-}" ]; then
	[ -d "$KDIR" ] || die "KDIR=$KDIR is not a folder"
	dir=$(cd "$KDIR" && pwd -P)
	check_tree "$dir" "$base"
	echo "$dir"
	exit
fi

package=linux-source-$base
version=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null) && [ -n "$version" ] ||
	die "Debian package $package is not installed; run 'make deps', or give KDIR=<kernel source tree>"
tarball=/usr/src/$package.tar.xz
[ -f "$tarball" ] || die "$tarball is missing; run 'apt-get install --reinstall $package'"
cache_dir "$CACHE/base"
dir=$CACHE/base/$version
exec 8>"$dir.lock"
lock 8 "$dir.lock"
[ -d "$dir" ] || unpack "$tarball" "$dir"
echo "$dir"
