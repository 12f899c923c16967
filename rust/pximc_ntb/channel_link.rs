// SPDX-License-Identifier: GPL-2.0-only

//! A channel as the layer above sees it: a [`Link`] to send by, and NAPI polls
//! that deliver.

use crate::{
    bell::Bell,
    channel::{
        Channel,
        MAX_FRAME, //
    },
    look::Look, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    net::napi::{
        Instance,
        Napi,
        Poll, //
    },
    trace, //
};
use mp_proto::{
    layout::CONTROL_RING,
    receiving::poll_queue,
    wire::{
        Envelope,
        PeerData,
        Priority, //
    }, //
};
use mp_transport::{
    details::LinkDetails,
    frame::Frame,
    memory::Memory,
    peer::{
        Link,
        Peer,
        SendError, //
    }, //
};

/// Polls one data queue of a channel, and the control ring with queue 0.
pub(crate) struct Poller {
    pub(crate) channel: Arc<Channel>,
    pub(crate) peer: Arc<Peer>,
    pub(crate) queue: u16,
    /// See [`Poll::linger_ns`].
    pub(crate) linger_ns: u64,
}

impl Poller {
    fn rings(&self) -> core::ops::RangeInclusive<u32> {
        let data = u32::from(self.queue) + 1;
        if self.queue == 0 {
            CONTROL_RING..=data
        } else {
            data..=data
        }
    }
}

impl Poll for Poller {
    fn linger_ns(&self) -> u64 {
        self.linger_ns
    }

    fn poll(&self, napi: &Napi, budget: u32) -> u32 {
        let channel = &*self.channel;
        channel.count_poll();
        if self.queue == 0 {
            channel.finish_copies();
        }
        let done = poll_queue(self.queue, budget, |number, most| {
            channel.receive(napi, &self.peer, number, most)
        });
        napi.flush_gro();
        for number in self.rings() {
            channel.report_completions(&self.peer, number);
        }
        done
    }

    fn arm(&self, watch_ns: u64) -> bool {
        let arm = |more, number| self.channel.arm_data(number, watch_ns) | more;
        self.rings().fold(false, arm)
    }

    fn mute(&self) {
        self.rings().for_each(|number| self.channel.mute(number));
    }

    fn is_ready(&self) -> bool {
        self.rings().any(|number| self.channel.is_ready(number))
    }
}

/// The epoch of a link.
#[derive(Clone, Copy)]
pub(crate) struct Epoch {
    /// Its number at this host.
    pub(crate) own: u64,
    /// Its number at the peer.
    pub(crate) peers: u64,
    /// The wire version that both speak in it.
    pub(crate) version: u8,
}

/// The part of a heartbeat interval for which a doorbell may be on its way.
const GRACE_PART: u64 = 10;

/// A channel with its pollers: what a peer is reached by.
pub(crate) struct ChannelLink {
    channel: Arc<Channel>,
    memory: Arc<Memory>,
    bridge: u32,
    epoch: Epoch,
    napis: SetOnceNapis,
}

/// The NAPI instances, one per data queue. They need the peer, which needs the
/// link, hence they come last.
type SetOnceNapis = kernel::sync::SetOnce<KVec<Arc<Instance<Poller>>>>;

impl ChannelLink {
    /// The link that `channel` is, with the memory of both ends, over that bridge, in
    /// that epoch.
    pub(crate) fn new(
        channel: Arc<Channel>,
        memory: Arc<Memory>,
        bridge: u32,
        epoch: Epoch,
    ) -> Self {
        Self {
            channel,
            memory,
            bridge,
            epoch,
            napis: SetOnceNapis::new(),
        }
    }

    /// The channel.
    pub(crate) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Nobody uses the peer's memory any more when this returns. Sleeps.
    pub(crate) fn end_memory(&self) {
        self.memory.end();
    }

