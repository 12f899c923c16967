#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Checks form: formatters and lints of every language in the tree.
#
#   lint.sh KDIR
#
# Runs all checks, also after one has failed, and names those that failed.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

kdir=${1:?usage: lint.sh KDIR}
source=$kdir
[ ! -d "$kdir/source" ] || source=$kdir/source
failures=()

# check NAME COMMAND...
check() {
	local name=$1
	shift
	say "$name"
	"$@" || failures+=("$name")
}

tracked() {
	git ls-files -z --cached --others --exclude-standard -- "$@"
}

kernel_rustfmt() {
	tracked 'rust/*.rs' 'samples/*.rs' |
		xargs -0r env PATH="$kernel_path" rustfmt --check --edition 2021 \
			--config-path "$source/.rustfmt.toml" --config skip_children=true
}

# Clippy and sparse over the modules, in an output of its own: it leaves no usable objects.
kernel_lints() {
	local log=$checkout/build/lint/kernel.log
	mkdir -p "$checkout/build/lint/modules"
	# What is up to date would not be looked at again.
	find "$checkout/build/lint/modules" -name '*.o' -delete
	scripts/kbuild.sh "$kdir" "$checkout/build/lint/modules" CLIPPY=1 \
		C=2 CF=-fmax-warnings=unlimited modules >"$log" 2>&1 || {
		show_end "$log"
		return 1
	}
	# A paragraph per warning; what bindgen has written is not ours.
	awk -v RS= '/(^|\n)warning: / && !/warnings? emitted/ && !/--> [^\n]*_generated\.rs/ {
		print $0 "\n"; found = 1 } END { exit found }' "$log" &&
		sparse_is_quiet "$log"
}

# Helpers are called from Rust alone, which declares them itself.
sparse_is_quiet() {
	grep -q '^  CHECK ' "$1" || {
		say "sparse has seen no file"
		return 1
	}
	! grep -E '^[^ ]+:[0-9]+:[0-9]+: ' "$1" |
		grep -Ev "symbol 'mp_helper_[a-z0-9_]+' was not declared\. Should it be static\?$"
}

# C of programs and libraries.
user_space='^(userlib|examples|tests)/'

checkpatch() {
	# Helpers only give a name to a macro of the kernel, exports are a list, and the
	# names of types are those of the specification. Programs in user space look at
	# memory that other hosts write.
	local ignored=FILE_PATH_CHANGES,SPDX_LICENSE_TAG,CONST_STRUCT,EXPORT_SYMBOL,MEMORY_BARRIER
	ignored+=,NEW_TYPEDEFS,VOLATILE
	# Names in capitals are no types unless it is told so.
	local types=$checkout/build/lint/types.txt
	mkdir -p "$checkout/build/lint"
	sed -nE 's/^(typedef .*[ *]|\} )(VIP_[A-Z0-9_]+);$/\2/p' userlib/include/vipl.h >"$types"
	local run=("$source/scripts/checkpatch.pl" --no-tree --no-summary --terse --quiet --file
		--typedefsfile "$types") status=0
	# Programs in user space do not have what the kernel has in place of a compiler's own words.
	local user=$ignored,INLINE,PREFER_DEFINED_ATTRIBUTE_MACRO,COMPLEX_MACRO,ARRAY_SIZE,AVOID_EXTERNS
	tracked '*.c' '*.h' | grep -zvE "$user_space" |
		xargs -0r "${run[@]}" --ignore "$ignored" || status=$?
	tracked '*.c' '*.h' | grep -zE "$user_space" |
		xargs -0r "${run[@]}" --ignore "$user" || status=$?
	return "$status"
}

shell_scripts() {
	{ tracked '*.sh' && printf '.ci/run\0'; } | xargs -0r shellcheck
}

# The modules on the host; what is the kernel's own there is not looked at.
host_clippy() {
	local crates=(machine bindings kernel macros mp_bindings mp_kernel mp_transport pximc_ntb mp_kunit)
	scripts/host.sh clippy --quiet --locked "${crates[@]/#/--package=}" --lib --tests -- -D warnings
}

python_syntax() {
	/usr/bin/python3 -m compileall -q -f scripts tests
}

cd "$checkout"
check "rustfmt, kernel side" kernel_rustfmt
check "rustfmt, host side" cargo fmt --all --check
check "a sparse for this kernel" scripts/sparse.sh "$source"
check "clippy and sparse, kernel side" kernel_lints
check "clippy, host side" cargo clippy --quiet --workspace --locked --all-targets -- -D warnings
check "clippy, modules on the host" host_clippy
check "rustfmt, userlib" cargo fmt --manifest-path userlib/Cargo.toml --all --check
check "clippy, userlib" cargo clippy --manifest-path userlib/Cargo.toml --quiet --workspace \
	--locked --all-targets -- -D warnings
check "licences" scripts/reuse.sh
check "unsafe, by file" scripts/unsafe.sh
check "summary lines" scripts/summaries.py
check checkpatch checkpatch
check shellcheck shell_scripts
check "python syntax" python_syntax
[ ${#failures[@]} -eq 0 ] || die "failed: $(printf '%s; ' "${failures[@]}")"
say "nothing to complain about"
