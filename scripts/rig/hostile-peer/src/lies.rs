// SPDX-License-Identifier: GPL-2.0-only
//! The kinds of lies.
//!
//! | kind | what is written |
//! |---|---|
//! | `noise` | random bytes, anywhere |
//! | `index` | a control word with the tag of the epoch, or nearly so, and an index at a limit |
//! | `record` | a record that the ring takes, with lengths at their limits, published |
//! | `frame` | the same with true lengths, and headers of a service that lie |
//! | `hello` | the Hello with one part changed, sealed again |
//! | `beat` | a heartbeat |
//! | `mail` | the mailbox: another generation, length, address or version |
//! | `replay` | what stood there a while ago |
//! | `doorbell` | doorbell bits, and interrupts without them |
//!
//! The liar knows what its host knows: the epochs, and thereby the tags and marks.

use std::collections::VecDeque;
use std::io;

use mp_proto::layout::{Layout, BEAT_OFF, HELLO_OFF, MAX_RINGS, STATUS_LEN};
use mp_proto::link::{Hello, HELLO_SIZE};
use mp_proto::mailbox::{self, Mail};
use mp_proto::ring::UNIT;
use mp_proto::wire::{BlockHdr, MsgHdr, PeerId, Tag, TaggedIndex};
use mp_proto::{ether, fabric, manage};

use crate::dice::Dice;
use crate::victim::Victim;

/// Limits of 32 bits, and those of the protocol.
const LIMITS: [u32; 22] = [
    0,
    1,
    15,
    16,
    17,
    63,
    64,
    65,
    1023,
    1024,
    1025,
    4095,
    4096,
    65_535,
    1 << 16,
    1 << 20,
    1 << 24,
    (1 << 24) + 1,
    i32::MAX as u32,
    1 << 31,
    u32::MAX - 1,
    u32::MAX,
];
/// Copies that are kept for replays, and their most bytes.
const KEPT: usize = 32;
const LONGEST: u64 = 4096;

/// The kinds of lies, and how often they were told.
const KINDS: [&str; 9] = [
    "noise", "index", "record", "frame", "hello", "beat", "mail", "replay", "doorbell",
];

/// Who lies.
pub struct Liar<'a> {
    victim: Victim,
    dice: &'a Dice,
    kept: VecDeque<(u64, Vec<u8>)>,
    told: [u64; KINDS.len()],
}

impl<'a> Liar<'a> {
    /// A liar that has said nothing yet.
    pub fn new(victim: Victim, dice: &'a Dice) -> Self {
        Self {
            victim,
            dice,
            kept: VecDeque::new(),
            told: [0; KINDS.len()],
        }
    }

    /// Tell one lie.
    ///
    /// # Errors
    /// What the system reports.
    pub fn lie(&mut self) -> io::Result<()> {
        self.keep()?;
        let kind = self.dice.below(KINDS.len() as u64) as usize;
        self.told[kind] += 1;
        match KINDS[kind] {
            "noise" => self.noise(),
            "index" => self.index(),
            "record" => self.record(),
            "frame" => self.frame(),
            "hello" => self.hello(),
            "beat" => self.store_word(BEAT_OFF as u64, self.dice.roll()),
            "mail" => self.mail(),
            "replay" => self.replay(),
            _ => self.doorbell(),
        }
    }

    /// How often it told each kind, as JSON.
    pub fn summary(&self) -> String {
        let each = KINDS.iter().zip(self.told);
        let each: Vec<_> = each.map(|(kind, n)| format!("\"{kind}\": {n}")).collect();
        format!("{{{}}}", each.join(", "))
    }

    fn store_word(&self, at: u64, word: u64) -> io::Result<()> {
        self.victim.store(at, &word.to_le_bytes())
    }

    fn limit(&self) -> u32 {
        match self.dice.below(4) {
            0 => self.dice.roll() as u32,
            _ => self.dice.one_of(&LIMITS),
        }
    }

    /// The Hello that the liar's host has written.
    fn said(&self) -> io::Result<Option<Hello>> {
        let bytes = self.victim.load(HELLO_OFF as u64, HELLO_SIZE)?;
        Ok(bytes.first_chunk().and_then(Hello::decode))
    }

