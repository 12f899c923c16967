// SPDX-License-Identifier: GPL-2.0-only

//! The interface: a network device to the stack, a function service to the
//! fabric.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc,
        ArcBorrow, //
    }, //
};
use mp_kernel::{
    error,
    net::{
        device::{
            self,
            Config,
            Device,
            Feature,
            Features,
            Loss,
            NetDevice,
            PacketRef,
            Transmit,
            TxQueue, //
        },
        ethtool::{
            self,
            Channels,
            Coalesce, //
        },
        rtnl::{
            self,
            Rtnl, //
        },
        skb::SkBuff, //
    },
    random,
    sync::RcuArc,
    time, //
};
use mp_proto::{
    ether::{
        self,
        Header,
        Malformed,
        PacketInfo, //
    },
    fdb::{
        classify,
        Class,
        Fdb,
        Learned,
        Mac,
        Slot, //
    },
    flood::{
        bit,
        PeerSet, //
    },
    queues::{
        self,
        Queues,
        MAX_PEERS,
        MAX_QUEUES, //
    }, //
};
use mp_transport::{
    frame::{
        RxContext,
        RxFrame, //
    },
    function::Function,
    peer::{
        Peer,
        SendError, //
    },
    service, //
};

use crate::{
    flood::Flood,
    packet,
    port::{
        Port,
        Sent, //
    },
    stats::Counters, //
};

/// Addresses that the forwarding database can hold.
const ADDRESSES: usize = 4096;

/// Time after which an address that was not heard is forgotten.
const AGE_NS: u64 = 300 * 1_000_000_000;

/// Packets that are sent before the peer is told, while more follow.
const BATCH: u32 = 16;

/// Longest time that packets to all peers may be made to wait for one, in milliseconds.
const MAX_FLOOD_WAIT_MS: u32 = 10_000;

const NS_PER_MS: u64 = 1_000_000;

/// Payload of the largest packet at first, in bytes.
const MTU: u32 = 1500;

/// Smallest MTU, in bytes.
const MIN_MTU: u32 = 68;

/// How many peers and queues there may be, and how long one waits for another.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    peers: u32,
    queues: Queues,
    /// Nanoseconds that packets to all peers wait for one of them at most.
    flood_wait: u64,
}

impl Limits {
    /// # Errors
    ///
    /// `EINVAL`, with a message, if one is out of range.
    pub(crate) fn new(peers: u32, queues: u32, flood_wait_ms: u32) -> Result<Self> {
        if !(1..=MAX_PEERS).contains(&peers) {
            pr_err!("peers={} is out of range: use 1 to {}\n", peers, MAX_PEERS);
            return Err(EINVAL);
        }
        let Some(queues) = queues.try_into().ok().and_then(Queues::new) else {
            pr_err!(
                "queues={} is out of range: use 1 to {}\n",
                queues,
                MAX_QUEUES
            );
            return Err(EINVAL);
        };
        if !(1..=MAX_FLOOD_WAIT_MS).contains(&flood_wait_ms) {
            pr_err!(
                "flood_wait_ms={} is out of range: use 1 to {}\n",
                flood_wait_ms,
                MAX_FLOOD_WAIT_MS
            );
            return Err(EINVAL);
        }
        Ok(Self {
            peers,
            queues,
            flood_wait: u64::from(flood_wait_ms) * NS_PER_MS,
        })
    }
}

/// What the parts of the interface share.
pub(crate) struct Shared {
    pub(crate) device: Arc<Device>,
    pub(crate) counters: Counters,
    /// The ways to the peers, by index.
    ports: KVec<RcuArc<Port>>,
}

impl Shared {
    /// Call `f` with the port of each peer in `peers` that is there.
    pub(crate) fn for_ports(&self, peers: PeerSet, mut f: impl FnMut(&Port)) {
        let guard = rcu::read_lock();
        let mut rest = peers;
        while rest != 0 {
            let index = rest.trailing_zeros();
            rest &= rest - 1;
            if let Some(port) = self.port(index, &guard) {
                f(&port);
            }
        }
    }

    fn port<'g>(&self, index: u32, guard: &'g rcu::Guard) -> Option<ArcBorrow<'g, Port>> {
        self.ports.get(index as usize)?.load(guard)
    }
}

