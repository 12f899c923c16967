// SPDX-License-Identifier: MIT OR Apache-2.0

//! Becoming a node, being one, and being none any more.

use super::*;
use mp_c_abi::PerProcess;
use mp_testing::child;
use std::{
    ffi::{c_char, CStr},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// MC-INIT-1, MC-INIT-5, MC-INIT-10, MC-DOMID-1, MC-NODEID-1, MC-FINAL-1: and what is told.
#[test]
fn a_program_is_a_node_until_it_finalizes() {
    let program = program(&world(), Host::B);
    let ids = |program: &Program| {
        let domain = program.with(functions::domain_id_get)?;
        Ok((domain.0, program.with(functions::node_id_get)?.0))
    };
    assert_eq!(ids(&program), Err(Error::NodeNotInit));
    for _ in 0..2 {
        let info = initialize(&program, 1, 7).unwrap();
        assert_eq!(
            (info.mcapi_version, info.implementation_version),
            (0x2000, 0x2000)
        );
        assert_eq!(info.organization_id, 3);
        assert_eq!(
            (
                info.number_of_domains,
                info.number_of_nodes,
                info.number_of_ports
            ),
            (0x1_0000, 0x8000, 0xFFFF)
        );
        // SAFETY: It is there until the node is finalized.
        let implementation = unsafe { info.impl_info.read() };
        assert_eq!((implementation.size, implementation.host), (8, 1));
        assert_eq!(ids(&program), Ok((1, 7)));
        assert_eq!(functions::finalize(&program), Ok(()));
        assert_eq!(functions::finalize(&program), Err(Error::NodeNotInit));
        assert_eq!(ids(&program), Err(Error::NodeNotInit));
    }
}

/// MC-INIT-2, MC-INIT-6, MC-INIT-8: what is refused leaves everything as it is.
#[test]
fn what_cannot_be_a_node_is_refused() {
    let world = world();
    let (program, other) = (program(&world, Host::A), super::program(&world, Host::B));
    let refused = |program: &Program, domain, node| initialize(program, domain, node).err();
    assert_eq!(refused(&program, 0x1_0000, 1), Some(Error::DomainInvalid));
    assert_eq!(refused(&program, 0, 0x8000), Some(Error::NodeInvalid));
    assert_eq!(refused(&program, 1, 1), Some(Error::DomainInvalid));
    initialize(&program, 0, 1).unwrap();
    assert_eq!(refused(&program, 0, 2), Some(Error::NodeInitialized));
    assert_eq!(program.with(functions::node_id_get).unwrap().0, 1);
    let again = super::program(&world, Host::A);
    assert_eq!(refused(&again, 0, 1), Some(Error::NodeInitFailed));
    initialize(&other, 1, 1).unwrap();
}

/// MC-INIT-3, MC-INIT-4, A-22: NULL and parameters that were never initialized are none; there must
/// be a place for the information.
#[test]
fn parameters_are_optional_and_looked_at() {
    let program = program(&world(), Host::A);
    let mut info = unset::<sys::mcapi_info_t>();
    let good = PARAMETERS;
    let mut attributes = unset::<sys::mcapi_node_attributes_t>();
    let to = out(&mut info);
    let start = |attributes, parameters, info| {
        let started = functions::initialize(&program, 0, 1, attributes, parameters, info);
        if started.is_ok() {
            functions::finalize(&program).unwrap();
        }
        started
    };
    let none = In::NULL;
    let refused = Err(Error::Parameter);
    assert_eq!(start(none, In::NULL, Out::NULL), refused);
    let small = sys::mcapi_param_t { size: 4, ..good };
    let odd = sys::mcapi_param_t {
        reserved: [1; 11],
        ..good
    };
    let unknown = sys::mcapi_param_t { flags: 2, ..good };
    let endpoints = sys::mcapi_param_t {
        max_endpoints: mcapi::ENDPOINTS_MAX as u32 + 1,
        ..good
    };
    let requests = sys::mcapi_param_t {
        max_requests: 4097,
        ..good
    };
    for bad in [small, odd, unknown, endpoints, requests] {
        assert_eq!(start(none, given(&bad), to), refused);
    }
    assert_eq!(start(given(&attributes), In::NULL, to), refused);
    assert_eq!(info.mcapi_version, UNTOUCHED);
    let to = out(&mut info);
    assert_eq!(start(none, given(&good), to), Ok(()));
    assert_eq!(start(none, given(&unset()), to), Ok(()));
    functions::node_init_attributes(&program, out(&mut attributes)).unwrap();
    assert_eq!(start(given(&attributes), In::NULL, to), Ok(()));
}

/// MC-NATTRINIT-1, MC-NATTRSET-1, MC-NATTRSET-3, MC-NATTRSET-4
#[test]
fn attributes_of_a_node_are_set_before_it_is_one() {
    let program = program(&world(), Host::A);
    let mut attributes = unset::<sys::mcapi_node_attributes_t>();
    let (regular, other) = (0_u32.to_ne_bytes(), 1_u32.to_ne_bytes());
    let set = |attributes: Out<_>, number, value| {
        functions::node_set_attribute(&program, attributes, number, value)
    };
    let at = out(&mut attributes);
    assert_eq!(set(at, 0, input(&regular)), Err(Error::Parameter));
    assert_eq!(set(Out::NULL, 0, input(&regular)), Err(Error::Parameter));
    let nowhere = functions::node_init_attributes(&program, Out::NULL);
    assert_eq!(nowhere, Err(Error::Parameter));
    functions::node_init_attributes(&program, at).unwrap();
    assert_eq!(set(at, 0, no_input(4)), Err(Error::Parameter));
    assert_eq!(set(at, 1, input(&regular)), Err(Error::AttributeNumber));
    assert_eq!(set(at, 0, input(&regular[..3])), Err(Error::AttributeSize));
    assert_eq!(set(at, 0, input(&other)), Err(Error::AttributeValue));
    assert_eq!(set(at, 0, input(&regular)), Ok(()));
    let mut info = unset::<sys::mcapi_info_t>();
    let to = out(&mut info);
    functions::initialize(&program, 0, 1, given(&attributes), In::NULL, to).unwrap();
}

/// MC-NATTRGET-1, MC-NATTRGET-2: of this node and of others; nothing is written without success.
#[test]
fn attributes_of_nodes_are_told() {
    let [a, _b] = pair();
    let mut told = UNTOUCHED.to_ne_bytes();
    let mut get = |domain, node, number, len: usize| {
        told = UNTOUCHED.to_ne_bytes();
        let place = room(&mut told[..len]);
        let got = a.with(|state| functions::node_get_attribute(state, domain, node, number, place));
        (got, u32::from_ne_bytes(told))
    };
    assert_eq!(get(0, 1, 0, 4), (Ok(()), 0));
    assert_eq!(get(1, 2, 0, 4), (Ok(()), 0));
    assert_eq!(get(1, 2, 1, 4), (Err(Error::AttributeNumber), UNTOUCHED));
    assert_eq!(get(1, 2, 0, 3), (Err(Error::AttributeSize), UNTOUCHED));
    assert_eq!(get(1, 9, 0, 4), (Err(Error::NodeInvalid), UNTOUCHED));
    assert_eq!(
        get(0x1_0000, 1, 0, 4),
        (Err(Error::DomainInvalid), UNTOUCHED)
    );
    let nowhere = a.with(|state| functions::node_get_attribute(state, 0, 1, 0, no_room(4)));
    assert_eq!(nowhere, Err(Error::Parameter));
}

/// MC-FINAL-2, MC-FINAL-4: those who wait return, and finalizing returns after them.
#[test]
fn finalizing_ends_calls_that_wait() {
    let program = node(&world(), Host::A, 1);
    let endpoint = create(&program, 5);
    let mut bytes = [0; 8];
    let place = room(&mut bytes);
    let (request, _) = begin(&program, |node| {
        functions::msg_recv_i(node, endpoint, place)
    })
    .unwrap();
    let has_left = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            program.with(|node| {
                let (mut bytes, mut size) = ([0; 8], 0);
                let (place, size) = (room(&mut bytes), out(&mut size));
                let received = functions::msg_recv(node, endpoint, place, size);
                thread::sleep(Duration::from_millis(50));
                has_left.store(true, Ordering::SeqCst);
                received
            })
        });
        let waiting = scope.spawn(|| wait(&program, request));
        thread::sleep(Duration::from_millis(50));
        functions::finalize(&program).unwrap();
        assert!(has_left.load(Ordering::SeqCst));
        assert_eq!(receiving.join().unwrap(), Err(Error::NodeNotInit));
        assert_eq!(waiting.join().unwrap(), Err(Error::RequestCancelled));
    });
    // MC-REQ-11: and requests are those of the next node.
    initialize(&program, 0, 1).unwrap();
    assert_eq!(wait(&program, request), Err(Error::RequestInvalid));
}

