// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a link says that it waits for, at each step of its way up, and how often that is reported.

mod common;

use common::links::{local, LEN, MS};
use common::Dice;
use mp_proto::link::{Action, Actions, Config, Hello, Link, Local, Patience, WaitsFor, PATIENCE};
use mp_proto::mailbox::{Mail, MailRead};
use mp_proto::version::{Support, WIRE};
use proptest::prelude::*;

/// A host whose peer does what a test says.
struct Host {
    link: Link<Dice>,
    now: u64,
    /// What it has put into its mailbox last.
    mail: Option<Mail>,
    /// Whether it can map the peer's memory.
    maps: bool,
    /// What it has told the peer last.
    hello: Option<Hello>,
}

impl Host {
    fn new() -> Host {
        Host {
            link: Link::new(Config::default(), local(0), Dice::new(7)),
            now: MS,
            mail: None,
            maps: true,
            hello: None,
        }
    }

    fn carry_out(&mut self, todo: Actions) {
        for action in todo {
            match action {
                Action::PublishMailbox(mail) => self.mail = Some(mail),
                Action::ClearMailbox => self.mail = None,
                Action::MapWindow { len, .. } => {
                    let todo = self.link.mapped(self.maps.then_some(len), self.now);
                    self.carry_out(todo);
                }
                Action::WriteHello(hello) => self.hello = Some(hello),
                _ => {}
            }
        }
    }

    fn ntb_link(&mut self, is_up: bool) {
        let todo = self.link.ntb_link(is_up, self.now);
        self.carry_out(todo);
    }

    fn find(&mut self, read: MailRead) {
        let todo = self.link.mailbox(read, self.now);
        self.carry_out(todo);
    }

    /// The peer's mail, with an answer to the own one or without.
    fn find_mail(&mut self, answers: bool) {
        let own = self.mail.map_or(0, |mail| mail.generation);
        self.find(MailRead::Mail(Mail {
            generation: 9,
            echo: if answers { own } else { 0 },
            len: LEN,
            addr: 0x20_0000,
        }));
    }

    fn observe(&mut self, hello: Option<Hello>) {
        let todo = self.link.observe(hello, 0, self.now);
        self.carry_out(todo);
    }

    /// The peer's Hello, with an answer to the own one or without.
    fn peer_hello(&self, answers: bool) -> Hello {
        let Local {
            layout,
            further,
            identity,
            support,
            ..
        } = local(1);
        Hello {
            goodbye: false,
            epoch: 5,
            echo: self.hello.filter(|_| answers).map_or(0, |own| own.epoch),
            identity,
            layout,
            further,
            support,
        }
    }

    /// Let the longest time pass in which an attempt may hear nothing, and one beat.
    fn wait(&mut self) {
        for _ in 0..70 {
            self.now += 10 * MS;
            let todo = self.link.tick(self.now);
            self.carry_out(todo);
        }
    }

    fn waits_for(&self) -> Option<WaitsFor> {
        self.link.waits_for()
    }
}

/// A link on its way up waits for one thing after the other, and for nothing when it is up.
#[test]
fn each_step_of_the_way_up_is_told() {
    let mut host = Host::new();
    assert_eq!(host.waits_for(), Some(WaitsFor::NtbLink));
    host.ntb_link(true);
    assert_eq!(host.waits_for(), Some(WaitsFor::Mailbox));
    host.find_mail(false);
    assert_eq!(host.waits_for(), Some(WaitsFor::Answer));
    host.find_mail(true);
    assert_eq!(host.waits_for(), Some(WaitsFor::Hello));
    host.observe(Some(host.peer_hello(false)));
    assert_eq!(host.waits_for(), Some(WaitsFor::Echo));
    host.observe(Some(host.peer_hello(true)));
    assert_eq!(host.waits_for(), None);
    host.ntb_link(false);
    assert_eq!(host.waits_for(), Some(WaitsFor::NtbLink));
}

/// Attempts begin anew while a peer's window leads elsewhere; the reason stays the same.
#[test]
fn a_reason_lasts_from_one_attempt_to_the_next() {
    let mut host = Host::new();
    host.ntb_link(true);
    host.find_mail(true);
    assert_eq!(host.waits_for(), Some(WaitsFor::Hello));
    host.wait();
    for _ in 0..3 {
        assert_eq!(host.waits_for(), Some(WaitsFor::Hello));
        host.find_mail(true);
        assert_eq!(host.waits_for(), Some(WaitsFor::Hello));
        host.wait();
    }
    host.find_mail(true);
    host.observe(Some(host.peer_hello(false)));
    host.wait();
    assert_eq!(host.waits_for(), Some(WaitsFor::Echo));
    // Its mail is being written.
    host.find(MailRead::Nobody);
    host.find_mail(false);
    host.find(MailRead::Nobody);
    assert_eq!(host.waits_for(), Some(WaitsFor::Echo));
    // The peer has gone for good.
    host.find(MailRead::Nobody);
    assert_eq!(host.waits_for(), Some(WaitsFor::Mailbox));
    host.find_mail(false);
    assert_eq!(host.waits_for(), Some(WaitsFor::Answer));
}

