#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Kernel modules on the development host: lays out in build/host what rust/host is compiled
# from beside its own files, and runs Cargo there.
#
#   host.sh                  lay it out only
#   host.sh CARGO-ARGUMENT...
#
# The kernel's source is the one of the rig. Files of its crate `kernel` are taken as they
# are, except where rust/host/kernel has one of the same name.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

out=$checkout/build/host
host=$checkout/rust/host
linux=$("$checkout/scripts/kernel.sh" --print-source)

# Of `#define NAME 5` and `#define NAME OTHER`, in C, constants in Rust.
errno() {
	sed -nE 's/^#define[[:space:]]+(E[A-Z0-9_]+)[[:space:]]+([0-9]+|E[A-Z]+)\>.*/pub const \1: u32 = \2;/p' \
		"$linux"/include/uapi/asm-generic/errno{-base,}.h "$linux"/include/linux/errno.h
}

# The crate: the kernel's files, and over them those of the host.
lay_out_kernel() {
	rm -rf "$out/kernel.new"
	cp -rs "$linux/rust/kernel" "$out/kernel.new"
	cp -rsf "$host/kernel/src/." "$out/kernel.new/"
	rm -rf "$out/kernel"
	mv "$out/kernel.new" "$out/kernel"
}

mkdir -p "$out"
ln -sfn "$linux" "$out/linux"
# Not touched where nothing has changed: Cargo would compile all of it again.
errno >"$out/errno.rs.new"
cmp -s "$out/errno.rs.new" "$out/errno.rs" || mv "$out/errno.rs.new" "$out/errno.rs"
rm -f "$out/errno.rs.new"
lay_out_kernel
[ $# -gt 0 ] || exit 0

# The kernel is built by the same compiler with the unstable features that it lists.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zcrate-attr=feature(arbitrary_self_types)"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$checkout/build/target}-host
cd "$host"
exec cargo "$@"
