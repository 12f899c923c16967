// SPDX-License-Identifier: MIT OR Apache-2.0

//! Addresses of packets that were sent, for `mcapi_pktchan_release_test` (MC-PKTRELTEST-1 to
//! MC-PKTRELTEST-3).

use mcapi::{Channel, Request, SEND_BUFFERS_MAX};
use std::{
    collections::{HashMap, TryReserveError, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Addresses that are kept of a channel: at least as many as can be on their way.
const KEPT: usize = SEND_BUFFERS_MAX as usize;

/// What packets of channels of shared memory are noted under that were closed. No handle is 0.
fn closed() -> Channel {
    Channel::from_raw(0)
}

/// The last packets of each channel that is open, as memory allows.
#[derive(Debug, Default)]
pub struct Sent(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    /// By their addresses: the last one of each channel, in the order in which they were sent.
    packets: HashMap<usize, Vec<Packet>>,
    /// Addresses and numbers of each channel's packets, the oldest first. Some are in `packets` no more.
    order: HashMap<Channel, VecDeque<(usize, u64)>>,
    /// Packets that were noted.
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    channel: Channel,
    number: u64,
    /// None: the call that has sent it has waited.
    request: Option<Request>,
}

impl Notes {
    fn note(
        &mut self,
        channel: Channel,
        address: usize,
        request: Option<Request>,
    ) -> Result<(), TryReserveError> {
        self.count += 1;
        let number = self.count;
        self.append(channel, address, number)?;
        self.packets.try_reserve(1)?;
        let packets = self.packets.entry(address).or_default();
        packets.retain(|packet| packet.channel != channel);
        packets.try_reserve(1)?;
        packets.push(Packet {
            channel,
            number,
            request,
        });
        Ok(())
    }

    /// Let a packet be the last one of a channel, in the place of the oldest one.
    fn append(
        &mut self,
        channel: Channel,
        address: usize,
        number: u64,
    ) -> Result<(), TryReserveError> {
        self.order.try_reserve(1)?;
        let order = self.order.entry(channel).or_default();
        let oldest = match order.len() == KEPT {
            true => order.pop_front(),
            false => None,
        };
        order.try_reserve(1)?;
        order.push_back((address, number));
        if let Some((address, number)) = oldest {
            self.drop_packets(address, |packet| packet.number == number);
        }
        Ok(())
    }

    /// Let a packet be one of those of closed channels.
    fn retire(&mut self, address: usize, number: u64) -> Result<(), TryReserveError> {
        let all = self.packets.get_mut(&address).into_iter().flatten();
        let mut found = false;
        for packet in all.filter(|packet| packet.number == number) {
            packet.channel = closed();
            found = true;
        }
        match found {
            true => self.append(closed(), address, number),
            false => Ok(()),
        }
    }

    /// Drop packets of an address.
    fn drop_packets(&mut self, address: usize, goes: impl Fn(&Packet) -> bool) {
        let Some(packets) = self.packets.get_mut(&address) else {
            return;
        };
        packets.retain(|packet| !goes(packet));
        if packets.is_empty() {
            self.packets.remove(&address);
        }
    }
}

impl Sent {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Note a packet. Where there is no memory for that, its address is not known, nor as that of an
    /// earlier one.
    pub fn note(&self, channel: Channel, address: usize, request: Option<Request>) {
        let mut notes = self.notes();
        if notes.note(channel, address, request).is_err() {
            notes.packets.remove(&address);
        }
    }

    /// Whether a packet at an address was sent, and by which request; the last one.
    pub fn find(&self, address: usize) -> Option<Option<Request>> {
        let notes = self.notes();
        let packet = notes.packets.get(&address)?.last()?;
        Some(packet.request)
    }

    /// Forget the packets of a channel.
    pub fn forget(&self, channel: Channel) {
        let mut notes = self.notes();
        for (address, _) in notes.order.remove(&channel).unwrap_or_default() {
            notes.drop_packets(address, |packet| packet.channel == channel);
        }
    }

    /// Note that a channel was closed whose receiver may have packets still: they stay known, so many of
    /// all such channels as of one. Where there is no memory for that, its packets are forgotten.
    pub fn retire(&self, channel: Channel) {
        let mut notes = self.notes();
        for (address, number) in notes.order.remove(&channel).unwrap_or_default() {
            if notes.retire(address, number).is_err() {
                notes.drop_packets(address, |packet| packet.number == number);
            }
        }
    }

    /// The number of the last packet.
    pub fn last(&self) -> u64 {
        self.notes().count
    }

    /// Forget what was sent from an address, up to the packet of a number: the address is not the program's
    /// memory any more.
    pub fn forget_until(&self, address: usize, last: u64) {
        self.notes()
            .drop_packets(address, |packet| packet.number <= last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// so many addresses of each channel as can be on their way.
    #[test]
    fn the_last_packets_of_each_channel_are_known() {
        let sent = Sent::default();
        let [one, other] = [1, 2].map(Channel::from_raw);
        let request = Request::from_raw(7);
        sent.note(other, 1, None);
        for address in 0..=KEPT {
            sent.note(one, 10 + address, Some(request));
        }
        sent.note(one, 10 + KEPT, None);
        assert_eq!(sent.find(1), Some(None));
        assert_eq!([sent.find(10), sent.find(11)], [None, None]);
        assert_eq!(sent.find(12), Some(Some(request)));
        assert_eq!(sent.find(10 + KEPT), Some(None));
        sent.forget(one);
        assert_eq!([sent.find(12), sent.find(1)], [None, Some(None)]);
    }

    /// MC-PKTRELTEST-1: packets of closed channels are known, so many of all of them.
    #[test]
    fn the_last_packets_of_closed_channels_are_known() {
        let sent = Sent::default();
        let request = Request::from_raw(7);
        for channel in 1..=3 {
            let [channel, address] = [channel, 10 * channel];
            sent.note(Channel::from_raw(channel), address as usize, Some(request));
            sent.note(Channel::from_raw(channel), 5, None);
            sent.retire(Channel::from_raw(channel));
            assert_eq!(sent.find(address as usize), Some(Some(request)));
            assert_eq!(sent.find(5), Some(None));
        }
        let next = Channel::from_raw(4);
        for address in 0..KEPT {
            sent.note(next, 100 + address, None);
        }
        sent.note(next, 10, None);
        sent.retire(next);
        assert_eq!([5, 20, 30, 100].map(|at| sent.find(at)), [None; 4]);
        assert_eq!(
            [10, 101, 99 + KEPT].map(|at| sent.find(at)),
            [Some(None); 3]
        );
        sent.forget(next);
        assert_eq!(sent.find(10), Some(None));
    }

    /// MC-PKTRELTEST-2: of an address that was sent on several channels the last send counts, and an
    /// earlier one does when the channel of that one is closed.
    #[test]
    fn the_last_send_of_an_address_counts() {
        let [one, other] = [1, 2].map(Channel::from_raw);
        let request = Request::from_raw(7);
        // Tables of their own, in an order of their own.
        for _ in 0..64 {
            let sent = Sent::default();
            sent.note(one, 5, None);
            sent.note(other, 5, Some(request));
            assert_eq!(sent.find(5), Some(Some(request)));
            sent.note(one, 5, None);
            assert_eq!(sent.find(5), Some(None));
            sent.forget(one);
            assert_eq!(sent.find(5), Some(Some(request)));
        }
    }
}
