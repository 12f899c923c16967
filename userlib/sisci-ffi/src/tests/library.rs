// SPDX-License-Identifier: MIT OR Apache-2.0

//! The library, nodes and adapters, queries.

use super::*;
use crate::{
    functions::{close, local_node_id, node_ids_by_name, node_info_by_name, probe_node},
    process::Load,
    query::{query, Query},
};
use mp_c_abi::{Abi, PerProcess, Text};
use std::ffi::{c_void, CStr};

/// SI-INIT-1, SI-GEN-25: nothing works before, flags have to be 0.
#[test]
fn the_library_has_to_be_initialized() {
    let world = World::new(1, 1 << 20);
    let p = uninitialized(&world, Host::A, CONFIG);
    let opened = made(|out| functions::open(&p, out, 0));
    assert_eq!(opened, Err(Error::NotInitialized));
    assert_eq!(functions::initialize(&p, 1), Err(Error::IllegalFlag));
    assert_eq!(p.ready(), Err(Error::NotInitialized));
    assert_eq!(functions::initialize(&p, 0), Ok(()));
    open(&p);
}

/// SI-INIT-2: as often terminated as initialized.
#[test]
fn initializations_are_counted() {
    let world = World::new(1, 1 << 20);
    let p = program(&world, Host::A);
    p.initialize();
    p.terminate();
    assert_eq!(p.ready(), Ok(()));
    p.terminate();
    assert_eq!(p.ready(), Err(Error::NotInitialized));
    p.terminate();
    p.initialize();
    assert_eq!(p.ready(), Ok(()));
}

/// SI-OPEN-2: what was made on one virtual device is of use on another one; see also the tests of
/// transfers.
#[test]
fn virtual_devices_share_a_context() {
    let world = World::new(1, 1 << 20);
    let p = program(&world, Host::A);
    let (first, second) = (open(&p), open(&p));
    assert_eq!(world.contexts(), 1);
    close(&p, first, 0).unwrap();
    assert_eq!(world.contexts(), 1);
    close(&p, second, 0).unwrap();
    assert_eq!(world.contexts(), 0);
    open(&p);
    assert_eq!(world.contexts(), 1);
}

/// SI-TERM-1: nothing is left of what was closed.
#[test]
fn terminating_leaves_nothing_behind() {
    let world = World::new(1, 1 << 20);
    let p = program(&world, Host::A);
    let desc = open(&p);
    assert_eq!(world.contexts(), 1);
    close(&p, desc, 0).unwrap();
    p.terminate();
    assert_eq!(world.contexts(), 0);
}

/// SI-TERM-2: what is mapped stays, and callbacks end.
#[test]
fn terminating_with_everything_open_does_no_harm() {
    let (_world, a, b) = pair();
    let callback: LocalCallback = Box::new(|_, _| sisci::Action::Continue);
    let flags = sys::SCI_FLAG_USE_CALLBACK;
    let segment = create_with(&a, open(&a), 5, 4096, Some(callback), flags).unwrap();
    publish(&a, segment).unwrap();
    let (_, address) = map_local(&a, segment, part(0, 4096), 0).unwrap();
    a.terminate();
    write(address, 7);
    assert_eq!(read(address), 7);
    assert_eq!(
        functions::local_segment_id(&a, segment),
        Err(Error::NotInitialized)
    );
    connect(&b, A, 5).unwrap();
}

/// SI-OPEN-1, SI-CLOSE-1
#[test]
fn a_process_may_open_many_virtual_devices() {
    let world = World::new(1, 1 << 20);
    let p = program(&world, Host::A);
    let descs: Vec<_> = (0..64).map(|_| open(&p)).collect();
    for desc in descs {
        assert_eq!(close(&p, desc, 0), Ok(()));
        assert_eq!(close(&p, desc, 0), Err(Error::IllegalParameter));
    }
    assert_eq!(world.contexts(), 0);
}

