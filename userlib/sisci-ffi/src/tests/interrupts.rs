// SPDX-License-Identifier: MIT OR Apache-2.0

//! Interrupts, plain ones and those with a message.

use super::*;
use crate::functions::{
    connect_data_interrupt, connect_interrupt, create_data_interrupt, create_interrupt,
    disconnect_data_interrupt, disconnect_interrupt, remove_data_interrupt, remove_interrupt,
    trigger_data_interrupt, trigger_interrupt, wait_for_data_interrupt, wait_for_interrupt,
};
use sys::*;

/// An interrupt, and its number.
fn new(p: &Program, number: u32, flags: u32) -> Result<(Handle, u32)> {
    let (desc, mut number) = (open(p), number);
    let to = super::out(&mut number);
    let interrupt = made(|out| create_interrupt(p, desc, out, 0, to, None, flags))?;
    Ok((interrupt, number))
}

fn call(p: &Program, node: u32, number: u32, flags: u32) -> Result<Handle> {
    let desc = open(p);
    made(|out| connect_interrupt(p, desc, out, place(node, number), flags))
}

fn wait(p: &Program, interrupt: Handle) -> Result<()> {
    wait_for_interrupt(p, interrupt, 0, 0)
}

fn new_data(p: &Program, number: u32, flags: u32) -> Result<(Handle, u32)> {
    let (desc, mut number) = (open(p), number);
    let to = super::out(&mut number);
    let interrupt = made(|out| create_data_interrupt(p, desc, out, 0, to, None, flags))?;
    Ok((interrupt, number))
}

fn call_data(p: &Program, node: u32, number: u32, flags: u32) -> Result<Handle> {
    let desc = open(p);
    made(|out| connect_data_interrupt(p, desc, out, place(node, number), flags))
}

fn send(p: &Program, interrupt: Handle, data: &[u8]) -> Result<()> {
    trigger_data_interrupt(p, interrupt, input(data), 0)
}

/// The next message, into so much room; the length is told in any case.
fn receive(p: &Program, interrupt: Handle, room: usize, timeout: u32) -> (Result<Vec<u8>>, u32) {
    let (mut data, mut length) = (vec![0; room], room as u32);
    let to = super::out(&mut length);
    let received = wait_for_data_interrupt(p, interrupt, bytes(&mut data), to, timeout, 0);
    let taken = received.map(|()| data[..length as usize].to_vec());
    (taken, length)
}

/// SI-CRINT-1, SI-CRINT-2, SI-CRINT-6, SI-RMINT-1, SI-CONINT-1: numbers are unique for each kind,
/// and free again after removal.
#[test]
fn interrupts_have_numbers() {
    let (_world, a, b) = pair();
    let (first, one) = new(&a, 99, 0).unwrap();
    let (_, two) = new(&a, 99, 0).unwrap();
    assert_ne!(one, two);
    let fixed = SCI_FLAG_FIXED_INTNO;
    assert_eq!(new(&a, one, fixed), Err(Error::SegmentIdUsed));
    assert_eq!(new(&a, 77, fixed).unwrap().1, 77);
    assert_eq!(new_data(&a, 77, fixed).unwrap().1, 77);
    assert_eq!(new(&b, 77, fixed).unwrap().1, 77);
    remove_interrupt(&a, first, 0).unwrap();
    assert_eq!(call(&b, A, one, 0), Err(Error::NoSuchSegment));
    new(&a, one, fixed).unwrap();
    call(&b, A, one, 0).unwrap();
}

/// SI-CRINT-3
#[test]
fn all_that_share_a_number_are_notified() {
    let (world, a, b) = pair();
    let other = program(&world, Host::A);
    let both = SCI_FLAG_FIXED_INTNO | SCI_FLAG_SHARED_INT;
    let (first, _) = new(&a, 7, both).unwrap();
    let (second, _) = new(&other, 7, both).unwrap();
    let alone = new(&other, 7, SCI_FLAG_FIXED_INTNO);
    assert_eq!(alone, Err(Error::SegmentIdUsed));
    let caller = call(&b, A, 7, 0).unwrap();
    trigger_interrupt(&b, caller, 0).unwrap();
    assert_eq!(wait(&a, first), Ok(()));
    assert_eq!(wait(&other, second), Ok(()));
}

