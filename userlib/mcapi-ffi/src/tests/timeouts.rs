// SPDX-License-Identifier: MIT OR Apache-2.0

//! How long blocking calls wait.

use super::{channels::*, *};
use std::{
    thread,
    time::{Duration, Instant},
};

const TIMEOUT: u32 = sys::MCAPI_ENDP_ATTR_TIMEOUT;

/// A call returns `Timeout`, not before so many milliseconds.
fn times_out(milliseconds: u64, call: impl FnOnce() -> Result<()>) {
    let begun = Instant::now();
    assert_eq!(call(), Err(Error::Timeout));
    assert!(begun.elapsed() >= Duration::from_millis(milliseconds));
}

/// MC-TMO-1, MC-TMO-3, MC-TMO-4, MC-MSGSEND-2, MC-MSGSEND-3, MC-MSGRECV-1, MC-MSGRECV-4, MC-MSG-10:
/// messages that have no buffer, and that do not come: not at all, for a time, and until they do.
#[test]
fn messages_wait_as_long_as_the_endpoint_says() {
    let [a, b] = pair();
    let (from, to) = (create(&a, 1), create(&b, 2));
    for n in 0..mcapi::RECEIVE_BUFFERS {
        send_at(&a, from, to, &[n as u8], 7).unwrap();
    }
    for timeout in [0, 50] {
        set(&a, from, TIMEOUT, timeout).unwrap();
        times_out(timeout.into(), || send_at(&a, from, to, b"late", 7));
        times_out(timeout.into(), || receive(&a, from, 8).0);
    }
    set(&a, from, TIMEOUT, sys::MCAPI_TIMEOUT_INFINITE as u32).unwrap();
    thread::scope(|scope| {
        let sends = scope.spawn(|| send_at(&a, from, to, b"last", 7));
        let receives = scope.spawn(|| receive(&a, from, 8));
        thread::sleep(Duration::from_millis(60));
        assert!(!sends.is_finished() && !receives.is_finished());
        for n in 0..mcapi::RECEIVE_BUFFERS {
            assert_eq!(receive(&b, to, 8), (Ok(()), vec![n as u8]));
        }
        assert_eq!(sends.join().unwrap(), Ok(()));
        send(&b, to, from, b"answer").unwrap();
        assert_eq!(receives.join().unwrap(), (Ok(()), b"answer".to_vec()));
    });
    // Nothing of what has timed out has arrived.
    assert_eq!(receive(&b, to, 8), (Ok(()), b"last".to_vec()));
    set(&b, to, TIMEOUT, 50).unwrap();
    times_out(50, || receive(&b, to, 8).0);
    // Nor was anything taken.
    send(&a, from, to, b"kept").unwrap();
    assert_eq!(receive(&b, to, 8), (Ok(()), b"kept".to_vec()));
}

/// MC-TMO-1, MC-TMO-3, MC-TMO-4, MC-PKTSEND-1, MC-PKTSEND-3, MC-PKTRECV-1, MC-PKTRECV-4, MC-SCLSEND-1,
/// MC-SCLSEND-4, MC-SCLRECV-1, MC-SCLRECV-4, MC-CHAN-21: the same of both kinds of channels.
#[test]
fn channels_wait_as_long_as_their_endpoints_say() {
    for kind in [PACKETS, SCALARS] {
        for timeout in [0, 50, sys::MCAPI_TIMEOUT_INFINITE as u32] {
            let channel = Channel::with(kind, &[(TIMEOUT, timeout), (3, 64)]);
            let is_finite = timeout != NEVER;
            if is_finite {
                times_out(timeout.into(), || channel.take().map(|_| ()));
            }
            // Until there is no room.
            let mut sent = 0_u32;
            let full = kind.capacity;
            while sent < full {
                channel.put(sent).unwrap();
                sent += 1;
            }
            if is_finite {
                times_out(timeout.into(), || channel.put(sent));
                for n in 0..sent {
                    assert_eq!(channel.take(), Ok(n));
                }
                times_out(timeout.into(), || channel.take().map(|_| ()));
                channel.put(7).unwrap();
                assert_eq!(channel.take(), Ok(7));
                continue;
            }
            thread::scope(|scope| {
                let puts = scope.spawn(|| channel.put(full));
                thread::sleep(Duration::from_millis(60));
                assert!(!puts.is_finished());
                for n in 0..=full {
                    assert_eq!(channel.take(), Ok(n));
                }
                assert_eq!(puts.join().unwrap(), Ok(()));
                let takes = scope.spawn(|| channel.take());
                thread::sleep(Duration::from_millis(60));
                assert!(!takes.is_finished());
                channel.put(full).unwrap();
                assert_eq!(takes.join().unwrap(), Ok(full));
            });
        }
    }
}

/// MC-EPGET-1, MC-EPGET-2, MC-TMO-3: gets, of an endpoint that does not come, and of one that does.
#[test]
fn gets_wait_as_long_as_they_are_told() {
    let [a, b] = pair();
    let get = |timeout| a.with(|state| functions::endpoint_get(state, 1, 2, 9, timeout));
    times_out(0, || get(0).map(|_| ()));
    times_out(50, || get(50).map(|_| ()));
    thread::scope(|scope| {
        let gets = scope.spawn(|| get(NEVER));
        thread::sleep(Duration::from_millis(60));
        assert!(!gets.is_finished());
        let created = create(&b, 9);
        assert_eq!(gets.join().unwrap(), Ok(created));
        assert_eq!(get(0), Ok(created));
    });
}
