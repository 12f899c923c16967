#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs the library of MCAPI that has been built, shared and static, its headers, what pkg-config
# tells of it, tools and manual pages, below PREFIX=; DESTDIR= is put before all paths.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

target_dir=${CARGO_TARGET_DIR:-$checkout/build/target}
programs=${RIG_PROGRAMS:-$target_dir/x86_64-unknown-linux-gnu/release}
place=${PREFIX:-/usr/local}
prefix=${DESTDIR:-}$place
include=$checkout/userlib/include
crate=$checkout/userlib/mcapi-ffi

[ -e "$programs/libmcapi.so.2" ] || die "libmcapi is not built" "run: make userlib"
install -D -m 755 "$programs/libmcapi.so.2" "$prefix/lib/libmcapi.so.2"
ln -sf libmcapi.so.2 "$prefix/lib/libmcapi.so"
# Cargo calls it by the name of the crate.
install -D -m 644 "$programs/libmcapi_ffi.a" "$prefix/lib/libmcapi.a"
install -D -m 644 -t "$prefix/include" "$include"/{mca,mcapi}{,_impl_spec}.h \
	"$include/mcapi_abb.h" "$include/mcapi_v1000_to_v2000.h"
install -D -m 644 -t "$prefix/include/mcapi-1.0" "$include/mcapi-1.0/mcapi.h"
install -d "$prefix/lib/pkgconfig"
for name in mcapi mcapi-1.0; do
	sed "s|@PREFIX@|$place|" "$crate/$name.pc.in" >"$prefix/lib/pkgconfig/$name.pc"
done
install -D -m 644 -t "$prefix/share/man/man3" "$crate/man/mcapi.3"
# The page of each function.
sed -n 's/^\t\(mcapi_.*\);$/\1/p' "$crate/symbols.map" | while read -r function; do
	ln -sf mcapi.3 "$prefix/share/man/man3/$function.3"
done
install -D -m 644 -t "$prefix/share/man/man5" "$crate/man/mcapi.conf.5"
install_tools "$checkout/userlib/mcapi-tools/man" "$programs" "$prefix"
