// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Registers: whatever is late, in pieces and out of order between fences, a reader gets whole values,
//! none older than the latest one that was there when it began to look, and at last the last one.

mod common;

use common::{Dice, Ram};
use mp_proto::memory::{Inbound, OutOfBounds, Outbound, Part};
use mp_proto::register::{self, Broken, Reader, Value, Writer};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

const WORD: usize = 8;
/// The register is in the middle of the memory.
const OFF: usize = 128;
const MOST: u32 = 200;

fn part() -> Part {
    let len = register::size(MOST) as usize;
    Part { off: OFF, len }
}

/// Words that are stored between two fences, and where.
type Group = Vec<(usize, [u8; WORD])>;

/// Memory behind a bridge: what is stored arrives word by word while the reader looks, in any order
/// between two fences.
struct Bridge {
    memory: Ram,
    dice: Dice,
    /// Words that are under way, by fences.
    groups: RefCell<VecDeque<Group>>,
    /// What the writer does next, whenever it gets a turn.
    left: Cell<u64>,
    writer: RefCell<Option<Writer>>,
}

impl Bridge {
    fn new(seed: u64, values: u64) -> Bridge {
        Bridge {
            memory: Ram::new(OFF + part().len + 64),
            dice: Dice::new(seed),
            groups: RefCell::new(VecDeque::from([Vec::new()])),
            left: Cell::new(values),
            writer: RefCell::new(Some(Writer::new(part(), MOST).unwrap())),
        }
    }

    /// Let one word arrive; false if none is under way.
    fn arrive(&self) -> bool {
        let mut groups = self.groups.borrow_mut();
        while groups.len() > 1 && groups[0].is_empty() {
            groups.pop_front();
        }
        let first = &mut groups[0];
        if first.is_empty() {
            return false;
        }
        let (off, bytes) = first.swap_remove(self.dice.below(first.len() as u64) as usize);
        self.memory.write(off, &bytes).unwrap();
        true
    }

    /// Write values and let words arrive, as chance has it.
    fn happen(&self) {
        if self.left.get() > 0 && self.dice.once_in(40) {
            // The memory calls this only while the reader looks.
            let mut writer = self.writer.borrow_mut().take().unwrap();
            let number = writer_turn(&mut writer, self, self.left.get());
            self.left.set(number);
            *self.writer.borrow_mut() = Some(writer);
        }
        for _ in 0..self.dice.below(5) {
            self.arrive();
        }
    }

    /// The latest value that is whole in the memory.
    fn arrived(&self) -> u64 {
        let cell = part().len / register::CELLS as usize;
        let done = |n: usize| self.memory.word(OFF + n * cell + 8);
        (0..register::CELLS as usize).map(done).max().unwrap()
    }
}

/// Bytes and kind of a value.
fn value(number: u64) -> (Vec<u8>, u8) {
    let len = number * 37 % u64::from(MOST + 1);
    let bytes = (0..len).map(|n| (number * 7 + n) as u8).collect();
    (bytes, number as u8)
}

/// Write the value that `left` are left after; how many then.
fn writer_turn(writer: &mut Writer, out: &Bridge, left: u64) -> u64 {
    let number = VALUES - left + 1;
    let (bytes, kind) = value(number);
    writer
        .write(out, kind, bytes.len(), |to| out.write(to.off, &bytes))
        .unwrap();
    left - 1
}

impl Outbound for Bridge {
    fn size(&self) -> usize {
        Inbound::size(&self.memory)
    }
    fn store_u64(&self, off: usize, val: u64) -> Result<(), OutOfBounds> {
        self.write(off, &val.to_le_bytes())
    }
    fn write(&self, off: usize, buf: &[u8]) -> Result<(), OutOfBounds> {
        let mut groups = self.groups.borrow_mut();
        let last = groups.back_mut().unwrap();
        for (at, bytes) in (off..).step_by(WORD).zip(buf.chunks(WORD)) {
            let mut word = [0; WORD];
            word[..bytes.len()].copy_from_slice(bytes);
            last.push((at, word));
        }
        Ok(())
    }
    fn wmb(&self) {
        self.groups.borrow_mut().push_back(Vec::new());
    }
    fn release(&self) {}
    fn mb(&self) {}
}

impl Inbound for Bridge {
    fn size(&self) -> usize {
        Inbound::size(&self.memory)
    }
    fn load_u64(&self, off: usize) -> Result<u64, OutOfBounds> {
        self.happen();
        self.memory.load_u64(off)
    }
    fn read(&self, off: usize, buf: &mut [u8]) -> Result<(), OutOfBounds> {
        for (at, bytes) in (off..).step_by(WORD).zip(buf.chunks_mut(WORD)) {
            self.happen();
            self.memory.read(at, bytes)?;
        }
        Ok(())
    }
    fn zero(&self, off: usize, len: usize) -> Result<(), OutOfBounds> {
        self.memory.zero(off, len)
    }
    fn rmb(&self) {}
}

