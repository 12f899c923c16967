// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory of a partner as this process stores to it.
//!
//! Stores through a bridge may leave the processor in pieces and in any order between fences, and
//! emulated bridges never show that. So a library that stores to a partner's memory does it by
//! [`RemoteMemory`], which a [`Device`](crate::Device) chooses: that of the character device is the
//! mapped memory itself, and a test's device can let everything pass through a model of a bridge.
//!
//! Where no window leads to the partner's memory, [`PartnerMemory`](crate::PartnerMemory) sends what
//! is stored.
//!
//! For processes of 64 bits.

use crate::{flush_stores, Map};
use rustix::io::Errno;
use std::{
    fmt::Debug,
    sync::atomic::{fence, Ordering},
};
use vm_memory::VolatileSlice;

/// Memory of a partner, which is never read. What is outside of it fails with `ERANGE`, and
/// nothing is stored.
pub trait RemoteMemory: Debug + Send + Sync + 'static {
    /// Its size in bytes.
    fn size(&self) -> usize;

    /// Store an aligned word in one piece, least significant byte first.
    ///
    /// # Errors
    /// `ERANGE`; of [`Stores`](crate::Stores) also what earlier stores have failed with, as of the
    /// other functions that store.
    fn store(&self, offset: usize, word: u64) -> Result<(), Errno>;

    /// Store an aligned line of 64 bytes: each word in one piece, in any order. Where the processor
    /// has a store of 64 bytes the line may leave it in one piece, and ahead of what was stored before;
    /// nobody may rest on either.
    ///
    /// # Errors
    /// `ERANGE`.
    fn store_line(&self, offset: usize, line: &[u64; 8]) -> Result<(), Errno>;

    /// Copy bytes, in any order and any pieces.
    ///
    /// # Errors
    /// `ERANGE`.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Errno>;

    /// Copy memory that others may change meanwhile.
    ///
    /// # Errors
    /// `ERANGE`.
    fn copy(&self, offset: usize, from: VolatileSlice<'_>) -> Result<(), Errno>;

    /// Order all stores before it ahead of the stores after it; see [`flush_stores`].
    fn flush(&self);

    /// Order all stores before it ahead of the loads and stores after it.
    fn barrier(&self);
}

impl RemoteMemory for Map {
    #[inline]
    fn size(&self) -> usize {
        self.len()
    }

    #[inline]
    fn store(&self, offset: usize, value: u64) -> Result<(), Errno> {
        let word = self.word(offset).ok_or(Errno::RANGE)?;
        word.store(value.to_le(), Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn store_line(&self, offset: usize, line: &[u64; 8]) -> Result<(), Errno> {
        Map::store_line(self, offset, line).ok_or(Errno::RANGE)
    }

    #[inline]
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
        let room = self.volatile().subslice(offset, bytes.len());
        room.map_err(|_| Errno::RANGE)?.copy_from(bytes);
        Ok(())
    }

    #[inline]
    fn copy(&self, offset: usize, from: VolatileSlice<'_>) -> Result<(), Errno> {
        let room = self.volatile().subslice(offset, from.len());
        from.copy_to_volatile_slice(room.map_err(|_| Errno::RANGE)?);
        Ok(())
    }

    #[inline]
    fn flush(&self) {
        flush_stores();
        fence(Ordering::Release);
    }

    #[inline]
    fn barrier(&self) {
        // On x86-64 the fence below pushes out combined stores as well.
        if cfg!(not(target_arch = "x86_64")) {
            flush_stores();
        }
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_land_where_they_belong_or_nowhere() {
        let map = Map::allocate(4096).unwrap();
        let remote: &dyn RemoteMemory = &map;
        assert_eq!(remote.size(), 4096);
        remote.store(8, 0x0807_0605_0403_0201).unwrap();
        remote.store_line(64, &[u64::MAX; 8]).unwrap();
        remote.write(200, b"bytes").unwrap();
        remote
            .copy(300, VolatileSlice::from(&mut b"copied".to_owned()[..]))
            .unwrap();
        let mut found = vec![0; 4096];
        map.volatile().copy_to(&mut found);
        let mut wanted = vec![0; 4096];
        wanted[8..16].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        wanted[64..128].fill(0xff);
        wanted[200..205].copy_from_slice(b"bytes");
        wanted[300..306].copy_from_slice(b"copied");
        assert!(found == wanted);
        assert_eq!(remote.store(4096, 1), Err(Errno::RANGE));
        assert_eq!(remote.store(4, 1), Err(Errno::RANGE), "not aligned");
        assert_eq!(remote.store_line(4096 - 56, &[1; 8]), Err(Errno::RANGE));
        assert_eq!(remote.write(4092, b"bytes"), Err(Errno::RANGE));
        let from = &mut [1_u8; 5][..];
        assert_eq!(
            remote.copy(4092, VolatileSlice::from(from)),
            Err(Errno::RANGE)
        );
        map.volatile().copy_to(&mut found);
        assert!(found == wanted, "nothing else was stored");
    }
}
