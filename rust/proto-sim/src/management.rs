// SPDX-License-Identifier: GPL-2.0-only

//! What the message frame services tell each other, in the order of
//! `rust/mp_transport/management.rs`.

use std::rc::Rc;

use mp_proto::herald::{Entry, Member, Path};
use mp_proto::manage::{Announced, Message, PeerStats, FUNC_ID};
use mp_proto::wire::{Envelope, MsgHdr, PeerData, PeerId, Priority, WayTag};

use crate::channel::{Frame, SendError};
use crate::host::{AnyHerald, Entity, Host, MAX_PEERS};
use crate::plan::MS;
use crate::via::Via;

/// Milliseconds until what could not be sent is tried again.
const RETRY_MS: u64 = 10;
/// How long a hop that was asked to renew a way may take before it is asked again.
const RENEWAL: u64 = 2000 * MS;

/// An endpoint, to the root processor.
pub struct Endpoint {
    life: u32,
    member: Member,
    herald: AnyHerald,
}

/// Another endpoint, to an endpoint.
pub struct Neighbour {
    host: Announced,
    hop: u32,
    entered: Option<u32>,
    told: bool,
    ready: bool,
    /// The way is over: when the hop is to be asked, once more, to renew it.
    renewal: Option<u64>,
}

impl Host {
    /// Something could not be sent: has the worker try it again in a while.
    pub fn retry(&mut self) {
        if !std::mem::replace(&mut self.pending, true) {
            self.kick_in(Entity::Manager, RETRY_MS * MS);
        }
    }

    /// Send a message to the message frame service of a peer.
    pub fn tell(&mut self, life: u32, message: &Message) -> Result<(), SendError> {
        let bytes = message.encode();
        let dst = self.peer(life).ok_or(SendError::Gone)?.id;
        let head = Envelope::from(MsgHdr {
            dst,
            src: self.self_id(),
            len: bytes.len() as u32,
            func: FUNC_ID,
        });
        let frame = Rc::new(Frame {
            func: FUNC_ID,
            func_hdr: bytes.to_vec(),
            data: Vec::new(),
            priority: Priority::High,
        });
        self.relay(life, &head, &frame, 0).map(|_| ())
    }

    /// Take a message of a peer; `false` for what is none, or not its to say.
    pub fn hear(&mut self, from: u32, bytes: &[u8]) -> bool {
        let Some(message) = Message::decode(bytes) else {
            return false;
        };
        if !self.may_say(from, &message) {
            return false;
        }
        match message {
            Message::Here(_)
            | Message::Gone(..)
            | Message::Go(..)
            | Message::Ready(..)
            | Message::Renew(..) => {
                let index = self.peer(from).map_or(0, |peer| peer.index);
                if self.shares.take(index) {
                    self.letters.push_back((from, index, message));
                    self.kick(Entity::Manager);
                }
            }
            Message::Passed(lane, total) => {
                if let Some(life) = self.far_peer(from, lane.dst, Some(lane.way)) {
                    self.via_passed(life, lane.number, total);
                }
            }
            Message::Want(lane, total) => self.want(from, lane, total),
            Message::AskStats(number) => {
                // A question that is not answered is asked again, or given up.
                let _ = self.tell(from, &Message::Stats(number, self.totals()));
            }
            // The simulator's function takes what arrives, and misses nothing.
            Message::Lost(..) | Message::Stats(..) => {}
        }
        true
    }

    fn totals(&self) -> PeerStats {
        let mut sum = PeerStats::default();
        for peer in &self.peers {
            sum.tx_frames += peer.stats[0].0;
            sum.tx_bytes += peer.stats[0].1;
            sum.rx_frames += peer.stats[1].0;
            sum.rx_bytes += peer.stats[1].1;
        }
        sum
    }

    fn may_say(&self, from: u32, message: &Message) -> bool {
        let Some(peer) = self.peer(from) else {
            return false;
        };
        match message {
            Message::AskStats(_) | Message::Stats(..) => true,
            _ if peer.via.is_some() => false,
            Message::Here(_) | Message::Gone(..) | Message::Go(..) => peer.id == PeerId::RP,
            Message::Ready(..) | Message::Renew(..) => self.self_id() == PeerId::RP,
            Message::Passed(..) | Message::Want(..) | Message::Lost(..) => true,
        }
    }

