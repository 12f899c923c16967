// SPDX-License-Identifier: GPL-2.0-only

//! Statics of modules, which each host has for itself.
//!
//! A program has one copy of each static, hosts many. The stand-ins through which modules change
//! statics (atomics, locks, cells) therefore do not use the address that they are called with, but
//! what [`place`] makes of it: the same place in a copy of all statics that belongs to the host
//! whose context calls. Addresses of anything else stay as they are. What the program itself has
//! in its statics stays what the compiler has put there, so a fresh copy is what a module finds
//! that has just been loaded. The statics of a module that has been unloaded are filled as freed
//! memory is, and whoever asks for one of them is found.

use crate::{
    memory::FREED,
    symbols,
    world::fail, //
};
use std::{
    cell::{
        RefCell,
        UnsafeCell, //
    },
    ops::Range,
    ptr, //
};

const PAGE: usize = 4096;

extern "C" {
    /// Where the statics that can be written begin, by the linker; it is no object.
    static __data_start: u8;
    /// Where they end.
    static _end: u8;
}

/// Where the program's statics lie that can be written: whole words.
fn range() -> Range<usize> {
    const WORD: usize = size_of::<usize>();
    let start = (&raw const __data_start).addr();
    let end = (&raw const _end).addr();
    start.next_multiple_of(WORD)..end / WORD * WORD
}

/// Memory as aligned as a section's.
#[repr(C, align(4096))]
struct Page(UnsafeCell<[u8; PAGE]>);

/// All statics of a host.
pub struct Image {
    /// From the page in which the statics begin.
    pages: Box<[Page]>,
    range: Range<usize>,
    /// Where those of modules lie in the program that have been unloaded.
    gone: RefCell<Vec<Range<usize>>>,
}

impl Image {
    /// A copy of the statics as they are in the program.
    pub(crate) fn new() -> Self {
        let range = range();
        let pages = (range.end - range.start / PAGE * PAGE).div_ceil(PAGE);
        let blank = || Page(UnsafeCell::new([0; PAGE]));
        let pages = std::iter::repeat_with(blank).take(pages).collect();
        let gone = RefCell::default();
        let this = Self { pages, range, gone };
        this.renew(this.range.clone());
        this
    }

    /// The place in this image of what has this address in the program.
    fn at(&self, address: usize) -> *mut u8 {
        let start = self.pages.as_ptr().cast::<u8>().cast_mut();
        start.wrapping_add(address - self.range.start / PAGE * PAGE)
    }

    /// Copy this part from the program.
    fn renew(&self, part: Range<usize>) {
        for address in part {
            let from = ptr::with_exposed_provenance::<u8>(address);
            // SAFETY: Both are inside the statics, and nothing refers to this host's. Statics of
            // other crates may be changed meanwhile by other threads; therefore volatile, and
            // their copies are never looked at. Those of modules are never changed in the program.
            unsafe { self.at(address).write(from.read_volatile()) };
        }
    }

    /// Where the statics of a crate lie in the program.
    fn of_crate(&self, name: &str) -> impl Iterator<Item = Range<usize>> {
        let all = self.range.clone();
        symbols::of_crate(name)
            .filter(move |object| all.start <= object.start && object.end <= all.end)
    }

    /// Make all statics of a crate what they are in the program: it is about to be loaded.
    ///
    /// # Safety
    ///
    /// The crate has no code that runs on the host. Its statics consist of cells, in case something
    /// refers to one yet.
    pub unsafe fn renew_crate(&self, name: &str) {
        for object in self.of_crate(name) {
            self.gone.borrow_mut().retain(|other| *other != object);
            self.renew(object);
        }
    }

    /// Take the statics of a crate away: it has been unloaded.
    ///
    /// # Safety
    ///
    /// Statics of that crate consist of cells: code that refers to one yet may find it changed.
    pub unsafe fn remove_crate(&self, name: &str) {
        for object in self.of_crate(name) {
            // SAFETY: Inside this image, and in cells, as the caller promises.
            unsafe { self.at(object.start).write_bytes(FREED, object.len()) };
            self.gone.borrow_mut().push(object);
        }
    }

    /// Whether what has this address in the program is of a module that has been unloaded.
    fn is_gone(&self, address: usize) -> bool {
        let gone = self.gone.borrow();
        gone.iter().any(|object| object.contains(&address))
    }
}

/// Where a stand-in finds what it is called with, on the host that the caller runs on.
///
/// Fails if it is a static of a module that has been unloaded.
///
/// # Panics
///
/// If it is a static and the caller is in no context of a host.
pub fn place<T>(object: *mut T) -> *mut T {
    let address = object.addr();
    if !range().contains(&address) {
        return object;
    }
    let host = crate::host();
    if host.image().is_gone(address) {
        fail("it uses a static of a module that has been unloaded");
    }
    // The image lives as long as the host, which lives as long as the run.
    host.image().at(address).cast()
}
