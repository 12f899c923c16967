// SPDX-License-Identifier: MIT OR Apache-2.0

//! Remote segments: connections, their states and events.

use super::*;
use crate::functions::{
    connect_segment, disconnect_segment, local_segment_size, remote_segment_id,
    remote_segment_node, remote_segment_size, remove_segment,
};
use sys::*;

/// SI-CONSEG-1, SI-CONSEG-2, SI-RSIZE-1, SI-RSEGID-1, SI-RNODE-1, SI-RSM-1
#[test]
fn a_connection_knows_what_it_leads_to() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 7, 5001);
    let remote = connect(&b, A, 7).unwrap();
    assert_eq!(
        remote_segment_size(&b, remote),
        local_segment_size(&a, segment)
    );
    assert_eq!(remote_segment_id(&b, remote), Ok(7));
    assert_eq!(remote_segment_node(&b, remote), Ok(A));
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_CONNECT, B, 0)));
    assert_eq!(remote_event(&b, remote, 0), Err(Error::Timeout));
}

/// SI-CONSEG-3, SI-NTB-22, SI-RNODE-1: the own node is like any other, also with the link down.
#[test]
fn a_node_connects_to_itself() {
    let (world, a, _b) = pair();
    world.set_up(0, false);
    let segment = offered(&a, 7, 4096);
    let remote = connect(&a, A, 7).unwrap();
    assert_eq!(remote_segment_node(&a, remote), Ok(A));
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_CONNECT, A, 0)));
    assert_eq!(remove_segment(&a, segment, 0), Err(Error::Busy));
    disconnect_segment(&a, remote, 0).unwrap();
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_DISCONNECT, A, 0)));
}

/// SI-CONSEG-6, SI-CONSEG-7, SI-CONSEG-8, SI-GEN-8: a negative answer comes at once, and says why.
#[test]
fn a_connection_that_cannot_be_is_refused_at_once() {
    let (world, a, b) = pair();
    create(&a, open(&a), 7, 4096, 0).unwrap();
    assert_eq!(connect(&b, A, 8), Err(Error::NoSuchSegment));
    assert_eq!(connect(&b, A, 7), Err(Error::NoSuchSegment));
    assert_eq!(connect(&b, C, 7), Err(Error::NoRemoteLinkAccess));
    assert_eq!(connect(&b, 16, 7), Err(Error::NoSuchNodeId));
    for node in [0, 252, 253] {
        assert_eq!(connect(&b, node, 7), Err(Error::IllegalNodeId));
    }
    world.set_up(0, false);
    assert_eq!(connect(&b, A, 7), Err(Error::NoLinkAccess));
}

/// SI-GEN-23: nothing is shared with a node whose numbers are written in another order.
#[test]
fn a_node_of_another_byte_order_is_refused() {
    let (world, a, b) = pair();
    offered(&a, 7, 4096);
    world.set_big_endian(true);
    assert_eq!(connect(&b, A, 7), Err(Error::InconsistentVersions));
    let desc = open(&b);
    let interrupt = made(|out| functions::connect_interrupt(&b, desc, out, place(A, 7), 0));
    assert_eq!(interrupt, Err(Error::InconsistentVersions));
    let probed = functions::probe_node(&b, desc, 0, A, 0);
    assert_eq!(probed, Err(Error::InconsistentVersions));
    // This host's own bytes are in order.
    assert_eq!(connect(&b, B, 7), Err(Error::NoSuchSegment));
}

/// SI-CONSEG-5, SI-CONSEG-8, SI-GEN-26: a silent node, with a time limit of the caller's or without.
#[test]
fn a_node_that_does_not_answer_is_not_waited_for() {
    let (world, a, b) = pair();
    offered(&a, 7, 4096);
    world.set_silent(true);
    let desc = open(&b);
    let within = |timeout| {
        let place = Place {
            timeout,
            ..place(A, 7)
        };
        made(|out| connect_segment(&b, desc, out, place, None, 0))
    };
    assert_eq!(within(200), Err(Error::Timeout));
    assert_eq!(within(SCI_INFINITE_TIMEOUT), Err(Error::NodeNotResponding));
}

/// SI-CONSEG-9
#[test]
fn flags_of_a_connection_that_cannot_be_are_refused() {
    let (_world, a, b) = pair();
    offered(&a, 7, 4096);
    let desc = open(&b);
    let with =
        |node, flags| made(|out| connect_segment(&b, desc, out, place(node, 7), None, flags));
    assert_eq!(with(252, SCI_FLAG_BROADCAST), Err(Error::NotSupported));
    assert_eq!(with(A, SCI_FLAG_BROADCAST), Err(Error::IllegalNodeId));
}

