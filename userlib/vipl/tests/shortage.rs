// SPDX-License-Identifier: MIT OR Apache-2.0

//! A process that gets no more memory is told so by what it calls, and goes on (VI-GEN-8).

mod common;

use common::{briefly, flushed, nic, Side, TestVi};
use mp_testing::{child, seeded_bridge, Host, World};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::{
    hint::black_box,
    io::Read,
    sync::mpsc,
    time::{Duration, Instant},
};
use vipl::{Descriptor, Error, ErrorCode, Level, Map, State, Status};

/// Most pieces of memory that are taken to leave none.
const PIECES: usize = 1 << 16;

/// Let the process have so many bytes of addresses more than it has, or as many as there are.
fn limit(more: Option<u64>) {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let limit = Rlimit {
        current: more.map(|more| 4096 * pages + more),
        ..getrlimit(Resource::As)
    };
    setrlimit(Resource::As, limit).unwrap();
}

/// Do something while the process gets no memory, and has none that is free in pieces of that size,
/// but for the last so many that were.
fn short<T>(least: usize, left: usize, act: impl FnOnce() -> T) -> T {
    let mut taken: Vec<Vec<u8>> = Vec::with_capacity(PIECES);
    limit(Some(0));
    for size in [1 << 16, 1 << 12, 1 << 10, 16] {
        while size >= least && taken.len() < PIECES {
            let mut piece = Vec::new();
            if piece.try_reserve_exact(size).is_err() {
                break;
            }
            taken.push(piece);
        }
    }
    assert!(black_box(&taken).len() < PIECES);
    taken.truncate(taken.len() - left);
    let done = act();
    drop(taken);
    limit(None);
    done
}

fn one_host() -> Side {
    Side::of(nic(&World::new(1, 1 << 20), &seeded_bridge(), Host::A))
}

/// VI-GEN-8: every function that makes something. What is there stays as it is.
#[test]
fn nothing_is_made_without_memory() {
    let run = || {
        let side = one_host();
        let (vi, idle) = (
            side.vi(Level::ReliableDelivery),
            side.vi(Level::ReliableDelivery),
        );
        side.receive(&vi, 8);
        let cq = side.nic.create_cq(16, 0).unwrap();
        let attributes = side.attributes(Level::ReliableDelivery);
        let memory = side.nic.query_memory(side.at(0), side.handle).unwrap();
        let here = side.address(b"here");
        let refused = short(16, 0, || {
            let Side { nic, map, .. } = &side;
            [
                nic.create_ptag().err(),
                nic.create_cq(1, 0).err(),
                nic.create_vi(&attributes, None, None, 0).err(),
                nic.create_vi(&attributes, Some(&cq), None, 0).err(),
                nic.register(map.memory(), &memory).err(),
                nic.set_error_handler(None).err(),
                nic.connect_wait(&here, briefly()).err(),
                idle.connect_request(&here, &here, briefly()).err(),
                idle.peer_request(&here, &here, briefly()).err(),
                vi.recv_notify(Box::new(|_, _| ())).err(),
                cq.notify(Box::new(|_, _| ())).err(),
            ]
        });
        assert_eq!(refused, [Some(Error::Resource); 11]);
        assert_eq!(idle.query().unwrap().state, State::Idle);
        assert_eq!(vi.recv_done(), Err(Error::NotDone));
        side.nic.create_ptag().unwrap();
        side.nic.create_vi(&attributes, Some(&cq), None, 0).unwrap();
        side.nic.register(side.map.memory(), &memory).unwrap();
        vi.recv_notify(Box::new(|_, _| ())).unwrap();
        0
    };
    // The limit is the process's.
    assert_eq!(child(run), 0);
}

/// VI-GEN-8, VI-MEM-10: making more and more of something ends with an error that says why, and what
/// was made works.
#[test]
fn memory_ends_before_the_process_does() {
    let run = || {
        let side = one_host();
        let attributes = side.attributes(Level::Unreliable);
        let memory = side.nic.query_memory(side.at(0), side.handle).unwrap();
        let page = Map::allocate(4096).unwrap();
        let mut vis = Vec::with_capacity(1024);
        let mut regions = 0;
        let refused = short(1 << 16, 16, || {
            let vi = loop {
                match side.nic.create_vi(&attributes, None, None, 0) {
                    Ok(vi) => vis.push(vi),
                    Err(error) => break error,
                }
            };
            // What one needs makes room for many of the other.
            vis.drain(..vis.len() / 2)
                .for_each(|vi| vi.destroy().unwrap());
            loop {
                match side.nic.register(page.memory(), &memory) {
                    Ok(_) => regions += 1,
                    Err(error) => break (vi, error),
                }
            }
        });
        assert_eq!(refused, (Error::Resource, Error::Resource));
        assert!(
            vis.len() < 960 && regions < 65_535,
            "{} {regions}",
            vis.len()
        );
        vis.iter().for_each(|vi| vi.destroy().unwrap());
        side.nic.create_vi(&attributes, None, None, 0).unwrap();
        side.nic.register(page.memory(), &memory).unwrap();
        0
    };
    assert_eq!(child(run), 0);
}

/// VI-POST-9: a post that leaves no memory for another one is told as one too many, and all come
/// back.
#[test]
fn a_post_without_memory_loses_nothing() {
    let run = || {
        let side = one_host();
        let (tell, told) = mpsc::channel();
        let handler = move |_: &_, event: &vipl::ErrorEvent<_>| {
            let _ = tell.send((event.code, event.descriptor));
        };
        side.nic.set_error_handler(Some(Box::new(handler))).unwrap();
        let vi: TestVi = side.vi(Level::ReliableDelivery);
        let receives: Vec<usize> = (0..64)
            .map(|_| side.descriptor(&Descriptor::new()))
            .collect();
        let posted = short(1 << 10, 0, || {
            let mut posts = receives.iter();
            posts.position(|at| {
                vi.post_recv(*at, side.handle).unwrap();
                vi.query().unwrap().state == State::Error
            })
        });
        let posted = posted.unwrap() + 1;
        let end = Instant::now() + Duration::from_secs(30);
        assert_eq!(
            told.recv_timeout(end - Instant::now()),
            Ok((ErrorCode::ViOverrun, Some(receives[posted - 1])))
        );
        for at in &receives[..posted] {
            assert_eq!(vi.recv_done(), Ok(flushed(*at, Status::OP_RECEIVE)));
        }
        assert_eq!(vi.recv_done(), Err(Error::Descriptor));
        0
    };
    assert_eq!(child(run), 0);
}

/// VI-ERR-2: an error is a line on standard error, also if there can be no thread that tells of it.
#[test]
fn errors_are_told_without_a_thread() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let run = || {
        let side = one_host();
        let vi: TestVi = side.vi(Level::Unreliable);
        rustix::stdio::dup2_stderr(&writer).unwrap();
        short(1 << 16, 0, || vi.post_send(3, side.handle)).unwrap();
        u8::from(vi.query().unwrap().state == State::Error)
    };
    assert_eq!(child(run), 1);
    drop(writer);
    let mut told = String::new();
    reader.read_to_string(&mut told).unwrap();
    assert!(told.contains("PostDesc of a Descriptor"), "{told:?}");
}
