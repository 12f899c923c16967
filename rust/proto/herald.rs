// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the RP tells one endpoint of the others (IDT-PEER-13).
//!
//! A [`Herald`] belongs to one endpoint. It compares what the endpoint was told with the hosts
//! that are there, and gives one message at a time until there is no difference. So it does not
//! matter how often and in which order hosts come and go before a message could be sent.
//!
//! Between two endpoints that the RP forwards for, frames flow once the receiver has said that it
//! is ready: `Here` to both, `Ready` from each, and `Go` to the other one. All carry the mark of
//! the way, which is another one whenever either of the two has come anew; so no frame of an old
//! life reaches a new one.
//!
//! The two ends of a way may cease to agree, as a frame between them was lost or one of them does
//! not keep to the protocol. Either of them has the RP [renew](Herald::renew) it: both are told
//! that the other one has gone, and, after a [`Pause`], that it is there, with another mark.

use crate::manage::{Announced, Message};
use crate::pause::Pause;
use crate::wire::{mix, PeerData, PeerId, WayTag};
use core::ops::DerefMut;

/// A host that the RP reaches directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub id: PeerId,
    /// Number of its life: a host that leaves and returns has another one.
    pub life: u32,
    /// The bridge it is behind: hosts behind the same one reach each other.
    pub bridge: u64,
    /// Its peer-specific data.
    pub data: PeerData,
}

/// How two endpoints reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// They share a bridge.
    Direct,
    /// The RP forwards frames with this mark, the same in both directions.
    Way(WayTag),
    /// The last way is over, and the next one has not begun.
    Pause,
}

impl Path {
    /// Find how endpoint `a`, whose herald is `of_a`, reaches `b` at a time.
    pub fn between<S: Entries>(
        (a, of_a): (&Member, &Herald<S>),
        (b, of_b): (&Member, &Herald<S>),
        now: u64,
    ) -> Path {
        let (mine, other) = (of_a.renewals(b), of_b.renewals(a));
        if a.bridge == b.bridge {
            return Path::Direct;
        }
        if mine.pause.end(now).or(other.pause.end(now)).is_some() {
            return Path::Pause;
        }
        let (low, high) = match a.life <= b.life {
            true => (a.life, b.life),
            false => (b.life, a.life),
        };
        let turn = mine.count.wrapping_add(other.count);
        let which = u64::from(turn) << 32 | u64::from(high);
        Path::Way(WayTag::new(mix(mix(u64::from(low)) ^ which)))
    }

    /// The mark that is announced; `None` without one.
    fn way(self) -> Option<WayTag> {
        match self {
            Path::Way(way) => Some(way),
            Path::Direct | Path::Pause => None,
        }
    }
}

/// How often an endpoint has had its way to another one renewed.
#[derive(Debug, Clone, Copy, Default)]
struct Renewals {
    /// The life of the other one.
    of: u32,
    count: u32,
    pause: Pause,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    id: PeerId,
    life: u32,
    index: u32,
    way: Option<WayTag>,
    /// Whether it has said that it is ready.
    ready: bool,
    /// Whether it was told that the host is ready.
    went: bool,
}

/// What an endpoint was told of one other, and has asked for of another one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry {
    told: Option<Told>,
    /// Of the one whose index is the entry's place.
    renewals: Renewals,
}

/// Where entries are: as many as there can be others, whose indices are below that.
pub trait Entries: DerefMut<Target = [Entry]> {}

impl<S: DerefMut<Target = [Entry]>> Entries for S {}

/// What one endpoint was told of the others.
#[derive(Debug)]
pub struct Herald<S>(S);

impl<S: Entries> Herald<S> {
    /// An endpoint that was told nothing; with new entries.
    pub fn new(entries: S) -> Self {
        Herald(entries)
    }

