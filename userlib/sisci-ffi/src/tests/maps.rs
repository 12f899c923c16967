// SPDX-License-Identifier: MIT OR Apache-2.0

//! Maps, sequences and copies.

use super::*;
use crate::functions::{
    cache_sync, check_sequence, create_map_sequence, map_pointer, mem_cpy, mem_write,
    remove_sequence, start_sequence, store_barrier, unmap_segment,
};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use sys::*;

/// A segment of A, B's connection to it, and maps of both: handle and address.
struct Shared {
    world: World,
    a: Arc<Program>,
    b: Arc<Program>,
    segment: Handle,
    remote: Handle,
    own: usize,
    map: Handle,
    address: usize,
}

fn shared(size: usize) -> Shared {
    let (world, a, b) = pair();
    let segment = offered(&a, 7, size);
    let (_, own) = map_local(&a, segment, part(0, size), 0).unwrap();
    let remote = connect(&b, A, 7).unwrap();
    let (map, address) = map_remote(&b, remote, part(0, size), 0).unwrap();
    Shared {
        world,
        a,
        b,
        segment,
        remote,
        own,
        map,
        address,
    }
}

/// SI-MAPL-1, SI-MAPR-1, SI-MAPPTR-1
#[test]
fn both_sides_see_the_same_bytes() {
    let s = shared(8192);
    write(s.address + 8191, 5);
    assert_eq!(read(s.own + 8191), 5);
    write(s.own, 6);
    assert_eq!(read(s.address), 6);
    assert_eq!(map_pointer(&s.b, s.map), Ok(s.address));
    assert_eq!(map_pointer(&s.b, NONE), Err(Error::IllegalParameter));
}

/// SI-MAPL-2, SI-MAPL-5, SI-MAPR-2, SI-MAPR-7: ranges are exact to the byte.
#[test]
fn a_map_is_any_part_of_a_segment() {
    let s = shared(5001);
    let kinds: [&dyn Fn(Part) -> Result<(Handle, usize)>; 2] =
        [&|part| map_local(&s.a, s.segment, part, 0), &|part| {
            map_remote(&s.b, s.remote, part, 0)
        }];
    write(s.own + 100, 11);
    write(s.own + 5000, 12);
    for map in kinds {
        let (_, address) = map(part(100, 4901)).unwrap();
        assert_eq!((read(address), read(address + 4900)), (11, 12));
        assert_eq!(address % 4096, 100);
        assert_eq!(map(part(100, 4902)), Err(Error::OutOfRange));
        assert_eq!(map(part(0, 5002)), Err(Error::OutOfRange));
        assert_eq!(map(part(5001, 1)), Err(Error::OutOfRange));
        assert_eq!(map(part(1, usize::MAX)), Err(Error::OutOfRange));
        assert_eq!(map(part(usize::MAX, 2)), Err(Error::OutOfRange));
        assert_eq!(map(part(0, 0)), Err(Error::SizeAlignment));
    }
}

/// SI-MAPL-6
#[test]
fn maps_of_a_segment_are_of_the_same_memory() {
    let (_world, a, _b) = pair();
    let segment = create(&a, open(&a), 7, 4096, 0).unwrap();
    let (_, first) = map_local(&a, segment, part(0, 4096), 0).unwrap();
    let (_, second) = map_local(&a, segment, part(10, 10), 0).unwrap();
    write(first + 10, 1);
    assert_eq!(read(second), 1);
}

/// SI-MAPL-4, SI-MAPR-4: an address that is taken is not taken away.
#[test]
fn an_address_is_tried_first() {
    let s = shared(8192);
    let fixed = SCI_FLAG_FIXED_MAP_ADDR;
    let at = |address| Part {
        offset: 0,
        size: 4096,
        address,
    };
    let (free, address) = map_local(&s.a, s.segment, at(0), 0).unwrap();
    unmap_segment(&s.a, free, 0).unwrap();
    let (_, again) = map_local(&s.a, s.segment, at(address), fixed).unwrap();
    assert_eq!(again, address);
    write(again, 77);
    let (_, other) = map_remote(&s.b, s.remote, at(address), fixed).unwrap();
    assert_ne!(other, address);
    assert_eq!(read(again), 77);
    let odd = map_local(&s.a, s.segment, at(address + 1), fixed);
    assert_eq!(odd, Err(Error::OffsetAlignment));
}

