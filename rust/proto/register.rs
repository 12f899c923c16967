// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The latest value of something, in memory of its one reader, which its one writer writes without
//! ever waiting.
//!
//! A register is a row of [`CELLS`] cells of one size. Value number n, from 1 on, goes into cell
//! n mod [`CELLS`]:
//!
//! | offset | size | what, little-endian |
//! |---|---|---|
//! | 0 | 8 | `begun`: the number of the value that is being written into the cell, or was |
//! | 8 | 8 | `done`: the number of the last value that is whole |
//! | 16 | 8 | its length in bytes (31..0), what it is for the layer above (39..32); others zero |
//! | 64 | | its bytes |
//!
//! The writer stores `begun`, then length and bytes, then `done`, each behind a fence. The reader
//! looks for the newest `done`, copies, and looks whether `begun` is still the same: what it has copied
//! then is one value. A value is overwritten [`CELLS`] values later, so a reader that is not much
//! slower than the writer copies once.
//!
//! Nobody tells the reader that there is a new value; that is for the layer above.

use crate::memory::{Inbound, OutOfBounds, Outbound, Part};

/// Values that there is room for: the current one, and those that are written while it is copied.
pub const CELLS: u64 = 4;
/// Bytes of a cell ahead of the value.
const HEAD: usize = 64;
/// Where its words are.
const BEGUN: usize = 0;
const DONE: usize = 8;
const WHAT: usize = 16;
/// How often a reader copies what is overwritten meanwhile before it gives up for now.
const TRIES: usize = 16;

/// The writer did what cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl From<OutOfBounds> for Broken {
    #[inline]
    fn from(_: OutOfBounds) -> Broken {
        Broken
    }
}

/// Where the cells of a register are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cells {
    /// Of the first one, in bytes.
    off: usize,
    /// Of each, in bytes: a multiple of 64.
    size: usize,
}

/// Bytes of a register for values of at most `most` bytes.
pub fn size(most: u32) -> u64 {
    CELLS * cell_size(most)
}

fn cell_size(most: u32) -> u64 {
    HEAD as u64 + u64::from(most).next_multiple_of(64)
}

impl Cells {
    /// # Errors
    /// [`OutOfBounds`]: the part is too small, or not at a multiple of 64.
    fn new(part: Part, most: u32) -> Result<Cells, OutOfBounds> {
        let fits = part.off % 64 == 0 && part.len as u64 >= size(most);
        let size = usize::try_from(cell_size(most)).map_err(|_| OutOfBounds)?;
        match fits {
            true => Ok(Cells {
                off: part.off,
                size,
            }),
            false => Err(OutOfBounds),
        }
    }

    /// Where the cell of a value is.
    fn of(&self, number: u64) -> usize {
        self.off + (number % CELLS) as usize * self.size
    }

    /// Most bytes of a value.
    fn most(&self) -> usize {
        self.size - HEAD
    }

    fn value(&self, number: u64, len: usize) -> Part {
        Part {
            off: self.of(number) + HEAD,
            len,
        }
    }
}

/// The writer's side.
#[derive(Debug)]
pub struct Writer {
    cells: Cells,
    written: u64,
}

impl Writer {
    /// The register in a part of the reader's memory, which is zero.
    ///
    /// # Errors
    /// [`OutOfBounds`]: it does not fit.
    pub fn new(part: Part, most: u32) -> Result<Writer, OutOfBounds> {
        Ok(Writer {
            cells: Cells::new(part, most)?,
            written: 0,
        })
    }

    /// Most bytes of a value.
    pub fn most(&self) -> usize {
        self.cells.most()
    }

    /// Write the next value, of so many bytes; `fill` writes them. They are on their way when all that
    /// was stored is.
    ///
    /// # Errors
    /// [`OutOfBounds`]: it is too long, or `fill` fails. The value before is the latest one.
    pub fn write(
        &mut self,
        out: &(impl Outbound + ?Sized),
        kind: u8,
        len: usize,
        fill: impl FnOnce(Part) -> Result<(), OutOfBounds>,
    ) -> Result<(), OutOfBounds> {
        if len > self.cells.most() {
            return Err(OutOfBounds);
        }
        let number = self.written + 1;
        let cell = self.cells.of(number);
        out.store_u64(cell + BEGUN, number)?;
        out.wmb();
        out.store_u64(cell + WHAT, len as u64 | u64::from(kind) << 32)?;
        fill(self.cells.value(number, len))?;
        out.wmb();
        out.store_u64(cell + DONE, number)?;
        self.written = number;
        Ok(())
    }
}

/// A value in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    /// Its number.
    pub number: u64,
    /// What it is for the layer above.
    pub kind: u8,
    /// Its bytes.
    pub part: Part,
}

/// The reader's side.
#[derive(Debug)]
pub struct Reader {
    cells: Cells,
    /// The number of the value that was read last.
    read: u64,
}

impl Reader {
    /// The register in a part of the own memory, which is zero.
    ///
    /// # Errors
    /// [`OutOfBounds`]: it does not fit.
    pub fn new(part: Part, most: u32) -> Result<Reader, OutOfBounds> {
        Ok(Reader {
            cells: Cells::new(part, most)?,
            read: 0,
        })
    }

    /// The number of the latest value; zero while there is none.
    fn latest(&self, inb: &(impl Inbound + ?Sized)) -> Result<u64, Broken> {
        let mut latest = 0;
        for cell in 0..CELLS {
            let number = inb.load_u64(self.cells.of(cell) + DONE)?;
            if number != 0 && number % CELLS != cell {
                return Err(Broken);
            }
            latest = latest.max(number);
        }
        match latest >= self.read {
            true => Ok(latest),
            false => Err(Broken),
        }
    }

    /// Whether there is a value that was not read.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn has_news(&self, inb: &(impl Inbound + ?Sized)) -> Result<bool, Broken> {
        Ok(self.latest(inb)? > self.read)
    }

    /// Copy the latest value by `copy`, which may be called several times: what it has copied last is
    /// the value. Nothing if there is none, or if all that was copied was overwritten meanwhile;
    /// then there is still one that was not read.
    ///
    /// # Errors
    /// [`Broken`], also if `copy` fails.
    pub fn read(
        &mut self,
        inb: &(impl Inbound + ?Sized),
        mut copy: impl FnMut(&Value) -> Result<(), OutOfBounds>,
    ) -> Result<Option<Value>, Broken> {
        for _ in 0..TRIES {
            let number = self.latest(inb)?;
            if number == 0 {
                return Ok(None);
            }
            inb.rmb();
            let value = self.value(inb, number)?;
            copy(&value)?;
            inb.rmb();
            if inb.load_u64(self.cells.of(number) + BEGUN)? == number {
                self.read = number;
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// What a cell says of its value.
    fn value(&self, inb: &(impl Inbound + ?Sized), number: u64) -> Result<Value, Broken> {
        let what = inb.load_u64(self.cells.of(number) + WHAT)?;
        let len = what as u32 as usize;
        let kind = u8::try_from(what >> 32).map_err(|_| Broken)?;
        match len <= self.cells.most() {
            true => Ok(Value {
                number,
                kind,
                part: self.cells.value(number, len),
            }),
            false => Err(Broken),
        }
    }

    /// Forget that the latest value was read.
    pub fn put_back(&mut self) {
        self.read = self.read.saturating_sub(1);
    }
}