/// SI-CRINT-4, SI-CRINT-6, SI-WINT-3, SI-CONINT-2, SI-ISM-1, SI-TRINT-1: triggers may become one.
#[test]
fn triggers_that_nobody_waits_for_are_one() {
    let (_world, a, b) = pair();
    let (interrupt, number) = new(&a, 0, 0).unwrap();
    let caller = call(&b, A, number, 0).unwrap();
    assert_eq!(wait(&a, interrupt), Err(Error::Timeout));
    for _ in 0..3 {
        trigger_interrupt(&b, caller, 0).unwrap();
    }
    assert_eq!(wait(&a, interrupt), Ok(()));
    assert_eq!(wait(&a, interrupt), Err(Error::Timeout));
    trigger_interrupt(&b, caller, 0).unwrap();
    assert_eq!(wait(&a, interrupt), Ok(()));
}

/// SI-CRINT-5, SI-WINT-3
#[test]
fn triggers_can_be_counted() {
    let (_world, a, b) = pair();
    let (interrupt, number) = new(&a, 0, SCI_FLAG_COUNTING_INT).unwrap();
    let caller = call(&b, A, number, SCI_FLAG_COUNTING_INT).unwrap();
    for _ in 0..1000 {
        trigger_interrupt(&b, caller, 0).unwrap();
    }
    for _ in 0..1000 {
        assert_eq!(wait(&a, interrupt), Ok(()));
    }
    assert_eq!(wait(&a, interrupt), Err(Error::Timeout));
}

/// SI-CONINT-3, SI-CONDINT-1: what cannot be connected to, and why.
#[test]
fn connections_to_interrupts_are_refused_for_a_reason() {
    let (world, a, b) = pair();
    let (_, number) = new(&a, 0, 0).unwrap();
    let counted = call(&b, A, number, SCI_FLAG_COUNTING_INT);
    assert_eq!(counted, Err(Error::ConnectionRefused));
    for kind in [call, call_data] {
        assert_eq!(kind(&b, A, 1, 0), Err(Error::NoSuchSegment));
        assert_eq!(kind(&b, 16, 1, 0), Err(Error::NoSuchNodeId));
        assert_eq!(kind(&b, 0, 1, 0), Err(Error::IllegalNodeId));
        assert_eq!(kind(&b, C, 1, 0), Err(Error::NoRemoteLinkAccess));
    }
    world.set_silent(true);
    assert_eq!(call(&b, A, number, 0), Err(Error::NodeNotResponding));
    world.set_up(0, false);
    assert_eq!(call(&b, A, number, 0), Err(Error::NoLinkAccess));
}

/// SI-CONINT-4, SI-NTB-22
#[test]
fn a_node_triggers_itself() {
    let (world, a, _b) = pair();
    world.set_up(0, false);
    let (interrupt, number) = new(&a, 0, 0).unwrap();
    let caller = call(&a, A, number, 0).unwrap();
    trigger_interrupt(&a, caller, 0).unwrap();
    assert_eq!(wait(&a, interrupt), Ok(()));
}

/// SI-RMINT-2, SI-RMINT-3, SI-DISINT-1, SI-ISM-1, SI-GEN-12
#[test]
fn an_interrupt_with_connections_is_busy() {
    let (world, a, b) = pair();
    let (interrupt, number) = new(&a, 0, 0).unwrap();
    let caller = call(&b, A, number, 0).unwrap();
    assert_eq!(remove_interrupt(&a, interrupt, 0), Err(Error::Busy));
    assert_eq!(call(&b, A, number, 0), Err(Error::NoSuchSegment));
    trigger_interrupt(&b, caller, 0).unwrap();
    assert_eq!(wait(&a, interrupt), Ok(()));
    disconnect_interrupt(&b, caller, 0).unwrap();
    assert_eq!(remove_interrupt(&a, interrupt, 0), Ok(()));
    let (interrupt, number) = new(&a, 0, 0).unwrap();
    call(&b, A, number, 0).unwrap();
    assert_eq!(remove_interrupt(&a, interrupt, 0), Err(Error::Busy));
    world.lose(0);
    assert_eq!(remove_interrupt(&a, interrupt, 0), Ok(()));
}

