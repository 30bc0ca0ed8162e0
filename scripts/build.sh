# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Building in kernel trees of the cache; sourced after lib.sh, never run.

export CCACHE_DIR=$CACHE/ccache CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=4G
export KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 1970'
export KBUILD_BUILD_USER=balloon KBUILD_BUILD_HOST=balloon KBUILD_BUILD_VERSION=1
export LC_ALL=C
unset MAKEFLAGS MFLAGS MAKELEVEL ARCH CROSS_COMPILE LLVM KBUILD_OUTPUT KCONFIG_CONFIG

# tree_key SOURCE: name of a base tree within the cache. A tree that the user
# gave is known by its files' names, sizes and times.
tree_key() {
	case $1 in
	"$CACHE"/base/*) basename "$1" ;;
	*) echo "kdir-$(find "$1" -name .git -prune -o -type f -printf '%p %s %T@\n' | sort | hash_of)" ;;
	esac
}

# link_tree SOURCE TREE: hard-linked copy, a plain one across file systems.
link_tree() {
	local source=$1 tree=$2

	rm -rf "$tree.part"
	if ! cp -al "$source" "$tree.part" 2>/dev/null; then
		rm -rf "$tree.part"
		cp -a "$source" "$tree.part" || {
			advise_full "$CACHE"
			rm -rf "$tree.part"
			die "copying $source to $tree failed"
		}
	fi
	rm -rf "$tree.part/.git"
	mv "$tree.part" "$tree"
}

# open_tree SOURCE TREE: lock TREE until this process ends; make it if need be.
open_tree() {
	local source=$1 tree=$2

	cache_dir "$CACHE/trees"
	cache_dir "$CCACHE_DIR"
	exec 9>"$tree.lock"
	lock 9 "$tree.lock"
	[ -d "$tree" ] || link_tree "$source" "$tree"
}

# fragments VARIANT: the config fragments that make it.
fragments() {
	local configs=$ROOT/tools/testing/balloon

	echo "$configs/guest.config"
	[ "$1" != debug ] || echo "$configs/debug.config"
}

# variant_tree SOURCE VARIANT: the tree in which VARIANT is built.
variant_tree() {
	local config

	config=$(fragments "$2" | xargs cat | hash_of)
	echo "$CACHE/trees/$(tree_key "$1")-$2-$config"
}

# open_variant SOURCE TREE VARIANT: lock the variant's tree, make it current,
# bring it up to date with the project and configure it.
open_variant() {
	local list

	open_tree "$1" "$2"
	cd "$2" || exit
	[ "$3" = stock ] || "$ROOT/scripts/overlay.sh" "$2" || exit
	mapfile -t list < <(fragments "$3")
	configure "${list[@]}"
}

# configure FRAGMENT...: .config of the current tree, an x86 kernel of nothing
# but what the fragments ask for. Each of their lines must take effect.
configure() {
	local line lost=""

	merge "$@" >balloon.config
	make -s ARCH=x86 CC="ccache gcc" HOSTCC="ccache gcc" KCONFIG_ALLCONFIG=balloon.config \
		allnoconfig </dev/null || die "configuring $PWD failed"
	while read -r line; do
		config_holds "$line" || lost+="  $line"$'\n'
	done <balloon.config
	[ -z "$lost" ] || die "lines without effect in ${*#"$ROOT"/}:"$'\n'"${lost%$'\n'}"
}

# merge FRAGMENT...: their settings; a later fragment overrides an earlier one.
merge() {
	awk '/^(# )?CONFIG_/ {
		name = $1 == "#" ? $2 : $1
		sub(/=.*/, "", name)
		line[name] = $0
	}
	END { for (name in line) print line[name] }' "$@" | sort
}

# config_holds LINE: does .config agree with LINE of a fragment?
config_holds() {
	local name

	case $1 in
	\#*)
		name=${1#\# }
		! grep -q "^${name%% *}=" .config
		;;
	*) grep -qxF "$1" .config ;;
	esac
}

# kbuild WHAT LOG ARG...: make ARG... in the current tree, with progress; what
# make says goes to LOG. An interrupt ends make first, which removes what it
# had half written; it has a process group so that all of its children end.
kbuild() {
	local what=$1 log=$2 make_pid status=0

	shift 2
	mkdir -p "$(dirname "$log")"
	set -m
	make -j"$(nproc)" CC="ccache gcc" HOSTCC="ccache gcc" "$@" </dev/null >"$log" 2>&1 &
	set +m
	make_pid=$!
	trap 'stop_make $make_pid' INT TERM HUP
	show_progress "$what" "$log" "$make_pid"
	wait "$make_pid" || status=$?
	trap - INT TERM HUP
	[ "$status" = 0 ] || build_failed "$what" "$log"
}

stop_make() {
	trap '' INT TERM HUP
	kill -TERM -- "-$1"
	wait "$1" || true
	die "interrupted; run it again to go on"
}

# show_progress WHAT LOG PID: until PID ends, a live line on a terminal, else
# a line every 30 s.
show_progress() {
	local what=$1 log=$2 pid=$3 begin=$SECONDS said=0 text

	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		[ $((SECONDS - begin - said)) -ge "$([ -t 2 ] && echo 1 || echo 30)" ] || continue
		said=$((SECONDS - begin))
		text="$what: ${said}s, $(wc -l <"$log") steps, at $(tail -n 1 "$log" | tr -s ' ' | cut -c1-60)"
		if [ -t 2 ]; then
			printf '\r\033[K%s' "$text" >&2
		else
			say "$text"
		fi
	done
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

build_failed() {
	grep -E 'error:|ERROR:|undefined|No space left|No rule' "$2" | head -n 20 >&2
	[ "${PIPESTATUS[0]}" = 0 ] || tail -n 20 "$2" >&2
	advise_full "$CACHE"
	die "$1: the build failed; the whole log is $2"
}