/// SI-OPEN-2, SI-OPEN-3: one of each kind on one virtual device, or many.
#[test]
fn a_virtual_device_has_any_number_of_resources() {
    let (_world, a, b) = pair();
    let (at, to) = (open(&a), open(&b));
    for id in 0..16 {
        let segment = create(&a, at, id, 4096, 0).unwrap();
        publish(&a, segment).unwrap();
        made(|out| functions::connect_segment(&b, to, out, place(A, id), None, 0)).unwrap();
    }
}

/// SI-INIT-2, SI-GEN-6: without a driver it is the opening that fails, with the system's error.
#[test]
fn without_a_driver_opening_fails() {
    let load = || {
        Ok(Library::<FakeDevice>::new(Config::default(), || {
            Err(mp_fabric::Error::NotLoaded)
        }))
    };
    let p = Process::new(Box::leak(Box::new(load)), None);
    p.initialize();
    let opened = made(|out| functions::open(&p, out, 0));
    let errno = opened.unwrap_err().errno();
    assert_eq!(errno.map(|errno| errno.raw_os_error()), Some(libc::ENODEV));
}

/// SI-OPEN-4: with a driver of another version nothing is opened.
#[test]
fn a_driver_of_another_version_is_refused() {
    let world = World::new(1, 1 << 20);
    let p = program(&world, Host::A);
    let version = mp_fabric::sys::MP_FABRIC_VERSION;
    for other in [version + 1, 0] {
        world.set_version(other);
        let opened = made(|out| functions::open(&p, out, 0));
        assert_eq!(opened, Err(Error::InconsistentVersions));
    }
    world.set_version(version);
    open(&p);
}

/// SI-GEN-24: a child is initialized, has nothing, and the parent keeps what it has.
#[test]
fn a_forked_child_cannot_use_what_its_parent_has() {
    static WORLD: std::sync::OnceLock<World> = std::sync::OnceLock::new();
    let load: Load<FakeDevice> = &|| {
        let config = Config::parse(CONFIG).unwrap();
        Ok(Library::new(config, || {
            let world = WORLD.get_or_init(|| World::new(1, 1 << 20));
            Ok(Fabric::with_device(world.open(Host::A)))
        }))
    };
    let make = move |parent: Option<&_>| Process::new(load, parent);
    let processes = PerProcess::new(Box::leak(Box::new(make)));
    let parent = processes.of(100);
    parent.initialize();
    let desc = open(parent);
    let segment = create(parent, desc, 1, 4096, 0).unwrap();
    let child = processes.of(200);
    assert_eq!(close(child, desc, 0), Err(Error::IllegalOperation));
    let removed = functions::remove_segment(child, segment, 0);
    assert_eq!(removed, Err(Error::IllegalOperation));
    let own = open(child);
    assert_eq!(close(child, own, 0), Ok(()));
    assert_eq!(functions::remove_segment(parent, segment, 0), Ok(()));
}

/// SI-GEN-24: whatever threads of its parent are at, a child can use the library.
#[test]
fn a_child_waits_for_no_thread_of_its_parent() {
    // The stand-in is no place that processes share: each has its own.
    let load: Load<FakeDevice> = &|| {
        let config = Config::parse(CONFIG).unwrap();
        Ok(Library::new(config, || {
            Ok(Fabric::with_device(World::new(1, 1 << 20).open(Host::A)))
        }))
    };
    let make = move |parent: Option<&_>| Process::new(load, parent);
    let processes = PerProcess::new(Box::leak(Box::new(make)));
    processes.current().initialize();
    mp_testing::children_of_threads(|| {
        let process = processes.current();
        let desc = open(process);
        let segment = create(process, desc, 0, 4096, sys::SCI_FLAG_AUTO_ID).unwrap();
        publish(process, segment).unwrap();
        assert_eq!(functions::remove_segment(process, segment, 0), Ok(()));
        assert_eq!(close(process, desc, 0), Ok(()));
    });
}