    /// The worker.
    pub fn run_manager(&mut self) {
        self.pending = false;
        if self.self_id() == PeerId::RP {
            self.follow_endpoints();
        } else {
            self.endpoints.clear();
        }
        while let Some((from, index, message)) = self.letters.pop_front() {
            self.shares.give_back(index);
            self.read(from, message);
        }
        // One time for both: no way is told of before there are flows.
        let now = self.clock();
        self.follow_flows(now);
        self.announce(now);
        self.follow_neighbours();
        self.resume_all();
        let vias = self.neighbours.iter().filter_map(|n| n.entered);
        for life in vias.collect::<Vec<_>>() {
            self.ask_again(life);
        }
        if self.pending {
            self.kick_in(Entity::Manager, RETRY_MS * MS);
        }
        if let Some(due) = self.manager_due(now) {
            self.kick_in(Entity::Manager, due - now);
        }
    }

    /// When there is something to do though nothing happens.
    fn manager_due(&self, now: u64) -> Option<u64> {
        let heralds = self.endpoints.iter().map(|endpoint| &endpoint.herald);
        let pauses = heralds.filter_map(|herald| herald.end_of_pause(now));
        let renewals = self.neighbours.iter().filter_map(|n| n.renewal);
        pauses.chain(renewals).filter(|at| now < *at).min()
    }

    fn path(&self, a: usize, b: usize, now: u64) -> Path {
        let [a, b] = [a, b].map(|n| (&self.endpoints[n].member, &self.endpoints[n].herald));
        Path::between(a, b, now)
    }

    fn follow_endpoints(&mut self) {
        let peers = &self.peers;
        let there = |life| {
            peers
                .iter()
                .any(|peer: &crate::service::Peer| peer.life == life)
        };
        self.endpoints.retain(|endpoint| there(endpoint.life));
        for peer in self.peers.iter().filter(|peer| peer.via.is_none()) {
            if self.endpoints.iter().any(|e| e.life == peer.life) {
                continue;
            }
            let member = Member {
                id: peer.id,
                life: peer.life,
                bridge: peer.bridge,
                data: PeerData {
                    peer_index: peer.index,
                    ..PeerData::default()
                },
            };
            self.endpoints.push(Endpoint {
                life: peer.life,
                member,
                herald: AnyHerald::new(vec![Entry::default(); MAX_PEERS]),
            });
        }
    }

    fn follow_flows(&mut self, now: u64) {
        let mut ways = Vec::new();
        for a in 0..self.endpoints.len() {
            for b in a + 1..self.endpoints.len() {
                if let Path::Way(way) = self.path(a, b, now) {
                    ways.push((self.endpoints[a].life, self.endpoints[b].life, way));
                }
            }
        }
        self.set_flows(&ways);
    }

    fn announce(&mut self, now: u64) {
        let members: Vec<_> = self.endpoints.iter().map(|e| e.member).collect();
        for number in 0..self.endpoints.len() {
            while let Some(message) = self.next_message(number, &members, now) {
                let sent = self.tell(self.endpoints[number].life, &message);
                match sent {
                    Ok(()) => self.endpoints[number].herald.sent(&message, &members),
                    Err(SendError::Gone) => break,
                    Err(_) => {
                        self.retry();
                        break;
                    }
                }
            }
        }
    }

    fn next_message(&self, number: usize, members: &[Member], now: u64) -> Option<Message> {
        let endpoint = &self.endpoints[number];
        let find = |m: &Member| self.endpoints.iter().position(|e| e.life == m.life);
        let path = |m: &Member| find(m).map_or(Path::Pause, |other| self.path(number, other, now));
        let is_ready = |m: &Member, way: WayTag| {
            let other = find(m).map(|other| &self.endpoints[other]);
            other.is_some_and(|e| e.herald.is_ready(endpoint.member.id, way))
        };
        endpoint
            .herald
            .next(&endpoint.member, members, path, is_ready)
    }

