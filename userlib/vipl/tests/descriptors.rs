// SPDX-License-Identifier: MIT OR Apache-2.0

//! Descriptors byte by byte, whatever the order of bytes of the host is.

mod common;

use common::{soon, Pair};
use vipl::{Descriptor, Level, MemHandle, Remote, Status};

/// VI-DESC-1, VI-DESC-22: each field where it belongs, its least significant byte first.
#[test]
fn fields_are_little_endian() {
    let remote = Remote {
        address: 0x0102_0304_0506_0708,
        handle: 0x1112_1314,
    };
    let segment = (0x2122_2324_2526_2728, MemHandle(0x3132_3334), 0x4142_4344);
    let write = Descriptor::write(remote).immediate(0x5152_5354).fence();
    let bytes = write.segment(segment.0, segment.1, segment.2).encode();
    #[rustfmt::skip]
    let expected = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0x0d, 0,
        0, 0, 0, 0, 0x54, 0x53, 0x52, 0x51, 0x44, 0x43, 0x42, 0x41, 0, 0, 0, 0,
        0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0x14, 0x13, 0x12, 0x11, 0, 0, 0, 0,
        0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41,
    ];
    assert_eq!(bytes, expected);
}

/// VI-DESC-22, VI-DESC-16: bytes that no library has written are a descriptor, and what is written
/// into it is little-endian; the data is what it was.
#[test]
fn bytes_are_posted_and_completed_as_they_are() {
    let pair = Pair::new();
    let (a, b) = pair.connected(Level::ReliableDelivery);
    let data: Vec<u8> = (0..=255).cycle().take(0x304).collect();
    let bytes = |side: &common::Side, offset: usize, control: u8, immediate: [u8; 4]| {
        let mut bytes = [0; 48];
        (bytes[12], bytes[14]) = (1, control);
        bytes[20..24].copy_from_slice(&immediate);
        bytes[24..28].copy_from_slice(&[0x04, 0x03, 0, 0]);
        bytes[32..40].copy_from_slice(&(side.at(offset) as u64).to_le_bytes());
        bytes[40..44].copy_from_slice(&side.handle.0.to_le_bytes());
        bytes[44..48].copy_from_slice(&[0x04, 0x03, 0, 0]);
        side.data(&bytes)
    };
    let room = pair.b.room(data.len());
    let receive = bytes(&pair.b, room, 0, [0; 4]);
    b.post_recv(pair.b.at(receive), pair.b.handle).unwrap();
    let from = pair.a.data(&data);
    let send = bytes(&pair.a, from, 4, [0x0d, 0x0c, 0x0b, 0x0a]);
    a.post_send(pair.a.at(send), pair.a.handle).unwrap();
    let done = b.recv_wait(soon()).unwrap();
    assert_eq!(done.immediate, Some(0x0a0b_0c0d));
    let status = Status::DONE
        .with(Status::OP_RECEIVE)
        .with(Status::IMMEDIATE);
    assert_eq!(status.0, 0x0009_0001);
    let written = pair.b.bytes(receive + 20, 12);
    let expected = [0x0d, 0x0c, 0x0b, 0x0a, 0x04, 0x03, 0, 0, 0x01, 0, 0x09, 0];
    assert_eq!(
        (written, pair.b.bytes(room, data.len())),
        (expected.to_vec(), data)
    );
}
