// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a host writes into its peer's status page: who it is and what it has, and a heartbeat.

use crate::layout::{Layout, BEAT_OFF, HELLO_OFF};
use crate::mailbox::VERSION;
use crate::memory::{Inbound, OutOfBounds, Outbound};
use crate::version::Support;
use crate::wire::{get_u32, get_u64, mix, put_u32, put_u64, PeerId};

/// The part a host plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Root processor.
    Root,
    /// Endpoint processor.
    Endpoint,
}

/// Feature bit: the writer, an endpoint, obeys another root processor than the reader.
pub const FEATURE_OTHER_ROOT: u32 = 1;

/// Who a host is, and who it takes its peer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The writer's part.
    pub role: Role,
    /// The writer's id; [`PeerId::SELF`] while an endpoint does not know it.
    pub id: PeerId,
    /// The writer's index (IDT-ID-5), zero for the RP or while unknown.
    pub index: u32,
    /// The id that the RP gives to the reader; [`PeerId::SELF`] from anybody else.
    pub your_id: PeerId,
    /// The index that the RP gives to the reader (IDT-ID-5); zero from anybody else.
    pub your_index: u32,
    /// Bits for optional features; a reader ignores those it does not know.
    pub features: u32,
}

/// What leads to a host besides the window of its inbound memory; zero: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Further {
    /// Bytes of the commons that the writer leads its second window to; whole pages.
    pub commons_len: u64,
    /// Bus address of the commons; needed where the sender programs the translation.
    pub commons_addr: u64,
    /// Windows behind the second one that the writer leads to memory of its choice.
    pub exposed: u32,
}

/// What a host writes at the start of its peer's status page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The writer leaves: an orderly end of the epoch.
    pub goodbye: bool,
    /// The writer's epoch, never zero.
    pub epoch: u64,
    /// The reader's epoch as the writer saw it, zero before that.
    pub echo: u64,
    /// Who the writer is.
    pub identity: Identity,
    /// How the writer divided its inbound memory for the reader.
    pub layout: Layout,
    /// The writer's further windows for the reader.
    pub further: Further,
    /// The wire versions that the writer speaks.
    pub support: Support,
}

/// Size of a [`Hello`] in memory, in bytes.
pub const HELLO_SIZE: usize = 128;
const SEAL_OFF: usize = HELLO_SIZE - 8;
const HELLO_MAGIC: u32 = 0x4845_504d;
const FLAG_GOODBYE: u32 = 1 << 8;
const FLAG_ROOT: u32 = 1 << 9;

impl Hello {
    /// The bytes in memory. The last word seals the others, so that a torn Hello is recognised.
    pub fn encode(&self) -> [u8; HELLO_SIZE] {
        let mut b = [0; HELLO_SIZE];
        let goodbye = if self.goodbye { FLAG_GOODBYE } else { 0 };
        let root = match self.identity.role {
            Role::Root => FLAG_ROOT,
            Role::Endpoint => 0,
        };
        put_u32(&mut b, 0, HELLO_MAGIC);
        put_u32(&mut b, 4, u32::from(VERSION) | goodbye | root);
        put_u64(&mut b, 8, self.epoch);
        put_u64(&mut b, 16, self.echo);
        put_u32(&mut b, 24, self.identity.id.0);
        put_u32(&mut b, 28, self.identity.index);
        put_u32(&mut b, 32, self.identity.your_id.0);
        put_u32(&mut b, 36, self.identity.your_index);
        put_u32(&mut b, 40, self.identity.features);
        put_u32(&mut b, 44, self.layout.queues);
        put_u64(&mut b, 48, self.layout.len);
        put_u64(&mut b, 56, self.layout.control_off);
        put_u64(&mut b, 64, self.layout.data_off);
        put_u32(&mut b, 72, self.layout.control_size);
        put_u32(&mut b, 76, self.layout.data_size);
        put_u64(&mut b, 80, self.layout.arena_off);
        put_u64(&mut b, 88, self.layout.arena_len);
        put_u64(&mut b, 96, self.further.commons_len);
        put_u64(&mut b, 104, self.further.commons_addr);
        put_u32(&mut b, 112, self.further.exposed);
        put_u32(&mut b, 116, self.support.encode());
        let seal = seal(&b);
        put_u64(&mut b, SEAL_OFF, seal);
        b
    }

    /// The Hello in `b`; `None` when there is none, when it is torn, or when it is of another
    /// bootstrap.
    pub fn decode(b: &[u8; HELLO_SIZE]) -> Option<Hello> {
        let flags = get_u32(b, 4);
        let sealed = get_u64(b, SEAL_OFF) == seal(b);
        if !sealed || get_u32(b, 0) != HELLO_MAGIC || flags & 0xff != u32::from(VERSION) {
            return None;
        }
        let role = if flags & FLAG_ROOT != 0 {
            Role::Root
        } else {
            Role::Endpoint
        };
        // The first release left this word zero.
        let support = Support::decode(get_u32(b, 116), Support::only(1))?;
        let epoch = get_u64(b, 8);
        (epoch != 0).then_some(Hello {
            goodbye: flags & FLAG_GOODBYE != 0,
            epoch,
            echo: get_u64(b, 16),
            identity: Identity {
                role,
                id: PeerId(get_u32(b, 24)),
                index: get_u32(b, 28),
                your_id: PeerId(get_u32(b, 32)),
                your_index: get_u32(b, 36),
                features: get_u32(b, 40),
            },
            layout: Layout {
                queues: get_u32(b, 44),
                len: get_u64(b, 48),
                control_off: get_u64(b, 56),
                data_off: get_u64(b, 64),
                control_size: get_u32(b, 72),
                data_size: get_u32(b, 76),
                arena_off: get_u64(b, 80),
                arena_len: get_u64(b, 88),
            },
            further: Further {
                commons_len: get_u64(b, 96),
                commons_addr: get_u64(b, 104),
                exposed: get_u32(b, 112),
            },
            support,
        })
    }

    /// Copy the peer's Hello out of the own status page and decode it.
    pub fn read(inb: &(impl Inbound + ?Sized)) -> Option<Hello> {
        let mut b = [0; HELLO_SIZE];
        inb.read(HELLO_OFF, &mut b).ok()?;
        Hello::decode(&b)
    }

    /// Write this Hello into the peer's status page.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the window is smaller than a status page.
    pub fn write(&self, out: &(impl Outbound + ?Sized)) -> Result<(), OutOfBounds> {
        let b = self.encode();
        for off in (0..HELLO_SIZE).step_by(8) {
            out.store_u64(HELLO_OFF + off, get_u64(&b, off))?;
        }
        out.wmb();
        Ok(())
    }
}

/// The heartbeat in the own status page; any change of it is a sign of life.
///
/// # Errors
/// [`OutOfBounds`] when the memory is smaller than a status page.
pub fn read_beat(inb: &(impl Inbound + ?Sized)) -> Result<u64, OutOfBounds> {
    inb.load_u64(BEAT_OFF)
}

/// Write a heartbeat into the peer's status page.
///
/// # Errors
/// [`OutOfBounds`] when the window is smaller than a status page.
pub fn write_beat(out: &(impl Outbound + ?Sized), beat: u64) -> Result<(), OutOfBounds> {
    out.store_u64(BEAT_OFF, beat)?;
    out.wmb();
    Ok(())
}

fn seal(b: &[u8; HELLO_SIZE]) -> u64 {
    (0..SEAL_OFF)
        .step_by(8)
        .fold(1, |sum, off| mix(sum ^ get_u64(b, off)).wrapping_add(sum))
}
