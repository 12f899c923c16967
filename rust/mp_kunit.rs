// SPDX-License-Identifier: GPL-2.0-only

//! KUnit suites of the parts that have no hardware below them.
//!
//! They run when the module is loaded, if the kernel is booted with
//! `kunit.enable=1`, or by a write to `run` in a suite's directory below
//! `/sys/kernel/debug/kunit`, where the results stand as well. No transport may
//! be loaded then: the suites register transports and peers of their own.
//!
//! * [`bytes`]: memory that is only copied from, or only written, and packets of it.
//! * [`fifo`]: queues that grow as needed.
//! * [`forward`]: peers that share no bridge, and what the services tell each other.
//! * [`kept`]: data that a transport holds for others.
//! * [`memory`]: memory of both ends of a link.
//! * [`napi`]: polls, and their end. A second processor is needed.
//! * [`interface`]: the local ends of links.
//! * [`user`]: what serves programs: offsets, mappings, waits.
//! * [`windows`]: windows and lists of the user service.
//! * `tasks.c`: what these ask of tasks.
//! * `capi.c`: the suite of the interface for modules in C.
//! * [`fixture`]: a transport without a wire, and a function that notes what it
//!   is given.

use kernel::prelude::*;

#[path = "mp_kunit/bytes.rs"]
mod bytes;
#[path = "mp_kunit/fifo.rs"]
mod fifo;
#[path = "mp_kunit/fixture.rs"]
mod fixture;
#[path = "mp_kunit/forward.rs"]
mod forward;
#[path = "mp_kunit/interface.rs"]
mod interface;
#[path = "mp_kunit/kept.rs"]
mod kept;
#[path = "mp_kunit/memory.rs"]
mod memory;
#[path = "mp_kunit/napi.rs"]
mod napi;
#[path = "mp_kunit/user.rs"]
mod user;
#[path = "mp_kunit/windows.rs"]
mod windows;

/// The module; its suites are found by the kernel in a section of their own.
struct Suites;

impl kernel::Module for Suites {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

module! {
    type: Suites,
    name: "mp_kunit",
    authors: ["The pximc-ntb authors"],
    description: "KUnit suites of the message frame fabric",
    license: "GPL",
}

#[kunit_tests(mp_transport)]
mod tests {
    use super::{
        fixture::{
            Attempt,
            Bytes,
            Fabric,
            Listener,
            Outcome, //
        },
        *, //
    };
    use kernel::sync::Arc;
    use mp_kernel::error;
    use mp_proto::wire::{
        MsgHdr,
        PeerId,
        Priority, //
    };
    use mp_transport::{
        frame::{
            Frame,
            FuncId, //
        },
        function,
        service,
        transport, //
    };

    const FUNC: u32 = 0x4b55_4e54;
    const ONE: PeerId = PeerId::from_bdf(1, 0, 0);
    const TWO: PeerId = PeerId::from_bdf(2, 0, 0);

    fn header(dst: PeerId, src: PeerId, len: u32) -> MsgHdr {
        MsgHdr {
            dst,
            src,
            len,
            func: FUNC,
        }
    }

    /// What a peer's frame with these headers comes to.
    fn receive(fabric: &Fabric, peer: u32, msg: MsgHdr, data: &[u8]) -> Result {
        let peer = fabric.peer(peer)?;
        service::receive(&fixture::context(), &peer, msg, &[7; 4], &Bytes(data))
    }

    #[test]
    fn a_peer_id_or_index_that_is_taken_is_refused() -> Result {
        let fabric = Fabric::new(2)?;
        assert_eq!(fabric.try_add(ONE, 3), Some(EEXIST));
        assert_eq!(fabric.try_add(PeerId::from_bdf(3, 0, 0), 1), Some(EEXIST));
        assert_eq!(fabric.try_add(PeerId::RP, 3), Some(EEXIST));
        assert_eq!(fabric.try_add(PeerId::from_bdf(3, 0, 0), 64), Some(ERANGE));
        assert_eq!(fabric.try_add(PeerId::from_bdf(3, 0, 0), 3), None);
        Ok(())
    }

