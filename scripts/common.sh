# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
#
# What the set-up, kernel and module scripts share. Sourced, never run.

set -euo pipefail

# shellcheck disable=SC2034 # for those who source this file
checkout=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034
cache=${PXIMC_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/pximc-ntb}
program=$(basename -- "$0")

# The kernel and its modules are built with Debian's own Rust, whose library
# sources and formatter fit it; a rustup toolchain earlier on the path would mix
# in. bindgen comes from the cache.
# shellcheck disable=SC2034
kernel_path=$cache/tools/bin:/usr/sbin:/usr/bin:/sbin:/bin
# shellcheck disable=SC2034
llvm=19
# A make that a script runs does not share the jobs of the one that runs the script.
[ -z "${MAKEFLAGS:-}" ] ||
	MAKEFLAGS=$(sed -E 's/(^| )(-j[0-9]*|--jobserver-[a-z]+=[^ ]*)//g' <<<"$MAKEFLAGS")
export LIBCLANG_PATH=${LIBCLANG_PATH:-/usr/lib/llvm-$llvm/lib}

say() {
	printf '%s: %s\n' "$program" "$*" >&2
}

# die CAUSE [WAY OUT]
die() {
	say "$1"
	[ $# -lt 2 ] || printf '  %s\n' "${@:2}" >&2
	exit 1
}

# take_lock FILE WHAT: waits while somebody else does the same; held until exit.
take_lock() {
	mkdir -p "$(dirname -- "$1")"
	exec {lock_fd}>"$1"
	flock -n "$lock_fd" && return
	say "waiting for another $2"
	flock -w 3600 "$lock_fd" || die "another $2 still holds $1 after an hour"
}

release_lock() {
	exec {lock_fd}>&-
}

# run_logged LOG WHAT COMMAND...: runs with all output in LOG, and shows every
# few seconds how far it is. Whoever stops this script stops the command.
run_logged() {
	local log=$1 what=$2 start=$SECONDS next=$((SECONDS + 5)) pid
	shift 2
	set -m # a process group of its own, to be ended as a whole
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	trap 'kill -TERM -- "-$pid"; wait "$pid" || true; exit 130' INT TERM HUP
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		[ "$SECONDS" -ge "$next" ] || continue
		next=$((SECONDS + 5))
		say "$what: $((SECONDS - start)) s, $(wc -l <"$log") steps, now: $(last_step "$log")"
	done
	trap - INT TERM HUP
	wait "$pid"
}

last_step() {
	tail -n 1 "$1" | tr -s ' \t' ' ' | cut -c 1-70
}

# show_end LOG: the part of a failed command's log that says why.
show_end() {
	grep -nE -m 5 'error(\[|:)|\*\*\*|^E: ' "$1" >&2 || true
	tail -n 15 "$1" >&2
	printf 'full log: %s\n' "$1" >&2
}

# kernel_compiler DIRECTORY: the C compiler that built a kernel, by the name it was called by; cc where
# that is not here.
kernel_compiler() {
	local name
	name=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="\{0,1\}\([^ "]*\) .*/\1/p' "$1/include/config/auto.conf")
	if command -v "$name" >/dev/null; then printf %s "$name"; else printf cc; fi
}