/// How the memory at an address may be used, as the system tells.
fn protection(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split(' ').next().unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address)
    });
    line.map_or(String::new(), |line| line.split(' ').nth(1).unwrap().into())
}

/// SI-MAPL-3, SI-MAPR-4, SI-MEMCPY-6, SI-UNMAP-1
#[test]
fn a_read_only_map_takes_no_stores() {
    let s = shared(4096);
    let (local, here) = map_local(&s.a, s.segment, part(0, 4096), SCI_FLAG_READONLY_MAP).unwrap();
    let (map, there) = map_remote(&s.b, s.remote, part(0, 4096), SCI_FLAG_READONLY_MAP).unwrap();
    assert_eq!(protection(here), "r--s");
    assert_eq!(protection(there), "r--s");
    assert_eq!(protection(s.address), "rw-s");
    let mut data = [1; 8];
    let copied = mem_cpy(&s.b, NONE, bytes(&mut data), map, 0, 0);
    assert_eq!(copied, Err(Error::IllegalOperation));
    let block_read = SCI_FLAG_BLOCK_READ;
    assert_eq!(
        mem_cpy(&s.b, NONE, bytes(&mut data), map, 0, block_read),
        Ok(())
    );
    assert_eq!(data, [0; 8]);
    unmap_segment(&s.a, local, 0).unwrap();
    assert_eq!(protection(here), "");
}

/// SI-MAPR-5, SI-MAPR-6, SI-GEN-3
#[test]
fn flags_of_remote_maps_are_accepted_or_refused() {
    let s = shared(4096);
    let with = |flags| map_remote(&s.b, s.remote, part(0, 4096), flags).map(|_| ());
    assert_eq!(with(SCI_FLAG_SHARED_MAP), Ok(()));
    assert_eq!(with(SCI_FLAG_SHARED_MAP), Ok(()));
    assert_eq!(
        with(SCI_FLAG_IO_MAP_IOSPACE),
        Err(Error::FlagNotImplemented)
    );
}

/// SI-UNMAP-2, SI-UNMAP-3, SI-RMSEQ-1, SI-CRSEQ-1, SI-GEN-12
#[test]
fn a_map_with_sequences_is_busy() {
    let s = shared(4096);
    let (first, second) = (sequence(&s.b, s.map), sequence(&s.b, s.map));
    assert_ne!(first, second);
    assert_eq!(unmap_segment(&s.b, s.map, 0), Err(Error::Busy));
    assert_eq!(remove_sequence(&s.b, first, 0), Ok(()));
    assert_eq!(unmap_segment(&s.b, s.map, 0), Err(Error::Busy));
    s.world.lose(0);
    assert_eq!(remove_sequence(&s.b, second, 0), Ok(()));
    assert_eq!(unmap_segment(&s.b, s.map, 0), Ok(()));
    assert_eq!(unmap_segment(&s.b, s.map, 0), Err(Error::IllegalParameter));
}

const OK: (u32, Result<()>) = (SCI_SEQ_OK, Ok(()));
const RETRIABLE: (u32, Result<()>) = (SCI_SEQ_RETRIABLE, Ok(()));
const PENDING: (u32, Result<()>) = (SCI_SEQ_PENDING, Ok(()));
const NOT_RETRIABLE: (u32, Result<()>) = (SCI_SEQ_NOT_RETRIABLE, Ok(()));

/// SI-CKSEQ-2, SI-SEQ-4, SI-CRSEQ-1: undisturbed transfers have arrived.
#[test]
fn checks_are_good_as_long_as_nothing_happens() {
    let s = shared(4096);
    let (first, second) = (sequence(&s.b, s.map), sequence(&s.b, s.map));
    assert_eq!(start_sequence(&s.b, first, 0), OK);
    for _ in 0..1000 {
        assert_eq!(check_sequence(&s.b, first, 0), OK);
    }
    let flags = SCI_FLAG_NO_FLUSH | SCI_FLAG_NO_STORE_BARRIER;
    assert_eq!(check_sequence(&s.b, first, flags), OK);
    let early = check_sequence(&s.b, second, 0);
    assert_eq!(early, (SCI_SEQ_PENDING, Err(Error::IllegalOperation)));
}

