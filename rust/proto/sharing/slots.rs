// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Tables of connections, in which free places may be anywhere.

use core::ops::DerefMut;

/// Storage of the caller for entries: a vector or a slice, as long as there may be entries.
pub trait Table<T>: DerefMut<Target = [Option<T>]> {}

impl<T, S: DerefMut<Target = [Option<T>]>> Table<T> for S {}

/// An entry by the number of its connection.
pub(super) trait Numbered {
    fn number(&self) -> u32;
}

pub(super) fn find<T: Numbered>(table: &[Option<T>], number: u32) -> Option<&T> {
    table.iter().flatten().find(|e| e.number() == number)
}

pub(super) fn find_mut<T: Numbered>(table: &mut [Option<T>], number: u32) -> Option<&mut T> {
    table.iter_mut().flatten().find(|e| e.number() == number)
}

/// Enter an object; `None` if the table is full.
pub(super) fn insert<T>(table: &mut [Option<T>], entry: T) -> Option<()> {
    let place = table.iter_mut().find(|place| place.is_none())?;
    *place = Some(entry);
    Some(())
}

pub(super) fn remove<T: Numbered>(table: &mut [Option<T>], number: u32) {
    let is_it = |place: &&mut Option<T>| place.as_ref().is_some_and(|e| e.number() == number);
    if let Some(place) = table.iter_mut().find(is_it) {
        *place = None;
    }
}
