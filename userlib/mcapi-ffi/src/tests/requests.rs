// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests.

use super::*;
use std::{
    hint::spin_loop,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

fn wait_any(program: &Program, requests: &[u32], timeout: u32) -> (u32, Option<u32>, usize) {
    let mut size = 77;
    let answer = program.with(|state| {
        let size = out(&mut size);
        functions::wait_any(state, input(requests), size, timeout)
    });
    let answer: Answer<crate::answer::Number> = answer.into();
    (answer.status, answer.value.map(|number| number.0), size)
}

/// Return when a thread waits for a request. What is asked for here is never waited for: the other one of
/// the two is no request.
fn until_waited_for(program: &Program, request: u32) {
    let probe = [request, 0].map(mcapi::Request::from_raw);
    let asked = || program.with(|state| state.node.wait_any(&probe, mcapi::Deadline::NEVER));
    let begun = Instant::now();
    while !matches!(asked(), Err(Error::WaitPending)) {
        assert!(begun.elapsed() < Duration::from_millis(SOON.into()));
        thread::yield_now();
    }
}

/// A node with an endpoint, and receives that are posted there.
fn posted<const N: usize>(bytes: &mut [[u8; 8]; N]) -> (Program, u64, [u32; N]) {
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 5);
    let requests = bytes.each_mut().map(|bytes| {
        let place = room(bytes);
        let begun = begin(&program, |state| {
            functions::msg_recv_i(state, endpoint, place)
        });
        begun.unwrap().0
    });
    (program, endpoint, requests)
}

/// MC-WAITANY-1 to MC-WAITANY-4, MC-WAITANY-7, MC-REQ-2, MC-REQ-3
#[test]
fn waiting_for_any_releases_one() {
    let mut bytes = [[0; 8]; 3];
    let (program, endpoint, requests) = posted(&mut bytes);
    let invalid = (sys::MCAPI_TIMEOUT, None, 77);
    assert_eq!(wait_any(&program, &requests, 0), invalid);
    assert_eq!(wait_any(&program, &requests, 20), invalid);
    for data in [&b"first"[..], b"second"] {
        send(&program, endpoint, endpoint, data).unwrap();
    }
    let done = sys::MCAPI_SUCCESS;
    assert_eq!(wait_any(&program, &requests, SOON), (done, Some(0), 5));
    assert_eq!(
        test(&program, requests[0]).status,
        sys::MCAPI_ERR_REQUEST_INVALID
    );
    let rest = &requests[1..];
    assert_eq!(wait_any(&program, rest, SOON), (done, Some(0), 6));
    assert_eq!(test(&program, requests[2]), Answer::PENDING);
    assert_eq!(&bytes[..2], b"first\0\0\0second\0\0".as_chunks().0);
}

/// MC-WAITANY-6, A-7: of one that failed, the index is told, and it is released.
#[test]
fn waiting_for_any_tells_which_has_failed() {
    let mut bytes = [[0; 8]; 2];
    let (program, endpoint, requests) = posted(&mut bytes);
    let long = [1; 9];
    let mut other = 0;
    let to = out(&mut other);
    let (get, _) = begin(&program, |state| {
        functions::endpoint_get_i(state, 0, 1, 99, to)
    })
    .unwrap();
    send(&program, endpoint, endpoint, &long).unwrap();
    let all = [get, requests[0], requests[1]];
    let truncated = sys::MCAPI_ERR_MSG_TRUNCATED;
    assert_eq!(wait_any(&program, &all, SOON), (truncated, Some(1), 8));
    assert_eq!(bytes[0], [1; 8]);
    assert_eq!(cancel(&program, all[1]), Err(Error::RequestInvalid));
}