/// SI-CKSEQ-7
#[test]
fn a_check_needs_a_start() {
    let s = shared(4096);
    let sequence = sequence(&s.b, s.map);
    let illegal = (SCI_SEQ_PENDING, Err(Error::IllegalOperation));
    assert_eq!(check_sequence(&s.b, sequence, 0), illegal);
    assert_eq!(start_sequence(&s.b, sequence, 0), OK);
    assert_eq!(check_sequence(&s.b, sequence, 0), OK);
}

/// SI-CKSEQ-3, SI-SEQ-5: an outage that is over has lost something, once.
#[test]
fn a_short_outage_makes_a_transfer_retriable() {
    let s = shared(4096);
    let (sequence, other) = (sequence(&s.b, s.map), sequence(&s.b, s.map));
    assert_eq!(start_sequence(&s.b, sequence, 0), OK);
    s.world.set_up(0, false);
    s.world.set_up(0, true);
    assert_eq!(check_sequence(&s.b, sequence, 0), RETRIABLE);
    assert_eq!(check_sequence(&s.b, sequence, 0), OK);
    assert_eq!(start_sequence(&s.b, other, 0), OK);
    assert_eq!(check_sequence(&s.b, other, 0), OK);
}

/// SI-STSEQ-1, SI-STSEQ-2, SI-STSEQ-3, SI-CKSEQ-5, SI-SEQ-2, SI-SEQ-6
#[test]
fn without_a_link_transfers_wait_for_a_start() {
    let s = shared(4096);
    let sequence = sequence(&s.b, s.map);
    assert_eq!(start_sequence(&s.b, sequence, 0), OK);
    s.world.set_up(0, false);
    assert_eq!(check_sequence(&s.b, sequence, 0), PENDING);
    assert_eq!(start_sequence(&s.b, sequence, 0), PENDING);
    let illegal = (SCI_SEQ_PENDING, Err(Error::IllegalOperation));
    assert_eq!(check_sequence(&s.b, sequence, 0), illegal);
    s.world.set_up(0, true);
    assert_eq!(start_sequence(&s.b, sequence, 0), OK);
    assert_eq!(check_sequence(&s.b, sequence, 0), OK);
}

/// SI-STSEQ-4, SI-CKSEQ-4, SI-CRSEQ-3, SI-SEQ-2, SI-SEQ-7: a session that is lost does not return.
#[test]
fn a_lost_session_ends_all_transfers() {
    for force in [false, true] {
        let s = shared(4096);
        let sequence = sequence(&s.b, s.map);
        assert_eq!(start_sequence(&s.b, sequence, 0), OK);
        if force {
            let flags = SCI_FLAG_FORCE_DISCONNECT;
            functions::set_segment_unavailable(&s.a, s.segment, 0, flags).unwrap();
        } else {
            s.world.lose(0);
        }
        assert_eq!(check_sequence(&s.b, sequence, 0), NOT_RETRIABLE);
        let never = (SCI_SEQ_PENDING, Err(Error::NotConnected));
        assert_eq!(start_sequence(&s.b, sequence, 0), never);
        s.world.set_up(0, false);
        s.world.set_up(0, true);
        assert_eq!(start_sequence(&s.b, sequence, 0), never);
        let late = made(|out| create_map_sequence(&s.b, s.map, out, 0)).unwrap();
        assert_eq!(start_sequence(&s.b, late, 0), never);
    }
}

/// SI-SEQ-6: ones are what is there, or what is read where nobody answers. The peer is asked then, and
/// not without need.
#[test]
fn ones_are_believed_if_the_peer_answers() {
    let s = shared(4096);
    let sequence = sequence(&s.b, s.map);
    for (first, silent, expected) in [
        (0xff, false, OK),
        (0xff, true, PENDING),
        (0x7f, false, OK),
        (0x7f, true, OK),
    ] {
        assert_eq!(start_sequence(&s.b, sequence, 0), OK);
        let mut data = [0xff; 4096];
        data[7] = first;
        assert_eq!(mem_cpy(&s.b, NONE, bytes(&mut data), s.map, 0, 0), Ok(()));
        s.world.set_silent(silent);
        assert_eq!(
            check_sequence(&s.b, sequence, 0),
            expected,
            "{first} {silent}"
        );
        s.world.set_silent(false);
    }
}

