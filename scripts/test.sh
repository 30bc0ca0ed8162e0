#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# test.sh BASE: everything 'make test' stands for. A step that fails does not
# keep the next from running. The last line is the sum: "N passed, N failed".
set -eu
. "$(dirname "$0")/lib.sh"

base=${1:?usage: test.sh BASE}
results=$BUILD/test
passed=0
failed=0
skipped=0

# step NAME COMMAND...: run COMMAND and add up its lines "ok" and "not ok". One
# that fails without "not ok", or that has no result at all, is a failure too.
step() {
	local name=$1 log=$results/$1.log status ok not_ok skip

	shift
	say "== $name"
	set +e
	"$@" 2>&1 </dev/null | tee "$log"
	status=${PIPESTATUS[0]}
	set -e
	skip=$(grep -cE '^ok .*# SKIP' "$log" || true)
	ok=$(($(grep -c '^ok ' "$log" || true) - skip))
	not_ok=$(grep -c '^not ok ' "$log" || true)
	if [ "$not_ok" = 0 ] && { [ "$status" != 0 ] || [ "$ok" = 0 ]; }; then
		echo "not ok $name # ended with status $status, $ok results; see $log"
		not_ok=1
	fi
	passed=$((passed + ok))
	failed=$((failed + not_ok))
	skipped=$((skipped + skip))
}

# build_step NAME COMMAND...: one result, the command's.
build_step() {
	local name=$1

	shift
	"$@" && echo "ok build $name"
}

main() {
	rm -rf "$results"
	mkdir -p "$results"
	step lint "$ROOT/scripts/lint.sh" "$base"
	step kunit "$ROOT/scripts/kunit.sh" "$base"
	step series env KDIR= OUT="$results/series" \
		GIT_AUTHOR_NAME=Test GIT_AUTHOR_EMAIL=test@example.org \
		GIT_COMMITTER_NAME=Test GIT_COMMITTER_EMAIL=test@example.org \
		"$ROOT/scripts/series.sh" "$base" --check
	step kernel-stock build_step stock "$ROOT/scripts/kernel.sh" "$base" stock
	step kernel-series build_step series "$ROOT/scripts/kernel.sh" "$base" series
	step neighbours "$ROOT/scripts/neighbours.sh" "$base"
	step module build_step module env KDIR= "$ROOT/scripts/module.sh" "$base"
	step kernel-distro build_step distro "$ROOT/scripts/distro.sh" "$base"
	step guests python3 "$ROOT/tools/testing/balloon/test.py"
	grep -h '^not ok ' "$results"/*.log || true
	[ "$skipped" = 0 ] || echo "$skipped skipped"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
}

main
exit
