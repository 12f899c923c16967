// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Bytes taken one after the other, zeros behind the end; memory that holds them.

use std::cell::RefCell;

use mp_proto::memory::{Inbound, OutOfBounds, Outbound};

/// The rest of an input.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes, fewer at the end.
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        head
    }

    /// So many bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let head = self.take(N);
        array[..head.len()].copy_from_slice(head);
        array
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// A word of 32 bits.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// A word of 64 bits.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}

/// Memory that the peer has filled.
pub struct Memory(RefCell<Vec<u8>>);

impl Memory {
    /// Zeros.
    pub fn new(len: usize) -> Memory {
        Memory(RefCell::new(vec![0; len]))
    }

    /// The peer writes.
    pub fn put(&self, off: usize, bytes: &[u8]) {
        let mut mem = self.0.borrow_mut();
        let from = off.min(mem.len());
        let n = bytes.len().min(mem.len() - from);
        mem[from..from + n].copy_from_slice(&bytes[..n]);
    }
}

impl Inbound for Memory {
    fn size(&self) -> usize {
        self.0.borrow().len()
    }
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        let mut word = [0; 8];
        self.read(off, &mut word)?;
        Ok(u64::from_le_bytes(word))
    }
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        let end = off.checked_add(buf.len()).ok_or(OutOfBounds)?;
        let mem = self.0.borrow();
        buf.copy_from_slice(mem.get(off..end).ok_or(OutOfBounds)?);
        Ok(())
    }
    fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds> {
        self.write(off, &vec![0; len])
    }
    fn rmb(&self) {}
}

impl Outbound for Memory {
    fn size(&self) -> usize {
        self.0.borrow().len()
    }
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        self.write(off, &val.to_le_bytes())
    }
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        let end = off.checked_add(buf.len()).ok_or(OutOfBounds)?;
        let mut mem = self.0.borrow_mut();
        let room = mem.get_mut(off..end).ok_or(OutOfBounds)?;
        room.copy_from_slice(buf);
        Ok(())
    }
    fn wmb(&self) {}
    fn release(&self) {}
    fn mb(&self) {}
}