/// MC-GEN-15: a forked child is no node, and may become one.
#[test]
fn a_forked_child_is_no_node() {
    static PROCESSES: PerProcess<Program> = PerProcess::new(&|_| program(&world(), Host::A));
    initialize(PROCESSES.current(), 0, 1).unwrap();
    let of_child = || {
        let own = PROCESSES.current();
        u8::from(functions::finalize(own) == Err(Error::NodeNotInit))
    };
    assert_eq!(child(of_child), 1);
    assert_eq!(functions::finalize(PROCESSES.current()), Ok(()));
}

/// MC-DISP-1, MC-DISP-2, MC-DISP-3
#[test]
fn statuses_have_names() {
    let name = |status, len: usize| {
        let mut message = [0x5A as c_char; 40];
        // SAFETY: There is as much room.
        let place = unsafe { Room::new(message.as_mut_ptr(), len) };
        let written = functions::display_status(status, place);
        assert!(message[len..].iter().all(|byte| *byte == 0x5A));
        written.then(|| {
            // SAFETY: It ends with NUL, which is asserted, within the room.
            let text = unsafe { CStr::from_ptr(message.as_ptr()) };
            assert!(text.count_bytes() < len);
            text.to_str().unwrap().to_owned()
        })
    };
    let named = |status| name(status, 32).unwrap();
    assert_eq!(named(sys::MCAPI_SUCCESS), "MCAPI_SUCCESS");
    assert_eq!(named(sys::MCAPI_PENDING), "MCAPI_PENDING");
    assert_eq!(named(sys::MCAPI_TIMEOUT), "MCAPI_TIMEOUT");
    assert_eq!(
        named(sys::MCAPI_ERR_CHAN_CLOSEPENDING),
        "MCAPI_ERR_CHAN_CLOSEPENDING"
    );
    assert_eq!(named(sys::MCAPI_ERR_GENERAL), "MCAPI_ERR_GENERAL");
    for none in [0, sys::MCAPI_STATUSCODE_END, 9999] {
        assert_eq!(named(none), "");
    }
    assert_eq!(name(sys::MCAPI_SUCCESS, 8).unwrap(), "MCAPI_S");
    assert_eq!(name(sys::MCAPI_SUCCESS, 1).unwrap(), "");
    assert_eq!(name(sys::MCAPI_SUCCESS, 0), None);
    // SAFETY: NULL.
    let nowhere = unsafe { Room::new(ptr::null_mut(), 8) };
    assert!(!functions::display_status(sys::MCAPI_SUCCESS, nowhere));
}

