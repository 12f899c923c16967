// SPDX-License-Identifier: MIT OR Apache-2.0

//! How two connections of the same two NIC handles come to the same trunk.

use super::Trunk;
use crate::{
    arrivals::Wakes,
    link::{Numbers, Unopened},
    lock,
    wire::End,
};
use mp_fabric::{
    thread, Deadline, Device, Error as FabricError, EventMask, Fabric, InterfaceId, Session,
    Subject, Wake,
};
use mp_queue_pair::{
    open,
    provider::{shape, Service, NEWS, SLOT, WINDOW},
    Receiving, Sending,
};
use rustix::rand::{getrandom, GetRandomFlags};
use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The protocol of sessions that are trunks.
const PROTOCOL: u32 = 0x5649_5431;
/// The part of free memory that a trunk takes.
const SHARE: u64 = 8;

/// What the partner of a connection without windows is told: the NIC handle, and the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meeting {
    pub(crate) nic: u64,
    pub(crate) lane: u32,
}

impl Meeting {
    /// Bytes of [`encode`](Self::encode).
    pub(crate) const LEN: usize = 12;

    /// NIC handle (8), lane (4), little-endian.
    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let (nic, lane) = (self.nic.to_le_bytes(), self.lane.to_le_bytes());
        for (to, from) in bytes.iter_mut().zip(nic.into_iter().chain(lane)) {
            *to = from;
        }
        bytes
    }

    /// What was told at the start of some bytes, and the rest.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (nic, rest) = bytes.split_first_chunk()?;
        let (lane, rest) = rest.split_first_chunk()?;
        let meeting = Meeting {
            nic: u64::from_le_bytes(*nic),
            lane: u32::from_le_bytes(*lane),
        };
        Some((meeting, rest))
    }
}

/// Which of the trunks of a NIC handle: over an interface, to another handle. The two ends of a
/// trunk to the same handle are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    interface: InterfaceId,
    nic: u64,
    second: bool,
}

/// How long the partner's library may take to open its end of a trunk.
const OPENING: Duration = Duration::from_secs(5);
/// How long partners may take altogether to make room for the last messages when all trunks end.
const CLOSING: Duration = Duration::from_millis(200);

/// Why a trunk is not opened that nobody wants any more.
const GIVEN_UP: Unopened = Unopened::Ended(End::Gone);

/// What has come of opening a trunk.
enum Stage<D: Device> {
    /// A thread is at it, with this session, as soon as there is one.
    Opening(Option<Arc<Session<D>>>),
    Open(Arc<Trunk<D>>),
    Failed(Unopened),
}

/// Where a trunk is opened, once. Connections that need it wait.
struct Place<D: Device> {
    stage: Mutex<Stage<D>>,
    waiting: Mutex<Wakes>,
}

/// How long a connection waits for its trunk.
pub(crate) struct Patience<F> {
    pub(crate) deadline: Deadline,
    /// Rung when it is given up.
    pub(crate) wake: Arc<Wake>,
    /// Whether it was given up.
    pub(crate) given_up: F,
}

/// The trunks of a NIC handle.
pub(crate) struct Trunks<D: Device> {
    /// What tells the handle from all others.
    nic: u64,
    fabric: Fabric<D>,
    service: Arc<Service>,
    known: Mutex<Known<D>>,
}

struct Known<D: Device> {
    places: HashMap<Key, Arc<Place<D>>>,
    /// Those that are open, by the numbers that the service thread knows them by.
    open: HashMap<u64, Arc<Trunk<D>>>,
    /// All of them have ended, and there are no more.
    closed: bool,
}

impl<D: Device> Place<D> {
    fn new() -> Self {
        Place {
            stage: Mutex::new(Stage::Opening(None)),
            waiting: Mutex::default(),
        }
    }

    /// Keep the session of a trunk that is being opened; false if it is not wanted any more.
    fn keep(&self, session: &Arc<Session<D>>) -> bool {
        match &mut *lock(&self.stage) {
            Stage::Opening(slot) => {
                *slot = Some(Arc::clone(session));
                true
            }
            _ => false,
        }
    }

