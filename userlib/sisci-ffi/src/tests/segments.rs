// SPDX-License-Identifier: MIT OR Apache-2.0

//! Local segments.

use super::*;
use crate::functions::{
    attach_local_segment, attach_physical_memory, close, local_segment_id, local_segment_size,
    prepare_segment, register_segment_memory, remove_segment, set_segment_available,
    set_segment_unavailable, share_segment,
};
use mp_fabric::{PhysicalRange, ProcessMemory};
use sys::*;

/// SI-CRSEG-1, SI-LSM-1, SI-LSM-2, SI-PREP-1, SI-AVAIL-1, SI-UNAVAIL-1, SI-UNAVAIL-2, SI-RMSEG-1,
/// SI-CONSEG-7: the states, seen by what they allow, and removal from each.
#[test]
fn a_segment_goes_through_its_states() {
    let (_world, a, b) = pair();
    let desc = open(&a);
    let segment = create(&a, desc, 7, 4096, 0).unwrap();
    let available = || set_segment_available(&a, segment, 0, 0);
    let unavailable = || set_segment_unavailable(&a, segment, 0, 0);
    assert_eq!(available(), Err(Error::SegmentNotPrepared));
    assert_eq!(unavailable(), Err(Error::IllegalOperation));
    prepare_segment(&a, segment, 0, 0).unwrap();
    assert_eq!(unavailable(), Err(Error::IllegalOperation));
    assert_eq!(connect(&b, A, 7), Err(Error::NoSuchSegment));
    available().unwrap();
    let remote = connect(&b, A, 7).unwrap();
    unavailable().unwrap();
    assert_eq!(unavailable(), Err(Error::IllegalOperation));
    assert_eq!(connect(&b, A, 7), Err(Error::NoSuchSegment));
    map_remote(&b, remote, part(0, 4096), 0).unwrap();
    for (id, steps) in [(8, 0), (9, 1), (10, 2)] {
        let segment = create(&a, desc, id, 4096, 0).unwrap();
        if steps > 0 {
            prepare_segment(&a, segment, 0, SCI_FLAG_DMA_SOURCE_ONLY).unwrap();
        }
        if steps > 1 {
            set_segment_available(&a, segment, 0, 0).unwrap();
        }
        assert_eq!(remove_segment(&a, segment, 0), Ok(()));
    }
}

/// SI-PREP-3, SI-AVAIL-3
#[test]
fn preparing_and_publishing_twice_is_no_error() {
    let (_world, a, _b) = pair();
    let segment = create(&a, open(&a), 7, 4096, 0).unwrap();
    for _ in 0..2 {
        assert_eq!(publish(&a, segment), Ok(()));
    }
}

/// SI-PREP-3, SI-CRSEG-6, SI-GEN-5: memory and windows each have an error of their own.
#[test]
fn space_that_is_used_up_is_told_by_kind() {
    let (world, a, _b) = pair();
    world.set_memory(1 << 20, 1 << 16);
    let desc = open(&a);
    let segment = create(&a, desc, 7, (1 << 16) + 1, 0).unwrap();
    let prepared = prepare_segment(&a, segment, 0, 0);
    assert_eq!(prepared, Err(Error::HwNoSpace));
    // For transfers it needs no window.
    let prepared = prepare_segment(&a, segment, 0, SCI_FLAG_DMA_SOURCE_ONLY);
    assert_eq!(prepared, Ok(()));
    assert_eq!(publish(&a, segment), Err(Error::HwNoSpace));
    let fits = create(&a, desc, 8, 1 << 16, 0).unwrap();
    assert_eq!(prepare_segment(&a, fits, 0, 0), Ok(()));
    let large = create(&a, desc, 9, (1 << 20) + 1, 0);
    assert_eq!(large, Err(Error::NoSpace));
    // The id stays free.
    create(&a, desc, 9, 4096, 0).unwrap();
}

/// SI-CRSEG-2, SI-ATTSEG-2
#[test]
fn an_id_is_unique_on_its_host() {
    let (world, a, b) = pair();
    let other = program(&world, Host::A);
    let segment = create(&a, open(&a), 7, 4096, 0).unwrap();
    let taken = create(&other, open(&other), 7, 4096, 0);
    assert_eq!(taken, Err(Error::SegmentIdUsed));
    create(&b, open(&b), 7, 4096, 0).unwrap();
    remove_segment(&a, segment, 0).unwrap();
    create(&other, open(&other), 7, 4096, 0).unwrap();
}

