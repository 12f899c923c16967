// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The two views of shared memory, and the parts of a ring's bytes.
//!
//! [`Inbound`] is local memory that the peer writes and this host reads. [`Outbound`] is the
//! peer's memory behind the bridge: it can only be written, because nothing on a data path may
//! read across the bridge (design 2, never 6). Implementations check every access against their
//! own length and return [`OutOfBounds`]; offsets are bytes from the start of the memory.
//!
//! Nobody ever gets a slice of shared memory: the other side may change it at any time.

/// An access that does not lie inside the memory; nothing was read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfBounds;

/// Local memory that the peer writes: its content is untrusted and changes under the reader.
pub trait Inbound {
    /// Length in bytes.
    fn size(&self) -> usize;

    /// Load the aligned word at `off`, in one piece and without any ordering.
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds>;

    /// Load the aligned line of 64 bytes at `off`: each word in one piece, in any order.
    #[inline]
    fn load_line(&self, off: usize) -> Result<[u64; 8], OutOfBounds> {
        let mut line = [0; 8];
        let mut at = off;
        for word in &mut line {
            *word = self.load_u64(at)?;
            at = at.checked_add(8).ok_or(OutOfBounds)?;
        }
        Ok(line)
    }

    /// Copy `buf.len()` bytes from `off`. Bytes written meanwhile may be seen old or new.
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds>;

    /// Store zero to every byte of `off..off + len`; used to forget an old epoch.
    fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds>;

    /// Order the loads before it (an index) before the loads after it (what it published).
    fn rmb(&self);
}

/// The peer's memory as this host writes it.
pub trait Outbound {
    /// Length in bytes.
    fn size(&self) -> usize;

    /// Store the aligned word at `off`, in one piece and without any ordering.
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds>;

    /// Copy `buf` to `off`, in any order and any pieces.
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds>;

    /// Store the aligned line of 64 bytes at `off`: each word in one piece, in any order. On an
    /// error, some words may have been stored.
    #[inline]
    fn store_line(&self, off: usize, line: &[u64; 8]) -> Result<(), OutOfBounds> {
        let mut at = off;
        for word in line {
            self.store_u64(at, *word)?;
            at = at.checked_add(8).ok_or(OutOfBounds)?;
        }
        Ok(())
    }

    /// Push all writes before it out (a write-combining flush) ahead of the writes after it:
    /// payload before index, index before doorbell.
    fn wmb(&self);

    /// Order all loads and stores before it ahead of the stores after it: a ring's bytes are
    /// read before the consumer gives them back.
    fn release(&self);

    /// Order the stores before it ahead of the loads after it (and everything else): an index
    /// is stored before the peer's event index is read, and the other way round.
    fn mb(&self);
}

impl<M: Inbound + ?Sized> Inbound for &M {
    #[inline]
    fn size(&self) -> usize {
        (**self).size()
    }
    #[inline]
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        (**self).load_u64(off)
    }
    #[inline]
    fn load_line(&self, off: usize) -> Result<[u64; 8], OutOfBounds> {
        (**self).load_line(off)
    }
    #[inline]
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        (**self).read(off, buf)
    }
    #[inline]
    fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds> {
        (**self).zero(off, len)
    }
    #[inline]
    fn rmb(&self) {
        (**self).rmb();
    }
}

impl<M: Outbound + ?Sized> Outbound for &M {
    #[inline]
    fn size(&self) -> usize {
        (**self).size()
    }
    #[inline]
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        (**self).store_u64(off, val)
    }
    #[inline]
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        (**self).write(off, buf)
    }
    #[inline]
    fn store_line(&self, off: usize, line: &[u64; 8]) -> Result<(), OutOfBounds> {
        (**self).store_line(off, line)
    }
    #[inline]
    fn wmb(&self) {
        (**self).wmb();
    }
    #[inline]
    fn release(&self) {
        (**self).release();
    }
    #[inline]
    fn mb(&self) {
        (**self).mb();
    }
}

/// A contiguous run of bytes of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// Byte offset from the start of the memory.
    pub off: usize,
    /// Length in bytes.
    pub len: usize,
}

/// Bytes of a ring: at most two runs, so that wrap-around is a type and not a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// The bytes up to the end of the ring.
    pub first: Part,
    /// The bytes that wrapped to its start; length zero when nothing wrapped.
    pub second: Part,
}

impl Parts {
    /// Total length in bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.first.len + self.second.len
    }

    /// Cut after `at` bytes; a cut behind the end leaves the second half empty.
    #[inline]
    pub fn split_at(&self, at: usize) -> (Parts, Parts) {
        let (a1, b1) = self.first.split_at(at);
        let (a2, b2) = self.second.split_at(at.saturating_sub(self.first.len));
        let head = Parts {
            first: a1,
            second: a2,
        };
        let tail = if b1.len == 0 {
            Parts {
                first: b2,
                second: Part::default(),
            }
        } else {
            Parts {
                first: b1,
                second: b2,
            }
        };
        (head, tail)
    }

    /// Copy the bytes from `at` on into `buf`.
    ///
    /// # Errors
    /// [`OutOfBounds`] when `at + buf.len()` exceeds [`Self::len`].
    #[inline]
    pub fn read(
        &self,
        mem: &(impl Inbound + ?Sized),
        at: usize,
        buf: &mut [u8],
    ) -> Result<(), OutOfBounds> {
        let part = self.window(at, buf.len())?;
        let (a, b) = buf
            .split_at_mut_checked(part.first.len)
            .ok_or(OutOfBounds)?;
        if !a.is_empty() {
            mem.read(part.first.off, a)?;
        }
        if !b.is_empty() {
            mem.read(part.second.off, b)?;
        }
        Ok(())
    }

    /// Copy `buf` to the bytes from `at` on.
    ///
    /// # Errors
    /// [`OutOfBounds`] when `at + buf.len()` exceeds [`Self::len`].
    #[inline]
    pub fn write(
        &self,
        mem: &(impl Outbound + ?Sized),
        at: usize,
        buf: &[u8],
    ) -> Result<(), OutOfBounds> {
        let part = self.window(at, buf.len())?;
        let (a, b) = buf.split_at_checked(part.first.len).ok_or(OutOfBounds)?;
        if !a.is_empty() {
            mem.write(part.first.off, a)?;
        }
        if !b.is_empty() {
            mem.write(part.second.off, b)?;
        }
        Ok(())
    }

    /// The runs that hold `len` bytes from `at` on.
    ///
    /// # Errors
    /// [`OutOfBounds`] when `at + len` exceeds [`Self::len`].
    #[inline]
    pub fn window(&self, at: usize, len: usize) -> Result<Parts, OutOfBounds> {
        let (_, tail) = self.split_at(at);
        let (part, _) = tail.split_at(len);
        if at > self.len() || part.len() != len {
            return Err(OutOfBounds);
        }
        Ok(part)
    }
}

impl Part {
    #[inline]
    fn split_at(&self, at: usize) -> (Part, Part) {
        let at = if at < self.len { at } else { self.len };
        let head = Part {
            off: self.off,
            len: at,
        };
        let tail = Part {
            off: self.off + at,
            len: self.len - at,
        };
        (head, tail)
    }
}