    fn read(&mut self, from: u32, message: Message) {
        match message {
            Message::Here(host) => {
                self.remove_neighbours(|n| n.host.id == host.id);
                if host.id.is_host() && self.neighbours.len() < MAX_PEERS {
                    self.neighbours.push(Neighbour {
                        host,
                        hop: from,
                        entered: None,
                        told: false,
                        ready: false,
                        renewal: None,
                    });
                }
            }
            Message::Gone(id, way) => {
                self.remove_neighbours(|n| n.host.id == id && n.host.way == way && n.hop == from);
            }
            Message::Go(id, way) => {
                let mut all = self.neighbours.iter_mut();
                let it = all.find(|n| n.host.id == id && n.host.way == Some(way) && n.hop == from);
                if let Some(neighbour) = it {
                    neighbour.ready = true;
                    if let Some(life) = neighbour.entered {
                        self.open_via(life);
                    }
                }
            }
            Message::Ready(id, way) => {
                if let Some(endpoint) = self.endpoints.iter_mut().find(|e| e.life == from) {
                    endpoint.herald.ready(id, way);
                }
            }
            Message::Renew(id, way) => {
                let now = self.clock();
                let position = |of: &dyn Fn(&Endpoint) -> bool| self.endpoints.iter().position(of);
                let asker = position(&|e| e.life == from);
                let other = position(&|e| e.member.id == id);
                if let (Some(asker), Some(other)) = (asker, other) {
                    let path = self.path(asker, other, now);
                    self.endpoints[asker].herald.renew(id, way, path, now);
                }
            }
            _ => {}
        }
    }

    fn remove_neighbours(&mut self, which: impl Fn(&Neighbour) -> bool) {
        let mut gone = Vec::new();
        self.neighbours.retain(|n| {
            if which(n) {
                gone.extend(n.entered);
            }
            !which(n)
        });
        for life in gone {
            if self.peer(life).is_some() {
                self.peer_del(life);
            }
        }
    }

    fn follow_neighbours(&mut self) {
        let peers: Vec<_> = self.peers.iter().map(|peer| peer.life).collect();
        self.remove_neighbours(|n| !peers.contains(&n.hop));
        for at in 0..self.neighbours.len() {
            self.follow_neighbour(at);
            if self.neighbours[at].entered.is_some() && !self.neighbours[at].told {
                self.tell_ready(at);
            }
        }
    }

    fn follow_neighbour(&mut self, at: usize) {
        let Neighbour {
            host,
            hop,
            entered,
            ready,
            ..
        } = self.neighbours[at];
        let Some(way) = host.way else { return };
        if entered.is_some_and(|life| self.peer(life).is_none()) {
            self.neighbours[at].entered = None;
            self.neighbours[at].told = false;
        }
        let via = entered.and_then(|life| self.peer(life)?.via.as_ref());
        if let (Some(life), true) = (entered, via.is_some_and(|via| via.is_broken)) {
            self.peer_del(life);
            self.neighbours[at].entered = None;
            self.neighbours[at].renewal = Some(0);
        }
        if self.neighbours[at].renewal.is_some() {
            return self.ask_to_renew(at, way);
        }
        let known = self.peers.iter().any(|peer| peer.id == host.id);
        if self.neighbours[at].entered.is_some() || known {
            return;
        }
        let Some(hop_peer) = self.peer(hop) else {
            return;
        };
        let (port, queues) = (hop_peer.port, hop_peer.queues);
        let via = Via::new(hop, way, queues);
        let (index, epoch) = (host.data.peer_index, u64::from(way.value()));
        let life = self.peer_add(port, host.id, index, 0, queues, epoch, None, Some(via));
        self.neighbours[at].entered = life;
        if let Some(life) = life.filter(|_| ready) {
            self.open_via(life);
        }
    }

    /// Ask the hop to renew the way, if it is time to: it says that the host has gone then.
    fn ask_to_renew(&mut self, at: usize, way: WayTag) {
        let now = self.clock();
        let Neighbour {
            host, hop, renewal, ..
        } = self.neighbours[at];
        if renewal.is_none_or(|at| now < at) {
            return;
        }
        match self.tell(hop, &Message::Renew(host.id, way)) {
            Err(SendError::Full) => self.retry(),
            _ => self.neighbours[at].renewal = Some(now + RENEWAL),
        }
    }

    fn tell_ready(&mut self, at: usize) {
        let Neighbour { host, hop, .. } = self.neighbours[at];
        if let Some(way) = host.way {
            let sent = self.tell(hop, &Message::Ready(host.id, way));
            self.neighbours[at].told = sent.is_ok();
            if sent == Err(SendError::Full) {
                self.retry();
            }
        }
    }
}