/// SI-CRSEG-3, SI-SHSEG-2
#[test]
fn private_segments_have_no_id() {
    let (_world, a, b) = pair();
    let desc = open(&a);
    let first = create(&a, desc, 7, 4096, SCI_FLAG_PRIVATE).unwrap();
    create(&a, desc, 7, 4096, SCI_FLAG_PRIVATE).unwrap();
    create(&a, desc, 7, 4096, 0).unwrap();
    assert_eq!(publish(&a, first), Err(Error::IllegalOperation));
    assert_eq!(share_segment(&a, first, 0), Err(Error::IllegalOperation));
    assert_eq!(connect(&b, A, 7), Err(Error::NoSuchSegment));
}

/// SI-CRSEG-5, SI-LSEGID-1
#[test]
fn an_id_is_found_in_the_range_that_follows() {
    let (_world, a, b) = pair();
    let desc = open(&a);
    let one = || create(&a, desc, 100, 4096, SCI_FLAG_AUTO_ID);
    let ids: Vec<u32> = (0..129)
        .map(|_| local_segment_id(&a, one().unwrap()).unwrap())
        .collect();
    assert_eq!(ids, (100..229).collect::<Vec<_>>());
    assert_eq!(one(), Err(Error::SegmentIdUsed));
    let last = create(&a, desc, 229, 4096, SCI_FLAG_AUTO_ID).unwrap();
    publish(&a, last).unwrap();
    connect(&b, A, local_segment_id(&a, last).unwrap()).unwrap();
}

/// SI-CRSEG-10, SI-LSIZE-1
#[test]
fn a_segment_is_as_large_as_asked_for_and_zero() {
    let (_world, a, _b) = pair();
    let desc = open(&a);
    assert_eq!(create(&a, desc, 7, 0, 0), Err(Error::SizeAlignment));
    let segment = create(&a, desc, 7, 5001, 0).unwrap();
    assert_eq!(local_segment_size(&a, segment), Ok(5001));
    let (_, address) = map_local(&a, segment, part(0, 5001), 0).unwrap();
    assert!((0..5001).all(|at| read(address + at) == 0));
}

/// SI-CRSEG-8, SI-GEN-3, SI-NTB-23: flags that need what is not there.
#[test]
fn flags_for_what_is_missing_are_refused() {
    let (world, a, _b) = pair();
    world.set_fills(false);
    let desc = open(&a);
    let with = |flags| create(&a, desc, 7, 4096, flags);
    assert_eq!(with(SCI_FLAG_BROADCAST), Err(Error::NotSupported));
    let both = SCI_FLAG_BROADCAST | SCI_FLAG_ALLOW_UNICAST;
    assert_eq!(with(both), Err(Error::NotSupported));
    assert_eq!(with(SCI_FLAG_ALLOW_UNICAST), Err(Error::IllegalFlag));
    assert_eq!(with(SCI_FLAG_EMPTY), Err(Error::FlagNotImplemented));
    assert_eq!(with(SCI_FLAG_DMA_GLOBAL), Err(Error::FlagNotImplemented));
}

fn attach(p: &Program, id: u32) -> Result<(Handle, usize)> {
    let mut size = 0;
    let desc = open(p);
    let to = out(&mut size);
    let segment = made(|out| attach_local_segment(p, desc, out, id, to, None, 0))?;
    Ok((segment, size))
}

/// SI-ATTSEG-1, SI-ATTSEG-2, SI-SHSEG-1, SI-SHSEG-2
#[test]
fn a_shared_segment_is_attached_to_by_another_process() {
    let (world, a, _b) = pair();
    let other = program(&world, Host::A);
    let segment = create(&a, open(&a), 7, 5000, 0).unwrap();
    assert_eq!(attach(&other, 7), Err(Error::Access));
    assert_eq!(attach(&other, 8), Err(Error::NoSuchSegment));
    for _ in 0..2 {
        assert_eq!(share_segment(&a, segment, 0), Ok(()));
    }
    let (attached, size) = attach(&other, 7).unwrap();
    assert_eq!(size, 5000);
    let (_, here) = map_local(&a, segment, part(0, 5000), 0).unwrap();
    let (_, there) = map_local(&other, attached, part(0, 5000), 0).unwrap();
    write(here + 4999, 42);
    assert_eq!(read(there + 4999), 42);
}

