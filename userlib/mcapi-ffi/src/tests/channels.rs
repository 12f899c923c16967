// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packet and scalar channels.

use super::*;
use std::ffi::c_void;

pub type Open = fn(&Node, Out<u32>, u64) -> Result<Begun>;
pub type Close = fn(&Node, u32) -> Result<Begun>;
pub type Connect = fn(&Node, u64, u64) -> Result<Begun>;

/// The functions of a kind of channel: for its sending end, and for its receiving end.
#[derive(Clone, Copy)]
pub struct Kind {
    pub connect: Connect,
    pub open: [Open; 2],
    pub close: [Close; 2],
    /// Packets of 64 bytes, or scalars, that are sent at most before one is received.
    pub capacity: u32,
}

pub const PACKETS: Kind = Kind {
    connect: functions::pktchan_connect_i,
    open: [
        functions::pktchan_send_open_i,
        functions::pktchan_recv_open_i,
    ],
    close: [
        functions::pktchan_send_close_i,
        functions::pktchan_recv_close_i,
    ],
    capacity: 16,
};
pub const SCALARS: Kind = Kind {
    connect: functions::sclchan_connect_i,
    open: [
        functions::sclchan_send_open_i,
        functions::sclchan_recv_open_i,
    ],
    close: [
        functions::sclchan_send_close_i,
        functions::sclchan_recv_close_i,
    ],
    capacity: 256,
};

/// A channel from the first of two nodes to the second one.
pub struct Channel {
    kind: Kind,
    pub programs: [Program; 2],
    pub endpoints: [u64; 2],
    pub handles: [u32; 2],
}

/// The endpoints and the handles of a channel from the first of two programs to the second one, with
/// these ports and attributes.
pub fn opened(
    kind: Kind,
    programs: [&Program; 2],
    ports: [u32; 2],
    attributes: &[(u32, u32)],
) -> ([u64; 2], [u32; 2]) {
    let endpoints = [0, 1].map(|end| create(programs[end], ports[end]));
    for (number, value) in attributes {
        for (program, endpoint) in programs.iter().zip(endpoints) {
            set(program, endpoint, *number, *value).unwrap();
        }
    }
    let [send, receive] = endpoints;
    let (connecting, _) = begin(programs[1], |node| (kind.connect)(node, send, receive)).unwrap();
    assert_eq!(wait_for(programs[1], connecting), Ok(()));
    let mut handles = [UNTOUCHED; 2];
    let mut opening = [0; 2];
    for end in [1, 0] {
        let handle = out(&mut handles[end]);
        let open = |node: &Node| (kind.open[end])(node, handle, endpoints[end]);
        opening[end] = begin(programs[end], open).unwrap().0;
        if end == 1 {
            assert_eq!(test(programs[end], opening[end]), Answer::PENDING);
            assert_eq!(handles[end], UNTOUCHED);
        }
    }
    for end in [0, 1] {
        assert_eq!(wait_for(programs[end], opening[end]), Ok(()));
        assert_ne!(handles[end], UNTOUCHED);
    }
    (endpoints, handles)
}

impl Channel {
    /// MC-PKTROPEN-2: a handle is written when both ends are open, and not before.
    pub fn new(kind: Kind) -> Self {
        Self::with(kind, &[])
    }

    /// The same between endpoints with these attributes.
    pub fn with(kind: Kind, attributes: &[(u32, u32)]) -> Self {
        let programs = pair();
        let [one, other] = &programs;
        let (endpoints, handles) = opened(kind, [one, other], [1, 2], attributes);
        Channel {
            kind,
            programs,
            endpoints,
            handles,
        }
    }

    /// Run a function of an end.
    pub fn at<T>(&self, end: usize, act: impl FnOnce(&Node, u32) -> Result<T>) -> Result<T> {
        self.programs[end].with(|node| act(node, self.handles[end]))
    }

    /// Send a number as a packet or a scalar.
    pub fn put(&self, number: u32) -> Result<()> {
        match self.is_of_packets() {
            true => self.send(&number.to_le_bytes()),
            false => self.at(0, |node, channel| {
                functions::sclchan_send(node, channel, number)
            }),
        }
    }

    /// Receive it.
    pub fn take(&self) -> Result<u32> {
        if !self.is_of_packets() {
            return self.at(1, functions::sclchan_recv);
        }
        let (buffer, len) = self.receive()?;
        let number = u32::from_le_bytes(read(buffer, len).try_into().unwrap());
        self.release(buffer)?;
        Ok(number)
    }

