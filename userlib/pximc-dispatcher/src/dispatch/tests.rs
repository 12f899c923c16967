// SPDX-License-Identifier: MIT OR Apache-2.0

//! The Dispatcher's rules, with vendors that do as they are told.

use super::*;

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc;
use std::thread;

use proptest::prelude::*;

const FAILED: Status = status::INVALID_ARGUMENT;
const ALSO_FAILED: Status = status::SPACE_NOT_AVAILABLE;
const TIMEOUT: Status = 0x1000_1001;

/// What a vendor does, and what was asked of it.
#[derive(Debug, Default)]
struct Behaviour {
    interfaces: Vec<u32>,
    /// For findInterfaces, in place of success.
    status: Status,
    /// Reports so many interfaces more than there are room for, each time.
    grows_by: u32,
    cleanup_status: Status,
    finds: u32,
    closed: Vec<u32>,
    cleanups: u32,
}

#[derive(Clone, Debug)]
struct Fake {
    name: &'static str,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Fake {
    fn new(name: &'static str, interfaces: &[u32]) -> Fake {
        let behaviour = Behaviour {
            interfaces: interfaces.to_vec(),
            ..Behaviour::default()
        };
        Fake {
            name,
            behaviour: Arc::new(Mutex::new(behaviour)),
        }
    }

    fn now(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour.lock().expect("no test panics in here")
    }
}

impl Vendor for Fake {
    fn find_interfaces(&self, ids: &mut [u32]) -> (Status, u32) {
        let mut now = self.now();
        now.finds += 1;
        if now.status != status::SUCCESS && now.grows_by == 0 {
            return (now.status, 0);
        }
        let actual = count(&now.interfaces);
        if now.grows_by != 0 {
            return (now.status, count(ids).saturating_add(now.grows_by));
        }
        match ids.get_mut(..now.interfaces.len()) {
            Some(room) => {
                room.copy_from_slice(&now.interfaces);
                (status::SUCCESS, actual)
            }
            None => (status::INSUFFICIENT_SPACE, actual),
        }
    }

    fn close_window(&self, session: u32) -> Status {
        self.now().closed.push(session);
        status::SUCCESS
    }

    fn cleanup(&self) -> Status {
        let mut now = self.now();
        now.cleanups += 1;
        now.cleanup_status
    }

    fn is_same(&self, other: &Fake) -> bool {
        self.name == other.name
    }
}

/// A directory whose content may change.
#[derive(Debug, Default)]
struct Shelf {
    vendors: Mutex<Vec<Fake>>,
    loads: Mutex<u32>,
}

impl Registry for &Shelf {
    type Vendor = Fake;

    fn load(&self) -> Vec<Fake> {
        *self.loads.lock().expect("no test panics in here") += 1;
        self.vendors.lock().expect("no test panics in here").clone()
    }
}

/// Two vendors with interfaces of their own and one that both number alike.
struct Two {
    shelf: Shelf,
    first: Fake,
    second: Fake,
}

impl Two {
    fn new() -> Two {
        let (first, second) = (Fake::new("first", &[1, 5]), Fake::new("second", &[5, 9]));
        let shelf = Shelf {
            vendors: Mutex::new(vec![first.clone(), second.clone()]),
            ..Shelf::default()
        };
        Two {
            shelf,
            first,
            second,
        }
    }

    fn dispatcher(&self) -> Dispatcher<&Shelf> {
        Dispatcher::new(&self.shelf)
    }
}

fn complete(dispatcher: &Dispatcher<&Shelf>) -> Vec<u32> {
    match dispatcher.find_interfaces() {
        Listing::Complete(ids) => ids,
        other => panic!("{other:?}"),
    }
}

/// Where an interface leads.
fn interface(dispatcher: &Dispatcher<&Shelf>, id: u32) -> Result<(&'static str, u32), Status> {
    let route = dispatcher.interface(id)?;
    Ok((route.vendor().name, route.number()))
}

/// Where a session leads.
fn session(dispatcher: &Dispatcher<&Shelf>, number: u32) -> Result<(&'static str, u32), Status> {
    let route = dispatcher.session(number)?;
    Ok((route.vendor().name, route.number()))
}

/// PXI-DSP-1, PXI-DSP-5, PXI-DSP-25: a number leads to who has listed it, and to its own number.
#[test]
fn interfaces_lead_to_the_vendor_that_has_listed_them() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let ids = complete(&dispatcher);
    let routes: Vec<_> = ids.iter().map(|id| interface(&dispatcher, *id)).collect();
    let expected = [("first", 1), ("first", 5), ("second", 5), ("second", 9)];
    assert_eq!(routes, expected.map(Ok));
}