    /// The tag of what the liar's host writes.
    fn tag(&self) -> io::Result<Option<Tag>> {
        let said = self.said()?;
        Ok(said.map(|hello| Tag::new(hello.epoch, hello.echo)))
    }

    /// How the victim has divided its memory: as the planner does.
    fn layout(&self) -> Option<Layout> {
        Layout::plan(self.victim.len(), self.victim.queues()).ok()
    }

    fn noise(&self) -> io::Result<()> {
        let at = match self.dice.below(3) {
            0 => self.dice.below(STATUS_LEN as u64),
            _ => self.dice.below(self.victim.len()),
        };
        let bytes = self.dice.bytes(1 + self.dice.below(256) as usize);
        self.victim.store(at, &bytes)
    }

    fn ring(&self) -> u32 {
        match self.dice.below(4) {
            0 => self.dice.below(u64::from(MAX_RINGS)) as u32,
            other => (other % 2) as u32,
        }
    }

    fn index(&self) -> io::Result<()> {
        let Some(words) = mp_proto::layout::words(self.ring()) else {
            return Ok(());
        };
        let all = [words.prod, words.want_space, words.cons, words.want_data];
        let at = self.dice.one_of(&all) as u64;
        let old = self.victim.word(at)? as u32;
        let index = match self.dice.below(3) {
            0 => self.limit(),
            1 => old.wrapping_add(self.limit()),
            _ => old.wrapping_sub(self.limit()),
        };
        let word = match self.tag()? {
            Some(tag) if !self.dice.once_in(8) => TaggedIndex { tag, index }.word(),
            _ => self.dice.roll() << 32 | u64::from(index),
        };
        self.store_word(at, word)
    }

    /// Publish a record in the next place of a ring, as far as that is known.
    fn publish(&self, ring: u32, head: BlockHdr, rest: &[u8]) -> io::Result<()> {
        let place = self.layout().and_then(|layout| layout.ring(ring));
        let (Some(tag), Some(place)) = (self.tag()?, place) else {
            return Ok(());
        };
        let index = self.victim.word(place.prod as u64)? as u32;
        let at = u64::from(index.wrapping_mul(UNIT) & (place.size - 1));
        let mark = match self.dice.once_in(16) {
            true => self.dice.roll() as u32,
            false => mark(tag, index),
        };
        let start = place.data as u64 + at;
        let mut record = BlockHdr { mark, ..head }.encode().to_vec();
        record.extend_from_slice(rest);
        // What goes on at the ring's start.
        let (before, after) =
            record.split_at(record.len().min((u64::from(place.size) - at) as usize));
        self.victim.store(start, before)?;
        self.victim.store(place.data as u64, after)?;
        let units = (record.len() as u32).div_ceil(UNIT);
        let index = index.wrapping_add(units);
        self.store_word(place.prod as u64, TaggedIndex { tag, index }.word())?;
        self.bell()
    }

    fn record(&self) -> io::Result<()> {
        let head = BlockHdr {
            buffer_len: self.limit(),
            hdr_len: self.limit(),
            len: self.limit(),
            mark: 0,
        };
        let rest = self.dice.bytes(self.dice.below(512) as usize);
        self.publish(self.ring(), head, &rest)
    }

    fn frame(&self) -> io::Result<()> {
        let func = match self.dice.below(5) {
            0 => self.dice.roll() as u32,
            n => [
                fabric::FUNC_ID,
                fabric::FUNC_ID,
                manage::FUNC_ID,
                ether::FUNC_ID,
            ][n as usize - 1],
        };
        let header = self.header(func);
        let data = self.words(self.dice.below(64) as usize);
        let liar = self.said()?.map_or(PeerId(1), |hello| hello.identity.id);
        let truth = header.len() + data.len();
        let msg = MsgHdr {
            dst: self
                .dice
                .one_of(&[PeerId::RP, PeerId::RP, liar, PeerId::SELF, PeerId(7)]),
            src: self.dice.one_of(&[liar, liar, liar, PeerId::RP, PeerId(9)]),
            len: match self.dice.once_in(8) {
                true => self.limit(),
                false => truth as u32,
            },
            func,
        };
        let mut rest = msg.encode().to_vec();
        rest.extend_from_slice(&header);
        let hdr_len = rest.len() as u32;
        rest.extend_from_slice(&data);
        let head = BlockHdr {
            buffer_len: 16 + rest.len() as u32,
            hdr_len,
            len: data.len() as u32,
            mark: 0,
        };
        self.publish(self.dice.below(2) as u32, head, &rest)
    }

