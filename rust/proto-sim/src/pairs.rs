// SPDX-License-Identifier: GPL-2.0-only

//! All pairs of sessions that there ever were, to see that both hosts mean the same.

use std::collections::BTreeMap;

use mp_proto::pairing::terms::{Limits, Span};

/// A life of a link between two user services: the hosts, lower number first, their lives, and the
/// link's epochs: a session that has lost a partner before it knew of it is posted again.
pub type Key = (usize, usize, (u32, u32), (u64, u64));

/// Host and session.
pub type Place = (usize, u32);

/// A pair as one of the two hosts sees it.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The other session.
    pub partner: u32,
    /// The window that this host backs.
    pub local: Option<Span>,
    /// The window that the other one backs.
    pub remote: Option<Span>,
    /// What was asked for.
    pub limits: (Limits, Limits),
    /// What the session stores.
    pub tag: u64,
}

/// All pairs.
#[derive(Debug, Default)]
pub struct Pairs {
    seen: BTreeMap<(Key, Place), Seen>,
    names: BTreeMap<(Key, Place), u64>,
    tags: BTreeMap<u64, u64>,
    /// Messages that sessions have sent over queue pairs, by their numbers.
    sent: BTreeMap<u64, u64>,
    /// What sessions with work queues have done, by their numbers.
    pub work: BTreeMap<u64, crate::user::work::Record>,
}

impl Pairs {
    /// A number for a session in a life of a link.
    pub fn name(&mut self, key: Key, place: Place) -> u64 {
        let next = self.names.len() as u64 + 1;
        *self.names.entry((key, place)).or_insert(next)
    }

    /// Whether the session of that number stores this.
    pub fn is_tag_of(&self, tag: u64, name: u64) -> bool {
        self.tags.get(&tag) == Some(&name)
    }

    /// The session of that number has sent a message over its queue pair.
    pub fn note_sent(&mut self, name: u64) {
        *self.sent.entry(name).or_default() += 1;
    }

    /// How many it has sent.
    pub fn sent(&self, name: u64) -> u64 {
        self.sent.get(&name).copied().unwrap_or(0)
    }

    /// A host says that its session `own` has the partner `other`.
    pub fn note(&mut self, key: Key, own: Place, other: Place, seen: Seen) {
        let name = self.name(key, own);
        self.tags.insert(seen.tag, name);
        let before = self.seen.insert((key, own), seen);
        assert!(before.is_none(), "a session has two partners");
        let of_key = (key, (0, 0))..=(key, (usize::MAX, u32::MAX));
        let mut rivals = self.seen.range(of_key).filter(|((_, place), rival)| {
            place.0 == own.0 && place.1 != own.1 && rival.partner == other.1
        });
        assert!(
            rivals.next().is_none(),
            "two sessions have the same partner"
        );
        let len = |span: Option<Span>| span.map_or(0, |span| span.len);
        let (local, remote) = (len(seen.local), len(seen.remote));
        let fits = |limits: (Limits, Limits)| limits.0.contain(local) && limits.1.contain(remote);
        assert!(
            fits(seen.limits),
            "a window has a size that was not asked for"
        );
        assert!(local + remote > 0, "a pair without a window");
        let Some(back) = self.seen.get(&(key, other)) else {
            return;
        };
        assert_eq!(back.partner, own.1, "pairs are one to one");
        let same = (back.local, back.remote) == (seen.remote, seen.local);
        assert!(same, "the two hosts mean different windows");
        let swapped = (back.limits.1, back.limits.0);
        assert!(
            fits(swapped),
            "a window has a size that the partner did not ask for"
        );
    }
}