/// PXI-DSP-2: the first error of a vendor is the error, also if others succeed.
#[test]
fn the_first_error_of_a_vendor_is_the_error() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    two.second.now().status = ALSO_FAILED;
    assert_eq!(
        dispatcher.find_interfaces(),
        Listing::Failed(ALSO_FAILED, 2)
    );
    two.first.now().status = FAILED;
    assert_eq!(dispatcher.find_interfaces(), Listing::Failed(FAILED, 0));
    assert_eq!((two.first.now().finds, two.second.now().finds), (2, 2));
}

/// PXI-DSP-2: interfaces of vendors that have not failed work all the same.
#[test]
fn the_failure_of_a_vendor_is_not_that_of_others() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    two.first.now().status = FAILED;
    assert_eq!(interface(&dispatcher, 9), Ok(("second", 9)));
    let earlier = interface(&dispatcher, 5);
    assert_eq!(earlier, Ok(("second", 5)));
    two.second.now().status = FAILED;
    assert_eq!(interface(&dispatcher, 7), Err(status::INVALID_INTERFACE));
    assert_eq!(interface(&dispatcher, 5), earlier);
}

/// A warning is no error.
#[test]
fn a_vendor_that_warns_has_no_interfaces() {
    let two = Two::new();
    two.first.now().status = status::NO_PROVIDER;
    assert_eq!(complete(&two.dispatcher()), [5, 9]);
}

/// PXI-DSP-3, PXI-REG-8: without vendors there is no provider, until one is installed.
#[test]
fn vendors_are_looked_for_as_long_as_there_is_none() {
    let shelf = Shelf::default();
    let dispatcher = Dispatcher::new(&shelf);
    assert_eq!(dispatcher.find_interfaces(), Listing::NoProvider);
    assert_eq!(interface(&dispatcher, 1), Err(status::INVALID_INTERFACE));
    shelf
        .vendors
        .lock()
        .expect("nobody panics")
        .push(Fake::new("late", &[3]));
    assert_eq!(complete(&dispatcher), [3]);
    shelf
        .vendors
        .lock()
        .expect("nobody panics")
        .push(Fake::new("later", &[4]));
    assert_eq!(complete(&dispatcher), [3]);
    assert_eq!(*shelf.loads.lock().expect("nobody panics"), 3);
}

/// PXI-DSP-21: a library is one vendor, however many links lead to it.
#[test]
fn a_library_that_is_found_twice_is_one_vendor() {
    let one = Fake::new("one", &[3]);
    let shelf = Shelf {
        vendors: Mutex::new(vec![one.clone(), one]),
        ..Shelf::default()
    };
    assert_eq!(complete(&Dispatcher::new(&shelf)), [3]);
}

/// PXI-DSP-4, PXI-DSP-23: all vendors' interfaces follow one another, and no two are called alike.
#[test]
fn colliding_interfaces_come_out_distinct() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let ids = complete(&dispatcher);
    assert_eq!((ids[0], ids[1], ids[3]), (1, 5, 9));
    assert!(![0, 1, 5, 9].contains(&ids[2]));
    assert_eq!(complete(&dispatcher), ids);
}

/// What a vendor must not do, list an interface twice or call it 0, the program does not see.
#[test]
fn repeated_interfaces_and_zero_do_not_reach_the_program() {
    let two = Two::new();
    two.first.now().interfaces = vec![0, 4, 4, 0];
    let dispatcher = two.dispatcher();
    let ids = complete(&dispatcher);
    assert_eq!(ids.len(), 4);
    assert!(!ids.contains(&0));
    assert_eq!(interface(&dispatcher, ids[0]), Ok(("first", 0)));
    assert_eq!(interface(&dispatcher, 0), Err(status::INVALID_INTERFACE));
}

/// PXI-DSP-6: a number that was an interface's never becomes another's.
#[test]
fn the_number_of_a_removed_interface_is_not_used_again() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let before = complete(&dispatcher);
    two.first.now().interfaces = vec![1];
    two.second.now().interfaces = vec![5, 1];
    let after = complete(&dispatcher);
    // 5 was the first vendor's and stays so, 1 is still there, and the second's 5 keeps its number.
    assert_eq!((after[0], after[1]), (1, before[2]));
    assert!(!before.contains(&after[2]));
    dispatcher.cleanup();
    assert_eq!(complete(&dispatcher), after);
}

