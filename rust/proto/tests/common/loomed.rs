// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Memory for the model checker: words that a model names are loom's, stored and loaded without
//! any order; the others are seen at once. The crate's code does not know loom: this is one more
//! implementation of its memory traits.

use std::collections::BTreeMap;
use std::sync::Mutex;

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{fence, AtomicU64};
use loom::sync::Arc;

use mp_proto::memory::{Inbound, OutOfBounds, Outbound};

/// Which fence a model leaves out.
#[derive(Clone, Copy, PartialEq)]
pub enum Missing {
    Nothing,
    Wmb,
    Mb,
}

struct Words {
    loomed: BTreeMap<usize, AtomicU64>,
    plain: Mutex<Vec<u64>>,
}

/// One side's memory.
#[derive(Clone)]
pub struct Memory {
    words: Arc<Words>,
    missing: Missing,
    /// What becomes of a word, by its place, before its reader sees it.
    pub seen: fn(usize, u64) -> u64,
}

impl Memory {
    /// `size` bytes, in which the words at these places are loom's.
    pub fn new(missing: Missing, size: usize, loomed: &[usize]) -> Memory {
        let loomed = loomed.iter().map(|at| (*at, AtomicU64::new(0)));
        let words = Words {
            loomed: loomed.collect(),
            plain: Mutex::new(vec![0; size / 8]),
        };
        Memory {
            words: Arc::new(words),
            missing,
            seen: |_, word| word,
        }
    }

    fn bytes(&self) -> usize {
        8 * self.words.plain.lock().expect("no panic").len()
    }
}

impl Inbound for Memory {
    fn size(&self) -> usize {
        self.bytes()
    }
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        let word = match self.words.loomed.get(&off) {
            Some(word) => word.load(Relaxed),
            None => {
                let plain = self.words.plain.lock().expect("no panic");
                *plain.get(off / 8).ok_or(OutOfBounds)?
            }
        };
        Ok((self.seen)(off, word))
    }
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        for (i, b) in buf.chunks_mut(8).enumerate() {
            b.copy_from_slice(&self.load_u64(off + 8 * i)?.to_le_bytes());
        }
        Ok(())
    }
    fn zero(&self, _: usize, _: usize) -> Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }
    fn rmb(&self) {
        fence(Acquire);
    }
}

impl Outbound for Memory {
    fn size(&self) -> usize {
        self.bytes()
    }
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        if let Some(word) = self.words.loomed.get(&off) {
            word.store(val, Relaxed);
            return Ok(());
        }
        let mut plain = self.words.plain.lock().expect("no panic");
        *plain.get_mut(off / 8).ok_or(OutOfBounds)? = val;
        Ok(())
    }
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        for (i, b) in buf.chunks(8).enumerate() {
            self.store_u64(
                off + 8 * i,
                u64::from_le_bytes(b.try_into().expect("words")),
            )?;
        }
        Ok(())
    }
    fn wmb(&self) {
        if self.missing != Missing::Wmb {
            fence(Release);
        }
    }
    fn release(&self) {
        fence(Release);
    }
    fn mb(&self) {
        if self.missing != Missing::Mb {
            fence(SeqCst);
        }
    }
}

/// Run a model in all ways that there are.
pub fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = None;
    builder.check(model);
}
