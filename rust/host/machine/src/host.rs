// SPDX-License-Identifier: GPL-2.0-only

//! One machine of a run, and what belongs to it alone.

use crate::{
    context::current,
    statics::Image,
    world::world, //
};
use std::{
    any::{
        Any,
        TypeId, //
    },
    cell::RefCell,
    collections::HashMap,
    rc::Rc, //
};

/// A machine with a kernel of its own.
pub struct Host {
    number: usize,
    image: Image,
    /// What stand-ins keep for it, one of each type.
    own: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
}

impl Host {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            image: Image::new(),
            own: RefCell::default(),
        }
    }

    /// One more host of this run.
    pub fn add() -> Rc<Self> {
        world().add_host()
    }

    /// Its number: the first one of a run is 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its statics.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// What it has of this type, made when it is asked for first.
    pub fn own<T: Default + 'static>(&self) -> Rc<T> {
        let mut own = self.own.borrow_mut();
        let any = own
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Rc::new(T::default()));
        let any = any.clone().downcast();
        any.expect("kept under its own type")
    }

    /// The queue of contexts that wait for the end of sections; see
    /// [`await_sections`](crate::context::await_sections).
    pub(crate) fn grace_queue(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Drop for Host {
    /// What it owns is not dropped, as nothing of a machine that loses power is: the functions of
    /// modules that are still loaded could only run on it.
    fn drop(&mut self) {
        std::mem::forget(self.own.take());
    }
}

/// The host that the caller runs on.
///
/// # Panics
///
/// If the caller is in no context of a host.
pub fn host() -> Rc<Host> {
    current(&world()).host.clone()
}
