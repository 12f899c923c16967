// SPDX-License-Identifier: GPL-2.0

//! Which way a frame goes: to this host, over a link, or over a link to a host that forwards it
//! (IDT-MSG-7, IDT-MSG-8, design 4.9).
//!
//! The table is small and sorted by id, so that every host that knows the same peers decides the
//! same. Loops cannot arise: a frame is forwarded only from the link behind which its source
//! lives to another link whose *direct* neighbour is its destination, therefore at most once.

use crate::wire::PeerId;

/// Number of a link, given by the caller.
pub type LinkIndex = u32;

/// How a peer is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// It is the other end of a link.
    Link(LinkIndex),
    /// A direct neighbour forwards to it.
    Via(PeerId),
}

/// Why a route was not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteError {
    /// The id does not name a host, or names this one.
    BadId,
    /// The peer is there already (IDT-PEER-9).
    Duplicate,
    /// The neighbour that is to forward is not known, or not direct.
    NoSuchHop,
    /// No place left.
    Full,
}

/// Where a frame of this host goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// To this host itself (IDT-PEER-11).
    Local,
    /// Over this link.
    Link(LinkIndex),
}

/// What to do with a frame that came over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is for this host.
    Deliver,
    /// It goes on over this link (IDT-MSG-7).
    Forward(LinkIndex),
    /// It is dropped and counted.
    Drop(DropReason),
}

/// Why a frame is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The source is not known behind the link it came from (IDT-MSG-8).
    Source,
    /// The destination is not known (IDT-MSG-7).
    Unknown,
    /// It would go back where it came from, or be forwarded twice.
    Loop,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: PeerId,
    hop: Hop,
}

/// The routes of one host to at most `N` peers.
#[derive(Debug)]
pub struct Routes<const N: usize> {
    own: PeerId,
    entries: [Option<Entry>; N],
    len: usize,
}

impl<const N: usize> Routes<N> {
    /// A host that knows nobody. `own` is [`PeerId::SELF`] while the host has no id.
    pub const fn new(own: PeerId) -> Self {
        Routes {
            own,
            entries: [None; N],
            len: 0,
        }
    }

    /// The id of this host.
    #[inline]
    pub fn own(&self) -> PeerId {
        self.own
    }

    /// Gives this host its id.
    ///
    /// # Errors
    /// [`RouteError::BadId`] when it names no host, [`RouteError::Duplicate`] when a peer has it.
    pub fn set_own(&mut self, own: PeerId) -> Result<(), RouteError> {
        if !own.is_host() {
            return Err(RouteError::BadId);
        }
        if self.position(own).is_ok() {
            return Err(RouteError::Duplicate);
        }
        self.own = own;
        Ok(())
    }

