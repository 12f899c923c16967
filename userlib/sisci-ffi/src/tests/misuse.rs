// SPDX-License-Identifier: MIT OR Apache-2.0

//! Handles that are none, pointers that are NULL, flags that are not taken: for every function.

use super::*;
use crate::{
    functions::{self as f, Pieces, Source},
    query::{query, Query},
};
use sisci::Piece;
use sys::*;

type Call<'a> = (&'a str, u32, Box<dyn Fn(Handle, u32) -> Result<()> + 'a>);

fn anywhere() -> Out<Handle> {
    Out::clone(&out(Box::leak(Box::new(NONE))))
}

fn number() -> Out<u32> {
    out(Box::leak(Box::new(0)))
}

fn few() -> Room<u8> {
    bytes(Box::leak(Box::new([0; 8])))
}

fn one() -> Pieces {
    Pieces::One(Piece {
        local: 0,
        remote: 0,
        size: 8,
    })
}

/// Every function with a handle: what it is called, the flags that it takes, and the call.
fn calls(p: &Program) -> Vec<Call<'_>> {
    let callback = SCI_FLAG_USE_CALLBACK;
    let create = callback
        | SCI_FLAG_EMPTY
        | SCI_FLAG_PRIVATE
        | SCI_FLAG_DMA_GLOBAL
        | SCI_FLAG_ALLOW_UNICAST
        | SCI_FLAG_BROADCAST
        | SCI_FLAG_AUTO_ID;
    let connect = callback | SCI_FLAG_ASYNCHRONOUS_CONNECT | SCI_FLAG_BROADCAST;
    let map = SCI_FLAG_FIXED_MAP_ADDR | SCI_FLAG_READONLY_MAP;
    let remote_map = map | SCI_FLAG_SHARED_MAP | SCI_FLAG_IO_MAP_IOSPACE;
    let interrupt = callback | SCI_FLAG_FIXED_INTNO | SCI_FLAG_SHARED_INT;
    let dma = callback
        | SCI_FLAG_DMA_READ
        | SCI_FLAG_DMA_WAIT
        | SCI_FLAG_BROADCAST
        | SCI_FLAG_DMA_GLOBAL
        | SCI_FLAG_DMA_SYSDMA
        | SCI_FLAG_DMA_ADAPTER;
    let withdraw = SCI_FLAG_NOTIFY | SCI_FLAG_FORCE_DISCONNECT;
    let copy = SCI_FLAG_BLOCK_READ | SCI_FLAG_ERROR_CHECK;
    let check = SCI_FLAG_NO_FLUSH | SCI_FLAG_NO_STORE_BARRIER;
    let at = place(A, 1);
    macro_rules! call {
        ($name:literal, $flags:expr, |$h:ident, $g:ident| $call:expr) => {
            ($name, $flags, Box::new(move |$h: Handle, $g: u32| $call))
        };
    }
    vec![
        call!("Close", 0, |h, g| f::close(p, h, g)),
        call!("CreateSegment", create, |h, g| {
            f::create_segment(p, h, anywhere(), 1, 4096, None, g)
        }),
        call!(
            "AttachLocalSegment",
            callback | SCI_FLAG_BROADCAST,
            |h, g| {
                let size = out(Box::leak(Box::new(0)));
                f::attach_local_segment(p, h, anywhere(), 1, size, None, g)
            }
        ),
        call!("ShareSegment", 0, |h, g| f::share_segment(p, h, g)),
        call!("PrepareSegment", SCI_FLAG_DMA_SOURCE_ONLY, |h, g| {
            f::prepare_segment(p, h, 0, g)
        }),
        call!("SetSegmentAvailable", 0, |h, g| {
            f::set_segment_available(p, h, 0, g)
        }),
        call!("SetSegmentUnavailable", withdraw, |h, g| {
            f::set_segment_unavailable(p, h, 0, g)
        }),
        call!("RemoveSegment", SCI_FLAG_FORCE_REMOVE, |h, g| {
            f::remove_segment(p, h, g)
        }),
        call!("WaitForLocalSegmentEvent", 0, |h, g| {
            f::wait_for_local_segment_event(p, h, nowhere(), nowhere(), 0, g).map(|_| ())
        }),
        call!("MapLocalSegment", map, |h, g| {
            f::map_local_segment(p, h, anywhere(), part(0, 4096), g).map(|_| ())
        }),
        call!("ConnectSegment", connect, |h, g| {
            f::connect_segment(p, h, anywhere(), at, None, g)
        }),
        call!("DisconnectSegment", 0, |h, g| f::disconnect_segment(
            p, h, g
        )),
        call!("WaitForRemoteSegmentEvent", 0, |h, g| {
            f::wait_for_remote_segment_event(p, h, nowhere(), 0, g).map(|_| ())
        }),
        call!("MapRemoteSegment", remote_map, |h, g| {
            f::map_remote_segment(p, h, anywhere(), part(0, 4096), g).map(|_| ())
        }),
        call!("UnmapSegment", 0, |h, g| f::unmap_segment(p, h, g)),
        call!("CreateMapSequence", 0, |h, g| {
            f::create_map_sequence(p, h, anywhere(), g)
        }),
        call!("RemoveSequence", 0, |h, g| f::remove_sequence(p, h, g)),
        call!("StartSequence", 0, |h, g| f::start_sequence(p, h, g).1),
        call!("CheckSequence", check, |h, g| f::check_sequence(p, h, g).1),
        call!("StoreBarrier", 0, |h, g| f::store_barrier(p, h, g)),
        call!("MemCpy", copy, |h, g| f::mem_cpy(p, h, few(), h, 0, g)),
        call!("CreateDMAQueue", 0, |h, g| {
            f::create_dma_queue(p, h, anywhere(), 0, 1, g)
        }),
        call!("RemoveDMAQueue", 0, |h, g| f::remove_dma_queue(p, h, g)),
        call!("StartDmaTransfer", dma, |h, g| {
            f::start_dma(p, h, Source::Segment(h), h, one(), None, g)
        }),
        call!("StartDmaTransferMem", dma, |h, g| {
            f::start_dma(
                p,
                h,
                Source::Memory(lent(Box::leak(Box::new([0; 8])))),
                h,
                one(),
                None,
                g,
            )
        }),
        call!("WaitForDMAQueue", 0, |h, g| {
            f::wait_for_dma_queue(p, h, 0, g).map(|_| ())
        }),
        call!("AbortDMAQueue", 0, |h, g| f::abort_dma_queue(p, h, g)),
        call!(
            "CreateInterrupt",
            interrupt | SCI_FLAG_COUNTING_INT,
            |h, g| { f::create_interrupt(p, h, anywhere(), 0, number(), None, g) }
        ),
        call!("RemoveInterrupt", 0, |h, g| f::remove_interrupt(p, h, g)),
        call!("WaitForInterrupt", 0, |h, g| f::wait_for_interrupt(
            p, h, 0, g
        )),
        call!("ConnectInterrupt", SCI_FLAG_COUNTING_INT, |h, g| {
            f::connect_interrupt(p, h, anywhere(), at, g)
        }),
        call!("DisconnectInterrupt", 0, |h, g| f::disconnect_interrupt(
            p, h, g
        )),
        call!("TriggerInterrupt", 0, |h, g| f::trigger_interrupt(p, h, g)),
        call!("CreateDataInterrupt", interrupt, |h, g| {
            f::create_data_interrupt(p, h, anywhere(), 0, number(), None, g)
        }),
        call!("RemoveDataInterrupt", 0, |h, g| f::remove_data_interrupt(
            p, h, g
        )),
        call!("WaitForDataInterrupt", 0, |h, g| {
            f::wait_for_data_interrupt(p, h, few(), number(), 0, g)
        }),
        call!("ConnectDataInterrupt", SCI_FLAG_BROADCAST, |h, g| {
            f::connect_data_interrupt(p, h, anywhere(), at, g)
        }),
        call!("DisconnectDataInterrupt", 0, |h, g| {
            f::disconnect_data_interrupt(p, h, g)
        }),
        call!("TriggerDataInterrupt", 0, |h, g| {
            f::trigger_data_interrupt(p, h, input(&[0; 4]), g)
        }),
        call!("ProbeNode", 0, |h, g| f::probe_node(p, h, 0, B, g)
            .map(|_| ())),
    ]
}

