// SPDX-License-Identifier: GPL-2.0-only

//! The root processor of a star: forwarding, announcements, statistics on request.

use kernel::prelude::*;

#[kunit_tests(mp_forward)]
mod tests {
    use super::*;
    use crate::fixture::{
        self,
        Attempt,
        Bytes,
        Fabric,
        Listener,
        Outcome, //
    };
    use core::cell::Cell;
    use kernel::{
        sync::Arc,
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };
    use mp_kernel::{
        bytes::Writer,
        error,
        sync::without_bh,
        time::monotonic_ns, //
    };
    use mp_proto::{
        flow,
        letters::SHARE,
        manage::{
            Announced,
            Lane,
            Message, //
        },
        reach::ROUTED_LEN,
        wire::{
            Envelope,
            MsgHdr,
            PeerData,
            PeerId,
            Priority,
            WayTag, //
        }, //
    };
    use mp_transport::{
        frame::{
            Frame,
            FuncId,
            RxData, //
        },
        function,
        interface::{
            self,
            Interface,
            Kind, //
        },
        peer::Peer,
        questions,
        service::{
            self,
            MAX_PEERS, //
        }, //
    };

    const FUNC: u32 = 0x4b55_4e54;
    const ONE: PeerId = PeerId::from_bdf(1, 0, 0);
    const TWO: PeerId = PeerId::from_bdf(2, 0, 0);
    const DATA: usize = 1000;

    /// The message header of a frame from the first peer to the second one.
    const MSG: MsgHdr = MsgHdr {
        dst: TWO,
        src: ONE,
        len: DATA as u32,
        func: FUNC,
    };

    /// A star of two, and the mark of the way between them.
    fn star() -> Result<(Fabric, WayTag)> {
        let fabric = Fabric::star(2)?;
        match fabric.link(1)?.await_messages(1).as_slice() {
            [Message::Here(Announced { way: Some(way), .. })] => Ok((fabric, *way)),
            _ => Err(ENOENT),
        }
    }

    /// Let the first peer send a frame with this header and mark.
    fn send(fabric: &Fabric, msg: MsgHdr, way: u32) -> Result {
        send_data(fabric, msg, way, &Bytes(&[5; DATA]))
    }

    /// The same with this data.
    fn send_data(fabric: &Fabric, msg: MsgHdr, way: u32, data: &dyn RxData) -> Result {
        let peer = fabric.peer(1)?;
        service::receive(&fixture::context(), &peer, msg, &way.to_le_bytes(), data)
    }

    /// Data of a frame: notes that it is read.
    struct Unread(Cell<bool>);

    impl RxData for Unread {
        fn len(&self) -> usize {
            DATA
        }

        fn copy_to(&self, _offset: usize, _dst: Writer<'_>) -> Result {
            self.0.set(true);
            Err(EINVAL)
        }
    }

    /// A message of peer `from` to this host's service.
    fn tell(fabric: &Fabric, from: u32, message: &Message) -> Result {
        let bytes = message.encode();
        let peer = fabric.peer(from)?;
        let msg = MsgHdr {
            dst: PeerId::RP,
            src: peer.id(),
            len: bytes.len() as u32,
            func: mp_proto::manage::FUNC_ID,
        };
        service::receive(&fixture::context(), &peer, msg, &bytes, &Bytes(&[]))
    }

    #[test]
    fn a_frame_for_a_peer_behind_another_bridge_is_passed_on_as_it_is() -> Result {
        let (fabric, way) = star()?;
        send(&fabric, MSG, way.value())?;
        let way = Some(way);
        assert_eq!(
            fabric.link(2)?.take_frames().as_slice(),
            [Envelope { msg: MSG, way }]
        );
        assert!(fabric.link(1)?.take_frames().is_empty());
        Ok(())
    }

    #[test]
    fn both_ends_of_a_way_are_told_the_same_mark_and_when_the_other_is_ready() -> Result {
        let (fabric, way) = star()?;
        let told = fabric.link(2)?.await_messages(1);
        assert!(
            matches!(told.as_slice(), [Message::Here(host)] if host.id == ONE && host.way == Some(way))
        );
        tell(&fabric, 2, &Message::Ready(ONE, way))?;
        let told = fabric.link(1)?.await_messages(1);
        assert_eq!(told.as_slice(), [Message::Go(TWO, way)]);
        assert!(fabric.link(2)?.take_messages().is_empty());
        Ok(())
    }

