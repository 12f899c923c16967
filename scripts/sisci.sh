#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs the library of SISCI that has been built, shared and static, its headers, what pkg-config
# and CMake tell of it, tools and manual pages, below PREFIX= and LIBDIR=; DESTDIR= is put before all
# paths. Tools whose customary names are taken have others; by the customary ones they are in
# PREFIX/lib/sisci/bin.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname -- "${BASH_SOURCE[0]}")/library.sh"

install_shared libsisci.so libsisci.so
install_static sisci-ffi libsisci.a
install -D -m 644 -t "$prefix/include" "$checkout"/userlib/include/sisci_{api,types,error}.h
install_config sisci-ffi sisci
install_pages sisci-ffi sisci
install_tools sisci-tools

customary=(dmabench intr_bench rpc sci_probe sci_query scibench scipp shmem)
install -d "$prefix/lib/sisci/bin"
for name in "${customary[@]}"; do
	tool=$name
	[ -e "$prefix/bin/$tool" ] || tool=sci_$name
	ln -sfn "../../../bin/$tool" "$prefix/lib/sisci/bin/$name"
done
