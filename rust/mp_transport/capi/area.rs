// SPDX-License-Identifier: GPL-2.0-only

//! Memory that belongs to C code and lives as long as a Rust object.

use kernel::{
    alloc::{
        flags::__GFP_NOWARN,
        Flags, //
    },
    prelude::*, //
};
use mp_proto::wire::PeerData;

/// Memory of fixed length, zeroed in the beginning, aligned for any type.
///
/// # Invariants
///
/// `start` is the first byte of `words`, which is accessed by no other way and
/// never changes its place.
pub(crate) struct Area {
    words: KVec<u64>,
    start: *mut u8,
}

// SAFETY: The memory is not tied to a thread.
unsafe impl Send for Area {}
// SAFETY: A shared area gives access to its address only.
unsafe impl Sync for Area {}

impl Area {
    /// An area of `len` bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(len: usize, flags: Flags) -> Result<Self> {
        let mut words = KVec::new();
        words.resize(len.div_ceil(size_of::<u64>()), 0, flags | __GFP_NOWARN)?;
        let start = words.as_mut_ptr().cast();
        // INVARIANT: The vector's content stays where it is when the vector moves.
        Ok(Self { words, start })
    }

    /// The address of byte `off`.
    #[inline]
    pub(super) fn at<T>(&self, off: usize) -> *mut T {
        self.start.wrapping_add(off).cast()
    }

    /// The first byte, or null if there is none.
    pub(super) fn start(&self) -> *mut c_void {
        match self.words.is_empty() {
            true => core::ptr::null_mut(),
            false => self.at(0),
        }
    }
}

/// What a transport in C has in a peer (`IDT-PEER-8`).
pub(crate) struct Areas {
    /// What other hosts need to know.
    pub(super) data: Area,
    /// Its length as it was asked for.
    pub(super) data_len: u32,
    /// What nobody else knows.
    pub(super) private: Area,
}

impl Areas {
    pub(super) fn new(data_len: u32, priv_len: u32) -> Result<Self> {
        Ok(Self {
            data: Area::new(data_len as usize, GFP_KERNEL)?,
            data_len,
            private: Area::new(priv_len as usize, GFP_KERNEL)?,
        })
    }

    /// What of the data other hosts are told: its first 16 bytes.
    pub(crate) fn announced(&self) -> PeerData {
        let mut words = [0u64; 2];
        let len = (self.data_len as usize).min(size_of_val(&words));
        // SAFETY: The area has that many bytes; the owner fills it before the peer is entered,
        // and leaves it alone afterwards.
        unsafe {
            core::ptr::copy_nonoverlapping(self.data.at::<u8>(0), words.as_mut_ptr().cast(), len)
        };
        let [inb_base, reg_base] = words.map(u64::from_le);
        PeerData {
            inb_base,
            reg_base,
            ..PeerData::default()
        }
    }
}
