// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory of the caller. Whoever makes such a value vouches for the pointer; from then on it is
//! safe to use, because it is accessed only as far as it goes, without a reference, and at any
//! alignment. NULL is a value of all of them. [`Input::volatile`] lends what others could write
//! through, for which somebody has to vouch once more.

use crate::export::{Abi, Extent};
use std::{
    borrow::Cow,
    ffi::{c_char, c_void, CStr},
    fmt, ptr,
};
#[cfg(target_pointer_width = "64")]
use vm_memory::VolatileSlice;

/// A pointer is NULL that must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Null;

/// Where one value goes, or NULL.
#[repr(transparent)]
pub struct Out<T>(*mut T);

// Neither is derived: that would ask the same of the value.
impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> fmt::Debug for Out<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Copy> Out<T> {
    /// NULL.
    pub const NULL: Self = Out(ptr::null_mut());

    /// Vouch for a pointer.
    ///
    /// # Safety
    /// The pointer is NULL, or one may write a `T` there as long as the value exists; and read
    /// one, if it is for a function that reads there.
    pub const unsafe fn new(pointer: *mut T) -> Self {
        Out(pointer)
    }

    /// Refuse NULL.
    ///
    /// # Errors
    /// [`Null`].
    pub fn required(self) -> Result<Self, Null> {
        match self.0.is_null() {
            false => Ok(self),
            true => Err(Null),
        }
    }

    /// Write the value, unless the pointer is NULL.
    pub fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: Promised to `new()`. Nobody promised that it is aligned.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// What is there: for arguments that are read as well.
    ///
    /// # Errors
    /// [`Null`].
    pub fn read(self) -> Result<T, Null> {
        self.required()?;
        // SAFETY: Promised to `new()`; it is plain data of C.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

// SAFETY: A pointer, and transparent.
unsafe impl<T> Abi<*mut T> for Out<T> {
    fn to_c(self) -> *mut T {
        self.0
    }
}

/// Where several elements go, or NULL. Bytes are also read there.
#[derive(Clone, Copy, Debug)]
pub struct Room<T> {
    start: *mut T,
    len: usize,
}

impl<T: Copy> Room<T> {
    /// Vouch for a pointer.
    ///
    /// # Safety
    /// The pointer is NULL, or one may write so many elements there as long as the value exists;
    /// and read them, if it is for a function that reads there.
    pub const unsafe fn new(start: *mut T, len: usize) -> Self {
        Room { start, len }
    }

    /// For how many elements there is room.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there is room for none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Where they are.
    pub fn address(self) -> usize {
        self.start.addr()
    }

    /// Refuse NULL, unless there is no room.
    ///
    /// # Errors
    /// [`Null`].
    pub fn required(self) -> Result<Self, Null> {
        match self.start.is_null() && self.len > 0 {
            false => Ok(self),
            true => Err(Null),
        }
    }

    /// Write as many of the elements as there is room for; none at NULL.
    pub fn fill(self, elements: &[T]) {
        let count = elements.len().min(self.len);
        if count == 0 || self.start.is_null() {
            return;
        }
        let (from, to) = (elements.as_ptr().cast::<u8>(), self.start.cast::<u8>());
        // SAFETY: There is room, as promised to `new()`. Bytes, because nobody promised that the
        // elements are aligned; the caller's memory is none of ours.
        unsafe { ptr::copy_nonoverlapping(from, to, count * size_of::<T>()) }
    }
}

#[cfg(target_pointer_width = "64")]
impl Room<u8> {
    /// The bytes, which somebody else may change at the same time.
    ///
    /// # Errors
    /// [`Null`], unless there are none.
    pub fn volatile(&self) -> Result<VolatileSlice<'_>, Null> {
        self.required()?;
        let start = match self.start.is_null() {
            false => self.start,
            true => ptr::dangling_mut(),
        };
        // SAFETY: Promised to `new()`; no reference to them is made.
        Ok(unsafe { VolatileSlice::new(start, self.len) })
    }
}

/// One value that is read, or NULL.
#[repr(transparent)]
pub struct In<T>(*const T);

// Neither is derived: that would ask the same of the value.
impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> fmt::Debug for In<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Copy> In<T> {
    /// NULL.
    pub const NULL: Self = In(ptr::null());

    /// Vouch for a pointer.
    ///
    /// # Safety
    /// The pointer is NULL, or one may read a `T` there as long as the value exists.
    pub const unsafe fn new(pointer: *const T) -> Self {
        In(pointer)
    }

    /// What is there.
    ///
    /// # Errors
    /// [`Null`].
    pub fn read(self) -> Result<T, Null> {
        match self.0.is_null() {
            // SAFETY: Promised to `new()`; it is plain data of C. Nobody promised that it is aligned.
            false => Ok(unsafe { self.0.read_unaligned() }),
            true => Err(Null),
        }
    }
}

// SAFETY: A pointer, and transparent.
unsafe impl<T> Abi<*const T> for In<T> {
    fn to_c(self) -> *const T {
        self.0
    }
}

/// Elements that are read, or NULL.
#[derive(Clone, Copy, Debug)]
pub struct Input<T> {
    start: *const T,
    len: usize,
}

impl<T: Copy> Input<T> {
    /// Vouch for a pointer.
    ///
    /// # Safety
    /// The pointer is NULL, or so many elements can be read there as long as the value exists.
    pub const unsafe fn new(start: *const T, len: usize) -> Self {
        Input { start, len }
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Refuse NULL, unless there are no elements.
    ///
    /// # Errors
    /// [`Null`].
    pub fn required(self) -> Result<Self, Null> {
        match self.start.is_null() && self.len > 0 {
            false => Ok(self),
            true => Err(Null),
        }
    }

    /// Where they are.
    pub fn address(self) -> usize {
        self.start.addr()
    }

    /// A copy. The library looks first at how many there are.
    ///
    /// # Errors
    /// [`Null`], unless there are none.
    pub fn copy(self) -> Result<Vec<T>, Null> {
        self.required()?;
        // SAFETY: Promised to `new()`; nobody promised that they are aligned.
        let one = |index| unsafe { self.start.add(index).read_unaligned() };
        Ok((0..self.len).map(one).collect())
    }
}

#[cfg(target_pointer_width = "64")]
impl Input<u8> {
    /// The bytes, which somebody else may change at the same time: a program may send what another
    /// host writes.
    ///
    /// # Errors
    /// [`Null`], unless there are none.
    ///
    /// # Safety
    /// Nobody writes through it: the memory may be there to be read only.
    pub unsafe fn volatile(&self) -> Result<VolatileSlice<'_>, Null> {
        self.required()?;
        let start = match self.start.is_null() {
            false => self.start.cast_mut(),
            true => ptr::dangling_mut(),
        };
        // SAFETY: Promised to `new()` and to this function; no reference to them is made.
        Ok(unsafe { VolatileSlice::new(start, self.len) })
    }
}

/// Implements [`Extent`] for how C passes lengths.
macro_rules! extents {
    ($($length:ty: |$len:ident| $value:expr;)*) => {$(
        impl<T: Copy> Extent<*mut T, $length> for Room<T> {
            unsafe fn of(start: *mut T, $len: $length) -> Self {
                Room { start, len: $value }
            }
        }

        impl Extent<*mut c_void, $length> for Room<u8> {
            unsafe fn of(start: *mut c_void, $len: $length) -> Self {
                Room { start: start.cast(), len: $value }
            }
        }

        impl<T: Copy> Extent<*const T, $length> for Input<T> {
            unsafe fn of(start: *const T, $len: $length) -> Self {
                Input { start, len: $value }
            }
        }

        impl<T: Copy> Extent<*mut T, $length> for Input<T> {
            unsafe fn of(start: *mut T, $len: $length) -> Self {
                Input { start, len: $value }
            }
        }

        impl Extent<*const c_void, $length> for Input<u8> {
            unsafe fn of(start: *const c_void, $len: $length) -> Self {
                Input { start: start.cast(), len: $value }
            }
        }

        impl Extent<*mut c_void, $length> for Input<u8> {
            unsafe fn of(start: *mut c_void, $len: $length) -> Self {
                Input { start: start.cast(), len: $value }
            }
        }
    )*};
}

extents! {
    usize: |len| len;
    u32: |len| len as usize;
    // A length that is read first, and written later.
    Out<u32>: |len| len.read().unwrap_or(0) as usize;
}

/// Text that ends with NUL, or a NULL pointer.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl Text {
    /// Vouch for a pointer.
    ///
    /// # Safety
    /// The pointer is NULL, or leads to text that ends with NUL as long as the value exists.
    pub const unsafe fn new(start: *const c_char) -> Self {
        Text(start)
    }

    /// The text; what is no UTF-8 in it is replaced.
    ///
    /// # Errors
    /// [`Null`].
    pub fn read(&self) -> Result<Cow<'_, str>, Null> {
        if self.0.is_null() {
            return Err(Null);
        }
        // SAFETY: Promised to `new()`.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy())
    }
}

