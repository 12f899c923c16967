// SPDX-License-Identifier: MIT OR Apache-2.0

//! Devices of this system, by what sysfs shows of them; for root.
//!
//! The engine is QEMU's `edu`, a stand-in for any device that masters the bus: it copies up to
//! [`Engine::SIZE`] bytes between the bus and memory of its own.
//! `-device edu,dma_mask=0xffffffffffffffff` adds one to a guest.

use crate::system::{ensure, Outcome};
use pximc::{Map, PhysicalRange};
use rustix::fs::{ftruncate, memfd_create, MemfdFlags};
use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::PathBuf,
    str::FromStr,
    sync::atomic::Ordering,
    thread::sleep,
    time::{Duration, Instant},
};
use vm_memory::{Bytes, VolatileSlice};

/// The command register of PCI, and the bit that lets a device master the bus.
const COMMAND: u64 = 4;
const COMMAND_MASTER: u16 = 0x4;
/// The kernel's flag of resources that are memory.
const IS_MEMORY: u64 = 0x200;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A function on a PCI bus of domain 0.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

impl FromStr for Place {
    type Err = String;

    /// Read `bus:device.function`, of hexadecimal numbers.
    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (bus, rest) = text.split_once(':')?;
            let (device, function) = rest.split_once('.')?;
            let number = |text| u8::from_str_radix(text, 16).ok();
            Some(Place {
                bus: number(bus)?,
                device: number(device)?,
                function: number(function)?,
            })
        };
        read().ok_or_else(|| format!("{text} is not bus:device.function"))
    }
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        let Place {
            bus,
            device,
            function,
        } = self;
        let place = format!("0000:{bus:02x}:{device:02x}.{function:x}");
        ["/sys/bus/pci/devices", &place, name].iter().collect()
    }

    fn file(&self, name: &str) -> Outcome<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.path(name));
        Ok(file?)
    }

    fn enable(&self) -> Outcome<()> {
        Ok(fs::write(self.path("enable"), "1")?)
    }

    fn enable_master(&self) -> Outcome<()> {
        let config = self.file("config")?;
        let mut command = [0; 2];
        config.read_exact_at(&mut command, COMMAND)?;
        let command = u16::from_le_bytes(command) | COMMAND_MASTER;
        Ok(config.write_all_at(&command.to_le_bytes(), COMMAND)?)
    }

    /// Number, physical address and size of all BARs that are memory.
    fn bars(&self) -> Outcome<Vec<(usize, u64, u64)>> {
        let mut bars = Vec::new();
        let lines = fs::read_to_string(self.path("resource"))?;
        for (number, line) in lines.lines().take(6).enumerate() {
            let numbers: Vec<u64> = line
                .split_whitespace()
                .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16))
                .collect::<Result<_, _>>()?;
            if let [start, end, flags] = numbers[..] {
                if flags & IS_MEMORY != 0 {
                    bars.push((number, start, end - start + 1));
                }
            }
        }
        Ok(bars)
    }
}

/// Memory of a device, as its driver has it.
pub struct Memory {
    address: u64,
    map: Map,
}

impl Memory {
    /// The largest BAR that is memory, `most` bytes of it.
    pub fn open(place: Place, most: u64) -> Outcome<Self> {
        let bars = place.bars()?;
        let largest = bars.into_iter().max_by_key(|(_, _, size)| *size);
        let (number, address, size) = largest.ok_or("the device has no memory")?;
        place.enable()?;
        let map = Map::new(place.file(&format!("resource{number}"))?, 0, size.min(most))?;
        Ok(Memory { address, map })
    }

    /// Its physical addresses.
    pub fn range(&self) -> PhysicalRange {
        // SAFETY: It is memory of a device, which this process alone uses, by the map.
        #[expect(unsafe_code)]
        unsafe {
            PhysicalRange::new(self.address, self.size())
        }
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.map.len() as u64
    }

    pub fn volatile(&self) -> VolatileSlice<'_> {
        self.map.volatile()
    }
}

/// A device that copies between the bus and memory of its own.
pub struct Engine {
    registers: Map,
    page: Map,
    /// Of the page, on the bus.
    page_address: u64,
}

// Registers, and what they are told.
const ID: usize = 0x00;
const ID_KIND: u32 = 0x00ed;
const SOURCE: usize = 0x80;
const DESTINATION: usize = 0x88;
const COUNT: usize = 0x90;
const START: usize = 0x98;
const RUN: u64 = 0x1;
const OUT: u64 = 0x2;
/// Where the engine's own memory is for it.
const OWN: u64 = 0x40000;
/// The engine takes 100 ms for each copy, on a machine that has time.
const PATIENCE: Duration = Duration::from_secs(20);

impl Engine {
    /// Most bytes of a copy. It has twice as many, the last of which some versions of QEMU
    /// take for the first one outside.
    pub const SIZE: usize = 2048;

    /// Make a device ready that is an engine.
    pub fn open(place: Place) -> Outcome<Self> {
        place.enable()?;
        place.enable_master()?;
        let registers = Map::new(place.file("resource0")?, 0, 0x10_0000)?;
        let id: u32 = registers.volatile().load(ID, Ordering::Acquire)?;
        ensure(id & 0xffff == ID_KIND, "the device is not an engine")?;
        let page = make_page()?;
        let page_address = bus_address(&page)?;
        Ok(Engine {
            registers,
            page,
            page_address,
        })
    }

    /// Put data into its memory.
    pub fn load(&self, data: &[u8]) -> Outcome<()> {
        self.page.volatile().write_slice(data, 0)?;
        self.run(self.page_address, OWN, data.len(), 0)
    }

    /// Let it write its memory to an address on the bus.
    pub fn store(&self, address: u64, size: usize) -> Outcome<()> {
        self.run(OWN, address, size, OUT)
    }

    fn run(&self, from: u64, to: u64, size: usize, how: u64) -> Outcome<()> {
        ensure(size <= Self::SIZE, "it fits into the engine")?;
        let registers = self.registers.volatile();
        let values = [
            (SOURCE, from),
            (DESTINATION, to),
            (COUNT, size as u64),
            (START, RUN | how),
        ];
        for (register, value) in values {
            registers.store(value, register, Ordering::Release)?;
        }
        let end = Instant::now() + PATIENCE;
        while registers.load::<u64>(START, Ordering::Acquire)? & RUN != 0 {
            ensure(Instant::now() < end, "the engine comes to an end")?;
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// A page of memory, without swap to go to.
fn make_page() -> Outcome<Map> {
    let file = memfd_create("engine", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, PAGE)?;
    let page = Map::new(file, 0, PAGE)?;
    page.volatile().store(0_u8, 0, Ordering::Release)?;
    Ok(page)
}

/// Where a page of this process is, by the kernel's table of them.
fn bus_address(page: &Map) -> Outcome<u64> {
    let mut entry = [0; 8];
    let number = page.as_ptr() as u64 / PAGE;
    File::open("/proc/self/pagemap")?.read_exact_at(&mut entry, number * 8)?;
    let frame = u64::from_le_bytes(entry) & ((1 << 55) - 1);
    ensure(frame != 0, "the page's address is known")?;
    Ok(frame * PAGE)
}
