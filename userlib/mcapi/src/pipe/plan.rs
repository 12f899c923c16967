// SPDX-License-Identifier: MIT OR Apache-2.0

//! How the way for data of a channel is made: sizes of its windows, and what they are divided into.

use crate::{
    attributes::{BufferType, MemoryType},
    channel::{Direction, Kind},
    connection::Role,
    PACKET_MAX,
};
use mp_queue_pair::{register, Shape};
use std::ops::RangeInclusive;

/// Bytes of a line.
const LINE: u64 = 64;
/// Bytes of a window that are neither lines nor slots, at most.
const REST: u64 = 1024;
/// Windows are whole pages.
const PAGE: u64 = 4096;
/// Slots of a packet channel: the least, and the most.
pub(super) const SLOTS: RangeInclusive<u64> = 2..=16;
/// Lines of a packet channel: one for each slot, and some. Also those of news of values.
const PACKET_LINES: u32 = 32;
/// Lines of a scalar channel: so many scalars wait at most, and as many that were taken out of the
/// ring to be counted.
pub(super) const SCALAR_LINES: u32 = 256;
/// Lines of a sender's own window, which nothing comes into.
const BACK_LINES: u32 = 8;
/// The part of free memory that one channel takes.
const SHARE: u64 = 8;

/// How the way for data of a channel is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) port: u16,
    pub(crate) id: u64,
    pub(crate) role: Role,
    /// Most bytes of a packet.
    pub(crate) max_payload: u32,
    pub(crate) buffers: BufferType,
    pub(crate) memory: MemoryType,
    /// How long blocking calls wait, in milliseconds.
    pub(crate) timeout: u32,
    /// Most sends that are not complete, by calls that do not wait.
    pub(crate) send_buffers: u32,
    /// Of the channel; 0 is the highest.
    pub(crate) priority: u32,
}

impl Plan {
    /// In which order channels that something waits for are served: by priority (MC-CHAN-22), and
    /// whose port is lower first.
    pub(crate) fn rank(&self) -> (u32, u16) {
        (self.priority, self.port)
    }

    /// Whether packets are lent: the sender is told when they are released (MC-PKTRELTEST-1). What is
    /// in a state buffer is nobody's.
    pub(crate) fn is_lent(&self) -> bool {
        let what = (self.role.kind, self.buffers, self.memory);
        what == (Kind::Packets, BufferType::Fifo, MemoryType::Shared)
    }

    /// Most bytes of a packet (MC-BUF-4).
    pub(super) fn packet_max(&self) -> usize {
        PACKET_MAX.min(self.max_payload as usize)
    }

    /// Most bytes of a value in a state buffer.
    pub(super) fn value_max(&self) -> u32 {
        match self.role.kind {
            Kind::Packets => self.packet_max() as u32,
            Kind::Scalars => size_of::<u64>() as u32,
        }
    }

    pub(super) fn slot_size(&self) -> u64 {
        (self.packet_max() as u64).next_multiple_of(LINE).max(LINE)
    }

    /// Bytes of the receiver's window: least and most.
    pub(super) fn receiving(&self) -> RangeInclusive<u64> {
        let size = |lines: u32, slots: u64| {
            let bytes = u64::from(lines) * LINE + slots * self.slot_size() + REST;
            bytes.next_multiple_of(PAGE)
        };
        let value = register::size(self.value_max()).next_multiple_of(PAGE);
        match (self.buffers, self.role.kind) {
            (BufferType::Fifo, Kind::Packets) => {
                size(PACKET_LINES, *SLOTS.start())..=size(PACKET_LINES, *SLOTS.end())
            }
            (BufferType::Fifo, Kind::Scalars) => size(SCALAR_LINES, 0)..=size(SCALAR_LINES, 0),
            (BufferType::State, Kind::Packets) => {
                let (least, most) = SLOTS.into_inner();
                value + size(PACKET_LINES, least)..=value + size(PACKET_LINES, most)
            }
            (BufferType::State, Kind::Scalars) => {
                let all = value + size(PACKET_LINES, 0);
                all..=all
            }
        }
    }

    /// Sizes of the own and of the other window, where so much is free here.
    pub(crate) fn windows(&self, free: u64) -> [RangeInclusive<u64>; 2] {
        let (receiving, sending) = (self.receiving(), PAGE..=PAGE);
        match self.role.direction {
            Direction::Send => [sending, receiving],
            Direction::Receive => {
                let (least, most) = receiving.into_inner();
                let share = (free / SHARE / PAGE * PAGE).clamp(least, most);
                [least..=share, sending]
            }
        }
    }

    /// How the own window of so many bytes is divided.
    pub(super) fn shape(&self, size: u64) -> Shape {
        let slot_size = self.slot_size();
        let (lines, slots) = match (self.role.direction, self.buffers, self.role.kind) {
            (Direction::Send, ..) => (BACK_LINES, 0),
            // What is behind the ring is no slots of the pair.
            (Direction::Receive, BufferType::State, _) => (PACKET_LINES, 0),
            (Direction::Receive, BufferType::Fifo, Kind::Scalars) => (SCALAR_LINES, 0),
            (Direction::Receive, BufferType::Fifo, Kind::Packets) => {
                let slots = size.saturating_sub(u64::from(PACKET_LINES) * LINE + REST) / slot_size;
                (PACKET_LINES, slots.min(*SLOTS.end()))
            }
        };
        Shape {
            lines,
            slots: slots as u32,
            slot_size: slot_size as u32,
            streams: 1,
            partner_slots: *SLOTS.end() as u32,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One of an end for this kind.
    pub(in crate::pipe) fn plan(kind: Kind, direction: Direction, max_payload: u32) -> Plan {
        Plan {
            port: 1,
            id: 1,
            role: Role { kind, direction },
            max_payload,
            buffers: BufferType::Fifo,
            memory: MemoryType::Local,
            timeout: u32::MAX,
            send_buffers: 4,
            priority: 0,
        }
    }

    /// Windows have room for what they are divided into, and both ends ask for the same.
    #[test]
    fn windows_have_room_for_slots_and_lines() {
        for max in [0, 1, 64, 100, 4096, 65536] {
            for kind in [Kind::Packets, Kind::Scalars] {
                let receiver = plan(kind, Direction::Receive, max);
                let sender = plan(kind, Direction::Send, max);
                for free in [0, 1 << 20, 1 << 40] {
                    let [own, back] = receiver.windows(free);
                    let [out, there] = sender.windows(free);
                    assert_eq!(back, out);
                    assert!(there.start() == own.start() && there.end() >= own.end());
                    for size in [*own.start(), *own.end()] {
                        let shape = receiver.shape(size);
                        let used = u64::from(shape.lines) * LINE
                            + u64::from(shape.slots) * u64::from(shape.slot_size)
                            + REST;
                        assert!(used <= size, "{max} {size} {shape:?}");
                        let least = if kind == Kind::Packets { 2 } else { 0 };
                        assert!(shape.slots >= least);
                    }
                }
            }
        }
    }
}