/// Begin to connect; with so many milliseconds.
fn begin(p: &Program, desc: Handle, id: u32, timeout: u32) -> Handle {
    let place = Place {
        timeout,
        ..place(A, id)
    };
    let flags = SCI_FLAG_ASYNCHRONOUS_CONNECT;
    made(|out| connect_segment(p, desc, out, place, None, flags)).unwrap()
}

/// SI-CONSEG-4, SI-RSM-1, SI-RSM-8: who does not wait is told what became of it.
#[test]
fn a_program_need_not_wait_for_a_connection() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 7, 5001);
    let desc = open(&b);
    let remote = begin(&b, desc, 7, sisci::INFINITE);
    assert_eq!(remote_segment_id(&b, remote), Ok(7));
    let operational = (SCI_CB_OPERATIONAL, SCI_ERR_OK);
    assert_eq!(remote_event(&b, remote, 10_000), Ok(operational));
    assert_eq!(local_event(&a, segment, 1000), Ok((SCI_CB_CONNECT, B, 0)));
    assert_eq!(remote_segment_size(&b, remote), Ok(5001));
    map_remote(&b, remote, part(0, 5001), 0).unwrap();
    // From then on it is a connection like any other.
    functions::set_segment_unavailable(&a, segment, 0, SCI_FLAG_NOTIFY).unwrap();
    let disconnect = (SCI_CB_DISCONNECT, SCI_ERR_OK);
    assert_eq!(remote_event(&b, remote, 10_000), Ok(disconnect));

    let missing = begin(&b, desc, 8, sisci::INFINITE);
    let lost = (SCI_CB_LOST, SCI_ERR_NO_SUCH_SEGMENT);
    assert_eq!(remote_event(&b, missing, 10_000), Ok(lost));
    assert_eq!(remote_event(&b, missing, 0), Err(Error::Timeout));
    assert_eq!(
        map_remote(&b, missing, part(0, 1), 0),
        Err(Error::NotConnected)
    );
    assert_eq!(functions::close(&b, desc, 0), Err(Error::Busy));
    disconnect_segment(&b, missing, 0).unwrap();
}

/// SI-CONSEG-4, SI-RSM-7: as long as nobody has answered there is nothing to map.
#[test]
fn a_connection_that_is_on_its_way_can_be_given_up() {
    let (world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    world.set_silent(true);
    let desc = open(&b);
    let slow = begin(&b, desc, 7, 300);
    assert_eq!(remote_segment_size(&b, slow), Ok(0));
    assert_eq!(
        map_remote(&b, slow, part(0, 1), 0),
        Err(Error::NotConnected)
    );
    assert_eq!(remote_event(&b, slow, 0), Err(Error::Timeout));
    let lost = (SCI_CB_LOST, SCI_ERR_TIMEOUT);
    assert_eq!(remote_event(&b, slow, 10_000), Ok(lost));
    disconnect_segment(&b, slow, 0).unwrap();
    let given_up = begin(&b, desc, 7, 300);
    disconnect_segment(&b, given_up, 0).unwrap();
    assert_eq!(functions::close(&b, desc, 0), Ok(()));
    world.set_silent(false);
    until("the exporter is free", || {
        remove_segment(&a, segment, 0).is_ok()
    });
}

/// SI-CONSEG-4, SI-EVT-9: a callback is told as well, with the error, and then of all that follows.
#[test]
fn a_callback_is_told_of_a_connection() {
    let (world, a, b) = pair();
    offered(&a, 7, 4096);
    let desc = open(&b);
    let (tell, events) = std::sync::mpsc::channel();
    for id in [7, 8] {
        let tell = tell.clone();
        let callback: functions::RemoteCallback = Box::new(move |handle, event| {
            let _ = tell.send((handle, event.reason as u32, functions::code(event.status)));
            sisci::Action::Continue
        });
        let flags = SCI_FLAG_ASYNCHRONOUS_CONNECT | SCI_FLAG_USE_CALLBACK;
        let place = place(A, id);
        let remote = made(|out| connect_segment(&b, desc, out, place, Some(callback), flags));
        let told = events.recv_timeout(Duration::from_secs(10)).unwrap();
        let outcome = match id {
            7 => (SCI_CB_OPERATIONAL, SCI_ERR_OK),
            _ => (SCI_CB_LOST, SCI_ERR_NO_SUCH_SEGMENT),
        };
        assert_eq!(told, (remote.unwrap(), outcome.0, outcome.1));
    }
    world.lose(0);
    let (_, reason, status) = events.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!((reason, status), (SCI_CB_LOST, SCI_ERR_NOT_CONNECTED));
}

/// SI-CONSEG-10
#[test]
fn a_segment_has_many_connections() {
    let (world, a, b) = pair();
    let other = program(&world, Host::B);
    let segment = offered(&a, 7, 4096);
    let (first, second) = (connect(&b, A, 7).unwrap(), connect(&other, A, 7).unwrap());
    for _ in 0..2 {
        assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_CONNECT, B, 0)));
    }
    disconnect_segment(&b, first, 0).unwrap();
    assert_eq!(remove_segment(&a, segment, 0), Err(Error::Busy));
    map_remote(&other, second, part(0, 4096), 0).unwrap();
}