/// SI-CRSEQ-2, SI-SEQ-11: what does not leave the host arrives.
#[test]
fn sequences_on_local_memory_are_always_good() {
    let s = shared(4096);
    let own = connect(&s.a, A, 7).unwrap();
    let (own, _) = map_remote(&s.a, own, part(0, 4096), 0).unwrap();
    let (local, _) = map_local(&s.a, s.segment, part(0, 4096), 0).unwrap();
    s.world.set_up(0, false);
    for map in [own, local] {
        let sequence = sequence(&s.a, map);
        assert_eq!(start_sequence(&s.a, sequence, 0), OK);
        assert_eq!(check_sequence(&s.a, sequence, 0), OK);
    }
}

/// SI-STBAR-2: a barrier returns, and the check tells.
#[test]
fn a_barrier_over_a_dead_link_returns() {
    let s = shared(4096);
    let sequence = sequence(&s.b, s.map);
    assert_eq!(start_sequence(&s.b, sequence, 0), OK);
    assert_eq!(store_barrier(&s.b, sequence, 0), Ok(()));
    s.world.set_up(0, false);
    assert_eq!(store_barrier(&s.b, sequence, 0), Ok(()));
    assert_eq!(check_sequence(&s.b, sequence, 0), PENDING);
}

/// SI-MEMWR-1, SI-MEMWR-2
#[test]
fn any_number_of_bytes_is_written_anywhere() {
    let s = shared(16384);
    for size in (0..70).chain([255, 256, 1000, 4095, 4096]) {
        for shift in 0..9 {
            let mut data: Vec<u8> = (0..size).map(|n| (n % 251) as u8 + 1).collect();
            let from = bytes(&mut data);
            // SAFETY: A part of the map.
            let to = unsafe {
                let start = ptr::with_exposed_provenance_mut(s.address + shift);
                Room::new(start, size)
            };
            assert_eq!(mem_write(&s.b, from, to, 0), Ok(()));
            for (at, byte) in data.iter().enumerate() {
                assert_eq!(read(s.own + shift + at), *byte, "{size} {shift}");
            }
        }
    }
    let mut data = [1; 4];
    // SAFETY: NULL.
    let nothing = unsafe { Room::new(ptr::null_mut(), 4) };
    let missing = mem_write(&s.b, bytes(&mut data), nothing, 0);
    assert_eq!(missing, Err(Error::IllegalParameter));
    let missing = mem_write(&s.b, nothing, bytes(&mut data), 0);
    assert_eq!(missing, Err(Error::IllegalParameter));
    let flag = SCI_FLAG_WRITE_BACK_CACHE_MAP;
    let other = mem_write(&s.b, bytes(&mut [1]), bytes(&mut data), flag);
    assert_eq!(other, Err(Error::FlagNotImplemented));
}

/// SI-MEMWR-4: what is written to a peer that is gone is lost without a word.
#[test]
fn writing_to_a_lost_peer_is_no_error() {
    let s = shared(4096);
    s.world.lose(0);
    // SAFETY: A part of the map.
    let to = unsafe { Room::new(ptr::with_exposed_provenance_mut(s.address), 4) };
    assert_eq!(mem_write(&s.b, bytes(&mut [1, 2, 3, 4]), to, 0), Ok(()));
}

/// SI-MEMCPY-1, SI-MEMCPY-2, SI-MEMCPY-5, SI-MEMCPY-6: both directions, over any map.
#[test]
fn copies_go_both_ways_within_the_map() {
    let s = shared(8192);
    let (part_of, _) = map_remote(&s.b, s.remote, part(100, 1000), 0).unwrap();
    let (local, _) = map_local(&s.a, s.segment, part(100, 1000), 0).unwrap();
    for (program, map) in [(&s.b, part_of), (&s.a, local)] {
        let mut data: Vec<u8> = (0..=99).collect();
        assert_eq!(
            mem_cpy(program, NONE, bytes(&mut data), map, 900, 0),
            Ok(())
        );
        data.fill(0);
        assert_eq!((read(s.own + 1000), read(s.own + 1099)), (0, 99));
        let back = mem_cpy(
            program,
            NONE,
            bytes(&mut data),
            map,
            900,
            SCI_FLAG_BLOCK_READ,
        );
        assert_eq!(back, Ok(()));
        assert_eq!(data, (0..=99).collect::<Vec<_>>());
        let beyond = mem_cpy(program, NONE, bytes(&mut data), map, 901, 0);
        assert_eq!(beyond, Err(Error::OutOfRange));
        let wrapped = mem_cpy(program, NONE, bytes(&mut data), map, usize::MAX, 0);
        assert_eq!(wrapped, Err(Error::OutOfRange));
    }
}

