#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Breaks the protocol crate and the modules that run on the host on purpose, one patch of
# rust/proto/mutants at a time, in a copy, and demands that tests notice. The second line of a
# patch says which do:
#
#   simulator   some seeds of rust/proto-sim
#   loom        the model checker's tests
#   proto       the crate's unit tests, or those of links, rings, halves of rings alone and together,
#               crossing, pairing, queue pairs, registers, what is shared, work queues
#   host        tests of mp_transport and of the abstractions on the host
#   links       those of pximc_ntb: links between hosts, by more seeds
#
#   mutants.sh [PATCH...]
#
# SEEDS=N is the number of short seeds that a mutant gets (default 4000).

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

copy=$checkout/build/mutants
seeds=${SEEDS:-4000}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$checkout/build/target}-mutants
export CARGO_INCREMENTAL=1

cargo_here() {
	cargo "$@" --quiet --locked --manifest-path "$copy/Cargo.toml"
}

# detect HOW: runs the tests; fails if they notice nothing, or cannot be built.
detect() {
	local tests=(test -p mp_proto)
	case $1 in
	simulator)
		cargo_here build --release -p mp_sim || return
		! "$CARGO_TARGET_DIR/release/mp-sim" --count "$seeds" --no-shrink
		return
		;;
	host)
		"$copy/scripts/host.sh" test --quiet --locked -p mp_kernel -p mp_transport --no-run || return
		! "$copy/scripts/host.sh" test --quiet --locked -p mp_kernel -p mp_transport
		return
		;;
	links)
		"$copy/scripts/host.sh" test --quiet --locked -p pximc_ntb --no-run || return
		! SEEDS=60 "$copy/scripts/host.sh" test --quiet --locked -p pximc_ntb
		return
		;;
	loom) tests+=(--release --test loom --test queue_pair_loom) ;;
	proto) tests+=(--lib --test halves --test link --test messages --test ring --test crossing --test pairing --test pairing_cost --test pairing_held --test placed --test queue_pair --test receiving --test register --test sending --test sharing --test work) ;;
	*) die "unknown tests: $1" ;;
	esac
	cargo_here "${tests[@]}" --no-run || return
	! cargo_here "${tests[@]}"
}

fresh_copy() {
	rm -rf "$copy"
	mkdir -p "$copy"
	# New files all of them: Cargo must not take what the last mutant left for theirs.
	tar -c --exclude target Cargo.toml Cargo.lock Documentation include rust scripts uapi |
		tar -x -m -C "$copy"
}

cd "$checkout"
patches=("$@")
[ $# -gt 0 ] || patches=(rust/proto/mutants/*.patch)
log=$checkout/build/mutants.log
mkdir -p "$checkout/build"
survivors=()
for patch in "${patches[@]}"; do
	name=$(basename "$patch" .patch)
	how=$(sed -n '2s/^Caught by: //p' "$patch")
	fresh_copy
	patch --quiet -d "$copy" -p1 <"$patch" || die "$patch does not apply"
	if detect "$how" >"$log" 2>&1; then
		say "$name: caught by $how: $(grep -m1 -E ' fails: |panicked at|^error' "$log" || true)"
	else
		show_end "$log"
		say "$name: survives"
		survivors+=("$name")
	fi
done
[ ${#survivors[@]} -eq 0 ] || die "not caught: ${survivors[*]}"
say "all ${#patches[@]} mutants are caught"
