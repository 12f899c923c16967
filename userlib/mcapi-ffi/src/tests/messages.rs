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
