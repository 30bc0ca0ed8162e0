#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kunit.sh BASE [debug]: run the KUnit suites on a user-mode kernel, by means of
# the base's own kunit.py, or in a guest with two CPUs on the debug kernel: all
# of them, and those that care once more on kernels that fill free pages. Prints
# a line for each test case; leaves KTAP in build/kunit/ktap or, of the guest,
# build/kunit-debug/ktap.
set -eu
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/build.sh"
. "$ROOT/scripts/um.sh"

base=${1:?usage: kunit.sh BASE [debug]}
out=$BUILD/kunit
status=0
delay=page_reporting.page_reporting_delay_ms=100

# run SUITES ARGUMENT...: boot, with arguments for the kernel, and add its KTAP.
run() {
	local suites=$1

	shift
	rm -f .kunit/test.log
	set -- time-travel $delay "$@"
	python3 tools/testing/kunit/kunit.py exec --arch=um --build_dir=.kunit --timeout=600 \
		"${@/#/--kernel_args=}" "$suites" </dev/null >&2 || status=$?
	[ -f .kunit/test.log ] || die "the KUnit kernel did not start"
	cat .kunit/test.log >>"$out/ktap.part"
}

# cases KTAP: the results of single test cases, as "ok suite.case". One that was
# skipped in one run is what it is in another.
cases() {
	awk '/^    # Subtest: / { suite = $3 }
		/^    (not )?ok [0-9]+ / {
			sub(/^ */, "")
			sub(/ok [0-9]+ /, "ok kunit " suite ".")
			name = $0
			sub(/^(not )?ok /, "", name)
			sub(/ #.*/, "", name)
			if (!(name in result))
				order[++n] = name
			if (!(name in result) || /^not ok/ || result[name] ~ /# SKIP/)
				result[name] = $0
		}
		END { for (i = 1; i <= n; i++) print result[order[i]] }' "$1"
}

# splats KTAP: what the kernel complained of; a suite does not fail of that.
splats() {
	grep -nE '(BUG|WARNING): |INFO: (possible|suspicious|task|trying)|Kernel panic' "$1"
}

# run_guest SUITES ARGUMENT...: the same in a guest.
run_guest() {
	local suites=$1

	shift
	python3 "$ROOT/tools/testing/balloon/kunit.py" debug "$out/log" $delay \
		"kunit.filter_glob=$suites" "$@" >&2 || status=$?
	cat "$out/log" >>"$out/ktap.part"
}

if [ "${2:-}" = debug ]; then
	out=$BUILD/kunit-debug
	mkdir -p "$out"
	: >"$out/ktap.part"
	"$ROOT/scripts/kernel.sh" "$base" debug
	run_guest '*'
	run_guest virtio_balloon_report init_on_free=1
else
	um_tree "$base" um
	um_build "$base KUnit kernel" "$out/build.log"
	mkdir -p "$out"
	: >"$out/ktap.part"
	run '*'
	# not init_on_free: user-mode kernels with KASAN do not boot with it
	run virtio_balloon_report page_poison=1
fi
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
