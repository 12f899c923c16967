#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What DKMS runs to build the modules for a kernel, in a copy of their sources:
#
#   dkms.sh HEADERS
#
# HEADERS is the kernel's build directory. Where it has the metadata of Rust, modules are built against
# it; where it has not, as Debian's, that is made first, from the package linux-source of the same
# version, and NTB core and its drivers with it. The modules are in build/.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

headers=$(readlink -f -- "${1:?usage: $program HEADERS}")
output=$checkout/build

# version_of PACKAGE: as it is unpacked; when DKMS is started by the installation of headers, packages
# are not installed yet.
version_of() {
	dpkg-query -W -f '${Version}' "$1" 2>/dev/null || true
}

unpack_source() {
	local release series wanted
	release=$(cat "$headers/include/config/kernel.release")
	series=$(cut -d . -f 1,2 <<<"$release")
	wanted=$(version_of "linux-headers-$release")
	[ -n "$wanted" ] || die "$headers has no metadata of Rust, and is of no package of Debian" \
		"build that kernel with CONFIG_RUST, and do not clean its directory"
	[ "$(version_of "linux-source-$series")" = "$wanted" ] ||
		die "the source of kernel $release is missing, or of another version than its headers" \
			"run: apt-get install linux-source-$series=$wanted"
	mkdir -p "$output/linux"
	tar -xf "/usr/src/linux-source-$series.tar.xz" -C "$output/linux" --strip-components=1
}

if [ -e "$headers/rust/libkernel.rmeta" ]; then
	tree=$headers
	symbols=()
else
	unpack_source
	"$checkout/scripts/debian_tree.sh" "$headers" "$output/linux" "$output/debian"
	tree=$output/debian/tree
	symbols=(KBUILD_EXTRA_SYMBOLS="$output/debian/ntb/Module.symvers")
	find "$output/debian/ntb" -name '*.ko' -exec cp -t "$output" {} +
fi
"$checkout/scripts/kbuild.sh" "$tree" "$output" MP_MODULES=product "${symbols[@]}" modules