/// MC-WAITANY-8, MC-TEST-4, MC-TEST-5, MC-WAIT-7: what cannot be waited for; nothing is released.
#[test]
fn waits_that_make_no_sense_are_refused() {
    let mut bytes = [[0; 8]; 2];
    let (program, _, requests) = posted(&mut bytes);
    let parameter = (sys::MCAPI_ERR_PARAMETER, None, 77);
    let [one, other] = requests;
    assert_eq!(wait_any(&program, &[], SOON), parameter);
    assert_eq!(wait_any(&program, &[one, other, one], SOON), parameter);
    assert_eq!(wait_any(&program, &[one; 4097], SOON), parameter);
    let unknown = (sys::MCAPI_ERR_REQUEST_INVALID, None, 77);
    for none in [0, !one, UNTOUCHED] {
        assert_eq!(wait_any(&program, &[one, none], SOON), unknown);
    }
    let mut size = 77;
    program
        .with(|state| {
            let (size, none) = (out(&mut size), Out::NULL);
            // SAFETY: NULL.
            let nothing = unsafe { Input::new(ptr::null(), 2) };
            let refused = Err(Error::Parameter);
            assert_eq!(functions::wait_any(state, nothing, size, SOON), refused);
            assert_eq!(
                functions::wait_any(state, input(&requests), none, SOON),
                refused
            );
            assert_eq!(
                functions::wait(state, In::NULL, size, SOON),
                Err(Error::Parameter)
            );
            assert_eq!(
                functions::wait(state, given(&one), none, SOON),
                Err(Error::Parameter)
            );
            assert_eq!(
                functions::test(state, In::NULL, size),
                Err(Error::Parameter)
            );
            assert_eq!(
                functions::test(state, given(&one), none),
                Err(Error::Parameter)
            );
            assert_eq!(functions::cancel(state, In::NULL), Err(Error::Parameter));
            Ok(())
        })
        .unwrap();
    assert_eq!(size, 77);
    for request in requests {
        assert_eq!(test(&program, request), Answer::PENDING);
    }
}

/// MC-CANCEL-1 to MC-CANCEL-5, MC-WAIT-5, MC-WAIT-6, MC-WAITANY-5: the memory is the program's when
/// it returns, no message is lost, and those who wait are told.
#[test]
fn cancelling_gives_the_memory_back() {
    let mut bytes = [[0x5A; 8]; 2];
    let (program, endpoint, requests) = posted(&mut bytes);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait_any(&program, &requests, SOON));
        until_waited_for(&program, requests[0]);
        assert_eq!(wait(&program, requests[0]), Err(Error::WaitPending));
        assert_eq!(cancel(&program, requests[0]), Ok(()));
        let cancelled = (sys::MCAPI_ERR_REQUEST_CANCELLED, None, 77);
        assert_eq!(waiting.join().unwrap(), cancelled);
    });
    assert_eq!(cancel(&program, requests[0]), Err(Error::RequestInvalid));
    assert_eq!(cancel(&program, requests[1]), Ok(()));
    send(&program, endpoint, endpoint, b"kept").unwrap();
    assert_eq!(receive(&program, endpoint, 8), (Ok(()), b"kept".to_vec()));
    assert_eq!(bytes, [[0x5A; 8]; 2]);
}

/// MC-CANCEL-4: what was done stands, and is where it should be, whether somebody has asked or not.
#[test]
fn cancelling_what_is_complete_keeps_its_result() {
    let mut bytes = [[0; 8]; 3];
    let (program, endpoint, requests) = posted(&mut bytes);
    for data in [&b"one"[..], b"two", b"three"] {
        send(&program, endpoint, endpoint, data).unwrap();
    }
    // They are complete in the order of the calls.
    assert_eq!(wait(&program, requests[2]), Ok(5));
    assert_eq!(test(&program, requests[1]), Answer::success(1));
    for request in &requests[..2] {
        assert_eq!(cancel(&program, *request), Ok(()));
        assert_eq!(cancel(&program, *request), Err(Error::RequestInvalid));
    }
    assert_eq!(bytes.map(|bytes| bytes[2]), [b'e', b'o', b'r']);
}

/// MC-CANCEL-4: a message that arrives while its receive is cancelled is in the memory, or received
/// by the next one.
#[test]
fn cancelling_loses_nothing_that_arrives_meanwhile() {
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 5);
    for round in 0..2000 {
        let mut bytes = [0; 4];
        let place = room(&mut bytes);
        let (request, _) = begin(&program, |state| {
            functions::msg_recv_i(state, endpoint, place)
        })
        .unwrap();
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                send(&program, endpoint, endpoint, b"data").unwrap();
            });
            start.wait();
            for _ in 0..round % 64 {
                spin_loop();
            }
            assert_eq!(cancel(&program, request), Ok(()));
        });
        if bytes != *b"data" {
            assert_eq!((bytes, available(&program, endpoint)), ([0; 4], 1));
            assert_eq!(receive(&program, endpoint, 4), (Ok(()), b"data".to_vec()));
        }
    }
}

