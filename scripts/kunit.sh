#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kunit.sh BASE: run the KUnit suites on a user-mode kernel, by means of the
# base's own kunit.py. Prints a line for each test case; leaves KTAP in
# build/kunit/ktap.
set -eu
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/build.sh"
. "$ROOT/scripts/um.sh"

base=${1:?usage: kunit.sh BASE}
out=$BUILD/kunit

# cases KTAP: the results of single test cases, as "ok suite.case".
cases() {
	awk '/^    # Subtest: / { suite = $3 }
		/^    (not )?ok [0-9]+ / {
			sub(/^ */, "")
			sub(/ok [0-9]+ /, "ok kunit " suite ".")
			print
		}' "$1"
}

# splats KTAP: what the kernel complained of; a suite does not fail of that.
splats() {
	grep -nE '(BUG|WARNING): |INFO: (possible|suspicious|task|trying)|Kernel panic' "$1"
}

um_tree "$base" um
um_build "$base KUnit kernel" "$out/build.log"
rm -f .kunit/test.log
status=0
python3 tools/testing/kunit/kunit.py exec --arch=um --build_dir=.kunit --timeout=600 \
	--kernel_args=time-travel </dev/null >&2 || status=$?
[ -f .kunit/test.log ] || die "the KUnit kernel did not start"
mkdir -p "$out"
cp .kunit/test.log "$out/ktap.part"
mv "$out/ktap.part" "$out/ktap"
cases "$out/ktap"
if splats "$out/ktap"; then
	echo "not ok kunit kernel log"
	status=1
else
	echo "ok kunit kernel log"
fi
[ "$(cases "$out/ktap" | grep -vc '# SKIP')" -gt 0 ] || die "no KUnit test ran; see $out/ktap"
[ "$status" = 0 ] && ! cases "$out/ktap" | grep -q '^not ok' ||
	die "KUnit tests failed; the whole output is $out/ktap"
