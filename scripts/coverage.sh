#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# coverage.sh BASE: which lines and branches of the driver the KUnit suites
# reach. Fails below 90 % of lines, when a suite fails, and for lines that are
# not reached without a reason in coverage.list.
set -eu
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/build.sh"
. "$ROOT/scripts/um.sh"

base=${1:?usage: coverage.sh BASE}
out=$BUILD/coverage

# all_passed KTAP: did each suite run to its end, and none fail?
all_passed() {
	awk '/^1\.\./ { plan = substr($1, 4) }
		/^ok / { passed++ }
		END { exit !plan || passed != plan }' "$1"
}

# write_at_exit: the base's linker script leaves out what gcov has done at exit.
write_at_exit() {
	local script=arch/um/include/asm/common.lds.S

	grep -qF '*(.fini_array.*)' $script ||
		sed -i 's/^\t\*(\.fini_array)$/\t*(.fini_array.*)\n&/' $script
	grep -qF '*(.fini_array.*)' $script ||
		die "$PWD/$script has no line for .fini_array: gcov would not write what it counts"
}

need gcov gcc
um_tree "$base" um-coverage \
	CONFIG_GCOV=y CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y CONFIG_DEBUG_INFO_REDUCED=y \
	CONFIG_KASAN=n CONFIG_KASAN_OUTLINE=n CONFIG_PROVE_LOCKING=n
write_at_exit
# libgcov and the kernel have a function of the same name each: muldefs
um_build "$base coverage kernel" "$out/build.log" \
	"GCOV_OPT=-fprofile-arcs -ftest-coverage -Wl,-z,muldefs"
find .kunit -name '*.gcda' -delete
# shellcheck disable=SC2086 # a list of arguments
for fill in init_on_free=0 init_on_free=1 page_poison=1; do
	timeout 300 .kunit/linux $UM_ARGS $fill </dev/null >"$out/ktap" 2>&1 || true
	all_passed "$out/ktap" || die "a suite failed or did not end with $fill; see $out/ktap"
done
find .kunit/drivers/virtio .kunit/mm -name '*balloon*.gcda' -o -path '*/balloon/*.gcda' \
	-o -name 'page_reporting.gcda' | grep -v /tests/ |
	LC_ALL=C sort | xargs gcov --json-format --stdout --branch-probabilities >"$out/gcov.json"
"$ROOT/scripts/coverage.py" "$out/gcov.json" "$ROOT/scripts/coverage.list" | tee "$out/report"
exit "${PIPESTATUS[0]}"