/// MC-INIT-5: the number of domains is that of the configuration file, if there is one.
#[test]
fn domains_of_a_configuration_file_are_counted() {
    let world = world();
    let load = move || {
        let fabric = mcapi::Fabric::with_device(world.open(Host::A));
        let topology = mcapi::Topology::parse("domain 7 0 1\ndomain 9 1").unwrap();
        Ok((fabric, topology))
    };
    let program = Program::new(Box::leak(Box::new(load)));
    let refused = initialize(&program, 0, 1).err();
    assert_eq!(refused, Some(Error::DomainInvalid));
    let info = initialize(&program, 7, 1).unwrap();
    assert_eq!(info.number_of_domains, 2);
}

/// MC-INIT-7, MC-FINAL-2, MC-REQ-11: a node that begins again has nothing of the one before, a thousand
/// times, and leaves nothing behind.
#[test]
fn a_node_begins_clean_each_time() {
    let world = world();
    let program = program(&world, Host::A);
    for round in 0..1000 {
        initialize(&program, 0, 1).unwrap();
        let endpoint = create(&program, 5);
        assert_eq!(available(&program, endpoint), 0);
        send(&program, endpoint, endpoint, b"lost").unwrap();
        let mut bytes = [0; 4];
        let other = create(&program, 6);
        let request = post(&program, other, &mut bytes);
        functions::finalize(&program).unwrap();
        if round % 100 == 0 {
            initialize(&program, 0, 1).unwrap();
            assert_eq!(wait(&program, request), Err(Error::RequestInvalid));
            functions::finalize(&program).unwrap();
        }
    }
    assert_eq!(world.contexts(), 0);
}

