// SPDX-License-Identifier: MIT OR Apache-2.0

//! What providers have in common: halves with their notes, signals that a partner is asked for,
//! ends, and the thread that looks after links.

mod common;

use common::{both, sessions, soon, Patience};
use mp_fabric::{Deadline, Fabric, InterfaceId};
use mp_queue_pair::{
    provider::{
        lead, shape, take_signal, Answer, Attention, End, Inbox, Led, NotNow, Outbox, Owner, Rest,
        Role, Served, Service, NAP_MAX, NAP_MIN, SLOT,
    },
    Head, Need, Outgoing, Piece, Room,
};
use mp_testing::{FakeDevice, Host, World};
use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicBool, AtomicU32, Ordering},
        Arc, Mutex,
    },
    time::{Duration, Instant},
};

const WINDOW: u64 = 0x4000;

/// One end of a pair.
struct Side {
    outbox: Outbox<FakeDevice>,
    inbox: Inbox<FakeDevice>,
}

impl Side {
    fn put(&mut self, kind: u8, bytes: &[u8]) -> bool {
        let head = Head {
            kind,
            ..Head::default()
        };
        let data = [Piece::from(bytes)];
        let put = self.outbox.put(&mut Outgoing::new(head, &[], &data));
        put.unwrap()
    }

    /// Kind and size of the next message.
    fn next(&mut self) -> Result<Option<(u8, usize)>, End> {
        let lent = self.inbox.receive(|head| (head.kind < 9).then_some(0))?;
        Ok(lent.map(|lent| (lent.head.kind, lent.data.len())))
    }

    /// Ask the partner for a signal of room as well, if something waits for that.
    fn arm(&mut self, fabric: &Fabric<FakeDevice>) -> Result<Answer, NotNow> {
        let room = self.outbox.need().map(|need| (&mut self.outbox, need));
        match self.inbox.arm(room)? {
            None => Ok(Answer::Surely),
            Some(question) => Ok(self.inbox.answered(question.ask(fabric, soon()))),
        }
    }
}

fn pair(world: &World) -> [Side; 2] {
    let (a, b) = both(sessions(world, WINDOW), shape(WINDOW, 1));
    [a, b].map(|(sending, receiving)| Side {
        outbox: Outbox::new(sending),
        inbox: Inbox::new(receiving),
    })
}

/// A fabric in whose name questions are asked of a session.
fn asking(world: &World) -> Fabric<FakeDevice> {
    Fabric::with_device(world.open(Host::A))
}

#[test]
fn messages_are_told_by_a_flush_and_given_back_by_the_next_one() {
    let world = World::new(1, 1 << 20);
    let [mut a, mut b] = pair(&world);
    let bytes = [7; SLOT];
    let mut count = 0;
    while a.put(1, &bytes) {
        count += 1;
    }
    assert_eq!(a.outbox.need(), Some(Need::Slot(0)));
    a.outbox.flush().unwrap();
    for _ in 0..count {
        assert_eq!(b.next(), Ok(Some((1, SLOT))));
    }
    // The last slot goes back with the flush, the others did before.
    b.inbox.flush().unwrap();
    for _ in 0..count {
        assert!(a.put(2, &bytes));
    }
    assert!(!a.put(2, &bytes) && a.outbox.need().is_some());
    assert!(a.outbox.has_lines(1).unwrap() && !a.outbox.has_lines(1024).unwrap());
    assert_eq!(a.outbox.need(), Some(Need::Lines(1024)));
}

#[test]
fn parts_of_a_message_are_told_by_a_flush_although_others_had_no_room() {
    let world = World::new(1, 1 << 20);
    // Without a flush nothing is sent.
    world.set_routed(true);
    let [mut a, b] = pair(&world);
    assert!(!a.put(1, &[7; 64 * SLOT]));
    a.outbox.flush().unwrap();
    let (mut receiving, mut room) = (b.inbox, Room::default());
    let first = receiving.receiving().receive(&mut room).unwrap();
    let first = first.expect("a part");
    assert!(first.head.more && first.data.len() == SLOT);
}