    #[test]
    fn a_peer_that_says_too_much_costs_no_other_what_it_says() -> Result {
        let (fabric, way) = star()?;
        // The worker does not read meanwhile, if there is one processor.
        let refused = without_bh(|| {
            let say = || tell(&fabric, 1, &Message::Ready(PeerId::RP, way));
            let refused = (0..2 * SHARE).filter(|_| say().is_err()).count();
            tell(&fabric, 2, &Message::Ready(ONE, way)).map(|()| refused)
        })?;
        assert!(refused <= SHARE);
        let told = fabric.link(1)?.await_messages(1);
        assert_eq!(told.as_slice(), [Message::Go(TWO, way)]);
        Ok(())
    }

    #[test]
    fn peers_at_one_bridge_are_announced_and_nothing_is_forwarded_between_them() -> Result {
        let fabric = Fabric::new(2)?;
        let told = fabric.link(1)?.await_messages(1);
        assert!(matches!(told.as_slice(), [Message::Here(host)] if host.way.is_none()));
        assert_eq!(send(&fabric, MSG, 1), Err(error::unreachable()));
        assert!(fabric.link(2)?.take_frames().is_empty());
        Ok(())
    }

    #[test]
    fn what_waits_for_room_goes_on_in_order() -> Result {
        let (fabric, way) = star()?;
        fabric.link(2)?.refuse(true);
        for func in 1..=20 {
            send(&fabric, MsgHdr { func, ..MSG }, way.value())?;
        }
        assert!(fabric.link(2)?.take_frames().is_empty());
        fabric.link(2)?.refuse(false);
        fabric.peer(2)?.tx_completed(0, 1);
        let functions = fabric.link(2)?.take_frames();
        assert!(functions.iter().map(|head| head.msg.func).eq(1..=20));
        Ok(())
    }

    #[test]
    fn a_sender_beyond_its_credits_loses_its_frames_and_no_others() -> Result {
        let (fabric, way) = star()?;
        fabric.link(2)?.refuse(true);
        let fits = flow::WINDOW / flow::cost(DATA);
        for _ in 0..fits {
            send(&fabric, MSG, way.value())?;
        }
        let before = service::DROPS.overrun.get();
        assert_eq!(send(&fabric, MSG, way.value()), Err(error::no_buffers()));
        assert_eq!(service::DROPS.overrun.get(), before + 1);
        // They are not even looked at.
        let unread = Unread(Cell::new(false));
        assert_eq!(
            send_data(&fabric, MSG, way.value(), &unread),
            Err(error::no_buffers())
        );
        assert!(!unread.0.get());
        // The sender is told what was passed on, and may send as much again.
        fabric.link(2)?.refuse(false);
        fabric.peer(2)?.tx_completed(0, 1);
        assert_eq!(fabric.link(2)?.take_frames().len(), fits as usize);
        let lane = Lane {
            dst: TWO,
            way,
            number: 1,
        };
        let total = fits * flow::cost(DATA);
        assert_eq!(
            fabric.link(1)?.take_messages().last(),
            Some(&Message::Passed(lane, total))
        );
        send(&fabric, MSG, way.value())
    }

    /// What the first peer, the RP, tells this host.
    fn hear(fabric: &Fabric, message: &Message) -> Result {
        let bytes = message.encode();
        let msg = MsgHdr {
            dst: service::self_id(),
            src: PeerId::RP,
            len: bytes.len() as u32,
            func: mp_proto::manage::FUNC_ID,
        };
        let peer = fabric.peer(1)?;
        service::receive(&fixture::context(), &peer, msg, &bytes, &Bytes(&[]))
    }

    /// The second host as the RP announces it.
    fn announced(id: PeerId, way: WayTag, renews: bool) -> Message {
        Message::Here(Announced {
            id,
            way: Some(way),
            data: PeerData {
                peer_index: 2,
                ..PeerData::default()
            },
            renews,
        })
    }

    /// An endpoint, and its peer behind the RP, which takes frames. The RP is of the first release.
    fn distance(way: WayTag) -> Result<(Fabric, Arc<Peer>)> {
        distance_beside(way, false)
    }