/// One handle of each kind; the index is that of [`kind_of`].
fn handles(a: &Program) -> Vec<Handle> {
    let desc = open(a);
    let segment = create(a, desc, 1, 4096, 0).unwrap();
    publish(a, segment).unwrap();
    let remote = made(|out| f::connect_segment(a, desc, out, place(A, 1), None, 0)).unwrap();
    let (map, _) = map_remote(a, remote, part(0, 4096), 0).unwrap();
    let sequence = sequence(a, map);
    let queue = made(|out| f::create_dma_queue(a, desc, out, 0, 4, 0)).unwrap();
    let mut number = 5;
    let to = out(&mut number);
    let fixed = SCI_FLAG_FIXED_INTNO;
    let plain = made(|out| f::create_interrupt(a, desc, out, 0, to, None, fixed)).unwrap();
    let caller = made(|out| f::connect_interrupt(a, desc, out, place(A, 5), 0)).unwrap();
    let data = made(|out| f::create_data_interrupt(a, desc, out, 0, to, None, fixed)).unwrap();
    let sender = made(|out| f::connect_data_interrupt(a, desc, out, place(A, 5), 0)).unwrap();
    vec![
        desc, segment, remote, map, sequence, queue, plain, caller, data, sender,
    ]
}

/// The kind of handle that a function takes first.
fn kind_of(name: &str) -> usize {
    match name {
        "Close"
        | "ConnectSegment"
        | "CreateSegment"
        | "AttachLocalSegment"
        | "CreateDMAQueue"
        | "CreateInterrupt"
        | "ConnectInterrupt"
        | "CreateDataInterrupt"
        | "ConnectDataInterrupt"
        | "ProbeNode" => 0,
        "DisconnectSegment" | "WaitForRemoteSegmentEvent" | "MapRemoteSegment" => 2,
        "UnmapSegment" | "CreateMapSequence" | "MemCpy" => 3,
        "RemoveSequence" | "StartSequence" | "CheckSequence" | "StoreBarrier" => 4,
        name if name.contains("D") && (name.ends_with("DMAQueue") || name.contains("Dma")) => 5,
        "RemoveInterrupt" | "WaitForInterrupt" => 6,
        "DisconnectInterrupt" | "TriggerInterrupt" => 7,
        "RemoveDataInterrupt" | "WaitForDataInterrupt" => 8,
        "DisconnectDataInterrupt" | "TriggerDataInterrupt" => 9,
        _ => 1,
    }
}

