#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kunit.sh BASE: run the KUnit suites on a user-mode kernel, by means of the
# base's own kunit.py. Prints a line for each test case; leaves KTAP in
# build/kunit/ktap.
set -eu
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/build.sh"

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

need ccache ccache
need python3 python3
source=$("$ROOT/scripts/base.sh" "$base")
tree=$CACHE/trees/$(tree_key "$source")-um
open_tree "$source" "$tree"
"$ROOT/scripts/overlay.sh" "$tree"
cd "$tree"
kunit="python3 tools/testing/kunit/kunit.py"
$kunit config --arch=um --build_dir=.kunit --kunitconfig=drivers/virtio/balloon/tests \
	--make_options='CC=ccache gcc' --make_options='HOSTCC=ccache gcc' </dev/null >&2 ||
	die "the KUnit kernel could not be configured; does the base have what tests/.kunitconfig asks for?"
kbuild "$base KUnit kernel" "$tree/balloon-build.log" ARCH=um O=.kunit

rm -f .kunit/test.log
status=0
$kunit exec --arch=um --build_dir=.kunit --timeout=600 </dev/null >&2 || status=$?
[ -f .kunit/test.log ] || die "the KUnit kernel did not start"
mkdir -p "$out"
cp .kunit/test.log "$out/ktap.part"
mv "$out/ktap.part" "$out/ktap"
cases "$out/ktap"
[ "$(cases "$out/ktap" | grep -vc '# SKIP')" -gt 0 ] || die "no KUnit test ran; see $out/ktap"
[ "$status" = 0 ] && ! cases "$out/ktap" | grep -q '^not ok' ||
	die "KUnit tests failed; the whole output is $out/ktap"
