#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Obtains a Rust compiler for 32-bit x86 and prints where it is: below it are
# bin/rustc and lib. Debian has the library for i386 as a package of that
# architecture only. It is unpacked into the cache together with the compiler of the
# same version, so that neither the system's architectures nor its packages change.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

place=$cache/rust32
log=$cache/rust32.log

# apt with package lists of its own, which nothing is installed from.
own_apt() {
	local command=$1
	shift
	"apt-$command" -o APT::Architectures=amd64,i386 -o Acquire::Languages=none \
		-o APT::Sandbox::User=root -o Debug::NoLocking=1 \
		-o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
		-o Dir::State::status="$work/status" "$@"
}

# versions ARCHITECTURE: of the library.
versions() {
	own_apt cache madison "libstd-rust-web-dev:$1" | awk -F '|' '{ gsub(/ /, "", $2); print $2 }' | sort -u
}

obtain() {
	local version package
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
	touch "$work/status"
	# A mirror that is being updated may lack some of the lists: what there is may do.
	run_logged "$log" "package lists" own_apt get update || true
	version=$(comm -12 <(versions amd64) <(versions i386) | sort -V | tail -n 1)
	[ -n "$version" ] || return 1
	cd "$work/debs"
	run_logged "$log" "compiler for 32 bits" own_apt get download "rustc-web=$version" \
		"libstd-rust-web-$(cut -d . -f 1,2 <<<"$version")=$version" \
		"libstd-rust-web-dev:amd64=$version" "libstd-rust-web-dev:i386=$version" || return 1
	for package in *.deb; do
		dpkg -x "$package" "$work/root"
	done
	rm -rf "$place.new"
	cp -r "$work/root/usr" "$place.new"
	check "$place.new" || return 1
	mv "$place.new" "$place"
}

# check PLACE: whether the compiler there runs.
check() {
	LD_LIBRARY_PATH=$1/lib/x86_64-linux-gnu "$1/bin/rustc" --version >>"$log" 2>&1
}

take_lock "$cache/rust32.lock" "download of a compiler for 32 bits"
[ -d "$place" ] || (obtain) || die "no compiler for 32 bits can be had" "$log says why"
release_lock
printf '%s\n' "$place"
