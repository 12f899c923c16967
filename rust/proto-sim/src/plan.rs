// SPDX-License-Identifier: GPL-2.0-only

//! What a run is made of: topology, times, chances and faults, all of them from one seed, and made
//! smaller by a [`Reduction`].

use mp_proto::link::Config;
use mp_proto::version::WIRE;

use crate::dice::Dice;

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;

/// Most hosts.
pub const MAX_HOSTS: usize = 8;

/// What is left out of a plan, so that a failure is easier to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reduction {
    /// No more hosts than these.
    pub hosts: Option<usize>,
    /// Only these of the faults.
    pub faults: Option<Vec<usize>>,
    /// Faults and traffic end after so many milliseconds.
    pub ms: Option<u64>,
    /// No frames but those of the services.
    pub no_traffic: bool,
    /// No sessions.
    pub no_sessions: bool,
    /// Nothing is kept in a ring.
    pub no_kept: bool,
    /// No doorbell is lost, late or doubled but by a fault.
    pub no_bell_loss: bool,
}

impl Reduction {
    /// The arguments that bring it about again.
    pub fn arguments(&self) -> String {
        let mut all = String::new();
        if let Some(hosts) = self.hosts {
            all += &format!(" --hosts {hosts}");
        }
        if let Some(faults) = &self.faults {
            let list: Vec<_> = faults.iter().map(usize::to_string).collect();
            let list = if list.is_empty() {
                "none".into()
            } else {
                list.join(",")
            };
            all += &format!(" --faults {list}");
        }
        if let Some(ms) = self.ms {
            all += &format!(" --ms {ms}");
        }
        for (set, name) in [
            (self.no_traffic, " --no-traffic"),
            (self.no_sessions, " --no-sessions"),
            (self.no_kept, " --no-kept"),
            (self.no_bell_loss, " --no-bell-loss"),
        ] {
            all += if set { name } else { "" };
        }
        all
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A link loses what is sent. If it is not reported, only silence shows it.
    Lost {
        /// One end.
        a: usize,
        /// The other end.
        b: usize,
        /// How long, in milliseconds.
        ms: u64,
        /// The NTB says that its link is down.
        reported: bool,
    },
    /// A link holds up what is sent; it arrives later.
    Stalled {
        /// One end.
        a: usize,
        /// The other end.
        b: usize,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// A host loses its power; it starts again.
    Kill {
        /// The host.
        host: usize,
        /// After so many milliseconds.
        ms: u64,
        /// With the inbound memory of its former life as it was.
        same_memory: bool,
        /// What its scratchpads show afterwards: zero, all ones, or what they did.
        pads: Option<u32>,
    },
    /// A host's driver is unloaded, and loaded again.
    Unload {
        /// The host.
        host: usize,
        /// After so many milliseconds.
        ms: u64,
    },
    /// A host does nothing for a while.
    Pause {
        /// The host.
        host: usize,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// The functions of a host take nothing: no ring is polled.
    Deaf {
        /// The host.
        host: usize,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// All doorbells of a host are lost.
    NoBells {
        /// The host.
        host: usize,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// All that a host reads across the bridge is all ones.
    AllOnes {
        /// The host.
        host: usize,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// A host cannot map the window to another one, the next time.
    NoWindow {
        /// The host.
        host: usize,
        /// The other one.
        peer: usize,
    },
    /// The user service of a host is unloaded and loaded again, while its links stay up.
    Reload {
        /// The host.
        host: usize,
        /// After so many milliseconds.
        ms: u64,
    },
    /// A host does not agree any more with another one that the root processor forwards to.
    Renew {
        /// The host.
        host: usize,
        /// The other one.
        peer: usize,
    },
    /// The user service of a host finds no memory, as often as not.
    Short {
        /// The host.
        host: usize,
        /// How long, in milliseconds.
        ms: u64,
    },
    /// A host overwrites something in the memory that another one has for it.
    Scribble {
        /// The one that is overwritten.
        host: usize,
        /// The liar.
        peer: usize,
        /// Determines what and where.
        how: u64,
    },
}

impl Fault {
    /// The hosts that it is about.
    fn hosts(&self) -> (usize, Option<usize>) {
        match *self {
            Fault::Lost { a, b, .. } | Fault::Stalled { a, b, .. } => (a, Some(b)),
            Fault::NoWindow { host, peer }
            | Fault::Renew { host, peer }
            | Fault::Scribble { host, peer, .. } => (host, Some(peer)),
            Fault::Kill { host, .. }
            | Fault::Unload { host, .. }
            | Fault::Pause { host, .. }
            | Fault::Deaf { host, .. }
            | Fault::NoBells { host, .. }
            | Fault::AllOnes { host, .. }
            | Fault::Short { host, .. }
            | Fault::Reload { host, .. } => (host, None),
        }
    }
}

/// What a host has.
#[derive(Debug, Clone, Copy)]
pub struct HostPlan {
    /// The bridge it is at; the root processor is at all.
    pub bridge: usize,
    /// Bytes of inbound memory for each peer.
    pub memory: u64,
    /// Data queues that it asks for.
    pub queues: u32,
    /// The newest wire version that it speaks.
    pub newest: u8,
    /// When it starts, in nanoseconds.
    pub start: u64,
    /// By how much its clock is ahead.
    pub clock: u64,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Everything comes from it.
    pub seed: u64,
    /// The hosts; the first one is the root processor.
    pub hosts: Vec<HostPlan>,
    /// The hosts of the plan before it was reduced.
    pub of_hosts: usize,
    /// Times of the links.
    pub config: Config,
    /// Most nanoseconds that a write takes.
    pub delay: u64,
    /// Bootstrap over message registers instead of scratchpads.
    pub by_messages: bool,
    /// One doorbell in so many is lost; zero for none.
    pub bell_loss: u64,
    /// A function keeps one frame in so many; zero for none.
    pub keeps: u64,
    /// Nanoseconds from one send of a host to the next one, about.
    pub pace: u64,
    /// One frame in so many has priority.
    pub urgent: u64,
    /// Frames are sent.
    pub traffic: bool,
    /// Processes have sessions.
    pub sessions: bool,
    /// Most data bytes of a frame.
    pub longest: u64,
    /// Somebody lies.
    pub hostile: bool,
    /// Faults, by time in nanoseconds.
    pub faults: Vec<(u64, Fault)>,
    /// The faults that there were before the plan was reduced.
    pub of_faults: usize,
    /// When faults and traffic end.
    pub calm: u64,
}

/// Short runs are for the tests of every day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// About a second.
    Short,
    /// About ten seconds, with many hosts.
    Long,
}

impl Plan {
    /// The plan that a seed stands for.
    pub fn new(seed: u64, length: Length, less: &Reduction) -> Plan {
        let dice = Dice::new(seed, 1);
        let of_hosts = match (length, dice.below(8)) {
            (Length::Short, 0..5) => 2 + dice.pick(2),
            (Length::Short, _) => 3 + dice.pick(2),
            (Length::Long, _) => 2 + dice.pick(MAX_HOSTS - 1),
        };
        let hosts = hosts(seed, of_hosts);
        let quick = dice.once_in(2) || length == Length::Short;
        let config = match quick {
            true => Config {
                beat: 10 * MS,
                timeout: 90 * MS,
                backoff_min: 10 * MS,
                backoff_max: 80 * MS,
                stable: 500 * MS,
            },
            false => Config::default(),
        };
        let until = match length {
            Length::Short => 60 + dice.below(240),
            Length::Long => 2000 + dice.below(12_000),
        };
        let hostile = dice.once_in(8);
        let count = match length {
            Length::Short => dice.below(7),
            Length::Long => 5 + dice.below(40),
        };
        let count = if hostile { 20 + 12 * count } else { count };
        let mut faults: Vec<_> = (0..count)
            .map(|_| {
                let at = dice.below(until) * MS;
                (at, fault(&dice, of_hosts, &config, hostile))
            })
            .collect();
        faults.sort_by_key(|(at, _)| *at);
        let delay = dice.one_of(&[2_000, 20_000, 300_000, 2 * MS]);
        let mut plan = Plan {
            seed,
            hosts,
            of_hosts,
            config,
            delay,
            by_messages: dice.once_in(4),
            bell_loss: dice.one_of(&[0, 100, 10, 2]),
            keeps: dice.one_of(&[0, 20, 3]),
            pace: dice.one_of(&[300_000, 2 * MS, 8 * MS, 8 * MS]),
            urgent: dice.one_of(&[5, 5, 5, 1]),
            traffic: true,
            sessions: dice.once_in(2),
            longest: dice.one_of(&[60, 200, 200, 1500, 1500, 9000, 40_000]),
            hostile,
            of_faults: faults.len(),
            faults,
            calm: until * MS,
        };
        plan.reduce(less);
        plan
    }

    fn reduce(&mut self, less: &Reduction) {
        if let Some(hosts) = less.hosts {
            self.hosts.truncate(hosts.max(2));
        }
        if let Some(ms) = less.ms {
            self.calm = self.calm.min(ms * MS);
        }
        let (hosts, calm) = (self.hosts.len(), self.calm);
        let faults = std::mem::take(&mut self.faults).into_iter().enumerate();
        let faults = faults.filter(|(n, (at, fault))| {
            let (a, b) = fault.hosts();
            let chosen = less.faults.as_ref().is_none_or(|all| all.contains(n));
            chosen && *at < calm && a < hosts && b.is_none_or(|b| b < hosts)
        });
        self.faults = faults.map(|(_, fault)| fault).collect();
        self.traffic &= !less.no_traffic;
        self.sessions &= !less.no_sessions;
        if less.no_kept {
            self.keeps = 0;
        }
        if less.no_bell_loss {
            self.bell_loss = 0;
        }
    }

    /// Whether two hosts have a link to each other.
    pub fn linked(&self, a: usize, b: usize) -> bool {
        a != b && (a == 0 || b == 0 || self.hosts[a].bridge == self.hosts[b].bridge)
    }

    /// For how long a side may sleep although there is something for it: the second look, or the
    /// doorbell, and then the poll. Not while doorbells or hosts fail, nor with wire version 1.
    pub fn longest_sleep(&self) -> Option<u64> {
        let level = self.hosts.iter().all(|host| host.newest == WIRE.newest);
        let calm = level && self.bell_loss == 0 && self.faults.is_empty() && !self.hostile;
        calm.then_some(2 * self.delay + 6 * MS)
    }

    /// The bridge that a link is part of.
    pub fn bridge(&self, a: usize, b: usize) -> usize {
        self.hosts[a.max(b)].bridge
    }
}

fn hosts(seed: u64, count: usize) -> Vec<HostPlan> {
    let shape = Dice::new(seed, 2).below(3);
    (0..count)
        .map(|n| {
            // Of a host alone, so that it stays what it is when others are left out.
            let dice = Dice::new(seed, 100 + n as u64);
            let bridge = match shape {
                0 => 0,
                1 => n,
                _ => dice.pick(3),
            };
            HostPlan {
                bridge,
                memory: dice.one_of(&[64 << 10, 64 << 10, 96 << 10, 256 << 10, 1 << 20]),
                queues: 1 + dice.below(2) as u32,
                start: dice.below(80) * MS,
                clock: dice.below(1 << 50),
                newest: if dice.once_in(8) { 1 } else { WIRE.newest },
            }
        })
        .collect()
}

fn fault(dice: &Dice, hosts: usize, config: &Config, hostile: bool) -> Fault {
    let host = dice.pick(hosts);
    // Links lead to the root processor mostly.
    let peer = match dice.once_in(2) {
        true => dice.pick(hosts),
        false => 0,
    };
    let peer = if peer == host {
        (host + 1) % hosts
    } else {
        peer
    };
    let timeout = config.timeout / MS;
    let ms = dice.one_of(&[3, timeout / 4, timeout, 2 * timeout]) + dice.below(timeout);
    if hostile && !dice.once_in(12) {
        let how = dice.roll();
        return Fault::Scribble { host, peer, how };
    }
    match dice.below(19) {
        0 | 1 => Fault::Lost {
            a: host,
            b: peer,
            ms: ms.max(5),
            reported: true,
        },
        2 => Fault::Lost {
            a: host,
            b: peer,
            // So long that both notice the silence.
            ms: ms + timeout + 4 * config.beat / MS,
            reported: false,
        },
        3 | 4 => Fault::Stalled {
            a: host,
            b: peer,
            ms,
        },
        5..8 => Fault::Kill {
            host,
            ms: dice.below(2 * timeout),
            same_memory: dice.once_in(2),
            pads: dice.one_of(&[None, None, Some(0), Some(u32::MAX)]),
        },
        8 => Fault::Unload {
            host,
            ms: dice.below(timeout),
        },
        9 | 10 => Fault::Pause { host, ms },
        11 => Fault::Deaf { host, ms },
        12 => Fault::NoBells { host, ms },
        13 => Fault::AllOnes { host, ms },
        14 => Fault::NoWindow { host, peer },
        15 => Fault::Renew {
            host,
            peer: dice.pick(hosts),
        },
        16 => Fault::Reload { host, ms: ms / 4 },
        _ => Fault::Short { host, ms: 4 * ms },
    }
}
