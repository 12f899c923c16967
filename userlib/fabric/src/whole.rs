// SPDX-License-Identifier: MIT OR Apache-2.0

//! Stores of a line of 64 bytes in one piece, which some processors have.
//!
//! That of x86-64 is MOVDIR64B: one write of 64 bytes on the bus, past the caches. It is ordered with
//! other stores by fences only, as stores to a write-combining window are. Those of arm64 (ST64B)
//! are left out: they fault on memory that does not take them, and a process cannot ask that of a
//! window.
//!
//! For processes of 64 bits.

use std::sync::{atomic::AtomicU64, OnceLock};

/// Whether this processor has such a store. It is asked once: to a guest the question costs an exit.
pub(crate) fn is_there() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(found)
}

#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe)] // of compilers before these functions were safe
fn found() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const FEATURES: u32 = 7;
    const MOVDIR64B: u32 = 1 << 28;
    // SAFETY: All processors of this kind have the instruction.
    let (leaves, features) = unsafe { (__cpuid(0).eax, __cpuid_count(FEATURES, 0).ecx) };
    leaves >= FEATURES && features & MOVDIR64B != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn found() -> bool {
    false
}

/// Store a line, least significant bytes first.
///
/// # Safety
/// The processor has the instruction ([`is_there`]), and the words are aligned to their size
/// altogether.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn store(to: &[AtomicU64; 8], line: &[u64; 8]) {
    // SAFETY: The caller answers for the instruction and the alignment. It loads the line, and
    // stores to words that others may change and that may be stored to by a shared reference.
    unsafe {
        std::arch::asm!(
            "movdir64b rdi, [rsi]",
            in("rdi") to.as_ptr(),
            in("rsi") line.as_ptr(),
            options(nostack, preserves_flags),
        );
    }
}

/// As above.
///
/// # Safety
/// There is no such processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn store(_: &[AtomicU64; 8], _: &[u64; 8]) {
    unreachable!("no processor has it")
}
