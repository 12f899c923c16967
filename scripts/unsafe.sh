#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Counts `unsafe` by file, and fails for files that may not have it.
#
#   unsafe.sh [REPORT]
#
# REPORT, by default build/lint/unsafe.txt, gets the counts, the largest first. The lints see to it that each block argues
# its safety.

. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

# Where it may be, and why there. A directory stands for everything below it; tests of
# what is named here stand beside it.
places() {
	cat <<-'EOF'
		rust/abstractions/              wraps the kernel's interfaces
		rust/bindings/                  declares them
		rust/dma_test/                  a DMA engine in Rust, for tests: no wrapper exists
		rust/mp_transport/capi          the interface for modules in C
		rust/mp_transport/capi.rs       the same
		rust/mp_transport/copy.rs       copies from and to memory that others change
		rust/mp_transport/local.rs      names memory to a DMA engine
		rust/mp_transport/memory        copies by an engine: the same
		rust/mp_transport/memory.rs     the same
		rust/mp_transport.rs            initialises static locks
		rust/mp_transport/service.rs    has one
		rust/pximc_ntb/dma.rs           names memory to a DMA engine
		rust/pximc_ntb/arena.rs         the same
		rust/pximc_ntb/further.rs       the same
		rust/pximc_ntb/inward.rs        the same
		rust/pximc_ntb/local.rs         the same
		rust/host/bindings/src/         stands in for functions in C
		rust/host/kernel/src/device.rs  wraps such functions
		rust/host/kernel/src/module.rs  initialises modules in place
		rust/host/kernel/src/page.rs    wraps such functions
		rust/host/kernel/src/sync       locks on them
		rust/host/kernel/src/sync.rs    the same
		rust/host/kernel/tests/         uses memory that has gone, for tests
		rust/host/machine/src/memory.rs allocates
		rust/host/machine/src/statics.rs    copies what modules have in statics
		rust/host/machine/tests/        both, for tests
		rust/host/mp_bindings/src/      stands in for functions in C
		rust/host/mp_kernel/src/dma_buf.rs  a function that is unsafe in the abstractions
		rust/host/mp_kernel/src/genl.rs an unsafe trait of the abstractions
		rust/host/mp_kernel/src/ntb/access/     memory that others change
		rust/host/mp_kernel/tests/      frees memory that is in use, for tests
		rust/mp_func_ether/port.rs      counts for a transmit queue alone
		rust/mp_func_user.rs            initialises static locks
		rust/mp_func_user/quota.rs      has them
		rust/mp_func_user/access.rs     lets devices reach a window
		rust/mp_func_user/desk.rs       names physical memory of a session
		rust/mp_func_user/calls.rs      says which structures are plain bytes, names physical memory
		rust/mp_func_user/status.rs     says which pages a mapping has
		rust/mp_func_user/window.rs     the same
		rust/mp_kunit/user.rs           both, for tests
		rust/mp_kunit/kept.rs           copies of what is kept, for tests
		rust/mp_kunit/napi.rs           looks whether a thread has ended, for tests
		rust/mp_kunit/memory.rs         has such an engine, for tests
		rust/mp_kunit/windows.rs        names physical memory, for tests
		rust/ntb_hw_ivshmem/driver.rs   sets the DMA mask
		userlib/c-abi/                  memory of callers in C, and what all libraries share
		userlib/fabric/src/device.rs    system calls
		userlib/fabric/src/map.rs       memory that others change
		userlib/fabric/src/map/         stands in for an instruction, for tests
		userlib/fabric/src/memory.rs    what of it is given away
		userlib/fabric/src/queue.rs     the same
		userlib/fabric/src/segment.rs   the same
		userlib/fabric/src/session.rs   the same
		userlib/fabric/src/thread.rs    keeps signals from threads
		userlib/fabric/src/whole.rs     an instruction that no wrapper has
		userlib/fabric/tests/sessions.rs    names physical memory that is not there
		userlib/fabric-storm/           makes calls that no library would make
		userlib/testing/src/forks.rs    forks, for tests
		userlib/testing/src/shortage.rs gives memory, for tests
		userlib/libfabric-ffi/          structures and memory of programs in C, by tables of functions
		userlib/mcapi-ffi/src/answer.rs     an index is passed as a number
		userlib/mcapi-ffi/src/bindings.rs   declares functions in C
		userlib/mcapi-ffi/src/functions.rs  buffers are the call's until it returns
		userlib/mcapi-ffi/src/operations.rs results go to memory of callers, by any thread
		userlib/mcapi-ffi/src/tests     calls functions as programs in C do
		userlib/mcapi-ffi/src/tests.rs  the same
		userlib/pximc-dispatcher/       loads libraries in C and stands for them
		userlib/pximc/examples/pxi_scenario/devices.rs   gives away memory of a device
		userlib/pximc-header/src/bindings.rs    declares functions in C
		userlib/pximc-ntb/src/ffi.rs    names physical memory of programs in C
		userlib/pximc-ntb/src/tests     calls functions as programs in C do
		userlib/pximc-ntb/src/tests.rs  the same
		userlib/sisci-ffi/src/bindings.rs   declares functions in C
		userlib/sisci-ffi/src/ffi.rs    calls functions of programs in C
		userlib/sisci-ffi/src/query.rs  knows what a query's pointers lead to
		userlib/sisci-ffi/src/tests     calls functions as programs in C do
		userlib/sisci-ffi/src/tests.rs  the same
		userlib/smc-preload/src/lib.rs  stands for a function of the C library
		userlib/vipl/src/descriptor.rs says which structures are atomic words
		userlib/vipl/src/memory.rs      memory that programs have registered
		userlib/vipl/tests/limits.rs    names memory that is not there
		userlib/vipl-ffi/src/address.rs     knows what lengths in memory lead to
		userlib/vipl-ffi/src/bindings.rs    declares functions in C
		userlib/vipl-ffi/src/ffi.rs     calls functions of programs in C
		userlib/vipl-ffi/src/tests      calls functions as programs in C do
		userlib/vipl-ffi/src/tests.rs   the same
	EOF
}

