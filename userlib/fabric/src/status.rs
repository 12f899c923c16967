// SPDX-License-Identifier: GPL-2.0

//! The status words of a context: states that are read without a call.

use crate::{sys::mp_info, Call, ConnectionState, Device, Fabric, Map, MapOptions, Result};
use std::sync::atomic::Ordering;
use vm_memory::Bytes;

/// The mapped words.
#[derive(Debug)]
pub struct Status(Map);

/// A word at some moment. Two that are equal tell that a connection has not ceased to be
/// operational between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusWord(pub u64);

impl StatusWord {
    /// The state of a connection.
    pub fn connection(self) -> ConnectionState {
        ConnectionState::from_bits_retain((self.0 & 0xffff_ffff) as u32)
    }

    /// How often the connection has ceased to be operational.
    pub fn count(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl<D: Device> Fabric<D> {
    /// Maps the status words of the context; nothing if the kernel has none.
    ///
    /// # Errors
    /// Those of `mmap()`.
    pub fn status(&self) -> Result<Option<Status>> {
        let mut info = mp_info::default();
        self.device.call(Call::Info(&mut info))?;
        if info.status_length == 0 {
            return Ok(None);
        }
        let options = MapOptions {
            read_only: true,
            ..MapOptions::default()
        };
        let (offset, len) = (info.status_offset, info.status_length);
        Ok(Some(Status(self.device.map_with(offset, len, options)?)))
    }
}

impl Status {
    /// The word at so many bytes; nothing beyond the end.
    pub fn word(&self, at: u32) -> Option<StatusWord> {
        let word = self.0.volatile().load(at as usize, Ordering::Acquire);
        word.ok().map(StatusWord)
    }
}