/// SI-ATTSEG-3, SI-ATTSEG-4, SI-RMSEG-5
#[test]
fn a_shared_segment_lives_until_its_last_holder_removes_it() {
    let (world, a, b) = pair();
    let other = program(&world, Host::A);
    let segment = offered(&a, 7, 4096);
    share_segment(&a, segment, 0).unwrap();
    let (attached, _) = attach(&other, 7).unwrap();
    let remote = connect(&b, A, 7).unwrap();
    // Connections keep the last holder only.
    assert_eq!(remove_segment(&a, segment, 0), Ok(()));
    connect(&b, A, 7).unwrap();
    assert_eq!(remove_segment(&other, attached, 0), Err(Error::Busy));
    assert_eq!(
        remove_segment(&other, attached, SCI_FLAG_FORCE_REMOVE),
        Ok(())
    );
    assert_eq!(attach(&other, 7), Err(Error::NoSuchSegment));
    assert_eq!(
        remote_event(&b, remote, 0),
        Ok((SCI_CB_DISCONNECT, SCI_ERR_OK))
    );
}

/// SI-ATTSEG-5, SI-EVT-1
#[test]
fn every_holder_hears_of_every_connection() {
    let (world, a, b) = pair();
    let other = program(&world, Host::A);
    let segment = offered(&a, 7, 4096);
    share_segment(&a, segment, 0).unwrap();
    let (attached, _) = attach(&other, 7).unwrap();
    connect(&b, A, 7).unwrap();
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_CONNECT, B, 0)));
    assert_eq!(local_event(&other, attached, 0), Ok((SCI_CB_CONNECT, B, 0)));
    assert_eq!(local_event(&a, segment, 0), Err(Error::Timeout));
}

/// SI-RMSEG-2, SI-GEN-12: a map and a connection each keep the segment, which stays as it is.
#[test]
fn a_segment_that_is_used_is_busy() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let (map, _) = map_local(&a, segment, part(0, 4096), 0).unwrap();
    assert_eq!(remove_segment(&a, segment, 0), Err(Error::Busy));
    let force = SCI_FLAG_FORCE_REMOVE;
    assert_eq!(remove_segment(&a, segment, force), Err(Error::Busy));
    functions::unmap_segment(&a, map, 0).unwrap();
    let remote = connect(&b, A, 7).unwrap();
    assert_eq!(remove_segment(&a, segment, 0), Err(Error::Busy));
    functions::disconnect_segment(&b, remote, 0).unwrap();
    assert_eq!(remove_segment(&a, segment, 0), Ok(()));
    let again = remove_segment(&a, segment, 0);
    assert_eq!(again, Err(Error::IllegalParameter));
}

/// SI-RMSEG-4, SI-EVT-3, SI-EVT-9
#[test]
fn a_segment_can_be_removed_by_force() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let remote = connect(&b, A, 7).unwrap();
    remove_segment(&a, segment, SCI_FLAG_FORCE_REMOVE).unwrap();
    assert_eq!(
        remote_event(&b, remote, 0),
        Ok((SCI_CB_DISCONNECT, SCI_ERR_OK))
    );
    let lost = (SCI_CB_LOST, SCI_ERR_NOT_CONNECTED);
    assert_eq!(remote_event(&b, remote, 0), Ok(lost));
    assert_eq!(remote_event(&b, remote, 0), Err(Error::Timeout));
    assert_eq!(functions::disconnect_segment(&b, remote, 0), Ok(()));
}

/// SI-RMSEG-6, SI-EVT-7: a loop on busy ends when the importer is gone, in whatever way.
#[test]
fn a_segment_is_free_when_the_importer_is_gone() {
    let (world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let remote = connect(&b, A, 7).unwrap();
    assert_eq!(remove_segment(&a, segment, 0), Err(Error::Busy));
    world.lose(0);
    assert_eq!(remove_segment(&a, segment, 0), Ok(()));
    functions::disconnect_segment(&b, remote, 0).unwrap();
}

/// SI-EVT-2: what a process has is released when it ends.
#[test]
fn the_end_of_a_process_disconnects_it() {
    let (world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    connect(&b, A, 7).unwrap();
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_CONNECT, B, 0)));
    drop(b);
    assert_eq!(world.contexts(), 1);
    assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_DISCONNECT, B, 0)));
    assert_eq!(remove_segment(&a, segment, 0), Ok(()));
}

