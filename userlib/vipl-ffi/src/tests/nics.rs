// SPDX-License-Identifier: MIT OR Apache-2.0

//! NICs: handles, attributes, errors, neighbours.

use super::*;
use crate::ffi::{entries, error_handler};
use mp_c_abi::Abi;
use std::sync::{mpsc, Mutex};

/// VI-NIC-1, VI-NIC-2, VI-NIC-5: handles differ, and what was made with one ends with it alone.
#[test]
fn closing_a_nic_ends_what_was_made_with_it() {
    let world = World::new(1, 1 << 24);
    let side = Side::new(&world, Host::A);
    let (vi, cq) = (side.vi(), side.cq());
    let other = open(&side.process, c"VINIC0").unwrap();
    assert_ne!(other, side.nic);
    let others = made(|to| functions::create_cq(&side.process, other, 1, to)).unwrap();
    functions::close_nic(&side.process, side.nic).unwrap();
    let p = &side.process;
    assert_eq!(functions::close_nic(p, side.nic), INVALID);
    assert_eq!(functions::disconnect(p, vi), INVALID);
    assert_eq!(functions::resize_cq(p, cq, 5), INVALID);
    let mut ptag = ptr::null_mut();
    assert_eq!(functions::create_ptag(p, side.nic, out(&mut ptag)), INVALID);
    assert_eq!(functions::resize_cq(p, others, 5), Ok(()));
    functions::close_nic(p, other).unwrap();
    assert_eq!(functions::resize_cq(p, others, 5), INVALID);
    assert_eq!(world.contexts(), 0);
}

/// VI-QRY-1, VI-QRY-2, VI-THR-11, VI-LIM-1, VI-LIM-3: what a NIC says stays the same, and its
/// address is one that connections take.
#[test]
fn attributes_are_those_of_the_structure() {
    let (side, _) = pair();
    let mut first = zeroed::<sys::VIP_NIC_ATTRIBUTES>();
    functions::query_nic(&side.process, side.nic, out(&mut first)).unwrap();
    side.vi();
    let mut second = zeroed::<sys::VIP_NIC_ATTRIBUTES>();
    functions::query_nic(&side.process, side.nic, out(&mut second)).unwrap();
    assert_eq!(first.LocalNicAddress, second.LocalNicAddress);
    assert_eq!(first.MaxVI, second.MaxVI);
    assert_eq!(
        first.Name[..6],
        c"VINIC"
            .to_bytes_with_nul()
            .iter()
            .map(|b| *b as i8)
            .collect::<Vec<_>>()
    );
    assert_eq!(first.ThreadSafe, 1);
    assert!(first.MaxDiscriminatorLen >= 16);
    assert!(first.MaxPtags >= first.MaxVI && first.MaxVI >= 1);
    assert_eq!(first.ReliabilityLevelSupport, 7);
}

/// The context, and the fields of an error.
type Told = mpsc::Sender<(usize, [usize; 7])>;
static TOLD: Mutex<Option<Told>> = Mutex::new(None);

unsafe extern "C" fn tell(context: *mut c_void, error: *mut sys::VIP_ERROR_DESCRIPTOR) {
    // SAFETY: It is there as long as the handler runs.
    let error = unsafe { error.read() };
    let values = [
        error.NicHandle.addr(),
        error.ViHandle.addr(),
        error.CQHandle.addr(),
        error.DescriptorPtr.addr(),
        error.OpCode as usize,
        error.ResourceCode as usize,
        error.ErrorCode as usize,
    ];
    if let Some(told) = &*TOLD.lock().unwrap() {
        told.send((context.addr(), values)).unwrap();
    }
}

/// VI-ERR-1, VI-ERR-18, VI-ERR-19, VI-POST-8: the handler gets its context, and which descriptor
/// of which VI is none.
#[test]
fn an_error_handler_gets_handles_and_codes() {
    let (side, _) = pair();
    let vi = side.vi();
    let (tell_me, told) = mpsc::channel();
    *TOLD.lock().unwrap() = Some(tell_me);
    let p = &side.process;
    let make = |nic| error_handler(Some(tell), opaque(0x77), nic);
    functions::error_callback(p, side.nic, make).unwrap();
    let odd: *mut VIP_DESCRIPTOR = ptr::with_exposed_provenance_mut(side.start() + 8);
    functions::post(p, QueueKind::Receive, vi, odd, side.memory).unwrap();
    let (context, values) = told
        .recv_timeout(std::time::Duration::from_secs(20))
        .unwrap();
    let number = |handle: Handle| Abi::<*mut c_void>::to_c(handle).addr();
    assert_eq!(context, 0x77);
    assert_eq!(
        values,
        [
            number(side.nic),
            number(vi),
            0,
            odd.addr(),
            sys::VIP_STATUS_OP_RECEIVE as usize,
            sys::VIP_RESOURCE_DESCRIPTOR as usize,
            sys::VIP_ERROR_POST_DESC as usize,
        ]
    );
    assert_eq!(side.state(vi), sys::VIP_STATE_ERROR);
    functions::error_callback(p, side.nic, |nic| error_handler(None, opaque(0), nic)).unwrap();
}

/// VI-SMI-1, VI-SMI-3, VI-SMI-4, VI-SMI-5: as many addresses as there is room for, or how many are
/// needed.
#[test]
fn neighbours_fill_the_room_that_there_is() {
    let (a, b) = pair();
    let place = |host_len| {
        let mut place = Place::new(&[0; 16], b"");
        (place.host_len, place.discriminator_len) = (host_len, 0x1234);
        place
    };
    // The result, and how many addresses there are said to be.
    let ask = |kind, hops, places: &mut [Place], room| {
        let pointers = places.iter_mut().map(|place| ptr::from_mut(place).cast());
        let mut pointers: Vec<*mut VIP_NET_ADDRESS> = pointers.collect();
        pointers.push(ptr::null_mut());
        let mut list = sys::VIP_AUTODISCOVERY_LIST {
            NumberOfHops: hops,
            ADAddrArray: pointers.as_mut_ptr(),
            NumAdAddrs: room,
        };
        let (p, to) = (&a.process, out(&mut list));
        let result = functions::query_system_management_info(p, a.nic, kind, to, entries);
        (result, list.NumAdAddrs)
    };
    let mut one = [place(16)];
    assert_eq!(ask(2, 1, &mut one, 1), (INVALID, 1));
    assert_eq!(ask(1, 1, &mut one, 0), (Err(Error::Resource), 1));
    assert_eq!(ask(1, 1, &mut one, 2), (Ok(()), 1));
    let [told] = one;
    assert_eq!((told.host_len, told.host()), (4, &b.host[..]));
    assert_eq!(told.bytes[4..16], [0; 12]);
    assert_eq!((told.discriminator_len, told.guard), (0x1234, GUARD));
    assert_eq!(ask(1, 1, &mut [place(3)], 1), (INVALID, 1));
    assert_eq!(ask(1, 1, &mut [], 1), (INVALID, 1));
    assert_eq!(ask(1, 0, &mut [], 1), (Ok(()), 0));
}
