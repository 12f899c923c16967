// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the tests share: plain memory, and a random number generator that a seed determines.

#![allow(dead_code)] // each test program uses its part

pub mod links;
pub mod rings;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mp_proto::link::Rng;
use mp_proto::memory::{Inbound, OutOfBounds, Outbound};

/// Memory that both sides of a test share, coherent and in order.
#[derive(Clone)]
pub struct Ram(pub Rc<RefCell<Vec<u8>>>);

impl Ram {
    pub fn new(len: usize) -> Ram {
        Ram(Rc::new(RefCell::new(vec![0; len])))
    }

    /// The word at `off`, as a test looks at it or a lying peer writes it.
    pub fn word(&self, off: usize) -> u64 {
        self.load_u64(off).expect("inside the memory")
    }

    pub fn set_word(&self, off: usize, val: u64) {
        self.store_u64(off, val).expect("inside the memory");
    }
}

impl Inbound for Ram {
    fn size(&self) -> usize {
        self.0.borrow().len()
    }
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        let mut b = [0; 8];
        self.read(off, &mut b)?;
        Ok(u64::from_le_bytes(b))
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

impl Outbound for Ram {
    fn size(&self) -> usize {
        self.0.borrow().len()
    }
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        self.write(off, &val.to_le_bytes())
    }
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        let end = off.checked_add(buf.len()).ok_or(OutOfBounds)?;
        let mut mem = self.0.borrow_mut();
        mem.get_mut(off..end)
            .ok_or(OutOfBounds)?
            .copy_from_slice(buf);
        Ok(())
    }
    fn wmb(&self) {}
    fn release(&self) {}
    fn mb(&self) {}
}

/// A generator that its seed determines (splitmix64); clones share the state.
#[derive(Clone, Debug)]
pub struct Dice(Rc<Cell<u64>>);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Rc::new(Cell::new(seed)))
    }

    pub fn roll(&self) -> u64 {
        let s = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(s);
        let mut z = s;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&self, n: u64) -> u64 {
        self.roll() % n.max(1)
    }

    /// True once in `n` times.
    pub fn once_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

impl Rng for Dice {
    fn next_u64(&mut self) -> u64 {
        self.roll()
    }
}
