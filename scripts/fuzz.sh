#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Coverage-guided fuzzing of the protocol crate's parsers with libFuzzer, on the stable
# compiler: the coverage passes need no nightly feature.
#
#   fuzz.sh [--keep] [TARGET...]
#
# SECONDS_EACH=N is the time for a target (default 60). --keep adds what reached new code
# to the kept corpus, as few inputs as cover it all. That is a file for each target, with
# an input in hexadecimal digits on each line.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

keep=
if [ "${1:-}" = --keep ]; then
	keep=1
	shift
fi
seconds=${SECONDS_EACH:-60}
triple=x86_64-unknown-linux-gnu
corpus=$checkout/rust/proto/fuzz/corpus
work=$checkout/build/fuzz
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$checkout/build/target}-fuzz

# What cargo-fuzz passes as well, without the sanitizers, which only nightly offers.
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1 \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"

# unpack FILE FOLDER: the inputs of a file as files of their own.
unpack() {
	rm -rf "$2"
	mkdir -p "$2"
	/usr/bin/python3 - "$1" "$2" <<-'EOF'
		import pathlib, sys
		lines = pathlib.Path(sys.argv[1]).read_text().split("\n")[:-1]
		for number, line in enumerate(lines):
		    (pathlib.Path(sys.argv[2]) / str(number)).write_bytes(bytes.fromhex(line))
	EOF
}

# pack FOLDER FILE: the way back, the shortest first.
pack() {
	/usr/bin/python3 - "$1" "$2" <<-'EOF'
		import pathlib, sys
		inputs = {path.read_bytes() for path in pathlib.Path(sys.argv[1]).iterdir()}
		lines = sorted((data.hex() for data in inputs), key=lambda line: (len(line), line))
		pathlib.Path(sys.argv[2]).write_text("".join(line + "\n" for line in lines))
	EOF
}

mkdir -p "$work"
cargo build --quiet --release --locked --target "$triple" \
	--manifest-path "$checkout/rust/proto/fuzz/libfuzzer/Cargo.toml"
fuzzer=$CARGO_TARGET_DIR/$triple/release/mp_libfuzzer

targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(cd "$corpus" && basename -a -s .hex -- *.hex)
for target in "${targets[@]}"; do
	kept=$work/$target.kept
	log=$work/$target.log
	unpack "$corpus/$target.hex" "$kept"
	mkdir -p "$work/$target"
	FUZZ_TARGET=$target "$fuzzer" "$work/$target" "$kept" -max_len=1024 \
		-max_total_time="$seconds" -artifact_prefix="$work/$target-" >"$log" 2>&1 || {
		show_end "$log"
		die "$target: an input breaks it" "it is in $work; with the repair it belongs to $corpus"
	}
	say "$target: $(grep -oE 'cov: [0-9]+' "$log" | tail -1), $(grep -oE '^Done [0-9]+ runs' "$log")"
	[ -n "$keep" ] || continue
	FUZZ_TARGET=$target "$fuzzer" -merge=1 -max_len=1024 "$kept" "$work/$target" >"$log" 2>&1
	pack "$kept" "$corpus/$target.hex"
done