/// MC-GEN-6, MC-REQ-2: nothing is left of a request that has failed at once, or was released.
#[test]
fn requests_leave_nothing_behind() {
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 5);
    let mut bytes = [0; 4];
    for _ in 0..mcapi::REQUESTS_MAX + 1 {
        send(&program, endpoint, endpoint, b"too long").unwrap();
        let place = room(&mut bytes);
        let begun = begin(&program, |state| {
            functions::msg_recv_i(state, endpoint, place)
        });
        assert_eq!(begun, Err(sys::MCAPI_ERR_MSG_TRUNCATED));
    }
    let post = || {
        let nowhere = no_room(0);
        begin(&program, |state| {
            functions::msg_recv_i(state, endpoint, nowhere)
        })
        .unwrap()
        .0
    };
    let [waited, cancelled] = [post(), post()];
    assert_eq!(program.with(|state| Ok(state.operations.count())), Ok(2));
    send(&program, endpoint, endpoint, b"").unwrap();
    assert_eq!(wait(&program, waited), Ok(0));
    assert_eq!(cancel(&program, cancelled), Ok(()));
    assert_eq!(program.with(|state| Ok(state.operations.count())), Ok(0));
}

/// MC-GEN-8, MC-GEN-7: of many threads that ask, all learn of the message when it is there, and one
/// writes it.
#[test]
fn threads_that_ask_find_the_result_written() {
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 5);
    for round in 0..50_u8 {
        let mut bytes = [0; 4096];
        let place = room(&mut bytes);
        let start = bytes.as_ptr().expose_provenance();
        let (request, _) = begin(&program, |state| {
            functions::msg_recv_i(state, endpoint, place)
        })
        .unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while test(&program, request) == Answer::PENDING {}
                    let last = ptr::with_exposed_provenance::<u8>(start + 4095);
                    // SAFETY: The bytes outlive the threads, and are written no more.
                    assert_eq!(unsafe { last.read() }, round + 1);
                });
            }
            send(&program, endpoint, endpoint, &[round + 1; 4096]).unwrap();
        });
        assert_eq!(wait(&program, request), Ok(4096));
    }
}

/// MC-REQ-1, MC-REQ-4: a request is its node's.
#[test]
fn requests_are_their_nodes_own() {
    let [a, b] = pair();
    let endpoint = create(&a, 1);
    let request = post(&a, endpoint, &mut []);
    assert_eq!(wait(&b, request), Err(Error::RequestInvalid));
    assert_eq!(cancel(&b, request), Err(Error::RequestInvalid));
    let invalid = sys::MCAPI_ERR_REQUEST_INVALID;
    assert_eq!(test(&b, request).status, invalid);
    assert_eq!(wait_any(&b, &[request], SOON), (invalid, None, 77));
    assert_eq!(test(&a, request), Answer::PENDING);
}

/// MC-REQ-2, MC-REQ-10, MC-CANCEL-3: there are so many requests; asking what has become of one makes
/// no room, and waiting and cancelling do. What has no request is not begun.
#[test]
fn requests_run_out_and_come_back() {
    let program = node(&world(), Host::A, 1);
    let (from, to) = (create(&program, 1), create(&program, 2));
    let all: Vec<_> = (0..mcapi::REQUESTS_MAX)
        .map(|_| post(&program, from, &mut []))
        .collect();
    let is_full = || {
        let refused = Err(sys::MCAPI_ERR_REQUEST_LIMIT);
        assert_eq!(send_i(&program, from, to, b"too many"), refused);
        assert_eq!(available(&program, to), 0);
    };
    is_full();
    // What has ended keeps its request until somebody has waited for it.
    for _ in 0..3 {
        send(&program, to, from, b"").unwrap();
    }
    assert_eq!(test(&program, all[0]), Answer::success(1));
    is_full();
    let waits: [&dyn Fn(); 3] = [
        &|| assert_eq!(wait(&program, all[0]), Ok(0)),
        &|| {
            let (status, index, _) = wait_any(&program, &[all[9], all[1]], SOON);
            assert_eq!((status, index), (sys::MCAPI_SUCCESS, Some(1)));
        },
        &|| assert_eq!(cancel(&program, all[2]), Ok(())),
    ];
    for release in waits {
        release();
        post(&program, from, &mut []);
        is_full();
    }
}

