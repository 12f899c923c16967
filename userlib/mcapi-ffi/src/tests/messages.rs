// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages.

use super::*;

/// MC-MSGSEND-1, MC-MSGRECV-1, MC-MSGRECV-3, MC-GEN-11, MC-MSGAVAIL-1: with and without bytes, and
/// what is too long.
#[test]
fn messages_arrive_and_what_is_too_long_loses_its_end() {
    let [a, b] = pair();
    let (from, to) = (create(&a, 1), create(&b, 2));
    for data in [&b"hello"[..], b"", &[7; 65536], b"too long", b"empty"] {
        send(&a, from, to, data).unwrap();
    }
    // NULL without bytes is no mistake.
    let empty = a.with(|state| functions::msg_send(state, from, to, no_input(0), 0));
    assert_eq!(empty, Ok(()));
    assert_eq!(receive(&b, to, 8), (Ok(()), b"hello".to_vec()));
    assert_eq!(receive(&b, to, 8), (Ok(()), vec![]));
    assert_eq!(receive(&b, to, 65536), (Ok(()), vec![7; 65536]));
    let truncated = Err(Error::MessageTruncated);
    assert_eq!(receive(&b, to, 3), (truncated, b"too".to_vec()));
    let mut size = 7;
    let nothing = b.with(|state| functions::msg_recv(state, to, no_room(0), out(&mut size)));
    assert_eq!((nothing, size), (truncated, 0));
    assert_eq!(receive(&b, to, 8), (Ok(()), vec![]));
    assert_eq!(available(&b, to), 0);
}

/// MC-MSGRECVI-1, MC-MSGRECVI-3, MC-GEN-5 to MC-GEN-7, MC-REQ-8, A-8: received at once, or later, or
/// too long.
#[test]
fn receives_that_do_not_wait_get_the_bytes_once() {
    let [a, b] = pair();
    let (from, to) = (create(&a, 1), create(&b, 2));
    let mut bytes = [0x5A; 16];
    let post = |bytes: &mut [u8]| {
        let place = room(bytes);
        begin(&b, |state| functions::msg_recv_i(state, to, place))
    };
    // Later.
    let (request, is_done) = post(&mut bytes[..8]).unwrap();
    assert!(!is_done);
    assert_eq!(test(&b, request), Answer::PENDING);
    send(&a, from, to, b"later").unwrap();
    while test(&b, request) == Answer::PENDING {}
    assert_eq!(&bytes[..9], b"later\x5A\x5A\x5A\x5A");
    // It was told complete: what the program has there now is its own.
    bytes.fill(1);
    assert_eq!(test(&b, request), Answer::success(1));
    assert_eq!(wait(&b, request), Ok(5));
    assert_eq!(bytes, [1; 16]);
    assert_eq!(wait(&b, request), Err(Error::RequestInvalid));
    // At once: the request is there all the same.
    send(&a, from, to, b"at once").unwrap();
    while available(&b, to) == 0 {}
    let (request, is_done) = post(&mut bytes[..8]).unwrap();
    assert!(is_done);
    assert_eq!(&bytes[..8], b"at once\x01");
    assert_eq!(wait(&b, request), Ok(7));
    // Too long: at once it is the call's status, and later the request's.
    send(&a, from, to, b"too long").unwrap();
    while available(&b, to) == 0 {}
    assert_eq!(post(&mut bytes[..3]), Err(sys::MCAPI_ERR_MSG_TRUNCATED));
    assert_eq!(&bytes[..4], b"tooo");
    let (request, _) = post(&mut bytes[..3]).unwrap();
    send(&a, from, to, b"long too").unwrap();
    let mut size = 0;
    let ended = b.with(|state| functions::wait(state, given(&request), out(&mut size), SOON));
    assert_eq!((ended, size), (Err(Error::MessageTruncated), 3));
    assert_eq!(&bytes[..4], b"lono");
}

/// MC-MSGSENDI-1, MC-MSGSENDI-4, MC-MSGSEND-5: sends that do not wait, and those that cannot be.
#[test]
fn sends_that_do_not_wait_have_a_request() {
    let [a, b] = pair();
    let (from, to) = (create(&a, 1), create(&b, 2));
    let mut data = *b"message";
    let (request, _) = begin(&a, |state| {
        functions::msg_send_i(state, from, to, input(&data), 3)
    })
    .unwrap();
    assert_eq!(wait(&a, request), Ok(7));
    data.fill(0);
    assert_eq!(receive(&b, to, 8), (Ok(()), b"message".to_vec()));
    let refused = |data: &[u8], priority| {
        let [by_request, by_call] = [
            begin(&a, |state| {
                functions::msg_send_i(state, from, to, input(data), priority)
            })
            .unwrap_err(),
            a.with(|state| functions::msg_send(state, from, to, input(data), priority))
                .unwrap_err()
                .code(),
        ];
        assert_eq!(by_request, by_call);
        by_call
    };
    assert_eq!(refused(&[0; 65537], 0), sys::MCAPI_ERR_MSG_SIZE);
    assert_eq!(refused(b"", 8), sys::MCAPI_ERR_PRIORITY);
    // No memory is that large.
    // SAFETY: The bytes are not looked at.
    let absurd = unsafe { Input::new(data.as_ptr(), usize::MAX) };
    let sent = a.with(|state| functions::msg_send(state, from, to, absurd, 0));
    assert_eq!(sent, Err(Error::MessageSize));
    assert_eq!(available(&b, to), 0);
}

