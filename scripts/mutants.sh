#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mutants.sh BASE [NAME...]: apply each small fault of mutants.list, or those
# named, to a copy of the driver and see that the KUnit suites notice.
set -eu
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/build.sh"
. "$ROOT/scripts/um.sh"

base=${1:?usage: mutants.sh BASE [NAME...]}
shift
um_tree "$base" um-mutants
um_build "$base mutants kernel" "$BUILD/mutants/build.log"
# shellcheck disable=SC2086 # a list of arguments
exec "$ROOT/scripts/mutants.py" "$ROOT" "$BUILD/mutants" "$UM_ARGS" "$@"
