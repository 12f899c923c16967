// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a link that carries no frames waits for, and when to say so.

/// How long a link may wait before that is reported, in nanoseconds: longer than two hosts take
/// that start at the same moment.
pub const PATIENCE: u64 = 5_000_000_000;

/// What keeps a link from carrying frames, in the order in which it comes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum WaitsFor {
    /// The bridge has failed for good.
    Repair = 1,
    /// The bridge reports no link to the peer.
    NtbLink,
    /// This host has no memory for the peer to write into.
    Memory,
    /// The peer's mailbox is empty: no host is there, or its modules are not loaded.
    Mailbox,
    /// The peer speaks other versions.
    Version,
    /// The peer's mailbox does not answer the own one.
    Answer,
    /// The peer's memory cannot be mapped.
    Window,
    /// Nothing arrives from the peer in the own memory: its window leads elsewhere.
    Hello,
    /// What the peer writes does not answer the own Hello: the own window leads elsewhere.
    Echo,
    /// The peer wrote what cannot be; a pause lasts.
    Pause,
    /// Not both hosts have an id: there is no root processor.
    Identity,
    /// The peer obeys another root processor, or is one.
    OtherRoot,
    /// The message frame service does not take the peer: its id or index belongs to another host,
    /// or memory is short.
    Entry,
    /// Frames pass, but no doorbell has ever come over the bridge.
    Doorbell,
}

impl WaitsFor {
    /// All of them, by number.
    pub const ALL: [Self; 14] = [
        Self::Repair,
        Self::NtbLink,
        Self::Memory,
        Self::Mailbox,
        Self::Version,
        Self::Answer,
        Self::Window,
        Self::Hello,
        Self::Echo,
        Self::Pause,
        Self::Identity,
        Self::OtherRoot,
        Self::Entry,
        Self::Doorbell,
    ];

    /// Its number, from 1.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Its name, a word for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Repair => "repair",
            Self::NtbLink => "ntb_link",
            Self::Memory => "memory",
            Self::Mailbox => "mailbox",
            Self::Version => "version",
            Self::Answer => "answer",
            Self::Window => "window",
            Self::Hello => "hello",
            Self::Echo => "echo",
            Self::Pause => "pause",
            Self::Identity => "identity",
            Self::OtherRoot => "other_root",
            Self::Entry => "entry",
            Self::Doorbell => "doorbell",
        }
    }

    /// What has that number.
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|w| w.number() == number)
    }
}

/// Chooses what to report of a link's waits: each cause once, until the link has waited for nothing.
#[derive(Debug, Default)]
pub struct Patience {
    /// Since when it waits, without a pause.
    since: Option<u64>,
    /// Nothing is reported before.
    quiet_until: u64,
    /// What has been reported: a bit for each number.
    told: u32,
}

impl Patience {
    /// A link that waits for nothing.
    pub const fn new() -> Self {
        Self {
            since: None,
            quiet_until: 0,
            told: 0,
        }
    }

    /// The link waits for this now. What is to be reported, and for how many nanoseconds it has
    /// waited.
    pub fn look(&mut self, waits: Option<WaitsFor>, now: u64) -> Option<(WaitsFor, u64)> {
        let Some(waits) = waits else {
            *self = Self::new();
            return None;
        };
        let since = *self.since.get_or_insert(now);
        if since == now {
            self.quiet_until = now.saturating_add(PATIENCE);
        }
        let bit = 1 << waits.number();
        if now < self.quiet_until || self.told & bit != 0 {
            return None;
        }
        self.told |= bit;
        self.quiet_until = now.saturating_add(PATIENCE);
        Some((waits, now.saturating_sub(since)))
    }

    /// Since when the link waits; `None` if it waits for nothing.
    pub fn since(&self) -> Option<u64> {
        self.since
    }
}