/// SI-ABI-7, SI-GEN-4, SI-GEN-10: NULL, memory of the program, a released handle, one of another
/// kind: to every function.
#[test]
fn what_is_no_handle_is_refused_by_all_functions() {
    let (_world, a, _b) = pair();
    let handles = handles(&a);
    let released = open(&a);
    f::close(&a, released, 0).unwrap();
    let foreign = Handle::from_pointer(Box::into_raw(Box::new(0_u64)));
    for (name, _, call) in calls(&a) {
        for handle in [NONE, foreign, released] {
            assert_eq!(call(handle, 0), Err(Error::IllegalParameter), "{name}");
        }
        for (kind, handle) in handles.iter().enumerate() {
            if kind != kind_of(name) {
                assert_eq!(call(*handle, 0), Err(Error::IllegalParameter), "{name}");
            }
        }
    }
}

/// SI-GEN-2, SI-GEN-9: each of the 32 bits is taken or refused, after the handle was looked at.
#[test]
fn every_function_takes_its_flags_and_no_others() {
    let (_world, a, _b) = pair();
    let handles = handles(&a);
    for (name, taken, call) in calls(&a) {
        // A transfer looks at three handles, and only then at flags: see below.
        if name.starts_with("StartDma") || name == "MemCpy" {
            continue;
        }
        for bit in 0..32 {
            let flag = 1 << bit;
            if taken & flag == 0 {
                let refused = call(handles[kind_of(name)], flag);
                assert_eq!(refused, Err(Error::IllegalFlag), "{name} {flag:#x}");
                let earlier = call(NONE, flag);
                assert_eq!(earlier, Err(Error::IllegalParameter), "{name} {flag:#x}");
            }
        }
    }
    let dma = |flag| {
        let source = Source::Segment(handles[1]);
        f::start_dma(&a, handles[5], source, handles[2], one(), None, flag)
    };
    let copy = |flag| f::mem_cpy(&a, NONE, few(), handles[3], 0, flag);
    for flag in [2, 8, 0x20, 0x80, 0x200, 0x400, 0x1000, 0x8000_0000] {
        assert_eq!(dma(flag), Err(Error::IllegalFlag), "{flag:#x}");
    }
    for bit in 2..32 {
        assert_eq!(copy(1 << bit), Err(Error::IllegalFlag));
    }
}