    fn is_of_packets(&self) -> bool {
        self.kind.capacity == PACKETS.capacity
    }

    pub fn send(&self, data: &[u8]) -> Result<()> {
        self.at(0, |node, channel| {
            functions::pktchan_send(node, channel, input(data))
        })
    }

    pub fn receive(&self) -> Result<(*mut c_void, usize)> {
        let (mut buffer, mut size) = (ptr::null_mut(), 0);
        let (to, len) = (out(&mut buffer), out(&mut size));
        self.at(1, |node, channel| {
            functions::pktchan_recv(node, channel, to, len)
        })?;
        Ok((buffer, size))
    }

    pub fn release(&self, buffer: *const c_void) -> Result<()> {
        self.at(1, |node, _| functions::pktchan_release(node, buffer))
    }

    pub fn release_test(&self, end: usize, buffer: *const c_void) -> Answer<u8> {
        let answer = self.at(end, |node, _| functions::pktchan_release_test(node, buffer));
        answer.into()
    }

    /// Begin to close an end by a function for this end of some kind.
    fn close(&self, end: usize, close: Close) -> std::result::Result<(u32, bool), u32> {
        begin(&self.programs[end], |node| close(node, self.handles[end]))
    }
}

pub fn read(buffer: *const c_void, len: usize) -> Vec<u8> {
    // SAFETY: The buffer of a packet of this length, which is not released.
    unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), len) }.to_vec()
}

/// MC-PKTRECV-1, MC-PKTREL-1, MC-PKTREL-3, MC-BUF-1, MC-BUF-6: buffers are the program's, one by one
/// and in any order.
#[test]
fn packets_are_the_programs_until_they_are_released() {
    let channel = Channel::new(PACKETS);
    for data in [&b"one"[..], b"two", b""] {
        channel.send(data).unwrap();
    }
    let all = [(); 3].map(|()| channel.receive().unwrap());
    assert_eq!(all.map(|(_, len)| len), [3, 3, 0]);
    let [one, two, none] = all.map(|(buffer, _)| buffer);
    assert_eq!([read(one, 3), read(two, 3)], [b"one", b"two"]);
    assert!(!none.is_null());
    // SAFETY: The buffer of a packet of three bytes.
    unsafe { two.cast::<u8>().write(b'T') };
    assert_eq!(channel.release(one), Ok(()));
    assert_eq!(read(two, 3), b"Two");
    let invalid = Err(Error::BufferInvalid);
    assert_eq!(channel.release(one), invalid);
    assert_eq!(
        channel.release(two.cast::<u8>().wrapping_add(1).cast()),
        invalid
    );
    // Another node has no such buffer (MC-PKTREL-2).
    let elsewhere = channel.at(0, |node, _| functions::pktchan_release(node, two));
    assert_eq!(elsewhere, invalid);
    assert_eq!([channel.release(none), channel.release(two)], [Ok(()); 2]);
}

/// MC-PKTRELTEST-1 to MC-PKTRELTEST-4: on both sides.
#[test]
fn both_sides_are_told_whether_a_buffer_is_free() {
    let channel = Channel::new(PACKETS);
    let data = *b"data";
    let at = data.as_ptr().cast();
    let unknown = Answer::from(Error::BufferInvalid);
    assert_eq!(channel.release_test(0, at), unknown);
    channel.send(&data).unwrap();
    assert_eq!(channel.release_test(0, at), Answer::success(1));
    assert_eq!(channel.release_test(1, at), unknown);
    let (buffer, _) = channel.receive().unwrap();
    assert_eq!(channel.release_test(1, buffer), Answer::PENDING);
    channel.release(buffer).unwrap();
    assert_eq!(channel.release_test(1, buffer), unknown);
}

