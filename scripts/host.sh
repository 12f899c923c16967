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
# The newest, whatever kernel is tested.
linux=$(env -u KERNEL_SERIES "$checkout/scripts/kernel.sh" --print-source)

# Of `#define NAME 5` and `#define NAME OTHER`, in C, constants in Rust.
errno() {
	sed -nE 's/^#define[[:space:]]+(E[A-Z0-9_]+)[[:space:]]+([0-9]+|E[A-Z]+)\>.*/pub const \1: u32 = \2;/p' \
		"$linux"/include/uapi/asm-generic/errno{-base,}.h "$linux"/include/linux/errno.h
}

# lay_out NAME FOLDER: a crate, of links to the files of a folder, and over them to those of
# the host.
lay_out() {
	rm -rf "$out/$1.new"
	cp -rs "$2" "$out/$1.new"
	cp -rsf "$host/$1/src/." "$out/$1.new/"
	rm -rf "${out:?}/$1"
	mv "$out/$1.new" "$out/$1"
}

# generate FILE COMMAND...: what a command prints. Not touched if it is the same: Cargo would
# compile all of it again.
generate() {
	local file=$out/$1
	shift
	mkdir -p "$(dirname -- "$file")"
	"$@" >"$file.new"
	if cmp -s "$file.new" "$file"; then rm "$file.new"; else mv "$file.new" "$file"; fi
}

# The interface for modules in C.
mp_header() {
	bindgen "$checkout/include/mp/mp.h" --use-core --with-derive-default --ctypes-prefix ffi \
		--no-layout-tests --no-debug '.*' -- -I"$host/mp_bindings/include" -w
}

# The numbers that programs share with mp_transport.
mp_netlink() {
	bindgen "$checkout/uapi/linux/mp_netlink.h" --use-core --ctypes-prefix ffi --allowlist-var 'MP_.*'
}

mkdir -p "$out"
take_lock "$out/lock" "layout of modules for the host"
ln -sfn "$linux" "$out/linux"
export PATH=$cache/tools/bin:$PATH
generate errno.rs errno
generate mp_header.rs mp_header
generate rust/mp_transport/uapi_generated.rs mp_netlink
lay_out kernel "$linux/rust/kernel"
lay_out mp_kernel "$checkout/rust/abstractions"
release_lock
[ $# -gt 0 ] || exit 0

# The kernel is built by the same compiler with the unstable features that it lists.
export RUSTC_BOOTSTRAP=1
export MP_OBJ=$out
export RUSTFLAGS="-Zcrate-attr=feature(arbitrary_self_types)"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$checkout/build/target}-host
cd "$host"
exec cargo "$@"