/// PXI-DSP-6: an interface that comes back is the same one.
#[test]
fn an_interface_that_comes_back_has_its_number_again() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let before = complete(&dispatcher);
    two.second.now().interfaces.clear();
    assert_eq!(complete(&dispatcher), [1, 5]);
    two.second.now().interfaces = vec![5, 9];
    assert_eq!(complete(&dispatcher), before);
}

/// An interface that was removed is refused by its vendor, which may first report its end.
#[test]
fn a_removed_interface_still_leads_to_its_vendor() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    complete(&dispatcher);
    two.first.now().interfaces.clear();
    complete(&dispatcher);
    assert_eq!(interface(&dispatcher, 1), Ok(("first", 1)));
}

/// PXI-DSP-7, PXI-DSP-10, PXI-DSP-24: the map is made when it is first needed, and renewed for an
/// interface that is not in it.
#[test]
fn an_unknown_interface_is_looked_for() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    assert_eq!(interface(&dispatcher, 9), Ok(("second", 9)));
    two.first.now().interfaces.push(7);
    assert_eq!(interface(&dispatcher, 7), Ok(("first", 7)));
    assert_eq!(two.first.now().finds, 2);
    interface(&dispatcher, 9).expect("it is in the map");
    assert_eq!(two.first.now().finds, 2);
}

/// PXI-DSP-8, PXI-DSP-11: after that, it is invalid.
#[test]
fn an_interface_of_nobody_is_invalid_after_one_look() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    assert_eq!(interface(&dispatcher, 1234), Err(status::INVALID_INTERFACE));
    assert_eq!((two.first.now().finds, two.second.now().finds), (1, 1));
    let opened = dispatcher.open(1234, |_| panic!("there is nobody to be asked"));
    assert_eq!(opened, Err(status::INVALID_INTERFACE));
}

/// PXI-DSP-12, PXI-DSP-14: a request that fails or warns leaves nothing behind.
#[test]
fn a_request_without_success_opens_no_session() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    for status in [FAILED, TIMEOUT] {
        assert_eq!(dispatcher.open(1, |_| Err(status)), Err(status));
    }
    assert!(dispatcher.tables().sessions.is_empty());
}

/// PXI-DSP-13, PXI-DSP-14, PXI-DSP-15, PXI-DSP-16, PXI-DSP-18, PXI-DSP-19: sessions that two
/// vendors number alike have numbers of their own, and lead to their vendors' numbers.
#[test]
fn colliding_sessions_come_out_distinct_and_lead_to_their_vendors() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let first = dispatcher.open(1, |_| Ok(15)).expect("it is opened");
    let second = dispatcher.open(9, |_| Ok(15)).expect("it is opened");
    assert_eq!(first, 15);
    assert!(second != 15 && second != 0);
    assert_eq!(session(&dispatcher, first), Ok(("first", 15)));
    assert_eq!(session(&dispatcher, second), Ok(("second", 15)));
}

/// PXI-DSP-15: also if a vendor returns 0, or a number that it has in use.
#[test]
fn sessions_that_a_vendor_numbers_wrongly_come_out_distinct() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let mut numbers = HashSet::from([0]);
    for vendors in [0, 0, 15, 15, 15] {
        let number = dispatcher.open(1, |_| Ok(vendors)).expect("it is opened");
        assert!(numbers.insert(number));
        assert_eq!(session(&dispatcher, number), Ok(("first", vendors)));
    }
}

/// PXI-DSP-17: no vendor is asked.
#[test]
fn an_unknown_session_is_invalid() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    complete(&dispatcher);
    for number in [0, 1, 15, u32::MAX] {
        assert_eq!(session(&dispatcher, number), Err(status::INVALID_SESSION));
        let closed = dispatcher.close(number, |_| panic!("there is nobody to be asked"));
        assert_eq!(closed, Err(status::INVALID_SESSION));
    }
}

/// PXI-DSP-20, PXI-DSP-26: closed sessions are forgotten; those that could not be closed are not.
#[test]
fn a_session_is_forgotten_when_it_is_closed() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let number = dispatcher.open(1, |_| Ok(15)).expect("it is opened");
    assert_eq!(dispatcher.close(number, |_| FAILED), Ok(FAILED));
    assert_eq!(session(&dispatcher, number), Ok(("first", 15)));
    let closed = dispatcher.close(number, |route| route.vendor().close_window(route.number()));
    assert_eq!(closed, Ok(status::SUCCESS));
    assert_eq!(two.first.now().closed, [15]);
    assert_eq!(session(&dispatcher, number), Err(status::INVALID_SESSION));
}