#[test]
fn a_message_that_the_interface_does_not_know_ends_the_pair() {
    let world = World::new(1, 1 << 20);
    for kind in [9, 255] {
        let [mut a, mut b] = pair(&world);
        assert!(a.put(kind, b"?"));
        a.outbox.flush().unwrap();
        assert_eq!(b.next(), Err(End::Broken));
    }
}

#[test]
fn a_message_has_the_bytes_beside_its_data_or_ends_the_pair() {
    let world = World::new(1, 1 << 20);
    for (extra, fits) in [(0, true), (8, true), (9, false), (64, false)] {
        let [mut a, mut b] = pair(&world);
        assert!(a.put(1, &[7; 8]));
        a.outbox.flush().unwrap();
        let lent = b.inbox.receive(|_| Some(extra));
        let lens = lent.map(|lent| lent.map(|lent| (lent.extra.len(), lent.data.len())));
        let expected = match fits {
            true => Ok(Some((extra, 8 - extra))),
            false => Err(End::Broken),
        };
        assert_eq!(lens, expected);
    }
}

#[test]
fn a_partner_is_asked_for_signals_once_and_again_after_it_has_given_one() {
    let world = World::new(1, 1 << 20);
    let fabric = asking(&world);
    let [mut a, mut b] = pair(&world);
    // What each half has said at the beginning.
    while [&mut a, &mut b]
        .iter_mut()
        .any(|side| side.inbox.look().is_some())
    {}
    assert_eq!(
        b.arm(&fabric).map(|answer| answer != Answer::Busy),
        Ok(true)
    );
    assert!(a.put(1, b"x"));
    a.outbox.flush().unwrap();
    assert_eq!(b.next(), Ok(Some((1, 1))));
    assert_eq!(b.inbox.look(), None);
    assert!(a.put(1, b"y"));
    a.outbox.flush().unwrap();
    // There is something to do first.
    assert_eq!(b.arm(&fabric), Err(NotNow));
    assert_eq!(b.next(), Ok(Some((1, 1))));
    // A signal that others have taken meanwhile was perhaps the one that was asked for.
    assert!(b.inbox.arm(None).unwrap().is_some());
    assert!(b.inbox.arm(None).unwrap().is_none());
    assert_eq!(b.inbox.answered(Answer::Perhaps), Answer::Perhaps);
    assert!(b.inbox.arm(None).unwrap().is_some());
}

#[test]
fn a_partner_is_reminded_once_of_what_it_has_not_taken() {
    let world = World::new(1, 1 << 20);
    let fabric = asking(&world);
    let [mut a, mut b] = pair(&world);
    // What each half has said at the beginning.
    while take_signal(b.inbox.session()).unwrap() {}
    let is_signalled = |side: &Side| take_signal(side.inbox.session()).unwrap();
    a.outbox.remind();
    assert!(!is_signalled(&b), "nothing was sent");
    for _ in 0..2 {
        assert!(a.put(1, b"x"));
        a.outbox.flush().unwrap();
        assert!(!is_signalled(&b), "it has not asked");
        a.outbox.remind();
        assert!(is_signalled(&b));
        a.outbox.remind();
        assert!(!is_signalled(&b), "once for the same messages");
    }
    while b.next().unwrap().is_some() {}
    b.inbox.flush().unwrap();
    // So many that it tells that it has taken them.
    while a.put(1, b"x") {}
    a.outbox.flush().unwrap();
    while b.next().unwrap().is_some() {}
    b.inbox.flush().unwrap();
    a.outbox.remind();
    assert!(!is_signalled(&b), "it has taken all");
    while b.arm(&fabric).is_err() {}
    assert!(a.put(1, b"y"));
    a.outbox.flush().unwrap();
    assert!(is_signalled(&b), "it has asked");
    a.outbox.remind();
    assert!(!is_signalled(&b), "it was signalled for that");
}