    /// Number of peers.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Enters a peer that has arrived.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub fn add(&mut self, id: PeerId, hop: Hop) -> Result<(), RouteError> {
        if !id.is_host() || id == self.own {
            return Err(RouteError::BadId);
        }
        if let Hop::Via(neighbour) = hop {
            if self.direct(neighbour).is_none() {
                return Err(RouteError::NoSuchHop);
            }
        }
        let at = match self.position(id) {
            Ok(_) => return Err(RouteError::Duplicate),
            Err(at) => at,
        };
        if self.len >= N {
            return Err(RouteError::Full);
        }
        let tail = self.entries.get_mut(at..=self.len);
        let tail = tail.ok_or(RouteError::Full)?;
        tail.rotate_right(1);
        if let Some(place) = tail.first_mut() {
            *place = Some(Entry { id, hop });
        }
        self.len += 1;
        Ok(())
    }

    /// Removes a peer that has left, and those that were reached over it; `gone` hears of each,
    /// in the order of their ids. `false` when the peer was not known.
    pub fn remove(&mut self, id: PeerId, gone: impl FnMut(PeerId)) -> bool {
        if self.position(id).is_err() {
            return false;
        }
        self.retain(|_, e| e.id != id && e.hop != Hop::Via(id), gone);
        true
    }

    /// Removes all peers that were reached over a link; `gone` hears of each, in the order of
    /// their ids.
    pub fn remove_link(&mut self, link: LinkIndex, gone: impl FnMut(PeerId)) {
        let mut over = [false; N];
        for (over, entry) in over.iter_mut().zip(self.entries.iter().flatten()) {
            *over = self.link_of(entry.id) == Some(link);
        }
        self.retain(|at, _| !over.get(at).copied().unwrap_or(false), gone);
    }

    /// How a peer is reached.
    #[inline]
    pub fn hop(&self, id: PeerId) -> Option<Hop> {
        let at = self.position(id).ok()?;
        Some(self.entries.get(at).copied().flatten()?.hop)
    }

    /// The link over which a peer is reached.
    #[inline]
    pub fn link_of(&self, id: PeerId) -> Option<LinkIndex> {
        match self.hop(id)? {
            Hop::Link(link) => Some(link),
            Hop::Via(neighbour) => self.direct(neighbour),
        }
    }

    /// Where a frame of this host to `dst` goes; `None` for an unknown peer and for
    /// [`PeerId::BCAST`], of which [`Self::peers`] gives the copies.
    #[inline]
    pub fn next(&self, dst: PeerId) -> Option<Next> {
        if self.is_own(dst) {
            return Some(Next::Local);
        }
        self.link_of(dst).map(Next::Link)
    }

    /// What to do with a frame from `src` to `dst` that came over `link`.
    #[inline]
    pub fn receive(&self, src: PeerId, dst: PeerId, link: LinkIndex) -> Verdict {
        let behind = self.hop(src);
        if behind.is_none() || self.link_of(src) != Some(link) {
            return Verdict::Drop(DropReason::Source);
        }
        if dst == PeerId::BCAST || self.is_own(dst) {
            return Verdict::Deliver;
        }
        match (behind, self.hop(dst)) {
            (_, None) => Verdict::Drop(DropReason::Unknown),
            (Some(Hop::Link(_)), Some(Hop::Link(to))) if to != link => Verdict::Forward(to),
            _ => Verdict::Drop(DropReason::Loop),
        }
    }

    /// All peers with the link that leads to each, in the order of their ids: the copies of a
    /// broadcast (IDT-MSG-3).
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, LinkIndex)> + '_ {
        let known = self.entries.iter().flatten();
        known.filter_map(|e| Some((e.id, self.link_of(e.id)?)))
    }

    #[inline]
    fn is_own(&self, id: PeerId) -> bool {
        id == PeerId::SELF || id == self.own
    }

    #[inline]
    fn direct(&self, id: PeerId) -> Option<LinkIndex> {
        match self.hop(id) {
            Some(Hop::Link(link)) => Some(link),
            _ => None,
        }
    }

    #[inline]
    fn position(&self, id: PeerId) -> Result<usize, usize> {
        let known = self.entries.get(..self.len).unwrap_or(&[]);
        known.binary_search_by_key(&Some(id), |e| e.map(|e| e.id))
    }

    /// Keeps the entries for which `keep`, given place and entry, says so.
    fn retain(&mut self, keep: impl Fn(usize, &Entry) -> bool, mut gone: impl FnMut(PeerId)) {
        let mut len = 0;
        for at in 0..self.len {
            let Some(entry) = self.entries.get_mut(at).and_then(Option::take) else {
                continue;
            };
            if !keep(at, &entry) {
                gone(entry.id);
            } else if let Some(place) = self.entries.get_mut(len) {
                *place = Some(entry);
                len += 1;
            }
        }
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    const A: PeerId = PeerId(0x100);
    const B: PeerId = PeerId(0x200);

    fn star() -> Routes<8> {
        let mut rp = Routes::new(PeerId::RP);
        rp.add(B, Hop::Link(2)).expect("free");
        rp.add(A, Hop::Link(1)).expect("free");
        rp
    }

    fn endpoint() -> Routes<8> {
        let mut ep = Routes::new(A);
        ep.add(PeerId::RP, Hop::Link(0)).expect("free");
        ep.add(B, Hop::Via(PeerId::RP)).expect("free");
        ep
    }

    /// IDT-MSG-7, design 4.9
    #[test]
    fn the_rp_forwards_between_the_endpoints_of_a_star() {
        let (rp, ep) = (star(), endpoint());
        assert_eq!(ep.next(B), Some(Next::Link(0)));
        assert_eq!(rp.receive(A, B, 1), Verdict::Forward(2));
        let mut b = Routes::<8>::new(B);
        b.add(PeerId::RP, Hop::Link(5)).expect("free");
        b.add(A, Hop::Via(PeerId::RP)).expect("free");
        assert_eq!(b.receive(A, B, 5), Verdict::Deliver);
    }

    /// IDT-MSG-7
    #[test]
    fn an_unknown_destination_is_dropped() {
        assert_eq!(
            star().receive(A, PeerId(0x300), 1),
            Verdict::Drop(DropReason::Unknown)
        );
        assert_eq!(star().next(PeerId(0x300)), None);
    }

    /// IDT-MSG-8
    #[test]
    fn a_source_is_accepted_only_from_its_own_link() {
        let rp = star();
        let wrong = Verdict::Drop(DropReason::Source);
        assert_eq!(rp.receive(B, PeerId::RP, 1), wrong);
        assert_eq!(rp.receive(PeerId(0x300), PeerId::RP, 1), wrong);
        assert_eq!(rp.receive(PeerId::RP, A, 1), wrong);
        assert_eq!(rp.receive(PeerId::BCAST, A, 1), wrong);
    }

    /// IDT-MSG-7
    #[test]
    fn a_frame_never_goes_back_and_is_never_forwarded_twice() {
        assert_eq!(star().receive(A, A, 1), Verdict::Drop(DropReason::Loop));
        let ep = endpoint();
        assert_eq!(
            ep.receive(PeerId::RP, B, 0),
            Verdict::Drop(DropReason::Loop)
        );
    }

    /// IDT-PEER-10, IDT-PEER-11
    #[test]
    fn frames_to_self_stay_here() {
        assert_eq!(star().next(PeerId::SELF), Some(Next::Local));
        assert_eq!(star().next(PeerId::RP), Some(Next::Local));
        assert_eq!(star().receive(A, PeerId::SELF, 1), Verdict::Deliver);
    }

    /// IDT-MSG-3
    #[test]
    fn a_broadcast_makes_one_copy_per_peer() {
        let copies: Vec<_> = endpoint().peers().collect();
        assert_eq!(copies, [(PeerId::RP, 0), (B, 0)]);
        assert_eq!(star().receive(A, PeerId::BCAST, 1), Verdict::Deliver);
    }

    /// IDT-PEER-9
    #[test]
    fn a_duplicate_or_senseless_route_is_refused() {
        let mut rp = star();
        assert_eq!(rp.add(A, Hop::Link(7)), Err(RouteError::Duplicate));
        assert_eq!(rp.add(PeerId::RP, Hop::Link(7)), Err(RouteError::BadId));
        assert_eq!(rp.add(PeerId::BCAST, Hop::Link(7)), Err(RouteError::BadId));
        let far = PeerId(0x300);
        assert_eq!(
            rp.add(far, Hop::Via(PeerId(0x999))),
            Err(RouteError::NoSuchHop)
        );
        rp.add(far, Hop::Via(A)).expect("direct");
        assert_eq!(
            rp.add(PeerId(0x301), Hop::Via(far)),
            Err(RouteError::NoSuchHop)
        );
        assert_eq!(rp.set_own(B), Err(RouteError::Duplicate));
        assert_eq!(rp.set_own(PeerId::SELF), Err(RouteError::BadId));
        let mut tiny = Routes::<1>::new(PeerId::RP);
        tiny.add(A, Hop::Link(0)).expect("free");
        assert_eq!(tiny.add(B, Hop::Link(1)), Err(RouteError::Full));
    }

    /// IDT-PEER-12, IDT-PEER-13
    #[test]
    fn whoever_was_reached_over_a_lost_link_leaves_with_it() {
        let mut ep = endpoint();
        let mut gone = Vec::new();
        ep.remove_link(0, |id| gone.push(id));
        assert_eq!(gone, [PeerId::RP, B]);
        assert_eq!(ep.len(), 0);
        let mut ep = endpoint();
        let mut gone = Vec::new();
        assert!(ep.remove(PeerId::RP, |id| gone.push(id)));
        assert!(!ep.remove(PeerId::RP, |id| gone.push(id)));
        assert_eq!(gone, [PeerId::RP, B]);
    }

    proptest! {
        /// IDT-PEER-9
        #[test]
        fn the_table_behaves_like_a_sorted_map(
            events in prop::collection::vec((0u32..20, 0u32..4, any::<bool>()), 0..100),
        ) {
            let mut routes = Routes::<8>::new(PeerId(0xffff));
            let mut truth = BTreeMap::new();
            for (id, link, add) in events {
                let id = PeerId(id);
                if add {
                    let result = routes.add(id, Hop::Link(link));
                    let expected = match (truth.contains_key(&id), truth.len()) {
                        (true, _) => Err(RouteError::Duplicate),
                        (_, 8) => Err(RouteError::Full),
                        _ => Ok(()),
                    };
                    prop_assert_eq!(result, expected);
                    if result.is_ok() {
                        truth.insert(id, link);
                    }
                } else if link == 0 {
                    routes.remove_link(id.0 % 4, |_| {});
                    truth.retain(|_, l| *l != id.0 % 4);
                } else {
                    prop_assert_eq!(routes.remove(id, |_| {}), truth.remove(&id).is_some());
                }
                let listed: Vec<_> = routes.peers().collect();
                let expected: Vec<_> = truth.iter().map(|(i, l)| (*i, *l)).collect();
                prop_assert_eq!(listed, expected);
            }
        }
    }
}