/// The interface.
pub(crate) struct Interface {
    shared: Arc<Shared>,
    limits: Limits,
    fdb: Fdb<KVec<Slot>>,
    flood: Flood,
    /// The peers that are there; changed under RTNL.
    peers: Atomic<PeerSet>,
    /// Rings per peer that are used for packets to one peer.
    channels: Atomic<u32>,
    /// Packets that are sent before the peer is told.
    batch: Atomic<u32>,
    /// Whether a peer of another version was complained of.
    complained: Atomic<bool>,
}

impl Interface {
    /// Make the interface. The stack does not know it yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(limits: Limits) -> Result<Arc<Self>> {
        let on = Features::segmentation()
            | Feature::ScatterGather
            | Feature::Checksum
            | Feature::RxChecksum;
        let tags = Feature::VlanTx | Feature::VlanRx;
        let device = Device::new(&Config {
            name: c"ntb%d",
            tx_queues: limits.queues.total(limits.peers),
            rx_queues: limits.queues.most().into(),
            features: on | tags,
            switchable: on | tags,
            vlan_features: on,
            mtu: (MTU, MIN_MTU, ether::MAX_MTU),
            address: None,
        })?;
        let mut ports = KVec::new();
        for _ in 0..limits.peers {
            ports.push(RcuArc::empty(), GFP_KERNEL)?;
        }
        let mut slots = KVec::with_capacity(ADDRESSES, GFP_KERNEL)?;
        for _ in 0..ADDRESSES {
            slots.push(Slot::new(), GFP_KERNEL)?;
        }
        let shared = Arc::new(
            Shared {
                device,
                counters: Counters::default(),
                ports,
            },
            GFP_KERNEL,
        )?;
        let interface = Self {
            flood: Flood::new(&shared, limits.flood_wait)?,
            shared,
            limits,
            fdb: Fdb::new(slots, random::next_u64(), AGE_NS),
            peers: Atomic::new(0),
            channels: Atomic::new(limits.queues.most().into()),
            batch: Atomic::new(BATCH),
            complained: Atomic::new(false),
        };
        Ok(Arc::new(interface, GFP_KERNEL)?)
    }

    /// The network device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.shared.device
    }

    /// The port behind which a station was heard.
    #[inline]
    fn find(&self, address: &Mac) -> Option<u32> {
        match classify(address) {
            Class::Unicast => self.fdb.lookup(address, time::coarse_ns()).map(u32::from),
            Class::Multicast | Class::Broadcast => None,
        }
    }

    /// Note that a station was heard behind a peer.
    #[inline]
    fn learn(&self, address: &Mac, peer: &Peer) {
        let port = peer.index() as u16;
        self.count_learned(self.fdb.learn(address, port, time::coarse_ns()));
    }

    /// Note that a peer has told its address.
    fn learn_announced(&self, address: &Mac, peer: &Peer) {
        let port = peer.index() as u16;
        self.count_learned(self.fdb.learn_lasting(address, port, time::coarse_ns()));
    }

    #[inline]
    fn count_learned(&self, learned: Learned) {
        match learned {
            Learned::Known | Learned::Refused => {}
            Learned::Moved(_) => self.shared.counters.fdb_moved.add(1),
            Learned::New | Learned::Replaced => self.shared.counters.fdb_learned.add(1),
        }
    }

    /// Send a packet to the peer whose queue it came through.
    fn send_to(
        &self,
        queue: TxQueue<'_>,
        (index, ring): (u32, usize),
        skb: SkBuff,
        more: bool,
    ) -> Sent {
        let guard = rcu::read_lock();
        let Some(port) = self.shared.port(index, &guard) else {
            return Sent::No(SendError::Gone);
        };
        port.send(&queue, ring, skb, more, self.batch.load(Relaxed))
    }

    /// Send a packet to all peers, or to the only one that it concerns.
    fn send_to_all(&self, skb: SkBuff) -> Sent {
        let everyone = self.peers.load(Relaxed);
        let known = skb.destination().and_then(|to| self.find(&to));
        let peers = known.map_or(everyone, |index| everyone & bit(index));
        if peers == 0 {
            return Sent::No(SendError::Gone);
        }
        if known.is_none() {
            self.shared.counters.tx_flooded.add(1);
        }
        self.flood.send(skb, peers)
    }

    fn count_unsent(&self, e: SendError) {
        let counters = &self.shared.counters;
        let device = self.device();
        match e {
            SendError::Gone => {
                counters.tx_no_peer.add(1);
                device.count_loss(Loss::TxDropped);
            }
            SendError::Body(e) if e == ENOMEM => {
                counters.tx_no_memory.add(1);
                device.count_loss(Loss::TxDropped);
            }
            SendError::Full | SendError::TooLarge | SendError::Body(_) => {
                device.count_loss(Loss::TxError);
            }
        }
    }

    /// A frame with a packet has arrived.
    fn receive_packet(&self, rx: &RxContext<'_>, frame: &RxFrame<'_>, info: &PacketInfo) -> Result {
        let device = self.device();
        if !device.is_running() {
            self.shared.counters.rx_while_down.add(1);
            return Err(error::net_down());
        }
        let skb = packet::from_frame(device, rx, frame, info).inspect_err(|e| {
            if *e == ENOMEM {
                self.shared.counters.rx_no_memory.add(1);
                device.count_loss(Loss::RxDropped);
            } else {
                self.count_malformed();
            }
        })?;
        if let Some(from) = packet::source(&skb) {
            self.learn(&from, frame.src());
        }
        device.count_rx(skb.len());
        device.deliver(rx.napi, skb, rx.last)
    }

    fn count_malformed(&self) {
        self.shared.counters.rx_malformed.add(1);
        self.device().count_loss(Loss::RxMalformed);
    }

    /// Say once what is wrong with a peer of another version.
    fn complain(&self, peer: &Peer, version: u8) {
        self.shared.counters.rx_version.add(1);
        self.device().count_loss(Loss::RxError);
        if !self.complained.xchg(true, Relaxed) {
            pr_warn!(
                "peer {:#x} speaks version {} of virtual Ethernet, this host version {}: \
                 load the same modules on both\n",
                peer.id().0,
                version,
                ether::VERSION
            );
        }
    }

    /// Fit the interface to the peers that are there: queues, longest packet,
    /// address and carrier.
    fn follow_peers(&self, rtnl: &Rtnl) {
        let device = self.device();
        let peers = self.peers.load(Relaxed);
        let highest = u64::BITS - peers.leading_zeros();
        if let Err(e) = device.set_tx_queues(rtnl, self.limits.queues.total(highest)) {
            pr_warn!("cannot change the number of queues: {:?}\n", e);
        }
        let mut longest = ether::MAX_PACKET;
        self.shared
            .for_ports(peers, |port| longest = longest.min(port.peer().max_frame()));
        let segments = longest.saturating_sub(ether::ETH_HLEN + 4);
        device.set_segmentation_limit(rtnl, segments as u32);
        device.set_carrier(rtnl, peers != 0);
    }

    /// Take the address that belongs to this host's id.
    fn adopt_address(&self, rtnl: &Rtnl) {
        let id = service::self_id();
        if id.is_host() {
            let [.., high, low] = id.0.to_be_bytes();
            let address = [0x02, b'M', b'P', 0, high, low];
            if let Err(e) = self.device().adopt_address(rtnl, address) {
                pr_warn!("cannot take the address of host {:#x}: {:?}\n", id.0, e);
            }
        }
    }

    fn add_port(&self, peer: &Arc<Peer>) -> Result {
        let index = peer.index();
        let cell = self.shared.ports.get(index as usize).ok_or(ERANGE)?;
        let queues = self.limits.queues;
        let (first, count) = (queues.first(index), queues.count(index));
        let device = self.device();
        let port = Port::new(peer, device, &self.shared, first, count)?;
        let rtnl = rtnl::lock();
        self.adopt_address(&rtnl);
        port.open();
        cell.replace(Some(port.clone()));
        self.peers
            .store(self.peers.load(Relaxed) | bit(index), Relaxed);
        port.announce(device.address());
        self.follow_peers(&rtnl);
        Ok(())
    }
}

