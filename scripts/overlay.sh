#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# overlay.sh TREE: bring the project's files into a kernel tree and wire them
#                  into its Makefile and Kconfig files.
# overlay.sh --copy DIR: only what an external module is made of, nothing wired.
# overlay.sh --digest: print a checksum of all that would be brought.
# overlay.sh --files: print the files, those of the kernel that get an entry too.
#
# Only what differs is written, so that an incremental build stays one, and
# always as a new file, so that a hard-linked neighbour never changes. Files
# that left the project leave the tree; what they stood in for comes back.
# TREE/.balloon holds the list of placed files and the originals.
set -eu
export LC_ALL=C
. "$(dirname "$0")/lib.sh"

kconfig=drivers/virtio/balloon/Kconfig
roots="include drivers mm Documentation tools/testing/selftests"
wired="Documentation/subsystem-apis.rst MAINTAINERS drivers/virtio/Kconfig drivers/virtio/Makefile
	tools/testing/selftests/Makefile"

# project_files: the files whose place here is their place in the kernel.
project_files() {
	# shellcheck disable=SC2086 # a list
	(cd "$ROOT" &&
		find $roots -type f \
			! -name '*~' ! -name '.*.sw?' ! -name '*.o' ! -name '*.rej' ! -name '*.orig' \
			2>/dev/null || true)
	[ ! -f "$ROOT/Kconfig" ] || echo "$kconfig"
}

# source_of FILE: where the project keeps the tree's FILE.
source_of() {
	if [ "$1" = "$kconfig" ]; then
		echo "$ROOT/Kconfig"
	else
		echo "$ROOT/$1"
	fi
}

# wire FILE: FILE of a pristine tree, with our entry, on standard output.
# shellcheck disable=SC2016 # these are make's variables
wire() {
	case $1 in
	Documentation/subsystem-apis.rst)
		awk '{ print } $1 == "virt/index" { print "   balloon" }'
		;;
	MAINTAINERS)
		"$ROOT/scripts/wire_maintainers.py" "$ROOT/MAINTAINERS"
		;;
	drivers/virtio/Makefile)
		sed 's|^obj-$(CONFIG_VIRTIO_BALLOON) += virtio_balloon.o$|obj-$(CONFIG_VIRTIO_BALLOON) += balloon/|'
		;;
	drivers/virtio/Kconfig)
		awk -v source="source \"$kconfig\"\n" '
			seen && /^config / { print source; seen = 0 }
			/^config VIRTIO_BALLOON$/ { seen = 1 }
			{ print }'
		;;
	tools/testing/selftests/Makefile)
		awk '/^TARGETS \+= / && $3 > "balloon" && !done { print "TARGETS += balloon"; done = 1 }
			{ print }'
		;;
	esac
}

# put FILE: standard input becomes TREE/FILE, unless that is what it holds.
put() {
	local dest=$tree/$1

	mkdir -p "$(dirname "$dest")"
	cat >"$dest.part"
	if cmp -s "$dest.part" "$dest"; then
		rm "$dest.part"
	else
		mv "$dest.part" "$dest"
	fi
}

# keep_original FILE: remember what the base has in the place of FILE.
keep_original() {
	[ -f "$tree/$1" ] && [ ! -e "$state/orig/$1" ] || return 0
	mkdir -p "$(dirname "$state/orig/$1")"
	cp "$tree/$1" "$state/orig/$1.part"
	mv "$state/orig/$1.part" "$state/orig/$1"
}

# give_back FILE: undo the placing of FILE.
give_back() {
	if [ -f "$state/orig/$1" ]; then
		put "$1" <"$state/orig/$1"
		rm "$state/orig/$1"
	else
		rm -f "$tree/$1"
	fi
}

# check_wiring: write the wired files to $state/new, or give up before the
# tree has changed.
check_wiring() {
	local file original

	for file in $wired; do
		original=$state/orig/$file
		[ -f "$original" ] || original=$tree/$file
		[ -f "$original" ] || die "$original is missing: is $tree a kernel source tree?"
		mkdir -p "$(dirname "$scratch/$file")"
		wire "$file" <"$original" >"$scratch/$file"
		! cmp -s "$original" "$scratch/$file" ||
			die "$original has no place for the balloon's entry; use an unpatched tree"
	done
}

usage="usage: overlay.sh TREE | --copy DIR | --digest | --files"
case ${1:?$usage} in
--files)
	project_files | sort
	# shellcheck disable=SC2086 # a list
	printf '%s\n' $wired
	exit
	;;
--digest)
	project_files | sort | while read -r file; do
		echo "$file $(sha256sum <"$(source_of "$file")")"
	done | hash_of
	exit
	;;
--copy)
	tree=${2:?$usage}
	roots="include/uapi include/trace include/linux/page_reporting_blocks.h drivers"
	wired=""
	;;
*) tree=$1 ;;
esac
state=$tree/.balloon
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
new=$scratch/files
old=$state/files

project_files | sort >"$new"
grep -qx drivers/virtio/balloon/Makefile "$new" ||
	die "drivers/virtio/balloon/Makefile is missing from $ROOT; the checkout is not complete"
check_wiring

mkdir -p "$state/orig"
[ -f "$old" ] || : >"$old"
for file in $(comm -23 "$new" "$old") $wired; do
	keep_original "$file"
done
# from here on an interrupted run can be taken up: the list covers old and new
sort -u "$new" "$old" | put .balloon/files
while read -r file; do
	put "$file" <"$(source_of "$file")"
done <"$new"
for file in $wired; do
	put "$file" <"$scratch/$file"
done
comm -13 "$new" "$old" | while read -r file; do
	give_back "$file"
done
put .balloon/files <"$new"
