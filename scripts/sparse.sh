#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Sees to it that there is a sparse which knows the C of a kernel.
#
#   sparse.sh SOURCE
#
# SOURCE is the kernel's source tree. The sparse of Debian 12 is too old for the
# kernels of today: where the system has no better one, it is built from Debian's
# newest source, into the cache.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname -- "${BASH_SOURCE[0]}")/debian.sh"

source=${1:?usage: sparse.sh SOURCE}
apt_dir=$cache/apt-sources
log=$cache/sparse.log
way_out="check the network and the free space, then run this again"

is_good() {
	[ "$(PATH=$kernel_path sh "$source/scripts/checker-valid.sh" sparse)" = 1 ]
}

build_sparse() {
	local work
	mkdir -p "$cache/tools/bin"
	work=$(mktemp -d "$cache/tools/.sparse-XXXXXX")
	read_package_lists deb-src sid
	(cd "$work" && private_apt run_logged "$log" download apt-get source --download-only sparse) || {
		show_end "$log"
		rm -rf "$work"
		die "the download of sparse failed" "$way_out"
	}
	mkdir "$work/source"
	tar -xf "$work"/sparse_*.orig.tar.* -C "$work/source" --strip-components=1
	run_logged "$log" "building sparse" make -C "$work/source" -j"$(nproc)" sparse || {
		show_end "$log"
		rm -rf "$work"
		die "sparse cannot be built"
	}
	install -m 755 "$work/source/sparse" "$cache/tools/bin/sparse"
	rm -rf "$work"
}

take_lock "$cache/sparse.lock" "build of sparse"
if ! is_good; then
	build_sparse
	is_good || die "the newest sparse does not know the C of $source"
fi