const VALUES: u64 = 60;

/// Read the latest value.
fn read(reader: &mut Reader, from: &impl Inbound) -> Option<(Value, Vec<u8>)> {
    let mut bytes = Vec::new();
    let value = reader.read(from, |value| {
        bytes.resize(value.part.len, 0);
        from.read(value.part.off, &mut bytes)
    });
    value.unwrap().map(|value| (value, bytes))
}

/// MC-STATE-1: whole values, never an older one, and the last one at last.
#[test]
fn readers_get_whole_values_and_the_latest() {
    let (mut overtaken, mut seen) = (0, 0);
    for seed in 0..400 {
        let bridge = Bridge::new(seed, VALUES);
        let mut reader = Reader::new(part(), MOST).unwrap();
        let mut last = 0;
        while bridge.left.get() > 0 {
            let arrived = bridge.arrived();
            let Some((read, bytes)) = read(&mut reader, &bridge) else {
                // Nothing was there, or all that was copied was overwritten.
                overtaken += u32::from(arrived > 0);
                continue;
            };
            assert!(read.number >= arrived.max(last), "seed {seed}");
            assert_eq!((bytes, read.kind), value(read.number), "seed {seed}");
            last = read.number;
            seen += 1;
        }
        while bridge.arrive() {}
        assert_eq!(reader.has_news(&bridge), Ok(last < VALUES));
        let (latest, bytes) = read(&mut reader, &bridge).unwrap();
        assert_eq!((latest.number, bytes), (VALUES, value(VALUES).0));
        assert_eq!(reader.has_news(&bridge), Ok(false));
        // It is the latest one still.
        assert_eq!(read(&mut reader, &bridge).unwrap().0, latest);
    }
    assert!(seen > 400, "{seen}");
    assert!(overtaken < seen, "{overtaken} {seen}");
}

/// Values of all lengths, and none that is longer.
#[test]
fn values_have_the_length_that_they_were_written_with() {
    let memory = Ram::new(OFF + part().len);
    let mut writer = Writer::new(part(), MOST).unwrap();
    let mut reader = Reader::new(part(), MOST).unwrap();
    assert_eq!(reader.has_news(&memory), Ok(false));
    assert!(read(&mut reader, &memory).is_none());
    for len in [0, 1, 63, 64, 65, MOST as usize, 256] {
        let bytes = vec![len as u8; len];
        let fill = |to: Part| memory.write(to.off, &bytes);
        assert_eq!(writer.write(&memory, 3, len, fill), Ok(()));
        assert_eq!(reader.has_news(&memory), Ok(true));
        let (value, got) = read(&mut reader, &memory).unwrap();
        assert_eq!((value.kind, got), (3, bytes));
        reader.put_back();
        assert_eq!(reader.has_news(&memory), Ok(true));
        assert!(read(&mut reader, &memory).is_some());
    }
    assert_eq!(writer.write(&memory, 0, 257, |_| Ok(())), Err(OutOfBounds));
    for wrong in [
        Part { off: 32, ..part() },
        Part {
            len: part().len - 1,
            ..part()
        },
    ] {
        assert!(Writer::new(wrong, MOST).is_err() && Reader::new(wrong, MOST).is_err());
    }
}

/// A writer that lies breaks the register, and nothing outside of a value is copied.
#[test]
fn what_cannot_be_breaks_the_register() {
    let cell = part().len / register::CELLS as usize;
    let whole = |memory: &Ram, number: u64, what: u64| {
        let at = OFF + (number % register::CELLS) as usize * cell;
        for (off, word) in [(0, number), (8, number), (16, what)] {
            memory.set_word(at + off, word);
        }
    };
    for (what, is_right) in [
        (256, true),
        (257, false),
        (1 << 31, false),
        (1 << 40, false),
    ] {
        let memory = Ram::new(OFF + part().len);
        let mut reader = Reader::new(part(), MOST).unwrap();
        whole(&memory, 5, what);
        let read = reader.read(&memory, |value| {
            assert!(value.part.off + value.part.len <= OFF + part().len);
            Ok(())
        });
        assert_eq!(read.is_ok(), is_right, "{what:#x}");
    }
    let memory = Ram::new(OFF + part().len);
    let mut reader = Reader::new(part(), MOST).unwrap();
    whole(&memory, 6, 1);
    assert!(read(&mut reader, &memory).is_some());
    // A number of another cell, and one that is less than before.
    memory.set_word(OFF + 8, 7);
    assert_eq!(reader.has_news(&memory), Err(Broken));
    memory.set_word(OFF + 8, 0);
    whole(&memory, 2, 1);
    assert_eq!(reader.has_news(&memory), Err(Broken));
}
