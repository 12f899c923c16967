// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packet channels of shared memory: `mcapi_pktchan_release_test` at the sender.

use super::{channels::*, *};
use crate::operations::Begun;

const SHARED: (u32, u32) = (
    sys::MCAPI_ENDP_ATTR_MEMORY_TYPE,
    sys::MCAPI_ENDP_ATTR_SHARED_MEMORY,
);
const SMALL: (u32, u32) = (sys::MCAPI_ENDP_ATTR_MAX_PAYLOAD_SIZE, 64);

fn free() -> Answer<u8> {
    Answer::success(1)
}

fn shared() -> Channel {
    Channel::with(PACKETS, &[SHARED, SMALL])
}

fn at(data: &[u8]) -> *const std::ffi::c_void {
    data.as_ptr().cast()
}

/// What the sender is told of a packet's memory, once the answer is the one that is expected.
fn until(channel: &Channel, data: &[u8], expected: Answer<u8>) {
    let begun = std::time::Instant::now();
    while channel.release_test(0, at(data)) != expected {
        assert!(begun.elapsed().as_secs() < 20);
    }
}

/// MC-PKTRELTEST-1, MC-PKTREL-1: the sender is told that memory is free when the receiver has released the
/// packet, of several packets in any order.
#[test]
fn memory_is_free_when_the_receiver_has_released_it() {
    let channel = shared();
    let all = [*b"one", *b"two", *b"six"];
    let held = all.each_ref().map(|data| {
        assert_eq!(
            channel.release_test(0, at(data)),
            Answer::from(Error::BufferInvalid)
        );
        channel.send(data).unwrap();
        assert_eq!(channel.release_test(0, at(data)), Answer::PENDING);
        let (buffer, _) = channel.receive().unwrap();
        assert_eq!(channel.release_test(0, at(data)), Answer::PENDING);
        buffer
    });
    let mut left = [true; 3];
    for n in [1, 2, 0] {
        channel.release(held[n]).unwrap();
        left[n] = false;
        let expected = left.map(|left| if left { Answer::PENDING } else { free() });
        let told = all.each_ref().map(|data| channel.release_test(0, at(data)));
        assert_eq!(told, expected);
    }
}

/// MC-PKTRELTEST-1, MC-PKTSENDI-1: the request of a send is complete when the packet was sent; its memory is
/// free when the packet was released. What waits for a slot is sent when one is released.
#[test]
fn a_send_is_complete_before_its_memory_is_free() {
    let channel = shared();
    let [sender, receiver] = &channel.programs;
    let all = [[1; 64]; PACKETS.capacity as usize + 1];
    let begin_send = |data: &[u8; 64]| {
        let send = |node: &Node| -> Result<Begun> {
            functions::pktchan_send_i(node, channel.handles[0], input(data))
        };
        begin(sender, send).unwrap()
    };
    let begun = all.each_ref().map(begin_send);
    let (last, is_done) = begun[all.len() - 1];
    assert!(!is_done);
    for ((request, is_done), data) in begun.iter().zip(&all).take(all.len() - 1) {
        assert!(is_done);
        assert_eq!(wait(sender, *request), Ok(64));
        assert_eq!(channel.release_test(0, at(data)), Answer::PENDING);
    }
    for data in &all {
        assert_eq!(channel.release_test(0, at(data)), Answer::PENDING);
        let (buffer, _) = channel.receive().unwrap();
        assert_eq!(channel.release_test(0, at(data)), Answer::PENDING);
        channel.release(buffer).unwrap();
        assert_eq!(channel.release_test(0, at(data)), free());
    }
    assert_eq!(wait(sender, last), Ok(64));
    assert_eq!(channel.release_test(0, at(&all[16])), free());
    assert_eq!(
        receiver.with(|node| functions::pktchan_release_test(node, at(&all[16]))),
        Err(Error::BufferInvalid)
    );
}

/// MC-PKTRELTEST-1, MC-PKTREL-4: the sender is told also when both ends were closed, and when the
/// receiving node has gone.
#[test]
fn memory_is_free_by_and_by_when_the_channel_was_closed() {
    for is_released in [true, false] {
        let channel = shared();
        let data = *b"data";
        channel.send(&data).unwrap();
        let (buffer, _) = channel.receive().unwrap();
        let closing = [0, 1].map(|end| {
            let close = |node: &Node| (PACKETS.close[end])(node, channel.handles[end]);
            begin(&channel.programs[end], close).unwrap().0
        });
        for (program, request) in channel.programs.iter().zip(closing) {
            assert_eq!(wait_for(program, request), Ok(()));
        }
        assert_eq!(channel.release_test(0, at(&data)), Answer::PENDING);
        match is_released {
            true => channel.release(buffer).unwrap(),
            false => functions::finalize(&channel.programs[1]).unwrap(),
        }
        until(&channel, &data, free());
        functions::finalize(&channel.programs[0]).unwrap();
        assert_eq!(
            channel.release_test(0, at(&data)),
            Answer::from(Error::NodeNotInit)
        );
    }
}

/// MC-PKTRELTEST-1, MC-PKTRELTEST-4: a buffer that was received and sent on is lent until the next
/// receiver has released it.
#[test]
fn a_buffer_that_was_sent_on_is_lent() {
    let channel = shared();
    let [one, other] = &channel.programs;
    let (_, back) = opened(PACKETS, [other, one], [3, 4], &[SHARED, SMALL]);
    channel.send(b"first").unwrap();
    let (buffer, len) = channel.receive().unwrap();
    // SAFETY: The buffer of a packet of this length, which is not released.
    let sent_on = unsafe { Input::new(buffer.cast::<u8>().cast_const(), len) };
    other
        .with(|node| functions::pktchan_send(node, back[0], sent_on))
        .unwrap();
    let (mut again, mut size) = (ptr::null_mut(), 0);
    let (to, length) = (out(&mut again), out(&mut size));
    one.with(|node| functions::pktchan_recv(node, back[1], to, length))
        .unwrap();
    assert_eq!(channel.release_test(1, buffer), Answer::PENDING);
    one.with(|node| functions::pktchan_release(node, again))
        .unwrap();
    assert_eq!(channel.release_test(1, buffer), free());
    channel.release(buffer).unwrap();
    let unknown = Answer::from(Error::BufferInvalid);
    assert_eq!(channel.release_test(1, buffer), unknown);
}

/// MC-PKTRELTEST-1, A-16: a packet that was not released is known, however many were sent since.
#[test]
fn what_is_lent_stays_known() {
    let channel = shared();
    let data = *b"kept";
    channel.send(&data).unwrap();
    let (kept, _) = channel.receive().unwrap();
    let others = vec![7; mcapi::SEND_BUFFERS_MAX as usize + 1];
    for other in others.chunks(1) {
        channel.send(other).unwrap();
        let (buffer, _) = channel.receive().unwrap();
        channel.release(buffer).unwrap();
    }
    assert_eq!(channel.release_test(0, at(&data)), Answer::PENDING);
    channel.release(kept).unwrap();
    assert_ne!(channel.release_test(0, at(&data)), Answer::PENDING);
}