    #[test]
    fn a_peer_that_left_makes_room_for_its_id() -> Result {
        let mut fabric = Fabric::new(2)?;
        fabric.remove_last();
        assert!(service::peer_get(TWO).is_none());
        assert_eq!(fabric.try_add(TWO, 2), None);
        Ok(())
    }

    #[test]
    fn a_transport_or_function_id_that_is_taken_is_refused() -> Result {
        let fabric = Fabric::new(1)?;
        let again = transport::Registration::new(fixture::TRANSPORT_ID, c"again");
        assert_eq!(again.err(), Some(EEXIST));
        let listener = Listener::new()?;
        let first = function::Registration::new(FuncId(FUNC), listener.clone())?;
        let second = function::Registration::new(FuncId(FUNC), listener);
        assert_eq!(second.err(), Some(EEXIST));
        drop((first, fabric));
        Ok(())
    }

    #[test]
    fn peers_are_found_by_id_and_walked_by_index() -> Result {
        let _fabric = Fabric::new(3)?;
        assert_eq!(service::peer_get(TWO).map(|p| p.index()), Some(2));
        assert_eq!(service::peer_get(PeerId::SELF).map(|p| p.index()), Some(0));
        let second = service::peer_next(Some(1)).map(|p| p.id());
        assert_eq!(second, Some(TWO));
        assert_eq!(service::peer_next(None).map(|p| p.id()), Some(ONE));
        assert!(service::peer_next(Some(3)).is_none());
        Ok(())
    }

    #[test]
    fn a_function_learns_of_peers_before_and_after_it() -> Result {
        let mut fabric = Fabric::new(2)?;
        let listener = Listener::new()?;
        let registration = function::Registration::new(FuncId(FUNC), listener.clone())?;
        assert_eq!(listener.present(), 2);
        fabric.add()?;
        assert_eq!(listener.present(), 3);
        fabric.remove_last();
        assert_eq!(listener.present(), 2);
        drop(registration);
        assert_eq!(listener.present(), 0);
        Ok(())
    }

    #[test]
    fn a_frame_reaches_its_function_with_header_and_data() -> Result {
        let fabric = Fabric::new(1)?;
        let listener = Listener::new()?;
        let _registration = function::Registration::new(FuncId(FUNC), listener.clone())?;
        receive(&fabric, 1, header(PeerId::RP, ONE, 4 + 10), &[9; 10])?;
        receive(&fabric, 1, header(PeerId::BCAST, ONE, 4 + 10), &[9; 10])?;
        assert_eq!(listener.received(), 2);
        assert_eq!(fabric.peer(1)?.stats().snapshot().rx_bytes, 20);
        Ok(())
    }

    #[test]
    fn a_header_that_is_not_true_is_dropped_and_counted() -> Result {
        let fabric = Fabric::new(2)?;
        let listener = Listener::new()?;
        let _registration = function::Registration::new(FuncId(FUNC), listener.clone())?;
        let before = service::DROPS.bad_header.get();
        // Longer and shorter than what came.
        for len in [4 + 9, 4 + 11, 0, u32::MAX] {
            let got = receive(&fabric, 1, header(PeerId::RP, ONE, len), &[9; 10]);
            assert_eq!(got.err(), Some(error::bad_message()));
        }
        // A source that another link leads to, one that nobody is, and groups.
        for src in [
            TWO,
            PeerId::from_bdf(9, 0, 0),
            PeerId::RP,
            PeerId::SELF,
            PeerId::BCAST,
        ] {
            let got = receive(&fabric, 1, header(PeerId::RP, src, 4 + 10), &[9; 10]);
            assert_eq!(got.err(), Some(error::bad_message()));
        }
        assert_eq!(service::DROPS.bad_header.get(), before + 9);
        assert_eq!(fabric.peer(1)?.stats().snapshot().rx_errors, 9);
        assert_eq!(listener.received(), 0);
        Ok(())
    }

