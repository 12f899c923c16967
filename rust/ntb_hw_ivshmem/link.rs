// SPDX-License-Identifier: GPL-2.0-only

//! Who is there, and which links are up.
//!
//! A link is up when both ports are present and plugged, have enabled it, and were
//! loaded with the same parameters. Three counters in a port's block - deaths of its
//! machine and losses of its cable, starts of its driver, enablings of its link -
//! name one life of its link; if any of them has changed, the link was down in between, and the
//! client hears of that even if it was too short to be seen.
//!
//! A link takes [`TRAINING`] to come up, as that of real hardware takes some
//! milliseconds. Clients rely on it: `ntb_transport` forgets a link-up that
//! comes before it has dealt with the link-down before. It is up at both ports
//! from the same moment, when each has said that it is trained with the present
//! life of the other: `ntb_perf` ignores what comes over a link that is down.

use super::{
    board::{
        Block,
        Board,
        SERVICE_VECTOR, //
    },
    params::Params,
    regs::{
        block,
        PORTS_MAX, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};
use mp_kernel::{
    new_spinlock_irqsave,
    sync::SpinLockIrqSave,
    time::monotonic_ns, //
};

/// Time from when both ports have enabled a link until it is up, in nanoseconds.
const TRAINING: u64 = 100_000_000;

const NS_PER_MS: u64 = 1_000_000;

/// How often a link is looked at that is not trained at the other end yet, should
/// the interrupt that says so get lost.
const RECHECK_MS: u32 = 20;

/// One life of a port's link.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Life {
    lost: u32,
    generation: u32,
    enables: u32,
}

impl Life {
    /// The life as a number that differs from zero, and from that of any life
    /// shortly before or after.
    fn number(self) -> u32 {
        self.lost
            .wrapping_add(self.generation)
            .wrapping_add(self.enables)
            .wrapping_mul(2)
            .wrapping_add(1)
    }
}

/// What is known of a peer.
#[derive(Clone, Copy, Default)]
struct Peer {
    /// The life that its link is trained in, or in training.
    life: Option<Life>,
    /// When it will be trained.
    ready: u64,
    /// Its parameters, if they were complained about.
    misfit: u32,
}

impl Peer {
    /// Follow the peer's present life; whether its link is trained now.
    fn follow(&mut self, life: Option<Life>, now: u64) -> bool {
        if self.life != life {
            self.life = life;
            self.ready = now.saturating_add(TRAINING);
        }
        life.is_some() && now >= self.ready
    }

    /// Nanoseconds until its link is trained, while it is in training.
    fn training(&self, now: u64) -> Option<u64> {
        self.life?;
        self.ready.checked_sub(now).filter(|left| *left > 0)
    }
}

struct State {
    enabled: bool,
    /// The links that are trained, and those that the client was told to be up.
    trained: u64,
    told: u64,
    peers: [Peer; PORTS_MAX as usize],
}

/// What [`Link::update`] found.
pub(crate) enum Update {
    /// Nothing to tell; a link in training is to be looked at after so many milliseconds.
    Quiet(Option<u32>),
    /// The client is to be told, and there may be more: call again. The mask
    /// has the peers whose link went down.
    Changed(u64),
}

/// The links of this port.
#[pin_data]
pub(crate) struct Link {
    board: Arc<Board>,
    fingerprint: u32,
    /// `State::trained`, for readers without the lock.
    trained: Atomic<u64>,
    #[pin]
    state: SpinLockIrqSave<State>,
}

impl Link {
    /// All links are down, and this port is present from now on.
    pub(crate) fn new(board: Arc<Board>, params: &Params) -> impl PinInit<Self, Error> + use<> {
        let fingerprint = params.fingerprint();
        try_pin_init!(Self {
            _: {
                let own = board.own();
                // Peers see the predecessor go, if it did not say so itself.
                own.set32(block::STATE, block::ABSENT);
                own.set32(block::GENERATION, own.get32(block::GENERATION).wrapping_add(1));
                own.set32(block::FINGERPRINT, fingerprint);
                for port in board.ports.all() {
                    own.set32(block::TRAINED.at(port), 0);
                }
            },
            board,
            fingerprint,
            trained: Atomic::new(0),
            state <- new_spinlock_irqsave!(State {
                enabled: false,
                trained: 0,
                told: 0,
                peers: [Peer::default(); PORTS_MAX as usize],
            }),
        })
    }

    /// Tell the others that this port is there. Its registers must be ready.
    pub(crate) fn appear(&self) {
        self.board.own().set32(block::STATE, block::PRESENT);
        self.board.kick_all();
    }

    /// Tell the others that this port goes.
    pub(crate) fn vanish(&self) {
        let mut state = self.state.lock();
        state.enabled = false;
        self.set_trained(&mut state, 0);
        self.board.own().set32(block::STATE, block::ABSENT);
        drop(state);
        self.board.kick_all();
    }

