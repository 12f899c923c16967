#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs all tests and ends with the line "N passed, N failed[, N skipped][, N repeated]".
# Arguments go to pytest. Tests with guests run in WORKERS processes, by default
# one more than there are processors with the usual kernel, and one with those that check;
# those that are marked `alone` run one after the other at the end.
#
# With STOPPED=1 it runs nothing but what rows of the ledgers have other hosts show, with
# hosts that stand still; with KERNEL=stock nothing but the tests on Debian's own kernel, and of packages.
#
# Guests on emulated processors are not to be hurried: a test with guests that
# fails is repeated once, counted, and named among those that were; how it failed is
# in build/results/*.repeated. What a kernel complained of, lost memory and tests that
# hang are not forgiven.
#
# How long each phase took is in build/results/seconds, each file of pytest in *.files there.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

results=$checkout/build/results
passed=0
failed=0
skipped=0
repeated=0
phase=

# More than these would run short of memory before they run short of processors.
most_workers=8
# What pytest ends with when no test is left to run.
nothing_chosen=5

# count PASSED FAILED SKIPPED
count() {
	passed=$((passed + $1))
	failed=$((failed + $2))
	skipped=$((skipped + $3))
}

# phase NAME: begin a part of the run; say how long the one before has taken, and keep it. The last
# has no name.
phase() {
	local took
	if [ -n "$phase" ]; then
		took="$phase: $((SECONDS - phase_start)) s"
		say "$took"
		printf '%s\n' "$took" >>"$results/seconds"
	fi
	phase=$1
	phase_start=$SECONDS
	[ -z "$phase" ] || say "$phase"
}

# Sum the number before WORD over the summary lines in a log.
total() {
	grep -oE "[0-9]+ $1" "$2" | awk '{ sum += $1 } END { print sum + 0 }'
}

# run_cargo NAME MANIFEST THREADS [CARGO]: the tests of a workspace, so many side by side, by Cargo or
# what runs it. Examples in documents are tests only where Cargo itself runs: those of the kernel's
# crates are the kernel's.
run_cargo() {
	local name=$1 log=$results/cargo-$1.log summary=$results/cargo.summary status=0
	local which=(--manifest-path "$checkout/$2" --workspace --locked) cargo=${4:-cargo}
	phase "cargo tests, $name"
	if cargo nextest --version >/dev/null 2>&1; then
		"$cargo" nextest run "${which[@]}" --test-threads "$3" --color never 2>&1 |
			tee "$log" || status=$?
		grep -E '^ *Summary ' "$log" >"$summary" || true
		[ "$cargo" != cargo ] || cargo test "${which[@]}" --doc 2>&1 | tee -a "$log" || status=$?
	else
		"$cargo" test "${which[@]}" --no-fail-fast --color never 2>&1 | tee "$log" || status=$?
	fi
	grep '^test result: ' "$log" >>"$summary" || true
	count "$(total passed "$summary")" "$(total failed "$summary")" \
		"$(total '(ignored|skipped)' "$summary")"
	# A crate that does not compile runs no test that could fail.
	[ "$status" -eq 0 ] || [ "$(total failed "$summary")" -gt 0 ] || count 0 1 0
	rm -f "$summary"
}

# run_long NAME COMMAND...: one long test.
run_long() {
	phase "$1"
	if "${@:2}"; then count 1 0 0; else count 0 1 0; fi
}

# How many sets of guests run side by side.
workers() {
	local processors
	processors=$(nproc)
	if [ -n "${WORKERS:-}" ]; then
		printf %s "$WORKERS"
	elif [ "${DEBUG:-}${RACES:-}" = 1 ]; then
		printf 1
	else
		# Guests wait for each other most of the time.
		processors=$((processors + 1))
		printf %s "$((processors < most_workers ? processors : most_workers))"
	fi
}

# run_guests NAME [ARGUMENT...]: tests with guests, several modules at a time and
# then those that are measured against a clock.
run_guests() {
	local name=$1 before=$((passed + failed + skipped))
	shift
	run_pytest "$name" --company together -n "$(workers)" --dist loadfile "$@"
	run_pytest "$name-alone" --company alone "$@"
	# Arguments that choose nothing at all are a mistake.
	[ $((passed + failed + skipped)) -gt "$before" ] || count 0 1 0
}