#[test]
fn ends_tell_a_link_from_a_partner() {
    for down in [false, true] {
        let world = World::new(1, 1 << 20);
        let [mut a, b] = pair(&world);
        assert_eq!(a.inbox.look(), None);
        match down {
            false => drop(b),
            true => world.set_up(0, false),
        }
        let expected = if down { End::Down } else { End::Gone };
        let patience = Patience::new();
        let end = loop {
            match a.inbox.look() {
                Some(end) => break end,
                None => patience.wait(),
            }
        };
        assert_eq!(end, expected);
    }
    let world = World::new(1, 1 << 20);
    let [mut a, mut b] = pair(&world);
    assert!(b.put(1, b"last"));
    b.outbox.flush().unwrap();
    b.outbox.sending().close(5).unwrap();
    drop(b);
    assert_eq!(a.next(), Ok(Some((1, 4))));
    assert_eq!(a.next(), Err(End::Closed { reason: 5 }));
}

/// The service thread's name.
const THREAD: &str = "test";

/// A link that does as it is told.
#[derive(Default)]
struct Fake {
    attention: Attention,
    served: AtomicU32,
    /// Messages that it still moves.
    work: AtomicU32,
    naps: AtomicU32,
    /// Looking at it takes long.
    is_slow: AtomicBool,
    /// Its host does not answer.
    hangs: AtomicBool,
    /// Times that it was put to rest before the time was over.
    in_time: AtomicU32,
    /// Each message wakes a thread of the program.
    wakes: AtomicBool,
    /// Naps that the thread has begun, and how many there had been before it last woke another.
    asked: AtomicU32,
    asked_before: AtomicU32,
    /// Messages that it has moved without a nap since it last woke another.
    hasty: AtomicU32,
    /// Messages that threads of the program have moved that lead.
    moved_by_leaders: AtomicU32,
}

#[derive(Clone)]
struct Handle(Arc<Fake>);

impl Served for Handle {
    fn attention(&self) -> &Attention {
        &self.0.attention
    }

    fn serve(&self) -> bool {
        self.0.served.fetch_add(1, Ordering::SeqCst);
        if self.0.is_slow.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let less = |work: u32| work.checked_sub(1);
        let work = &self.0.work;
        let moved = work.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        let own = std::thread::current();
        let is_led = u32::from(own.name() != Some(THREAD));
        let moved_led = u32::from(moved.is_ok()) * is_led;
        self.0
            .moved_by_leaders
            .fetch_add(moved_led, Ordering::SeqCst);
        if moved.is_ok() && self.0.wakes.load(Ordering::SeqCst) {
            let asked = self.0.asked.load(Ordering::SeqCst);
            let before = self.0.asked_before.swap(asked, Ordering::SeqCst);
            let hasty = u32::from(asked > 0 && asked == before);
            self.0.hasty.fetch_add(hasty, Ordering::SeqCst);
            self.0.attention.hand_over();
        }
        moved.is_ok()
    }

    fn has_work(&self) -> bool {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        self.0.work.load(Ordering::SeqCst) > 0
    }

    fn rest(&self, until: Deadline) -> Rest {
        let left = until.remaining().unwrap_or_default();
        if !left.is_zero() {
            self.0.in_time.fetch_add(1, Ordering::SeqCst);
        }
        if self.0.hangs.load(Ordering::SeqCst) {
            std::thread::sleep(left);
        }
        if self.left() > 0 && !self.0.hangs.load(Ordering::SeqCst) {
            return Rest::Busy;
        }
        let less = |naps: u32| naps.checked_sub(1);
        let naps = &self.0.naps;
        match naps.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
            Ok(_) => Rest::Nap,
            Err(_) => Rest::Armed,
        }
    }
}

/// Links by their numbers, and the thread.
struct Links {
    service: Service,
    role: Role<Handle>,
    fabric: Fabric<FakeDevice>,
    links: Mutex<HashMap<u64, Handle>>,
}

impl Owner for Links {
    type Device = FakeDevice;
    type Link = Handle;

    fn service(&self) -> &Service {
        &self.service
    }

    fn role(&self) -> &Role<Handle> {
        &self.role
    }

    fn fabric(&self) -> &Fabric<FakeDevice> {
        &self.fabric
    }