    #[test]
    fn a_frame_for_another_host_or_an_unknown_function_is_dropped() -> Result {
        let fabric = Fabric::new(2)?;
        let got = receive(&fabric, 1, header(TWO, ONE, 4 + 10), &[9; 10]);
        assert_eq!(got.err(), Some(error::unreachable()));
        let got = receive(&fabric, 1, header(PeerId::RP, ONE, 4 + 10), &[9; 10]);
        assert_eq!(got.err(), Some(ENOENT));
        assert_eq!(fabric.peer(1)?.stats().snapshot().rx_errors, 2);
        Ok(())
    }

    #[test]
    fn data_is_copied_into_buffers_or_not_at_all() -> Result {
        let fabric = Fabric::new(1)?;
        let listener = Listener::new()?;
        let _registration = function::Registration::new(FuncId(FUNC), listener.clone())?;
        let data: [u8; 10] = core::array::from_fn(|i| i as u8);
        receive(&fabric, 1, header(PeerId::RP, ONE, 4 + 10), &data)?;
        // The listener gave `sync` two buffers of three and twenty bytes, then
        // two that lack one byte.
        assert_eq!(listener.copied(), (3, 7));
        assert_eq!(listener.short(), Some(EMSGSIZE));
        Ok(())
    }

    #[test]
    fn a_frame_is_completed_once_with_how_it_went() -> Result {
        let fabric = Fabric::new(2)?;
        let outcome = Outcome::new()?;
        let frame =
            |o: &Arc<Outcome>| Frame::new(FuncId(FUNC), &[], Priority::Bulk, Attempt::new(o));
        service::send(ONE, &frame(&outcome)?)?;
        assert_eq!(outcome.take(), (1, Ok(())));
        // Nobody there.
        let unknown = PeerId::from_bdf(9, 0, 0);
        assert_eq!(
            service::send(unknown, &frame(&outcome)?),
            Err(error::not_connected())
        );
        assert_eq!(outcome.take(), (1, Err(error::not_connected())));
        // Made, but never sent.
        drop(frame(&outcome)?);
        assert_eq!(outcome.take(), (1, Err(error::cancelled())));
        // One of two peers refuses: completed once, with the error.
        fabric.link(2)?.refuse(true);
        assert!(service::send(PeerId::BCAST, &frame(&outcome)?).is_err());
        assert_eq!(outcome.take(), (1, Err(EAGAIN)));
        // A full queue: the frame stays with the sender and may be sent again.
        let again = frame(&outcome)?;
        assert_eq!(service::send(TWO, &again), Err(EAGAIN));
        assert_eq!(outcome.take(), (0, Ok(())));
        fabric.link(2)?.refuse(false);
        service::send(TWO, &again)?;
        drop(again);
        assert_eq!(outcome.take(), (1, Ok(())));
        Ok(())
    }

    #[test]
    fn a_function_header_that_is_too_long_is_refused() -> Result {
        let outcome = Outcome::new()?;
        let long = [0; mp_transport::frame::FUNC_HDR_MAX + 1];
        let frame = Frame::new(FuncId(FUNC), &long, Priority::Bulk, Attempt::new(&outcome));
        assert_eq!(frame.err(), Some(EMSGSIZE));
        assert_eq!(outcome.take(), (1, Err(EMSGSIZE)));
        Ok(())
    }

    #[test]
    fn a_host_has_one_id_at_a_time() -> Result {
        service::set_self_id(ONE)?;
        assert_eq!(service::set_self_id(TWO), Err(EBUSY));
        assert_eq!(service::set_self_id(ONE), Ok(()));
        service::clear_self_id();
        assert_eq!(service::set_self_id(PeerId::BCAST), Err(EINVAL));
        assert!(service::self_id() == PeerId::SELF);
        Ok(())
    }
}
