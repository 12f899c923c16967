// SPDX-License-Identifier: GPL-2.0-only

//! A host: all that its kernel modules keep, and the order in which their workers, polls and
//! interrupts run. What they do is in the files beside this one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use mp_proto::herald::{self, Herald};
use mp_proto::letters::Shares;
use mp_proto::link::Role;
use mp_proto::manage::Message;
use mp_proto::wire::PeerId;
pub use mp_proto::wire::MAX_PEERS;

use crate::check::Check;
use crate::dice::Dice;
use crate::forward::Flow;
use crate::link_end::Port;
use crate::management::{Endpoint, Neighbour};
use crate::plan::Plan;
use crate::service::Peer;
use crate::wire::CPUS;

/// The heralds of the root processor.
pub type AnyHerald = Herald<Vec<herald::Entry>>;

/// Entities of one port.
const STRIDE: usize = 9;
/// Number of entities of a host.
pub const ENTITIES: usize = crate::plan::MAX_HOSTS * STRIDE + 4;

/// What runs on a host by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entity {
    /// The worker of a link.
    Worker(usize),
    /// The worker that enters a link's peer.
    Upper(usize),
    /// The worker of a link's user service.
    User(usize),
    /// The poll of a queue of a link.
    Napi(usize, u16),
    /// The thread that watches a queue.
    Linger(usize, u16),
    /// The timer of a queue of which a side sleeps.
    Look(usize, u16),
    /// The worker of the message frame service.
    Manager,
    /// Functions that send and receive.
    App,
    /// Processes with sessions.
    Process,
}

impl Entity {
    /// Its number on the host.
    pub fn number(self) -> usize {
        let base = crate::plan::MAX_HOSTS * STRIDE;
        match self {
            Entity::Worker(k) => k * STRIDE,
            Entity::Upper(k) => k * STRIDE + 1,
            Entity::User(k) => k * STRIDE + 2,
            Entity::Napi(k, q) => k * STRIDE + 3 + usize::from(q),
            Entity::Linger(k, q) => k * STRIDE + 5 + usize::from(q),
            Entity::Look(k, q) => k * STRIDE + 7 + usize::from(q),
            Entity::Manager => base,
            Entity::App => base + 1,
            Entity::Process => base + 2,
        }
    }

    /// The entity with that number.
    pub fn of(number: usize) -> Entity {
        let base = crate::plan::MAX_HOSTS * STRIDE;
        let k = number / STRIDE;
        match number {
            n if n == base => Entity::Manager,
            n if n == base + 1 => Entity::App,
            n if n > base => Entity::Process,
            n => match n % STRIDE {
                0 => Entity::Worker(k),
                1 => Entity::Upper(k),
                2 => Entity::User(k),
                m @ 3..5 => Entity::Napi(k, m as u16 - 3),
                m @ 5..7 => Entity::Linger(k, m as u16 - 5),
                m => Entity::Look(k, m as u16 - 7),
            },
        }
    }
}

/// What all hosts of a run share.
pub struct Env {
    /// The plan.
    pub plan: Plan,
    /// Chance.
    pub dice: Dice,
    /// What must hold.
    pub check: RefCell<Check>,
    /// Tells what happens.
    pub trace: bool,
}

/// Frames that were dropped.
#[derive(Debug, Default)]
pub struct Drops {
    /// The header is not true.
    pub bad_header: u64,
    /// No such function.
    pub unknown_function: u64,
    /// Nothing is forwarded there.
    pub no_route: u64,
    /// Of an earlier life.
    pub stale: u64,
    /// More than the credits allow.
    pub overrun: u64,
    /// The destination has left.
    pub forwarding: u64,
}

