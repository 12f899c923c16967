#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Installs the library that makes sockets of TCP sockets of SMC, and the command that runs a program
# with it, below PREFIX= and LIBDIR=; DESTDIR= is put before all paths.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname -- "${BASH_SOURCE[0]}")/library.sh"

is_built libmpsmc.so
install -D -m 755 -t "$libdir/pximc-ntb" "$programs/libmpsmc.so"
install -d "$prefix/bin"
sed "s|@LIBRARY@|$lib_place/pximc-ntb/libmpsmc.so|" \
	"$checkout/userlib/smc-preload/mp_smc_run.in" >"$prefix/bin/mp_smc_run"
chmod 755 "$prefix/bin/mp_smc_run"
install -D -m 644 -t "$man/man1" "$checkout/userlib/smc-preload/man/mp_smc_run.1"
