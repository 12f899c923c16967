#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs the library of MCAPI that has been built, shared and static, its headers, what pkg-config
# and CMake tell of it, tools and manual pages, below PREFIX= and LIBDIR=; DESTDIR= is put before all
# paths.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname -- "${BASH_SOURCE[0]}")/library.sh"

include=$checkout/userlib/include

install_shared libmcapi.so.2 libmcapi.so
install_static mcapi-ffi libmcapi.a
install -D -m 644 -t "$prefix/include" "$include"/{mca,mcapi}{,_impl_spec}.h \
	"$include/mcapi_abb.h" "$include/mcapi_v1000_to_v2000.h"
install -D -m 644 -t "$prefix/include/mcapi-1.0" "$include/mcapi-1.0/mcapi.h"
install_config mcapi-ffi mcapi
# Another header for the same library.
fill_in mcapi-ffi/mcapi-1.0.pc.in mcapi-1.0 "$libdir/pkgconfig/mcapi-1.0.pc"
install_pages mcapi-ffi mcapi
install_tools mcapi-tools