#[test]
fn a_session_that_its_vendor_does_not_know_is_forgotten() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let number = dispatcher.open(1, |_| Ok(15)).expect("it is opened");
    let closed = dispatcher.close(number, |_| status::INVALID_SESSION);
    assert_eq!(closed, Ok(status::INVALID_SESSION));
    assert!(dispatcher.tables().sessions.is_empty());
}

/// A vendor may use the number of a closed session again; another vendor gets a new one.
#[test]
fn a_closed_sessions_number_is_its_vendors_for_ever() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let open = |interface| {
        dispatcher
            .open(interface, |_| Ok(15))
            .expect("it is opened")
    };
    let close = |number| dispatcher.close(number, |_| status::SUCCESS);
    let first = open(1);
    close(first).expect("it is open");
    let other = open(9);
    assert_ne!(other, first);
    assert_eq!(open(1), first);
    close(other).expect("it is open");
    dispatcher.cleanup();
    assert_ne!(open(9), other);
}

/// While a thread closes a session, another may open one that the vendor numbers alike.
#[test]
fn a_session_that_is_opened_while_its_number_is_closed_survives() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let old = dispatcher.open(1, |_| Ok(15)).expect("it is opened");
    let new = Cell::new(0);
    let closed = dispatcher.close(old, |_| {
        // The vendor has closed it; twice, as the program says, with the new one in between.
        dispatcher
            .close(old, |_| status::SUCCESS)
            .expect("it is open");
        new.set(dispatcher.open(1, |_| Ok(15)).expect("it is opened"));
        status::INVALID_SESSION
    });
    assert_eq!(closed, Ok(status::INVALID_SESSION));
    assert_eq!(session(&dispatcher, new.get()), Ok(("first", 15)));
}

/// A session that cannot be given a number is not left open.
#[test]
fn a_session_without_a_number_is_closed_again() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    dispatcher.tables().session_numbers = Numbers::used_up();
    assert_eq!(
        dispatcher.open(1, |_| Ok(0)),
        Err(status::SPACE_NOT_AVAILABLE)
    );
    assert_eq!(two.first.now().closed, [0]);
}

/// PXI-DSP-27: each vendor cleans up once, and all starts again.
#[test]
fn cleanup_reaches_all_vendors_and_empties_the_maps() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let number = dispatcher.open(1, |_| Ok(15)).expect("it is opened");
    two.first.now().cleanup_status = FAILED;
    two.second.now().cleanup_status = ALSO_FAILED;
    assert_eq!(dispatcher.cleanup(), FAILED);
    assert_eq!(
        (two.first.now().cleanups, two.second.now().cleanups),
        (1, 1)
    );
    assert_eq!(session(&dispatcher, number), Err(status::INVALID_SESSION));
    assert_eq!(interface(&dispatcher, 9), Ok(("second", 9)));
    assert_eq!(
        (
            two.first.now().finds,
            *two.shelf.loads.lock().expect("nobody panics")
        ),
        (2, 1)
    );
}

#[test]
fn cleanup_with_nothing_loaded_loads_nothing() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    assert_eq!(dispatcher.cleanup(), status::SUCCESS);
    assert_eq!(*two.shelf.loads.lock().expect("nobody panics"), 0);
}

/// PXI-DSP-23: more interfaces than a vendor is first given room for.
#[test]
fn a_vendor_with_many_interfaces_is_given_room() {
    let many: Vec<u32> = (1..=5000).collect();
    let two = Two::new();
    two.first.now().interfaces.clone_from(&many);
    two.second.now().interfaces.clear();
    assert_eq!(complete(&two.dispatcher()), many);
    assert_eq!(two.first.now().finds, 2);
}

/// A vendor that is never content, or claims more than it was given room for, fails in the end.
#[test]
fn a_vendor_that_always_wants_more_room_fails() {
    for said in [status::INSUFFICIENT_SPACE, status::SUCCESS] {
        for grows_by in [1, 100, u32::MAX] {
            let two = Two::new();
            two.first.now().status = said;
            two.first.now().grows_by = grows_by;
            let listing = two.dispatcher().find_interfaces();
            let known = count(&vec![0; MOST_INTERFACES]).saturating_add(grows_by);
            let known = known.saturating_add(2);
            assert_eq!(listing, Listing::Failed(status::INSUFFICIENT_SPACE, known));
            assert!(two.first.now().finds <= 16);
        }
    }
}

