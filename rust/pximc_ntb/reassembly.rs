// SPDX-License-Identifier: GPL-2.0-only

//! Putting frames together that were too long for one record of a small ring.
//!
//! Records arrive where nothing may wait for memory. Services that rely on each frame would have to
//! start over if one was missing; so there is memory for a frame of those that they send.

use crate::{
    channel::{
        HDR_MAX,
        MAX_FRAME, //
    },
    memory::LocalMemory, //
};
use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*, //
};
use mp_kernel::bytes::Writer;
use mp_proto::{
    receiving::{
        self,
        AddError, //
    },
    ring::{
        record_cap,
        Record,
        Step, //
    },
    wire::BlockHdr, //
};
use mp_transport::frame::RxData;

/// Data bytes of the longest frame that services rely on: a piece of a segment.
const RELIED_ON: usize = (1 << 14) + 64;

/// Memory of a frame.
enum Data {
    New(KVec<u8>),
    /// That which was put by: in pages that need not be next to each other.
    Spare(KVVec<u8>),
}

impl Data {
    /// So many bytes: new, or in `spare`.
    fn new(total: usize, spare: &mut KVVec<u8>) -> Result<Self> {
        match KVec::from_elem(0, total, GFP_ATOMIC | __GFP_NOWARN) {
            Ok(new) => Ok(Data::New(new)),
            Err(_) if total <= spare.capacity() => {
                let mut spare = core::mem::take(spare);
                spare.clear();
                // There is room for it.
                spare.resize(total, 0, GFP_ATOMIC)?;
                Ok(Data::Spare(spare))
            }
            Err(e) => Err(e.into()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Data::New(bytes) => bytes,
            Data::Spare(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Data::New(bytes) => bytes,
            Data::Spare(bytes) => bytes,
        }
    }
}

/// A frame, in private memory.
pub(crate) struct Whole {
    headers: [u8; HDR_MAX],
    hdr_len: usize,
    data: Data,
}

impl Whole {
    /// Message and function header.
    pub(crate) fn headers(&self) -> &[u8] {
        self.headers.get(..self.hdr_len).unwrap_or_default()
    }

    /// Room for a frame that begins with `record`: new, or in `spare`.
    fn begin(
        inb: &LocalMemory,
        record: &Record,
        total: u32,
        spare: &mut KVVec<u8>,
    ) -> Result<Self, AddError> {
        let (total, hdr_len) = (total as usize, record.hdr.hdr_len as usize);
        if total > MAX_FRAME {
            return Err(AddError::NoMemory);
        }
        let mut headers = [0; HDR_MAX];
        let room = headers.get_mut(..hdr_len).ok_or(AddError::NoMemory)?;
        let read = record.parts.read(inb, 0, room);
        read.map_err(|_| AddError::Outside)?;
        Ok(Self {
            headers,
            hdr_len,
            data: Data::new(total, spare).map_err(|_| AddError::NoMemory)?,
        })
    }
}

impl RxData for Whole {
    fn len(&self) -> usize {
        self.data.bytes().len()
    }

    fn copy_to(&self, offset: usize, mut dst: Writer<'_>) -> Result {
        let end = offset.checked_add(dst.remaining()).ok_or(EINVAL)?;
        let bytes = self.data.bytes();
        dst.write(bytes.get(offset..end).ok_or(EINVAL)?.into())
    }
}

/// The parts of a ring's frame.
pub(crate) struct Assembly {
    /// `None` between frames, and while a frame for which there was no memory
    /// goes by.
    open: Option<Whole>,
    /// Memory for one frame, while none has it.
    spare: KVVec<u8>,
}

impl Assembly {
    /// That of a ring of so many bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(ring: u32) -> Result<Self> {
        let spare = match record_cap(ring) as usize {
            // All of these are in one record each.
            cap if cap >= RELIED_ON + BlockHdr::SIZE + HDR_MAX => 0,
            _ => RELIED_ON,
        };
        Ok(Self {
            open: None,
            spare: KVVec::with_capacity(spare, GFP_KERNEL)?,
        })
    }
}

impl receiving::Assembly<LocalMemory> for Assembly {
    type Whole = Whole;

    fn add(
        &mut self,
        inb: &LocalMemory,
        record: &Record,
        step: Step,
    ) -> Result<Option<Whole>, AddError> {
        if step.first {
            if let Some(before) = self.open.take() {
                self.give_back(before);
            }
            let whole = Whole::begin(inb, record, step.total, &mut self.spare)?;
            self.open = Some(whole);
        }
        let Some(whole) = &mut self.open else {
            return Ok(None);
        };
        let from = step.data_off as usize;
        let to = from + record.data_len as usize;
        let room = whole.data.bytes_mut().get_mut(from..to);
        let at = record.hdr.hdr_len as usize;
        let read = record.parts.read(inb, at, room.ok_or(AddError::Outside)?);
        read.map_err(|_| AddError::Outside)?;
        Ok(step.last.then(|| self.open.take()).flatten())
    }

    fn give_back(&mut self, whole: Whole) {
        if let Data::Spare(spare) = whole.data {
            self.spare = spare;
        }
    }
}