/// A host.
pub struct Host {
    /// Its number.
    pub index: usize,
    /// Number of its lives.
    pub boot: u32,
    /// It has power, and its modules are loaded.
    pub alive: bool,
    /// Functions take nothing.
    pub deaf_until: u64,
    /// It does nothing.
    pub paused_until: u64,
    /// All it reads across the bridge is all ones.
    pub ones_until: u64,
    /// No doorbell reaches it.
    pub no_bells_until: u64,
    /// Its user service finds no memory, as often as not.
    pub short_until: u64,
    /// By how much its clock is ahead.
    pub ahead: u64,
    /// The time in the world.
    pub now: u64,
    /// The processor that runs.
    pub cpu: Rc<Cell<usize>>,
    /// Its part.
    pub role: Role,
    /// Its id and index, once it knows.
    pub assigned: (PeerId, u32),
    /// The link to the root processor that it obeys.
    pub root: Option<usize>,
    /// Its links.
    pub ports: Vec<Port>,
    /// Doorbell bits that are set, by bridge.
    pub doorbells: Vec<u64>,
    /// Doorbells to be rung: the link, and the queue or [`LINK_BELL`].
    pub bells: Rc<RefCell<Vec<(usize, u16)>>>,
    /// The peers of the message frame service.
    pub peers: Vec<Peer>,
    /// Number of the next life of a peer.
    pub next_life: u32,
    /// What it forwards.
    pub flows: Vec<Flow>,
    /// To the root processor: the others.
    pub endpoints: Vec<Endpoint>,
    /// To an endpoint: the others.
    pub neighbours: Vec<Neighbour>,
    /// Messages for the message frame service's worker, by life of the peer.
    pub letters: VecDeque<(u32, u32, Message)>,
    /// How many of each peer wait.
    pub shares: Shares,
    /// Something could not be sent.
    pub pending: bool,
    /// Frames dropped.
    pub drops: Drops,
    /// Frames forwarded.
    pub forwarded: u64,
    /// The life of its user service.
    pub life: mp_proto::fabric::Life,
    /// The user service is loaded.
    pub serves: bool,
    /// Number of the next session.
    pub next_session: u32,
    /// Peers and queues that the application waits for.
    pub awaited: Vec<(u32, u16)>,
    /// Frames that the application has yet to send.
    pub backlog: Vec<crate::app::Order>,
    /// When each entity runs.
    pub due: Vec<u64>,
    /// Entities whose time has changed.
    pub woken: Vec<(u64, usize)>,
    /// See [`Env`].
    pub env: Rc<Env>,
}

/// In place of a queue: the bell of the link state.
pub const LINK_BELL: u16 = u16::MAX;

impl Host {
    /// A host without power.
    pub fn new(index: usize, env: Rc<Env>) -> Host {
        let role = if index == 0 {
            Role::Root
        } else {
            Role::Endpoint
        };
        let bridges = env.plan.hosts.len().max(3) + 1;
        Host {
            index,
            boot: 0,
            alive: false,
            deaf_until: 0,
            paused_until: 0,
            ones_until: 0,
            no_bells_until: 0,
            short_until: 0,
            ahead: env.plan.hosts[index].clock,
            now: 0,
            cpu: Rc::default(),
            role,
            assigned: (PeerId::SELF, 0),
            root: None,
            ports: Vec::new(),
            doorbells: vec![0; bridges.max(crate::plan::MAX_HOSTS)],
            bells: Rc::default(),
            peers: Vec::new(),
            next_life: 1,
            flows: Vec::new(),
            endpoints: Vec::new(),
            neighbours: Vec::new(),
            letters: VecDeque::new(),
            shares: Shares::new(),
            pending: false,
            drops: Drops::default(),
            forwarded: 0,
            life: mp_proto::fabric::Life::new(1),
            serves: false,
            next_session: 1,
            awaited: Vec::new(),
            backlog: Vec::new(),
            due: vec![u64::MAX; ENTITIES],
            woken: Vec::new(),
            env,
        }
    }