/// MC-NATTRSET-1, MC-NATTRSET-2, MC-NATTRGET-1: setting changes the structure that is passed and no
/// other one, and a node has what the structure says when it is initialized, also for other nodes. The
/// specification has one attribute, with one value.
#[test]
fn a_node_has_the_attributes_that_it_was_initialized_with() {
    let world = world();
    let (program, other) = (program(&world, Host::A), node(&world, Host::B, 2));
    let mut attributes = [(); 2].map(|()| unset::<sys::mcapi_node_attributes_t>());
    for each in &mut attributes {
        functions::node_init_attributes(&program, out(each)).unwrap();
    }
    let [passed, beside] = &mut attributes;
    let [before, odd] = [*passed; 2].map(|mut each| {
        each.entries[0].valid = 0;
        each
    });
    let regular = sys::MCAPI_NODE_ATTR_TYPE_REGULAR.to_ne_bytes();
    let set =
        |at: Out<_>, value: &[u8]| functions::node_set_attribute(&program, at, 0, input(value));
    set(out(passed), &regular).unwrap();
    let entry = |of: &sys::mcapi_node_attributes_t| (of.entries[0].valid, of.entries[0].value);
    assert_eq!(
        (entry(passed), entry(beside), entry(&before)),
        ((1, 0), (0, 0), (0, 0))
    );
    // What the structure says counts: here what only somebody else can have written.
    let start = |attributes: &sys::mcapi_node_attributes_t| {
        let mut info = unset::<sys::mcapi_info_t>();
        let place = out(&mut info);
        functions::initialize(&program, 0, 1, given(attributes), In::NULL, place)
    };
    let mut written = odd;
    (written.entries[0].valid, written.entries[0].value) = (1, 1);
    assert_eq!(start(&written), Err(Error::Parameter));
    start(passed).unwrap();
    let told = |program: &Program| -> Result<[u8; 4], Error> {
        let mut told = [0x5A; 4];
        let place = room(&mut told);
        program.with(|state| functions::node_get_attribute(state, 0, 1, 0, place))?;
        Ok(told)
    };
    for asks in [&program, &other] {
        assert_eq!(told(asks), Ok(regular));
    }
    // Afterwards the structure is the program's, and nothing of it reaches the node.
    assert_eq!(
        set(out(passed), &1_u32.to_ne_bytes()),
        Err(Error::AttributeValue)
    );
    passed.entries[0].value = 1;
    assert_eq!(start(passed), Err(Error::NodeInitialized));
    for asks in [&program, &other] {
        assert_eq!(told(asks), Ok(regular));
    }
}

