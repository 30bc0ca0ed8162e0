#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# lint.sh BASE: style and static checks on every file of the project. Prints
# "ok" or "not ok" for each check, what it found before that; exits non-zero
# when a check fails or one of its tools is missing.
set -eu
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/build.sh"

base=${1:?usage: lint.sh BASE}
ours='(drivers/virtio/(balloon/|virtio_balloon)|linux/virtio_balloon\.h|page_reporting)'
sparse_log=$BUILD/lint-sparse.log
failed=0

# files PATTERN...: the project's files whose path matches, sorted.
files() {
	local pattern args=()

	for pattern; do
		args+=(-o -path "./$pattern")
	done
	find . \( -name .git -o -name .pc -o -path ./build -o -name __pycache__ \) -prune -o \
		-type f \( "${args[@]:1}" \) -print | sort | sed 's|^\./||'
}

# check NAME FUNCTION FILE...: run FUNCTION on the files and report.
check() {
	local name=$1 function=$2 status

	shift 2
	if [ $# = 0 ]; then
		echo "ok lint $name # SKIP there is no such file"
		return
	fi
	set +e
	(set -e; "$function" "$@") >"$scratch/out" 2>&1
	status=$?
	set -e
	if [ "$status" = 0 ]; then
		echo "ok lint $name: $# files"
	else
		sed 's/^/# /' "$scratch/out"
		echo "not ok lint $name: $# files, $(wc -l <"$scratch/out") lines of complaint"
		failed=1
	fi
}

# checkpatch IGNORE FILE...: GIT_DIR keeps it from a check that needs more tools.
checkpatch() {
	local ignore=$1

	shift
	printf '%s\0' "$@" | GIT_DIR=none xargs -0 -r -n 1 -P "$(nproc)" \
		perl "$source/scripts/checkpatch.pl" --root="$source" --strict \
		--codespell --codespellfile="$dictionary" --terse --no-summary --show-types \
		--ignore="$ignore" -f
}

# run_checkpatch: an interface's macros and programs that run in user space
# are not held to rules for kernel code; page flags are set by names that are
# what checkpatch calls camel case; trace events are laid out like data.
run_checkpatch() {
	local kernel interface tools mm trace

	mapfile -t interface < <(printf '%s\n' "$@" | grep '^include/uapi/')
	mapfile -t tools < <(printf '%s\n' "$@" | grep '^tools/')
	mapfile -t mm < <(printf '%s\n' "$@" | grep '^mm/')
	mapfile -t trace < <(printf '%s\n' "$@" | grep '^include/trace/')
	mapfile -t kernel < <(printf '%s\n' "$@" | grep -v '^tools/\|^include/uapi/\|^include/trace/\|^mm/')
	checkpatch NONE "${kernel[@]}"
	checkpatch CAMELCASE "${mm[@]}"
	checkpatch OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT "${trace[@]}"
	checkpatch MACRO_ARG_REUSE "${interface[@]}"
	checkpatch VOLATILE,PREFER_DEFINED_ATTRIBUTE_MACRO,ENOSYS "${tools[@]}"
}

# compile: our objects, with extra warnings and sparse, in the configuration
# of the debug variant, so that the unit tests are seen too.
compile() (
	rm -f "$sparse_log"
	open_variant "$source" "$(variant_tree "$source" debug)" debug
	find drivers/virtio -path '*balloon*.o' -delete
	rm -f mm/page_reporting.o
	kbuild "lint: sparse and W=1" "$sparse_log" ARCH=x86 W=1 C=2 drivers/virtio/balloon/ mm/page_reporting.o
)

run_sparse() {
	local file

	for file; do
		# headers, and tests that the file they belong to includes
		[[ $file == *.h || $file == mm/tests/* ]] || grep -q "^  CHECK .*/$(basename "$file")$" "$sparse_log" ||
			{ echo "$file was not compiled"; return 1; }
	done
	! grep -E "${ours}[^:]*:.*(warning|error):" "$sparse_log"
}

run_kernel_doc() {
	local file status=0

	for file; do
		"$source/scripts/kernel-doc" -none -Wall -Werror "$file" || status=1
	done
	return "$status"
}

run_own_words() {
	"$ROOT/scripts/own_words.py" "$source" "$@"
}

run_rst() {
	"$ROOT/scripts/check_rst.py" "$@"
}

# run_compat: versions and kernel interfaces are asked for in compat/ only.
run_compat() {
	! grep -nE 'LINUX_VERSION|KERNEL_VERSION|^#.*\bHAVE_' "$@"
}

run_shellcheck() {
	shellcheck -x -e SC1091,SC2015,SC2317 "$@"
}

run_python() {
	local wanted=E,F,unused-import,unused-variable,unused-argument,bare-except,unreachable
	wanted+=,dangerous-default-value,redefined-builtin,line-too-long,trailing-whitespace
	wanted+=,consider-using-with,subprocess-run-check,unspecified-encoding
	wanted+=,f-string-without-interpolation,undefined-loop-variable,pointless-statement
	wanted+=,too-many-branches,too-many-statements,cell-var-from-loop,unused-wildcard-import

	PYTHONPATH=tools/testing/balloon pylint --rcfile=/dev/null --persistent=n --score=n \
		--max-line-length=100 --disable=all --enable="$wanted" "$@"
}

run_spdx() {
	local file status=0

	for file; do
		head -n 3 "$file" | grep -q 'SPDX-License-Identifier: ' || {
			echo "$file: no SPDX-License-Identifier in its first three lines"
			status=1
		}
	done
	return "$status"
}

# run_paths: no file speaks of one machine's folders.
run_paths() {
	! grep -nE '(^|[^[:alnum:]_.~}])/(home|root|work)/' "$@"
}

need perl perl
need sparse sparse
need shellcheck shellcheck
need pylint pylint
need codespell codespell
need ccache ccache
/usr/bin/python3 -c 'import docutils' 2>/dev/null ||
	die "docutils is missing; run 'make deps' or install the Debian package python3-docutils"
source=$("$ROOT/scripts/base.sh" "$base")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$ROOT"
dictionary=$(dpkg -L codespell 2>/dev/null | grep '/dictionary.txt$') ||
	die "codespell's dictionary.txt was not found; install the Debian package codespell"

mapfile -t c < <(files '*.c' '*.h')
mapfile -t kernel_c < <(files 'drivers/*.[ch]' 'include/*.h' 'mm/*.[ch]')
mapfile -t shell < <(grep -lrE --exclude-dir={.git,build} '^#!/bin/(ba)?sh' . | sort)
mapfile -t python < <(files '*.py')
mapfile -t rst < <(files 'Documentation/*.rst')
mapfile -t code < <(files '*.[chS]' '*.py' '*.sh' '*Makefile' '*Kconfig' '*.config' '*.kunitconfig' \
	'scripts/*' '.ci/*' | grep -v '^scripts/series/')
mapfile -t portable < <(printf '%s\n' "${code[@]}" | grep -vE '^(compat/|scripts/lint.sh$)')
mapfile -t text < <(files '*' | grep -vE '\.(png|svg)$')

check checkpatch run_checkpatch "${c[@]}"
compile || failed=1
check "sparse and W=1" run_sparse "${kernel_c[@]}"
check kernel-doc run_kernel_doc "${kernel_c[@]}"
check "own words" run_own_words "${kernel_c[@]}"
check rst run_rst "${rst[@]}"
check "compat only in compat/" run_compat "${portable[@]}"
check shellcheck run_shellcheck "${shell[@]}"
check pylint run_python "${python[@]}"
check "SPDX lines" run_spdx "${code[@]}"
check "local paths" run_paths "${text[@]}"
exit $failed
