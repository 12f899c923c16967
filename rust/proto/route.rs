// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Which way a frame goes that has come over a link: to this host, or on to another one
//! (IDT-MSG-7, IDT-MSG-8, design 4.9).
//!
//! Hosts that share no bridge reach each other over one host between them, the root processor.
//! Loops cannot arise: only the neighbour's own frames are forwarded, therefore each frame at most
//! once.

use crate::wire::PeerId;

/// What to do with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is for this host, from the neighbour itself.
    Deliver,
    /// It is for this host, from a host that the neighbour forwards for.
    DeliverFar,
    /// It is for another host, if this one forwards between the two (IDT-MSG-7).
    Forward,
    /// It would be forwarded twice, or go back where it came from.
    Loop,
    /// Its source is no host, or this one (IDT-MSG-8).
    BadSource,
}

/// What host `own` does with a frame from `src` to `dst` that has come over the link to
/// `neighbour`. All ids are those of hosts, but `dst` may be [`PeerId::BCAST`] too.
#[inline]
pub fn verdict(own: PeerId, neighbour: PeerId, src: PeerId, dst: PeerId) -> Verdict {
    let here = dst == own || dst == PeerId::BCAST;
    if src == neighbour {
        return match here {
            true => Verdict::Deliver,
            false if dst == neighbour => Verdict::Loop,
            false => Verdict::Forward,
        };
    }
    match here {
        _ if src == own || !src.is_host() => Verdict::BadSource,
        true => Verdict::DeliverFar,
        false => Verdict::Loop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RP: PeerId = PeerId::RP;
    const A: PeerId = PeerId(0x100);
    const B: PeerId = PeerId(0x200);

    /// IDT-MSG-7, design 4.9
    #[test]
    fn the_rp_forwards_between_the_endpoints_of_a_star() {
        assert_eq!(verdict(RP, A, A, B), Verdict::Forward);
        assert_eq!(verdict(B, RP, A, B), Verdict::DeliverFar);
    }

    /// IDT-MSG-4
    #[test]
    fn frames_of_the_neighbour_for_this_host_or_for_all_stay_here() {
        assert_eq!(verdict(RP, A, A, RP), Verdict::Deliver);
        assert_eq!(verdict(A, B, B, A), Verdict::Deliver);
        assert_eq!(verdict(A, RP, RP, PeerId::BCAST), Verdict::Deliver);
    }

    /// IDT-MSG-8
    #[test]
    fn nobody_sends_in_the_name_of_this_host_or_of_none() {
        assert_eq!(verdict(RP, A, RP, B), Verdict::BadSource);
        assert_eq!(verdict(RP, A, PeerId::BCAST, RP), Verdict::BadSource);
        assert_eq!(verdict(A, RP, PeerId::SELF, A), Verdict::BadSource);
    }

    /// IDT-MSG-7
    #[test]
    fn a_frame_never_goes_back_and_is_never_forwarded_twice() {
        assert_eq!(verdict(RP, A, A, A), Verdict::Loop);
        assert_eq!(verdict(B, RP, A, PeerId(0x300)), Verdict::Loop);
        assert_eq!(verdict(RP, A, B, PeerId(0x300)), Verdict::Loop);
    }

    proptest! {
        /// IDT-MSG-7: whoever is asked, along any way, a frame is forwarded at most once.
        #[test]
        fn no_chain_of_hosts_forwards_a_frame_twice(
            hosts in prop::collection::vec(0u32..8, 4),
            src in 0u32..8,
            dst in 0u32..8,
        ) {
            let id = |n: u32| PeerId(n << 8);
            let forwarded = hosts
                .windows(2)
                .filter(|w| verdict(id(w[1]), id(w[0]), id(src), id(dst)) == Verdict::Forward)
                .count();
            let senders = hosts.iter().filter(|h| **h == src).count();
            // Only the one behind the source forwards, however often the source is on the way.
            prop_assert!(forwarded <= senders);
        }
    }
}