/// SI-UNAVAIL-3, SI-WRSEG-1: who is notified can go on.
#[test]
fn importers_are_asked_to_leave() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let remote = connect(&b, A, 7).unwrap();
    let (_, address) = map_remote(&b, remote, part(0, 4096), 0).unwrap();
    let (_, own) = map_local(&a, segment, part(0, 4096), 0).unwrap();
    set_segment_unavailable(&a, segment, 0, SCI_FLAG_NOTIFY).unwrap();
    assert_eq!(
        remote_event(&b, remote, 0),
        Ok((SCI_CB_DISCONNECT, SCI_ERR_OK))
    );
    write(address, 9);
    assert_eq!(read(own), 9);
}

/// SI-UNAVAIL-4, SI-UNAVAIL-5: no connection is left, with the link up or down.
#[test]
fn importers_are_disconnected_by_force() {
    for up in [true, false] {
        let (world, a, b) = pair();
        let segment = offered(&a, 7, 4096);
        let remote = connect(&b, A, 7).unwrap();
        world.set_up(0, up);
        set_segment_unavailable(&a, segment, 0, SCI_FLAG_FORCE_DISCONNECT).unwrap();
        assert_eq!(remove_segment(&a, segment, 0), Ok(()));
        let mut reasons = Vec::new();
        while let Ok((reason, _)) = remote_event(&b, remote, 0) {
            reasons.push(reason);
        }
        let expected = [SCI_CB_DISCONNECT, SCI_CB_LOST];
        assert_eq!(reasons[usize::from(!up)..], expected);
    }
}

/// SI-WLSEG-1, SI-WLSEG-4, SI-EVT-1, SI-EVT-2: events wait for whoever asks, in order.
#[test]
fn events_of_a_segment_are_kept_in_order() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    for _ in 0..3 {
        let remote = connect(&b, A, 7).unwrap();
        functions::disconnect_segment(&b, remote, 0).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_CONNECT, B, 0)));
        assert_eq!(local_event(&a, segment, 0), Ok((SCI_CB_DISCONNECT, B, 0)));
    }
}

/// SI-WLSEG-3, SI-GEN-14: a wait looks, lasts as long as it should, or until something comes.
#[test]
fn a_wait_lasts_as_long_as_asked_for() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    assert_eq!(local_event(&a, segment, 0), Err(Error::Timeout));
    let start = Instant::now();
    assert_eq!(local_event(&a, segment, 200), Err(Error::Timeout));
    assert!(start.elapsed() >= Duration::from_millis(200));
    let waiting = Arc::clone(&a);
    let waiter = std::thread::spawn(move || local_event(&waiting, segment, SCI_INFINITE_TIMEOUT));
    std::thread::sleep(Duration::from_millis(20));
    connect(&b, A, 7).unwrap();
    assert_eq!(waiter.join().unwrap(), Ok((SCI_CB_CONNECT, B, 0)));
    connect(&b, A, 7).unwrap();
    let silent = functions::wait_for_local_segment_event(&a, segment, nowhere(), nowhere(), 0, 0);
    assert_eq!(silent, Ok(SCI_CB_CONNECT));
}

/// SI-RMSEG-3: who waits is told that the segment is gone.
#[test]
fn removal_ends_all_waits() {
    let (_world, a, _b) = pair();
    let segment = offered(&a, 7, 4096);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let a = Arc::clone(&a);
            std::thread::spawn(move || local_event(&a, segment, SCI_INFINITE_TIMEOUT))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(50));
    remove_segment(&a, segment, 0).unwrap();
    for waiter in waiters {
        let ended = waiter.join().unwrap();
        assert!(
            matches!(ended, Err(Error::Cancelled | Error::IllegalParameter)),
            "{ended:?}"
        );
    }
}

/// SI-LSM-3, SI-AVAIL-2, SI-NTB-21: each adapter has a state of its own.
#[test]
fn states_are_kept_for_each_adapter() {
    let world = World::new(1, 1 << 20);
    // The stand-in's bridges are all at one place: the second adapter has none.
    let config = "node 4 peer 0\nnode 8 peer 1\nadapter 0 10003:42:1f.5\nadapter 1 0000:00:01.0";
    let a = configured(&world, Host::A, config);
    let segment = create(&a, open(&a), 7, 4096, 0).unwrap();
    assert_eq!(prepare_segment(&a, segment, 0, 0), Ok(()));
    let second = set_segment_available(&a, segment, 1, 0);
    assert_eq!(second, Err(Error::NoSuchAdapterNo));
    assert_eq!(set_segment_available(&a, segment, 0, 0), Ok(()));
}

/// SI-LSM-4: an outage changes no state.
#[test]
fn a_segment_stays_available_over_an_outage() {
    let (world, a, b) = pair();
    offered(&a, 7, 4096);
    world.set_up(0, false);
    world.set_up(0, true);
    connect(&b, A, 7).unwrap();
}

