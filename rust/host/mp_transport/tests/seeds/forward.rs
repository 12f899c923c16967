// SPDX-License-Identifier: GPL-2.0-only

//! The root processor of a star: frames of two peers to a third one, which has no room now and
//! then.

use super::{
    fixture::{
        self,
        Bytes,
        Fabric, //
    },
    *, //
};
use kernel::prelude::*;
use machine::{
    spawn,
    Handle,
    Kind, //
};
use mp_proto::{
    flow,
    manage::{
        Announced,
        Message, //
    },
    wire::{
        Envelope,
        MsgHdr,
        PeerId,
        WayTag, //
    }, //
};
use mp_transport::{
    peer::Peer,
    service, //
};

/// Bytes of each frame.
const LEN: usize = 300;
/// The sending hosts, by number.
const SENDERS: [u32; 2] = [1, 3];
/// The receiving host.
const RECEIVER: u32 = 2;

fn id_of(number: u32) -> PeerId {
    PeerId::from_bdf(number, 0, 0)
}

/// The mark of the way from a peer to the receiver, as the peer has been told it.
fn way_of(fabric: &Fabric, from: u32) -> Result<WayTag> {
    let told = fabric.link(from)?.await_messages(2);
    let way = told.iter().find_map(|message| match message {
        Message::Here(Announced { id, way, .. }) if *id == id_of(RECEIVER) => *way,
        _ => None,
    });
    way.ok_or(ENOENT)
}

/// Let a peer send as many frames as it has credits for, numbered from 1 on in place of a
/// function; how many.
fn send(peer: &Arc<Peer>, way: WayTag) -> u32 {
    let frames = flow::WINDOW / flow::cost(LEN);
    let data = [peer.index() as u8; LEN];
    for func in 1..=frames {
        let msg = MsgHdr {
            dst: id_of(RECEIVER),
            src: peer.id(),
            len: LEN as u32,
            func,
        };
        let way = way.value().to_le_bytes();
        // Without memory it is dropped, and the sender is told.
        let _ = service::receive(&fixture::context(), peer, msg, &way, &Bytes(&data));
    }
    frames
}

/// Numbers of the frames of one sender, in the order in which the receiver got them.
fn numbers<'a>(got: &'a [Envelope], from: u32) -> impl Iterator<Item = u32> + Clone + 'a {
    let its = got.iter().filter(move |head| head.msg.src == id_of(from));
    its.map(|head| head.msg.func)
}

/// Whether numbers only grow.
fn in_order(numbers: impl Iterator<Item = u32> + Clone) -> bool {
    numbers.clone().zip(numbers.skip(1)).all(|(a, b)| a < b)
}

/// Everything at once: the heads of what the receiver got, and how many each sent.
fn everything(is_short: bool) -> Result<(KVec<Envelope>, u32)> {
    let fabric = Arc::new(Fabric::star(3)?, GFP_KERNEL)?;
    let mut running = std::vec::Vec::new();
    for from in SENDERS {
        let (peer, way) = (fabric.peer(from)?, way_of(&fabric, from)?);
        running.push(spawn("sender", Kind::Softirq, move || {
            send(&peer, way);
        }));
    }
    if is_short {
        run_short();
    }
    let theirs = fabric.clone();
    running.push(spawn("receiver", Kind::Softirq, move || {
        for round in 0..10 {
            let link = theirs.link(RECEIVER).expect("it is there");
            link.refuse(round % 2 == 0);
            if round % 2 != 0 {
                theirs
                    .peer(RECEIVER)
                    .expect("it is there")
                    .tx_completed(0, 1);
            }
            for _ in 0..below(200) {
                machine::point();
            }
        }
    }));
    running.iter().for_each(Handle::join);
    set_failing_memory(Odds::NEVER);
    machine::sleep_until(machine::now() + 20_000_000);
    let got = fabric.link(RECEIVER)?.take_frames();
    drop(fabric);
    Ok((got, flow::WINDOW / flow::cost(LEN)))
}

#[test]
fn what_waits_for_room_goes_on_once_and_in_order() {
    with_module(|| {
        let (got, sent) = everything(false).expect("memory is there");
        for from in SENDERS {
            assert!(
                numbers(&got, from).eq(1..=sent),
                "of {from}: {:?}",
                numbers(&got, from).count()
            );
        }
    });
}

#[test]
fn what_is_dropped_without_memory_is_missing_and_nothing_else() {
    with_module(|| {
        let (got, sent) = everything(true).expect("memory is there at first");
        for from in SENDERS {
            assert!(in_order(numbers(&got, from)));
            assert!(numbers(&got, from).all(|number| (1..=sent).contains(&number)));
        }
    });
}