    /// Add the pollers and start them; `bell` is what wakes them. A queue of which a side has
    /// gone to sleep is looked at once more after `look_ns` nanoseconds. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it was called before, `ENOMEM`, or an error of enabling NAPI. No poller runs
    /// then.
    pub(crate) fn start(
        &self,
        napis: KVec<Arc<Instance<Poller>>>,
        bell: &Bell,
        look_ns: u64,
    ) -> Result {
        let mut looks = KVec::new();
        for (queue, napi) in (0..).zip(&napis) {
            let channel = self.channel.clone();
            let look = Look::new(channel, napi.clone(), bell.clone(), queue, look_ns)?;
            looks.push(look, GFP_KERNEL)?;
        }
        let looks = Arc::new(looks, GFP_KERNEL)?;
        if !self.napis.populate(napis) {
            return Err(EBUSY);
        }
        // Before anything polls: a ring that goes to sleep has its second look.
        self.channel.set_looks(Some(looks));
        self.napis()
            .try_for_each(|napi| napi.enable())
            .inspect_err(|_| self.stop())?;
        self.poll_all();
        Ok(())
    }

    /// The pollers; none before [`start`](Self::start).
    fn napis(&self) -> impl Iterator<Item = &Arc<Instance<Poller>>> {
        self.napis.as_ref().into_iter().flatten()
    }

    /// Stop the pollers for good. May sleep.
    pub(crate) fn stop(&self) {
        self.channel.set_looks(None);
        self.napis().for_each(|napi| napi.close());
    }

    /// Poll every queue.
    fn poll_all(&self) {
        self.poll_where(|_| true);
    }

    /// A heartbeat, `interval` nanoseconds after the last one: the safety net under lost
    /// doorbells.
    pub(crate) fn heartbeat(&self, interval: u64) {
        self.channel.watch_sleep(interval / GRACE_PART);
    }

    /// Poll the queues that `wanted` chooses. Any context.
    pub(crate) fn poll_where(&self, wanted: impl Fn(u16) -> bool) {
        for (_, napi) in (0..).zip(self.napis()).filter(|(queue, _)| wanted(*queue)) {
            napi.schedule();
        }
    }
}

impl Link for ChannelLink {
    fn queues(&self) -> u16 {
        self.channel.queues()
    }

    fn max_frame(&self) -> usize {
        MAX_FRAME
    }

    fn send(&self, head: &Envelope, frame: &Frame, queue: u16) -> Result<u32, SendError> {
        let result = self.channel.send(head, frame, queue);
        if let Err(SendError::Full) = result {
            trace::ring_full(|| trace::Frame {
                src: head.msg.src.0,
                dst: head.msg.dst.0,
                func: head.msg.func,
                len: frame.body().len() as u32,
                queue,
                priority: frame.priority() == Priority::High,
            });
        }
        result
    }

    fn kick(&self, queue: u16) {
        self.channel.kick(queue);
    }

    fn arm_tx(&self, queue: u16) -> bool {
        let (progress, has_report) = self.channel.arm_tx(queue);
        if has_report {
            // The poll reports it; the caller need not wait for a doorbell.
            self.poll_where(|q| q == queue);
        }
        progress
    }

    fn arm_priority(&self) -> bool {
        self.channel.arm_priority()
    }

    fn bridge(&self) -> u32 {
        self.bridge
    }

    fn data(&self) -> PeerData {
        self.channel.peer_data()
    }

    fn counters(&self) -> &'static [&'static CStr] {
        Channel::counters()
    }

    fn counter(&self, index: usize) -> u64 {
        self.channel.counter(index)
    }

    fn memory(&self) -> Option<Arc<Memory>> {
        Some(self.memory.clone())
    }

    fn reset(&self) {
        self.channel.give_up();
    }

    fn details(&self) -> Option<LinkDetails> {
        Some(LinkDetails {
            epoch: self.epoch.own,
            peer_epoch: self.epoch.peers,
            version: self.epoch.version,
            ..self.channel.details()
        })
    }
}