/// SI-MEMCPY-3, SI-MEMCPY-4, SI-MEMCPY-7
#[test]
fn a_checked_copy_tells_of_an_outage() {
    let s = shared(4096);
    let sequence = sequence(&s.b, s.map);
    let (other, _) = map_remote(&s.b, s.remote, part(0, 4096), 0).unwrap();
    let foreign = super::sequence(&s.b, other);
    let mut data = [5; 16];
    let mut copy = |sequence, flags| mem_cpy(&s.b, sequence, bytes(&mut data), s.map, 0, flags);
    let check = SCI_FLAG_ERROR_CHECK;
    assert_eq!(copy(sequence, check), Ok(()));
    assert_eq!(copy(foreign, check), Err(Error::IllegalParameter));
    assert_eq!(copy(NONE, check), Err(Error::IllegalParameter));
    assert_eq!(copy(foreign, 0), Ok(()));
    s.world.set_up(0, false);
    assert_eq!(copy(sequence, check), Err(Error::TransferFailed));
    assert_eq!(copy(sequence, 0), Ok(()));
    s.world.set_up(0, true);
    assert_eq!(copy(sequence, check), Ok(()));
    assert_eq!(copy(sequence, check | SCI_FLAG_BLOCK_READ), Ok(()));
}

/// SI-CSYNC-1, SI-CSYNC-2
#[test]
fn caches_are_coherent() {
    let (_world, a, _b) = pair();
    let both = SCI_FLAG_CACHE_FLUSH | SCI_FLAG_CACHE_INVALIDATE;
    assert_eq!(cache_sync(&a, both), Ok(()));
    assert_eq!(cache_sync(&a, both | 1), Err(Error::IllegalOperation));
}

/// A page that is being read, how far that is, and the thread that reads waits for it.
struct Reading {
    page: AtomicUsize,
    step: AtomicU32,
}

static READING: Reading = Reading {
    page: AtomicUsize::new(0),
    step: AtomicU32::new(0),
};

const UNTOUCHED: u32 = 0;
const READ: u32 = 1;
const GO_ON: u32 = 2;

/// Whoever reads the page goes on when the test says so.
extern "C" fn on_access(_: libc::c_int) {
    READING.step.store(READ, Ordering::SeqCst);
    while READING.step.load(Ordering::SeqCst) != GO_ON {
        std::hint::spin_loop();
    }
    allow(libc::PROT_READ | libc::PROT_WRITE);
}

fn allow(access: libc::c_int) {
    let page: *mut u8 = ptr::with_exposed_provenance_mut(READING.page.load(Ordering::SeqCst));
    // SAFETY: The page of a map that is there until the test has ended.
    assert_eq!(unsafe { libc::mprotect(page.cast(), 4096, access) }, 0);
}

/// SI-SEQ-3, SI-CKSEQ-6: a check reads over the map, and only then looks at the connection: it
/// finds what has happened while it was reading. Without the barrier it does not read.
#[test]
fn a_check_reads_first_and_then_looks() {
    let s = shared(4096);
    let sequence = sequence(&s.b, s.map);
    assert_eq!(start_sequence(&s.b, sequence, 0), (SCI_SEQ_OK, Ok(())));
    READING.page.store(s.address, Ordering::SeqCst);
    let handler = on_access as extern "C" fn(libc::c_int);
    // SAFETY: The handler only does what handlers may; nothing else in these tests faults.
    let before = unsafe { libc::signal(libc::SIGSEGV, handler as libc::sighandler_t) };
    allow(libc::PROT_NONE);
    let unread = check_sequence(&s.b, sequence, SCI_FLAG_NO_STORE_BARRIER);
    assert_eq!(unread, (SCI_SEQ_OK, Ok(())));
    assert_eq!(READING.step.load(Ordering::SeqCst), UNTOUCHED);
    let checked = std::thread::scope(|scope| {
        let checking = scope.spawn(|| check_sequence(&s.b, sequence, 0));
        until("the check reads", || {
            READING.step.load(Ordering::SeqCst) == READ
        });
        s.world.set_up(0, false);
        s.world.set_up(0, true);
        READING.step.store(GO_ON, Ordering::SeqCst);
        checking.join().unwrap()
    });
    // SAFETY: What was there before.
    unsafe { libc::signal(libc::SIGSEGV, before) };
    assert_eq!(checked, (SCI_SEQ_RETRIABLE, Ok(())));
}