/// MC-PKTRELTEST-2, MC-PKTRELTEST-4, MC-BUF-6: a buffer that was received and sent on is free as memory that
/// was sent until it is released; then it is none, and what is received there next is held.
#[test]
fn a_buffer_that_was_sent_on_is_released_as_others_are() {
    let channel = Channel::with(PACKETS, &[(sys::MCAPI_ENDP_ATTR_MAX_PAYLOAD_SIZE, 64)]);
    let [one, other] = &channel.programs;
    let (_, [back, _]) = opened(PACKETS, [other, one], [3, 4], &[]);
    let unknown = Answer::from(Error::BufferInvalid);
    channel.send(b"first").unwrap();
    let (buffer, len) = channel.receive().unwrap();
    let data = read(buffer, len);
    // SAFETY: The buffer of a packet of this length, which is not released.
    let sent_on = unsafe { Input::new(buffer.cast::<u8>().cast_const(), len) };
    other
        .with(|node| functions::pktchan_send(node, back, sent_on))
        .unwrap();
    assert_eq!(data, b"first");
    assert_eq!(channel.release_test(1, buffer), Answer::success(1));
    channel.release(buffer).unwrap();
    assert_eq!(channel.release_test(1, buffer), unknown);
    // Until a packet comes to the same place.
    let again = (0..64).any(|_| {
        channel.send(b"next").unwrap();
        let (next, _) = channel.receive().unwrap();
        let is_same = next == buffer;
        if is_same {
            assert_eq!(channel.release_test(1, next), Answer::PENDING);
        }
        channel.release(next).unwrap();
        is_same
    });
    assert!(again);
    assert_eq!(channel.release_test(1, buffer), unknown);
}

/// MC-PKTSENDI-2, MC-PKTRELTEST-2: memory of a send that is pending is not free, and is when it is
/// complete.
#[test]
fn memory_of_a_pending_send_is_not_free() {
    let channel = Channel::new(PACKETS);
    let [sender, _] = &channel.programs;
    let data = [7; 60_000];
    let mut requests = Vec::new();
    let last = loop {
        let send = |node: &Node| functions::pktchan_send_i(node, channel.handles[0], input(&data));
        let (request, is_done) = begin(sender, send).unwrap();
        requests.push(request);
        if !is_done {
            break request;
        }
    };
    let at = data.as_ptr().cast();
    assert_eq!(channel.release_test(0, at), Answer::PENDING);
    for _ in &requests {
        let (buffer, len) = channel.receive().unwrap();
        assert_eq!(len, data.len());
        channel.release(buffer).unwrap();
    }
    assert_eq!(wait(sender, last), Ok(data.len()));
    assert_eq!(channel.release_test(0, at), Answer::success(1));
}

/// MC-PKTRECVI-1, MC-CANCEL-4: the address is written when there is a packet, also if the request is
/// cancelled afterwards.
#[test]
fn receives_that_do_not_wait_get_an_address() {
    let channel = Channel::new(PACKETS);
    let receiver = &channel.programs[1];
    for is_cancelled in [false, true] {
        let mut buffer = ptr::null_mut();
        let to = out(&mut buffer);
        let receive = |node: &Node| functions::pktchan_recv_i(node, channel.handles[1], to);
        let (request, is_done) = begin(receiver, receive).unwrap();
        assert!(!is_done && buffer.is_null());
        channel.send(b"packet").unwrap();
        while test(receiver, request) == Answer::PENDING {}
        match is_cancelled {
            false => assert_eq!(wait(receiver, request), Ok(6)),
            true => receiver
                .with(|node| functions::cancel(node, given(&request)))
                .unwrap(),
        }
        assert_eq!(read(buffer, 6), b"packet");
        channel.release(buffer).unwrap();
    }
}

/// MC-SCLSEND-2, MC-SCLRECV-1 to MC-SCLRECV-3, MC-SCLAVAIL-1
#[test]
fn scalars_keep_their_widths() {
    let channel = Channel::new(SCALARS);
    channel
        .at(0, |node, channel| {
            functions::sclchan_send(node, channel, u64::MAX - 1)?;
            functions::sclchan_send(node, channel, 0x8000_0001_u32)?;
            functions::sclchan_send(node, channel, 0x8001_u16)?;
            functions::sclchan_send(node, channel, 0x81_u8)
        })
        .unwrap();
    channel
        .at(1, |node, channel| {
            while functions::sclchan_available(node, channel)? < 4 {}
            let narrow = functions::sclchan_recv::<_, u8>(node, channel);
            assert_eq!(narrow, Err(Error::General));
            assert_eq!(functions::sclchan_recv(node, channel), Ok(u64::MAX - 1));
            assert_eq!(functions::sclchan_recv(node, channel), Ok(0x8000_0001_u32));
            assert_eq!(functions::sclchan_recv(node, channel), Ok(0x8001_u16));
            assert_eq!(functions::sclchan_recv(node, channel), Ok(0x81_u8));
            assert_eq!(functions::sclchan_available(node, channel), Ok(0));
            Ok(())
        })
        .unwrap();
}

