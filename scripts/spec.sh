#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# spec.sh BASE: run the KUnit suites and print, for each normative clause, the
# tests and their results. Fails for a clause without a test, if the driver has
# the feature that the clause is about, and for a test that failed.
set -eu
. "$(dirname "$0")/lib.sh"

base=${1:?usage: spec.sh BASE}

status=0
"$ROOT/scripts/kunit.sh" "$base" >&2 || status=$?
[ -f "$BUILD/kunit/ktap" ] || die "the suites did not run; see above"
"$ROOT/scripts/spec.py" "$ROOT/drivers/virtio" "$BUILD/kunit/ktap"
exit "$status"
