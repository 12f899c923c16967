#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The PXImc Dispatcher and what belongs to it, below /opt/pximc.
#
#   pximc.sh build32    builds the libraries for 32-bit processes
#   pximc.sh install    installs what has been built
#
# DESTDIR= is put before all paths. PXIMC_VENDORS= names crates that are vendors'
# libraries: they go to LIBDIR/pximc and are linked to from where the Dispatcher looks.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname -- "${BASH_SOURCE[0]}")/library.sh"

target32=i686-unknown-linux-gnu
target32_dir=$target_dir/rust32
programs32=${PROGRAMS32:-$target32_dir/$target32/release}
root=${DESTDIR:-}/opt/pximc
read -ra vendors <<<"${PXIMC_VENDORS:-}"

build32() {
	local crates=(pximc-dispatcher "${vendors[@]}") rust32
	rust32=$("$checkout/scripts/rust32.sh") || {
		say "no libraries for 32-bit processes then"
		return
	}
	LD_LIBRARY_PATH=$rust32/lib/x86_64-linux-gnu RUSTC=$rust32/bin/rustc \
		CARGO_TARGET_DIR=$target32_dir \
		cargo build --quiet --locked --release --target "$target32" \
		--manifest-path "$checkout/userlib/Cargo.toml" "${crates[@]/#/--package=}"
	link32 pximc-dispatcher libpximc32.so
	local crate
	for crate in "${vendors[@]}"; do
		link32 "$crate" "lib${crate//-/_}.so"
	done
}

# link32 CRATE LIBRARY
link32() {
	"$checkout/scripts/link.sh" "$1" "$programs32/lib${1//-/_}.a" "$programs32/$2" -m32
}

# put MODE SOURCE TARGET: installs a file, with its time, unless there is a newer one:
# other vendors install the same.
put() {
	if [ "$3" -nt "$2" ]; then
		say "left alone, for it is newer: $3"
		return
	fi
	install -D -p -m "$1" "$2" "$3"
}

install_dispatcher() {
	local page=$checkout/userlib/pximc-dispatcher/man/pximc.3 compressed function
	if [ -d "$root/lib" ] && [ ! -L "$root/lib" ]; then
		die "$root/lib is a directory, and has to be a link to lib64" \
			"move what is in it to lib64 and remove it"
	fi
	is_built libpximc64.so
	install -d "$root/lib64" "$root/lib32"
	ln -sfn lib64 "$root/lib"

	put 755 "$programs/libpximc64.so" "$root/lib64/libpximc64.so"
	ln -sfn libpximc64.so "$root/lib64/pximc64.so"
	if [ -e "$programs32/libpximc32.so" ]; then
		put 755 "$programs32/libpximc32.so" "$root/lib32/libpximc32.so"
	else
		say "there is no Dispatcher for 32-bit processes: make userlib says what it takes"
	fi

	put 644 "$checkout/userlib/include/pximc.h" "$root/include/pximc.h"
	libdir=$root/lib64 install_config pximc-dispatcher pximc
	compressed=$(mktemp)
	gzip -9nc "$page" >"$compressed"
	touch -r "$page" "$compressed"
	put 644 "$compressed" "$root/share/man/man3/pximc.3.gz"
	rm -f "$compressed"
	functions pximc-dispatcher | while read -r function; do
		ln -sf pximc.3.gz "$root/share/man/man3/$function.3.gz"
	done
}

# install_vendor CRATE FROM TO LINKS
install_vendor() {
	local library=lib${1//-/_}.so
	install -D -m 755 "$2/$library" "$3/$library"
	ln -sfr "$3/$library" "$4/$library"
}

install_vendors() {
	local crate
	for crate in "${vendors[@]}"; do
		install_vendor "$crate" "$programs" "$libdir/pximc" "$root/lib64"
		[ ! -e "$programs32/lib${crate//-/_}.so" ] ||
			install_vendor "$crate" "$programs32" "$prefix/lib32/pximc" "$root/lib32"
	done
}

case ${1:-} in
build32)
	build32
	;;
install)
	install_dispatcher
	install_vendors
	;;
*) die "usage: $program build32|install" ;;
esac