/// SI-LNODE-1, SI-GEN-7
#[test]
fn a_node_knows_its_id() {
    let (_world, a, b) = pair();
    let mut node = 0;
    assert_eq!(local_node_id(&a, 0, out(&mut node), 0), Ok(()));
    assert_eq!(node, A);
    assert_eq!(local_node_id(&b, 0, out(&mut node), 0), Ok(()));
    assert_eq!(node, B);
    let of = |adapter| local_node_id(&a, adapter, out(&mut 0), 0);
    assert_eq!(of(1), Err(Error::NoSuchAdapterNo));
    assert_eq!(of(4), Err(Error::IllegalAdapterNo));
    assert_eq!(of(u32::MAX), Err(Error::IllegalAdapterNo));
    let world = World::new(1, 1 << 20);
    let alone = configured(&world, Host::A, "");
    assert_eq!(local_node_id(&alone, 0, out(&mut node), 0), Ok(()));
    assert_eq!(node, sisci::DEFAULT_NODE);
    let other = configured(&world, Host::A, "node 8 peer 1");
    let found = local_node_id(&other, 0, out(&mut node), 0);
    assert_eq!(found, Err(Error::NoSuchNodeId));
}

/// SI-PROBE-1, SI-PROBE-2, SI-GEN-7, SI-GEN-8
#[test]
fn a_node_is_reachable_or_the_error_tells_why_not() {
    let (world, a, _b) = pair();
    let desc = open(&a);
    let probe = |adapter, node| probe_node(&a, desc, adapter, node, 0);
    assert_eq!(probe(0, B), Ok(1));
    assert_eq!(probe(0, A), Ok(1));
    assert_eq!(probe(0, C), Err(Error::NoRemoteLinkAccess));
    assert_eq!(probe(0, 16), Err(Error::NoSuchNodeId));
    for node in [0, 252, 253, u32::MAX] {
        assert_eq!(probe(0, node), Err(Error::IllegalNodeId));
    }
    assert_eq!(probe(1, B), Err(Error::NoSuchAdapterNo));
    assert_eq!(probe(9, 0), Err(Error::IllegalAdapterNo));
    world.set_silent(true);
    assert_eq!(probe(0, B), Err(Error::NoRemoteLinkAccess));
    assert_eq!(probe(0, A), Ok(1));
    world.set_up(0, false);
    assert_eq!(probe(0, B), Err(Error::NoLinkAccess));
    assert_eq!(probe(0, A), Ok(1));
}

fn text(name: &'static CStr) -> Text {
    // SAFETY: It ends with NUL and stays.
    unsafe { Text::new(name.as_ptr()) }
}

/// SI-NIDNAME-1, SI-NIDNAME-2, SI-NINFNAME-1
#[test]
fn names_are_looked_up_in_the_configuration() {
    let world = World::new(1, 1 << 20);
    let config = "node 4 peer 0 name x\nnode 8 peer 0 adapter 3 name x\nnode 12 peer 1 name y";
    let a = configured(&world, Host::A, config);
    let ask = |name| {
        let (mut nodes, mut adapters, mut kind) = ([9; 4], [9; 4], 9);
        // SAFETY: The adapters outlive the call.
        let to = unsafe { Room::new(adapters.as_mut_ptr(), 4) };
        node_info_by_name(&a, text(name), to, out(&mut nodes), out(&mut kind), 0).unwrap();
        (nodes, adapters, kind)
    };
    assert_eq!(
        ask(c"x"),
        ([4, 8, 0, 0], [0, 3, 0, 0], sys::DIS_ADAPTER_NTB)
    );
    assert_eq!(ask(c"y"), ([12, 0, 0, 0], [0; 4], sys::DIS_ADAPTER_NTB));
    assert_eq!(ask(c"z"), ([0; 4], [0; 4], sys::DIS_ADAPTER_UNKNOWN));
    // SAFETY: NULL.
    let null = unsafe { Text::new(ptr::null()) };
    let nameless = node_ids_by_name(&a, null, out(&mut [0; 4]), nowhere(), 0);
    assert_eq!(nameless, Err(Error::IllegalParameter));
    let only = node_ids_by_name(&a, text(c"x"), out(&mut [0; 4]), nowhere(), 0);
    assert_eq!(only, Ok(()));
    // SAFETY: NULL.
    let nowhere_to = unsafe { Room::new(ptr::null_mut(), 4) };
    let lacking = node_info_by_name(&a, text(c"x"), nowhere_to, out(&mut [0; 4]), nowhere(), 0);
    assert_eq!(lacking, Err(Error::IllegalParameter));
}

