// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packet and scalar channels.

use super::*;
use std::ffi::c_void;

type Open = fn(&Node, Out<u32>, u64) -> Result<Begun>;
type Close = fn(&Node, u32) -> Result<Begun>;
type Connect = fn(&Node, u64, u64) -> Result<Begun>;

/// The functions of a kind of channel: for its sending end, and for its receiving end.
#[derive(Clone, Copy)]
struct Kind {
    connect: Connect,
    open: [Open; 2],
    close: [Close; 2],
}

const PACKETS: Kind = Kind {
    connect: functions::pktchan_connect_i,
    open: [
        functions::pktchan_send_open_i,
        functions::pktchan_recv_open_i,
    ],
    close: [
        functions::pktchan_send_close_i,
        functions::pktchan_recv_close_i,
    ],
};
const SCALARS: Kind = Kind {
    connect: functions::sclchan_connect_i,
    open: [
        functions::sclchan_send_open_i,
        functions::sclchan_recv_open_i,
    ],
    close: [
        functions::sclchan_send_close_i,
        functions::sclchan_recv_close_i,
    ],
};

/// A channel from the first of two nodes to the second one.
struct Channel {
    programs: [Program; 2],
    endpoints: [u64; 2],
    handles: [u32; 2],
}

impl Channel {
    /// MC-PKTROPEN-2: a handle is written when both ends are open, and not before.
    fn new(kind: Kind) -> Self {
        let programs = pair();
        let endpoints = [create(&programs[0], 1), create(&programs[1], 2)];
        let [send, receive] = endpoints;
        let (connecting, _) =
            begin(&programs[1], |node| (kind.connect)(node, send, receive)).unwrap();
        assert_eq!(wait(&programs[1], connecting), Ok(0));
        let mut handles = [UNTOUCHED; 2];
        let mut opening = [0; 2];
        for end in [1, 0] {
            let handle = out(&mut handles[end]);
            let open = |node: &Node| (kind.open[end])(node, handle, endpoints[end]);
            opening[end] = begin(&programs[end], open).unwrap().0;
            if end == 1 {
                assert_eq!(test(&programs[end], opening[end]), Answer::PENDING);
                assert_eq!(handles[end], UNTOUCHED);
            }
        }
        for end in [0, 1] {
            assert_eq!(wait(&programs[end], opening[end]), Ok(0));
            assert_ne!(handles[end], UNTOUCHED);
        }
        Channel {
            programs,
            endpoints,
            handles,
        }
    }

    /// Run a function of an end.
    fn with<T>(&self, end: usize, act: impl FnOnce(&Node, u32) -> Result<T>) -> Result<T> {
        self.programs[end].with(|node| act(node, self.handles[end]))
    }

    fn send(&self, data: &[u8]) -> Result<()> {
        self.with(0, |node, channel| {
            functions::pktchan_send(node, channel, input(data))
        })
    }

    fn receive(&self) -> Result<(*mut c_void, usize)> {
        let (mut buffer, mut size) = (ptr::null_mut(), 0);
        let (to, len) = (out(&mut buffer), out(&mut size));
        self.with(1, |node, channel| {
            functions::pktchan_recv(node, channel, to, len)
        })?;
        Ok((buffer, size))
    }

    fn release(&self, buffer: *const c_void) -> Result<()> {
        self.with(1, |node, _| functions::pktchan_release(node, buffer))
    }

    fn release_test(&self, end: usize, buffer: *const c_void) -> Answer<u8> {
        let answer = self.with(end, |node, _| functions::pktchan_release_test(node, buffer));
        answer.into()
    }

    /// Begin to close an end by a function for this end of some kind.
    fn close(&self, end: usize, close: Close) -> std::result::Result<(u32, bool), u32> {
        begin(&self.programs[end], |node| close(node, self.handles[end]))
    }
}

fn read(buffer: *const c_void, len: usize) -> Vec<u8> {
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
    let elsewhere = channel.with(0, |node, _| functions::pktchan_release(node, two));
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
        .with(0, |node, channel| {
            functions::sclchan_send(node, channel, u64::MAX - 1)?;
            functions::sclchan_send(node, channel, 0x8000_0001_u32)?;
            functions::sclchan_send(node, channel, 0x8001_u16)?;
            functions::sclchan_send(node, channel, 0x81_u8)
        })
        .unwrap();
    channel
        .with(1, |node, channel| {
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
        let sent = scalars.with(end, |n, c| functions::pktchan_send(n, c, input(b"a")));
        let received = scalars.with(end, |n, c| functions::pktchan_recv(n, c, buffer, size));
        assert_eq!([sent, received], [invalid; 2]);
        let sent = packets.with(end, |n, c| functions::sclchan_send(n, c, 1_u8));
        let received = packets.with(end, functions::sclchan_recv::<_, u8>);
        assert_eq!([sent, received.map(|_| ())], [invalid; 2]);
    }
    let reverse = packets.with(1, |n, c| functions::pktchan_send(n, c, input(b"a")));
    let available = packets.with(0, functions::pktchan_available);
    assert_eq!([reverse, available.map(|_| ())], [invalid; 2]);
    assert_eq!(places, (ptr::null_mut(), 7));
}
