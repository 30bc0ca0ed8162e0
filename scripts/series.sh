#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# series.sh BASE: write the project as patches that 'git am' takes on the base,
#                 to OUT, by default build/series-BASE.
# series.sh BASE --check: and show that it does, with the overlay as the result,
#                 and that checkpatch has nothing to say.
# series.sh BASE --prove: and build a kernel after each patch, in four
#                 configurations. That takes an hour.
#
# A file of scripts/series/ is a patch: its message, a line "--", and
#
#   file FILE            the file, of the project or wired, comes with this patch
#   before FILE COMMAND  until this patch it is without what the perl COMMAND takes
#                        out of it as it is afterwards
#
# So each file of the project is kept once, as it is in the end.
set -eu -o pipefail
export LC_ALL=C
. "$(dirname "$0")/lib.sh"
. "$ROOT/scripts/build.sh"

usage="usage: series.sh BASE [--check|--prove]"
base=${1:?$usage}
mode=${2:-}
out=${OUT:-$BUILD/series-$base}
# for page flags' names and trace events, as in lint.sh; MAINTAINERS is kept up
# to date by each patch; and programs are written for user space
checkpatch_ignore=FILE_PATH_CHANGES,CAMELCASE,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT

# directives NUMBER KIND: what patch NUMBER says, a line each.
directives() {
	sed -n "1,/^--\$/d; s/^$2 //p" "${patches[$1]}"
}

message() {
	sed '/^--$/,$d' "${patches[$1]}"
}

# originals: the base's version of what the series changes, in a repository.
originals() {
	local file

	git init -q -b series "$work/repo"
	while read -r file; do
		[ -f "$source/$file" ] || continue
		mkdir -p "$work/repo/$(dirname "$file")"
		cp "$source/$file" "$work/repo/$file"
	done <"$work/files"
	cp -r "$work/repo" "$work/final"
	rm -rf "$work/final/.git"
	"$ROOT/scripts/overlay.sh" "$work/final"
	rm -rf "$work/final/.balloon"
	git_repo add -A
	git_repo -c user.name=base -c user.email=base@localhost commit -q -m "$base"
	git_repo tag base
}

git_repo() {
	git -C "$work/repo" -c core.autocrlf=false -c commit.gpgsign=false "$@"
}

# cut_out FILE COMMAND: take out what a later patch brings.
cut_out() {
	local whole=$work/whole

	cp "$1" "$whole"
	perl -0777 -pe "$2" "$whole" >"$1"
	! cmp -s "$1" "$whole" ||
		die "${1#"$work"/repo/}: '$2' takes nothing out; scripts/series/ is behind the sources"
}

