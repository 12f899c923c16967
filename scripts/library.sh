# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# What the scripts share that install libraries. Sourced after common.sh, never run.
#
# PREFIX= and LIBDIR= are where things are on the system that uses them, DESTDIR= is put before both.

target_dir=${CARGO_TARGET_DIR:-$checkout/build/target}
programs=${RIG_PROGRAMS:-$target_dir/x86_64-unknown-linux-gnu/release}
place=${PREFIX:-/usr/local}
lib_place=${LIBDIR:-$place/lib}
prefix=${DESTDIR:-}$place
libdir=${DESTDIR:-}$lib_place
man=$prefix/share/man

# is_built FILE
is_built() {
	[ -e "$programs/$1" ] || die "$1 is not built" "run: make userlib"
}

# install_shared FILE NAME: a shared library; programs are linked by NAME.
install_shared() {
	is_built "$1"
	install -D -m 755 "$programs/$1" "$libdir/$1"
	[ "$1" = "$2" ] || ln -sf "$1" "$libdir/$2"
}

# install_static CRATE NAME: Cargo calls it by the name of the crate.
install_static() {
	is_built "lib${1//-/_}.a"
	install -D -m 644 "$programs/lib${1//-/_}.a" "$libdir/$2"
}

# fill_in TEMPLATE NAME TARGET: a file that says where things are.
fill_in() {
	install -d "$(dirname -- "$3")"
	# What is below the prefix moves with it.
	sed "s|@NAME@|$2|g; s|@PREFIX@|$place|; s|@LIBDIR@|${lib_place/#$place\//\$\{prefix\}/}|" \
		"$checkout/userlib/$1" >"$3"
	chmod 644 "$3"
}

# install_config CRATE NAME: what pkg-config and CMake tell of a library.
install_config() {
	fill_in "$1/$2.pc.in" "$2" "$libdir/pkgconfig/$2.pc"
	fill_in config.cmake.in "$2" "$libdir/cmake/$2/$2-config.cmake"
}

# functions CRATE: those that a library exports.
functions() {
	sed -n 's/^\t\([A-Za-z]\w*\);$/\1/p' "$checkout/userlib/$1/symbols.map"
}

# install_pages CRATE NAME: the manual, by the name of each function as well.
install_pages() {
	local from=$checkout/userlib/$1/man function
	install -D -m 644 -t "$man/man3" "$from/$2.3"
	functions "$1" | while read -r function; do
		ln -sf "$2.3" "$man/man3/$function.3"
	done
	[ ! -e "$from/$2.conf.5" ] || install -D -m 644 -t "$man/man5" "$from/$2.conf.5"
}

# install_tools CRATE: each tool that has a manual page there, and the page.
install_tools() {
	local page tool
	for page in "$checkout/userlib/$1"/man/*.1; do
		tool=$(basename "$page" .1)
		is_built "$tool"
		install -D -m 755 -t "$prefix/bin" "$programs/$tool"
		install -D -m 644 -t "$man/man1" "$page"
	done
}