fn asked<T>(p: &Program, command: u32, structure: &mut T, flags: u32) -> Result<()> {
    let pointer: *mut T = structure;
    // SAFETY: The tests pass the structure that belongs to the command.
    query(p, command, unsafe { Query::new(pointer.cast()) }, flags)
}

/// SI-QUERY-1, SI-QUERY-2
#[test]
fn texts_are_cut_to_the_room_that_there_is() {
    let (_world, a, _b) = pair();
    let mut room = [b'x'; 64];
    let mut ask = |command, length| {
        room.fill(b'x');
        let str_ = room.as_mut_ptr().cast();
        let mut structure = sys::sci_query_string_t { str_, length };
        asked(&a, command, &mut structure, 0)?;
        let end = room.iter().position(|byte| *byte == 0).unwrap();
        Ok((
            String::from_utf8(room[..end].into()).unwrap(),
            room[end + 1],
        ))
    };
    assert_eq!(ask(sys::SCI_Q_VENDORID, 64).unwrap().0, "pximc-ntb");
    assert!(ask(sys::SCI_Q_API, 64)
        .unwrap()
        .0
        .starts_with("SISCI API 2"));
    assert_eq!(ask(sys::SCI_Q_VENDORID, 4), Ok(("pxi".into(), b'x')));
    assert_eq!(ask(sys::SCI_Q_VENDORID, 1), Ok((String::new(), b'x')));
    assert_eq!(ask(sys::SCI_Q_VENDORID, 0), Err(Error::OutOfRange));
}

fn about(p: &Program, subcommand: u32, port: u32, flags: u32) -> Result<u32> {
    let mut answer = 99_u32;
    let mut structure = sys::sci_query_adapter_t {
        localAdapterNo: 0,
        portNo: port,
        subcommand,
        data: (&raw mut answer).cast(),
    };
    asked(p, sys::SCI_Q_ADAPTER, &mut structure, flags)?;
    Ok(answer)
}