/// SI-DISSEG-1, SI-DISSEG-4, SI-RSM-6: a connection can be left in every state.
#[test]
fn a_connection_can_be_left_in_every_state() {
    let states: [fn(&World, &Program, Handle); 5] = [
        |_, _, _| {},
        |world, _, _| world.set_up(0, false),
        |_, a, segment| {
            functions::set_segment_unavailable(a, segment, 0, SCI_FLAG_NOTIFY).unwrap();
        },
        |world, a, segment| {
            functions::set_segment_unavailable(a, segment, 0, SCI_FLAG_NOTIFY).unwrap();
            world.set_up(0, false);
        },
        |world, _, _| world.lose(0),
    ];
    for state in states {
        let (world, a, b) = pair();
        let segment = offered(&a, 7, 4096);
        let remote = connect(&b, A, 7).unwrap();
        state(&world, &a, segment);
        assert_eq!(disconnect_segment(&b, remote, 0), Ok(()));
        let again = disconnect_segment(&b, remote, 0);
        assert_eq!(again, Err(Error::IllegalParameter));
        world.set_up(0, true);
        assert_eq!(remove_segment(&a, segment, 0), Ok(()));
    }
}

/// SI-DISSEG-2, SI-GEN-12
#[test]
fn a_connection_with_maps_is_busy() {
    let (_world, a, b) = pair();
    offered(&a, 7, 4096);
    let remote = connect(&b, A, 7).unwrap();
    let (map, _) = map_remote(&b, remote, part(0, 4096), 0).unwrap();
    assert_eq!(disconnect_segment(&b, remote, 0), Err(Error::Busy));
    functions::unmap_segment(&b, map, 0).unwrap();
    assert_eq!(disconnect_segment(&b, remote, 0), Ok(()));
}

/// SI-DISSEG-3, SI-WRSEG-3
#[test]
fn leaving_ends_a_wait() {
    let (_world, a, b) = pair();
    offered(&a, 7, 4096);
    let remote = connect(&b, A, 7).unwrap();
    assert_eq!(remote_event(&b, remote, 10), Err(Error::Timeout));
    let waiting = Arc::clone(&b);
    let waiter = std::thread::spawn(move || remote_event(&waiting, remote, SCI_INFINITE_TIMEOUT));
    std::thread::sleep(Duration::from_millis(50));
    disconnect_segment(&b, remote, 0).unwrap();
    let ended = waiter.join().unwrap();
    assert!(matches!(
        ended,
        Err(Error::Cancelled | Error::IllegalParameter)
    ));
}

/// SI-RSM-2, SI-WRSEG-4, SI-EVT-4, SI-EVT-5, SI-EVT-9: both sides hear of an outage, once each.
#[test]
fn an_outage_is_told_to_both_sides() {
    let (world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let remote = connect(&b, A, 7).unwrap();
    let (_, address) = map_remote(&b, remote, part(0, 4096), 0).unwrap();
    let (_, own) = map_local(&a, segment, part(0, 4096), 0).unwrap();
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_CONNECT, B, 0)));
    world.set_up(0, false);
    let down = (SCI_CB_NOT_OPERATIONAL, SCI_ERR_NO_LINK_ACCESS);
    assert_eq!(remote_event(&b, remote, 0), Ok(down));
    assert_eq!(
        local_event(&a, segment, 0),
        Ok((SCI_CB_NOT_OPERATIONAL, B, 0))
    );
    world.set_up(0, true);
    assert_eq!(
        remote_event(&b, remote, 0),
        Ok((SCI_CB_OPERATIONAL, SCI_ERR_OK))
    );
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_OPERATIONAL, B, 0)));
    assert_eq!(remote_event(&b, remote, 0), Err(Error::Timeout));
    write(address, 3);
    assert_eq!(read(own), 3);
}

