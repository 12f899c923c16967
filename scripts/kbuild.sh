#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the modules against a built kernel tree, after checking that the tree
# can take them.
#
#   kbuild.sh KDIR OUTPUT [make's arguments]
#
# KDIR is a kernel's build directory, or /lib/modules/VERSION/build; OUTPUT is
# where objects and modules go.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

[ $# -ge 2 ] || die "usage: $program KDIR OUTPUT [make's arguments]"
kdir=$1
output=$2
shift 2
config=$kdir/include/config/auto.conf

option() {
	sed -n "s/^CONFIG_$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" "$config"
}

check_tree() {
	local release name absent=()
	[ -d "$kdir" ] || die "KDIR: there is no directory $kdir" "set KDIR to a built kernel, or leave it unset for the rig's"
	[ -r "$config" ] || die "KDIR: $kdir is not a built kernel (no include/config/auto.conf)" "build it, or leave KDIR unset for the rig's kernel"
	release=$(cat "$kdir/include/config/kernel.release")
	case $release in
	7.2.* | 7.3.* | 7.2-* | 7.3-*) ;;
	*) die "KDIR: $kdir is kernel $release; the modules need 7.2 or 7.3" "leave KDIR unset for the rig's kernel" ;;
	esac
	for name in MODULES RUST NTB NET INET PCI_MSI; do
		[ -n "$(option "$name")" ] || absent+=("CONFIG_$name")
	done
	[ ${#absent[@]} -eq 0 ] ||
		die "KDIR: kernel $release in $kdir lacks ${absent[*]}" "enable them and build it again, or leave KDIR unset for the rig's kernel"
}

# The rustc that built the kernel: modules of any other do not load.
matching_rustc() {
	local wanted candidate
	wanted=$(option RUSTC_VERSION_TEXT)
	for candidate in /usr/bin/rustc "$(command -v rustc || true)" /usr/bin/rustc-*; do
		if [ -x "$candidate" ] && [ "$("$candidate" --version)" = "$wanted" ]; then
			printf '%s' "$candidate"
			return
		fi
	done
	die "the kernel in $kdir was built by another Rust compiler: $wanted" \
		"install that one, or build the kernel again with $(/usr/bin/rustc --version 2>/dev/null || echo "the one here")"
}

compiler_arguments() {
	local version
	if [ "$(option CC_IS_CLANG)" != y ]; then
		printf 'CC=%s' "$(kernel_compiler "$kdir")"
		return
	fi
	version=$(option CLANG_VERSION)
	if command -v "clang-$((version / 10000))" >/dev/null; then
		printf 'LLVM=-%s' $((version / 10000))
	else
		printf 'LLVM=1'
	fi
}

check_tree
rustc=$(matching_rustc)
arguments=(--no-print-directory -C "$kdir" "M=$checkout" "MO=$output" "RUSTC=$rustc" "HOSTRUSTC=$rustc" "$(compiler_arguments)")
mkdir -p "$output"
PATH=$kernel_path:$PATH exec make -j"$(nproc)" "${arguments[@]}" "$@"
