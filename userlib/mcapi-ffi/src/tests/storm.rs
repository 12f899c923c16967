// SPDX-License-Identifier: MIT OR Apache-2.0

//! Many threads in the functions at once (MC-GEN-8).

use super::{
    channels::{opened, read, PACKETS, SCALARS},
    *,
};
use std::{
    ffi::c_void,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

const TIMEOUT: u32 = sys::MCAPI_ENDP_ATTR_TIMEOUT;
const ANY: u32 = sys::MCAPI_PORT_ANY as u32;
/// What all threads send, so that they ask for the same memory.
static DATA: [u8; 8] = *b"the same";

/// What one of two nodes has in the storm. All threads use it.
struct Side<'a> {
    program: &'a Program,
    number: u32,
    own: u64,
    there: u64,
    /// Handles of channels to the other node and from it: of packets and of scalars.
    out: [u32; 2],
    into: [u32; 2],
}

/// A call of the storm; the number of the round chooses what it is made with.
type Call = fn(&Side<'_>, u32) -> Result<()>;

/// A request that has begun is released in one of the ways that there are: waited for, looked at and
/// cancelled, or cancelled.
fn end(side: &Side<'_>, begun: std::result::Result<(u32, bool), u32>, way: u32) -> Result<()> {
    let (request, _) = begun.map_err(|status| Error::of(status).unwrap())?;
    let mut size = 0;
    let ended = match way % 3 {
        0 => side.program.with(|state| {
            let size = out(&mut size);
            functions::wait(state, given(&request), size, 2).map(drop)
        }),
        1 => {
            let _ = test(side.program, request);
            Err(Error::Timeout)
        }
        _ => Err(Error::Timeout),
    };
    match ended {
        Err(Error::Timeout) => cancel(side.program, request),
        other => other,
    }
}

/// Look at a packet's buffer, as whoever has it may, and give it back.
fn take(side: &Side<'_>, buffer: *const c_void) -> Result<()> {
    assert_eq!(read(buffer, DATA.len()), DATA);
    let held = side
        .program
        .with(|state| functions::pktchan_release_test(state, buffer));
    let held: Answer<u8> = held.into();
    assert_eq!(held, Answer::PENDING);
    side.program
        .with(|state| functions::pktchan_release(state, buffer))
}

const CALLS: [(&str, Call); 18] = [
    ("create, set, delete", |side, _| {
        let endpoint = side
            .program
            .with(|state| functions::endpoint_create(state, ANY))?;
        set(side.program, endpoint, TIMEOUT, 7)?;
        assert_eq!(get_attribute(side.program, endpoint, TIMEOUT), Ok(7));
        side.program
            .with(|state| functions::endpoint_delete(state, endpoint))
    }),
    ("get", |side, _| {
        let domain = side.number - 1;
        side.program
            .with(|state| functions::endpoint_get(state, domain, side.number, 1, SOON))
            .map(|endpoint| assert_eq!(endpoint, side.own))
    }),
    ("get_i", |side, round| {
        let mut endpoint = 0;
        let place = out(&mut endpoint);
        let (domain, number) = (2 - side.number, 3 - side.number);
        let begun = begin(side.program, |state| {
            functions::endpoint_get_i(state, domain, number, 1, place)
        });
        end(side, begun, round)
    }),
    ("ask", |side, _| {
        get_attribute(side.program, side.there, TIMEOUT).map(drop)
    }),
    ("send message", |side, round| {
        send_at(side.program, side.own, side.there, &DATA, round % 8)
    }),
    ("send message_i", |side, round| {
        end(
            side,
            send_i(side.program, side.own, side.there, &DATA),
            round,
        )
    }),
    ("receive message", |side, _| {
        receive(side.program, side.own, 8).0
    }),
    ("receive message_i", |side, round| {
        let mut bytes = [0; 8];
        let place = room(&mut bytes);
        let begun = begin(side.program, |state| {
            functions::msg_recv_i(state, side.own, place)
        });
        end(side, begun, round)?;
        assert!(bytes == DATA || bytes == [0; 8]);
        Ok(())
    }),
    ("messages available", |side, _| {
        available(side.program, side.own);
        Ok(())
    }),
    ("wait for any", |side, _| {
        let mut bytes = [[0; 8]; 2];
        let requests = bytes
            .each_mut()
            .map(|bytes| post(side.program, side.own, bytes));
        let mut size = 0;
        let answer = side.program.with(|state| {
            let size = out(&mut size);
            functions::wait_any(state, input(&requests), size, 2)
        });
        let over = answer
            .as_ref()
            .ok()
            .and_then(|answer| answer.value.as_ref());
        let over = over.map(|index| requests[index.0 as usize]);
        for request in requests
            .into_iter()
            .filter(|request| Some(*request) != over)
        {
            cancel(side.program, request)?;
        }
        answer.map(drop)
    }),
    ("send packet", |side, _| {
        side.program
            .with(|state| functions::pktchan_send(state, side.out[0], input(&DATA)))
    }),
    ("send packet_i", |side, round| {
        let begun = begin(side.program, |state| {
            functions::pktchan_send_i(state, side.out[0], input(&DATA))
        });
        end(side, begun, round)
    }),
    ("memory of packets", |side, _| {
        let at = DATA.as_ptr().cast();
        // Of others that may be on their way, or of none yet.
        side.program
            .with(|state| functions::pktchan_release_test(state, at))
            .map(drop)
    }),
    ("receive packet", |side, _| {
        let (mut buffer, mut size) = (ptr::null_mut(), 0);
        let (to, len) = (out(&mut buffer), out(&mut size));
        side.program
            .with(|state| functions::pktchan_recv(state, side.into[0], to, len))?;
        take(side, buffer)
    }),
    ("receive packet_i", |side, round| {
        let mut buffer: *mut c_void = ptr::null_mut();
        let to = out(&mut buffer);
        let begun = begin(side.program, |state| {
            functions::pktchan_recv_i(state, side.into[0], to)
        });
        end(side, begun, round)?;
        match buffer.is_null() {
            true => Ok(()),
            false => take(side, buffer),
        }
    }),
    ("send scalar", |side, round| {
        side.program
            .with(|state| functions::sclchan_send(state, side.out[1], round))
    }),
    ("receive scalar", |side, _| {
        side.program.with(|state| {
            functions::pktchan_available(state, side.into[0])?;
            functions::sclchan_available(state, side.into[1])?;
            functions::sclchan_recv::<_, u32>(state, side.into[1]).map(drop)
        })
    }),
    ("open, use and close", |side, round| {
        let kind = if round % 2 == 0 { PACKETS } else { SCALARS };
        let both = [side.program; 2];
        let (ends, handles) = opened(kind, both, [ANY; 2], &[]);
        let closes = [0, 1].map(|end| {
            let close = kind.close[end];
            begin(side.program, |state| close(state, handles[end]))
                .unwrap()
                .0
        });
        for close in closes {
            wait_for(side.program, close)?;
        }
        for end in ends {
            side.program
                .with(|state| functions::endpoint_delete(state, end))?;
        }
        Ok(())
    }),
];

/// MC-GEN-8, MC-REQ-1: all kinds of functions of two nodes at once, by several threads each, that use the same
/// endpoints and handles; each succeeds as well, and no operation is left.
#[test]
fn threads_call_all_functions_at_once() {
    let [a, b] = pair();
    let own = [create(&a, 1), create(&b, 1)];
    for (program, endpoint) in [(&a, own[0]), (&b, own[1])] {
        set(program, endpoint, TIMEOUT, 5).unwrap();
    }
    let quick = [(TIMEOUT, 5), (sys::MCAPI_ENDP_ATTR_MAX_PAYLOAD_SIZE, 64)];
    let handles = [[&a, &b], [&b, &a]]
        .map(|both| [PACKETS, SCALARS].map(|kind| opened(kind, both, [ANY; 2], &quick).1));
    let sides = [(0, &a), (1, &b)].map(|(at, program)| Side {
        program,
        number: at as u32 + 1,
        own: own[at],
        there: own[1 - at],
        out: handles[at].map(|[send, _]| send),
        into: handles[1 - at].map(|[_, receive]| receive),
    });
    let done = CALLS.map(|_| AtomicU32::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (done, stop) = (&done, &stop);
        for (side, first) in sides
            .iter()
            .flat_map(|side| [0, 5, 11].map(|first| (side, first)))
        {
            scope.spawn(move || {
                let mut round: u32 = first;
                while !stop.load(Ordering::Relaxed) {
                    let number = round as usize % CALLS.len();
                    let (name, call) = CALLS[number];
                    match call(side, round / CALLS.len() as u32) {
                        Ok(()) => {
                            done[number].fetch_add(1, Ordering::Relaxed);
                        }
                        Err(Error::Timeout | Error::MemoryLimit | Error::BufferInvalid) => {}
                        Err(error) => panic!("{name}: {error:?}"),
                    }
                    round = round.wrapping_add(1);
                }
            });
        }
        for round in 0..200 {
            thread::sleep(Duration::from_millis(100));
            let mut counts = done.iter().map(|count| count.load(Ordering::Relaxed));
            if round > 15 && counts.all(|count| count > 0) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    for ((name, _), count) in CALLS.iter().zip(done) {
        assert!(count.into_inner() > 0, "{name}");
    }
    for program in [&a, &b] {
        assert_eq!(program.with(|state| Ok(state.operations.count())), Ok(0));
    }
}
