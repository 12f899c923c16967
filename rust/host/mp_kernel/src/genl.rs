// SPDX-License-Identifier: GPL-2.0-only

//! Generic netlink without sockets: a family can be registered, and events are put together for
//! nobody. No command ever comes.

mod protocol;

pub use protocol::Protocol;

use crate::notifier::Event;
use core::{
    convert::Infallible,
    marker::PhantomData, //
};
use kernel::prelude::*;
use mp_bindings::notifier_block;

/// A command.
pub struct Command<P>(PhantomData<fn(P)>);

impl<P: Protocol> Command<P> {
    /// One that is answered at once.
    pub const fn answered(_number: u8) -> Self {
        Self(PhantomData)
    }

    /// One that is answered later.
    pub const fn answered_later(_number: u8) -> Self {
        Self(PhantomData)
    }

    /// The same for administrators.
    pub const fn privileged(self) -> Self {
        self
    }

    /// The same with a list as well.
    pub const fn listed(self) -> Self {
        self
    }
}

/// What an attribute of a request has to be.
#[derive(Clone, Copy)]
pub struct Attribute(());

/// Attributes that are numbers.
pub const fn numbers<const N: usize>(_which: &[u32]) -> [Attribute; N] {
    [Attribute(()); N]
}

/// A group of listeners.
pub struct Group(());

impl Group {
    /// A group of that name.
    pub const fn new(_name: &CStr) -> Self {
        Self(())
    }
}

/// A family.
pub struct Family<P>(PhantomData<fn(P)>);

impl<P: Protocol> Family<P> {
    /// One that is not registered.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// Register it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn register(&'static self, _module: &'static ThisModule) -> Result<Registration<P>> {
        machine::might_sleep();
        Ok(Registration {
            _memory: KBox::new([0; 8], GFP_KERNEL)?,
            _protocol: PhantomData,
        })
    }

    /// Tell listeners of an event.
    pub fn notify(&self, _event: u8, write: impl FnOnce(&mut Message<'_>) -> Result) {
        machine::might_sleep();
        let mut message = Message(PhantomData);
        // Nobody listens.
        let _ = write(&mut message);
    }

    /// Answer a command that was taken.
    ///
    /// # Errors
    ///
    /// None: no command ever was.
    pub fn answer(
        &self,
        asker: &Asker,
        _command: u8,
        _write: impl FnOnce(&mut Message<'_>) -> Result,
    ) -> Result {
        match asker.0 {}
    }
}

/// Keeps a family registered.
pub struct Registration<P: Protocol> {
    /// What the family takes.
    _memory: KBox<[u64; 8]>,
    _protocol: PhantomData<fn(P)>,
}

impl<P: Protocol> Drop for Registration<P> {
    fn drop(&mut self) {
        machine::might_sleep();
    }
}

/// A command as it was sent; there is none.
pub struct Request<'a>(Infallible, PhantomData<&'a ()>);

impl Request<'_> {
    /// The number in an attribute.
    pub fn number(&self, _attribute: u32) -> Option<u32> {
        match self.0 {}
    }

    /// The number in an attribute that it has to have.
    ///
    /// # Errors
    ///
    /// None.
    pub fn required(&self, _attribute: u32) -> Result<u32> {
        match self.0 {}
    }

    /// The sender.
    pub fn asker(&self) -> Asker {
        match self.0 {}
    }

    /// The error, with an explanation.
    pub fn refuse(&self, _error: Error, _why: &'static CStr) -> Error {
        match self.0 {}
    }
}

/// The sender of a command; there is none.
#[derive(Clone, Copy)]
pub struct Asker(Infallible);

impl Asker {
    /// The number of its socket.
    pub fn socket(&self) -> u32 {
        match self.0 {}
    }

    /// Send an error in place of an answer.
    ///
    /// # Errors
    ///
    /// None.
    pub fn refuse(&self, _error: Error, _why: Option<&CStr>) -> Result {
        match self.0 {}
    }
}

/// A socket is closed, which never happens.
pub struct SocketGone;

// SAFETY: No block is ever called.
unsafe impl Event for SocketGone {
    type About = u32;

    unsafe fn about(_action: c_ulong, _data: *mut c_void) -> Option<u32> {
        None
    }

    unsafe fn register(_block: *mut notifier_block) -> c_int {
        0
    }

    unsafe fn unregister(_block: *mut notifier_block) {}
}

/// A message that is being written, and thrown away.
pub struct Message<'a>(PhantomData<&'a mut ()>);

impl Message<'_> {
    /// Add a number.
    ///
    /// # Errors
    ///
    /// None; so below.
    pub fn number(&mut self, _attribute: u32, _value: u64) -> Result {
        Ok(())
    }

    /// Add a text.
    ///
    /// # Errors
    ///
    /// None.
    pub fn text(&mut self, _attribute: u32, _text: &CStr) -> Result {
        Ok(())
    }

    /// Add a group of attributes.
    ///
    /// # Errors
    ///
    /// That of `write`.
    pub fn nest(&mut self, _attribute: u32, write: impl FnOnce(&mut Self) -> Result) -> Result {
        write(self)
    }
}
