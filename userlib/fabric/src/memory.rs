// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is given to peers and devices by its address. They read and write it behind the back of
//! the language: whoever makes one of these values vouches for that.

use crate::PciFunction;

/// Bytes of this process, at an address. [`Map::memory`](crate::Map::memory) gives them safely.
///
/// ```no_run
/// # fn main() -> mp_fabric::Result<()> {
/// use mp_fabric::{Fabric, Filling, Map};
///
/// let segment = Fabric::open()?.create_empty_segment(Some((7, 0)), 4096)?;
/// let map = Map::allocate(4096)?;
/// segment.fill(Filling::Own(map.memory()))?;
/// # Ok(())
/// # }
/// ```
/// An address alone is nothing that a segment can be filled with:
/// ```compile_fail
/// # use mp_fabric::{Fabric, Filling};
/// # let segment = Fabric::open().unwrap().create_empty_segment(Some((7, 0)), 4096).unwrap();
/// let numbers = vec![0_u8; 8192];
/// segment.fill(Filling::Own(numbers.as_ptr() as usize));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory<'a> {
    start: usize,
    len: usize,
    owner: std::marker::PhantomData<&'a crate::Map>,
}

impl<'a> ProcessMemory<'a> {
    /// Bytes at an address.
    ///
    /// # Safety
    /// As long as a segment is filled with them, other hosts read and write them at any time; as
    /// long as a queue copies, they are read, or written if it copies to them. Until then the memory is not given back to an
    /// allocator, and no reference to it exists that this could contradict. That there is memory
    /// at all need not be promised: the kernel looks.
    pub const unsafe fn new(start: usize, len: usize) -> Self {
        ProcessMemory {
            start,
            len,
            owner: std::marker::PhantomData,
        }
    }

    /// `len` bytes of it from `at` on; none if they are not all inside.
    pub fn part(self, at: usize, len: usize) -> Option<ProcessMemory<'a>> {
        let is_inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        is_inside.then_some(ProcessMemory {
            start: self.start.wrapping_add(at),
            len,
            owner: self.owner,
        })
    }

    /// Address of the first byte.
    pub fn start(self) -> usize {
        self.start
    }

    /// How many bytes there are.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Bytes at a physical address of this host.
#[derive(Clone, Copy, Debug)]
pub struct PhysicalRange {
    start: u64,
    len: u64,
}

impl PhysicalRange {
    /// Bytes at an address.
    ///
    /// # Safety
    /// As long as a segment or session offers them, other hosts read and write them at any time.
    /// If it is memory, nobody else uses it until then; if it is registers of a device, nothing
    /// that this makes the device do touches memory that somebody else uses.
    pub const unsafe fn new(start: u64, len: u64) -> Self {
        PhysicalRange { start, len }
    }

    /// Address of the first byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// How many bytes there are.
    pub fn len(self) -> u64 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// Bytes of a BAR of a PCI function.
#[derive(Clone, Copy, Debug)]
pub struct BarRange {
    function: PciFunction,
    bar: u8,
    offset: u64,
    len: u64,
}

impl BarRange {
    /// As many bytes from an offset, both of whole pages, of the BAR of that number.
    ///
    /// # Safety
    /// What is promised of [`PhysicalRange::new`] holds for them.
    pub const unsafe fn new(function: PciFunction, bar: u8, offset: u64, len: u64) -> Self {
        BarRange {
            function,
            bar,
            offset,
            len,
        }
    }

    /// Whose BAR it is.
    pub fn function(self) -> PciFunction {
        self.function
    }

    /// The number of the BAR.
    pub fn bar(self) -> u8 {
        self.bar
    }

    /// Where the first byte is.
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// How many bytes there are.
    pub fn len(self) -> u64 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// The structure of a call, with addresses that somebody vouches for. It does not change until a
/// device takes it out.
#[derive(Debug)]
pub struct Vouched<'a, T: ?Sized>(&'a mut T);

impl<'a, T: ?Sized> Vouched<'a, T> {
    /// A structure.
    ///
    /// # Safety
    /// What is promised of [`ProcessMemory::new`] and [`PhysicalRange::new`] holds for all
    /// addresses in it that the device does not fill in.
    pub unsafe fn new(structure: &'a mut T) -> Self {
        Vouched(structure)
    }

    /// The structure.
    pub fn into_inner(self) -> &'a mut T {
        self.0
    }
}
