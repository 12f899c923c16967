// SPDX-License-Identifier: GPL-2.0-only

//! What a family of generic netlink is.

use super::{
    Attribute,
    Command,
    Group,
    Message,
    Request, //
};
use kernel::prelude::*;

/// What a family understands and says.
pub trait Protocol: Sized + Send + Sync + 'static {
    /// The name that programs find it by; at most 15 bytes.
    const NAME: &'static CStr;

    /// The version of its protocol.
    const VERSION: u8;

    /// The commands that it takes.
    const COMMANDS: &'static [Command<Self>];

    /// The attributes that requests may have, see [`numbers`](super::numbers).
    const ATTRIBUTES: &'static [Attribute];

    /// The multicast group of its events.
    const EVENTS: &'static [Group; 1];

    /// Answer a command. Process context, may sleep, but not until another host says something:
    /// nobody registers a family meanwhile, nor loads a module with one.
    ///
    /// # Errors
    ///
    /// The error is what the program gets in place of an answer. `EMSGSIZE` if
    /// the answer is too long.
    fn answer(command: u8, request: &Request<'_>, answer: &mut Message<'_>) -> Result;

    /// Take a command that is answered when there is an answer, by [`Family::answer`](super::Family::answer) or
    /// [`Asker::refuse`](super::Asker::refuse). Process context; as above.
    ///
    /// # Errors
    ///
    /// The error is what the program gets, at once.
    fn take(command: u8, request: &Request<'_>) -> Result;

    /// Write the first entry of a list from `position` on, which is zero at its
    /// start, and return the position behind it; `None` at the end of the list.
    /// Process context, may sleep for a bounded time.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the entry does not fit: it is asked for again if others stand
    /// before it in the message. Other errors end the list.
    fn list(command: u8, position: usize, entry: &mut Message<'_>) -> Result<Option<usize>>;
}
