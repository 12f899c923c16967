// SPDX-License-Identifier: GPL-2.0-only

//! The memory at both ends of a link as services use it, as `rust/mp_transport/memory` does: a
//! pool of pieces that outlives epochs, grants, and a quarantine.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mp_proto::arena::{Arena, Extent};
use mp_proto::layout::PAGE;
use mp_proto::memory::Outbound;

use crate::wire::{Near, Window};

/// Most pieces of a pool.
const MAX_PIECES: usize = 1024;

/// This host's memory for one peer, over all epochs.
pub struct Pool {
    arena: Arena<Vec<Option<Extent>>>,
    granted: Vec<u64>,
    epoch: u64,
    is_up: bool,
    near: Near,
    start: usize,
}

impl Pool {
    /// The pool of `len` bytes from `start` on.
    pub fn new(near: Near, start: u64, len: u64) -> Rc<RefCell<Pool>> {
        Rc::new(RefCell::new(Pool {
            arena: Arena::new(len, vec![None; MAX_PIECES]),
            granted: Vec::new(),
            epoch: 0,
            is_up: false,
            near,
            start: start as usize,
        }))
    }

    fn begin_epoch(&mut self) -> u64 {
        self.arena.end_epoch();
        self.granted.clear();
        self.epoch += 1;
        self.is_up = true;
        self.epoch
    }

    fn take_grant(&mut self, off: u64) -> bool {
        let at = self.granted.iter().position(|granted| *granted == off);
        at.map(|at| self.granted.remove(at)).is_some()
    }

    fn give_up(&mut self, off: u64) {
        let done = match self.take_grant(off) {
            true => self.arena.retire(off),
            false => self.arena.free(off),
        };
        done.expect("it was cut, and is given up once");
    }

    /// Word number `at` of what begins at `off`.
    pub fn word(&self, off: u64, at: u64) -> u64 {
        let at = self.start + (off + 8 * at) as usize;
        let mem = self.near.bytes.borrow();
        let word = mem.get(at..).and_then(|b| b.first_chunk());
        word.map_or(0, |b| u64::from_le_bytes(*b))
    }
}

/// A piece of this host's memory; dropping it gives it up.
pub struct Piece {
    pool: Rc<RefCell<Pool>>,
    /// Where it begins.
    pub off: u64,
    /// Its bytes.
    pub len: u64,
}

impl Piece {
    /// A word of it.
    pub fn word(&self, at: u64) -> u64 {
        self.pool.borrow().word(self.off, at)
    }

    /// The memory that it is cut from, and where it begins there.
    pub fn place(&self) -> (Near, usize) {
        let pool = self.pool.borrow();
        (pool.near.clone(), pool.start + self.off as usize)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.pool.borrow_mut().give_up(self.off);
    }
}

/// The memory of both ends in one epoch.
pub struct Memory {
    pool: Rc<RefCell<Pool>>,
    epoch: u64,
    far: Window,
    far_start: u64,
    /// Bytes of the peer's arena.
    pub far_len: u64,
    over: Cell<bool>,
}

impl Memory {
    /// Begin an epoch: the peer has ended the one before.
    pub fn begin(pool: &Rc<RefCell<Pool>>, far: Window, start: u64, len: u64) -> Rc<Memory> {
        Rc::new(Memory {
            epoch: pool.borrow_mut().begin_epoch(),
            pool: pool.clone(),
            far,
            far_start: start,
            far_len: len,
            over: Cell::new(false),
        })
    }

    /// End the epoch: nobody on this host reaches the peer's memory any more.
    pub fn end(&self) {
        let mut pool = self.pool.borrow_mut();
        if pool.epoch == self.epoch {
            pool.is_up = false;
        }
        self.over.set(true);
        // All processors have been told to forget the mappings.
        self.far.wire.borrow_mut().flush_all();
    }

    fn is_now(&self) -> bool {
        let pool = self.pool.borrow();
        pool.is_up && pool.epoch == self.epoch
    }

    /// Bytes of the two longest free runs, the longest first.
    pub fn runs(&self) -> [u64; 2] {
        match self.is_now() {
            true => self.pool.borrow().arena.runs(),
            false => [0; 2],
        }
    }

    /// Cut a piece, all zero, that the peer may be told of.
    pub fn cut(&self, len: u64) -> Option<Piece> {
        if !self.is_now() {
            return None;
        }
        let mut pool = self.pool.borrow_mut();
        let off = pool.arena.alloc(len).ok()?.off;
        let from = pool.start + off as usize;
        let to = from + len.next_multiple_of(PAGE) as usize;
        pool.near.bytes.borrow_mut()[from..to].fill(0);
        pool.granted.push(off);
        let pool = self.pool.clone();
        Some(Piece { pool, off, len })
    }

    /// The peer does not reach the piece at `off` any more.
    pub fn peer_let_go(&self, off: u64) {
        if !self.is_now() {
            return;
        }
        let mut pool = self.pool.borrow_mut();
        if !pool.take_grant(off) && pool.arena.get(off).is_some_and(|extent| extent.retired) {
            pool.arena.free(off).expect("it is there");
        }
    }

    /// A process of this host stores a word into the peer's memory.
    pub fn store(&self, off: u64, at: u64, word: u64) {
        if let Some((window, start)) = self.place(off) {
            let stored = window.store_u64(start + 8 * at as usize, word);
            stored.expect("checked when it was reached");
        }
    }

    /// Where a process of this host stores that reaches the peer's memory at `off`; nowhere once
    /// the epoch is over.
    pub fn place(&self, off: u64) -> Option<(&Window, usize)> {
        let is_over = self.over.get();
        (!is_over).then_some((&self.far, (self.far_start + off) as usize))
    }

    /// A mapping of the peer's memory is taken away from its process.
    pub fn unmap(&self) {
        self.far.wire.borrow_mut().flush_all();
    }

    /// Whether the memory of this host is as it was in the beginning.
    pub fn is_whole(&self) -> bool {
        let pool = self.pool.borrow();
        pool.arena.free_bytes() == pool.arena.size()
    }
}