/// SI-GEN-27: what concerns this host alone needs no link.
#[test]
fn local_calls_work_with_every_link_down() {
    let (world, a, _b) = pair();
    world.set_up(0, false);
    let segment = offered(&a, 7, 4096);
    share_segment(&a, segment, 0).unwrap();
    map_local(&a, segment, part(0, 4096), 0).unwrap();
    connect(&a, A, 7).unwrap();
    let desc = open(&a);
    let mut number = 0;
    let to = out(&mut number);
    made(|out| functions::create_interrupt(&a, desc, out, 0, to, None, 0)).unwrap();
    made(|out| functions::create_dma_queue(&a, desc, out, 0, 8, 0)).unwrap();
}

/// SI-CLOSE-2, SI-GEN-12: a virtual device is busy as long as anything on it is there.
#[test]
fn a_virtual_device_with_resources_is_busy() {
    let (_world, a, b) = pair();
    offered(&b, 9, 4096);
    let desc = open(&a);
    let busy = || assert_eq!(close(&a, desc, 0), Err(Error::Busy));
    let segment = create(&a, desc, 7, 4096, 0).unwrap();
    busy();
    remove_segment(&a, segment, 0).unwrap();
    let to = place(B, 9);
    let remote = made(|out| functions::connect_segment(&a, desc, out, to, None, 0)).unwrap();
    busy();
    functions::disconnect_segment(&a, remote, 0).unwrap();
    let queue = made(|out| functions::create_dma_queue(&a, desc, out, 0, 8, 0)).unwrap();
    busy();
    functions::remove_dma_queue(&a, queue, 0).unwrap();
    let mut number = 0;
    let to = out(&mut number);
    let one = made(|out| functions::create_interrupt(&a, desc, out, 0, to, None, 0)).unwrap();
    busy();
    let to_one = place(A, number);
    let caller = made(|out| functions::connect_interrupt(&a, desc, out, to_one, 0)).unwrap();
    busy();
    functions::disconnect_interrupt(&a, caller, 0).unwrap();
    functions::remove_interrupt(&a, one, 0).unwrap();
    let one = made(|out| functions::create_data_interrupt(&a, desc, out, 0, to, None, 0)).unwrap();
    busy();
    let to_one = place(A, number);
    let caller = made(|out| functions::connect_data_interrupt(&a, desc, out, to_one, 0)).unwrap();
    busy();
    functions::disconnect_data_interrupt(&a, caller, 0).unwrap();
    functions::remove_data_interrupt(&a, one, 0).unwrap();
    assert_eq!(close(&a, desc, 0), Ok(()));
}

/// Memory of this program: whole pages.
pub(super) fn pages(count: usize) -> usize {
    let layout = std::alloc::Layout::from_size_align(count * 4096, 4096).unwrap();
    // SAFETY: There are bytes; they stay for ever.
    unsafe { std::alloc::alloc_zeroed(layout) }.expose_provenance()
}

/// Give a segment memory of [`pages`].
pub(super) fn register(
    process: &Process<FakeDevice>,
    segment: Handle,
    at: usize,
    size: usize,
    flags: u32,
) -> Result<()> {
    // SAFETY: Pages have no references, and stay until the process ends.
    let memory = unsafe { ProcessMemory::new(at, size) };
    register_segment_memory(process, segment, memory, flags)
}

/// SI-CRSEG-4, SI-REGMEM-6: a segment without memory is of no use until it is given some.
#[test]
fn a_program_gives_a_segment_its_memory() {
    let (_world, a, b) = pair();
    let desc = open(&a);
    let segment = create(&a, desc, 7, 5 * 4096, SCI_FLAG_EMPTY).unwrap();
    let early = [
        functions::prepare_segment(&a, segment, 0, 0),
        functions::set_segment_available(&a, segment, 0, 0),
        map_local(&a, segment, part(0, 4096), 0).map(|_| ()),
    ];
    let wrong = Err(Error::IllegalOperation);
    assert_eq!(early, [wrong, Err(Error::SegmentNotPrepared), wrong]);
    let memory = pages(2);
    write(memory + 4096, 77);
    let lock = SCI_FLAG_LOCK_USER_MEM;
    register(&a, segment, memory, 8192, lock).unwrap();
    assert_eq!(local_segment_size(&a, segment), Ok(8192));
    publish(&a, segment).unwrap();
    let remote = connect(&b, A, 7).unwrap();
    assert_eq!(functions::remote_segment_size(&b, remote), Ok(8192));
    let (_, address) = map_remote(&b, remote, part(0, 8192), 0).unwrap();
    assert_eq!(read(address + 4096), 77);
    // With connections it goes only by force, as any other.
    assert_eq!(remove_segment(&a, segment, 0), Err(Error::Busy));
    assert_eq!(remove_segment(&a, segment, SCI_FLAG_FORCE_REMOVE), Ok(()));
}