/// SI-GEN-25, SI-GEN-9: everything needs the library, and says so before anything else.
#[test]
fn nothing_works_without_the_library() {
    let world = World::new(1, 1 << 20);
    let p = uninitialized(&world, Host::A, CONFIG);
    for (name, _, call) in calls(&p) {
        assert_eq!(call(NONE, u32::MAX), Err(Error::NotInitialized), "{name}");
    }
    // SAFETY: NULL.
    let nothing = unsafe { Query::new(ptr::null_mut()) };
    assert_eq!(query(&p, 1, nothing, 0), Err(Error::NotInitialized));
    assert_eq!(f::cache_sync(&p, 1), Err(Error::NotInitialized));
    assert_eq!(f::missing::<_, ()>(&p, 1, 0), Err(Error::NotInitialized));
    let node = f::local_node_id(&p, 0, nowhere(), 0);
    assert_eq!(node, Err(Error::NotInitialized));
    p.initialize();
    assert_eq!(query(&p, 1, nothing, 0), Err(Error::IllegalParameter));
    let node = f::local_node_id(&p, 0, nowhere(), 0);
    assert_eq!(node, Err(Error::IllegalParameter));
}

/// SI-GEN-4, SI-GEN-11: where a handle is to go there has to be a place.
#[test]
fn a_place_for_the_handle_is_needed() {
    let (world, a, _b) = pair();
    let handles = handles(&a);
    let (desc, segment, remote, map) = (handles[0], handles[1], handles[2], handles[3]);
    let no = nowhere::<Handle>;
    let illegal = Err(Error::IllegalParameter);
    let contexts = world.contexts();
    assert_eq!(f::open(&a, no(), 0), illegal);
    assert_eq!(world.contexts(), contexts);
    assert_eq!(f::create_segment(&a, desc, no(), 9, 4096, None, 0), illegal);
    create(&a, desc, 9, 4096, 0).unwrap();
    assert_eq!(
        f::connect_segment(&a, desc, no(), place(A, 1), None, 0),
        illegal
    );
    let maps = f::map_local_segment(&a, segment, no(), part(0, 8), 0);
    assert_eq!(maps, Err(Error::IllegalParameter));
    let maps = f::map_remote_segment(&a, remote, no(), part(0, 8), 0);
    assert_eq!(maps, Err(Error::IllegalParameter));
    assert_eq!(f::create_map_sequence(&a, map, no(), 0), illegal);
    assert_eq!(f::create_dma_queue(&a, desc, no(), 0, 1, 0), illegal);
    assert_eq!(
        f::create_interrupt(&a, desc, no(), 0, number(), None, 0),
        illegal
    );
    let numberless = f::create_interrupt(&a, desc, anywhere(), 0, nowhere(), None, 0);
    assert_eq!(numberless, illegal);
    let lengthless = f::wait_for_data_interrupt(&a, handles[8], few(), nowhere(), 0, 0);
    assert_eq!(lengthless, illegal);
}

