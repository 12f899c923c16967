// SPDX-License-Identifier: MIT OR Apache-2.0

//! What programs may not do: handles that are none, NULL, values that cannot be.

use super::*;
use crate::ffi::entries;

/// Handles of everything that there is, none of which is of the kind that a test wants.
fn others(side: &Side, kind: Handle) -> Vec<Handle> {
    let number = |address| functions::handle_of(address);
    let all = [
        side.nic,
        side.vi(),
        side.cq(),
        NONE,
        number(1),
        number(u64::MAX),
    ];
    let ptag = functions::handle_of(side.ptag.addr() as u64);
    let all = all.into_iter().chain([ptag]);
    let upper = |handle: Handle| mp_c_abi::Abi::<*mut c_void>::to_c(handle).addr() >> 48;
    all.filter(|handle| upper(*handle) != upper(kind)).collect()
}

/// VI-GEN-5: handles of other kinds, and ones that were never given, are refused, and nothing
/// else is affected.
#[test]
fn a_handle_of_another_kind_is_refused() {
    let (side, _) = pair();
    let (p, vi, cq) = (&side.process, side.vi(), side.cq());
    let mut ptag = ptr::null_mut();
    for handle in others(&side, side.nic) {
        assert_eq!(functions::close_nic(p, handle), INVALID);
        assert_eq!(functions::create_ptag(p, handle, out(&mut ptag)), INVALID);
        assert_eq!(functions::ns_init(p, handle, text(c"/")), INVALID);
    }
    for handle in others(&side, vi) {
        assert_eq!(functions::disconnect(p, handle), INVALID);
        assert_eq!(functions::destroy_vi(p, handle), INVALID);
        let descriptor = side.descriptor(0, 1);
        for queue in [QueueKind::Send, QueueKind::Receive] {
            let posted = functions::post(p, queue, handle, descriptor, side.memory);
            assert_eq!(posted, INVALID);
            assert_eq!(side.done(queue, handle).0, INVALID);
            assert_eq!(side.wait(queue, handle).0, INVALID);
        }
    }
    for handle in others(&side, cq) {
        assert_eq!(functions::destroy_cq(p, handle), INVALID);
        assert_eq!(functions::resize_cq(p, handle, 1), INVALID);
        if handle != NONE {
            let refused = Err(Error::InvalidParameter);
            assert_eq!(side.create(side.attributes(), [handle, NONE]), refused);
            assert_eq!(side.create(side.attributes(), [NONE, handle]), refused);
        }
    }
    assert_eq!(side.state(vi), sys::VIP_STATE_IDLE);
    assert_eq!(functions::resize_cq(p, cq, 5), Ok(()));
}

