#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs the VI Provider Library that has been built, shared and static, its header, what
# pkg-config tells of it, tools and manual pages, below PREFIX=; DESTDIR= is put before all paths.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

target_dir=${CARGO_TARGET_DIR:-$checkout/build/target}
programs=${RIG_PROGRAMS:-$target_dir/x86_64-unknown-linux-gnu/release}
place=${PREFIX:-/usr/local}
prefix=${DESTDIR:-}$place
man=$checkout/userlib/vipl-ffi/man

[ -e "$programs/libvipl.so.1" ] || die "libvipl is not built" "run: make userlib"
install -D -m 755 "$programs/libvipl.so.1" "$prefix/lib/libvipl.so.1"
ln -sf libvipl.so.1 "$prefix/lib/libvipl.so"
# Cargo calls it by the name of the crate.
install -D -m 644 "$programs/libvipl_ffi.a" "$prefix/lib/libvipl.a"
install -D -m 644 -t "$prefix/include" "$checkout/userlib/include/vipl.h"
install -d "$prefix/lib/pkgconfig"
sed "s|@PREFIX@|$place|" "$checkout/userlib/vipl-ffi/vipl.pc.in" >"$prefix/lib/pkgconfig/vipl.pc"
install -D -m 644 -t "$prefix/share/man/man3" "$man/vipl.3"
install -D -m 644 -t "$prefix/share/man/man5" "$man/vipl.conf.5"

install_tools "$checkout/userlib/vipl-tools/man" "$programs" "$prefix"