/// SI-RMINT-4, SI-WINT-1, SI-WDINT-3
#[test]
fn removal_ends_waits_for_interrupts() {
    let (_world, a, _b) = pair();
    let (interrupt, _) = new(&a, 0, 0).unwrap();
    let start = Instant::now();
    assert_eq!(
        wait_for_interrupt(&a, interrupt, 50, 0),
        Err(Error::Timeout)
    );
    assert!(start.elapsed() >= Duration::from_millis(50));
    let waiting = Arc::clone(&a);
    let waiter = std::thread::spawn(move || wait_for_interrupt(&waiting, interrupt, u32::MAX, 0));
    let (with_data, _) = new_data(&a, 0, 0).unwrap();
    let waiting = Arc::clone(&a);
    let other = std::thread::spawn(move || receive(&waiting, with_data, 8, u32::MAX).0);
    std::thread::sleep(Duration::from_millis(50));
    remove_interrupt(&a, interrupt, 0).unwrap();
    remove_data_interrupt(&a, with_data, 0).unwrap();
    let ended = |error| matches!(error, Error::Cancelled | Error::IllegalParameter);
    assert!(waiter.join().unwrap().is_err_and(ended));
    assert!(other.join().unwrap().is_err_and(ended));
}

/// SI-TRINT-3, SI-TRDINT-3, SI-ISM-2, SI-ISM-3: what a trigger says when it cannot arrive.
#[test]
fn a_trigger_tells_of_the_link() {
    let (world, a, b) = pair();
    let (interrupt, number) = new(&a, 0, 0).unwrap();
    let (_, data) = new_data(&a, 0, 0).unwrap();
    let (caller, sender) = (
        call(&b, A, number, 0).unwrap(),
        call_data(&b, A, data, 0).unwrap(),
    );
    world.set_up(0, false);
    assert_eq!(trigger_interrupt(&b, caller, 0), Err(Error::NoLinkAccess));
    assert_eq!(send(&b, sender, b"x"), Err(Error::NoLinkAccess));
    let waiting = Arc::clone(&a);
    let waiter = std::thread::spawn(move || wait_for_interrupt(&waiting, interrupt, 10_000, 0));
    world.set_up(0, true);
    assert_eq!(trigger_interrupt(&b, caller, 0), Ok(()));
    assert_eq!(waiter.join().unwrap(), Ok(()));
    world.lose(0);
    assert_eq!(trigger_interrupt(&b, caller, 0), Err(Error::NotConnected));
    assert_eq!(send(&b, sender, b"x"), Err(Error::NotConnected));
    assert_eq!(disconnect_interrupt(&b, caller, 0), Ok(()));
    assert_eq!(disconnect_data_interrupt(&b, sender, 0), Ok(()));
}

/// SI-CRDINT-1, SI-CRDINT-2, SI-WDINT-1, SI-TRDINT-1, SI-TRDINT-2, SI-DISDINT-1
#[test]
fn messages_arrive_whole_and_in_order() {
    let (_world, a, b) = pair();
    let (interrupt, number) = new_data(&a, 0, 0).unwrap();
    let sender = call_data(&b, A, number, 0).unwrap();
    for round in 0..20_u8 {
        for n in 0..50 {
            send(&b, sender, &[round, n]).unwrap();
        }
        for n in 0..50 {
            assert_eq!(receive(&a, interrupt, 64, 0).0, Ok(vec![round, n]));
        }
    }
    let longest = vec![7; SCI_DATA_INTERRUPT_MAX as usize];
    send(&b, sender, &longest).unwrap();
    send(&b, sender, &[]).unwrap();
    let longer = vec![7; SCI_DATA_INTERRUPT_MAX as usize + 1];
    assert_eq!(send(&b, sender, &longer), Err(Error::OutOfRange));
    disconnect_data_interrupt(&b, sender, 0).unwrap();
    assert_eq!(receive(&a, interrupt, 8192, 0).0, Ok(longest));
    assert_eq!(receive(&a, interrupt, 8192, 0).0, Ok(Vec::new()));
    assert_eq!(receive(&a, interrupt, 8192, 0).0, Err(Error::Timeout));
}

