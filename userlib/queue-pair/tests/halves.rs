// SPDX-License-Identifier: MIT OR Apache-2.0

//! The two halves as providers of other interfaces use them: nothing waits, data are gathered and
//! lent where they are, and each half has its own thread.

mod common;

use common::{halves, sessions, Halves, Patience};
use mp_fabric::vm_memory::VolatileSlice;
use mp_queue_pair::{
    Broken, Data, Error, Head, Message, Need, Opened, Opening, Outgoing, Piece, Place, Room, Shape,
    EXTRA_MAX, INLINE_MAX,
};
use mp_testing::World;
use std::thread;

const WINDOW: u64 = 0x4_0000;

fn on(stream: u16) -> Head {
    Head {
        stream,
        ..Head::default()
    }
}

/// Send a whole message, for which there is room.
fn put(from: &mut Halves, head: Head, extra: &[u8], data: &[u8]) -> u64 {
    let data = [Piece::from(data)];
    let put = from.0.put(&mut Outgoing::new(head, extra, &data));
    put.unwrap().expect("room")
}

/// The next message, which is there.
fn next<'r>(to: &mut Halves, room: &'r mut Room) -> Message<'r> {
    to.1.receive(room).unwrap().expect("a message")
}

/// The bytes of data of a message, whose slot goes back.
fn bytes(to: &mut Halves, message: Message<'_>) -> Vec<u8> {
    let mut data = vec![0; message.data.len()];
    assert_eq!(message.data.read(&mut data), Ok(data.len()));
    if let Data::Held(held) = message.data {
        let stream = held.stream();
        to.1.give(held, stream).expect("its own");
    }
    data
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + seed) as u8).collect()
}

#[test]
fn opening_a_pair_never_waits() {
    let world = World::new(1, 1 << 24);
    let (a, b) = sessions(&world, WINDOW);
    let shape = Shape::default();
    let a = Opening::new(a, &shape).unwrap();
    let Opened::NotYet(a) = a.look().unwrap() else {
        panic!("nobody has announced anything");
    };
    let b = Opening::new(b, &shape).unwrap();
    let (Opened::Ready(tx, rx), Opened::Ready(..)) = (a.look().unwrap(), b.look().unwrap()) else {
        panic!("both have announced");
    };
    assert_eq!((tx.partner().slots, rx.layout().slots), (8, 8));
}

