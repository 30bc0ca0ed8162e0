# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034
# What every script here shares; sourced, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=${XDG_CACHE_HOME:-${HOME:?HOME and XDG_CACHE_HOME are both unset}/.cache}/virtio-balloon
BUILD=$ROOT/build

say() {
	printf '%s\n' "$*" >&2
}

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# need TOOL PACKAGE: fail with advice when TOOL is not on the PATH.
need() {
	command -v "$1" >/dev/null ||
		die "$1 is not on the PATH; run 'make deps' or install the Debian package $2"
}

# cache_dir DIR: make a folder of the cache, or explain why that failed.
cache_dir() {
	mkdir -p "$1" 2>/dev/null ||
		die "cannot create $1; check free space and permissions, or set XDG_CACHE_HOME elsewhere"
}

# lock FD FILE: take an exclusive lock, and say so if that means waiting.
lock() {
	flock -n "$1" && return
	say "waiting for another build that uses ${2%.lock}"
	flock "$1"
}

# hash_of: short digest of standard input, for names in the cache.
hash_of() {
	sha256sum | cut -c1-12
}

# advise_full DIR: after a failed write, say whether DIR's file system is full.
advise_full() {
	local left
	left=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
	[ "$left" -ge 200 ] ||
		say "only $left MiB are left on the file system of $1: free some, or set XDG_CACHE_HOME elsewhere"
}

# replace_dir DIR: put the finished DIR.part in the place of DIR.
replace_dir() {
	rm -rf "$1.old"
	[ ! -e "$1" ] || mv "$1" "$1.old"
	mv "$1.part" "$1"
	rm -rf "$1.old"
}
