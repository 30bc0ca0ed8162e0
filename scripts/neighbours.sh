#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# neighbours.sh BASE: do the base's own users of what the series replaces still
# build? They are not edited: the page allocator, with page reporting and
# without, and the other driver that reports pages.
set -eu
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/build.sh"

base=${1:?usage: neighbours.sh BASE}
log=$BUILD/neighbours.log

# build NAME SETTING... -- OBJECT...: with these settings besides the guest's.
build() {
	local name=$1 settings=()

	shift
	while [ "$1" != -- ]; do
		settings+=("$1")
		shift
	done
	shift
	printf '%s\n' "${settings[@]}" >neighbours.config
	configure "$ROOT/tools/testing/balloon/guest.config" neighbours.config
	kbuild "$name" "$log" ARCH=x86 W=1 "$@"
	! grep -E '^mm/page_reporting.*(warning|error):' "$log" || die "$name: warnings; see $log"
	echo "ok build $name"
}

# links OBJECT SYMBOL...: OBJECT uses these, and mm/page_reporting.o has them.
links() {
	local object=$1 symbol

	shift
	for symbol; do
		nm "$object" | grep -q " U $symbol$" || die "$object does not use $symbol"
		nm mm/page_reporting.o | grep -q " [BDT] $symbol$" ||
			die "mm/page_reporting.o has no $symbol, which $object uses"
	done
}

need ccache ccache
need gcc gcc
source=$("$ROOT/scripts/base.sh" "$base")
open_tree "$source" "$CACHE/trees/$(tree_key "$source")-neighbours"
cd "$CACHE/trees/$(tree_key "$source")-neighbours"
"$ROOT/scripts/overlay.sh" "$PWD"

build "page_alloc.c and hv_balloon.c with page reporting" \
	CONFIG_HYPERVISOR_GUEST=y CONFIG_HYPERV=y CONFIG_HYPERV_BALLOON=y -- \
	mm/page_alloc.o mm/page_reporting.o drivers/hv/hv_balloon.o
links drivers/hv/hv_balloon.o page_reporting_register page_reporting_unregister page_reporting_order
links mm/page_alloc.o page_reporting_enabled __page_reporting_notify __page_reporting_taken

build "page_alloc.c without page reporting" \
	"# CONFIG_PAGE_REPORTING is not set" "# CONFIG_VIRTIO_BALLOON is not set" \
	"# CONFIG_BALLOON_COMPACTION is not set" -- mm/page_alloc.o
! nm mm/page_alloc.o | grep -q page_report || die "mm/page_alloc.o still refers to page reporting"