    /// Words at their limits, and a few that are small.
    fn words(&self, count: usize) -> Vec<u8> {
        let word = |_| match self.dice.below(2) {
            0 => self.dice.below(16) as u32,
            _ => self.limit(),
        };
        (0..count).map(word).flat_map(u32::to_le_bytes).collect()
    }

    /// A function header: for services of processes one of their kind, with the number of
    /// a life that may have been seen.
    fn header(&self, func: u32) -> Vec<u8> {
        if func != fabric::FUNC_ID {
            return self.words(self.dice.below(16) as usize);
        }
        let mut header = (1 + self.dice.below(8) as u32).to_le_bytes().to_vec();
        let seen = self.kept.iter().find_map(|(_, bytes)| life_in(bytes));
        let life = seen.filter(|_| !self.dice.once_in(4));
        header.extend(life.unwrap_or(self.limit()).to_le_bytes());
        header.extend(self.words(2));
        header
    }

    fn hello(&self) -> io::Result<()> {
        let Some(mut hello) = self.said()? else {
            return self.noise();
        };
        let wide = self
            .dice
            .one_of(&[0, 1, 63, 64, 4095, 4096, 1 << 20, 1 << 40, u64::MAX]);
        match self.dice.below(17) {
            0 => hello.goodbye = true,
            1 => hello.epoch = self.dice.roll(),
            2 => hello.echo = self.dice.roll(),
            3 => hello.identity.id = PeerId(self.limit()),
            4 => hello.identity.index = self.limit(),
            5 => hello.identity.your_id = PeerId(self.limit()),
            6 => hello.identity.your_index = self.limit(),
            7 => hello.identity.features = self.limit(),
            8 => hello.layout.queues = self.limit(),
            9 => hello.layout.len = wide,
            10 => hello.layout.control_off = wide,
            11 => hello.layout.data_size = self.limit(),
            12 => hello.layout.arena_len = wide,
            13 => hello.support.oldest = self.limit() as u8,
            14 => hello.support.newest = self.limit() as u8,
            15 => hello.support.features = self.limit() as u16,
            _ => hello.further.commons_len = wide,
        }
        self.victim.store(HELLO_OFF as u64, &hello.encode())?;
        self.bell()
    }

    fn mail(&self) -> io::Result<()> {
        let pad = 4 * self.victim.ports().liar;
        let mail = Mail {
            generation: self.dice.roll() as u16,
            echo: self.dice.roll() as u16,
            len: self
                .dice
                .one_of(&[0, 4096, 1 << 16, 1 << 22, 1 << 40, u64::MAX])
                & !0xfff,
            addr: self.dice.roll() & !0xfff,
        };
        let mut words = mail
            .encode()
            .unwrap_or([self.dice.roll() as u32; mailbox::WORDS]);
        if self.dice.once_in(4) {
            let at = self.dice.below(mailbox::WORDS as u64) as usize;
            words[at] = self.dice.roll() as u32;
        }
        for (word, value) in mailbox::stores(&words) {
            self.victim.scratchpad(pad + word as u64, value)?;
        }
        self.bell()
    }

    /// Keep a copy of something, now and then.
    fn keep(&mut self) -> io::Result<()> {
        if !self.dice.once_in(4) {
            return Ok(());
        }
        let at = match self.dice.below(2) {
            0 => 0,
            _ => self.dice.below(self.victim.len() / 64) * 64,
        };
        let count = 8 + self.dice.below(LONGEST - 8);
        let bytes = self.victim.load(at, count as usize)?;
        self.kept.push_back((at, bytes));
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        Ok(())
    }