/// PXI-GEN-3: a call that blocks in a vendor holds up nobody.
#[test]
fn no_lock_is_held_while_a_vendor_works() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let (inside, is_inside) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel();
    thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            dispatcher.open(1, move |_| {
                inside.send(()).expect("somebody waits for it");
                may_leave.recv().expect("somebody lets it go");
                Ok(15)
            })
        });
        is_inside.recv().expect("the vendor was called");
        let other = dispatcher
            .open(9, |_| Ok(16))
            .expect("nothing is in the way");
        assert_eq!(session(&dispatcher, other), Ok(("second", 16)));
        assert_eq!(complete(&dispatcher).len(), 4);
        leave.send(()).expect("it waits for that");
        assert_eq!(blocked.join().expect("it does not panic"), Ok(15));
    });
}

/// PXI-GEN-3, PXI-DSP-15: many threads at once.
#[test]
fn threads_get_sessions_of_their_own() {
    let two = Two::new();
    let dispatcher = two.dispatcher();
    let opened = Mutex::new(HashSet::new());
    thread::scope(|scope| {
        for id in [1, 5, 9, 1, 5, 9] {
            let (dispatcher, opened) = (&dispatcher, &opened);
            scope.spawn(move || {
                for number in 1..200 {
                    let mine = dispatcher.open(id, |_| Ok(number)).expect("it is opened");
                    assert!(opened.lock().expect("nobody panics").insert(mine));
                }
            });
        }
    });
    assert_eq!(opened.lock().expect("nobody panics").len(), 6 * 199);
}

/// What a program does, with small numbers so that they collide.
#[derive(Clone, Debug)]
enum Act {
    List(bool, Vec<u32>),
    Find,
    Open(usize, u32),
    Close(usize),
    Cleanup,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => (any::<bool>(), prop::collection::vec(0u32..6, 0..6)).prop_map(|(s, ids)| Act::List(s, ids)),
        2 => Just(Act::Find),
        6 => (any::<usize>(), 0u32..8).prop_map(|(which, number)| Act::Open(which, number)),
        4 => any::<usize>().prop_map(Act::Close),
        1 => Just(Act::Cleanup),
    ];
    prop::collection::vec(act, 1..80)
}

proptest! {
    /// PXI-DSP-4, PXI-DSP-6, PXI-DSP-15, PXI-DSP-16: whatever vendors and programs do, a number
    /// leads to the one thing that it was given to, and is never 0.
    #[test]
    fn numbers_always_lead_to_what_they_were_given_to(acts in acts()) {
        let two = Two::new();
        let dispatcher = two.dispatcher();
        let mut interfaces: HashMap<u32, (&'static str, u32)> = HashMap::new();
        let mut users: HashMap<u32, &'static str> = HashMap::new();
        let mut open: VecDeque<(u32, (&'static str, u32))> = VecDeque::new();
        for act in acts {
            match act {
                Act::List(second, ids) => {
                    let vendor = if second { &two.second } else { &two.first };
                    vendor.now().interfaces = ids;
                }
                Act::Find => {
                    let ids = complete(&dispatcher);
                    prop_assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
                    for id in ids {
                        prop_assert_ne!(id, 0);
                        let route = interface(&dispatcher, id).expect("it was listed");
                        prop_assert_eq!(*interfaces.entry(id).or_insert(route), route);
                    }
                }
                Act::Open(which, number) => {
                    let ids = complete(&dispatcher);
                    let Some(id) = which.checked_rem(ids.len()).map(|at| ids[at]) else { continue };
                    let name = interface(&dispatcher, id).expect("it was listed").0;
                    let mine = dispatcher.open(id, |_| Ok(number)).expect("plenty are left");
                    prop_assert_ne!(mine, 0);
                    prop_assert!(open.iter().all(|(other, _)| *other != mine));
                    prop_assert_eq!(*users.entry(mine).or_insert(name), name);
                    open.push_back((mine, (name, number)));
                }
                Act::Close(which) => {
                    let Some(at) = which.checked_rem(open.len()) else { continue };
                    let (mine, _) = open.remove(at).expect("there are more");
                    prop_assert_eq!(dispatcher.close(mine, |_| status::SUCCESS), Ok(status::SUCCESS));
                    prop_assert_eq!(session(&dispatcher, mine), Err(status::INVALID_SESSION));
                }
                Act::Cleanup => {
                    prop_assert_eq!(dispatcher.cleanup(), status::SUCCESS);
                    for (mine, _) in open.drain(..) {
                        prop_assert_eq!(session(&dispatcher, mine), Err(status::INVALID_SESSION));
                    }
                }
            }
            for (mine, route) in &open {
                prop_assert_eq!(session(&dispatcher, *mine), Ok(*route));
            }
        }
    }
}