# run_pytest NAME [ARGUMENT...]: one run of pytest.
run_pytest() {
	local name=$1 report=$results/pytest-$1.xml status=0 counts again limit=600
	shift
	[ "${DEBUG:-}${RACES:-}" != 1 ] || limit=2400
	phase "tests with guests: $name"
	rm -f "$report" "${report%.xml}.repeated"
	/usr/bin/python3 -m pytest -c "$checkout/tests/pytest.ini" --junitxml "$report" \
		--timeout "$limit" --reruns 1 --only-rerun '^(?!Failed: )' \
		"$checkout/tests" "$@" || status=$?
	counts=$(/usr/bin/python3 - "$report" <<-'EOF' || true
		import sys, xml.etree.ElementTree as tree
		suites = tree.parse(sys.argv[1]).getroot().iter("testsuite")
		counts = [[int(s.get(k)) for k in ("tests", "failures", "errors", "skipped")] for s in suites]
		tests, failures, errors, skipped = map(sum, zip(*counts))
		print(max(0, tests - failures - errors - skipped), failures + errors, skipped)
	EOF
	)
	# shellcheck disable=SC2086 # three numbers
	count ${counts:-0 1 0}
	again=$(grep -cs '^repeated: ' "${report%.xml}.repeated" || true)
	repeated=$((repeated + ${again:-0}))
	# One of the two companies may have none of the chosen tests.
	[ "$status" -ne "$nothing_chosen" ] || return 0
	[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || count 0 1 0
}

# What holds on any hardware, on each part and each way to connect hosts that the rig has.
run_everywhere() {
	local name
	for name in amd epf idt intel switchtec tiny; do
		RIG_PERSONALITY=$name run_guests "$name" -m everywhere "$@"
	done
	for name in star mesh mixed; do
		RIG_TOPOLOGY=$name run_guests "$name" -m everywhere "$@"
	done
}

# What the conformance ledgers say that other hosts show: those tests notice when hosts stand
# still.
run_stopped() {
	rm -f "$results"/pytest-stopped*.xml
	LONG=1 RIG_STOPPED=1 run_guests stopped "$@"
	# Chosen tests do not show all rows.
	[ $# -gt 0 ] ||
		run_long "rows that other hosts show" \
			scripts/conformance.py --noticed "$results"/pytest-stopped*.xml
}

# On Debian's own kernel: what does not need more than the modules and the libraries. The packages, and
# that kernel again with the modules that DKMS has built of them.
run_stock() {
	run_guests stock -k "test_stock or test_module_stacks" "$@"
	run_pytest packages -k test_packages "$@"
	MODULES=$checkout/build/modules/dkms run_guests dkms -k test_stock "$@"
}

# On the kernel that looks for data races, which is built for it: what moves data,
# and everything at once.
run_races() {
	local modules=$checkout/build/modules/races
	phase "a kernel that looks for data races, and the modules for it"
	make --no-print-directory RACES=1 MODULES="$modules" modules || {
		count 0 1 0
		return
	}
	RACES=1 LONG='' MODULES=$modules run_guests races \
		-k "test_frames or test_ether or test_sharing or test_flooding or test_chaos" "$@"
}

# Say how many there were, and end.
finish() {
	phase ""
	echo
	printf '%s passed, %s failed' "$passed" "$failed"
	[ "$skipped" -eq 0 ] || printf ', %s skipped' "$skipped"
	[ "$repeated" -eq 0 ] || printf ', %s repeated' "$repeated"
	echo
	[ "$failed" -eq 0 ]
	exit
}

mkdir -p "$results"
rm -f "$results/seconds"
cd "$checkout"
if [ "${STOPPED:-}" = 1 ]; then
	run_stopped "$@"
	finish
fi
if [ "${KERNEL:-}" = stock ]; then
	run_stock "$@"
	finish
fi
run_cargo host Cargo.toml "$(nproc)"
# Some of these sleep.
run_cargo userlib userlib/Cargo.toml "$(($(nproc) + 1))"
run_cargo modules rust/host/Cargo.toml "$(nproc)" scripts/host.sh
if [ "${LONG:-}" = 1 ]; then
	run_long "broken protocol code is noticed" scripts/mutants.sh
	run_long "fuzzing of the protocol's parsers" scripts/fuzz.sh
	run_long "threads of VIPL and MCAPI under a race detector" scripts/threads.sh
fi
run_guests all "$@"
# Chosen tests are not those of all promises.
[ $# -gt 0 ] ||
	run_long "tests of all promises" \
		scripts/conformance.py --ran "$results"/pytest-all*.xml "$results"/cargo-*.log
if [ "${LONG:-}" = 1 ]; then
	run_everywhere "$@"
	run_stopped "$@"
	# Somebody's own kernel is the only one to test, as is another that checks.
	[ -n "${KDIR:-}${DEBUG:-}${RACES:-}" ] || run_races "$@"
fi
finish