/// SI-QUERY-1, SI-QUERY-3, SI-QUERY-4: each subcommand answers or is not supported.
#[test]
fn an_adapter_tells_of_itself() {
    let (world, a, _b) = pair();
    assert_eq!(about(&a, sys::SCI_Q_ADAPTER_NODEID, 0, 0), Ok(A));
    assert_eq!(about(&a, sys::SCI_Q_ADAPTER_CONFIGURED, 0, 0), Ok(1));
    let kind = about(&a, sys::SCI_Q_ADAPTER_CARD_TYPE, 0, 0);
    assert_eq!(kind, Ok(sys::DIS_ADAPTER_NTB));
    assert_eq!(about(&a, sys::SCI_Q_ADAPTER_NUMBER_OF_LINKS, 0, 0), Ok(1));
    let up = || about(&a, sys::SCI_Q_ADAPTER_LINK_OPERATIONAL, 0, 0);
    assert_eq!(up(), Ok(1));
    world.set_up(0, false);
    assert_eq!(up(), Ok(0));
    let port = about(&a, sys::SCI_Q_ADAPTER_LINK_OPERATIONAL, 1, 0);
    assert_eq!(port, Err(Error::IllegalParameter));
    // Where the stand-in says that the bridge is.
    let bdf = about(&a, sys::SCI_Q_ADAPTER_BDF, 0, 0);
    assert_eq!(bdf, Ok(0x42 << 8 | 0x1f << 3 | 5));
    assert_eq!(about(&a, sys::SCI_Q_ADAPTER_MCAST_MAX_GROUPS, 0, 0), Ok(0));
    let mtu = about(&a, sys::SCI_Q_ADAPTER_DMA_MTU, 0, sys::SCI_FLAG_DMA_SYSDMA);
    assert!(mtu.unwrap() > 0);
    assert_eq!(about(&a, sys::SCI_Q_ADAPTER_LINK_ENABLED, 0, 0), Ok(1));
    for subcommand in [
        sys::SCI_Q_ADAPTER_SERIAL_NUMBER,
        sys::SCI_Q_ADAPTER_LINK_UPTIME,
        sys::SCI_Q_ADAPTER_LINK_DOWNTIME,
        sys::SCI_Q_ADAPTER_LINK_CABLE_INSERTED,
        sys::SCI_Q_ADAPTER_LINK_PARTNER_PORT_NO,
        // No such function on the host that runs the tests.
        sys::SCI_Q_ADAPTER_LINK_WIDTH,
        sys::SCI_Q_ADAPTER_LINK_SPEED,
    ] {
        assert_eq!(about(&a, subcommand, 0, 0), Err(Error::NotSupported));
    }
    assert_eq!(about(&a, 0x3ff, 0, 0), Err(Error::IllegalQuery));
    assert_eq!(
        about(&a, sys::SCI_Q_ADAPTER_NODEID, 0, 1),
        Err(Error::IllegalFlag)
    );
}

/// SI-QUERY-5
#[test]
fn copying_is_asked_for_by_its_mode() {
    let (_world, a, _b) = pair();
    let ask = |subcommand, data: *mut c_void, flags| {
        let mut structure = sys::sci_query_dma_t {
            localAdapterNo: 0,
            subcommand,
            data,
        };
        asked(&a, sys::SCI_Q_DMA, &mut structure, flags)
    };
    let mut there = 9_u32;
    let to: *mut c_void = (&raw mut there).cast();
    for (mode, expected) in [
        (sys::SCI_FLAG_DMA_SYSDMA, 1),
        (sys::SCI_FLAG_DMA_ADAPTER, 0),
        (sys::SCI_FLAG_DMA_GLOBAL, 0),
    ] {
        assert_eq!(ask(sys::SCI_Q_DMA_AVAILABLE, to, mode), Ok(()));
        // SAFETY: The pointer is that of the number.
        assert_eq!(unsafe { to.cast::<u32>().read() }, expected);
    }
    assert_eq!(
        ask(sys::SCI_Q_DMA_AVAILABLE, to, 0),
        Err(Error::IllegalFlag)
    );
    let two = sys::SCI_FLAG_DMA_SYSDMA | sys::SCI_FLAG_DMA_GLOBAL;
    assert_eq!(
        ask(sys::SCI_Q_DMA_AVAILABLE, to, two),
        Err(Error::IllegalFlag)
    );
    let mut capabilities = [0_u32; 8];
    let all = (&raw mut capabilities).cast();
    let mode = sys::SCI_FLAG_DMA_SYSDMA;
    assert_eq!(ask(sys::SCI_Q_DMA_CAPABILITIES, all, mode), Ok(()));
    // SAFETY: The pointer is that of the numbers.
    let told = unsafe { all.cast::<[u32; 8]>().read() };
    assert_eq!(told[2], sisci::VECTOR_MAX);
    let none = ask(sys::SCI_Q_DMA_CAPABILITIES, all, sys::SCI_FLAG_DMA_GLOBAL);
    assert_eq!(none, Err(Error::DmaNotAvailable));
}

