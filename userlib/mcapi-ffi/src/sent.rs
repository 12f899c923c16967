// SPDX-License-Identifier: MIT OR Apache-2.0

//! Addresses of packets that were sent, for `mcapi_pktchan_release_test` (MC-PKTRELTEST-1 to
//! MC-PKTRELTEST-3).

use mcapi::{Channel, Request, SEND_BUFFERS_MAX};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Addresses that are kept of a channel: at least as many as can be on their way.
const KEPT: usize = SEND_BUFFERS_MAX as usize;

/// The last packets of each channel that is open.
#[derive(Debug, Default)]
pub struct Sent(Mutex<HashMap<Channel, VecDeque<Packet>>>);

#[derive(Clone, Copy, Debug)]
struct Packet {
    address: usize,
    /// None: the call that has sent it has waited.
    request: Option<Request>,
}

impl Sent {
    fn channels(&self) -> MutexGuard<'_, HashMap<Channel, VecDeque<Packet>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Note a packet.
    pub fn note(&self, channel: Channel, address: usize, request: Option<Request>) {
        let mut channels = self.channels();
        let packets = channels.entry(channel).or_default();
        if packets.len() == KEPT {
            packets.pop_front();
        }
        packets.push_back(Packet { address, request });
    }

    /// Whether a packet at an address was sent, and by which request; the last one.
    pub fn find(&self, address: usize) -> Option<Option<Request>> {
        let channels = self.channels();
        let mut all = channels.values().flat_map(|packets| packets.iter().rev());
        let packet = all.find(|packet| packet.address == address)?;
        Some(packet.request)
    }

    /// Forget the packets of a channel.
    pub fn forget(&self, channel: Channel) {
        self.channels().remove(&channel);
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
}
