// SPDX-License-Identifier: MIT OR Apache-2.0

//! Places for arguments in the worker's memory: good ones and bad ones.

use crate::random::Random;
use std::ptr::null_mut;

const PAGE: usize = 4096;
/// Pages that can be read and written; the one behind them is not there.
const GOOD: usize = 3;

/// Where an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In memory that can be written, at any address, over pages' ends too.
    Good,
    /// In memory that can be read only.
    ReadOnly,
    /// At its beginning, it is there; its last bytes are not.
    Cut,
    /// Nowhere: null, unmapped, or an address of the kernel.
    Nowhere,
}

/// The memory that arguments are put into.
pub struct Arena {
    good: *mut u8,
    read_only: *mut u8,
}

fn map(pages: usize) -> *mut u8 {
    // SAFETY: A mapping of its own.
    let memory = unsafe {
        libc::mmap(
            null_mut(),
            pages * PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(memory, libc::MAP_FAILED, "no memory for arguments");
    memory.cast()
}

fn protect(memory: *mut u8, pages: usize, protection: i32) {
    // SAFETY: Called for mappings of this module, which nobody has a reference into.
    let result = unsafe { libc::mprotect(memory.cast(), pages * PAGE, protection) };
    assert_eq!(result, 0, "mprotect");
}

impl Arena {
    /// For one process.
    pub fn new() -> Self {
        let good = map(GOOD + 1);
        // SAFETY: Inside of the mapping.
        protect(unsafe { good.add(GOOD * PAGE) }, 1, libc::PROT_NONE);
        let read_only = map(2);
        protect(read_only, 2, libc::PROT_READ);
        Arena { good, read_only }
    }

    /// Put at most two pages of bytes somewhere, and say where.
    pub fn put(&self, bytes: &[u8], place: Place, random: &mut Random) -> usize {
        assert!(bytes.len() <= 2 * PAGE);
        match place {
            Place::Good => {
                let room = GOOD * PAGE - bytes.len();
                let at = match random.below(4) {
                    // Up to the very end of what is there.
                    0 => room,
                    // Over the end of a page.
                    1 => PAGE.saturating_sub(bytes.len() / 2).min(room),
                    _ => random.index(room + 1),
                };
                self.store(self.good, at, bytes)
            }
            Place::ReadOnly => {
                protect(self.read_only, 2, libc::PROT_READ | libc::PROT_WRITE);
                let address = self.store(self.read_only, 0, bytes);
                protect(self.read_only, 2, libc::PROT_READ);
                address
            }
            Place::Cut => {
                let there = random.index(bytes.len().max(1));
                self.store(self.good, GOOD * PAGE - there, &bytes[..there])
            }
            Place::Nowhere => random.pick(&[
                0,
                1,
                PAGE - 1,
                self.good as usize + GOOD * PAGE,
                0x7FFF_FFFF_F000,
                0x8000_0000_0000,
                0xFFFF_8880_0000_0000,
                usize::MAX,
            ]),
        }
    }

    fn store(&self, memory: *mut u8, at: usize, bytes: &[u8]) -> usize {
        // SAFETY: The callers have seen to it that there is room, in memory of this process
        // that nobody has a reference into.
        unsafe {
            let to = memory.add(at);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
            to as usize
        }
    }

    /// What is in a good place, or a read-only one.
    pub fn get(&self, address: usize, len: usize) -> Vec<u8> {
        // SAFETY: As the caller has got it from `put`, for so many bytes.
        unsafe { std::slice::from_raw_parts(address as *const u8, len) }.to_vec()
    }
}
