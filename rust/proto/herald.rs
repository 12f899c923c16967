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

use crate::manage::{Announced, Message};
use crate::wire::{mix, PeerData, PeerId, WayTag};

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

/// The mark of frames that are forwarded between `a` and `b`, the same in both directions; `None`
/// if they share a bridge.
pub fn way(a: &Member, b: &Member) -> Option<WayTag> {
    let (low, high) = match a.life <= b.life {
        true => (a.life, b.life),
        false => (b.life, a.life),
    };
    (a.bridge != b.bridge).then(|| WayTag::new(mix(mix(u64::from(low)) ^ u64::from(high))))
}

#[derive(Debug, Clone, Copy)]
struct Told {
    id: PeerId,
    life: u32,
    way: Option<WayTag>,
    /// Whether it has said that it is ready.
    ready: bool,
    /// Whether it was told that the host is ready.
    went: bool,
}

/// What one endpoint was told of at most `N` others.
#[derive(Debug)]
pub struct Herald<const N: usize> {
    told: [Option<Told>; N],
}

impl<const N: usize> Default for Herald<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Herald<N> {
    /// An endpoint that was told nothing.
    pub const fn new() -> Self {
        Herald { told: [None; N] }
    }

    /// The next message to endpoint `to`, while `members` are there, itself among them. `ready`
    /// says whether a member takes the endpoint's frames with that mark.
    pub fn next(
        &self,
        to: &Member,
        members: &[Member],
        ready: impl Fn(&Member, WayTag) -> bool,
    ) -> Option<Message> {
        let is_there = |told: &Told| {
            let same = |m: &&Member| m.id == told.id && m.life == told.life;
            members.iter().find(same)
        };
        for told in self.told.iter().flatten() {
            match (is_there(told), told.way) {
                (None, way) => return Some(Message::Gone(told.id, way)),
                (Some(member), Some(way)) if !told.went && ready(member, way) => {
                    return Some(Message::Go(told.id, way));
                }
                _ => {}
            }
        }
        let others = members.iter().filter(|m| m.id != to.id);
        let mut unknown = others.filter(|m| self.find(m.id).is_none());
        let has_place = self.told.iter().any(Option::is_none);
        unknown.next().filter(|_| has_place).map(|member| {
            Message::Here(Announced {
                id: member.id,
                way: way(to, member),
                data: member.data,
            })
        })
    }

    /// Note that a message of [`next`](Self::next) was sent, with the same `members`.
    pub fn sent(&mut self, message: &Message, members: &[Member]) {
        match message {
            Message::Here(host) => {
                let life = members.iter().find(|m| m.id == host.id).map(|m| m.life);
                let place = self.told.iter_mut().find(|place| place.is_none());
                if let (Some(place), Some(life)) = (place, life) {
                    *place = Some(Told {
                        id: host.id,
                        life,
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
        for place in &mut self.told {
            if place.is_some_and(|told| told.id == id) {
                *place = None;
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

    fn find(&self, id: PeerId) -> Option<&Told> {
        self.told.iter().flatten().find(|told| told.id == id)
    }

    fn find_mut(&mut self, id: PeerId, way: WayTag) -> Option<&mut Told> {
        let mut told = self.told.iter_mut().flatten();
        told.find(|told| told.id == id && told.way == Some(way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    /// All messages until there is none, as if each could be sent.
    fn tell(herald: &mut Herald<8>, to: &Member, members: &[Member], ready: bool) -> Vec<Message> {
        let mut all = Vec::new();
        while let Some(message) = herald.next(to, members, |_, _| ready) {
            herald.sent(&message, members);
            all.push(message);
        }
        all
    }

    /// IDT-PEER-13
    #[test]
    fn a_new_endpoint_is_told_of_all_that_are_there() {
        let members = [member(1, 1, 1), member(2, 2, 2), member(3, 3, 3)];
        let mut herald = Herald::new();
        let told = tell(&mut herald, &members[0], &members, false);
        let here = |m: &Member| {
            Message::Here(Announced {
                id: m.id,
                way: way(&members[0], m),
                data: m.data,
            })
        };
        assert_eq!(told, [here(&members[1]), here(&members[2])]);
    }

    /// IDT-PEER-13
    #[test]
    fn who_leaves_and_returns_is_taken_leave_of_and_announced_anew() {
        let before = [member(1, 1, 1), member(2, 2, 2)];
        let after = [before[0], member(2, 7, 2)];
        let mut herald = Herald::new();
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
        let mut herald = Herald::new();
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
        let mut of_a = Herald::<8>::new();
        let mut of_b = Herald::<8>::new();
        tell(&mut of_a, &a, &members, false);
        tell(&mut of_b, &b, &members, false);
        assert_eq!(of_a.next(&a, &members, |_, w| of_b.is_ready(a.id, w)), None);
        of_b.ready(a.id, way);
        let go = of_a.next(&a, &members, |_, w| of_b.is_ready(a.id, w));
        assert_eq!(go, Some(Message::Go(b.id, way)));
        of_a.sent(&Message::Go(b.id, way), &members);
        assert_eq!(of_a.next(&a, &members, |_, w| of_b.is_ready(a.id, w)), None);
    }

    /// IDT-PEER-5
    #[test]
    fn whom_an_unloading_transport_reached_is_forgotten_without_a_word() {
        let members = [member(1, 1, 1), member(2, 2, 2), member(3, 3, 3)];
        let mut herald = Herald::new();
        tell(&mut herald, &members[0], &members, false);
        herald.forget(members[1].id);
        herald.forget(members[2].id);
        assert_eq!(tell(&mut herald, &members[0], &members[..1], false), []);
    }

    #[test]
    fn nobody_is_ready_for_what_it_was_not_told() {
        let members = [member(1, 1, 1), member(2, 2, 2)];
        let way = way(&members[0], &members[1]).expect("two bridges");
        let mut herald = Herald::<8>::new();
        herald.ready(members[1].id, way);
        assert!(!herald.is_ready(members[1].id, way));
    }

    proptest! {
        /// IDT-PEER-13: whatever happens between two messages, an endpoint comes to know exactly
        /// the hosts that are there, in their present life.
        #[test]
        fn every_endpoint_comes_to_know_what_is(
            events in prop::collection::vec((2u32..6, any::<bool>(), 0usize..4), 1..60),
        ) {
            let me = member(1, 0, 1);
            let mut members = vec![me];
            let mut herald = Herald::<8>::new();
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
                    if let Some(message) = herald.next(&me, &members, |_, _| true) {
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
