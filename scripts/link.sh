#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Link the shared library of a crate in userlib/ from the archive that Cargo has made of it.
#
#   link.sh CRATE ARCHIVE LIBRARY [OPTION...]
#
# Cargo could link it, but rustc passes the linker a list of symbols without a version, beside which
# there can be no other. Here userlib/CRATE/symbols.map names the symbols that the library exports,
# with the version of each. LIBRARY is a path that ends in the name which programs look for; with a
# number at the end, programs are linked by the name without it, which becomes a link.
# OPTIONs are for the compiler.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

[ $# -ge 3 ] || die "usage: $program CRATE ARCHIVE LIBRARY [OPTION...]"
map=$checkout/userlib/$1/symbols.map
archive=$2
library=$3
soname=$(basename -- "$library")
options=("${@:4}")

[ -e "$archive" ] || die "$archive is missing" "run: make userlib"
if [ "$library" -nt "$archive" ] && [ "$library" -nt "$map" ] && [ "$library" -nt "$0" ]; then
	exit
fi

# What the linker is told:
#   --no-undefined-version  each symbol of the map is there
#   -z defs                 nothing is left for programs to define
#   -Bsymbolic-functions    no call from inside ends in a function of the same name that another
#                           library or the program has
#   -z nodelete             a thread may still be in the library when a program lets go of it: it
#                           stays until the process ends
#   --gc-sections           what no symbol of the map leads to is left out
new=$(mktemp "$library.XXXXXX")
trap 'rm -f "$new"' EXIT
cc -shared "${options[@]}" -o "$new" \
	-Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
	-Wl,"-soname,$soname" -Wl,"--version-script=$map" -Wl,--no-undefined-version \
	-Wl,-z,defs,-z,relro,-z,now,-z,nodelete -Wl,-Bsymbolic-functions \
	-Wl,--gc-sections,--strip-debug,-O1 \
	-Wl,--as-needed -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
chmod 755 "$new"
mv "$new" "$library"
[ "$soname" = "${soname%.so.*}" ] || ln -sf "$soname" "${library%.so.*}.so"