# put_files NUMBER: the repository's files as they are after patch NUMBER.
put_files() {
	local n file command
	local -A placed=()

	for ((n = 1; n <= $1; n++)); do
		while read -r file; do
			mkdir -p "$(dirname "$work/repo/$file")"
			cp "$work/final/$file" "$work/repo/$file"
			placed[$file]=1
		done < <(directives "$n" file)
	done
	for ((n = ${#patches[@]} - 1; n > $1; n--)); do
		while read -r file command; do
			[ -z "${placed[$file]:-}" ] ||
				cut_out "$work/repo/$file" "$command"
		done < <(directives "$n" before)
	done
}

# check_out: OUT is to be made, or holds patches of an earlier run and nothing else.
check_out() {
	[ -d "$out" ] || [ ! -e "$out" ] || die "$out is not a folder"
	[ ! -d "$out" ] || ! find "$out" -mindepth 1 ! -name '0[0-9][0-9][0-9]-*' | grep -q . ||
		die "$out holds more than patches, and would be replaced: give OUT= another folder"
}

# check_files: each file is in just one patch.
check_files() {
	local n

	for ((n = 1; n < ${#patches[@]}; n++)); do
		directives "$n" file
	done | sort >"$work/in_patches"
	sort "$work/files" | diff - "$work/in_patches" >"$work/diff" ||
		die "scripts/series/ and the project's files differ:"$'\n'"$(grep '^[<>]' "$work/diff")"
}

commit_all() {
	local n

	for ((n = 1; n < ${#patches[@]}; n++)); do
		put_files "$n"
		git_repo add -A
		message "$n" | git_repo commit -q -s -F - ||
			die "patch $n, ${patches[$n]##*/}, changes nothing, or git has no identity: set user.name and user.email"
	done
	diff -r -x .git "$work/repo" "$work/final" >&2 ||
		die "the series does not lead to what the overlay has"
}

# format: the patches, with the cover letter that git makes of the branch's description.
format() {
	git_repo config branch.series.description "$(message 0)"
	git_repo format-patch -q --cover-letter --cover-from-description=subject \
		--subject-prefix="PATCH $base" -o "$work/out" base..series
	mv "$work/out"/0000-cover-letter.{patch,txt}
	mkdir -p "$(dirname "$out")"
	rm -rf "$out.part"
	cp -r "$work/out" "$out.part"
	replace_dir "$out"
}

# check_am: the patches apply to the base, and give what the overlay gives.
check_am() {
	git_repo checkout -q -b applied base
	git_repo -c user.name=am -c user.email=am@localhost am -q "$out"/*.patch &&
		git_repo diff --exit-code series
}

# check_patch PATCH: what checkpatch has to say of it, if anything.
check_patch() {
	(cd "$source" && GIT_DIR=none perl scripts/checkpatch.pl --strict --terse --no-summary \
		--show-types --ignore "$checkpatch_ignore" "$1")
}

report() {
	local name=$1

	shift
	if "$@" >"$work/log" 2>&1; then
		echo "ok series $name"
	else
		sed 's/^/# /' "$work/log"
		echo "not ok series $name"
		failed=1
	fi
}

check() {
	local patch

	report "git am takes it, and it is the overlay" check_am
	for patch in "$out"/*.patch; do
		report "checkpatch $(basename "$patch" .patch)" check_patch "$patch"
	done
}

# prove: build after each patch, in a tree of its own.
prove() {
	local n=0 commit tree how setting

	tree=$CACHE/trees/$(tree_key "$source")-prove
	open_tree "$source" "$tree"
	for commit in $(git_repo rev-list --reverse base..series); do
		n=$((n + 1))
		git_repo checkout -q "$commit"
		update_tree "$tree"
		while IFS=: read -r how setting; do
			report "patch $n builds: $how" build_as "$tree" "$n-$how" "$setting"
		done <<-'END'
			module:CONFIG_VIRTIO_BALLOON=m
			built-in:CONFIG_VIRTIO_BALLOON=y
			no-reporting:# CONFIG_PAGE_REPORTING is not set
			no-balloon:# CONFIG_VIRTIO_BALLOON is not set
		END
	done
}

# update_tree TREE: TREE's files as the repository has them; what it has not, goes.
update_tree() {
	local file

	while read -r file; do
		if [ ! -f "$work/repo/$file" ]; then
			rm -f "$1/$file"
		elif ! cmp -s "$work/repo/$file" "$1/$file"; then
			mkdir -p "$(dirname "$1/$file")"
			cp "$work/repo/$file" "$1/$file.part"
			mv "$1/$file.part" "$1/$file"
		fi
	done <"$work/files"
}

# build_as TREE NAME SETTING: the guest's configuration but for one thing.
build_as() (
	cd "$1"
	printf '%s\n' "$3" >"$work/fragment"
	configure "$ROOT/tools/testing/balloon/guest.config" "$work/fragment"
	kbuild "$2" "$work/build.log" ARCH=x86 bzImage modules
	! grep -E 'warning:' "$work/build.log"
)

main() {
	case $mode in
	'' | --check | --prove) ;;
	*) die "$usage" ;;
	esac
	need git git
	check_out
	failed=0
	source=$("$ROOT/scripts/base.sh" "$base")
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mapfile -t patches < <(printf '%s\n' "$ROOT"/scripts/series/[0-9]*)
	"$ROOT/scripts/overlay.sh" --files >"$work/files"
	check_files
	originals
	commit_all
	format
	say "$((${#patches[@]} - 1)) patches and a cover letter, for 'git am ${out#"$ROOT"/}/*.patch' in a $base tree"
	[ -z "$mode" ] || check
	[ "$mode" != --prove ] || prove
	return $failed
}

main
exit