/// SI-GEN-7: a number beyond the range and one without an adapter, in every function with one.
#[test]
fn adapters_are_looked_up_by_all_functions() {
    let (_world, a, _b) = pair();
    let handles = handles(&a);
    let (desc, segment) = (handles[0], handles[1]);
    let at = |adapter| Place {
        adapter,
        ..place(B, 1)
    };
    for (adapter, error) in [
        (1, Error::NoSuchAdapterNo),
        (3, Error::NoSuchAdapterNo),
        (4, Error::IllegalAdapterNo),
        (u32::MAX, Error::IllegalAdapterNo),
    ] {
        let to = anywhere;
        let results = [
            f::prepare_segment(&a, segment, adapter, 0),
            f::set_segment_available(&a, segment, adapter, 0),
            f::set_segment_unavailable(&a, segment, adapter, 0),
            f::connect_segment(&a, desc, to(), at(adapter), None, 0),
            f::create_dma_queue(&a, desc, to(), adapter, 1, 0),
            f::create_interrupt(&a, desc, to(), adapter, number(), None, 0),
            f::create_data_interrupt(&a, desc, to(), adapter, number(), None, 0),
            f::connect_interrupt(&a, desc, to(), at(adapter), 0),
            f::connect_data_interrupt(&a, desc, to(), at(adapter), 0),
            f::probe_node(&a, desc, adapter, B, 0).map(|_| ()),
            f::local_node_id(&a, adapter, number(), 0),
        ];
        for result in results {
            assert_eq!(result, Err(error));
        }
    }
}

/// SI-GEN-3: what is not built says so, but not to flags that it would not take.
#[test]
fn what_is_not_built_says_so() {
    let (_world, a, _b) = pair();
    assert_eq!(f::missing::<_, ()>(&a, 0, 0), Err(Error::NotImplemented));
    assert_eq!(f::missing::<_, ()>(&a, 4, 4), Err(Error::NotImplemented));
    assert_eq!(f::missing::<_, ()>(&a, 4, 0), Err(Error::IllegalFlag));
}

/// SI-REGPCI-2, SI-UNRPCI-1: no bridge knows of requesters; what is said of them is looked at.
#[test]
fn requesters_are_not_supported() {
    let (_world, a, _b) = pair();
    let desc = open(&a);
    let good = f::Requester {
        adapter: 0,
        bus: 5,
        devfn: 8,
    };
    let flags = SCI_FLAG_BROADCAST | SCI_FLAG_PCIE_REQUESTER_GLOBAL;
    let register = |requester, flags| f::register_requester(&a, desc, requester, flags);
    let unregister = |requester, flags| f::unregister_requester(&a, desc, requester, flags);
    assert_eq!(register(good, flags), Err(Error::NotSupported));
    assert_eq!(register(good, 2), Err(Error::IllegalFlag));
    // What is not registered cannot be taken back.
    assert_eq!(unregister(good, 0), Err(Error::IllegalOperation));
    assert_eq!(unregister(good, flags), Err(Error::IllegalFlag));
    for (wrong, error) in [
        (f::Requester { adapter: 1, ..good }, Error::NoSuchAdapterNo),
        (f::Requester { adapter: 4, ..good }, Error::IllegalAdapterNo),
        (f::Requester { bus: 256, ..good }, Error::IllegalParameter),
        (f::Requester { devfn: 256, ..good }, Error::IllegalParameter),
    ] {
        assert_eq!(register(wrong, 0), Err(error));
        assert_eq!(unregister(wrong, 0), Err(error));
    }
    assert_eq!(
        f::register_requester(&a, NONE, good, 0),
        Err(Error::IllegalParameter)
    );
}

/// SI-GEN-22: many threads on the same objects.
#[test]
fn many_threads_may_call_at_the_same_time() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 7, 4096);
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let b = Arc::clone(&b);
            std::thread::spawn(move || {
                for _ in 0..50 {
                    let remote = connect(&b, A, 7).unwrap();
                    let (map, address) = map_remote(&b, remote, part(0, 4096), 0).unwrap();
                    write(address + n, 1);
                    let sequence = sequence(&b, map);
                    assert_eq!(f::start_sequence(&b, sequence, 0).1, Ok(()));
                    f::remove_sequence(&b, sequence, 0).unwrap();
                    f::unmap_segment(&b, map, 0).unwrap();
                    f::disconnect_segment(&b, remote, 0).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(f::remove_segment(&a, segment, 0), Ok(()));
}