/// SI-RSM-3, SI-RSM-4: the owner's wish and the state of the link are told apart.
#[test]
fn a_wish_to_leave_survives_an_outage() {
    let (world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let remote = connect(&b, A, 7).unwrap();
    world.set_up(0, false);
    functions::set_segment_unavailable(&a, segment, 0, SCI_FLAG_NOTIFY).unwrap();
    world.set_up(0, true);
    let mut reasons = Vec::new();
    while let Ok((reason, _)) = remote_event(&b, remote, 0) {
        reasons.push(reason);
    }
    let expected = [
        SCI_CB_NOT_OPERATIONAL,
        SCI_CB_DISCONNECT,
        SCI_CB_OPERATIONAL,
    ];
    assert_eq!(reasons, expected);
    map_remote(&b, remote, part(0, 4096), 0).unwrap();
}

/// SI-RSM-5, SI-EVT-6, SI-EVT-7, SI-EVT-9: the end of a session is told once, and is final.
#[test]
fn a_lost_session_is_told_once() {
    let (world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let remote = connect(&b, A, 7).unwrap();
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_CONNECT, B, 0)));
    world.lose(0);
    let lost = (SCI_CB_LOST, SCI_ERR_NOT_CONNECTED);
    assert_eq!(remote_event(&b, remote, 0), Ok(lost));
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_LOST, B, 0)));
    world.set_up(0, false);
    world.set_up(0, true);
    assert_eq!(remote_event(&b, remote, 0), Err(Error::Timeout));
    assert_eq!(local_event(&a, segment, 0), Err(Error::Timeout));
    disconnect_segment(&b, remote, 0).unwrap();
    connect(&b, A, 7).unwrap();
}

/// SI-RSM-7, SI-MAPR-3, SI-MAPR-10: maps need a connection that is operational.
#[test]
fn what_is_not_operational_cannot_be_mapped() {
    let (world, a, b) = pair();
    offered(&a, 7, 4096);
    let remote = connect(&b, A, 7).unwrap();
    let map = || map_remote(&b, remote, part(0, 4096), 0);
    world.set_up(0, false);
    assert_eq!(map(), Err(Error::NotConnected));
    world.set_up(0, true);
    map().unwrap();
    world.lose(0);
    assert_eq!(map(), Err(Error::NotConnected));
    world.set_up(0, false);
    world.set_up(0, true);
    assert_eq!(map(), Err(Error::NotConnected));
}

/// SI-EVT-8, SI-EVT-9: a bridge that has failed is told to all segments there, once, whether or
/// not they have connections; what was connected over it is lost.
#[test]
fn a_bridge_that_has_failed_is_told_to_all() {
    let (world, a, b) = pair();
    let connected = offered(&a, 7, 4096);
    let alone = offered(&a, 8, 4096);
    let unprepared = create(&a, open(&a), 9, 4096, 0).unwrap();
    offered(&b, 7, 4096);
    let remote = connect(&a, B, 7).unwrap();
    connect(&b, A, 7).unwrap();
    assert_eq!(local_event(&a, connected, 0), Ok((SCI_CB_CONNECT, B, 0)));
    world.fail(0, Host::A);
    for segment in [connected, alone] {
        let (reason, _, adapter) = local_event(&a, segment, 0).unwrap();
        assert_eq!((reason, adapter), (SCI_CB_FATAL, 0));
        assert_eq!(local_event(&a, segment, 0), Err(Error::Timeout));
    }
    assert_eq!(local_event(&a, unprepared, 0), Err(Error::Timeout));
    let fatal = (SCI_CB_FATAL, SCI_ERR_SYSTEM);
    assert_eq!(remote_event(&a, remote, 0), Ok(fatal));
    let lost = (SCI_CB_LOST, SCI_ERR_NOT_CONNECTED);
    assert_eq!(remote_event(&a, remote, 0), Ok(lost));
    assert_eq!(
        map_remote(&a, remote, part(0, 4096), 0),
        Err(Error::NotConnected)
    );
}