/// SI-WDINT-2
#[test]
fn a_message_that_does_not_fit_stays() {
    let (_world, a, b) = pair();
    let (interrupt, number) = new_data(&a, 0, 0).unwrap();
    let sender = call_data(&b, A, number, 0).unwrap();
    send(&b, sender, b"twelve bytes").unwrap();
    assert_eq!(receive(&a, interrupt, 11, 0), (Err(Error::OutOfRange), 12));
    assert_eq!(receive(&a, interrupt, 0, 0), (Err(Error::OutOfRange), 12));
    assert_eq!(receive(&a, interrupt, 12, 0).0, Ok(b"twelve bytes".into()));
}

/// SI-TRDINT-3: a slow receiver loses nothing; its sender is told.
#[test]
fn a_full_queue_is_told() {
    let (_world, a, b) = pair();
    let (interrupt, number) = new_data(&a, 0, 0).unwrap();
    let sender = call_data(&b, A, number, 0).unwrap();
    let sent = (0..=255_u8).take_while(|n| send(&b, sender, &[*n]).is_ok());
    let sent = sent.count();
    assert!(sent >= SCI_DATA_INTERRUPT_QUEUE as usize);
    assert_eq!(send(&b, sender, b"more"), Err(Error::NoSpace));
    for n in 0..sent {
        assert_eq!(receive(&a, interrupt, 8, 0).0, Ok(vec![n as u8]));
    }
    assert_eq!(send(&b, sender, b"more"), Ok(()));
}

/// SI-CRDINT-2: each that shares a number has a copy.
#[test]
fn all_that_share_a_number_have_the_message() {
    let (world, a, b) = pair();
    let other = program(&world, Host::A);
    let both = SCI_FLAG_FIXED_INTNO | SCI_FLAG_SHARED_INT;
    let (first, _) = new_data(&a, 7, both).unwrap();
    let (second, _) = new_data(&other, 7, both).unwrap();
    let sender = call_data(&b, A, 7, 0).unwrap();
    send(&b, sender, b"all").unwrap();
    assert_eq!(receive(&a, first, 8, 0).0, Ok(b"all".into()));
    assert_eq!(receive(&other, second, 8, 0).0, Ok(b"all".into()));
}

/// SI-CONDINT-2, SI-NTB-23: a message for all nodes.
#[test]
fn a_message_reaches_all_nodes() {
    let (_world, a, b) = pair();
    let fixed = SCI_FLAG_FIXED_INTNO;
    let all = DIS_BROADCAST_NODEID_GROUP_ALL;
    let nobody = call_data(&b, all, 7, SCI_FLAG_BROADCAST);
    assert_eq!(nobody, Err(Error::NoSuchSegment));
    let (there, _) = new_data(&a, 7, fixed).unwrap();
    let (here, _) = new_data(&b, 7, fixed).unwrap();
    assert_eq!(
        call_data(&b, A, 7, SCI_FLAG_BROADCAST),
        Err(Error::IllegalNodeId)
    );
    assert_eq!(call_data(&b, all, 7, 0), Err(Error::IllegalNodeId));
    let sender = call_data(&b, all, 7, SCI_FLAG_BROADCAST).unwrap();
    send(&b, sender, b"all").unwrap();
    assert_eq!(receive(&a, there, 8, 0).0, Ok(b"all".into()));
    assert_eq!(receive(&b, here, 8, 0).0, Ok(b"all".into()));
}

/// SI-RMDINT-1
#[test]
fn a_message_interrupt_with_connections_is_busy() {
    let (_world, a, b) = pair();
    let (interrupt, number) = new_data(&a, 0, 0).unwrap();
    let sender = call_data(&b, A, number, 0).unwrap();
    assert_eq!(remove_data_interrupt(&a, interrupt, 0), Err(Error::Busy));
    disconnect_data_interrupt(&b, sender, 0).unwrap();
    assert_eq!(remove_data_interrupt(&a, interrupt, 0), Ok(()));
    let again = remove_data_interrupt(&a, interrupt, 0);
    assert_eq!(again, Err(Error::IllegalParameter));
}