    fn link(&self, number: u64) -> Option<Handle> {
        self.links.lock().unwrap().get(&number).cloned()
    }
}

impl Links {
    fn new(world: &World, count: u64) -> Arc<Self> {
        let links = (0..count).map(|number| (number, Handle(Arc::default())));
        let links = Arc::new(Links {
            service: Service::new().unwrap(),
            role: Role::default(),
            fabric: asking(world),
            links: Mutex::new(links.collect()),
        });
        Service::start(&links, THREAD).unwrap();
        links
    }

    fn get(&self, number: u64) -> Handle {
        self.link(number).unwrap()
    }

    fn list(&self, number: u64) {
        self.get(number).attention().list(&self.service, number);
    }

    /// Wait until the thread has looked at a link and left it for a while.
    fn settle(&self, number: u64) -> u32 {
        let link = self.get(number);
        let patience = Patience::new();
        let mut before = 0;
        loop {
            std::thread::sleep(std::time::Duration::from_millis(30));
            let served = link.0.served.load(Ordering::SeqCst);
            if served > 0 && served == before {
                return served;
            }
            before = served;
            patience.wait();
        }
    }
}

#[test]
fn the_thread_looks_after_what_is_listed_and_at_nothing_else() {
    let links = Links::new(&World::new(1, 1 << 20), 2);
    let busy = links.get(0);
    busy.0.work.store(5_000, Ordering::SeqCst);
    busy.0.naps.store(2, Ordering::SeqCst);
    links.list(0);
    assert!(links.settle(0) >= 5_000);
    assert_eq!(busy.0.work.load(Ordering::SeqCst), 0);
    assert_eq!(busy.0.naps.load(Ordering::SeqCst), 0);
    assert_eq!(links.get(1).0.served.load(Ordering::SeqCst), 0);
    links.service.stop();
    let served = busy.0.served.load(Ordering::SeqCst);
    links.list(0);
    assert_eq!(busy.0.served.load(Ordering::SeqCst), served);
}