    fn replay(&self) -> io::Result<()> {
        let which = self.dice.below(self.kept.len() as u64) as usize;
        match self.kept.get(which) {
            Some((at, bytes)) => self.victim.store(*at, bytes),
            None => Ok(()),
        }
    }

    fn doorbell(&self) -> io::Result<()> {
        let bits = match self.dice.below(3) {
            0 => u64::MAX,
            _ => self.dice.roll(),
        };
        self.victim.doorbells(bits)?;
        self.bell()
    }

    fn bell(&self) -> io::Result<()> {
        let vectors = self.victim.ports().vectors;
        self.victim.interrupt(self.dice.below(vectors))
    }
}

/// The number of the victim's user service in a header that its peer has sent it.
fn life_in(bytes: &[u8]) -> Option<u32> {
    let func = fabric::FUNC_ID.to_le_bytes();
    let at = bytes.windows(4).position(|word| word == func)?;
    let life = bytes.get(at + 8..at + 12)?.first_chunk()?;
    Some(u32::from_le_bytes(*life)).filter(|life| *life != 0)
}

/// The mark of the block at a unit (Documentation/wire-format.md, section 4).
fn mark(tag: Tag, index: u32) -> u32 {
    (tag.value() ^ index.wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::victim::Ports;
    use mp_proto::link::{Further, Identity, Role};
    use mp_proto::version::WIRE;
    use std::fs;
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;

    const LEN: u64 = 256 << 10;
    const OUTSIDE: u8 = 0x5a;

    /// RAM in which the middle is the liar's, with a Hello in it.
    fn ram() -> Vec<u8> {
        let hello = Hello {
            goodbye: false,
            epoch: 7,
            echo: 9,
            identity: Identity {
                role: Role::Endpoint,
                id: PeerId(0x100),
                index: 1,
                your_id: PeerId::SELF,
                your_index: 0,
                features: 0,
            },
            layout: Layout::plan(LEN, 1).unwrap(),
            further: Further::default(),
            support: WIRE,
        };
        let mut ram = vec![OUTSIDE; 3 * LEN as usize];
        ram[LEN as usize..2 * LEN as usize].fill(0);
        ram[LEN as usize..][..HELLO_SIZE].copy_from_slice(&hello.encode());
        ram
    }

    /// What a seed makes of it, and how often it told each kind of lie.
    fn told(dir: &Path, seed: u64, count: usize) -> (Vec<u8>, String) {
        let (file, socket) = (
            dir.join(format!("ram{seed}")),
            dir.join(format!("{seed}.sock")),
        );
        fs::write(&file, ram()).unwrap();
        let _ = fs::remove_file(&socket);
        let server = UnixDatagram::bind(&socket).unwrap();
        server.set_nonblocking(true).unwrap();
        let ports = Ports {
            victim: 0,
            liar: 1,
            vectors: 8,
        };
        let dice = Dice::new(seed);
        let victim = Victim::open(&file, LEN, LEN, 1, &socket, ports).unwrap();
        let mut liar = Liar::new(victim, &dice);
        for _ in 0..count {
            liar.lie().unwrap();
            while server.recv(&mut [0; 64]).is_ok() {}
        }
        (fs::read(&file).unwrap(), liar.summary())
    }

    #[test]
    fn a_liar_tells_all_kinds_of_lies_and_never_writes_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (ram, summary) = told(dir.path(), 1, 2000);
        let (before, rest) = ram.split_at(LEN as usize);
        let (own, after) = rest.split_at(LEN as usize);
        assert!(own.iter().any(|byte| *byte != 0));
        assert!(before.iter().chain(after).all(|byte| *byte == OUTSIDE));
        assert!(!summary.contains(": 0"), "{summary}");
    }

    #[test]
    fn the_same_seed_tells_the_same_lies() {
        let dir = tempfile::tempdir().unwrap();
        let first = told(dir.path(), 2, 500);
        assert!(first == told(dir.path(), 2, 500));
        assert!(first.0 != told(dir.path(), 3, 500).0);
    }
}