#[test]
fn the_halves_are_used_by_two_threads_at_once_in_both_directions() {
    let shape = Shape {
        lines: 16,
        slots: 3,
        streams: 2,
        ..Shape::default()
    };
    let (_world, a, b) = halves(shape, WINDOW);
    const COUNT: usize = 20_000;
    let length = |n: usize| match n % 5 {
        0 => n % 3000,
        _ => n % 300,
    };
    let threads: Vec<_> = [(a, 1), (b, 2)]
        .into_iter()
        .flat_map(|((mut tx, mut rx), seed)| {
            let sender = thread::spawn(move || {
                let patience = Patience::new();
                for n in 0..COUNT {
                    let data = pattern(length(n), n + seed);
                    let pieces = [Piece::from(&data[..])];
                    let mut message = Outgoing::new(on(n as u16 % 2), &[], &pieces);
                    while tx.put(&mut message).unwrap().is_none() {
                        tx.publish().unwrap();
                        patience.wait();
                    }
                    tx.publish().unwrap();
                }
                tx.close(7).unwrap();
            });
            let receiver = thread::spawn(move || {
                let patience = Patience::new();
                let mut room = Room::default();
                let mut n = 0;
                loop {
                    let message = match rx.receive(&mut room) {
                        Ok(Some(message)) => message,
                        Ok(None) => {
                            patience.wait();
                            continue;
                        }
                        Err(Error::Closed { reason: 7 }) => break,
                        Err(error) => panic!("{error}"),
                    };
                    let data = pattern(length(n), n + 3 - seed);
                    let mut got = vec![0; message.data.len()];
                    message.data.read(&mut got).unwrap();
                    assert_eq!((message.head, got), (on(n as u16 % 2), data), "message {n}");
                    if let Data::Held(held) = message.data {
                        let stream = held.stream();
                        rx.give(held, stream).unwrap();
                    }
                    rx.publish().unwrap();
                    n += 1;
                }
                assert_eq!(n, COUNT);
            });
            [sender, receiver]
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn pieces_are_gathered_and_scattered_across_any_borders() {
    let (_world, mut a, mut b) = halves(Shape::default(), WINDOW);
    for len in [
        0,
        1,
        39,
        40,
        41,
        200,
        INLINE_MAX,
        INLINE_MAX + 1,
        1000,
        4096,
    ] {
        let data = pattern(len, 1);
        let (first, rest) = data.split_at(len / 3);
        let mut memory = rest.to_vec();
        let memory = VolatileSlice::from(&mut memory[..]);
        let pieces = [
            Piece::from(first),
            Piece::from(&[][..]),
            Piece::from(memory),
        ];
        let sent = a.0.put(&mut Outgoing::new(on(0), &[], &pieces)).unwrap();
        a.0.publish().unwrap();
        let mut room = Room::default();
        let message = next(&mut b, &mut room);
        assert_eq!(sent, Some(message.number));
        assert_eq!(matches!(message.data, Data::Held(_)), len > INLINE_MAX);
        let mut got = [vec![0; len / 2], vec![], vec![0; len / 4], vec![0; len + 1]];
        let rooms = got
            .iter_mut()
            .map(|room| VolatileSlice::from(&mut room[..]));
        assert_eq!(message.data.scatter(rooms), Ok(len));
        let mut got = got.concat();
        assert!(got.iter().skip(len).all(|byte| *byte == 0));
        got.truncate(len);
        assert_eq!(got, data);
        // A room that is too small takes the beginning.
        let mut short = vec![0; len / 2];
        assert_eq!(message.data.read(&mut short), Ok(len / 2));
        assert_eq!(short, data[..len / 2]);
        bytes(&mut b, message);
        b.1.publish().unwrap();
    }
}

#[test]
fn messages_are_kept_beyond_the_next_ones_and_given_back_in_any_order() {
    let (_world, mut a, mut b) = halves(Shape::default(), WINDOW);
    let mut rooms = [Room::default(); 6];
    let mut kept = Vec::new();
    for (n, room) in rooms.iter_mut().enumerate() {
        let len = if n % 2 == 0 { 500 } else { 200 };
        put(&mut a, on(0), &[n as u8; 3], &pattern(len, n));
        a.0.publish().unwrap();
        kept.push(next(&mut b, room).split(3).expect("three bytes"));
    }
    assert_eq!(a.0.slots(0), Ok(5));
    for n in [4, 1, 5, 0, 3, 2] {
        let message = kept.remove(kept.iter().position(|m| m.extra == [n; 3]).expect("kept"));
        let len = if n % 2 == 0 { 500 } else { 200 };
        assert_eq!(bytes(&mut b, message), pattern(len, n.into()));
    }
    b.1.publish().unwrap();
    assert_eq!(a.0.slots(0), Ok(8));
}

#[test]
fn a_slot_goes_back_to_its_own_pair_only() {
    let (_world, mut a, mut b) = halves(Shape::default(), WINDOW);
    let (_other, _, mut c) = halves(Shape::default(), WINDOW);
    put(&mut a, on(0), &[], &[1; 300]);
    a.0.publish().unwrap();
    let mut room = Room::default();
    let Data::Held(held) = next(&mut b, &mut room).data else {
        panic!("300 bytes need a slot");
    };
    let (held, error) = c.1.give(held, 0).unwrap_err();
    assert_eq!(error, Error::Foreign);
    let (held, error) = b.1.give(held, 1).unwrap_err();
    assert_eq!(error, Error::Stream);
    b.1.give(held, 0).expect("its own");
}

/// Longer than any slot, and than all of them together.
#[test]
fn a_long_message_goes_in_parts_as_there_is_room() {
    for slots in [0, 2] {
        let shape = Shape {
            lines: 16,
            slots,
            slot_size: 1024,
            ..Shape::default()
        };
        let (_world, mut a, mut b) = halves(shape, WINDOW);
        let data = pattern(10_000, 5);
        let (first, rest) = data.split_at(4321);
        let pieces = [Piece::from(first), Piece::from(rest)];
        let head = Head {
            kind: 9,
            immediate: Some(77),
            ..on(0)
        };
        let extra = [3; 16];
        let mut message = Outgoing::new(head, &extra, &pieces);
        let mut got = Vec::new();
        let mut room = Room::default();
        let (mut sent, mut refused) = (None, 0);
        loop {
            if sent.is_none() {
                sent = a.0.put(&mut message).unwrap();
                refused += usize::from(sent.is_none());
                a.0.publish().unwrap();
            }
            let part = next(&mut b, &mut room).split(16).expect("16 bytes");
            let (last, number) = (!part.head.more, part.number);
            assert_eq!(
                (part.head, part.extra),
                (
                    Head {
                        more: !last,
                        ..head
                    },
                    &extra[..]
                )
            );
            got.extend(bytes(&mut b, part));
            b.1.publish().unwrap();
            if last {
                assert_eq!(sent, Some(number));
                break;
            }
        }
        assert!(refused > 0, "it does not fit at once");
        assert_eq!((message.left(), got == data), (0, true));
    }
}

#[test]
fn what_accompanies_a_message_is_beside_its_data_whatever_carries_them() {
    let (_world, mut a, mut b) = halves(Shape::default(), WINDOW);
    let extra = pattern(EXTRA_MAX, 9);
    let mut room = Room::default();
    for len in [
        0,
        1,
        INLINE_MAX - EXTRA_MAX,
        INLINE_MAX - EXTRA_MAX + 1,
        4096,
    ] {
        put(&mut a, on(0), &extra, &pattern(len, 1));
        a.0.publish().unwrap();
        let message = next(&mut b, &mut room).split(EXTRA_MAX).expect("all");
        assert_eq!(message.extra, extra);
        assert_eq!(bytes(&mut b, message), pattern(len, 1));
    }
    put(&mut a, on(0), &extra[..2], b"");
    a.0.publish().unwrap();
    assert!(
        next(&mut b, &mut room).split(3).is_none(),
        "it has two bytes"
    );
    let long = a.0.put(&mut Outgoing::new(on(0), &[0; EXTRA_MAX + 1], &[]));
    assert_eq!(long, Err(Error::TooLong { most: EXTRA_MAX }));
}

#[test]
fn data_are_written_in_place_and_told_of_in_a_line_or_not() {
    let (_world, mut a, mut b) = halves(Shape::default(), WINDOW);
    let place = Place {
        key: 5,
        off: 128,
        len: 1000,
    };
    assert!(b.0.advertise(&on(0), place).unwrap().is_some());
    b.0.publish().unwrap();
    let mut room = Room::default();
    let Data::Advertised(told) = next(&mut a, &mut room).data else {
        panic!("an advertised buffer");
    };
    assert_eq!(told, place);
    let data = pattern(600, 3);
    let (first, last) = data.split_at(100);
    let pieces = [Piece::from(first), Piece::from(last)];
    a.0.write(told.off + 10, &pieces).unwrap();
    a.0.publish().unwrap();
    assert!(b.1.receive(&mut room).unwrap().is_none(), "nobody was told");
    let written = Place {
        off: 138,
        len: 600,
        ..place
    };
    a.0.put_placed(&on(0), written, b"beside")
        .unwrap()
        .expect("room");
    a.0.publish().unwrap();
    let message = next(&mut b, &mut room).split(6).expect("six bytes");
    assert_eq!(message.extra, b"beside");
    let Data::Placed(at, area) = &message.data else {
        panic!("a placed message");
    };
    assert_eq!((*at, area.len()), (written, 600));
    assert_eq!(bytes(&mut b, message), data);
    // Also where nobody was told of.
    let mut part = [0; 4];
    let area =
        b.1.area(Place {
            off: 140,
            len: 4,
            key: 0,
        })
        .expect("inside");
    assert_eq!(Data::Placed(written, area).read(&mut part), Ok(4));
    assert_eq!(part, data[2..6]);
    let most = a.0.partner().buffers_len;
    let outside = a.0.write(most - 1, &[Piece::from(&[0; 2][..])]);
    let most = most as usize;
    assert_eq!(outside, Err(Error::TooLong { most }));
    let outside = Place {
        off: u64::MAX,
        len: 2,
        key: 0,
    };
    assert!(a.0.put_placed(&on(0), outside, b"").is_err());
    assert!(b.1.area(outside).is_none());
}

#[test]
fn lines_that_were_taken_are_not_yet_acknowledged() {
    let (_world, mut a, mut b) = halves(Shape::default(), WINDOW);
    let first = put(&mut a, on(0), &[], b"one");
    let last = put(&mut a, on(0), &[], &[2; 100]);
    assert_eq!((first, last, a.0.sent()), (1, 4, 4));
    a.0.publish().unwrap();
    let mut room = Room::default();
    let number = next(&mut b, &mut room).number;
    next(&mut b, &mut room);
    assert_eq!(b.1.received(), 4);
    b.1.acknowledge(number);
    b.1.publish().unwrap();
    assert_eq!((a.0.taken(), a.0.acknowledged()), (Ok(4), Ok(1)));
    b.1.acknowledge(4);
    assert_eq!(a.0.acknowledged(), Ok(1), "not told yet");
    b.1.publish().unwrap();
    assert_eq!((a.0.acknowledged(), a.0.room()), (Ok(4), Ok(128)));
}

#[test]
fn a_half_that_arms_says_what_to_sleep_on() {
    let shape = Shape {
        lines: 8,
        slots: 1,
        ..Shape::default()
    };
    let (_world, mut a, mut b) = halves(shape, WINDOW);
    let park = b.1.arm().unwrap().expect("there is nothing");
    let lines = b.1.layout().lines_off as usize;
    assert_eq!((park.word, park.value, park.arm), (lines, 0, 0x0c0));
    put(&mut a, on(0), &[], &[1; 300]);
    a.0.publish().unwrap();
    assert_eq!(b.1.arm(), Ok(None), "a message is there");
    // The only slot is used.
    let long = [1; 300];
    let pieces = [Piece::from(&long[..])];
    let mut message = Outgoing::new(on(0), &[], &pieces);
    assert_eq!(a.0.put(&mut message), Ok(None));
    assert_eq!(a.0.need(&message), Need::Slot(0));
    let park = a.0.arm(Need::Slot(0)).unwrap().expect("there is none");
    assert_eq!((park.word, park.value, park.arm), (512 + 8, 0, 0x100));
    let mut room = Room::default();
    let message = next(&mut b, &mut room);
    bytes(&mut b, message);
    b.1.publish().unwrap();
    assert_eq!(a.0.arm(Need::Slot(0)), Ok(None), "it was given");
    while a
        .0
        .put(&mut Outgoing::new(on(0), &[], &[]))
        .unwrap()
        .is_some()
    {}
    let short = Outgoing::new(on(0), &[1], &[]);
    assert_eq!(a.0.need(&short), Need::Lines(1));
    let park = a.0.arm(Need::Lines(1)).unwrap().expect("the ring is full");
    assert_eq!((park.word, park.arm), (0x080, 0x100));
    // A slot is of no use without a line.
    let park = a.0.arm(Need::Slot(0)).unwrap().expect("the ring is full");
    assert_eq!(park.word, 0x080);
    a.0.close(0).unwrap();
    while b.1.receive(&mut room).is_ok() {}
    assert_eq!(b.1.arm(), Ok(None), "the end is there");
}

#[test]
fn a_broken_partner_ends_both_halves_whichever_finds_it() {
    let (_world, mut a, mut b) = halves(Shape::default(), WINDOW);
    // A line that cannot be, at the place of the first one.
    let line = b.1.layout().lines_off as usize;
    let far = a.0.session().map_remote().unwrap().unwrap();
    far.volatile()
        .subslice(line, 64)
        .unwrap()
        .copy_from(&[0x77_u8; 64]);
    let mut room = Room::default();
    let broken = Error::Broken(Broken::Line);
    assert_eq!(b.1.receive(&mut room).unwrap_err(), broken);
    let mut none = Outgoing::new(on(0), &[], &[]);
    assert_eq!(b.0.put(&mut none), Err(broken), "the other half knows");
    assert_eq!(b.0.room(), Err(broken));
    assert_eq!(b.0.close(0), Err(broken));
    // The partner is told, and finds it with either half.
    let told = Error::Broken(Broken::Partner(Broken::Line.reason()));
    assert_eq!(a.0.room(), Err(told));
    assert_eq!(a.1.receive(&mut room).unwrap_err(), told);
}

#[test]
fn a_layer_breaks_off_with_a_reason_of_its_own() {
    let (_world, mut a, mut b) = halves(Shape::default(), WINDOW);
    put(&mut a, on(0), &[], b"lost");
    a.1.abort(300);
    assert_eq!(
        a.0.put(&mut Outgoing::new(on(0), &[], &[])),
        Err(Error::Ended)
    );
    a.0.abort(301);
    let told = Error::Broken(Broken::Partner(300));
    assert_eq!(b.0.room(), Err(told), "the first end counts");
    assert_eq!(b.1.receive(&mut Room::default()).unwrap_err(), told);
}
