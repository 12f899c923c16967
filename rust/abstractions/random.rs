// SPDX-License-Identifier: GPL-2.0-only

//! Random numbers that nobody can guess.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h).

/// The next number of the kernel's generator. Any context.
pub fn next_u64() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: The buffer is valid for writes of its length.
    unsafe { kernel::bindings::get_random_bytes(bytes.as_mut_ptr().cast(), bytes.len()) };
    u64::from_ne_bytes(bytes)
}
