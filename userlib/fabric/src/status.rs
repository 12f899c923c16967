// SPDX-License-Identifier: MIT OR Apache-2.0

//! The status words of a context: states that are read without a call.

use crate::{
    sys::mp_info, Call, ConnectionState, Device, EventMask, Fabric, Map, QueueState, ReadOnly,
    Result,
};

/// The mapped words.
#[derive(Debug)]
pub struct Status(Map<ReadOnly>);

/// A word at some moment. Two that are equal tell that a connection has not ceased to be
/// operational between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusWord(pub u64);

impl StatusWord {
    /// The state of a connection.
    pub fn connection(self) -> ConnectionState {
        ConnectionState::from_bits_retain(self.state())
    }

    /// The state of a queue.
    pub fn queue(self) -> QueueState {
        QueueState::from_number(self.state())
    }

    /// The events of a session that no wait takes.
    pub fn session(self) -> EventMask {
        EventMask::from_bits_retain(self.state())
    }

    fn state(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }

    /// How often the connection has ceased to be operational, or the queue was started.
    pub fn count(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl<D: Device> Fabric<D> {
    /// Map the status words of the context; nothing if the kernel has none.
    ///
    /// # Errors
    /// Those of `mmap()`.
    pub fn status(&self) -> Result<Option<Status>> {
        let mut info = mp_info::default();
        self.device.call(Call::Info(&mut info))?;
        if info.status_length == 0 {
            return Ok(None);
        }
        let (offset, len) = (info.status_offset, info.status_length);
        Ok(Some(Status(self.device.map(offset, len, 0)?)))
    }
}

impl Status {
    /// The word at so many bytes; nothing beyond the end, or where none begins.
    pub fn word(&self, at: u32) -> Option<StatusWord> {
        self.0.load(at as usize).map(StatusWord)
    }
}