    /// The same beside an RP that renews ways, or does not.
    fn distance_beside(way: WayTag, renews: bool) -> Result<(Fabric, Arc<Peer>)> {
        let fabric = Fabric::endpoint()?;
        hear(&fabric, &announced(TWO, way, renews))?;
        let told = fabric.link(1)?.await_messages(1);
        assert_eq!(told.as_slice(), [Message::Ready(TWO, way)]);
        let peer = service::peer_get(TWO).ok_or(ENOENT)?;
        assert!(!peer.arm_priority());
        hear(&fabric, &Message::Go(TWO, way))?;
        assert!(soon(|| peer.arm_priority()));
        Ok((fabric, peer))
    }

    #[test]
    fn who_waits_for_priority_frames_to_a_peer_at_a_distance_is_told_of_their_room() -> Result {
        let (fabric, peer) = distance(WayTag::new(7))?;
        let outcome = Outcome::new()?;
        let frame = || {
            Frame::new(
                FuncId(FUNC),
                &[0; 8],
                Priority::High,
                Attempt::new(&outcome),
            )
        };
        let mut taken = 0;
        while peer.send(&frame()?, 0).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, flow::WINDOW / flow::cost(8));
        fabric.link(1)?.take_messages();
        // They wait for their own credits, and for nobody else's.
        assert!(!peer.arm_priority());
        let lane = Lane {
            dst: TWO,
            way: WayTag::new(7),
            number: 0,
        };
        let half = (taken * flow::cost(8)).div_ceil(2);
        let asked = fabric.link(1)?.take_messages();
        assert_eq!(asked.as_slice(), [Message::Want(lane, half)]);
        assert!(peer.arm_tx(0));
        let listener = Listener::new()?;
        let listens = function::Registration::new(FuncId(FUNC), listener.clone())?;
        hear(&fabric, &Message::Passed(lane, half))?;
        assert_eq!(listener.completed(), 1);
        assert!(peer.arm_priority());
        assert!(peer.send(&frame()?, 0).is_ok());
        // With credits, they wait for room in the ring of the RP.
        fabric.link(1)?.refuse(true);
        assert!(peer.send(&frame()?, 0).is_err() && !peer.arm_priority());
        fabric.link(1)?.refuse(false);
        fabric.peer(1)?.tx_completed(0, 0);
        assert!(listener.completed() >= 2);
        drop((listens, peer, fabric));
        Ok(())
    }

    /// Whether something is so, soon.
    fn soon(is_so: impl Fn() -> bool) -> bool {
        for _ in 0..1000 {
            if is_so() {
                return true;
            }
            fsleep(Delta::from_millis(1));
        }
        false
    }

    /// The interface to the peer behind the RP.
    fn interface_behind() -> Result<Arc<Interface>> {
        interface::get(interface::id_behind(TWO)).ok_or(ENOENT)
    }

    /// Whether that is the peer at the far end.
    fn has(interface: &Interface, peer: &Arc<Peer>) -> bool {
        let there = interface.peer();
        there.is_some_and(|there| Arc::ptr_eq(&there, peer))
    }

    #[test]
    fn a_peer_at_a_distance_has_an_interface_that_stays_when_it_goes() -> Result {
        let way = WayTag::new(8);
        let (fabric, peer) = distance(way)?;
        let interface = interface_behind()?;
        assert!(interface.info().kind == Kind::Routed);
        assert!(soon(|| has(&interface, &peer)));
        hear(&fabric, &Message::Gone(TWO, Some(way)))?;
        assert!(soon(|| !interface.is_up()));
        assert!(Arc::ptr_eq(&interface_behind()?, &interface));
        drop((peer, fabric));
        Ok(())
    }

    #[test]
    fn a_peer_at_a_distance_sends_what_it_stores_into_memory_that_is_cut_for_it() -> Result {
        let way = WayTag::new(9);
        let (fabric, peer) = distance(way)?;
        let memory = peer.memory().ok_or(ENOENT)?;
        assert!(memory.reach(0, 4096).is_err());
        let local = memory.alloc(4096)?;
        let (words, bytes) = ([7; 64], [8; 100]);
        memory.store(local.off() + 64, &words)?;
        memory.store(local.off() + 201, &bytes)?;
        let mut found = [0; 512];
        local.read(0, &mut found)?;
        assert_eq!(found.get(64..128), Some(words.as_slice()));
        assert_eq!(found.get(201..301), Some(bytes.as_slice()));
        assert_eq!(found.iter().filter(|byte| **byte != 0).count(), 164);
        for outside in [ROUTED_LEN as u64 - 4, ROUTED_LEN as u64, u64::MAX - 7] {
            assert!(memory.store(outside, &[1; 8]).is_err());
        }
        hear(&fabric, &Message::Gone(TWO, Some(way)))?;
        // Its life is over; what was cut stays its owner's.
        assert!(soon(|| memory.alloc(4096).is_err()));
        assert_eq!(local.load_u64(64)?, u64::from_ne_bytes([7; 8]));
        drop((peer, fabric));
        Ok(())
    }

    #[test]
    fn a_link_of_its_own_takes_the_peer_from_the_longer_way_as_long_as_it_is_there() -> Result {
        let (mut fabric, peer) = distance(WayTag::new(10))?;
        let interface = interface_behind()?;
        assert!(soon(|| has(&interface, &peer)));
        fabric.add()?;
        assert!(!interface.is_up());
        assert!(service::peer_get(TWO).is_some_and(|peer| peer.hop().is_none()));
        fabric.remove_last();
        assert!(soon(|| interface.is_up()));
        assert!(!has(&interface, &peer));
        drop((interface, peer, fabric));
        Ok(())
    }

    #[test]
    fn to_start_over_a_peer_at_a_distance_is_entered_anew_and_its_credits_go_on() -> Result {
        let (fabric, peer) = distance(WayTag::new(11))?;
        let interface = interface_behind()?;
        assert!(soon(|| has(&interface, &peer)));
        let outcome = Outcome::new()?;
        let frame = || {
            let attempt = Attempt::new(&outcome);
            Frame::new(FuncId(FUNC), &[0; 8], Priority::Bulk, attempt)
        };
        let most = flow::WINDOW / flow::cost(8);
        for _ in 0..most / 2 {
            peer.send(&frame()?, 0)?;
        }
        let epoch = peer.memory().ok_or(ENOENT)?.epoch();
        peer.reset();
        // Between its lives it has none.
        let is_another = |next: Arc<Peer>| !Arc::ptr_eq(&next, &peer);
        assert!(soon(|| interface.peer().is_some_and(is_another)));
        let again = interface.peer().ok_or(ENOENT)?;
        assert!(again.memory().is_some_and(|memory| memory.epoch() > epoch));
        assert!(peer.send(&frame()?, 0).is_err());
        let mut taken = 0;
        while again.send(&frame()?, 0).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, most - most / 2);
        drop((interface, again, peer, fabric));
        Ok(())
    }

    #[test]
    fn lives_of_a_peer_at_a_distance_that_are_short_have_longer_and_longer_pauses() -> Result {
        let (fabric, peer) = distance(WayTag::new(12))?;
        let interface = interface_behind()?;
        assert!(soon(|| has(&interface, &peer)));
        let before = interface.resets();
        let start = monotonic_ns();
        for _ in 0..4 {
            let peer = interface.peer().ok_or(ENOENT)?;
            peer.reset();
            // Between its lives it has none.
            let is_another = |next: Arc<Peer>| !Arc::ptr_eq(&next, &peer);
            assert!(soon(
                || interface.is_up() && interface.peer().is_some_and(is_another)
            ));
        }
        // 20, 40, 80 and 160 ms.
        assert!(monotonic_ns() - start >= 300_000_000);
        assert_eq!(interface.resets() - before, 4);
        drop((interface, peer, fabric));
        Ok(())
    }

    #[test]
    fn the_rp_ends_a_way_for_both_ends_when_one_of_them_has_it_renewed() -> Result {
        let (fabric, way) = star()?;
        fabric.link(2)?.await_messages(1);
        let before = service::DROPS.stale.get();
        tell(&fabric, 1, &Message::Renew(TWO, way))?;
        let mut marks = KVec::new();
        for (number, other) in [(1, TWO), (2, ONE)] {
            match fabric.link(number)?.await_messages(2).as_slice() {
                [Message::Gone(id, Some(gone)), Message::Here(host)] => {
                    assert!((*id, *gone, host.id) == (other, way, other) && host.renews);
                    marks.push(host.way.ok_or(ENOENT)?, GFP_KERNEL)?;
                }
                _ => return Err(ENOENT),
            }
        }
        let new = *marks.first().ok_or(ENOENT)?;
        assert!(new != way && marks.iter().all(|mark| *mark == new));
        assert_eq!(send(&fabric, MSG, way.value()), Err(error::stale()));
        assert_eq!(service::DROPS.stale.get(), before + 1);
        send(&fabric, MSG, new.value())?;
        assert_eq!(fabric.link(2)?.take_frames().len(), 1);
        Ok(())
    }

    #[test]
    fn a_sender_is_told_of_the_function_whose_frames_were_dropped() -> Result {
        let (fabric, way) = star()?;
        let lane = Lane {
            dst: TWO,
            way,
            number: 1,
        };
        fabric.link(2)?.fail(true);
        for _ in 0..2 {
            assert_eq!(send(&fabric, MSG, way.value()), Err(ENOMEM));
        }
        fabric.link(2)?.fail(false);
        let lost = Message::Lost(lane, FUNC);
        assert_eq!(fabric.link(1)?.take_messages().as_slice(), [lost, lost]);
        send(&fabric, MSG, way.value())?;
        assert_eq!(fabric.link(2)?.take_frames().len(), 1);
        // Also of what has waited, and as soon as there is room for that.
        fabric.link(2)?.refuse(true);
        send(&fabric, MSG, way.value())?;
        fabric.link(2)?.refuse(false);
        fabric.link(2)?.fail(true);
        fabric.link(1)?.refuse(true);
        fabric.peer(2)?.tx_completed(0, 1);
        assert!(fabric.link(1)?.take_messages().is_empty());
        fabric.link(1)?.refuse(false);
        assert_eq!(fabric.link(1)?.await_messages(1).as_slice(), [lost]);
        Ok(())
    }

    #[test]
    fn the_function_whose_frames_were_dropped_hears_of_it_and_no_other() -> Result {
        let way = WayTag::new(14);
        let (fabric, peer) = distance(way)?;
        let lost = |function| {
            let lane = Lane {
                dst: TWO,
                way,
                number: 1,
            };
            hear(&fabric, &Message::Lost(lane, function))
        };
        let listener = Listener::new()?;
        let listens = function::Registration::new(FuncId(FUNC), listener.clone())?;
        lost(FUNC)?;
        lost(flow::ANY)?;
        assert_eq!(listener.lost(), 2);
        assert!(peer.is_connected());
        // Nobody is there who could make up for these.
        lost(FUNC + 1)?;
        assert!(soon(|| !peer.is_connected()));
        assert_eq!(listener.lost(), 2);
        drop((listens, peer, fabric));
        Ok(())
    }

    #[test]
    fn a_peer_at_a_distance_that_starts_over_has_its_way_renewed_by_the_rp() -> Result {
        let way = WayTag::new(15);
        let (fabric, peer) = distance_beside(way, true)?;
        let interface = interface_behind()?;
        assert!(soon(|| has(&interface, &peer)));
        let before = interface.resets();
        peer.reset();
        let told = fabric.link(1)?.await_messages(1);
        assert_eq!(told.as_slice(), [Message::Renew(TWO, way)]);
        assert!(!interface.is_up() && !peer.is_connected());
        assert_eq!(interface.resets(), before + 1);
        // Longer than a pause: it does not come back on the way that is over.
        fsleep(Delta::from_millis(100));
        assert!(service::peer_get(TWO).is_none());
        hear(&fabric, &Message::Gone(TWO, Some(way)))?;
        let new = WayTag::new(16);
        hear(&fabric, &announced(TWO, new, true))?;
        let told = fabric.link(1)?.await_messages(1);
        assert_eq!(told.as_slice(), [Message::Ready(TWO, new)]);
        assert!(soon(|| interface.is_up() && !has(&interface, &peer)));
        drop((interface, peer, fabric));
        Ok(())
    }

    #[test]
    fn hosts_that_are_told_of_without_end_leave_bridges_their_interfaces() -> Result {
        let fabric = Fabric::endpoint()?;
        let interface = |id| interface::get(interface::id_behind(id));
        let hosts = (0..2 * MAX_PEERS as u32).map(|n| PeerId::from_bdf(3, n / 8, n % 8));
        for id in hosts.clone() {
            let way = WayTag::new(13);
            hear(&fabric, &announced(id, way, true))?;
            assert!(soon(|| interface(id).is_some_and(|there| there.is_up())));
            hear(&fabric, &Message::Gone(id, Some(way)))?;
            assert!(soon(|| interface(id).is_some_and(|there| !there.is_up())));
        }
        assert!(hosts.filter(|id| interface(*id).is_some()).count() <= MAX_PEERS);
        drop(fabric);
        Ok(())
    }

    #[test]
    fn a_report_that_is_wanted_comes_as_soon_as_it_can() -> Result {
        let (fabric, way) = star()?;
        let lane = Lane {
            dst: TWO,
            way,
            number: 1,
        };
        let cost = flow::cost(DATA);
        send(&fabric, MSG, way.value())?;
        tell(&fabric, 1, &Message::Want(lane, 2 * cost))?;
        assert!(fabric.link(1)?.take_messages().is_empty());
        send(&fabric, MSG, way.value())?;
        assert_eq!(
            fabric.link(1)?.take_messages().as_slice(),
            [Message::Passed(lane, 2 * cost)]
        );
        Ok(())
    }

    #[test]
    fn a_frame_of_an_earlier_life_is_dropped_and_counted() -> Result {
        let (mut fabric, way) = star()?;
        fabric.remove_last();
        fabric.add()?;
        let told = fabric.link(1)?.await_messages(2);
        assert_eq!(
            told.as_slice().first(),
            Some(&Message::Gone(TWO, Some(way)))
        );
        let before = service::DROPS.stale.get();
        assert_eq!(send(&fabric, MSG, way.value()), Err(error::stale()));
        assert_eq!(service::DROPS.stale.get(), before + 1);
        Ok(())
    }

    #[test]
    fn a_frame_that_would_go_in_a_circle_is_dropped_and_counted() -> Result {
        let (fabric, way) = star()?;
        let before = service::DROPS.no_route.get();
        let back = MsgHdr { dst: ONE, ..MSG };
        assert_eq!(send(&fabric, back, way.value()), Err(error::unreachable()));
        let nobody = MsgHdr {
            dst: PeerId::from_bdf(9, 0, 0),
            ..MSG
        };
        assert_eq!(
            send(&fabric, nobody, way.value()),
            Err(error::unreachable())
        );
        assert_eq!(service::DROPS.no_route.get(), before + 2);
        Ok(())
    }

    #[test]
    fn the_peers_of_a_transport_that_unloads_leave_without_a_word() -> Result {
        let (mut fabric, _) = star()?;
        fabric.add()?;
        fabric.link(1)?.await_messages(1);
        fabric.transport().unload();
        fabric.remove_last();
        fabric.remove_last();
        // The worker would have spoken by then.
        fsleep(Delta::from_millis(50));
        assert!(fabric.link(1)?.take_messages().is_empty());
        Ok(())
    }

    #[test]
    fn counters_of_a_link_are_named_as_long_as_the_peer_is_there() -> Result {
        let fabric = Fabric::star(2)?;
        let peer = fabric.peer(2)?;
        assert_eq!(peer.link_counters(), [c"bridge"]);
        assert_eq!(peer.link_counter(0), 2);
        drop(fabric);
        assert!(peer.link_counters().is_empty());
        assert_eq!(peer.link_counter(0), 0);
        assert_eq!(peer.transport().name(), c"kunit");
        Ok(())
    }

    #[test]
    fn a_peer_is_asked_for_its_statistics_and_waited_for_so_long() -> Result {
        let fabric = Fabric::new(1)?;
        let peer = fabric.peer(1)?;
        assert_eq!(questions::ask_stats(&peer, 20).err(), Some(ETIMEDOUT));
        fabric.link(1)?.answer(ONE);
        assert_eq!(questions::ask_stats(&peer, 1000), Ok(fixture::ANSWER));
        drop(fabric);
        let gone = questions::ask_stats(&peer, 1000);
        assert_eq!(gone.err(), Some(error::not_connected()));
        Ok(())
    }

    #[test]
    fn nobody_answers_for_another_peer() -> Result {
        let fabric = Fabric::new(2)?;
        fabric.link(1)?.answer(TWO);
        let peer = fabric.peer(1)?;
        let asked = questions::ask_stats(&peer, 20);
        assert_eq!(asked.err(), Some(ETIMEDOUT));
        Ok(())
    }

    #[test]
    fn a_peer_that_asks_is_told_what_went_over_all_links() -> Result {
        let fabric = Fabric::new(1)?;
        fabric.link(1)?.await_messages(0);
        tell(&fabric, 1, &Message::AskStats(77))?;
        let told = fabric.link(1)?.take_messages();
        assert_eq!(
            told.as_slice(),
            [Message::Stats(77, fabric.peer(1)?.stats().snapshot())]
        );
        Ok(())
    }
}