    /// Say what has come of it, unless it has come to an end before, and wake all that wait: after this
    /// thread has let go of the place and its session.
    fn settle(self: Arc<Self>, next: Stage<D>) {
        let mut stage = lock(&self.stage);
        if !matches!(*stage, Stage::Opening(_)) {
            return;
        }
        let before = std::mem::replace(&mut *stage, next);
        drop(stage);
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        drop(before);
        drop(self);
        waiting.ring();
    }

    /// Let nobody wait for it any more, nor the thread that opens it.
    fn give_up(self: Arc<Self>) {
        if let Stage::Opening(Some(session)) = &*lock(&self.stage) {
            // The partner may have ended it before.
            let _ = session.close();
        }
        self.settle(Stage::Failed(GIVEN_UP));
    }

    /// Whether its trunk has ended, or could not be opened.
    fn is_over(&self, has_ended: impl Fn(&Trunk<D>) -> bool) -> bool {
        match &*lock(&self.stage) {
            Stage::Opening(_) => false,
            Stage::Open(trunk) => has_ended(trunk),
            Stage::Failed(_) => true,
        }
    }

    /// Wait until the trunk is open.
    ///
    /// # Errors
    /// Why it was not opened.
    fn wait(&self, patience: &Patience<impl Fn() -> bool>) -> Result<Arc<Trunk<D>>, Unopened> {
        // Before looking: what comes of it later wakes.
        lock(&self.waiting).enter(&patience.wake);
        loop {
            patience.wake.read();
            if (patience.given_up)() {
                return Err(GIVEN_UP);
            }
            match &*lock(&self.stage) {
                Stage::Open(trunk) => return Ok(Arc::clone(trunk)),
                Stage::Failed(why) => return Err(*why),
                Stage::Opening(_) => {}
            }
            if patience.deadline.remaining() == Some(Duration::ZERO) {
                return Err(Unopened::Late);
            }
            patience.wake.sleep(patience.deadline);
        }
    }
}

/// Bytes of a window of a trunk where so many are free.
fn window(free: u64) -> RangeInclusive<u64> {
    let share = free / SHARE / SLOT as u64 * SLOT as u64;
    *WINDOW.start()..=share.clamp(*WINDOW.start(), *WINDOW.end())
}

/// A number that no other process draws, also none that was forked from the same one.
fn unique() -> crate::Result<u64> {
    let mut bytes = [0; 8];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_le_bytes(bytes)),
        _ => Err(crate::Error::Resource),
    }
}

impl<D: Device> Trunks<D> {
    /// Make an empty set of trunks on a fabric. The service serves those that are added.
    ///
    /// # Errors
    /// [`Resource`](crate::Error::Resource): the kernel has no random number.
    pub(crate) fn new(fabric: &Fabric<D>, service: &Arc<Service>) -> crate::Result<Self> {
        Ok(Trunks {
            nic: unique()?,
            fabric: fabric.clone(),
            service: Arc::clone(service),
            known: Mutex::new(Known {
                places: HashMap::new(),
                open: HashMap::new(),
                closed: false,
            }),
        })
    }

    /// What the partner of a connection is told.
    pub(crate) fn meeting(&self, lane: u32) -> Meeting {
        Meeting {
            nic: self.nic,
            lane,
        }
    }

    /// Whether there is one to a partner over an interface, or will be.
    pub(crate) fn lead_to(&self, interface: InterfaceId, partner: Meeting) -> bool {
        let known = lock(&self.known);
        let mut places = known.places.iter();
        places.any(|(key, place)| {
            (key.interface, key.nic) == (interface, partner.nic) && !place.is_over(Trunk::has_gone)
        })
    }