/// VI-GEN-6: NULL is refused wherever something has to be, and what else is passed stays as it is.
#[test]
fn null_is_refused() {
    let (side, _) = pair();
    let (p, nic, vi, cq) = (&side.process, side.nic, side.vi(), side.cq());
    let mut place = Place::new(&side.host, b"x");
    let address = place.address();
    let mut attributes = side.attributes();
    let mut flags = [7_i32; 2];
    let (mut handle, mut state, mut len) = (nic, 7_u32, 7_u64);
    let mut name: std::ffi::c_char = 7;
    let mut region = 7_u32;
    let mut memory = sys::VIP_MEM_ATTRIBUTES {
        Ptag: side.ptag,
        EnableRdmaWrite: 0,
        EnableRdmaRead: 0,
    };
    let mut hosts = sys::VIP_AUTODISCOVERY_LIST {
        NumberOfHops: 1,
        ADAddrArray: ptr::null_mut(),
        NumAdAddrs: 1,
    };
    // Where the memory is registered: nothing but what is NULL is wrong.
    let start = ptr::with_exposed_provenance_mut(side.start());
    let discover = |list| functions::query_system_management_info(p, nic, 1, list, entries);
    let (given, to) = (out(&mut attributes), out(&mut handle));
    let [flag, other] = flags.each_mut().map(out);
    // SAFETY: NULL.
    let no_text = unsafe { mp_c_abi::Text::new(ptr::null()) };
    let by_addr = |address, name, len| {
        functions::ns_get_host_by_addr(p, nic, address, name, len, |_, _| unreachable!())
    };
    let refused = [
        functions::open_nic(p, no_text, to),
        functions::open_nic(p, text(c"VINIC"), Out::NULL),
        functions::query_nic(p, nic, Out::NULL),
        functions::create_vi(p, nic, Out::NULL, NONE, NONE, to),
        functions::create_vi(p, nic, given, NONE, NONE, Out::NULL),
        functions::query_vi(p, vi, Out::NULL, given, flag, other),
        functions::query_vi(p, vi, out(&mut state), Out::NULL, flag, other),
        functions::query_vi(p, vi, out(&mut state), given, Out::NULL, other),
        functions::query_vi(p, vi, out(&mut state), given, flag, Out::NULL),
        functions::set_vi_attributes(p, vi, Out::NULL),
        connect_wait(p, nic, null(), 0, address, given, to),
        connect_wait(p, nic, address, 0, null(), given, to),
        connect_wait(p, nic, address, 0, address, Out::NULL, to),
        connect_wait(p, nic, address, 0, address, given, Out::NULL),
        functions::connect_request(p, vi, null(), address, SOON, given),
        functions::connect_request(p, vi, address, null(), SOON, given),
        functions::connect_request(p, vi, address, address, SOON, Out::NULL),
        functions::connect_peer_request(p, vi, null(), address, SOON),
        functions::connect_peer_request(p, vi, address, null(), SOON),
        functions::connect_peer_done(p, vi, Out::NULL),
        functions::connect_peer_wait(p, vi, Out::NULL),
        functions::create_ptag(p, nic, Out::NULL),
        functions::destroy_ptag(p, nic, ptr::null_mut()),
        functions::register_mem(p, nic, side.map.memory(), Out::NULL, out(&mut region)),
        functions::register_mem(p, nic, side.map.memory(), out(&mut memory), Out::NULL),
        functions::query_mem(p, nic, start, side.memory, Out::NULL),
        functions::set_mem_attributes(p, nic, start, side.memory, Out::NULL),
        functions::done(p, QueueKind::Send, vi, Out::NULL),
        functions::done(p, QueueKind::Receive, vi, Out::NULL),
        functions::wait(p, QueueKind::Send, vi, 0, Out::NULL),
        functions::wait(p, QueueKind::Receive, vi, 0, Out::NULL),
        functions::create_cq(p, nic, 5, Out::NULL),
        functions::cq_done(p, cq, Out::NULL, flag),
        functions::cq_done(p, cq, to, Out::NULL),
        functions::cq_wait(p, cq, 0, Out::NULL, flag),
        functions::cq_wait(p, cq, 0, to, Out::NULL),
        functions::ns_get_host_by_name(p, nic, no_text, address, 0),
        functions::ns_get_host_by_name(p, nic, text(c"0"), null(), 0),
        by_addr(null(), out(&mut name), out(&mut len)),
        by_addr(address, Out::NULL, out(&mut len)),
        by_addr(address, out(&mut name), Out::NULL),
        discover(Out::NULL),
        discover(out(&mut hosts)),
    ];
    for (index, result) in refused.into_iter().enumerate() {
        assert_eq!(result, INVALID, "{index}");
    }
    assert_eq!((handle, state, flags, len, name), (nic, 7, [7; 2], 7, 7));
    // That of memory which is not registered (VI-MEM-4).
    assert_eq!(region, 0);
    assert_eq!(place.host(), side.host);
    assert_eq!(side.state(vi), sys::VIP_STATE_IDLE);
    // A descriptor that is none is no error of the call (VI-POST-8).
    for queue in [QueueKind::Send, QueueKind::Receive] {
        let vi = side.vi();
        let posted = functions::post(p, queue, vi, ptr::null_mut(), side.memory);
        assert_eq!(posted, Ok(()));
        assert_eq!(side.state(vi), sys::VIP_STATE_ERROR);
    }
}

