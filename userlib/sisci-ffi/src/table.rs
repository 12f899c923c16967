// SPDX-License-Identifier: MIT OR Apache-2.0

//! Handles. A program has them as pointers, but they are numbers that no pointer has: a kind and
//! a serial number that is never given again. Whatever a program passes is looked up, and nothing
//! is ever followed (SI-ABI-7).

use sisci::{Error, Result};
use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicU64, Ordering},
        RwLock, RwLockReadGuard, RwLockWriteGuard,
    },
};

/// Most objects of a kind.
const OBJECTS_MAX: usize = 65_536;

/// The upper bits of every handle: not canonical on any processor, so no address.
const TAG: u64 = 0x5C1 << 52;
const KIND: u32 = 48;
const SERIAL: u64 = (1 << KIND) - 1;

/// Serial numbers of this process and its children, in which they go on.
static LAST: AtomicU64 = AtomicU64::new(0);

/// What a handle is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Desc = 1,
    LocalSegment,
    RemoteSegment,
    Map,
    Sequence,
    DmaQueue,
    LocalInterrupt,
    RemoteInterrupt,
    LocalDataInterrupt,
    RemoteDataInterrupt,
}

/// A handle as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(u64);

impl Handle {
    /// No handle.
    pub const NULL: Handle = Handle(0);

    /// The number that a program has passed.
    pub fn from_pointer<T>(pointer: *mut T) -> Self {
        Handle(pointer.addr() as u64)
    }

    /// What a program gets: nothing to follow.
    pub fn to_pointer<T>(self) -> *mut T {
        std::ptr::without_provenance_mut(self.0 as usize)
    }
}

/// The objects of a kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: Kind,
    /// Serial numbers up to this one are of a parent process.
    inherited: u64,
    objects: RwLock<HashMap<u64, T>>,
}

impl<T: Clone> Table<T> {
    pub fn new(kind: Kind) -> Self {
        Table {
            kind,
            inherited: LAST.load(Ordering::Relaxed),
            objects: RwLock::default(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<u64, T>> {
        self.objects.read().unwrap_or_else(|e| e.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<u64, T>> {
        self.objects.write().unwrap_or_else(|e| e.into_inner())
    }

    /// A handle for an object that is to be entered.
    ///
    /// # Errors
    /// [`Error::ApiNoSpace`].
    pub fn reserve(&self) -> Result<Handle> {
        if self.read().len() >= OBJECTS_MAX {
            return Err(Error::ApiNoSpace);
        }
        let serial = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(Handle(TAG | (self.kind as u64) << KIND | serial & SERIAL))
    }

    /// Makes a handle lead to an object.
    pub fn enter(&self, handle: Handle, object: T) {
        self.write().insert(handle.0, object);
    }

    /// The object of a handle.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`]: it is none, or no longer, or of another kind.
    /// [`Error::IllegalOperation`]: it is a parent process's (SI-GEN-24).
    pub fn get(&self, handle: Handle) -> Result<T> {
        if let Some(object) = self.read().get(&handle.0) {
            return Ok(object.clone());
        }
        let kind = TAG | (self.kind as u64) << KIND;
        let serial = handle.0 & SERIAL;
        match handle.0 & !SERIAL == kind && (1..=self.inherited).contains(&serial) {
            true => Err(Error::IllegalOperation),
            false => Err(Error::IllegalParameter),
        }
    }

    /// Makes a handle lead nowhere: what a function does that destroys the object.
    pub fn forget(&self, handle: Handle) {
        self.write().remove(&handle.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SI-ABI-7, SI-GEN-10: handles are of one kind, for one object, and never used again.
    #[test]
    fn only_what_was_given_is_a_handle() {
        let table = Table::new(Kind::Map);
        let other: Table<u8> = Table::new(Kind::Sequence);
        let handle = table.reserve().unwrap();
        assert_eq!(table.get(handle), Err(Error::IllegalParameter));
        table.enter(handle, 7);
        assert_eq!(table.get(handle), Ok(7));
        assert_eq!(other.get(handle), Err(Error::IllegalParameter));
        let pointer: *mut u8 = handle.to_pointer();
        assert!(!pointer.is_null());
        assert_eq!(Handle::from_pointer(pointer), handle);
        table.forget(handle);
        assert_eq!(table.get(handle), Err(Error::IllegalParameter));
        assert_ne!(table.reserve().unwrap(), handle);
        let foreign = Handle::from_pointer((&raw const table).cast_mut());
        assert_eq!(table.get(foreign), Err(Error::IllegalParameter));
        let null: *mut u8 = std::ptr::null_mut();
        assert_eq!(
            table.get(Handle::from_pointer(null)),
            Err(Error::IllegalParameter)
        );
    }

    /// SI-GEN-24: what was made before belongs to the parent.
    #[test]
    fn a_childs_table_knows_the_parents_handles() {
        let parent = Table::new(Kind::Map);
        let handle = parent.reserve().unwrap();
        parent.enter(handle, ());
        let child: Table<()> = Table::new(Kind::Map);
        assert_eq!(child.get(handle), Err(Error::IllegalOperation));
        let other: Table<()> = Table::new(Kind::Sequence);
        assert_eq!(other.get(handle), Err(Error::IllegalParameter));
    }

    /// SI-GEN-5
    #[test]
    fn a_full_table_is_told() {
        let table = Table::new(Kind::Map);
        for _ in 0..OBJECTS_MAX {
            table.enter(table.reserve().unwrap(), ());
        }
        assert_eq!(table.reserve(), Err(Error::ApiNoSpace));
    }
}
