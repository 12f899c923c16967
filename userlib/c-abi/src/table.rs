// SPDX-License-Identifier: MIT OR Apache-2.0

//! Objects by the numbers and handles that a program has for them. Whatever a program passes is
//! looked up, and nothing is ever followed.

#[cfg(target_pointer_width = "64")]
pub use handles::{Full, Handle, NoObject, Table};
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// Objects by numbers that somebody else hands out.
#[derive(Debug)]
pub struct Objects<K, T>(RwLock<HashMap<K, T>>);

impl<K, T> Default for Objects<K, T> {
    fn default() -> Self {
        Objects(RwLock::default())
    }
}

impl<K: Eq + Hash, T: Clone> Objects<K, T> {
    // Each change is complete when others see it, also after a panic.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<K, T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<K, T>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enter an object; the one that had the number before.
    pub fn insert(&self, number: K, object: T) -> Option<T> {
        self.write().insert(number, object)
    }

    /// The object of a number.
    pub fn get(&self, number: &K) -> Option<T> {
        self.read().get(number).cloned()
    }

    /// Take out an object, which no later call finds.
    pub fn remove(&self, number: &K) -> Option<T> {
        self.write().remove(number)
    }

    /// Take out all objects.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.write()).into_values().collect()
    }
}

/// Handles have the bits of a pointer.
#[cfg(target_pointer_width = "64")]
mod handles {
    use super::Objects;
    use crate::{export::Abi, memory::Out};
    use std::{
        ffi::c_void,
        ptr,
        sync::atomic::{AtomicU64, Ordering},
    };

    /// Most objects of a kind.
    const OBJECTS_MAX: usize = 65_536;

    /// Where the kind begins, above the serial number.
    const KIND: u32 = 48;
    const SERIAL: u64 = (1 << KIND) - 1;

    /// Serial numbers of this process and its children, in which they go on.
    static LAST: AtomicU64 = AtomicU64::new(0);

    /// A handle: a kind and a serial number that is never given again, in the guise of a pointer.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Handle(*mut c_void);

    // SAFETY: It is a number, which nobody follows.
    unsafe impl Send for Handle {}
    // SAFETY: As above.
    unsafe impl Sync for Handle {}

    impl Handle {
        /// No handle.
        pub const NULL: Handle = Handle(ptr::null_mut());

        /// The number that a program has passed.
        pub fn from_pointer<T>(pointer: *mut T) -> Self {
            Handle(pointer.cast())
        }

        /// Whether it is no handle.
        pub fn is_null(self) -> bool {
            self.0.is_null()
        }

        fn new(number: u64) -> Self {
            Handle(ptr::without_provenance_mut(number as usize))
        }

        fn number(self) -> u64 {
            self.0.addr() as u64
        }
    }

    // SAFETY: A pointer, and transparent.
    unsafe impl<T> Abi<*mut T> for Handle {
        fn to_c(self) -> *mut T {
            self.0.cast()
        }
    }

    // SAFETY: A pointer to where a pointer goes, and both are transparent.
    unsafe impl<T> Abi<*mut *mut T> for Out<Handle> {
        fn to_c(self) -> *mut *mut T {
            Abi::<*mut Handle>::to_c(self).cast()
        }
    }