/// VI-EP-4, VI-EP-5, VI-EP-6, VI-EP-7, VI-EP-8, VI-ATTR-2, VI-ATTR-3: each attribute that cannot be
/// has its own value, for a new VI and for one that there is.
#[test]
fn attributes_that_cannot_be_have_their_errors() {
    let (side, other) = pair();
    let vi = side.vi();
    let p = &side.process;
    let good = side.attributes();
    let with = |change: &dyn Fn(&mut VIP_VI_ATTRIBUTES)| {
        let mut attributes = good;
        change(&mut attributes);
        attributes
    };
    let most = 16 << 20;
    for (attributes, error) in [
        (
            with(&|a| a.ReliabilityLevel = 0),
            Error::InvalidReliabilityLevel,
        ),
        (
            with(&|a| a.ReliabilityLevel = 3),
            Error::InvalidReliabilityLevel,
        ),
        (
            with(&|a| a.ReliabilityLevel = 8),
            Error::InvalidReliabilityLevel,
        ),
        (with(&|a| a.MaxTransferSize = 0), Error::InvalidMtu),
        (with(&|a| a.MaxTransferSize = most + 1), Error::InvalidMtu),
        (with(&|a| a.QoS = side.ptag), Error::InvalidQos),
        (with(&|a| a.Ptag = ptr::null_mut()), Error::InvalidPtag),
        (
            with(&|a| a.Ptag = ptr::without_provenance_mut(7)),
            Error::InvalidPtag,
        ),
        (with(&|a| a.Ptag = other.ptag), Error::InvalidPtag),
        (
            with(&|a| (a.ReliabilityLevel, a.EnableRdmaRead) = (1, 1)),
            Error::InvalidRdmaRead,
        ),
    ] {
        assert_eq!(side.create(attributes, [NONE; 2]), Err(error));
        let mut given = attributes;
        let set = functions::set_vi_attributes(p, vi, out(&mut given));
        assert_eq!(set, Err(error));
        let mut told = zeroed::<VIP_VI_ATTRIBUTES>();
        let (mut state, mut flags) = (7, [7; 2]);
        let [send, recv] = flags.each_mut().map(out);
        functions::query_vi(p, vi, out(&mut state), out(&mut told), send, recv).unwrap();
        assert_eq!(
            (
                told.ReliabilityLevel,
                told.MaxTransferSize,
                told.Ptag,
                told.EnableRdmaWrite
            ),
            (
                good.ReliabilityLevel,
                good.MaxTransferSize,
                good.Ptag,
                good.EnableRdmaWrite
            )
        );
        assert_eq!(flags, [1, 1]);
    }
    for size in [1, most] {
        side.create(with(&|a| a.MaxTransferSize = size), [NONE; 2])
            .unwrap();
    }
}

/// VI-MEM-4, VI-MEM-5, VI-MEM-11, VI-QRY-4, VI-PTAG-7: memory is known by address and handle
/// together; no handle is 0.
#[test]
fn memory_is_known_by_address_and_handle() {
    let (side, other) = pair();
    let (p, nic, start) = (&side.process, side.nic, side.map.memory());
    let mut handle = 7;
    let mut attributes = mem(ptr::null_mut());
    let register = |attributes: &mut sys::VIP_MEM_ATTRIBUTES, memory, handle: &mut u32| {
        functions::register_mem(p, nic, memory, out(attributes), out(handle))
    };
    let bad = Err(Error::InvalidPtag);
    assert_eq!(register(&mut attributes, start, &mut handle), bad);
    assert_eq!(handle, 0);
    attributes = mem(other.ptag);
    assert_eq!(register(&mut attributes, start, &mut handle), bad);
    attributes = mem(side.ptag);
    // SAFETY: No memory.
    let none = unsafe { ProcessMemory::new(side.start(), 0) };
    assert_eq!(register(&mut attributes, none, &mut handle), INVALID);
    attributes.EnableRdmaRead = 0;
    register(&mut attributes, start, &mut handle).unwrap();
    assert!(handle != 0 && handle != side.memory);
    let at = |offset: usize| ptr::with_exposed_provenance_mut::<c_void>(side.start() + offset);
    let mut told = zeroed::<sys::VIP_MEM_ATTRIBUTES>();
    functions::query_mem(p, nic, at(0), handle, out(&mut told)).unwrap();
    assert_eq!(
        (told.Ptag, told.EnableRdmaWrite, told.EnableRdmaRead),
        (side.ptag, 1, 0)
    );
    let mut changed = mem(side.ptag);
    functions::set_mem_attributes(p, nic, at(0), handle, out(&mut changed)).unwrap();
    functions::query_mem(p, nic, at(0), handle, out(&mut told)).unwrap();
    assert_eq!(told.EnableRdmaRead, 1);
    for (address, handle) in [(at(64), handle), (at(0), handle + 1), (at(0), 0)] {
        assert_eq!(
            functions::query_mem(p, nic, address, handle, out(&mut told)),
            INVALID
        );
        assert_eq!(functions::deregister_mem(p, nic, address, handle), INVALID);
    }
    functions::deregister_mem(p, nic, at(0), handle).unwrap();
    assert_eq!(functions::deregister_mem(p, nic, at(0), handle), INVALID);
    assert_eq!(functions::destroy_ptag(p, nic, other.ptag), INVALID);
    assert_eq!(
        functions::destroy_ptag(p, nic, side.ptag),
        Err(Error::Resource)
    );
}
