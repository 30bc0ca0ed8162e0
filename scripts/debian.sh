#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# debian.sh BASE headers|image: print the folder with Debian's prebuilt cloud
# kernel of BASE, or with its headers. They are unpacked into the cache and
# not installed: an installed kernel would become this machine's next one.
set -eu
. "$(dirname "$0")/lib.sh"

usage="usage: debian.sh BASE headers|image"
base=${1:?$usage}
what=${2:?$usage}

# release: of the kernel that Debian's meta package stands for now.
release() {
	apt-cache depends "linux-headers-$base-cloud-amd64" 2>/dev/null |
		sed -n 's/^ *Depends: linux-headers-\(.*-cloud-amd64\)$/\1/p' | head -n 1
}

# relocate PART DIR: the headers in PART, which will be DIR, have a Makefile
# that includes another one by absolute path.
relocate() {
	sed -i "s|^include /usr/src/|include $2/usr/src/|" \
		"$1/usr/src/linux-headers-$release/Makefile"
}

# fetch DIR PACKAGE...: download and unpack into DIR, in one step.
fetch() {
	local dir=$1

	shift
	say "downloading $*"
	rm -rf "$dir.part"
	mkdir -p "$dir.part/debs"
	(cd "$dir.part/debs" && apt-get -q -o APT::Sandbox::User=root download "$@" >&2) ||
		die "apt-get could not download $*; check the network and apt's proxy settings, then run it again"
	find "$dir.part/debs" -name '*.deb' -exec dpkg-deb -x {} "$dir.part" \; ||
		die "unpacking into $dir.part failed; check free space"
	rm -r "$dir.part/debs"
}

need apt-get apt
need dpkg-deb dpkg
release=$(release)
[ -n "$release" ] ||
	die "apt knows no package linux-headers-$base-cloud-amd64; run 'apt-get update', or give KDIR=<kernel build folder>"
version=${release%-cloud-amd64}
cache_dir "$CACHE/debian"
dir=$CACHE/debian/$what-$release
exec 8>"$dir.lock"
lock 8 "$dir.lock"
if [ ! -d "$dir" ]; then
	case $what in
	headers)
		fetch "$dir" "linux-headers-$release" "linux-headers-$version-common" \
			"linux-kbuild-$version"
		relocate "$dir.part" "$dir"
		;;
	image) fetch "$dir" "linux-image-$release" ;;
	*) die "$usage" ;;
	esac
	mv "$dir.part" "$dir"
fi
case $what in
headers) echo "$dir/usr/src/linux-headers-$release" ;;
image) echo "$dir" ;;
esac