    /// The next message to endpoint `to`, while `members` are there, itself among them. `path`
    /// says how the endpoint reaches a member, and `ready` whether that takes the endpoint's
    /// frames with that mark.
    pub fn next(
        &self,
        to: &Member,
        members: &[Member],
        path: impl Fn(&Member) -> Path,
        ready: impl Fn(&Member, WayTag) -> bool,
    ) -> Option<Message> {
        let is_there = |told: &Told| {
            let same = |m: &&Member| m.id == told.id && m.life == told.life;
            let member = members.iter().find(same)?;
            match path(member) {
                Path::Pause => None,
                path => (path.way() == told.way).then_some(member),
            }
        };
        for told in self.told() {
            match (is_there(told), told.way) {
                (None, way) => return Some(Message::Gone(told.id, way)),
                (Some(member), Some(way)) if !told.went && ready(member, way) => {
                    return Some(Message::Go(told.id, way));
                }
                _ => {}
            }
        }
        let others = members.iter().filter(|m| m.id != to.id);
        let unknown = others.filter(|m| self.find(m.id).is_none());
        let mut unknown = unknown.map(|m| (m, path(m)));
        let (member, path) = unknown.find(|(_, path)| *path != Path::Pause)?;
        let has_place = self.0.iter().any(|entry| entry.told.is_none());
        has_place.then_some(Message::Here(Announced {
            id: member.id,
            way: path.way(),
            data: member.data,
            renews: true,
        }))
    }

    /// Note that a message of [`next`](Self::next) was sent, with the same `members`.
    pub fn sent(&mut self, message: &Message, members: &[Member]) {
        match message {
            Message::Here(host) => {
                let member = members.iter().find(|m| m.id == host.id);
                let mut places = self.0.iter_mut().map(|entry| &mut entry.told);
                let place = places.find(|place| place.is_none());
                if let (Some(place), Some(member)) = (place, member) {
                    *place = Some(Told {
                        id: host.id,
                        life: member.life,
                        index: member.data.peer_index,
                        way: host.way,
                        ready: false,
                        went: false,
                    });
                }
            }
            Message::Gone(id, _) => self.forget(*id),
            Message::Go(id, way) => {
                if let Some(told) = self.find_mut(*id, *way) {
                    told.went = true;
                }
            }
            _ => {}
        }
    }

    /// The endpoint need not be told that host `id` leaves (IDT-PEER-5).
    pub fn forget(&mut self, id: PeerId) {
        for entry in self.0.iter_mut() {
            if entry.told.is_some_and(|told| told.id == id) {
                entry.told = None;
            }
        }
    }

    /// The endpoint takes frames of host `id`. What it was not told of is not believed.
    pub fn ready(&mut self, id: PeerId, way: WayTag) {
        if let Some(told) = self.find_mut(id, way) {
            told.ready = true;
        }
    }

    /// Whether the endpoint takes frames of host `id` with that mark.
    pub fn is_ready(&self, id: PeerId, way: WayTag) -> bool {
        self.find(id)
            .is_some_and(|told| told.way == Some(way) && told.ready)
    }

    /// The endpoint does not agree with host `id` any more: end the way with that mark for both, if it
    /// is the `path` between them. One that is over is not ended once more, whoever asks.
    pub fn renew(&mut self, id: PeerId, way: WayTag, path: Path, now: u64) {
        let Some(told) = self.find_mut(id, way).copied() else {
            return;
        };
        if path != Path::Way(way) {
            return;
        }
        let Some(entry) = self.0.get_mut(told.index as usize) else {
            return;
        };
        let renewals = &mut entry.renewals;
        if renewals.of != told.life {
            *renewals = Renewals {
                of: told.life,
                ..Renewals::default()
            };
        }
        if renewals.pause.end(now).is_none() {
            renewals.count = renewals.count.wrapping_add(1);
            renewals.pause.begin(now);
        }
    }