/// MC-REQ-3, MC-WAIT-3, MC-WAIT-4: waits that time out leave the request as it was; one that is
/// complete needs no time.
#[test]
fn waits_that_time_out_leave_the_request() {
    let mut bytes = [[0; 8]];
    let (program, endpoint, [request]) = posted(&mut bytes);
    for timeout in [0, 0, 30] {
        let mut size = 77;
        let waited = program.with(|state| {
            let size = out(&mut size);
            functions::wait(state, given(&request), size, timeout)
        });
        assert_eq!((waited, size), (Err(Error::Timeout), 77));
        assert_eq!(test(&program, request), Answer::PENDING);
    }
    send(&program, endpoint, endpoint, b"done").unwrap();
    let mut size = 77;
    let waited = program.with(|state| {
        let size = out(&mut size);
        functions::wait(state, given(&request), size, 0)
    });
    assert_eq!((waited, size), (Ok(1), 4));
    assert_eq!(&bytes[0][..4], b"done");
}

/// MC-WAIT-1, MC-WAIT-3: a wait without an end lasts until the operation is complete.
#[test]
fn a_wait_without_an_end_lasts_until_the_end() {
    let mut bytes = [[0; 8]];
    let (program, endpoint, [request]) = posted(&mut bytes);
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut size = 0;
            let waited = program.with(|state| {
                let size = out(&mut size);
                functions::wait(state, given(&request), size, NEVER)
            });
            (waited, size)
        });
        thread::sleep(Duration::from_millis(60));
        assert!(!waits.is_finished());
        send(&program, endpoint, endpoint, b"end").unwrap();
        assert_eq!(waits.join().unwrap(), (Ok(1), 3));
    });
}

/// MC-REQ-5, MC-WAIT-6, MC-TEST-6: the second thread that waits is told so, by either call; asking is
/// no wait; and the first one gets what it waits for.
#[test]
fn one_thread_waits_for_a_request() {
    let mut bytes = [[0; 8]; 2];
    let (program, endpoint, requests) = posted(&mut bytes);
    thread::scope(|scope| {
        let first = scope.spawn(|| wait_any(&program, &requests, SOON));
        let pending = sys::MCAPI_ERR_WAIT_PENDING;
        until_waited_for(&program, requests[0]);
        assert_eq!(wait(&program, requests[1]), Err(Error::WaitPending));
        let other = create(&program, 6);
        let free = post(&program, other, &mut []);
        let both = [free, requests[0]];
        assert_eq!(wait_any(&program, &both, SOON), (pending, None, 77));
        // Nobody waits for the other one meanwhile.
        let timeout = (sys::MCAPI_TIMEOUT, None, 77);
        assert_eq!(wait_any(&program, &[free], 0), timeout);
        assert_eq!(test(&program, requests[0]), Answer::PENDING);
        send(&program, endpoint, endpoint, b"first").unwrap();
        let done = (sys::MCAPI_SUCCESS, Some(0), 5);
        assert_eq!(first.join().unwrap(), done);
    });
}

/// MC-REQ-6, MC-TEST-1, MC-TEST-2: asking and waiting take nothing out of a queue; the answer stays.
#[test]
fn asking_takes_nothing() {
    let mut bytes = [[0; 8]; 2];
    let (program, endpoint, requests) = posted(&mut bytes);
    for data in [&b"one"[..], b"two", b"three", b"four"] {
        send(&program, endpoint, endpoint, data).unwrap();
    }
    assert_eq!(available(&program, endpoint), 2);
    for _ in 0..1000 {
        assert_eq!(test(&program, requests[0]), Answer::success(1));
    }
    assert_eq!(wait(&program, requests[0]), Ok(3));
    let done = sys::MCAPI_SUCCESS;
    assert_eq!(wait_any(&program, &requests[1..], SOON), (done, Some(0), 3));
    assert_eq!(available(&program, endpoint), 2);
}