/// SI-REGMEM-1, SI-REGMEM-2, SI-REGMEM-3, SI-REGMEM-4, SI-REGMEM-7: what memory has to be like.
#[test]
fn memory_that_a_segment_cannot_have_is_refused() {
    let (world, a, _b) = pair();
    let desc = open(&a);
    let ordinary = create(&a, desc, 8, 4096, 0).unwrap();
    let segment = create(&a, desc, 7, 3 * 4096, SCI_FLAG_EMPTY).unwrap();
    let memory = pages(4);
    let of_ordinary = register(&a, ordinary, memory, 4096, 0);
    let register = |at, size| register(&a, segment, at, size, 0);
    assert_eq!(of_ordinary, Err(Error::IllegalOperation));
    for (at, size, error) in [
        (memory + 8, 4096, Error::IllegalAddress),
        (4096, 4096, Error::IllegalAddress),
        (memory, 4097, Error::SizeAlignment),
        (memory, 0, Error::SizeAlignment),
        (memory, 4 * 4096, Error::OutOfRange),
    ] {
        assert_eq!(register(at, size), Err(error));
    }
    world.set_pinned(4096);
    assert_eq!(register(memory, 8192), Err(Error::NoSpace));
    world.set_pinned(1 << 20);
    assert_eq!(register(memory, 3 * 4096), Ok(()));
    assert_eq!(register(memory, 4096), Err(Error::IllegalOperation));
}

/// SI-REGMEM-5: where no window leads to such memory and the driver does not copy it, other hosts
/// do not reach it, and nobody takes it for available.
#[test]
fn memory_that_no_window_leads_to_is_not_supported() {
    let (world, a, b) = pair();
    world.set_reachable(false);
    world.set_placed(false);
    let segment = create(&a, open(&a), 7, 8192, SCI_FLAG_EMPTY).unwrap();
    register(&a, segment, pages(2), 8192, 0).unwrap();
    assert_eq!(publish(&a, segment), Err(Error::NotSupported));
    assert_eq!(connect(&b, A, 7), Err(Error::NoSuchSegment));
    assert_eq!(connect(&a, A, 7), Err(Error::NoSuchSegment));
    assert_eq!(remove_segment(&a, segment, 0), Ok(()));
}

/// SI-APHYS-1, SI-APHYS-2, SI-APHYS-3, SI-APHYS-4
#[test]
fn physical_memory_is_for_the_privileged() {
    let (world, a, b) = pair();
    let desc = open(&a);
    let segment = create(&a, desc, 7, 8192, SCI_FLAG_EMPTY).unwrap();
    let attach = |bus, size, flags| {
        // SAFETY: The hosts are in this process, and have no physical memory.
        let range = unsafe { PhysicalRange::new(0xE000_0000, size) };
        attach_physical_memory(&a, segment, range, bus, flags)
    };
    world.set_privileged(false);
    assert_eq!(attach(0, 8192, 0), Err(Error::Access));
    world.set_privileged(true);
    assert_eq!(attach(1, 8192, 0), Err(Error::IllegalParameter));
    assert_eq!(attach(0, 3 * 4096, 0), Err(Error::OutOfRange));
    for flag in [SCI_FLAG_CUDA_BUFFER, SCI_FLAG_SCIF_BUFFER] {
        assert_eq!(attach(0, 8192, flag), Err(Error::FlagNotImplemented));
    }
    assert_eq!(attach(0, 8192, 0), Ok(()));
    assert_eq!(attach(0, 8192, 0), Err(Error::IllegalOperation));
    // The driver does not copy it, so it needs a window.
    world.set_reachable(false);
    assert_eq!(publish(&a, segment), Err(Error::NotSupported));
    world.set_reachable(true);
    publish(&a, segment).unwrap();
    let remote = connect(&b, A, 7).unwrap();
    map_remote(&b, remote, part(0, 8192), 0).unwrap();
    assert_eq!(remove_segment(&a, segment, 0), Err(Error::Busy));
    assert_eq!(remove_segment(&a, segment, SCI_FLAG_FORCE_REMOVE), Ok(()));
}
