#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Makes what modules in Rust are built with for Debian's own kernel, which does not package it: a tree
# of the packaged source, configured as the packaged headers are, with the metadata of its Rust crates,
# and beside it NTB core and its drivers, which that kernel lacks.
#
#   debian_tree.sh HEADERS SOURCE OUTPUT
#
# HEADERS is /usr/src/linux-headers-RELEASE, SOURCE the unpacked linux-source of the same version.
# OUTPUT/tree is for kbuild.sh, OUTPUT/ntb has the modules, and their symbols in Module.symvers. The
# compilers are those that the headers name: a module fits a kernel only if the same ones made both.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

[ $# -eq 3 ] || die "usage: $program HEADERS SOURCE OUTPUT"
headers=$1
source=$2
tree=$3/tree
ntb=$3/ntb
fragment=$checkout/scripts/kernel/stock.config
release=$(cat "$headers/include/config/kernel.release")

# kernel_make DIRECTORY [make's arguments]
kernel_make() {
	make --no-print-directory -C "$1" CC="$(kernel_compiler "$headers")" RUSTC=/usr/bin/rustc "${@:2}"
}

# Nothing but what the fragment asks for may differ from Debian's configuration: options decide the
# layout of structures.
check_configuration() {
	local differ
	differ=$(diff <(grep -vE '^#|^$' "$headers/include/config/auto.conf" | sort) \
		<(grep -vE '^#|^$' "$tree/include/config/auto.conf" | sort) |
		grep '^[<>]' | grep -vxF -f <(sed 's/^/> /' "$fragment") || true)
	[ -z "$differ" ] || die "the tree is not configured as Debian's kernel is:" "$differ"
	differ=$(grep -E '^CONFIG_' "$fragment" | grep -vxF -f "$tree/include/config/auto.conf" || true)
	[ -z "$differ" ] || die "the kernel's configuration does not accept:" "$differ"
}

make_tree() {
	mkdir -p "$tree"
	cat "$headers/.config" "$fragment" >"$tree/.config"
	# What Debian's release has behind the version.
	printf '%s\n' "${release#"$(kernel_make "$source" -s kernelversion)"}" >"$tree/localversion"
	kernel_make "$source" O="$tree" olddefconfig
	kernel_make "$source" O="$tree" -j"$(nproc)" modules_prepare
	check_configuration
	[ "$(cat "$tree/include/config/kernel.release")" = "$release" ] ||
		die "the source is of $(cat "$tree/include/config/kernel.release"), not of $release"
	# Names of symbols, and types for BTF, of the image itself.
	cp "$headers/Module.symvers" "$tree"
	[ ! -e "$headers/vmlinux" ] || cp "$headers/vmlinux" "$tree"
}

# The kernel's own sources, as modules of a directory of their own.
make_ntb() {
	mkdir -p "$ntb"
	cp -r "$source/drivers/ntb/." "$ntb"
	cp "$source/drivers/net/ntb_netdev.c" "$source/drivers/pci/switch/switchtec.c" "$ntb"
	# shellcheck disable=SC2016 # for make to expand
	printf 'obj-$(CONFIG_%s) += %s.o\n' NTB_NETDEV ntb_netdev PCI_SW_SWITCHTEC switchtec >>"$ntb/Makefile"
	kernel_make "$tree" M="$ntb" -j"$(nproc)" modules
}

make_tree
make_ntb