impl Function for Interface {
    fn peer_add(&self, peer: &Arc<Peer>) {
        match self.add_port(peer) {
            Ok(()) => {}
            Err(e) if e == ERANGE => pr_err!(
                "peer {:#x} has index {}: load the module with peers={} or more\n",
                peer.id().0,
                peer.index(),
                peer.index() + 1
            ),
            Err(e) => pr_err!("cannot reach peer {:#x}: {:?}\n", peer.id().0, e),
        }
    }

    fn peer_del(&self, peer: &Arc<Peer>) {
        let index = peer.index();
        let Some(port) = self
            .shared
            .ports
            .get(index as usize)
            .and_then(|cell| cell.replace(None))
        else {
            return;
        };
        let rtnl = rtnl::lock();
        self.peers
            .store(self.peers.load(Relaxed) & !bit(index), Relaxed);
        self.fdb.flush_port(index as u16);
        port.close();
        self.flood.left(index);
        self.follow_peers(&rtnl);
    }

    fn receive(&self, rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
        match Header::decode(frame.func_hdr(), frame.len()) {
            Ok(Header::Packet(info)) => self.receive_packet(rx, &frame, &info),
            Ok(Header::Announce(address)) => {
                self.shared.counters.rx_announced.add(1);
                self.learn_announced(&address, frame.src());
                Ok(())
            }
            Err(Malformed::Version(version)) => {
                self.complain(frame.src(), version);
                Err(error::protocol())
            }
            Err(_) => {
                self.count_malformed();
                Err(error::bad_message())
            }
        }
    }