/// SI-QUERY-6, SI-QUERY-7, SI-QUERY-9: nobody is told an address.
#[test]
fn addresses_are_not_told() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 3, 4096);
    for subcommand in [
        sys::SCI_Q_LOCAL_SEGMENT_IOADDR,
        sys::SCI_Q_LOCAL_SEGMENT_VIRTUAL_KERNEL_ADDR,
        sys::SCI_Q_LOCAL_SEGMENT_PHYS_ADDR,
    ] {
        let mut structure = sys::sci_query_local_segment_t {
            segment: segment.to_c(),
            subcommand,
            data: sys::sci_query_local_segment_t__bindgen_ty_1 { ioaddr: 9 },
        };
        asked(&a, sys::SCI_Q_LOCAL_SEGMENT, &mut structure, 0).unwrap();
        // SAFETY: The only member.
        assert_eq!(unsafe { structure.data.ioaddr }, 0);
    }
    let remote = connect(&b, A, 3).unwrap();
    let ask = || {
        let mut structure = sys::sci_query_remote_segment_t {
            segment: remote.to_c(),
            subcommand: sys::SCI_Q_REMOTE_SEGMENT_IOADDR,
            data: sys::sci_query_remote_segment_t__bindgen_ty_1 { ioaddr: 9 },
        };
        asked(&b, sys::SCI_Q_REMOTE_SEGMENT, &mut structure, 0)?;
        // SAFETY: The only member.
        Ok(unsafe { structure.data.ioaddr })
    };
    assert_eq!(ask(), Err(Error::IllegalOperation));
    map_remote(&b, remote, part(0, 4096), 0).unwrap();
    assert_eq!(ask(), Ok(0));
}

/// SI-MAPR-8, SI-QUERY-8
#[test]
fn a_map_knows_whether_it_is_of_this_host() {
    let (_world, a, b) = pair();
    let segment = offered(&a, 3, 4096);
    let ask = |p: &Program, map: Handle, subcommand| {
        let mut structure = sys::sci_query_map_t {
            map: map.to_c(),
            subcommand,
            data: 9,
        };
        asked(p, sys::SCI_Q_MAP, &mut structure, 0)?;
        Ok(structure.data)
    };
    let target = sys::SCI_Q_MAP_MAPPED_TO_LOCAL_TARGET;
    let (local, _) = map_local(&a, segment, part(0, 4096), 0).unwrap();
    assert_eq!(ask(&a, local, target), Ok(1));
    let own = connect(&a, A, 3).unwrap();
    let (own, _) = map_remote(&a, own, part(0, 4096), 0).unwrap();
    assert_eq!(ask(&a, own, target), Ok(1));
    let remote = connect(&b, A, 3).unwrap();
    let (remote, _) = map_remote(&b, remote, part(0, 4096), 0).unwrap();
    assert_eq!(ask(&b, remote, target), Ok(0));
    assert_eq!(ask(&b, remote, sys::SCI_Q_MAP_PHYS_ADDR), Ok(0));
    assert_eq!(ask(&b, remote, 0x7ff), Err(Error::IllegalQuery));
}

/// SI-QUERY-1: what is no query is told.
#[test]
fn an_unknown_query_is_refused() {
    let (_world, a, _b) = pair();
    assert_eq!(asked(&a, 99, &mut 0, 0), Err(Error::IllegalQuery));
    let mut line = 0_u32;
    let mut structure = sys::sci_query_system_t {
        subcommand: sys::SCI_Q_SYSTEM_CPU_CACHE_LINE_SIZE,
        data: (&raw mut line).cast(),
    };
    assert_eq!(asked(&a, sys::SCI_Q_SYSTEM, &mut structure, 0), Ok(()));
    assert!(line.is_power_of_two());
    structure.subcommand = 0x4ff;
    let unknown = asked(&a, sys::SCI_Q_SYSTEM, &mut structure, 0);
    assert_eq!(unknown, Err(Error::IllegalQuery));
}