/// MC-GEN-10, MC-BUF-7, MC-MSG-11: from any address and to any, byte for byte; the memory is the
/// program's, and is used again and again.
#[test]
fn messages_are_read_and_written_at_any_address() {
    let program = node(&world(), Host::A, 1);
    let (from, to) = (create(&program, 1), create(&program, 2));
    let data: Vec<u8> = (0..5000).map(|n| (n % 251) as u8).collect();
    let mut memory = vec![0x5A; 64 + 5000 + 64];
    for offset in 0..64 {
        for len in [0, 1, 7, 100, 4097] {
            send(&program, from, to, &data[offset..offset + len]).unwrap();
            memory.fill(0x5A);
            let (place, mut size) = (room(&mut memory[offset..offset + len]), 0);
            let size_place = out(&mut size);
            let received = program.with(|state| functions::msg_recv(state, to, place, size_place));
            assert_eq!((received, size), (Ok(()), len));
            assert_eq!(memory[offset..offset + len], data[offset..offset + len]);
            let others = memory[..offset].iter().chain(&memory[offset + len..]);
            assert!(others.into_iter().all(|byte| *byte == 0x5A));
        }
    }
}

/// MC-GEN-7, MC-MSGSEND-1, MC-MSGSENDI-1: what is in the program's memory after the call, or when the
/// request is complete, is not sent.
#[test]
fn memory_is_the_programs_when_a_send_is_complete() {
    let program = node(&world(), Host::A, 1);
    let (from, to) = (create(&program, 1), create(&program, 2));
    let mut data = vec![1; 20_000];
    send(&program, from, to, &data).unwrap();
    data.fill(2);
    let (request, _) = send_i(&program, from, to, &data).unwrap();
    assert_eq!(wait(&program, request), Ok(20_000));
    data.fill(3);
    for byte in [1, 2] {
        assert_eq!(receive(&program, to, 20_000).1, vec![byte; 20_000]);
    }
}

/// MC-MSGSENDI-5, MC-CANCEL-1, MC-CANCEL-5, MC-GEN-9: a send that is cancelled while it waits for a
/// buffer never arrives, and its memory is the program's; those around it do.
#[test]
fn a_cancelled_send_never_arrives() {
    let program = node(&world(), Host::A, 1);
    let (from, to) = (create(&program, 1), create(&program, 2));
    let most = mcapi::RECEIVE_BUFFERS;
    let mut data = [0; 4];
    let requests: Vec<_> = (0..most + 3)
        .map(|n| {
            data = n.to_le_bytes();
            send_i(&program, from, to, &data).unwrap().0
        })
        .collect();
    cancel(&program, requests[most as usize + 1]).unwrap();
    data.fill(0xFF);
    for n in (0..most + 3).filter(|n| *n != most + 1) {
        assert_eq!(receive(&program, to, 4), (Ok(()), n.to_le_bytes().to_vec()));
    }
    assert_eq!(available(&program, to), 0);
}

/// MC-MSG-3, MC-MSGAVAIL-1: the most urgent first, in order within each priority; all are counted.
#[test]
fn messages_are_received_by_priority() {
    let program = node(&world(), Host::A, 1);
    let (from, to) = (create(&program, 1), create(&program, 2));
    for n in 0..32_u8 {
        assert_eq!(available(&program, to), u32::from(n));
        send_at(&program, from, to, &[n], u32::from(n * 5 % 8)).unwrap();
    }
    let mut order: Vec<u8> = (0..32).collect();
    order.sort_by_key(|n| n * 5 % 8);
    for (n, left) in order.into_iter().zip((0..32).rev()) {
        assert_eq!(receive(&program, to, 1), (Ok(()), vec![n]));
        assert_eq!(available(&program, to), left);
    }
}

/// MC-MSG-5, MC-MSGRECV-2, MC-MSGAVAIL-2, MC-MSGSENDI-3: endpoints of another node are none to receive
/// from, or to send from.
#[test]
fn endpoints_of_others_are_none_of_the_own() {
    let [a, b] = pair();
    let (own, other) = (create(&a, 1), create(&b, 2));
    let invalid = Err(Error::EndpointInvalid);
    assert_eq!(receive(&a, other, 8), (invalid, vec![]));
    let counted = a.with(|state| functions::msg_available(state, other));
    assert_eq!(counted, Err(Error::EndpointInvalid));
    assert_eq!(send(&a, other, own, b"data"), invalid);
    let invalid = Err(sys::MCAPI_ERR_ENDP_INVALID);
    assert_eq!(send_i(&a, other, own, b"data"), invalid);
    let mut bytes = [0x5A; 4];
    let place = room(&mut bytes);
    let posted = begin(&a, |state| functions::msg_recv_i(state, other, place));
    assert_eq!((posted, bytes), (invalid, [0x5A; 4]));
    assert_eq!(available(&a, own), 0);
}

/// MC-MSG-6, MC-MSGSEND-4: a message to what does not exist, of this node and of another one, is nobody's
/// mistake.
#[test]
fn messages_to_nobody_are_discarded() {
    let [a, b] = pair();
    let (own, there) = (create(&a, 1), create(&b, 2));
    for (program, nobody) in [(&a, own + 1), (&b, there + 1)] {
        let from = if std::ptr::eq(program, &a) {
            own
        } else {
            there
        };
        for to in [own + 1, there + 1] {
            assert_eq!(send(program, from, to, b"nobody"), Ok(()));
        }
        assert_eq!(available(program, from), 0);
        let made = create(program, (nobody & 0xFFFF) as u32);
        assert_eq!(available(program, made), 0);
    }
}