// SAFETY: A pointer, and transparent.
unsafe impl Abi<*const c_char> for Text {
    fn to_c(self) -> *const c_char {
        self.0
    }
}

// SAFETY: As above.
unsafe impl Abi<*mut c_char> for Text {
    fn to_c(self) -> *mut c_char {
        self.0.cast_mut()
    }
}

/// What a program gives a callback, which may run on another thread. It is only handed back.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Opaque(*mut c_void);

// SAFETY: The program knows that its callbacks have a thread.
unsafe impl Send for Opaque {}

impl Opaque {
    /// What the program has given. A closure that calls this takes the whole value with it.
    pub fn pointer(self) -> *mut c_void {
        self.0
    }
}

// SAFETY: A pointer, and transparent.
unsafe impl Abi<*mut c_void> for Opaque {
    fn to_c(self) -> *mut c_void {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_goes_where_it_may_and_nowhere_at_null() {
        let mut bytes = [0xEE_u8; 7];
        // SAFETY: There is room for four bytes, which are not aligned.
        let out: Out<u32> = unsafe { Out::new(bytes.as_mut_ptr().add(1).cast()) };
        out.required().unwrap().write(0x0403_0201);
        assert_eq!(out.read(), Ok(0x0403_0201));
        assert_eq!(bytes, [0xEE, 1, 2, 3, 4, 0xEE, 0xEE]);
        let null = Out::<u32>::NULL;
        assert_eq!(null.required().map(|_| ()), Err(Null));
        assert_eq!(null.read(), Err(Null));
        null.write(7);
    }

    #[test]
    fn room_is_written_as_far_as_it_goes() {
        let mut bytes = [0xEE_u8; 8];
        // SAFETY: There is room for two numbers, which are not aligned.
        let room: Room<u16> = unsafe { Room::new(bytes.as_mut_ptr().add(1).cast(), 2) };
        room.fill(&[0x0201, 0x0403, 0x0605]);
        assert_eq!(bytes, [0xEE, 1, 2, 3, 4, 0xEE, 0xEE, 0xEE]);
        // SAFETY: NULL.
        let [none, some] = [0, 1].map(|len| unsafe { Room::<u16>::new(ptr::null_mut(), len) });
        assert!(none.required().is_ok() && none.is_empty());
        assert_eq!(some.required().map(|_| ()), Err(Null));
        some.fill(&[1]);
    }

    #[test]
    fn input_is_copied_at_any_alignment() {
        let bytes = [0_u8, 1, 2, 3, 4];
        // SAFETY: There are two numbers, which are not aligned.
        let input: Input<u16> = unsafe { Input::new(bytes.as_ptr().add(1).cast(), 2) };
        assert_eq!(input.copy(), Ok(vec![0x0201, 0x0403]));
        // SAFETY: NULL.
        let [none, some] = [0, 1].map(|len| unsafe { Input::<u16>::new(ptr::null(), len) });
        assert_eq!(none.copy(), Ok(vec![]));
        assert_eq!(some.copy(), Err(Null));
    }

    #[test]
    fn a_length_may_be_where_a_length_goes() {
        let (mut bytes, mut len) = ([0_u8; 4], 3_u32);
        let start: *mut c_void = bytes.as_mut_ptr().cast();
        // SAFETY: There is room for three bytes, as the length says.
        let room: Room<u8> = unsafe { Extent::of(start, Out::new(&mut len)) };
        room.fill(&[1; 4]);
        assert_eq!(bytes, [1, 1, 1, 0]);
        // SAFETY: Nothing is there, and no length says otherwise.
        let room: Room<u8> = unsafe { Extent::of(ptr::null_mut::<c_void>(), Out::<u32>::NULL) };
        assert!(room.is_empty());
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn bytes_that_others_change_are_volatile() {
        let mut bytes = [1_u8, 2, 3];
        // SAFETY: There are three bytes.
        let room = unsafe { Room::new(bytes.as_mut_ptr(), 3) };
        let mut copy = [0_u8; 3];
        room.volatile().unwrap().copy_to(&mut copy);
        assert_eq!(copy, [1, 2, 3]);
        // SAFETY: NULL.
        let [none, some] = [0, 1].map(|len| unsafe { Room::<u8>::new(ptr::null_mut(), len) });
        assert_eq!(none.volatile().unwrap().len(), 0);
        assert!(some.volatile().is_err());
    }

    #[test]
    fn one_value_is_read_at_any_alignment() {
        let bytes = [0_u8, 1, 2, 3, 4];
        // SAFETY: There are four bytes from the second one on; and NULL.
        let [some, none] =
            [bytes[1..].as_ptr(), ptr::null()].map(|start| unsafe { In::<u32>::new(start.cast()) });
        assert_eq!(some.read(), Ok(0x0403_0201));
        assert_eq!(none.read(), Err(Null));
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn bytes_are_lent_and_null_is_none_or_refused() {
        let bytes = [1_u8, 2, 3];
        // SAFETY: There are three bytes, and none at NULL.
        let [some, empty, null] = [(bytes.as_ptr(), 3), (ptr::null(), 0), (ptr::null(), 1)]
            .map(|(start, len)| unsafe { Input::new(start, len) });
        // SAFETY: Nobody writes.
        let [some, empty, null] = unsafe { [some.volatile(), empty.volatile(), null.volatile()] };
        let mut copy = [0; 3];
        some.unwrap().copy_to(&mut copy);
        assert_eq!((copy, empty.unwrap().len()), (bytes, 0));
        assert!(null.is_err());
    }

    #[test]
    fn text_is_read_and_null_is_none() {
        // SAFETY: Texts that end with NUL, and NULL.
        let [good, bad, null] = [c"name".as_ptr(), c"n\xff".as_ptr(), ptr::null()]
            .map(|start| unsafe { Text::new(start) });
        assert_eq!(good.read(), Ok("name".into()));
        assert_eq!(bad.read(), Ok("n\u{fffd}".into()));
        assert_eq!(null.read(), Err(Null));
    }
}