/// A window that cannot be mapped, and a Hello that cannot be, are told during the pause and after.
#[test]
fn what_has_failed_is_told_during_the_pause_that_follows() {
    let mut host = Host::new();
    host.maps = false;
    host.ntb_link(true);
    host.find_mail(true);
    assert_eq!(host.waits_for(), Some(WaitsFor::Window));
    host.wait();
    assert_eq!(host.waits_for(), Some(WaitsFor::Window));

    host.maps = true;
    host.find_mail(true);
    let mut odd = host.peer_hello(true);
    odd.layout.queues = 0;
    host.observe(Some(odd));
    assert_eq!(host.waits_for(), Some(WaitsFor::Pause));

    host.wait();
    host.find_mail(true);
    let mut later = host.peer_hello(true);
    later.support = Support::only(WIRE.newest + 1);
    host.observe(Some(later));
    assert_eq!(host.waits_for(), Some(WaitsFor::Version));
}

#[test]
fn a_peer_of_another_bootstrap_is_told() {
    let mut host = Host::new();
    host.ntb_link(true);
    host.find(MailRead::Version(9));
    assert_eq!(host.waits_for(), Some(WaitsFor::Version));
    host.find(MailRead::Unclear);
    assert_eq!(host.waits_for(), Some(WaitsFor::Version));
    let _ = host.link.shutdown();
    assert_eq!(host.waits_for(), None);
}

/// After five seconds, once; another reason five seconds later at the soonest; all anew after the
/// link was up.
#[test]
fn a_wait_is_reported_once() {
    let mut patience = Patience::new();
    let start = 3 * MS;
    let hello = Some(WaitsFor::Hello);
    assert_eq!(patience.look(hello, start), None);
    assert_eq!(patience.look(hello, start + PATIENCE - 1), None);
    let told = patience.look(hello, start + PATIENCE);
    assert_eq!(told, Some((WaitsFor::Hello, PATIENCE)));
    assert_eq!(patience.since(), Some(start));
    for n in 1..100 {
        assert_eq!(patience.look(hello, start + PATIENCE + n * PATIENCE), None);
    }
    let later = start + 200 * PATIENCE;
    let echo = Some(WaitsFor::Echo);
    let told = patience.look(echo, later);
    assert_eq!(told, Some((WaitsFor::Echo, 200 * PATIENCE)));
    let mailbox = Some(WaitsFor::Mailbox);
    assert_eq!(patience.look(mailbox, later + PATIENCE - 1), None);
    assert!(patience.look(mailbox, later + PATIENCE).is_some());

    assert_eq!(patience.look(None, later + 2 * PATIENCE), None);
    assert_eq!(patience.since(), None);
    assert_eq!(patience.look(hello, later + 3 * PATIENCE), None);
    assert!(patience.look(hello, later + 4 * PATIENCE).is_some());
}

proptest! {
    /// Whatever a peer makes a link wait for, a log gets no more than one line in five seconds, and
    /// none of a reason that it has, until the link was up.
    #[test]
    fn no_peer_fills_a_log(waits in proptest::collection::vec((0u32..=14, 0u64..8000), 1..200)) {
        let mut patience = Patience::new();
        let (mut now, mut last, mut told) = (0, None, Vec::new());
        for (number, ms) in waits {
            now += ms * MS;
            let waits = WaitsFor::of_number(number);
            if waits.is_none() {
                told.clear();
            }
            if let Some((what, _)) = patience.look(waits, now) {
                prop_assert_eq!(Some(what), waits);
                prop_assert!(!told.contains(&what));
                prop_assert!(last.is_none_or(|last| now - last >= PATIENCE));
                told.push(what);
                last = Some(now);
            }
        }
    }
}

#[test]
fn numbers_are_those_of_the_list() {
    for (number, waits) in (1..).zip(WaitsFor::ALL) {
        assert_eq!(waits.number(), number);
        assert_eq!(WaitsFor::of_number(number), Some(waits));
    }
    assert_eq!(WaitsFor::of_number(0), None);
    assert_eq!(WaitsFor::of_number(15), None);
}