/// MC-INIT2-1, MC-NSTART-1, MC-NRUNDOWN-1: how far a node is, as it says itself, is told to all that ask,
/// and can be set by its functions only; a node that was initialized as usual is running.
#[test]
fn nodes_tell_how_far_they_are() {
    let world = world();
    let (program, other) = (program(&world, Host::A), node(&world, Host::B, 2));
    let start = |node, start| {
        let mut info = unset::<sys::mcapi_info_t>();
        let (attributes, place) = (In::NULL, out(&mut info));
        functions::initialize2(&program, 0, node, attributes, In::NULL, place, start)
    };
    let told = |domain, node| {
        let told = [&program, &other].map(|asks| -> Result<u32, Error> {
            let mut told = UNTOUCHED.to_ne_bytes();
            let place = room(&mut told);
            let number = sys::MCAPI_NODE_ATTR_STATE;
            asks.with(|state| functions::node_get_attribute(state, domain, node, number, place))?;
            Ok(u32::from_ne_bytes(told))
        });
        assert_eq!(told[0], told[1]);
        told[0]
    };
    start(1, 0).unwrap();
    assert_eq!(told(1, 2), Ok(sys::MCAPI_NODE_ATTR_STATE_RUNNING));
    assert_eq!(told(0, 1), Ok(sys::MCAPI_NODE_ATTR_STATE_INITIALIZED));
    // It can do what every node can.
    let endpoint = create(&program, 5);
    send(&program, endpoint, endpoint, b"early").unwrap();
    assert_eq!(receive(&program, endpoint, 8), (Ok(()), b"early".to_vec()));
    type Mark = fn(&Node) -> Result<()>;
    let marks: [(Mark, u32); 4] = [
        (functions::node_start, sys::MCAPI_NODE_ATTR_STATE_RUNNING),
        (functions::node_start, sys::MCAPI_NODE_ATTR_STATE_RUNNING),
        (functions::node_rundown, sys::MCAPI_NODE_ATTR_STATE_RUNDOWN),
        (functions::node_start, sys::MCAPI_NODE_ATTR_STATE_RUNNING),
    ];
    for (mark, expected) in marks {
        program.with(mark).unwrap();
        assert_eq!(told(0, 1), Ok(expected));
        assert_eq!(told(1, 2), Ok(sys::MCAPI_NODE_ATTR_STATE_RUNNING));
    }
    assert_eq!(start(3, 1), Err(Error::NodeInitialized));
    let mut attributes = unset::<sys::mcapi_node_attributes_t>();
    functions::node_init_attributes(&program, out(&mut attributes)).unwrap();
    let number = sys::MCAPI_NODE_ATTR_STATE;
    let set = functions::node_set_attribute(&program, out(&mut attributes), number, input(&[0; 4]));
    assert_eq!(set, Err(Error::AttributeReadOnly));
    // The next node is a new one.
    functions::finalize(&program).unwrap();
    start(1, 7).unwrap();
    assert_eq!(told(0, 1), Ok(sys::MCAPI_NODE_ATTR_STATE_RUNNING));
}

/// MC-INIT-2, MC-GEN-8: of two threads that initialize at once one does, and the other one is told that
/// the program is a node.
#[test]
fn one_of_two_threads_initializes() {
    let program = program(&world(), Host::A);
    for _ in 0..20 {
        let both = std::sync::Barrier::new(2);
        let ends: Vec<_> = thread::scope(|scope| {
            let threads = [1, 2].map(|number| {
                let (program, both) = (&program, &both);
                scope.spawn(move || {
                    both.wait();
                    initialize(program, 0, number).map(|_| ())
                })
            });
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert!(ends.contains(&Ok(())) && ends.contains(&Err(Error::NodeInitialized)));
        functions::finalize(&program).unwrap();
    }
}
