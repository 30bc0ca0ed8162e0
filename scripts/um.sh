# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The user-mode kernel with the unit tests; sourced after build.sh, never run.

# shellcheck disable=SC2034
UM_ARGS="mem=1G console=tty kunit_shutdown=halt time-travel page_reporting.page_reporting_delay_ms=100"

# um_tree BASE NAME [CONFIG...]: open a tree for a user-mode kernel, with
# settings besides those of the tests, and go there.
um_tree() {
	local base=$1 name=$2 source tree

	shift 2
	need ccache ccache
	need python3 python3
	source=$("$ROOT/scripts/base.sh" "$base") || exit
	tree=$CACHE/trees/$(tree_key "$source")-$name
	open_tree "$source" "$tree"
	"$ROOT/scripts/overlay.sh" "$tree"
	cd "$tree" || exit
	python3 tools/testing/kunit/kunit.py config --arch=um --build_dir=.kunit \
		--kunitconfig=drivers/virtio/balloon/tests "${@/#/--kconfig_add=}" \
		--make_options='CC=ccache gcc' --make_options='HOSTCC=ccache gcc' </dev/null >&2 ||
		die "the KUnit kernel could not be configured; does the base have what tests/.kunitconfig asks for?"
}

# um_build WHAT LOG [ARG...]: build it; it is .kunit/linux then.
um_build() {
	local what=$1 log=$2

	shift 2
	mkdir -p "$(dirname "$log")"
	kbuild "$what" "$log" ARCH=um O=.kunit "$@"
}