#[test]
fn a_link_that_a_program_looks_at_is_left_to_it() {
    let links = Links::new(&World::new(1, 1 << 20), 1);
    let link = links.get(0);
    let patience = Patience::new();
    link.attention().watch();
    links.list(0);
    for _ in 0..20 {
        link.attention().watch();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    link.attention().unwatch(&links.service);
    while link.0.served.load(Ordering::SeqCst) == 0 {
        patience.wait();
    }
    links.service.stop();
}

/// Look at a link for so long, as a program does.
fn look_steadily(link: &Handle, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        link.attention().watch();
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn naps_become_longer_while_a_program_looks_and_are_short_after_it_has_stopped() {
    // On a busy processor this thread may be late, and the link is taken from it.
    let patience = Patience::new();
    while naps_of_a_program_that_looks().is_none() {
        patience.wait();
    }
}

/// Nothing if the program was held up for longer than a nap.
fn naps_of_a_program_that_looks() -> Option<()> {
    let links = Links::new(&World::new(1, 1 << 20), 1);
    let link = links.get(0);
    let naps = || link.0.asked.swap(0, Ordering::SeqCst);
    let served = || link.0.served.load(Ordering::SeqCst);
    // The naps while it has looked for so long.
    let look = |time| {
        let before = served();
        look_steadily(&link, time);
        let naps = naps();
        (served() == before).then_some(naps)
    };
    link.attention().watch();
    links.list(0);
    assert!(look(NAP_MAX)? > 3, "the first ones are short");
    let patience = Patience::new();
    while look(2 * NAP_MAX)? != 2 {
        patience.wait();
    }
    assert!(
        (1..=14).contains(&look(10 * NAP_MAX)?),
        "later ones are long"
    );
    // Messages that are there at the end of each nap let a short one follow.
    link.0.work.store(1, Ordering::SeqCst);
    let naps_of_messages = look(10 * NAP_MAX)?;
    assert!(
        (2..=28).contains(&naps_of_messages),
        "two for each long one"
    );
    assert_eq!(served(), 0);
    link.attention().unwatch(&links.service);
    links.settle(0);
    naps();
    link.attention().watch();
    links.list(0);
    assert!(look(NAP_MAX / 2)? > 3, "they begin anew");
    links.service.stop();
    Some(())
}

/// Look until naps are long, and once when one has just begun; how often the link was served.
fn look_for_the_last_time(links: &Arc<Links>) -> u32 {
    let link = links.get(0);
    let patience = Patience::new();
    let served = || link.0.served.load(Ordering::SeqCst);
    let naps = || link.0.asked.load(Ordering::SeqCst);
    loop {
        let (before, first) = (served(), naps());
        // One that is just put to rest is not listed yet.
        while naps() == first {
            patience.wait();
            link.attention().watch();
            links.list(0);
            look_steadily(&link, NAP_MIN);
        }
        look_steadily(&link, 6 * NAP_MAX);
        let last = naps();
        while naps() == last && served() == before {
            patience.wait();
            look_steadily(&link, NAP_MIN);
        }
        link.attention().watch();
        // Where this thread was held up the link was taken from it, and the nap is not a long one.
        if served() == before {
            return before;
        }
        patience.wait();
    }
}

/// How long something takes that others hold up, as they use the processor as well.
fn least(time: impl Fn() -> Duration) -> Duration {
    (0..3).map(|_| time()).min().unwrap()
}

/// How long it takes until the link is served after something is done in a long nap that has just
/// begun, in which the program has looked for the last time.
fn time_until_served(links: &Arc<Links>, act: impl FnOnce()) -> Duration {
    let before = look_for_the_last_time(links);
    let begun = Instant::now();
    act();
    let patience = Patience::new();
    while links.get(0).0.served.load(Ordering::SeqCst) == before {
        patience.wait();
    }
    begun.elapsed()
}

/// One that comes when a long nap has just begun, and the program has looked for the last time.
#[test]
fn a_message_for_a_program_that_has_stopped_waits_for_one_nap() {
    let links = Links::new(&World::new(1, 1 << 20), 1);
    let link = links.get(0);
    let wait = || {
        let before = look_for_the_last_time(&links);
        let begun = Instant::now();
        link.0.work.store(1, Ordering::SeqCst);
        // The thread looks at the end of the nap, unless it has before the message was there.
        let is_early = link.0.served.load(Ordering::SeqCst) != before;
        // If it was taken meanwhile.
        links.list(0);
        let patience = Patience::new();
        while link.0.work.load(Ordering::SeqCst) > 0 {
            patience.wait();
        }
        (!is_early).then(|| begun.elapsed())
    };
    let patience = Patience::new();
    let least = least(|| loop {
        match wait() {
            Some(time) => break time,
            None => patience.wait(),
        }
    });
    assert!(least < NAP_MAX * 3 / 2, "{least:?}");
    links.service.stop();
}

#[test]
fn a_thread_that_goes_to_sleep_leaves_its_link_at_once() {
    let links = Links::new(&World::new(1, 1 << 20), 1);
    let link = links.get(0);
    let least = least(|| time_until_served(&links, || link.attention().unwatch(&links.service)));
    assert!(least < NAP_MAX / 2, "{least:?}");
    links.service.stop();
}

/// The program may have stopped: the nap behind that is a short one.
#[test]
fn a_nap_that_was_ended_is_followed_by_a_short_one() {
    let links = Links::new(&World::new(1, 1 << 20), 1);
    let least = least(|| time_until_served(&links, || links.service.kick()));
    assert!(least < NAP_MAX / 2, "{least:?}");
    links.service.stop();
}

/// A nap is at most about as long as the program has looked.
#[test]
fn naps_that_are_ended_do_not_become_longer() {
    let patience = Patience::new();
    let least = least(|| loop {
        let links = Links::new(&World::new(1, 1 << 20), 1);
        let link = links.get(0);
        link.attention().watch();
        links.list(0);
        let is_left = || link.0.served.load(Ordering::SeqCst) == 0;
        let mut last = 0;
        for _ in 0..20 {
            while link.0.asked.load(Ordering::SeqCst) == last && is_left() {
                patience.wait();
                look_steadily(&link, NAP_MIN / 5);
            }
            last = link.0.asked.load(Ordering::SeqCst);
            links.service.kick();
        }
        let was_left = is_left();
        let begun = Instant::now();
        link.0.work.store(1, Ordering::SeqCst);
        links.list(0);
        while link.0.work.load(Ordering::SeqCst) > 0 {
            patience.wait();
        }
        links.service.stop();
        // On a busy processor this thread may be late, and the link is taken from it.
        if was_left {
            break begun.elapsed();
        }
    });
    assert!(least < NAP_MAX / 2, "{least:?}");
}

#[test]
fn the_thread_leaves_a_link_to_a_thread_that_it_has_woken() {
    const MESSAGES: u32 = 20;
    let links = Links::new(&World::new(1, 1 << 20), 1);
    let link = links.get(0);
    link.0.wakes.store(true, Ordering::SeqCst);
    link.0.work.store(MESSAGES, Ordering::SeqCst);
    links.list(0);
    let patience = Patience::new();
    while link.0.work.load(Ordering::SeqCst) > 0 {
        patience.wait();
    }
    assert!(link.0.asked.load(Ordering::SeqCst) >= MESSAGES - 1);
    assert_eq!(link.0.hasty.load(Ordering::SeqCst), 0);
    links.service.stop();
}

/// However long messages of a link take, another one is taken off the list soon.
#[test]
fn a_link_with_much_to_move_does_not_hold_up_those_that_are_listed() {
    let links = Links::new(&World::new(1, 1 << 20), 2);
    let busy = links.get(0);
    busy.0.is_slow.store(true, Ordering::SeqCst);
    busy.0.work.store(u32::MAX, Ordering::SeqCst);
    links.list(0);
    let patience = Patience::new();
    while busy.0.served.load(Ordering::SeqCst) == 0 {
        patience.wait();
    }
    links.list(1);
    let begun = Instant::now();
    while links.get(1).0.served.load(Ordering::SeqCst) == 0 {
        patience.wait();
    }
    assert!(begun.elapsed() < Duration::from_secs(2));
    links.service.stop();
}

/// Hosts that do not answer use up the time of the others in some rounds only.
#[test]
fn each_link_has_a_turn_at_being_put_to_rest() {
    let links = Links::new(&World::new(1, 1 << 20), 4);
    for number in 0..4 {
        let link = links.get(number);
        link.0.hangs.store(true, Ordering::SeqCst);
        link.0.naps.store(u32::MAX, Ordering::SeqCst);
        links.list(number);
    }
    let patience = Patience::new();
    while !(0..4).all(|number| links.get(number).0.in_time.load(Ordering::SeqCst) > 2) {
        patience.wait();
    }
    links.service.stop();
}

/// An event of a session brings its link back.
#[test]
fn news_of_a_session_list_its_link() {
    let world = World::new(1, 1 << 20);
    let links = Links::new(&world, 4);
    let [here, there] = [Host::A, Host::B].map(|host| InterfaceId(world.interface(0, host)));
    let server = links.fabric.server(here, 1).local(WINDOW..=WINDOW);
    let server = server.open().unwrap();
    let other = Fabric::with_device(world.open(Host::B));
    let client = other.client(there, 1).remote(WINDOW..=WINDOW);
    let client = client.open().unwrap();
    let news = mp_queue_pair::provider::NEWS;
    server.watch(news, 3).unwrap();
    client.signal().unwrap();
    links.settle(3);
    assert!(links.get(3).attention().take_news() && !links.get(3).attention().has_news());
    links.service.stop();
}

impl Links {
    /// A message arrives on a link, which its partner signals.
    fn arrive(&self, number: u64) {
        self.get(number).0.work.fetch_add(1, Ordering::SeqCst);
        self.list(number);
    }

    /// Wait until a message was moved.
    fn until_moved(&self, number: u64) {
        let patience = Patience::new();
        while self.get(number).left() > 0 {
            patience.wait();
        }
    }

    /// Do something while a thread leads, which finishes once it is told so.
    fn while_led(&self, act: impl FnOnce()) {
        let (leads, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let deadline = Deadline::after(Duration::from_secs(60));
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| {
                let led = lead(self, deadline, || {
                    leads.store(true, Ordering::SeqCst);
                    is_over.load(Ordering::SeqCst)
                });
                matches!(led, Led::Over)
            });
            let patience = Patience::new();
            while !leads.load(Ordering::SeqCst) {
                patience.wait();
            }
            act();
            is_over.store(true, Ordering::SeqCst);
            self.service.kick_leader();
            assert!(leader.join().unwrap());
        });
        assert!(deadline.remaining() > Some(Duration::ZERO), "not told");
    }

    /// Wait behind a leader.
    fn follow(&self) -> Led<'_> {
        let led = lead(self, Deadline::PAST, || true);
        assert!(matches!(led, Led::Follow(_)));
        led
    }
}

