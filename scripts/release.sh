#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds the modules of the last release for a kernel, and the programs that tests
# run on hosts, from the commit that scripts/releases names. Both stay in the cache.
#
#   release.sh [--print-dir] KDIR
#
# --print-dir only names the directory: modules/ and programs/ are in it.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

print_only=
[ "${1:-}" != --print-dir ] || { print_only=1 && shift; }
kdir=${1:?usage: release.sh [--print-dir] KDIR}
read -r tag commit < <(tail -n 1 "$checkout/scripts/releases")
target=x86_64-unknown-linux-gnu

# What the modules are built against: kernels of the same release differ.
kernel=$(cat "$kdir/include/config/kernel.release" "$kdir/Module.symvers" 2>/dev/null |
	sha256sum | cut -c 1-12)
release=$cache/releases/$tag-$kernel
log=$release.log

# Modules that no test with two releases loads.
unused='dma_test|mp_kunit|mp_local_test|mp_sample_[a-z]+|ntb_bench'

obtain_source() {
	git -C "$checkout" cat-file -e "$commit^{commit}" 2>/dev/null ||
		die "the history of this clone lacks $tag" "fetch it: git fetch --unshallow"
	mkdir -p "$release.new/source"
	git -C "$checkout" archive "$commit" | tar -x -C "$release.new/source"
	sed -Ei "/^obj-/s/ ($unused)\.o\b//g" "$release.new/source/Kbuild"
}

# Run in the release's source. Nothing is measured with these programs.
build_programs() {
	local out=$release.new/programs built=$release.new/target/$target/release name
	CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		CARGO_TARGET_DIR=$release.new/target cargo build --quiet --locked --release \
		--manifest-path userlib/Cargo.toml --target "$target" \
		--package pximc-dispatcher --package pximc-ntb --package sisci-ffi
	mkdir -p "$out"
	cp "$built"/*.so "$out"
	ln -sf libsisci_ffi.so "$out/libsisci.so"
	for name in pximc_shell:pximc64 sisci_shell:sisci; do
		cc -std=gnu11 -O2 -pthread -Iuserlib/include -o "$out/${name%:*}" \
			"tests/programs/${name%:*}.c" tests/programs/common/*.c \
			-L"$out" "-l${name#*:}" -ldl "-Wl,-rpath,\$ORIGIN"
	done
}

build() {
	say "building $tag for $(basename -- "$kdir")"
	rm -rf "$release.new"
	obtain_source
	cd "$release.new/source"
	# Its objects are of no use to anybody; the modules are.
	run_logged "$log" "modules of $tag" scripts/kbuild.sh "$kdir" "$release.new/objects" modules || {
		show_end "$log"
		die "the modules of $tag cannot be built"
	}
	mkdir -p "$release.new/modules"
	mv "$release.new"/objects/*.ko "$release.new/modules"
	run_logged "$log" "programs of $tag" build_programs || {
		show_end "$log"
		die "the programs of $tag cannot be built"
	}
	rm -rf "$release.new"/{source,objects,target}
	mv "$release.new" "$release"
}

if [ "$print_only" ]; then
	[ -d "$release" ] || die "$tag has not been built" "run: make release"
	printf '%s\n' "$release"
	exit
fi
take_lock "$release.lock" "build of $tag"
[ -d "$release" ] || build