/// A-28, MC-PKTRCLOSE-1, MC-PKTRCLOSE-4, MC-PKTRCLOSE-5, MC-SCLRCLOSE-1, MC-PKTSCLOSE-1,
/// MC-SCLSCLOSE-1: an end is closed by its own function, once, and both must be.
#[test]
fn ends_are_closed_by_their_own_functions() {
    for (kind, other) in [(PACKETS, SCALARS), (SCALARS, PACKETS)] {
        let channel = Channel::new(kind);
        for end in [0, 1] {
            let refused = channel.close(end, other.close[end]);
            assert_eq!(refused, Err(sys::MCAPI_ERR_CHAN_TYPE));
            let refused = channel.close(end, kind.close[1 - end]);
            assert_eq!(refused, Err(sys::MCAPI_ERR_CHAN_DIRECTION));
        }
        let [send, receive] = kind.close;
        let (first, is_done) = channel.close(1, receive).unwrap();
        assert!(!is_done);
        assert_eq!(channel.close(1, receive), Err(sys::MCAPI_ERR_CHAN_NOTOPEN));
        let (second, _) = channel.close(0, send).unwrap();
        for (end, request) in [(0, second), (1, first)] {
            assert_eq!(wait(&channel.programs[end], request), Ok(0));
            let again = channel.close(end, kind.close[end]);
            assert_eq!(again, Err(sys::MCAPI_ERR_CHAN_INVALID));
        }
    }
}

/// MC-GEN-4, MC-EPATTRSET-2: of a connected endpoint that comes before what is wrong with the
/// attribute; and a handle for something else is none.
#[test]
fn what_is_connected_is_no_endpoint_for_anything_else() {
    let [packets, scalars] = [PACKETS, SCALARS].map(Channel::new);
    for channel in [&packets, &scalars] {
        for end in [0, 1] {
            for (number, size) in [(11, 4), (11, 5), (99, 4)] {
                let value = [0; 8];
                let set = channel.programs[end].with(|node| {
                    let value = input(&value[..size]);
                    functions::endpoint_set_attribute(node, channel.endpoints[end], number, value)
                });
                assert_eq!(set, Err(Error::ChannelConnected));
            }
            let delete = channel.programs[end]
                .with(|node| functions::endpoint_delete(node, channel.endpoints[end]));
            assert_eq!(delete, Err(Error::ChannelConnected));
        }
    }
    let invalid = Err(Error::ChannelInvalid);
    let mut places = (ptr::null_mut(), 7);
    let (buffer, size) = (out(&mut places.0), out(&mut places.1));
    for end in [0, 1] {
        let sent = scalars.at(end, |n, c| functions::pktchan_send(n, c, input(b"a")));
        let received = scalars.at(end, |n, c| functions::pktchan_recv(n, c, buffer, size));
        assert_eq!([sent, received], [invalid; 2]);
        let sent = packets.at(end, |n, c| functions::sclchan_send(n, c, 1_u8));
        let received = packets.at(end, functions::sclchan_recv::<_, u8>);
        assert_eq!([sent, received.map(|_| ())], [invalid; 2]);
    }
    let reverse = packets.at(1, |n, c| functions::pktchan_send(n, c, input(b"a")));
    let available = packets.at(0, functions::pktchan_available);
    assert_eq!([reverse, available.map(|_| ())], [invalid; 2]);
    assert_eq!(places, (ptr::null_mut(), 7));
}

/// MC-BUF-7: what is in the buffer of a packet, which its sender can still write, is sent on from there.
#[test]
fn buffers_of_packets_are_sent_on() {
    let channel = Channel::new(PACKETS);
    let [a, b] = &channel.programs;
    let (from, to) = (create(b, 8), create(a, 9));
    let data: Vec<u8> = (0..9000).map(|n| (n % 251) as u8).collect();
    channel.send(&data).unwrap();
    let (buffer, len) = channel.receive().unwrap();
    // SAFETY: The buffer of a packet of this length, until it is released.
    let bytes = unsafe { Input::new(buffer.cast::<u8>().cast_const(), len) };
    b.with(|state| functions::msg_send(state, from, to, bytes, 0))
        .unwrap();
    channel.release(buffer).unwrap();
    assert_eq!(super::receive(a, to, 9000), (Ok(()), data));
}