    /// Why a handle leads to no object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NoObject {
        /// It is none, or no longer, or of another kind.
        Unknown,
        /// It is a parent process's.
        Inherited,
    }

    /// There are as many objects of the kind as there can be, or as there is memory for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Full;

    /// The objects of a kind, by their handles.
    #[derive(Debug)]
    pub struct Table<T> {
        /// The upper bits of every handle.
        kind: u64,
        /// Serial numbers up to this one are of a parent process.
        inherited: u64,
        objects: Objects<u64, T>,
    }

    impl<T: Clone> Table<T> {
        /// A table without objects. The kind is what the upper 16 bits of its handles are: one
        /// with both of the highest two bits set or unset may be that of addresses.
        pub fn new(kind: u16) -> Self {
            Table {
                kind: u64::from(kind) << KIND,
                inherited: LAST.load(Ordering::Relaxed),
                objects: Objects::default(),
            }
        }

        /// A handle for an object that is to be entered.
        ///
        /// # Errors
        /// [`Full`], also if there is no memory for another one.
        pub fn reserve(&self) -> Result<Handle, Full> {
            let mut objects = self.objects.write();
            if objects.len() >= OBJECTS_MAX {
                return Err(Full);
            }
            objects.try_reserve(1).map_err(|_| Full)?;
            let serial = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(Handle::new(self.kind | serial & SERIAL))
        }

        /// Make a handle lead to an object.
        pub fn enter(&self, handle: Handle, object: T) {
            self.objects.insert(handle.number(), object);
        }

        /// The object of a handle.
        ///
        /// # Errors
        /// [`NoObject`].
        pub fn get(&self, handle: Handle) -> Result<T, NoObject> {
            let number = handle.number();
            if let Some(object) = self.objects.get(&number) {
                return Ok(object);
            }
            let of_parent = (1..=self.inherited).contains(&(number & SERIAL));
            match number & !SERIAL == self.kind && of_parent {
                true => Err(NoObject::Inherited),
                false => Err(NoObject::Unknown),
            }
        }

        /// Make a handle lead nowhere: what a function does that destroys the object.
        pub fn forget(&self, handle: Handle) {
            self.objects.remove(&handle.number());
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const KIND: u16 = 0x5C11;
        const OTHER: u16 = 0x5C12;

        /// Handles are of one kind, for one object, and never used again.
        #[test]
        fn only_what_was_given_is_a_handle() {
            let table = Table::new(KIND);
            let other: Table<u8> = Table::new(OTHER);
            let handle = table.reserve().unwrap();
            assert_eq!(table.get(handle), Err(NoObject::Unknown));
            table.enter(handle, 7);
            assert_eq!(table.get(handle), Ok(7));
            assert_eq!(other.get(handle), Err(NoObject::Unknown));
            let pointer: *mut u8 = handle.to_c();
            assert_eq!(pointer.addr() >> 48, usize::from(KIND));
            assert_eq!(Handle::from_pointer(pointer), handle);
            table.forget(handle);
            assert_eq!(table.get(handle), Err(NoObject::Unknown));
            assert_ne!(table.reserve().unwrap(), handle);
            let foreign = Handle::from_pointer((&raw const table).cast_mut());
            assert_eq!(table.get(foreign), Err(NoObject::Unknown));
            assert_eq!(table.get(Handle::NULL), Err(NoObject::Unknown));
        }

        /// What was made before belongs to the parent.
        #[test]
        fn a_childs_table_knows_the_parents_handles() {
            let parent = Table::new(KIND);
            let handle = parent.reserve().unwrap();
            parent.enter(handle, ());
            let child: Table<()> = Table::new(KIND);
            assert_eq!(child.get(handle), Err(NoObject::Inherited));
            let other: Table<()> = Table::new(OTHER);
            assert_eq!(other.get(handle), Err(NoObject::Unknown));
        }

        #[test]
        fn a_full_table_is_told() {
            let table = Table::new(KIND);
            for _ in 0..OBJECTS_MAX {
                table.enter(table.reserve().unwrap(), ());
            }
            assert_eq!(table.reserve(), Err(Full));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_until_they_are_taken_out() {
        let objects = Objects::default();
        assert_eq!(objects.insert(1, "a"), None);
        assert_eq!(objects.insert(2, "b"), None);
        assert_eq!((objects.get(&1), objects.get(&3)), (Some("a"), None));
        assert_eq!((objects.remove(&1), objects.remove(&1)), (Some("a"), None));
        assert_eq!(objects.take(), ["b"]);
        assert_eq!(objects.get(&2), None);
    }
}