# FILE COUNT of each file that has any; comments and attributes do not count.
counts() {
	git ls-files -z --cached --others --exclude-standard -- '*.rs' |
		xargs -0 awk '
			{ sub(/\/\/.*/, "") }
			/unsafe_op_in_unsafe_fn|undocumented_unsafe|(forbid|deny)\(unsafe/ { next }
			{ count[FILENAME] += gsub(/(^|[^[:alnum:]_])unsafe([^[:alnum:]_]|$)/, "") }
			END { for (file in count) if (count[file]) print file, count[file] }'
}

is_allowed() {
	local place
	while read -r place _; do
		case $1 in
		"$place" | "${place%/}"/*) return 0 ;;
		esac
	done < <(places)
	return 1
}

cd "$checkout"
report=${1:-build/lint/unsafe.txt}
mkdir -p "$(dirname -- "$report")"
counts | sort -k 2,2nr -k 1,1 >"$report.new"
trap 'rm -f "$report.new"' EXIT
others=()
while read -r file count; do
	is_allowed "$file" || others+=("$file ($count)")
done <"$report.new"
say "$(awk '{ sum += $2 } END { printf "unsafe: %d in %d files\n", sum, NR }' "$report.new")"
awk '{ split($1, name, "/"); sum[name[1] "/" name[2]] += $2 }
	END { for (part in sum) printf "  %5d %s\n", sum[part], part }' "$report.new" | sort -rn
cp "$report.new" "$report"
[ ${#others[@]} -eq 0 ] || die "unsafe where it may not be: ${others[*]}" \
	"write it with rust/abstractions or userlib/fabric, or say in $0 why it must be there"