/// MC-REQ-8: an operation that has failed says so as often as it is asked, and its request is released
/// by the wait.
#[test]
fn a_failed_operation_is_told_until_it_is_waited_for() {
    let mut bytes = [0; 3];
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 5);
    let request = post(&program, endpoint, &mut bytes);
    send(&program, endpoint, endpoint, b"too long").unwrap();
    for _ in 0..2 {
        let answer = test(&program, request);
        assert_eq!(answer, Answer::from(Error::MessageTruncated));
    }
    let mut size = 77;
    let waited = program.with(|state| {
        let size = out(&mut size);
        functions::wait(state, given(&request), size, SOON)
    });
    assert_eq!((waited, size), (Err(Error::MessageTruncated), 3));
    assert_eq!(&bytes, b"too");
    assert_eq!(wait(&program, request), Err(Error::RequestInvalid));
    assert_eq!(program.with(|state| Ok(state.operations.count())), Ok(0));
}

/// MC-REQ-9: a request that was released is none of those that take its place.
#[test]
fn released_requests_are_none_of_the_next_ones() {
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 5);
    let first = post(&program, endpoint, &mut []);
    cancel(&program, first).unwrap();
    // More than there are places before one is used again.
    for _ in 0..3000 {
        let request = post(&program, endpoint, &mut []);
        assert_ne!(request, first);
        assert_eq!(cancel(&program, first), Err(Error::RequestInvalid));
        assert_eq!(test(&program, request), Answer::PENDING);
        cancel(&program, request).unwrap();
    }
}

/// MC-REQ-12, MC-MSGRECVI-4: receives take messages in the order of the calls, whatever the priorities
/// are; one that was cancelled takes none.
#[test]
fn receives_are_complete_in_the_order_of_the_calls() {
    let mut bytes = [[0; 8]; 10];
    let (program, endpoint, requests) = posted(&mut bytes);
    cancel(&program, requests[4]).unwrap();
    for n in 0..9_u8 {
        send_at(&program, endpoint, endpoint, &[n], u32::from(7 - n % 8)).unwrap();
    }
    let waited = requests.iter().enumerate().filter(|(n, _)| *n != 4);
    for (_, request) in waited {
        assert_eq!(wait(&program, *request), Ok(1));
    }
    assert_eq!(bytes.map(|bytes| bytes[0]), [0, 1, 2, 3, 0, 4, 5, 6, 7, 8]);
}

/// MC-WAITANY-1, MC-WAITANY-2, MC-WAITANY-7, MC-WAITANY-8: any of all requests that there can be; of
/// several that are complete the first one, and each once.
#[test]
fn any_of_all_requests_is_waited_for() {
    let program = node(&world(), Host::A, 1);
    let ends: Vec<_> = (0..200).map(|port| create(&program, port)).collect();
    let others = mcapi::REQUESTS_MAX - ends.len();
    let mut requests: Vec<_> = ends
        .iter()
        .map(|end| post(&program, *end, &mut []))
        .collect();
    requests.extend((0..others).map(|_| post(&program, ends[0], &mut [])));
    let done = sys::MCAPI_SUCCESS;
    for index in [199, 3, 100] {
        send(&program, ends[0], ends[index], b"").unwrap();
    }
    for expected in [3, 99, 197] {
        let (status, index, _) = wait_any(&program, &requests, SOON);
        assert_eq!((status, index), (done, Some(expected)));
        requests.remove(expected as usize);
    }
    let (status, ..) = wait_any(&program, &requests, 0);
    assert_eq!(status, sys::MCAPI_TIMEOUT);
    for request in requests {
        cancel(&program, request).unwrap();
    }
}

/// MC-WAITANY-5, MC-CANCEL-2: of requests that a thread waits for, one is cancelled; a thread that
/// waits for one alone likewise.
#[test]
fn cancelling_wakes_those_who_wait() {
    let mut bytes = [[0; 8]; 3];
    let (program, _, requests) = posted(&mut bytes);
    thread::scope(|scope| {
        let any = scope.spawn(|| wait_any(&program, &requests[..2], NEVER));
        let one = scope.spawn(|| wait(&program, requests[2]));
        until_waited_for(&program, requests[1]);
        until_waited_for(&program, requests[2]);
        cancel(&program, requests[1]).unwrap();
        cancel(&program, requests[2]).unwrap();
        let cancelled = (sys::MCAPI_ERR_REQUEST_CANCELLED, None, 77);
        assert_eq!(any.join().unwrap(), cancelled);
        assert_eq!(one.join().unwrap(), Err(Error::RequestCancelled));
    });
    // The others of those that were waited for are as they were.
    assert_eq!(test(&program, requests[0]), Answer::PENDING);
}
