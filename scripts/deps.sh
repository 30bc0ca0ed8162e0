#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# deps.sh: install the Debian packages that scripts/dependencies names and
# that are not there yet.
set -eu
. "$(dirname "$0")/lib.sh"

mapfile -t packages < <(sed -n 's/^\([a-z0-9][^ ]*\).*/\1/p' "$ROOT/scripts/dependencies")

# missing: the packages that are not installed.
missing() {
	printf '%s\n' "${packages[@]}" | sort >"$scratch/wanted"
	dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null |
		sed -n 's/^installed //p' | sort -u >"$scratch/there"
	comm -23 "$scratch/wanted" "$scratch/there"
}

# as_root COMMAND...: run it as root, through sudo if need be.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

install() {
	local apt="apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2"

	# shellcheck disable=SC2086 # a list
	as_root $apt update >&2 &&
		as_root env DEBIAN_FRONTEND=noninteractive \
			$apt install --no-install-recommends "$@" </dev/null >&2
}

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null ||
	die "this is not a Debian system (no apt-get); install what scripts/dependencies lists by other means, then set DEPS=no"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mapfile -t todo < <(missing)
[ "${#todo[@]}" -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ]; then
	say "installing with apt: ${todo[*]}"
elif command -v sudo >/dev/null; then
	say "installing with apt through sudo: ${todo[*]}"
else
	die "packages are missing and there is no sudo; as root, run: apt-get install ${todo[*]}"
fi
install "${todo[@]}" || {
	mapfile -t todo < <(missing)
	die "apt could not install: ${todo[*]:-all}; check the network, apt's proxy settings and sources (Debian 12 with bookworm-security), then run it again"
}
