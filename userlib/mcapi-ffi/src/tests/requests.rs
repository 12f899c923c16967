// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests.

use super::*;
use std::{hint::spin_loop, sync::Barrier, thread, time::Duration};

fn wait_any(program: &Program, requests: &[u32], timeout: u32) -> (u32, Option<u32>, usize) {
    let mut size = 77;
    let answer = program.with(|state| {
        let size = out(&mut size);
        functions::wait_any(state, input(requests), size, timeout)
    });
    let answer: Answer<crate::answer::Number> = answer.into();
    (answer.status, answer.value.map(|number| number.0), size)
}

fn cancel(program: &Program, request: u32) -> Result<()> {
    program.with(|state| functions::cancel(state, given(&request)))
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
        thread::sleep(Duration::from_millis(30));
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
