// SPDX-License-Identifier: MIT OR Apache-2.0

//! The two windows of a session as the engine reaches them.

use crate::piece::Cursor;
use mp_fabric::{
    flush_stores,
    vm_memory::{Bytes, VolatileMemory, VolatileSlice},
    Map,
};
use mp_proto::memory::{Inbound, OutOfBounds, Outbound, Part};
use std::sync::atomic::{fence, AtomicU64, Ordering};

/// The own window: the partner writes it, this process reads it.
#[derive(Debug)]
pub(crate) struct Near(pub(crate) Map);

/// The partner's window: this process only writes it.
#[derive(Debug)]
pub(crate) struct Far(pub(crate) Map);

/// A word, which is loaded and stored in one piece.
#[inline]
fn word<'a>(memory: &'a VolatileSlice<'_>, off: usize) -> Result<&'a AtomicU64, OutOfBounds> {
    memory.get_atomic_ref(off).map_err(|_| OutOfBounds)
}

/// A line of 64 bytes.
#[inline]
fn line(map: &Map, off: usize) -> Result<VolatileSlice<'_>, OutOfBounds> {
    map.volatile().subslice(off, 64).map_err(|_| OutOfBounds)
}

impl Near {
    /// A part of the window.
    #[inline]
    pub(crate) fn part(&self, part: Part) -> Result<VolatileSlice<'_>, OutOfBounds> {
        let slice = self.0.volatile().subslice(part.off, part.len);
        slice.map_err(|_| OutOfBounds)
    }
}

impl Far {
    /// Writes the next `len` bytes that a cursor has.
    #[inline]
    pub(crate) fn gather(
        &self,
        off: usize,
        len: usize,
        from: &mut Cursor<'_>,
    ) -> Result<(), OutOfBounds> {
        let room = self.0.volatile().subslice(off, len);
        from.copy_to(room.map_err(|_| OutOfBounds)?);
        Ok(())
    }
}

impl Inbound for Near {
    fn size(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        Ok(word(&self.0.volatile(), off)?
            .load(Ordering::Relaxed)
            .to_le())
    }
    #[inline]
    fn load_line(&self, off: usize) -> Result<[u64; 8], OutOfBounds> {
        let line = line(&self.0, off)?;
        let mut words = [0; 8];
        for (n, value) in words.iter_mut().enumerate() {
            *value = word(&line, 8 * n)?.load(Ordering::Relaxed).to_le();
        }
        Ok(words)
    }
    #[inline]
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        let read = self.0.volatile().read_slice(buf, off);
        read.map_err(|_| OutOfBounds)
    }
    fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds> {
        let zeros = self.0.volatile().write_slice(&vec![0; len], off);
        zeros.map_err(|_| OutOfBounds)
    }
    #[inline]
    fn rmb(&self) {
        fence(Ordering::Acquire);
    }
}

impl Outbound for Far {
    fn size(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        word(&self.0.volatile(), off)?.store(val.to_le(), Ordering::Relaxed);
        Ok(())
    }
    #[inline]
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        let written = self.0.volatile().write_slice(buf, off);
        written.map_err(|_| OutOfBounds)
    }
    #[inline]
    fn store_line(&self, off: usize, words: &[u64; 8]) -> Result<(), OutOfBounds> {
        let line = line(&self.0, off)?;
        for (n, value) in words.iter().enumerate() {
            word(&line, 8 * n)?.store(value.to_le(), Ordering::Relaxed);
        }
        Ok(())
    }
    #[inline]
    fn wmb(&self) {
        flush_stores();
        fence(Ordering::Release);
    }
    #[inline]
    fn release(&self) {
        fence(Ordering::Release);
    }
    #[inline]
    fn mb(&self) {
        // On x86-64 the fence below pushes out combined stores as well.
        if cfg!(not(target_arch = "x86_64")) {
            flush_stores();
        }
        fence(Ordering::SeqCst);
    }
}
