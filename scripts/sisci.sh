#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs the library of SISCI that has been built, its headers, the tools and manual pages,
# below PREFIX=; DESTDIR= is put before all paths.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

target_dir=${CARGO_TARGET_DIR:-$checkout/build/target}
programs=${RIG_PROGRAMS:-$target_dir/x86_64-unknown-linux-gnu/release}
prefix=${DESTDIR:-}${PREFIX:-/usr/local}
include=$checkout/userlib/include
man=$checkout/userlib/sisci-ffi/man

[ -e "$programs/libsisci.so" ] || die "libsisci is not built" "run: make userlib"
install -D -m 755 "$programs/libsisci.so" "$prefix/lib/libsisci.so"
install -D -m 644 -t "$prefix/include" "$include"/sisci_{api,types,error}.h
install -D -m 644 -t "$prefix/share/man/man3" "$man/sisci.3"
install -D -m 644 -t "$prefix/share/man/man5" "$man/sisci.conf.5"

install_tools "$checkout/userlib/sisci-tools/man" "$programs" "$prefix"