    /// The trunk that the service thread knows by a number.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Trunk<D>>> {
        lock(&self.known).open.get(&number).cloned()
    }

    /// The trunk to a partner that has told its part of a meeting, and the numbers of the lane. The
    /// first connection begins to open it, by a thread of its own: each connection waits as long as
    /// it wants, and one that is given up harms no other. A new one may get the number.
    ///
    /// # Errors
    /// Why it was not opened.
    pub(crate) fn find(
        self: &Arc<Self>,
        interface: InterfaceId,
        (own, partner): (Meeting, Meeting),
        number: u64,
        patience: &Patience<impl Fn() -> bool>,
    ) -> Result<(Arc<Trunk<D>>, Numbers), Unopened> {
        let key = Key {
            interface,
            nic: partner.nic,
            second: partner.nic == own.nic && own.lane > partner.lane,
        };
        let numbers = Numbers {
            own: own.lane,
            partner: partner.lane,
        };
        loop {
            let found = self.place(key, number)?.wait(patience);
            let is_in_time = patience.deadline.remaining() != Some(Duration::ZERO);
            match found {
                // Others have begun to wait earlier.
                Err(Unopened::Late) if is_in_time => {}
                found => return found.map(|trunk| (trunk, numbers)),
            }
        }
    }

    /// Where the trunk is opened, which begins now unless it has begun or is done.
    fn place(self: &Arc<Self>, key: Key, number: u64) -> Result<Arc<Place<D>>, Unopened> {
        let mut known = lock(&self.known);
        if known.closed {
            return Err(GIVEN_UP);
        }
        let place = known.places.get(&key);
        if let Some(place) = place.filter(|place| !place.is_over(Trunk::has_gone)) {
            return Ok(Arc::clone(place));
        }
        let place = Arc::new(Place::new());
        let before = known.places.insert(key, Arc::clone(&place));
        drop(known);
        // What it has is free before another one asks for it, unless it has lanes.
        drop(before);
        let (own, opened) = (Arc::clone(self), Arc::clone(&place));
        let spawned = thread::spawn("vipl-trunk", move || own.open(key, number, opened));
        if spawned.is_err() {
            self.fail(Arc::clone(&place), Unopened::Short);
        }
        Ok(place)
    }

    /// Open a trunk.
    fn open(self: &Arc<Self>, key: Key, number: u64, place: Arc<Place<D>>) {
        let halves = self.connect(key, &place).map_err(Unopened::from);
        match halves.and_then(|halves| self.enter(number, halves)) {
            Ok(trunk) => place.settle(Stage::Open(trunk)),
            Err(why) => self.fail(place, why),
        }
    }

    /// A trunk could not be opened: nothing is left of the attempt.
    fn fail(&self, place: Arc<Place<D>>, why: Unopened) {
        lock(&self.known)
            .places
            .retain(|_, other| !Arc::ptr_eq(other, &place));
        place.settle(Stage::Failed(why));
    }

    /// Let the service thread know of a trunk, and look after it.
    fn enter(
        self: &Arc<Self>,
        number: u64,
        halves: (Sending<D>, Receiving<D>),
    ) -> Result<Arc<Trunk<D>>, Unopened> {
        let session = Arc::clone(halves.0.session());
        let new = Arc::new(Trunk::new(number, self, &self.service, halves));
        // Before there can be news of it.
        let mut known = lock(&self.known);
        if known.closed {
            return Err(GIVEN_UP);
        }
        known.open.insert(number, Arc::clone(&new));
        drop(known);
        if session.watch(NEWS, number).is_err() {
            self.forget(number);
            return Err(Unopened::Short);
        }
        new.list();
        Ok(new)
    }

    /// A trunk has ended: its windows are given back with the last lane.
    pub(super) fn forget(&self, number: u64) {
        let mut known = lock(&self.known);
        let gone = known.open.remove(&number);
        let is_gone = |trunk: &Trunk<D>| trunk.number == number;
        known.places.retain(|_, place| !place.is_over(is_gone));
        drop(known);
        drop(gone);
    }

    /// Make the queue pair of a trunk: both sides ask for each other.
    fn connect(
        &self,
        key: Key,
        place: &Place<D>,
    ) -> mp_queue_pair::Result<(Sending<D>, Receiving<D>)> {
        let deadline = Deadline::after(OPENING);
        let name = [self.nic.to_le_bytes(), key.nic.to_le_bytes()].concat();
        let window = window(self.fabric.interface(key.interface)?.local_free);
        let peer = self.fabric.peer(key.interface, PROTOCOL);
        let peer = peer.name(&name).own_name(8);
        let session = Arc::new(peer.local(window.clone()).remote(window).open()?);
        if !place.keep(&session) {
            return Err(FabricError::PartnerGone.into());
        }
        let events = session.wait(EventMask::PAIRED | EventMask::DOWN, deadline)?;
        if !events.contains(EventMask::PAIRED) {
            return Err(FabricError::InterfaceDown(Subject::Interface(key.interface)).into());
        }
        let size = session.state()?.local.map_or(0, |window| window.size);
        open(session, &shape(size, 1), deadline)
    }

    /// End all of them, and those that are being opened.
    pub(crate) fn close(&self) {
        let mut known = lock(&self.known);
        known.closed = true;
        let open = std::mem::take(&mut known.open);
        let places = std::mem::take(&mut known.places);
        drop(known);
        places.into_values().for_each(Place::give_up);
        let until = Deadline::after(CLOSING);
        open.values().for_each(|trunk| trunk.close(until));
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{extra_of, Control},
        *,
    };
    use crate::link::Numbers;
    use mp_queue_pair::provider::Rest;
    use mp_testing::{FakeDevice, Host, World};
    use proptest::prelude::*;
    use std::{
        cell::Cell,
        sync::atomic::{AtomicBool, Ordering},
        thread,
        time::Instant,
    };

    type Found = Result<Arc<Trunk<FakeDevice>>, Unopened>;

    /// The trunks of a NIC handle, without a thread that looks after them.
    struct Party {
        fabric: Fabric<FakeDevice>,
        interface: InterfaceId,
        trunks: Arc<Trunks<FakeDevice>>,
        given_up: AtomicBool,
        wake: Arc<Wake>,
    }

    impl Party {
        fn pair(world: &World) -> [Self; 2] {
            [Host::A, Host::B].map(|host| {
                let fabric = Fabric::with_device(world.open(host));
                let service = Service::new().unwrap().into();
                Party {
                    interface: InterfaceId(world.interface(0, host)),
                    trunks: Trunks::new(&fabric, &service).unwrap().into(),
                    fabric,
                    given_up: AtomicBool::new(false),
                    wake: Arc::new(Wake::new().unwrap()),
                }
            })
        }

        /// Look for the trunk to another one.
        fn find(&self, other: &Party, number: u64, wait: Duration) -> Found {
            let both = (self.trunks.meeting(1), other.trunks.meeting(2));
            let patience = Patience {
                deadline: Deadline::after(wait),
                wake: Arc::clone(&self.wake),
                given_up: || self.given_up.load(Ordering::SeqCst),
            };
            let found = self.trunks.find(self.interface, both, number, &patience);
            found.map(|(trunk, _)| trunk)
        }
    }

    fn until(what: &str, check: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !check() {
            assert!(Instant::now() < end, "not in time: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Let both sides look for their trunk at once.
    fn meet(both: &[Party; 2], number: u64) -> [Arc<Trunk<FakeDevice>>; 2] {
        let [a, b] = both;
        let wait = Duration::from_secs(5);
        thread::scope(|scope| {
            let other = scope.spawn(|| b.find(a, number, wait));
            [a.find(b, number, wait), other.join().unwrap()].map(Result::unwrap)
        })
    }

    /// VI-EM-9: who connects after the partner has ended a trunk gets another one, although nobody
    /// has looked yet.
    #[test]
    fn a_trunk_whose_partner_has_gone_is_not_found() {
        let both = Party::pair(&World::new(1, 1 << 20));
        let [one, other] = meet(&both, 1);
        let [same, _] = meet(&both, 2);
        assert!(Arc::ptr_eq(&one, &same));
        other.close(Deadline::PAST);
        assert!(!one.is_over());
        let [new, _] = meet(&both, 3);
        assert!(!Arc::ptr_eq(&one, &new));
    }

    /// VI-NIC-5, VI-DISC-4: a trunk that is closed tells what there was no room for, to a partner that
    /// makes some.
    #[test]
    fn a_trunk_that_is_closed_waits_for_room_to_tell_of_lanes() {
        let world = World::new(1, 1 << 20);
        let both = Party::pair(&world);
        let [trunk, other] = meet(&both, 1);
        let mut told = 0;
        while !lock(&trunk.outbox).is_waited_for() {
            trunk.tell(Control::Ready(Numbers {
                own: told,
                partner: told,
            }));
            told += 1;
        }
        let heard = Cell::new(0);
        let hear = || {
            let mut inbox = lock(&other.inbox);
            while inbox.receive(extra_of).unwrap().is_some() {
                heard.set(heard.get() + 1);
            }
            inbox.flush().unwrap();
            heard.get() == told
        };
        thread::scope(|scope| {
            let closes = scope.spawn(|| trunk.close(Deadline::after(Duration::from_secs(60))));
            until("it waits", || world.waiting() > 0);
            until("all was told", hear);
            closes.join().unwrap();
        });
        assert!(trunk.is_over());
    }

    /// VI-LIM-6: a trunk that is over gives its windows back before another one is opened.
    #[test]
    fn a_trunk_that_is_over_makes_room_for_the_next_one() {
        let both = Party::pair(&World::new(1, 1 << 20));
        let [trunk, _other] = meet(&both, 1);
        let [a, b] = &both;
        trunk.close(Deadline::PAST);
        let ended = Arc::downgrade(&trunk);
        drop(trunk);
        assert_eq!(ended.strong_count(), 0);
        let [next, _other] = meet(&both, 2);
        assert!(!next.has_gone() && a.trunks.get(2).is_some() && b.trunks.get(2).is_some());
    }

    /// VI-LIM-6: where no trunk was opened, nothing is left of the attempt.
    #[test]
    fn a_trunk_that_was_not_opened_leaves_no_place() {
        let [a, b] = Party::pair(&World::new(1, 1 << 20));
        let begun = Instant::now();
        let found = a.find(&b, 1, Duration::from_millis(20));
        assert_eq!(found.err(), Some(Unopened::Late));
        assert!(begun.elapsed() < OPENING / 2);
        until("the end of the attempt", || {
            lock(&a.trunks.known).places.is_empty()
        });
        assert_eq!(lock(&a.trunks.known).open.len(), 0);
    }

    /// VI-DISC-9: a connection that is given up waits no longer, and others that wait for the same
    /// trunk get it.
    #[test]
    fn each_waits_for_a_trunk_as_long_as_it_wants() {
        let [a, b] = &Party::pair(&World::new(1, 1 << 20));
        let long = Duration::from_secs(4);
        thread::scope(|scope| {
            let first = scope.spawn(|| a.find(b, 1, long));
            until("a place", || {
                a.trunks.lead_to(a.interface, b.trunks.meeting(0))
            });
            let begun = Instant::now();
            let short = a.find(b, 2, Duration::from_millis(30));
            assert_eq!(short.err(), Some(Unopened::Late));
            assert!(begun.elapsed() < long / 2);
            a.given_up.store(true, Ordering::SeqCst);
            a.wake.ring();
            assert_eq!(first.join().unwrap().err(), Some(GIVEN_UP));
            assert!(begun.elapsed() < long / 2);
            a.given_up.store(false, Ordering::SeqCst);
            // It is still being opened.
            let next = scope.spawn(|| a.find(b, 3, long));
            assert!(b.find(a, 1, long).is_ok());
            let next = next.join().unwrap().unwrap();
            assert_eq!(next.number, 1);
        });
    }

    /// VI-NIC-5: who waits for a trunk when all are closed waits no longer, and no trunk is opened
    /// from then on.
    #[test]
    fn a_trunk_that_is_opened_while_all_are_closed_is_not_found() {
        let [a, b] = &Party::pair(&World::new(1, 1 << 20));
        let long = Duration::from_secs(4);
        thread::scope(|scope| {
            let waits = scope.spawn(|| a.find(b, 1, long));
            until("a place", || {
                a.trunks.lead_to(a.interface, b.trunks.meeting(0))
            });
            let begun = Instant::now();
            a.trunks.close();
            assert_eq!(waits.join().unwrap().err(), Some(GIVEN_UP));
            assert_eq!(a.find(b, 2, long).err(), Some(GIVEN_UP));
            assert!(begun.elapsed() < long / 2);
        });
        until("the end of the attempt", || {
            Arc::strong_count(&a.trunks) == 1
        });
        assert_eq!(
            b.find(a, 1, Duration::from_millis(50)).err(),
            Some(Unopened::Late)
        );
        let known = lock(&a.trunks.known);
        assert!(known.places.is_empty() && known.open.is_empty());
    }

    /// Threads that still look at a trunk that has ended do not keep the service thread at it.
    #[test]
    fn a_trunk_that_has_finished_is_looked_after_by_nobody() {
        let both = Party::pair(&World::new(1, 1 << 20));
        let [trunk, _other] = meet(&both, 1);
        trunk.close(Deadline::PAST);
        assert!(!trunk.look());
        assert!(!trunk.attention().is_watched());
        trunk.attention().watch();
        assert_eq!(trunk.rest(&both[0].fabric, Deadline::PAST), Rest::Over);
    }

    /// VI-LIM-6: trunks are smaller where there is less, and many fit into what is short.
    #[test]
    fn trunks_become_smaller_with_what_is_left() {
        for (free, most) in [
            (0, 0x4000),
            (0x4_0000, 0x8000),
            (0x8_0000, 0x1_0000),
            (u64::MAX, 0x1_0000),
        ] {
            assert_eq!(window(free), 0x4000..=most);
        }
    }

    /// Bytes that connections take of so many that are free, and how many have windows of their own.
    fn taken_by(connections: usize, free: u64) -> (u64, usize) {
        let (mut left, mut own, mut trunk) = (free, 0, false);
        for _ in 0..connections {
            if left >= crate::connect::SHORT {
                left -= mp_queue_pair::provider::window(left).end();
                own += 1;
            } else if !trunk {
                left -= window(left).end();
                trunk = true;
            }
        }
        (free - left, own)
    }

    /// The bytes that a cell of a table tells, such as "6.25 MiB", and half of its last digit.
    fn bytes_of(cell: &str) -> (f64, f64) {
        let (number, unit) = cell.trim().split_once(' ').unwrap();
        let unit = match unit.split(' ').next() {
            Some("KiB") => 1024.0,
            Some("MiB") => 1024.0 * 1024.0,
            other => panic!("{other:?}"),
        };
        let digits = number.split_once('.').map_or(0, |(_, rest)| rest.len());
        let half = 0.5 / 10_f64.powi(digits as i32);
        (number.parse::<f64>().unwrap() * unit, half * unit)
    }

    /// VI-LIM-6: the table of the documents, cell by cell.
    #[test]
    fn the_documents_say_how_much_memory_many_connections_take() {
        let page = include_str!("../../../../Documentation/virtual-interfaces.md");
        let begin = page.find("| VIs that are connected |").unwrap();
        let table = page[begin..].split("\n\n").next().unwrap();
        let mut rows = table.lines().map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            cells
        });
        let free: Vec<u64> = rows.next().unwrap()[1..]
            .iter()
            .map(|cell| bytes_of(cell).0 as u64)
            .collect();
        assert_eq!(free, [1 << 16, 1 << 20, 1 << 24, 1 << 26]);
        let mut cells = 0;
        for row in rows.skip(1) {
            for (cell, free) in row[1..].iter().zip(&free) {
                cells += 1;
                match row[0].parse() {
                    Ok(connections) => {
                        let (told, half) = bytes_of(cell);
                        let taken = taken_by(connections, *free).0 as f64;
                        assert!((taken - told).abs() <= half, "{row:?}: {taken}");
                    }
                    Err(_) => {
                        let most = 960;
                        let own = taken_by(most, *free).1;
                        let told = if *cell == "all" {
                            most
                        } else {
                            cell.parse().unwrap()
                        };
                        assert_eq!(own, told, "{row:?}");
                    }
                }
            }
        }
        assert_eq!(cells, 6 * 4);
    }

    /// VI-GEN-9: children of one process tell themselves apart.
    #[test]
    fn forked_siblings_have_numbers_of_their_own() {
        let _ = unique().unwrap();
        let siblings = [(); 5].map(|()| mp_testing::child(|| unique().unwrap() as u8));
        assert_ne!(siblings, [siblings[0]; 5]);
    }

    proptest! {
        #[test]
        fn meetings_survive_the_wire(nic: u64, lane: u32, rest: [u8; 3]) {
            let meeting = Meeting { nic, lane };
            let bytes = [&meeting.encode()[..], &rest].concat();
            prop_assert_eq!(Meeting::decode(&bytes), Some((meeting, &rest[..])));
            prop_assert_eq!(Meeting::decode(&bytes[..Meeting::LEN - 1]), None);
        }
    }
}