impl Handle {
    fn left(&self) -> u32 {
        self.0.work.load(Ordering::SeqCst)
    }

    fn moved_by_leaders(&self) -> u32 {
        self.0.moved_by_leaders.load(Ordering::SeqCst)
    }
}

#[test]
fn a_thread_that_leads_moves_what_arrives_by_itself() {
    let links = Links::new(&World::new(1, 1 << 20), 1);
    for n in 1..=20 {
        links.while_led(|| {
            links.arrive(0);
            links.until_moved(0);
        });
        assert_eq!(links.get(0).moved_by_leaders(), n);
    }
    links.service.stop();
}

#[test]
fn one_leads_and_others_follow() {
    let links = Links::new(&World::new(1, 1 << 20), 1);
    links.while_led(|| drop([links.follow(), links.follow()]));
    links.while_led(|| drop(links.follow()));
    links.service.stop();
}

/// Also if another thread sleeps, which counts on it.
#[test]
fn the_service_thread_goes_on_behind_a_leader() {
    let links = Links::new(&World::new(1, 1 << 20), 1);
    for follows in [false, true] {
        let mut follower = None;
        links.while_led(|| follower = follows.then(|| links.follow()));
        links.arrive(0);
        links.until_moved(0);
        assert_eq!(links.get(0).moved_by_leaders(), 0);
    }
    links.service.stop();
}