/// MC-GEN-10, MC-GEN-11, MC-PKTSEND-2: packets are read at any address; without bytes, also at NULL.
#[test]
fn packets_are_read_at_any_address() {
    let channel = Channel::new(PACKETS);
    let data: Vec<u8> = (0..5000).map(|n| (n % 251) as u8).collect();
    for offset in 0..64 {
        for len in [0, 1, 63, 64, 65, 4097] {
            let data = &data[offset..offset + len];
            channel.send(data).unwrap();
            let (buffer, size) = channel.receive().unwrap();
            assert_eq!(read(buffer, size), data);
            channel.release(buffer).unwrap();
        }
    }
    let nothing = channel.at(0, |node, handle| {
        functions::pktchan_send(node, handle, no_input(0))
    });
    assert_eq!(nothing, Ok(()));
    let (buffer, size) = channel.receive().unwrap();
    assert_eq!(size, 0);
    channel.release(buffer).unwrap();
    let nothing = channel.at(0, |node, handle| {
        functions::pktchan_send(node, handle, no_input(1))
    });
    assert_eq!(nothing, Err(Error::Parameter));
}

/// MC-BUF-2, MC-BUF-4: packets of the most bytes, and of no more than the endpoint has.
#[test]
fn packets_have_so_many_bytes() {
    let most = sys::MCAPI_MAX_PACKET_SIZE;
    for max_payload in [most, 100, 0] {
        let channel = Channel::with(PACKETS, &[(3, max_payload)]);
        let data = vec![7; max_payload as usize + 1];
        let (most, more) = (&data[1..], &data[..]);
        channel.send(most).unwrap();
        let (buffer, size) = channel.receive().unwrap();
        assert_eq!(read(buffer, size), most);
        channel.release(buffer).unwrap();
        assert_eq!(channel.send(more), Err(Error::PacketSize));
        let refused = begin(&channel.programs[0], |node| {
            functions::pktchan_send_i(node, channel.handles[0], input(more))
        });
        assert_eq!(refused, Err(sys::MCAPI_ERR_PKT_SIZE));
    }
}

/// MC-REQ-7, MC-TEST-3, MC-WAIT-2, MC-TEST-4, MC-WAIT-7: requests that move data have a size, which is
/// what was moved; for those of channels that do not, nobody has to want one.
#[test]
fn requests_that_move_data_have_a_size() {
    let channel = Channel::new(PACKETS);
    let [a, b] = &channel.programs;
    let sent = begin(a, |node| {
        functions::pktchan_send_i(node, channel.handles[0], input(b"packet"))
    });
    let mut buffer = ptr::null_mut();
    let place = out(&mut buffer);
    let received = begin(b, |node| {
        functions::pktchan_recv_i(node, channel.handles[1], place)
    });
    for (program, (request, _)) in [(a, sent.unwrap()), (b, received.unwrap())] {
        let none = program.with(|state| {
            let tested = functions::test(state, given(&request), Out::NULL);
            assert_eq!(tested, Err(Error::Parameter));
            functions::wait(state, given(&request), Out::NULL, SOON)
        });
        assert_eq!(none, Err(Error::Parameter));
        let mut size = 77;
        loop {
            let tested = program
                .with(|state| functions::test(state, given(&request), out(&mut size)))
                .unwrap();
            if tested == Answer::success(1) {
                break;
            }
            assert_eq!((tested, size), (Answer::PENDING, 77));
        }
        assert_eq!(size, 6);
        assert_eq!(wait(program, request), Ok(6));
    }
    channel.release(buffer).unwrap();
    for (end, close) in [(0, PACKETS.close[0]), (1, PACKETS.close[1])] {
        let (request, _) = channel.close(end, close).unwrap();
        if end == 1 {
            let program = &channel.programs[end];
            let closed =
                program.with(|state| functions::wait(state, given(&request), Out::NULL, SOON));
            assert_eq!(closed, Ok(1));
        }
    }
}