    fn tx_completed(&self, peer: &Peer, queue: u16, units: u32) {
        let guard = rcu::read_lock();
        let Some(port) = self.shared.port(peer.index(), &guard) else {
            return;
        };
        if !core::ptr::eq::<Peer>(&**port.peer(), peer) {
            return;
        }
        port.completed(queue, units);
        if queue == 0 {
            self.flood.go_on(peer.index());
        }
    }
}

impl device::Operations for Interface {
    fn stop(&self, _dev: &NetDevice, _rtnl: &Rtnl) {
        self.flood.drop_held();
        self.shared
            .for_ports(self.peers.load(Relaxed), Port::drop_held);
    }

    fn start_xmit(&self, dev: &NetDevice, queue: TxQueue<'_>, skb: SkBuff, more: bool) -> Transmit {
        let len = skb.len();
        let sent = match self.limits.queues.peer(queue.index()) {
            Some(ring) => self.send_to(queue, ring, skb, more),
            None => self.send_to_all(skb),
        };
        match sent {
            Sent::Yes => dev.count_tx(len),
            Sent::Busy(skb) => return Transmit::Busy(skb),
            Sent::No(e) => self.count_unsent(e),
        }
        Transmit::Done
    }

    fn select_queue(&self, _dev: &NetDevice, skb: &PacketRef<'_>) -> Option<u16> {
        let Some(index) = skb.destination().and_then(|to| self.find(&to)) else {
            return Some(queues::TO_ALL as u16);
        };
        let guard = rcu::read_lock();
        let Some(port) = self.shared.port(index, &guard) else {
            return Some(queues::TO_ALL as u16);
        };
        let rings = port.rings().min(self.channels.load(Relaxed) as usize);
        let ring = if rings > 1 {
            skb.flow_hash() as usize % rings
        } else {
            0
        };
        Some((self.limits.queues.first(index) + ring as u32) as u16)
    }

    fn check_features(
        &self,
        _dev: &NetDevice,
        skb: &PacketRef<'_>,
        features: Features,
    ) -> Features {
        if skb.is_gso() && !packet::can_cross_whole(skb) {
            return features & !Features::segmentation();
        }
        features
    }

    fn address_changed(&self, dev: &NetDevice, _rtnl: &Rtnl) {
        let address = dev.address();
        self.shared
            .for_ports(self.peers.load(Relaxed), |port| port.announce(address));
    }
}

impl ethtool::Operations for Interface {
    const DRIVER: &'static CStr = c"mp_func_ether";
    const STATS: &'static [&'static CStr] = Counters::NAMES;
    const HAS_CHANNELS: bool = true;
    const HAS_COALESCE: bool = true;

    fn stats(&self, _dev: &NetDevice, values: &mut [u64]) {
        self.shared.counters.read(values);
    }

    fn channels(&self, _dev: &NetDevice) -> Channels {
        Channels {
            combined: self.channels.load(Relaxed),
            max_combined: self.limits.queues.most().into(),
        }
    }

    fn set_channels(&self, _dev: &NetDevice, _rtnl: &Rtnl, combined: u32) -> Result {
        self.channels.store(combined, Relaxed);
        Ok(())
    }

    fn coalesce(&self, _dev: &NetDevice) -> Coalesce {
        Coalesce {
            tx_max_frames: self.batch.load(Relaxed),
        }
    }

    fn set_coalesce(&self, _dev: &NetDevice, _rtnl: &Rtnl, to: Coalesce) -> Result {
        if to.tx_max_frames == 0 {
            return Err(EINVAL);
        }
        self.batch.store(to.tx_max_frames, Relaxed);
        Ok(())
    }
}
