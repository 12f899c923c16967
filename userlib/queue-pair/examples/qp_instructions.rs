// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sends and receives messages between two hosts in one thread, for a program that counts
//! instructions.
//!
//! `qp_instructions SIZE COUNT`: each message is put, published, received, copied out, and its
//! slot given back, over the library's fake device. What is counted is `operations()`; what one
//! message takes is the difference of two counts, divided by the difference of their messages:
//! `tests/test_instructions.py`.

use mp_fabric::{Fabric, InterfaceId};
use mp_queue_pair::{
    Data, Head, Opened, Opening, Outgoing, Piece, Receiving, Room, Sending, Shape,
};
use mp_testing::{FakeDevice, Host, World};
use std::{env, error, hint::black_box};

const WINDOW: u64 = 1 << 20;
const SHAPE: Shape = Shape {
    lines: 128,
    slots: 8,
    slot_size: 1 << 16,
    streams: 1,
    partner_slots: 8,
};

type Outcome<T> = Result<T, Box<dyn error::Error>>;

fn opened(opening: Opening<FakeDevice>) -> Outcome<(Sending<FakeDevice>, Receiving<FakeDevice>)> {
    match opening.look()? {
        Opened::Ready(sending, receiving) => Ok((sending, receiving)),
        Opened::NotYet(_) => Err("the partner has not announced its end".into()),
    }
}

/// What is counted.
#[inline(never)]
fn operations(
    sending: &mut Sending<FakeDevice>,
    receiving: &mut Receiving<FakeDevice>,
    data: &[u8],
    copy: &mut [u8],
    count: usize,
) -> Outcome<()> {
    let mut room = Room::default();
    for _ in 0..count {
        let pieces = [Piece::from(black_box(data))];
        let mut message = Outgoing::new(Head::default(), &[], &pieces);
        sending.put(&mut message)?.ok_or("there is no room")?;
        sending.publish()?;
        let message = receiving.receive(&mut room)?.ok_or("no message")?;
        message.data.read(black_box(&mut *copy))?;
        if let Data::Held(held) = message.data {
            receiving.give(held, 0).map_err(|(_, error)| error)?;
        }
        receiving.publish()?;
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1);
    let mut number = || arguments.next().ok_or("SIZE and COUNT are missing");
    let (size, count): (usize, usize) = (number()?.parse()?, number()?.parse()?);
    let world = World::new(1, 1 << 24);
    let [a, b] = [Host::A, Host::B].map(|host| {
        let interface = InterfaceId(world.interface(0, host));
        (Fabric::with_device(world.open(host)), interface)
    });
    let window = WINDOW..=WINDOW;
    let server = a.0.server(a.1, 0xF111_D005).local(window.clone());
    let server = server.remote(window.clone()).open()?;
    let client = b.0.client(b.1, 0xF111_D005).local(window.clone());
    let client = client.remote(window).open()?;
    let (server, client) = (Opening::new(server, &SHAPE)?, Opening::new(client, &SHAPE)?);
    let ((mut sending, _), (_, mut receiving)) = (opened(server)?, opened(client)?);

    let data = vec![0x5a; size];
    let mut copy = vec![0; size];
    operations(&mut sending, &mut receiving, &data, &mut copy, count)?;
    if copy != data {
        return Err("it is not what was sent".into());
    }
    Ok(())
}