/// MC-PKTRCLOSE-6: a close that was cancelled goes on: the channel ends when the other end is closed.
#[test]
fn a_cancelled_close_still_closes() {
    for kind in [PACKETS, SCALARS] {
        for first in [0, 1] {
            let channel = Channel::new(kind);
            let (closing, _) = channel.close(first, kind.close[first]).unwrap();
            super::cancel(&channel.programs[first], closing).unwrap();
            let other = 1 - first;
            let (closing, _) = channel.close(other, kind.close[other]).unwrap();
            assert_eq!(wait(&channel.programs[other], closing), Ok(0));
            let end = channel.endpoints[first];
            while get_attribute(&channel.programs[first], end, 10) != Ok(0) {}
            assert_eq!(set(&channel.programs[first], end, 11, 5), Ok(()));
        }
    }
}

/// MC-SCLRECV-2, MC-SCLRECV-3, MC-SCLSEND-2: a scalar of another width stays, for each pair of widths,
/// whatever its value is.
#[test]
fn scalars_of_other_widths_stay() {
    let channel = Channel::new(SCALARS);
    type Put = fn(&Node, u32, u64) -> Result<()>;
    type Take = fn(&Node, u32) -> Result<u64>;
    let puts: [Put; 4] = [
        |node, to, value| functions::sclchan_send(node, to, value as u8),
        |node, to, value| functions::sclchan_send(node, to, value as u16),
        |node, to, value| functions::sclchan_send(node, to, value as u32),
        |node, to, value| functions::sclchan_send(node, to, value),
    ];
    let takes: [Take; 4] = [
        |node, from| functions::sclchan_recv::<_, u8>(node, from).map(u64::from),
        |node, from| functions::sclchan_recv::<_, u16>(node, from).map(u64::from),
        |node, from| functions::sclchan_recv::<_, u32>(node, from).map(u64::from),
        |node, from| functions::sclchan_recv::<_, u64>(node, from),
    ];
    for (width, put) in puts.into_iter().enumerate() {
        let most = u64::MAX >> (64 - (8 << width));
        for value in [0, 1, most / 2 + 1, most] {
            channel.at(0, |node, to| put(node, to, value)).unwrap();
            for (other, take) in takes.iter().enumerate().filter(|(n, _)| *n != width) {
                let taken = channel.at(1, take);
                assert_eq!(taken, Err(Error::General), "{width} {other}");
            }
            assert_eq!(channel.at(1, takes[width]), Ok(value));
        }
    }
}

/// MC-PKTAVAIL-1, MC-SCLAVAIL-1, MC-PKTRECV-2, MC-PKTREL-5: what can be received is counted; without a
/// buffer nothing more comes until one is released, in any order.
#[test]
fn what_can_be_received_is_counted() {
    for kind in [PACKETS, SCALARS] {
        let channel = Channel::with(kind, &[(3, 64), (11, 0)]);
        let count = || {
            channel.at(1, |node, handle| match kind.capacity == PACKETS.capacity {
                true => functions::pktchan_available(node, handle),
                false => functions::sclchan_available(node, handle),
            })
        };
        for n in 0..10 {
            assert_eq!(count(), Ok(n));
            channel.put(n).unwrap();
        }
        for n in 0..10 {
            assert_eq!(channel.take(), Ok(n));
            assert_eq!(count(), Ok(9 - n));
        }
    }
    let channel = Channel::with(PACKETS, &[(3, 64), (11, 0)]);
    let mut held = Vec::new();
    while channel.put(held.len() as u32).is_ok() {
        held.push(channel.receive().unwrap().0);
    }
    assert_eq!(held.len() as u32, PACKETS.capacity);
    for round in 0..50_u32 {
        let buffer = held.remove((round * 7 % PACKETS.capacity) as usize);
        assert_eq!(channel.put(round), Err(Error::Timeout));
        channel.release(buffer).unwrap();
        channel.put(round).unwrap();
        held.push(channel.receive().unwrap().0);
    }
}

/// MC-FINAL-6: buffers that the program has end with the node; to release one then is refused.
#[test]
fn buffers_end_with_the_node() {
    let channel = Channel::new(PACKETS);
    let receiver = &channel.programs[1];
    channel.send(b"packet").unwrap();
    let (buffer, _) = channel.receive().unwrap();
    functions::finalize(receiver).unwrap();
    assert_eq!(channel.release(buffer), Err(Error::NodeNotInit));
    initialize(receiver, 1, 2).unwrap();
    assert_eq!(channel.release(buffer), Err(Error::BufferInvalid));
}
