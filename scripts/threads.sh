#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs the tests of VIPL's and MCAPI's threads under ThreadSanitizer, and fails at the first data
# race. All code is built for it, the standard library as well: the sanitizer has to see every atomic
# operation, or it takes what they order for races. No report is suppressed.
#
# The compiler is Debian's, whose package rust-web-src has the library's sources with all that they
# need; the sanitizer is that of GCC. The library is built once for each compiler and kept.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

target=x86_64-unknown-linux-gnu
rustc=/usr/bin/rustc
sources=$("$rustc" --print sysroot)/lib/rustlib/src/rust/library
version=$("$rustc" --version | cut -d ' ' -f 2)
place=$cache/threads-$version
work=$checkout/build/threads
log=$checkout/build/threads.log
sanitize=(-Zsanitizer=thread -Zexternal-clangrt)

export RUSTC=$rustc RUSTC_BOOTSTRAP=1 CARGO_NET_OFFLINE=true

# Crates that only other targets or the library's own tests need are not there: empty ones take their
# place, by the lock file, and those tests are left out.
fill_vendor() {
	/usr/bin/python3 - "$1" <<-'END'
		import json, pathlib, re, sys
		library = pathlib.Path(sys.argv[1])
		for manifest in library.glob("*/Cargo.toml"):
		    tables = re.split(r"^(?=\[)", manifest.read_text(), flags=re.MULTILINE)
		    kept = (t for t in tables if not re.match(r"\[+(.*dev-dependencies|bench|test)", t))
		    manifest.write_text("".join(kept))
		workspace = library / "Cargo.toml"
		members = workspace.read_text()
		for member in ("coretests", "alloctests"):
		    members = members.replace(f'  "{member}",\n', "")
		workspace.write_text(members)
		for block in (library / "Cargo.lock").read_text().split("[[package]]"):
		    crate = dict(re.findall(r'^(name|version|checksum) = "(.*)"', block, re.MULTILINE))
		    place = library / "vendor" / "{name}-{version}".format(**crate) if "name" in crate else None
		    if "checksum" not in crate or place.exists():
		        continue
		    (place / "src").mkdir(parents=True)
		    (place / "src/lib.rs").write_text("")
		    (place / "Cargo.toml").write_text(
		        '[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\n'
		        "[features]\nrustc-dep-of-std = []\n".format(**crate)
		    )
		    checksum = {"files": {}, "package": crate["checksum"]}
		    (place / ".cargo-checksum.json").write_text(json.dumps(checksum))
	END
}

# The standard library, built for the sanitizer.
build_library() {
	local library=$work/library
	rm -rf "$work/library" "$work/std"
	mkdir -p "$work"
	cp -rL "$sources" "$library"
	fill_vendor "$library"
	cat >"$work/vendor.toml" <<-END
		[source.crates-io]
		replace-with = "vendored"
		[source.vendored]
		directory = "$library/vendor"
	END
	(
		cd "$library"
		export RUSTFLAGS="${sanitize[*]} -Cforce-unwind-tables=yes -Cembed-bitcode=yes"
		RUSTFLAGS+=" -Zforce-unstable-if-unmarked -Cdebuginfo=1"
		__CARGO_DEFAULT_LIB_METADATA=threads CARGO_TARGET_DIR=$work/std \
			cargo build --release --offline --config "$work/vendor.toml" --target "$target" \
			-p sysroot --features panic-unwind
	) || return 1
	rm -rf "$place.new"
	mkdir -p "$place.new/lib/rustlib/$target/lib"
	cp "$work/std/$target/release/deps/"*.{rlib,rmeta} "$place.new/lib/rustlib/$target/lib"
	mv "$place.new" "$place"
	rm -rf "$library" "$work/std"
}

[ -d "$sources/vendor" ] || die "the sources of Rust's library are not at $sources"
take_lock "$cache/threads.lock" "build of Rust's library for ThreadSanitizer"
[ -d "$place" ] || run_logged "$log" "Rust's library for ThreadSanitizer" build_library ||
	die "Rust's library cannot be built" "$log says why"
release_lock

mkdir -p "$work"
cc -O1 -fno-builtin -c "$checkout/scripts/threads.c" -o "$work/threads.o"
RUSTFLAGS="--sysroot=$place ${sanitize[*]} -Clink-arg=$work/threads.o -Clink-arg=-ltsan"
export RUSTFLAGS CARGO_TARGET_DIR=$work/target
# It maps fixed addresses, and has to come before the C library.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="setarch -R env LD_PRELOAD=libtsan.so.2"
export TSAN_OPTIONS="halt_on_error=1 history_size=4"
tests=(cargo test --locked --manifest-path "$checkout/userlib/Cargo.toml" --target "$target")
"${tests[@]}" -p vipl -p mcapi --test threads --test storm -- --test-threads 1 "$@"
# The functions in C are not seen by tests outside of their crate.
"${tests[@]}" -p mcapi-ffi --lib -- --test-threads 1 tests::storm "$@"
# Connections that share a queue pair, and threads that share a VI: of files whose other tests take long.
[ $# -gt 0 ] || set -- connections_share_what_is_short a_connection_ends_alone threads_that_sleep \
	the_end_of_a_partner peers_share_what a_lane_tells memory_that_is_short_at_one threads_share_a_vi
"${tests[@]}" -p vipl --test trunks --test queues -- --test-threads 1 "$@"
