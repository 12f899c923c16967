// SPDX-License-Identifier: MIT OR Apache-2.0

//! A model of a bridge in front of the memory of partners.
//!
//! Emulated bridges are coherent memory: a store is there at once, whole and in order. Through a
//! [`BridgeDevice`] stores wait in write-combining buffers, leave in pieces and in any order
//! between fences, and arrive late and word by word; see `mp_bridge_model`. Only what is stored
//! by [`RemoteMemory`] does: maps themselves are memory as ever.
//!
//! ```
//! # use mp_fabric::Fabric;
//! # use mp_testing::{Bridge, Host, World};
//! let world = World::new(1, 1 << 20);
//! let bridge = Bridge::new(7);
//! let fabric = Fabric::with_device(bridge.device(world.open(Host::A)));
//! ```

#![forbid(unsafe_code)]

use crate::FakeDevice;
use mp_bridge_model::{Buffers, Chance, Line, LINE};
use mp_fabric::{
    sys::{mp_event, mp_park, mp_park_entry, MP_PARK_ARMED, MP_PARK_NONE},
    vm_memory::{Bytes, VolatileMemory, VolatileSlice},
    Call, Device, Errno, Map, Protection, RemoteMemory,
};
use rustix::fd::BorrowedFd;
use std::{
    cell::Cell,
    collections::{HashMap, VecDeque},
    sync::{
        atomic::{AtomicU32, AtomicU64, Ordering},
        Arc, Mutex, MutexGuard, PoisonError, Weak,
    },
    thread::{self, ThreadId},
    time::Duration,
};

/// Between two looks of the thread that makes writes arrive.
const PAUSE: Duration = Duration::from_micros(20);
/// Most writes that arrive in one look.
const AT_ONCE: u64 = 64;

/// How a line goes that [`RemoteMemory::store_line`] stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lines {
    /// As words: the processor has no store of 64 bytes.
    #[default]
    InWords,
    /// It leaves the processor in one piece, ahead of what is still combined there, and arrives as any
    /// other: a processor's store of 64 bytes and what PCI Express promises of it.
    InOneWrite,
    /// It also arrives in one piece. Bridges do not promise that: a reader who rests on it works by
    /// this one only.
    Whole,
}

/// Random numbers that a seed determines (splitmix64).
#[derive(Debug)]
struct Dice(Cell<u64>);