    /// The links that are up, a bit for each peer. A peer that is gone is left
    /// out even before the client has been told.
    pub(crate) fn up(&self) -> u64 {
        match self.trained.load(Relaxed) {
            0 => 0,
            trained => self.trained_by_both(trained),
        }
    }

    /// Those of this port's trained links that are trained at the peer as well.
    fn trained_by_both(&self, trained: u64) -> u64 {
        let ports = &self.board.ports;
        let own = ports.own();
        let mut up = trained;
        for (pidx, port) in ports.peers() {
            let peer = self.board.block(port);
            let ours = self.life_between(own, port).number();
            if peer.get32(block::STATE) != block::ENABLED
                || peer.get32(block::TRAINED.at(own)) != ours
                || !self.board.is_plugged(own, port)
            {
                up &= !(1 << pidx);
            }
        }
        up
    }

    /// Note which links are trained, and tell the peers of those that changed.
    fn set_trained(&self, state: &mut State, trained: u64) {
        state.trained = trained;
        self.trained.store(trained, Relaxed);
        let own = self.board.own();
        for ((pidx, port), peer) in self.board.ports.peers().zip(&state.peers) {
            let life = peer.life.filter(|_| trained & 1 << pidx != 0);
            let stamp = life.map_or(0, Life::number);
            if own.get32(block::TRAINED.at(port)) != stamp {
                own.set32(block::TRAINED.at(port), stamp);
                self.board.kick(port, SERVICE_VECTOR);
            }
        }
    }

    /// Let links come up; the event follows by interrupt.
    pub(crate) fn enable(&self) {
        let mut state = self.state.lock();
        if !state.enabled {
            state.enabled = true;
            let own = self.board.own();
            own.set32(block::ENABLES, own.get32(block::ENABLES).wrapping_add(1));
            own.set32(block::STATE, block::ENABLED);
        }
        drop(state);
        self.board.kick_all();
    }

    /// Take all links down; the event follows by interrupt.
    pub(crate) fn disable(&self) {
        let mut state = self.state.lock();
        state.enabled = false;
        self.set_trained(&mut state, 0);
        state.peers.iter_mut().for_each(|peer| peer.life = None);
        self.board.own().set32(block::STATE, block::PRESENT);
        drop(state);
        self.board.kick_all();
    }

    /// Whether this port has enabled its link.
    pub(crate) fn is_enabled(&self) -> bool {
        self.state.lock().enabled
    }

    /// Look at all ports. First come the links that went down, then those that
    /// came up, so that a client sees a short absence as one.
    pub(crate) fn update(&self) -> Update {
        let time = monotonic_ns();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let mut down = 0;
        let mut new = 0;
        let mut training: Option<u64> = None;
        for ((pidx, port), peer) in self.board.ports.peers().zip(&mut state.peers) {
            let life = self.life(port, &mut peer.misfit).filter(|_| state.enabled);
            let was_trained = state.trained & 1 << pidx != 0;
            if was_trained && life != peer.life {
                down |= 1 << pidx;
            }
            if peer.follow(life, time) && !was_trained {
                new |= 1 << pidx;
            }
            training = match (training, peer.training(time)) {
                (Some(one), Some(other)) => Some(other.min(one)),
                (one, other) => one.or(other),
            };
        }
        let mut trained = state.trained & !down;
        if state.told & !trained == 0 {
            trained |= new;
        }
        self.set_trained(state, trained);
        let up = self.trained_by_both(trained);
        if state.told == up {
            let ms = |ns: u64| ns.div_ceil(NS_PER_MS) as u32;
            return Update::Quiet(match training.map(ms) {
                left if trained == up => left,
                left => Some(left.unwrap_or(RECHECK_MS).min(RECHECK_MS)),
            });
        }
        let gone = state.told & !up;
        state.told = up;
        Update::Changed(gone)
    }

    /// The current life of a port's link, if it has enabled it.
    fn life(&self, port: u32, misfit: &mut u32) -> Option<Life> {
        let peer = self.board.block(port);
        if peer.get32(block::STATE) != block::ENABLED {
            return None;
        }
        let own = self.board.ports.own();
        if !self.board.is_plugged(own, port) || !self.fits(port, peer, misfit) {
            return None;
        }
        Some(self.life_between(port, own))
    }

    /// The life of `port`'s link to another one.
    fn life_between(&self, port: u32, other: u32) -> Life {
        let block = self.board.block(port);
        let lost = self.board.block(other).get32(block::LOST);
        Life {
            lost: block.get32(block::LOST).wrapping_add(lost),
            generation: block.get32(block::GENERATION),
            enables: block.get32(block::ENABLES),
        }
    }

    /// Whether a port was loaded with the same parameters; says so once if not.
    fn fits(&self, port: u32, peer: Block<'_>, misfit: &mut u32) -> bool {
        let fingerprint = peer.get32(block::FINGERPRINT);
        if fingerprint == self.fingerprint {
            *misfit = 0;
            return true;
        }
        if *misfit != fingerprint {
            *misfit = fingerprint;
            pr_err!(
                "port {} was loaded with other parameters: its link stays down\n",
                port
            );
        }
        false
    }
}
