#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs the VI Provider Library that has been built, shared and static, its header, what pkg-config
# and CMake tell of it, tools and manual pages, below PREFIX= and LIBDIR=; DESTDIR= is put before all
# paths.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname -- "${BASH_SOURCE[0]}")/library.sh"

install_shared libvipl.so.1 libvipl.so
install_static vipl-ffi libvipl.a
install -D -m 644 -t "$prefix/include" "$checkout/userlib/include/vipl.h"
install_config vipl-ffi vipl
install_pages vipl-ffi vipl
install_tools vipl-tools
