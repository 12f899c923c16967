#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Obtains Debian 13's own kernel, of its backports, and what modules for it are built with: its
# image and modules as they are, and a tree that the kernel's metadata of Rust are in, which Debian
# does not package. NTB core and its drivers, which that kernel lacks, are built beside it.
#
#   stock.sh                     obtain and build, unless it is there
#   stock.sh --print-dir         where it is
#   stock.sh --modules OUTPUT    build the project's modules for it
#
# The compilers are Debian 13's, in a root file system of their own (`root` below the directory):
# a module fits a kernel only if the same ones made both.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname -- "${BASH_SOURCE[0]}")/debian.sh"

suite=trixie
series=7.3
flavour=amd64
compilers=(
	gcc-14 make flex bison bc libelf-dev libssl-dev openssl cpio kmod xz-utils rsync python3 perl
	rustc rust-src bindgen clang-19 libclang-19-dev pahole binutils
)

# Of what it is made by: another checkout may have others.
key=$(cat "$checkout"/scripts/{stock,debian_tree}.sh "$checkout/scripts/kernel/stock.config" |
	sha256sum | cut -c 1-12)
place=$cache/stock-$key
root=$place/root
# As the root file system sees them: what debian_tree.sh makes, and of what.
output=/kernel
source=/usr/src/linux-source-$series

# inside COMMAND...: in that root file system, with its own view of processes, and of the
# directories in `shared`, at the same paths.
shared=()
inside() {
	# shellcheck disable=SC2016 # for the inner shell to expand
	unshare --mount --propagation private bash -euc '
		root=$1
		shift
		mount -t proc proc "$root/proc"
		while [ "$1" != -- ]; do
			mkdir -p "$root$1"
			mount --bind "$1" "$root$1"
			shift
		done
		shift
		exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"
	' inside "$root" "${shared[@]}" -- "$@"
}

# logged LOG WHAT COMMAND...: as run_logged, and ends the script with the log's end.
logged() {
	local log=$place/$1.log what=$2
	shift 2
	run_logged "$log" "$what" "$@" || {
		show_end "$log"
		die "$what: it failed" "$log says why"
	}
}

# --- packages -----------------------------------------------------------------

make_root() {
	local mirror
	command -v mmdebstrap >/dev/null || die "mmdebstrap is missing" "install the package mmdebstrap"
	mirror=$(debian_mirror)
	say "making a root file system of Debian's $suite with its compilers"
	logged root "root file system" mmdebstrap --variant=minbase \
		--include="$(IFS=,; printf %s "${compilers[*]}")" "$suite" "$root" \
		"deb [signed-by=$keyring] $mirror $suite main" \
		"deb [signed-by=$keyring] $mirror $suite-backports main"
}

# The name of the newest kernel of the series, as its image has it.
newest_release() {
	inside apt-cache pkgnames "linux-image-$series." |
		sed -nE "s/^linux-image-([0-9.]+\+deb[0-9]+-$flavour)$/\1/p" | sort -V | tail -n 1
}

fetch_kernel() {
	printf 'APT::Sandbox::User "root";\n' >"$root/etc/apt/apt.conf.d/50root"
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	logged lists "package lists" inside apt-get update
	release=$(newest_release)
	[ -n "$release" ] || die "$suite-backports has no kernel $series any more" \
		"name a newer series at the top of scripts/stock.sh"
	mkdir -p "$root/debs" "$root/packages"
	version=$(inside apt-cache show "linux-binary-$release" | sed -n 's/^Version: //p' | head -n 1)
	logged packages "packages of the kernel" inside sh -c "cd /debs && apt-get download \
		linux-base-$release linux-binary-$release linux-modules-$release linux-headers-$release \
		linux-source-$series=$version"
	local package
	for package in "$root"/debs/linux-*.deb; do
		dpkg -x "$package" "$root/packages"
	done
	rm -rf "$root/debs"
	mkdir -p "$root$source"
	tar -xf "$root/packages/usr/src/linux-source-$series.tar.xz" -C "$root$source" --strip-components=1
	rm -f "$root/packages/usr/src/linux-source-$series.tar.xz"
}

# --- the tree that modules are built in -----------------------------------------

make_tree() {
	shared=("$checkout")
	logged tree "metadata of Rust, and NTB core" inside "$checkout/scripts/debian_tree.sh" \
		"/packages/usr/src/linux-headers-$release" "$source" "$output"
}

# As kernel.sh leaves a kernel: image, and modules as they are installed.
lay_out() {
	local modules=$place/modroot/lib/modules
	mkdir -p "$place/arch/x86/boot" "$modules"
	mv "$root/packages/usr/lib/modules/$release" "$modules"
	rm -f "$modules/$release/build" "$modules/$release/source"
	cp "$modules/$release/vmlinuz" "$place/arch/x86/boot/bzImage"
	mkdir "$modules/$release/updates"
	find "$root$output/ntb" -name '*.ko' -exec cp -t "$modules/$release/updates" {} +
	depmod -b "$place/modroot" "$release"
	rm -rf "$root/packages"
}

build() {
	rm -rf "$place"
	mkdir -p "$place"
	make_root
	fetch_kernel
	make_tree
	lay_out
	touch "$place/.complete"
	say "Debian's kernel $release is in $place"
}

# --- modules --------------------------------------------------------------------

build_modules() {
	mkdir -p "$1"
	shared=("$checkout" "$1")
	inside "$checkout/scripts/kbuild.sh" "$output/tree" "$1" \
		KBUILD_EXTRA_SYMBOLS="$output/ntb/Module.symvers" modules
}

is_complete() {
	[ -e "$place/.complete" ]
}

case ${1:-} in
--print-dir)
	is_complete || die "Debian's kernel has not been prepared" "run: make kernel KERNEL=stock"
	printf '%s\n' "$place"
	;;
"" | --modules)
	[ "$(id -u)" -eq 0 ] || die "not root" "a root file system of Debian 13 is made, and entered: run this as root"
	is_complete || {
		take_lock "$place.lock" "build of Debian's kernel"
		is_complete || build
		release_lock
	}
	[ -z "${1:-}" ] || build_modules "${2:?"where to"}"
	;;
*) die "unknown option $1" "options: --print-dir, --modules OUTPUT" ;;
esac
