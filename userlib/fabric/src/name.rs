// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names of what is offered, and what it is found by.

use crate::sys;
use std::fmt;

/// Most bytes of a name.
pub const NAME_MAX: usize = sys::MP_NAME_MAX as usize;

/// The name of a segment, event or port: any bytes, one at least and [`NAME_MAX`] at most. Two are
/// equal if they are in length and in all bytes. See `MP_FEATURE_NAMES`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    len: u8,
}

impl Name {
    /// The name of those bytes; `None` if there are none, or too many.
    pub fn new(name: &[u8]) -> Option<Name> {
        let mut bytes = [0; NAME_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        (!name.is_empty()).then_some(Name {
            bytes,
            len: name.len() as u8,
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes().escape_ascii())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a segment, event or port is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The id of a segment, the number of an event or port.
    Number(u32),
    /// Its name.
    Name(Name),
}

impl Key {
    /// The number, and the bytes of the name: what is not meant is 0, or empty.
    pub(crate) fn parts(&self) -> (u32, &[u8]) {
        match self {
            Key::Number(number) => (*number, &[]),
            Key::Name(name) => (0, name.bytes()),
        }
    }
}

impl From<u32> for Key {
    fn from(number: u32) -> Self {
        Key::Number(number)
    }
}

impl From<Name> for Key {
    fn from(name: Name) -> Self {
        Key::Name(name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Number(number) => number.fmt(f),
            Key::Name(name) => name.fmt(f),
        }
    }
}