impl Dice {
    fn roll(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Chance for Dice {
    fn below(&self, n: u64) -> u64 {
        self.roll() % n.max(1)
    }
}

/// What has not arrived at a partner.
#[derive(Debug)]
struct Way {
    map: Map,
    /// Of each thread: it stays with its processor.
    buffers: HashMap<ThreadId, Buffers>,
    posted: VecDeque<Line>,
    dice: Dice,
    /// Pieces of bytes that are still to be spoiled.
    spoils: Arc<AtomicU32>,
    lines: Lines,
}

impl Way {
    /// Whether a piece of bytes is to be spoiled.
    fn spoils(&self) -> bool {
        let (ok, relaxed) = (|left: u32| left.checked_sub(1), Ordering::Relaxed);
        self.spoils.fetch_update(relaxed, relaxed, ok).is_ok()
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) {
        let buffers = self.buffers.entry(thread::current().id()).or_default();
        let posted = &mut self.posted;
        buffers.store(offset, bytes, &self.dice, |line| posted.push_back(line));
        self.arrive_by_chance();
    }

    fn store_line(&mut self, offset: usize, line: &[u64; 8]) {
        let mut bytes = [0; LINE];
        for (room, word) in bytes.chunks_exact_mut(8).zip(line) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        let whole = self.lines == Lines::Whole;
        let buffers = self.buffers.entry(thread::current().id()).or_default();
        let posted = &mut self.posted;
        buffers.store_line(offset, bytes, |line| {
            posted.push_back(Line { whole, ..line });
        });
        self.arrive_by_chance();
    }

    fn arrive_by_chance(&mut self) {
        if self.dice.once_in(4) {
            let count = self.dice.below(8);
            self.arrive(count);
        }
    }

    fn flush(&mut self, thread: ThreadId) {
        let posted = &mut self.posted;
        if let Some(buffers) = self.buffers.get_mut(&thread) {
            buffers.flush(&self.dice, |line| posted.push_back(line));
        }
    }

    /// All processors have been interrupted, and everything arrives.
    fn settle(&mut self) {
        let threads: Vec<_> = self.buffers.keys().copied().collect();
        threads.into_iter().for_each(|thread| self.flush(thread));
        self.arrive_all();
    }

    /// At most so many writes arrive, and none behind one of which a part is missing.
    fn arrive(&mut self, count: u64) {
        for _ in 0..count {
            let Some(mut line) = self.posted.pop_front() else {
                return;
            };
            let now = line.arriving(&self.dice);
            apply(&self.map.volatile(), &line, now);
            if line.set != 0 {
                return self.posted.push_front(line);
            }
        }
    }

    fn arrive_all(&mut self) {
        while !self.posted.is_empty() {
            self.arrive(u64::MAX);
        }
    }

    /// Some of what waits goes on.
    fn step(&mut self) {
        let threads: Vec<_> = self.buffers.keys().copied().collect();
        for thread in threads {
            if self.dice.once_in(8) {
                let posted = &mut self.posted;
                if let Some(buffers) = self.buffers.get_mut(&thread) {
                    buffers.evict(&self.dice, &mut |line| posted.push_back(line));
                }
            }
        }
        let count = self.dice.below(AT_ONCE);
        self.arrive(count);
    }
}

/// Make bytes of a line visible: whole words in one piece.
fn apply(memory: &VolatileSlice<'_>, line: &Line, set: u64) {
    for word in 0..LINE / 8 {
        let (at, set) = (8 * word, set >> (8 * word) & 0xff);
        let bytes = line.data.get(at..at + 8).unwrap_or_default();
        if let (0xff, Ok(bytes)) = (set, bytes.try_into()) {
            let place = memory.get_atomic_ref::<AtomicU64>(line.at + at);
            let place = place.expect("checked when it was stored");
            place.store(u64::from_ne_bytes(bytes), Ordering::Release);
            continue;
        }
        for (n, byte) in bytes.iter().enumerate() {
            if set >> n & 1 != 0 {
                let written = memory.write_obj(*byte, line.at + at + n);
                written.expect("checked when it was stored");
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that has failed does not make the others fail.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Shared {
    seed: Dice,
    ways: Vec<Weak<Mutex<Way>>>,
    spoils: Arc<AtomicU32>,
    lines: Lines,
}

/// A bridge between hosts; copies share it.
#[derive(Clone, Debug)]
pub struct Bridge(Arc<Mutex<Shared>>);

impl Bridge {
    /// A bridge whose chances a seed determines. Writes arrive by themselves, by a thread that
    /// ends with the bridge.
    pub fn new(seed: u64) -> Self {
        let bridge = Self::still(seed);
        let shared = Arc::downgrade(&bridge.0);
        thread::spawn(move || {
            while let Some(shared) = shared.upgrade() {
                Bridge(shared).step();
                thread::sleep(PAUSE);
            }
        });
        bridge
    }

    /// A bridge over which writes arrive only while others are made, by [`step()`](Self::step),
    /// and before a signal. What a single thread does is the same in each run.
    pub fn still(seed: u64) -> Self {
        Bridge(Arc::new(Mutex::new(Shared {
            seed: Dice(Cell::new(seed)),
            ways: Vec::new(),
            spoils: Arc::default(),
            lines: Lines::default(),
        })))
    }

    /// How lines go to memory that is mapped from now on.
    pub fn with_lines(self, lines: Lines) -> Self {
        lock(&self.0).lines = lines;
        self
    }

    /// A device whose stores to partners pass through the bridge.
    pub fn device(&self, device: FakeDevice) -> BridgeDevice {
        BridgeDevice {
            device,
            bridge: self.clone(),
            ways: Mutex::default(),
        }
    }

    /// Let some of what waits go on.
    pub fn step(&self) {
        let ways = live(&mut lock(&self.0).ways);
        ways.iter().for_each(|way| lock(way).step());
    }

    /// Let everything arrive that has left processors: what was asked and answered over the
    /// bridge is behind it.
    pub fn arrive(&self) {
        let ways = live(&mut lock(&self.0).ways);
        ways.iter().for_each(|way| lock(way).arrive_all());
    }

    /// Change a bit of each of the next so many pieces of bytes on their way. Single words and
    /// lines stay as they are.
    pub fn spoil(&self, count: u32) {
        lock(&self.0).spoils.store(count, Ordering::Relaxed);
    }

    fn way(&self, map: Map) -> Arc<Mutex<Way>> {
        let mut shared = lock(&self.0);
        let way = Arc::new(Mutex::new(Way {
            map,
            buffers: HashMap::new(),
            posted: VecDeque::new(),
            dice: Dice(Cell::new(shared.seed.roll())),
            spoils: Arc::clone(&shared.spoils),
            lines: shared.lines,
        }));
        shared.ways.push(Arc::downgrade(&way));
        way
    }
}

/// Those that are still there.
fn live(ways: &mut Vec<Weak<Mutex<Way>>>) -> Vec<Arc<Mutex<Way>>> {
    ways.retain(|way| way.strong_count() > 0);
    ways.iter().filter_map(Weak::upgrade).collect()
}

/// A [`FakeDevice`] behind a bridge.
#[derive(Debug)]
pub struct BridgeDevice {
    device: FakeDevice,
    bridge: Bridge,
    ways: Mutex<Vec<Weak<Mutex<Way>>>>,
}

impl Device for BridgeDevice {
    type Remote = BridgeMemory;

    fn remote(&self, map: Map) -> BridgeMemory {
        let size = map.len();
        let way = self.bridge.way(map);
        lock(&self.ways).push(Arc::downgrade(&way));
        BridgeMemory { way, size }
    }

    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        if matches!(call, Call::Signal(_) | Call::Close(_)) {
            // What the kernel tells the partner arrives behind all that this process has written.
            let ways = live(&mut lock(&self.ways));
            ways.iter().for_each(|way| lock(way).settle());
        }
        if let Call::Park(park, entries) = call {
            return self.park(park, entries);
        }
        self.device.call(call)
    }

    fn map<P: Protection>(&self, offset: u64, len: u64, hint: usize) -> Result<Map<P>, Errno> {
        self.device.map(offset, len, hint)
    }

    fn read(&self, events: &mut Vec<mp_event>) -> Result<(), Errno> {
        self.device.read(events)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
}

impl BridgeDevice {
    /// The other host answers behind what has left its processors, once it sees the arm words.
    fn park(&self, park: &mut mp_park, entries: &[mp_park_entry]) -> Result<(), Errno> {
        let mut armed = *park;
        armed.flags |= MP_PARK_ARMED;
        self.device.call(Call::Park(&mut armed, entries))?;
        if armed.index != MP_PARK_NONE {
            (park.index, park.events) = (armed.index, armed.events);
            return Ok(());
        }
        let ways = live(&mut lock(&self.ways));
        ways.iter().for_each(|way| lock(way).settle());
        self.bridge.arrive();
        self.device.call(Call::Park(park, entries))
    }
}

/// Memory of a partner behind a bridge.
#[derive(Debug)]
pub struct BridgeMemory {
    way: Arc<Mutex<Way>>,
    size: usize,
}

/// What a process has stored arrives though it unmaps the memory.
impl Drop for BridgeMemory {
    fn drop(&mut self) {
        // The thread that makes writes arrive may hold the way as well, and for longer.
        lock(&self.way).settle();
    }
}

impl BridgeMemory {
    fn check(&self, offset: usize, len: usize, align: usize) -> Result<(), Errno> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.size);
        let fits = inside && offset % align == 0;
        fits.then_some(()).ok_or(Errno::RANGE)
    }
}

impl RemoteMemory for BridgeMemory {
    fn size(&self) -> usize {
        self.size
    }

    fn store(&self, offset: usize, word: u64) -> Result<(), Errno> {
        self.check(offset, 8, 8)?;
        lock(&self.way).store(offset, &word.to_le_bytes());
        Ok(())
    }

    fn store_line(&self, offset: usize, line: &[u64; 8]) -> Result<(), Errno> {
        self.check(offset, LINE, LINE)?;
        {
            let mut way = lock(&self.way);
            if way.lines != Lines::InWords {
                way.store_line(offset, line);
                return Ok(());
            }
        }
        let mut at = offset;
        for word in line {
            self.store(at, *word)?;
            at += 8;
        }
        Ok(())
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
        self.check(offset, bytes.len(), 1)?;
        let mut way = lock(&self.way);
        if bytes.is_empty() || !way.spoils() {
            way.store(offset, bytes);
            return Ok(());
        }
        let mut bytes = bytes.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        way.store(offset, &bytes);
        Ok(())
    }

    fn copy(&self, offset: usize, from: VolatileSlice<'_>) -> Result<(), Errno> {
        self.check(offset, from.len(), 1)?;
        let mut bytes = vec![0; from.len()];
        from.copy_to(&mut bytes);
        self.write(offset, &bytes)
    }

    fn flush(&self) {
        lock(&self.way).flush(thread::current().id());
    }

    fn barrier(&self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bridge: &Bridge) -> (Map, BridgeMemory) {
        let file = rustix::fs::memfd_create("bridge", rustix::fs::MemfdFlags::CLOEXEC);
        let file = file.expect("a file");
        rustix::fs::ftruncate(&file, 4096).expect("its size");
        let [near, far] = [0; 2].map(|_| Map::new(&file, 0, 4096).expect("mapped"));
        let size = far.len();
        let way = bridge.way(far);
        (near, BridgeMemory { way, size })
    }

    fn word(map: &Map, at: usize) -> u64 {
        map.volatile().read_obj(at).expect("inside")
    }

    #[test]
    fn stores_are_late_torn_and_out_of_order_until_they_have_arrived() {
        let (mut late, mut torn, mut crossed) = (0, 0, 0);
        for seed in 0..200 {
            let bridge = Bridge::still(seed);
            let (near, far) = memory(&bridge);
            far.store_line(128, &[1; 8]).expect("inside");
            far.store(64, 1).expect("inside");
            let line = [0; 8].map(|_| 1);
            let there = |n: usize| word(&near, 128 + 8 * n);
            late += usize::from(word(&near, 64) == 0);
            for _ in 0..50 {
                let found: Vec<u64> = (0..8).map(there).collect();
                torn += usize::from(found != line && found.contains(&1));
                crossed += usize::from(word(&near, 64) == 1 && found != line);
                bridge.step();
            }
            far.flush();
            bridge.arrive();
            assert_eq!((word(&near, 64), there(0), there(7)), (1, 1, 1));
        }
        assert!(
            late > 100 && torn > 10 && crossed > 10,
            "{late} {torn} {crossed}"
        );
    }

    /// What a reader finds of a line that is stored behind other bytes: how often a part of it, and how
    /// often all of it before those bytes.
    fn found(lines: Lines, fence: bool) -> (usize, usize) {
        let (mut torn, mut ahead) = (0, 0);
        for seed in 0..1500 {
            let bridge = Bridge::still(seed).with_lines(lines);
            let (near, far) = memory(&bridge);
            far.write(512, &[1; 32]).expect("inside");
            if fence {
                far.flush();
            }
            far.store_line(128, &[1; 8]).expect("inside");
            for _ in 0..20 {
                let words: Vec<u64> = (0..8).map(|n| word(&near, 128 + 8 * n)).collect();
                let (some, all) = (words.contains(&1), words == [1; 8]);
                torn += usize::from(some && !all);
                ahead += usize::from(all && word(&near, 512) == 0);
                bridge.step();
            }
            far.flush();
            bridge.arrive();
            assert_eq!((word(&near, 128), word(&near, 184)), (1, 1), "lost");
        }
        (torn, ahead)
    }

    #[test]
    fn a_line_in_one_write_is_torn_less_and_only_a_whole_one_never() {
        let [words, write, whole] =
            [Lines::InWords, Lines::InOneWrite, Lines::Whole].map(|lines| found(lines, false).0);
        assert!(words > write && write > 10, "{words} {write}");
        assert_eq!(whole, 0);
    }

    #[test]
    fn a_line_in_one_piece_needs_a_fence_behind_what_it_tells_of() {
        for lines in [Lines::InWords, Lines::InOneWrite, Lines::Whole] {
            let (without, with) = (found(lines, false).1, found(lines, true).1);
            assert!(without > 10, "{lines:?}: {without}");
            assert_eq!(with, 0, "{lines:?}");
        }
    }

    #[test]
    fn as_many_pieces_are_spoiled_as_were_asked_for() {
        let bridge = Bridge::still(3);
        let (near, far) = memory(&bridge);
        bridge.spoil(1);
        far.store_line(128, &[1; 8]).expect("inside");
        far.write(0, &[7; 16]).expect("inside");
        far.write(16, &[7; 16]).expect("inside");
        far.flush();
        bridge.arrive();
        let mut found = [0; 32];
        near.volatile().read_slice(&mut found, 0).expect("inside");
        assert_eq!(found.iter().filter(|byte| **byte != 7).count(), 1);
        assert_eq!((found[8], word(&near, 128)), (7 ^ 0x10, 1));
    }

    #[test]
    fn a_fence_keeps_stores_in_order() {
        for seed in 0..500 {
            let bridge = Bridge::still(seed);
            let (near, far) = memory(&bridge);
            far.write(200, &[7; 100]).expect("inside");
            far.flush();
            far.store(0, 1).expect("inside");
            for _ in 0..100 {
                bridge.step();
                if word(&near, 0) == 1 {
                    let mut found = [0; 100];
                    near.volatile().read_slice(&mut found, 200).expect("inside");
                    assert_eq!(found, [7; 100], "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn what_is_outside_is_not_stored_and_what_is_dropped_arrives() {
        let bridge = Bridge::new(1);
        let (near, far) = memory(&bridge);
        assert_eq!(far.store(4096, 1), Err(Errno::RANGE));
        assert_eq!(far.store(4, 1), Err(Errno::RANGE));
        assert_eq!(far.store_line(4096 - 56, &[1; 8]), Err(Errno::RANGE));
        assert_eq!(far.write(usize::MAX, b"x"), Err(Errno::RANGE));
        far.write(4092, b"last").expect("inside");
        let _held = live(&mut lock(&bridge.0).ways);
        drop(far);
        assert_eq!(
            near.volatile().read_obj::<[u8; 4]>(4092).expect("inside"),
            *b"last"
        );
    }
}