    /// When the first pause is over of those that the endpoint has asked for.
    pub fn end_of_pause(&self, now: u64) -> Option<u64> {
        let ends = self.0.iter();
        let ends = ends.filter_map(|entry| entry.renewals.pause.end(now));
        ends.min()
    }

    /// What the endpoint has asked for of that member.
    fn renewals(&self, member: &Member) -> Renewals {
        let of_index = self.0.get(member.data.peer_index as usize);
        let its = of_index.map(|entry| entry.renewals);
        its.filter(|renewals| renewals.of == member.life)
            .unwrap_or_default()
    }

    fn told(&self) -> impl Iterator<Item = &Told> {
        self.0.iter().filter_map(|entry| entry.told.as_ref())
    }

    fn find(&self, id: PeerId) -> Option<&Told> {
        self.told().find(|told| told.id == id)
    }

    fn find_mut(&mut self, id: PeerId, way: WayTag) -> Option<&mut Told> {
        let mut told = self.0.iter_mut().filter_map(|entry| entry.told.as_mut());
        told.find(|told| told.id == id && told.way == Some(way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Eight = Herald<Vec<Entry>>;

    fn eight() -> Eight {
        Herald::new(vec![Entry::default(); 8])
    }
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec;
    use std::vec::Vec;

    fn member(n: u32, life: u32, bridge: u64) -> Member {
        let data = PeerData {
            inb_base: 0,
            reg_base: 0,
            peer_index: n,
            reserved: 0,
        };
        Member {
            id: PeerId::from_bdf(n, 0, 0),
            life,
            bridge,
            data,
        }
    }

    /// The path between two that nobody has renewed.
    fn path(a: &Member, b: &Member) -> Path {
        let none = eight();
        Path::between((a, &none), (b, &none), 0)
    }

    fn way(a: &Member, b: &Member) -> Option<WayTag> {
        path(a, b).way()
    }

    /// All messages until there is none, as if each could be sent.
    fn tell(herald: &mut Eight, to: &Member, members: &[Member], ready: bool) -> Vec<Message> {
        let mut all = Vec::new();
        while let Some(message) = herald.next(to, members, |m| path(to, m), |_, _| ready) {
            herald.sent(&message, members);
            all.push(message);
        }
        all
    }

    /// IDT-PEER-13
    #[test]
    fn a_new_endpoint_is_told_of_all_that_are_there() {
        let members = [member(1, 1, 1), member(2, 2, 2), member(3, 3, 3)];
        let mut herald = eight();
        let told = tell(&mut herald, &members[0], &members, false);
        let here = |m: &Member| {
            Message::Here(Announced {
                id: m.id,
                way: way(&members[0], m),
                data: m.data,
                renews: true,
            })
        };
        assert_eq!(told, [here(&members[1]), here(&members[2])]);
    }

    /// IDT-PEER-13
    #[test]
    fn who_leaves_and_returns_is_taken_leave_of_and_announced_anew() {
        let before = [member(1, 1, 1), member(2, 2, 2)];
        let after = [before[0], member(2, 7, 2)];
        let mut herald = eight();
        tell(&mut herald, &before[0], &before, false);
        let told = tell(&mut herald, &after[0], &after, false);
        let id = before[1].id;
        assert_eq!(told[0], Message::Gone(id, way(&before[0], &before[1])));
        assert!(matches!(told[1], Message::Here(host) if host.id == id));
        assert_ne!(way(&before[0], &before[1]), way(&after[0], &after[1]));
        assert_eq!(told.len(), 2);
    }

    /// IDT-PEER-13
    #[test]
    fn hosts_behind_one_bridge_are_announced_without_a_way() {
        let members = [member(1, 1, 5), member(2, 2, 5)];
        let mut herald = eight();
        let told = tell(&mut herald, &members[0], &members, true);
        assert!(matches!(
            told[..],
            [Message::Here(Announced { way: None, .. })]
        ));
    }

    #[test]
    fn frames_flow_once_the_receiver_is_ready() {
        let members = [member(1, 1, 1), member(2, 2, 2)];
        let [a, b] = members;
        let way = way(&a, &b).expect("two bridges");
        let mut of_a = eight();
        let mut of_b = eight();
        tell(&mut of_a, &a, &members, false);
        tell(&mut of_b, &b, &members, false);
        let next = |of_a: &Eight, of_b: &Eight| {
            let ready = |_: &Member, way| of_b.is_ready(a.id, way);
            of_a.next(&a, &members, |m| path(&a, m), ready)
        };
        assert_eq!(next(&of_a, &of_b), None);
        of_b.ready(a.id, way);
        assert_eq!(next(&of_a, &of_b), Some(Message::Go(b.id, way)));
        of_a.sent(&Message::Go(b.id, way), &members);
        assert_eq!(next(&of_a, &of_b), None);
    }

    /// IDT-PEER-5
    #[test]
    fn whom_an_unloading_transport_reached_is_forgotten_without_a_word() {
        let members = [member(1, 1, 1), member(2, 2, 2), member(3, 3, 3)];
        let mut herald = eight();
        tell(&mut herald, &members[0], &members, false);
        herald.forget(members[1].id);
        herald.forget(members[2].id);
        assert_eq!(tell(&mut herald, &members[0], &members[..1], false), []);
    }

    #[test]
    fn nobody_is_ready_for_what_it_was_not_told() {
        let members = [member(1, 1, 1), member(2, 2, 2)];
        let way = way(&members[0], &members[1]).expect("two bridges");
        let mut herald = eight();
        herald.ready(members[1].id, way);
        assert!(!herald.is_ready(members[1].id, way));
    }

    /// A star of two with the RP that tells them of each other, at its time.
    struct Star {
        ends: [(Member, Eight); 2],
        now: u64,
    }

    impl Star {
        fn new() -> Star {
            let ends = [1, 2].map(|n| (member(n, n, u64::from(n)), eight()));
            Star { ends, now: 1 << 40 }
        }

        fn path(&self) -> Path {
            let [(a, of_a), (b, of_b)] = &self.ends;
            Path::between((a, of_a), (b, of_b), self.now)
        }

        /// The next message to one of them, while each is ready for the other one's frames at once.
        fn tell(&mut self, to: usize) -> Option<Message> {
            let members = self.ends.each_ref().map(|(member, _)| *member);
            let path = self.path();
            let (member, herald) = &mut self.ends[to];
            let message = herald.next(member, &members, |_| path, |_, _| true)?;
            herald.sent(&message, &members);
            Some(message)
        }

        fn tell_all(&mut self, to: usize) -> Vec<Message> {
            std::iter::from_fn(|| self.tell(to)).collect()
        }

        fn renew(&mut self, by: usize, way: WayTag) {
            let other = self.ends[1 - by].0.id;
            let path = self.path();
            self.ends[by].1.renew(other, way, path, self.now);
        }
    }

    /// design 4.2, 4.9
    #[test]
    fn a_way_that_one_end_has_renewed_ends_for_both_and_begins_with_another_mark() {
        let mut star = Star::new();
        let Path::Way(first) = star.path() else {
            panic!("two bridges");
        };
        for to in 0..2 {
            star.tell_all(to);
        }
        star.renew(1, first);
        // Both have noticed, and neither was told yet.
        star.renew(0, first);
        assert_eq!(star.ends[0].1.end_of_pause(star.now), None);
        let ids = star.ends.each_ref().map(|(member, _)| member.id);
        for to in 0..2 {
            assert_eq!(star.tell_all(to), [Message::Gone(ids[1 - to], Some(first))]);
        }
        // It is over already, whoever says so.
        star.renew(0, first);
        assert_eq!(star.path(), Path::Pause);
        star.now = star.ends[1].1.end_of_pause(star.now).expect("a pause");
        assert_eq!(star.ends[0].1.end_of_pause(star.now), None);
        let Path::Way(second) = star.path() else {
            panic!("the pause is over");
        };
        assert_ne!(first, second);
        for to in 0..2 {
            let told = star.tell_all(to);
            assert!(matches!(told[0], Message::Here(host) if host.way == Some(second)));
            assert_eq!(told[1..], [Message::Go(ids[1 - to], second)]);
        }
        // Of a way that is over, nothing is believed.
        star.renew(0, first);
        assert_eq!(star.path(), Path::Way(second));
    }

    #[test]
    fn renewals_belong_to_a_life() {
        let mut star = Star::new();
        let Path::Way(way) = star.path() else {
            panic!("two bridges");
        };
        star.tell_all(0);
        star.renew(0, way);
        star.ends[1].0.life = 9;
        assert!(matches!(star.path(), Path::Way(other) if other != way));
    }

    proptest! {
        /// Both ends come to know the same mark, and never one that they had before, however often
        /// either of them renews the way.
        #[test]
        fn both_ends_come_to_know_one_way(
            steps in prop::collection::vec((0usize..2, 0usize..4, 0u64..30_000_000), 1..60),
        ) {
            let mut star = Star::new();
            let mut known = [None; 2];
            let mut had = Vec::new();
            let mut hear = |known: &mut [Option<WayTag>; 2], to: usize, message| match message {
                Message::Here(host) => {
                    assert_eq!(known[to], None);
                    known[to] = host.way;
                    if !had.contains(&(to, host.way)) {
                        had.push((to, host.way));
                    } else {
                        panic!("it had that mark before");
                    }
                }
                Message::Gone(_, way) => {
                    assert_eq!(known[to], way);
                    known[to] = None;
                }
                Message::Go(_, way) => assert_eq!(known[to], Some(way)),
                other => panic!("{other:?}"),
            };
            for (end, messages, later) in steps {
                star.now += later;
                if let (0, Some(way)) = (messages, known[end]) {
                    star.renew(end, way);
                }
                for _ in 0..messages {
                    if let Some(message) = star.tell(end) {
                        hear(&mut known, end, message);
                    }
                }
            }
            star.now += 1_000_000_000;
            for to in 0..2 {
                for message in star.tell_all(to) {
                    hear(&mut known, to, message);
                }
            }
            prop_assert!(matches!(star.path(), Path::Way(way) if known == [Some(way); 2]));
        }

        /// IDT-PEER-13: whatever happens between two messages, an endpoint comes to know exactly
        /// the hosts that are there, in their present life.
        #[test]
        fn every_endpoint_comes_to_know_what_is(
            events in prop::collection::vec((2u32..6, any::<bool>(), 0usize..4), 1..60),
        ) {
            let me = member(1, 0, 1);
            let mut members = vec![me];
            let mut herald = eight();
            let mut known = BTreeMap::new();
            let mut life = 0;
            let mut hear = |message: Message| match message {
                Message::Here(host) => assert!(known.insert(host.id, host.way).is_none()),
                Message::Gone(id, way) => assert_eq!(known.remove(&id), Some(way)),
                Message::Go(id, way) => assert_eq!(known.get(&id), Some(&Some(way))),
                other => panic!("{other:?}"),
            };
            for (n, arrives, messages) in events {
                members.retain(|m| m.data.peer_index != n);
                if arrives {
                    life += 1;
                    members.push(member(n, life, u64::from(n)));
                }
                for _ in 0..messages {
                    if let Some(message) = herald.next(&me, &members, |m| path(&me, m), |_, _| true) {
                        herald.sent(&message, &members);
                        hear(message);
                    }
                }
            }
            for message in tell(&mut herald, &me, &members, true) {
                hear(message);
            }
            let there: BTreeMap<_, _> =
                members[1..].iter().map(|m| (m.id, way(&me, m))).collect();
            prop_assert_eq!(known, there);
        }
    }
}
