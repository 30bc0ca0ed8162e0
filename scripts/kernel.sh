#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel.sh BASE VARIANT: build the guest kernel of a variant.
#
# Leaves build/BASE-VARIANT with bzImage, virtio_balloon.ko, modules/ (every
# other module, flat), config and release. Each variant is built in a
# hard-linked copy of the base tree, which lives in the cache and which any
# checkout may use; ccache makes the second variant cheap.
set -eu
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/build.sh"

# inputs: digest of everything the result depends on.
inputs() {
	echo "$tree"
	gcc --version | head -n 1
	cat "$ROOT"/scripts/{kernel,build,lib,overlay}.sh
	[ "$variant" = stock ] || "$ROOT/scripts/overlay.sh" --digest
}

# collect DIR: move what was built to DIR in one step.
collect() {
	local dir=$1 part=$1.part ko

	rm -rf "$part"
	mkdir -p "$part/modules"
	cp arch/x86/boot/bzImage "$part/bzImage"
	cp .config "$part/config"
	cp include/config/kernel.release "$part/release"
	while read -r ko; do
		cp "${ko%.o}.ko" "$part/modules/"
	done <modules.order
	mv "$part/modules/virtio_balloon.ko" "$part/"
	echo "$stamp" >"$part/stamp"
	replace_dir "$dir"
}

main() {
	local usage="usage: kernel.sh BASE stock|series|debug|distro"

	base=${1:?$usage}
	variant=${2:?$usage}
	case $variant in
	stock | series | debug) ;;
	distro | distro-stock) exec "$ROOT/scripts/distro.sh" "$base" ;;
	*) die "there is no variant '$variant'; $usage" ;;
	esac
	need ccache ccache
	need gcc gcc
	source=$("$ROOT/scripts/base.sh" "$base")
	tree=$(variant_tree "$source" "$variant")
	out=$BUILD/$base-$variant
	stamp=$(inputs | hash_of)
	if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ]; then
		say "$base $variant kernel: up to date in ${out#"$ROOT"/}"
		return
	fi
	open_variant "$source" "$tree" "$variant"
	kbuild "$base $variant kernel" "$out.log" ARCH=x86 bzImage modules
	collect "$out"
	say "$base $variant kernel: in ${out#"$ROOT"/}"
}

# in a function, so that bash has read all of this file before a long build
main "$@"
exit