#[test]
fn a_leader_finishes_at_its_deadline_and_with_the_service() {
    let links = Links::new(&World::new(1, 1 << 20), 1);
    let begun = Instant::now();
    lead(&*links, Deadline::after(Duration::from_millis(30)), || {
        false
    });
    assert!(begun.elapsed() >= Duration::from_millis(30));
    let leads = AtomicBool::new(false);
    let lead = || {
        let deadline = Deadline::after(Duration::from_secs(60));
        lead(&*links, deadline, || {
            leads.store(true, Ordering::SeqCst);
            false
        });
        assert!(deadline.remaining() > Some(Duration::ZERO));
    };
    std::thread::scope(|scope| {
        scope.spawn(lead);
        let patience = Patience::new();
        while !leads.load(Ordering::SeqCst) {
            patience.wait();
        }
        links.service.stop();
    });
    lead();
}

/// Threads that wait by turns, each for messages of its own, all get them.
#[test]
fn messages_for_many_threads_that_wait_all_arrive() {
    const THREADS: u64 = 4;
    const MESSAGES: u32 = 300;
    let links = Links::new(&World::new(1, 1 << 20), THREADS);
    let end = Deadline::after(Duration::from_secs(60));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let links = &links;
            scope.spawn(move || {
                let link = links.get(number);
                for _ in 0..MESSAGES {
                    links.arrive(number);
                    while link.left() > 0 {
                        assert!(end.remaining() > Some(Duration::ZERO), "not in time");
                        // A follower looks again, as nobody wakes it here.
                        let soon = Deadline::after(Duration::from_millis(1));
                        if let Led::Follow(_follower) = lead(&**links, soon, || link.left() == 0) {
                            std::thread::yield_now();
                        }
                    }
                }
            });
        }
    });
    links.service.stop();
}
