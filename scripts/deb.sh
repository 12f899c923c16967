#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the packages that debian/ describes from the files of the checkout, into build/deb.
#
#   deb.sh [VERSION]
#
# The version is that of debian/changelog, unless another is named: tests of an upgrade need two.
# Crates are fetched by the lock file, before; the build itself takes nothing from the network.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

out=$checkout/build/deb
# The same for all versions: what Cargo has built there is not built again.
tree=$out/source
log=$out/build.log

copy_checkout() {
	rm -rf "$tree"
	mkdir -p "$tree"
	git -C "$checkout" ls-files -z --cached --others --exclude-standard |
		rsync -a --from0 --files-from=- --ignore-missing-args "$checkout/" "$tree/"
	[ -z "$1" ] || sed -i "1s/(.*)/($1)/" "$tree/debian/changelog"
}

build() {
	cd "$tree"
	cargo fetch --quiet --locked --manifest-path userlib/Cargo.toml
	# A toolchain is no package here; setup.sh has looked at it, and at all else.
	env -u MAKEFLAGS -u RIG_PROGRAMS -u PROGRAMS32 -u STAGE -u MODULES -u PXIMC_VENDORS \
		CARGO_NET_OFFLINE=true CARGO_TARGET_DIR="$out/target" CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" \
		dpkg-buildpackage --build=binary --no-sign --no-check-builddeps
}

copy_checkout "${1:-}"
version=$(dpkg-parsechangelog -l "$tree/debian/changelog" -S Version)
run_logged "$log" "packages" build || {
	show_end "$log"
	die "the packages cannot be built" "$log says why"
}
say "packages of version $version are in $out"