    /// Power on: nothing is known of what was before.
    pub fn start(&mut self, ports: Vec<Port>) {
        let dice = &self.env.dice;
        self.boot += 1;
        self.alive = true;
        self.assigned = match self.role {
            Role::Root => (PeerId::RP, 0),
            Role::Endpoint => (PeerId::SELF, 0),
        };
        self.root = None;
        self.ports = ports;
        self.doorbells.fill(0);
        self.bells.borrow_mut().clear();
        self.peers.clear();
        self.flows.clear();
        self.endpoints.clear();
        self.neighbours.clear();
        self.letters.clear();
        self.shares = Shares::new();
        self.pending = false;
        self.awaited.clear();
        self.backlog.clear();
        self.due.fill(u64::MAX);
        self.life = mp_proto::fabric::Life::new(dice.roll() as u32);
        self.serves = true;
        for k in 0..self.ports.len() {
            self.kick(Entity::Worker(k));
        }
        self.kick(Entity::App);
        self.kick(Entity::Process);
    }

    /// Power off.
    pub fn stop(&mut self) {
        for peer in &self.peers {
            peer.end_streams(&mut self.env.check.borrow_mut());
        }
        self.alive = false;
        self.peers.clear();
        for port in &mut self.ports {
            port.tally(&self.env);
        }
        self.ports.clear();
        self.flows.clear();
        self.due.fill(u64::MAX);
    }

    /// The host's own clock.
    pub fn clock(&self) -> u64 {
        self.ahead + self.now
    }

    /// Its id.
    pub fn self_id(&self) -> PeerId {
        self.assigned.0
    }

    /// Run an entity soon.
    pub fn kick(&mut self, entity: Entity) {
        let soon = match self.env.dice.below(40) {
            0 => 2_000_000,
            1..4 => 200_000,
            _ => 20_000,
        };
        let soon = self.env.dice.below(soon);
        self.kick_in(entity, soon);
    }

    /// Run an entity after so many nanoseconds, or before.
    pub fn kick_in(&mut self, entity: Entity, ns: u64) {
        if self.now + ns + 1 < self.due[entity.number()] {
            self.run_in(entity, ns);
        }
    }

    /// Run an entity after so many nanoseconds, and not before.
    pub fn run_in(&mut self, entity: Entity, ns: u64) {
        let at = self.now + ns + 1;
        let number = entity.number();
        if self.alive {
            self.due[number] = at;
            self.woken.push((at, number));
        }
    }

    /// Run an entity.
    pub fn run(&mut self, entity: Entity) {
        self.cpu.set(self.env.dice.pick(CPUS));
        match entity {
            Entity::Worker(k) => self.run_worker(k),
            Entity::Upper(k) => self.run_upper(k),
            Entity::User(k) => self.run_user(k),
            Entity::Napi(k, q) => self.run_poll(k, q),
            Entity::Linger(k, q) => self.run_linger(k, q),
            Entity::Look(k, q) => self.run_look(k, q),
            Entity::Manager => self.run_manager(),
            Entity::App => self.run_app(),
            Entity::Process => self.run_process(),
        }
    }

    /// Tell what happens, to those who want to know.
    pub fn note(&self, what: impl FnOnce() -> String) {
        if self.env.trace {
            let ms = self.now as f64 / 1e6;
            eprintln!("{ms:12.6} host {}: {}", self.index, what());
        }
    }

    /// The doorbell interrupt of a bridge.
    pub fn answer(&mut self, bridge: usize) {
        let bits = std::mem::take(&mut self.doorbells[bridge]);
        if bits == 0 {
            return;
        }
        for k in 0..self.ports.len() {
            if self.ports[k].bridge != bridge {
                continue;
            }
            if bits & 1 != 0 {
                self.kick(Entity::Worker(k));
            }
            self.poll_where(k, |queue| bits & 2 << queue != 0);
        }
    }

    /// Poll queues of a link.
    pub fn poll_where(&mut self, k: usize, wanted: impl Fn(u16) -> bool) {
        let queues = self.ports[k].polled_queues();
        for queue in (0..queues).filter(|queue| wanted(*queue)) {
            self.kick(Entity::Napi(k, queue));
        }
    }
}
