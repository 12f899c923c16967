// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The rules of the link, one by one; `sim.rs` throws everything at it at once.

mod common;

use common::links::{identity, local, LEN, MS};
use common::{Dice, Ram};
use mp_proto::layout::{Layout, STATUS_LEN};
use mp_proto::link::{
    read_beat, write_beat, Action, Actions, Config, DownReason, Further, Hello, Identity, Link,
    Local, Mismatch, Role, State, HELLO_SIZE,
};
use mp_proto::mailbox::{Mail, MailRead};
use mp_proto::memory::Inbound;
use mp_proto::version::{Support, Terms, WIRE};
use mp_proto::wire::PeerId;
use proptest::prelude::*;

/// One host: its machine, its memory and what the machine asked for last.
struct Side {
    link: Link<Dice>,
    ram: Ram,
    mailbox: Option<Mail>,
    mapped: bool,
    log: Vec<Action>,
}

impl Side {
    fn new(id: u32, seed: u64) -> Side {
        Side::speaking(WIRE, id, seed)
    }

    fn speaking(support: Support, id: u32, seed: u64) -> Side {
        let local = Local {
            support,
            ..local(id)
        };
        Side {
            link: Link::new(Config::default(), local, Dice::new(seed)),
            ram: Ram::new(LEN as usize),
            mailbox: None,
            mapped: false,
            log: Vec::new(),
        }
    }

    fn carry_out(&mut self, peer: &Ram, todo: Actions, now: u64) {
        for action in todo {
            self.log.push(action);
            match action {
                Action::ResetInbound => self.ram.zero(0, STATUS_LEN).expect("inside"),
                Action::PublishMailbox(mail) => self.mailbox = Some(mail),
                Action::ClearMailbox => self.mailbox = None,
                Action::MapWindow { len, .. } => {
                    self.mapped = true;
                    let todo = self.link.mapped(Some(len), now);
                    self.carry_out(peer, todo, now);
                }
                Action::UnmapWindow => self.mapped = false,
                Action::WriteHello(hello) => {
                    assert!(self.mapped, "write without a window");
                    hello.write(peer).expect("inside");
                }
                Action::Beat(beat) => {
                    assert!(self.mapped, "write without a window");
                    write_beat(peer, beat).expect("inside");
                }
                _ => {}
            }
        }
    }

    fn run(&mut self, peer: &Ram, mail: Option<Mail>, now: u64) {
        let todo = self.link.ntb_link(true, now);
        self.carry_out(peer, todo, now);
        let read = mail.map_or(MailRead::Nobody, MailRead::Mail);
        let todo = self.link.mailbox(read, now);
        self.carry_out(peer, todo, now);
        let beat = read_beat(&self.ram).expect("inside");
        let todo = self.link.observe(Hello::read(&self.ram), beat, now);
        self.carry_out(peer, todo, now);
        let todo = self.link.tick(now);
        self.carry_out(peer, todo, now);
    }

    fn down_reasons(&self) -> Vec<DownReason> {
        let downs = self.log.iter().filter_map(|a| match a {
            Action::LinkDown(reason) => Some(*reason),
            _ => None,
        });
        downs.collect()
    }
}

struct Two {
    a: Side,
    b: Side,
    now: u64,
}

impl Two {
    fn new() -> Two {
        Two::of(WIRE, WIRE)
    }

    /// Hosts of two releases.
    fn of(a: Support, b: Support) -> Two {
        Two {
            a: Side::speaking(a, 0, 1),
            b: Side::speaking(b, 1, 2),
            now: 1000 * MS,
        }
    }

    fn step(&mut self, a_runs: bool, b_runs: bool) {
        self.now += 10 * MS;
        if a_runs {
            self.a.run(&self.b.ram, self.b.mailbox, self.now);
        }
        if b_runs {
            self.b.run(&self.a.ram, self.a.mailbox, self.now);
        }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 10 {
            self.step(true, true);
        }
    }

    fn up() -> Two {
        let mut t = Two::new();
        t.run(200);
        assert_eq!(t.states(), (State::Up, State::Up));
        t.a.log.clear();
        t.b.log.clear();
        t
    }

    fn states(&self) -> (State, State) {
        (self.a.link.state(), self.b.link.state())
    }
}

/// design 4.1, 4.2: both agree on the epoch's tags, crosswise
#[test]
fn two_hosts_come_up_and_agree_on_the_epoch() {
    let t = Two::up();
    let (a_tx, a_rx) = t.a.link.tags().expect("up");
    let (b_tx, b_rx) = t.b.link.tags().expect("up");
    assert_eq!((a_tx, a_rx), (b_rx, b_tx));
    assert_ne!(a_tx, a_rx);
}

/// design 4.1: no memory is written before the peer has answered this attempt
#[test]
fn a_mailbox_that_a_dead_host_left_is_never_engaged() {
    let mut t = Two::up();
    let stale = t.b.mailbox;
    let mut fresh = Side::new(0, 77);
    for n in 0..500 {
        fresh.run(&t.b.ram, stale, t.now + n * 10 * MS);
    }
    assert_eq!(fresh.link.state(), State::Boot);
    assert!(!fresh.mapped);
    // The survivor of a silent peer does not write there either.
    for _ in 0..200 {
        t.step(true, false);
    }
    assert_eq!(t.a.down_reasons(), [DownReason::PeerSilent]);
    assert!(!t.a.mapped);
    let at =
        t.a.log
            .iter()
            .position(|a| matches!(a, Action::LinkDown(_)));
    let after = &t.a.log[at.expect("down")..];
    assert!(!after
        .iter()
        .any(|a| matches!(a, Action::WriteHello(_) | Action::Beat(_))));
}

/// design 4.3: noticed within the time, not earlier
#[test]
fn a_silent_peer_is_noticed_in_time() {
    let mut t = Two::up();
    for _ in 0..55 {
        t.step(true, false);
    }
    assert_eq!(t.a.link.state(), State::Up);
    for _ in 0..12 {
        t.step(true, false);
    }
    assert_eq!(t.a.down_reasons(), [DownReason::PeerSilent]);
}

/// design 4.3: it hung, and goes on
#[test]
fn a_peer_that_was_hung_is_met_again_in_a_new_epoch() {
    let mut t = Two::up();
    let before = t.a.link.tags();
    for _ in 0..300 {
        t.step(true, false);
    }
    t.run(1000);
    assert_eq!(t.states(), (State::Up, State::Up));
    assert_ne!(t.a.link.tags(), before);
}

/// design 4.11: an orderly end is noticed at once
#[test]
fn a_goodbye_ends_the_epoch_at_once() {
    let mut t = Two::up();
    let todo = t.b.link.shutdown();
    t.b.carry_out(&t.a.ram, todo, t.now);
    assert_eq!(t.b.down_reasons(), [DownReason::Shutdown]);
    assert_eq!((t.b.mapped, t.b.mailbox), (false, None));
    t.step(true, false);
    assert_eq!(t.a.down_reasons(), [DownReason::PeerLeft]);
    t.b = Side::new(1, 3);
    t.run(500);
    assert_eq!(t.states(), (State::Up, State::Up));
    let again = t.a.link.shutdown();
    assert!(again.into_iter().count() > 0);
    assert_eq!(t.a.link.shutdown().into_iter().count(), 0);
}

/// design 4.1, 4.2
#[test]
fn a_rebooted_peer_is_noticed_by_its_mailbox() {
    let mut t = Two::up();
    t.b = Side::new(1, 4);
    t.step(true, true);
    t.step(true, true);
    assert_eq!(t.a.down_reasons(), [DownReason::PeerRestarted]);
    t.run(500);
    assert_eq!(t.states(), (State::Up, State::Up));
}

/// design 4.2
#[test]
fn a_peer_with_another_epoch_in_its_hello_has_restarted() {
    for change in [(1, 0), (0, 1)] {
        let mut t = Two::up();
        let mut hello = Hello::read(&t.a.ram).expect("up");
        hello.epoch = hello.epoch.wrapping_add(change.0);
        hello.echo = hello.echo.wrapping_add(change.1);
        hello.write(&t.a.ram).expect("inside");
        t.step(true, false);
        assert_eq!(t.a.down_reasons(), [DownReason::PeerRestarted]);
    }
}

/// design 4.2: frames of an epoch that the peer does not know would be lost
#[test]
fn an_epoch_begins_only_when_the_peer_has_named_it() {
    let mut t = Two::new();
    while t.states().0 != State::Mapped || Hello::read(&t.a.ram).is_none() {
        t.step(true, false);
        t.b.run(&t.a.ram, t.a.mailbox, t.now);
    }
    let own = t.a.log.iter().rev().find_map(|action| match action {
        Action::WriteHello(hello) => Some(hello.epoch),
        _ => None,
    });
    let own = own.expect("it has spoken");
    let said = Hello::read(&t.a.ram).expect("it has spoken");
    for (echo, state) in [
        (0, State::Mapped),
        (own.wrapping_add(1), State::Mapped),
        (said.epoch, State::Mapped),
        (own, State::Up),
    ] {
        Hello { echo, ..said }.write(&t.a.ram).expect("inside");
        t.step(true, false);
        assert_eq!(t.a.link.state(), state, "echo {echo:x}");
    }
}

/// design 4.1: what a peer left behind is gone before it can answer the next attempt
#[test]
fn the_status_page_is_zeroed_before_an_attempt_or_an_echo_is_announced() {
    let mut t = Two::new();
    t.run(300);
    t.b = Side::new(1, 4);
    t.run(500);
    let mut announced = None;
    let mut zeroed = false;
    for action in &t.a.log {
        match action {
            Action::ResetInbound => zeroed = true,
            Action::PublishMailbox(mail) => {
                assert!(
                    zeroed || announced == Some(*mail),
                    "announced over old bytes"
                );
                announced = Some(*mail);
                zeroed = false;
            }
            _ => {}
        }
    }
}

/// design 4.1: no single write has to arrive
#[test]
fn a_hello_that_is_lost_is_said_again() {
    for lost in 0..8 {
        let mut t = Two::new();
        for n in 0..30 {
            if n == lost {
                t.a.ram.zero(0, STATUS_LEN).expect("inside");
                t.b.ram.zero(0, STATUS_LEN).expect("inside");
            }
            t.step(true, true);
        }
        assert_eq!(t.states(), (State::Up, State::Up));
    }
}

/// design 4.1
#[test]
fn the_links_loss_and_return_starts_a_new_epoch() {
    let mut t = Two::up();
    let before = t.a.link.tags();
    let todo = t.a.link.ntb_link(false, t.now);
    t.a.carry_out(&t.b.ram, todo, t.now);
    assert_eq!(t.a.down_reasons(), [DownReason::NtbLink]);
    assert_eq!(t.a.link.ntb_link(false, t.now).into_iter().count(), 0);
    t.run(500);
    assert_eq!(t.states(), (State::Up, State::Up));
    assert_ne!(t.a.link.tags(), before);
}

/// design 2, never 5: reset, then pauses that grow, so that a liar does not spin this host
#[test]
fn corrupt_memory_resets_the_link_and_each_pause_is_longer() {
    let mut t = Two::up();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let start = t.now;
        let todo = t.a.link.corrupt(t.now);
        t.a.carry_out(&t.b.ram, todo, t.now);
        assert_eq!(t.a.link.state(), State::Hold);
        while t.a.link.state() == State::Hold {
            t.step(true, true);
        }
        pauses.push((t.now - start) / MS);
        t.run(400);
        assert_eq!(t.states(), (State::Up, State::Up));
    }
    assert!(pauses.is_sorted() && pauses[0] <= 30, "{pauses:?}");
    assert_eq!(pauses.last(), Some(&1000));
    assert!(t
        .b
        .down_reasons()
        .iter()
        .all(|r| *r == DownReason::PeerLeft));
    t.run(6000);
    let start = t.now;
    let todo = t.a.link.corrupt(t.now);
    t.a.carry_out(&t.b.ram, todo, t.now);
    while t.a.link.state() == State::Hold {
        t.step(true, true);
    }
    assert!(t.now - start <= 30 * MS, "a stable link is forgiven");
}

/// design 4.1
#[test]
fn a_peer_of_another_version_is_reported_once() {
    let mut a = Side::new(0, 1);
    a.run(&Ram::new(0), None, MS);
    let mut reports = Vec::new();
    for (ms, v) in [(1, 2), (2, 2), (1500, 2), (1501, 3), (1502, 3), (3000, 3)] {
        let todo = a.link.mailbox(MailRead::Version(v), ms * MS);
        let told = todo
            .into_iter()
            .filter(|x| *x == Action::ReportVersion(Mismatch::Bootstrap(v)));
        reports.extend(told.map(|_| (ms, v)));
    }
    assert_eq!(reports, [(1, 2), (1501, 3)]);
}

/// design 4.1: releases that share a version work together, with the newest that both speak
#[test]
fn hosts_of_different_releases_agree_on_the_newest_common_version() {
    let releases = [
        Support::only(1),
        Support {
            features: 5,
            ..WIRE
        },
        Support {
            oldest: 2,
            newest: 9,
            features: 6,
        },
    ];
    for (a, b, version, features) in [(0, 1, 1, 0), (1, 1, 2, 5), (1, 2, 2, 4), (2, 2, 9, 6)] {
        let mut t = Two::of(releases[a], releases[b]);
        t.run(200);
        for side in [&t.a, &t.b] {
            let terms = side.log.iter().find_map(|x| match x {
                Action::LinkUp { terms, .. } => Some(*terms),
                _ => None,
            });
            assert_eq!(terms, Some(Terms { version, features }));
        }
    }
}

/// design 4.1: others never come up, and each side says once what the other one speaks,
/// whichever is seen first
#[test]
fn hosts_without_a_common_version_both_report_it_once() {
    for b_starts_at in 0..12 {
        let (old, new) = (Support::only(1), Support::only(2));
        let mut t = Two::of(old, new);
        for n in 0..1000 {
            t.step(true, n >= b_starts_at);
        }
        for (side, other) in [(&t.a, new), (&t.b, old)] {
            let told: Vec<_> = side
                .log
                .iter()
                .filter(|x| matches!(x, Action::ReportVersion(_)))
                .collect();
            assert_eq!(told, [&Action::ReportVersion(Mismatch::Wire(other))]);
            assert!(side.log.iter().all(|x| !matches!(x, Action::LinkUp { .. })));
        }
    }
}

/// design 4.1: another release on the other side is met as if nothing had been before
#[test]
fn a_peer_that_is_updated_is_met() {
    let mut t = Two::of(Support::only(2), Support::only(1));
    t.run(3000);
    let memory = t.b.ram;
    t.b = Side::new(1, 5);
    t.b.ram = memory;
    t.run(3000);
    assert_eq!(t.states(), (State::Up, State::Up));
}

/// design 2, never 5: what a host speaks is for a whole epoch
#[test]
fn versions_that_change_within_the_epoch_are_corrupt() {
    let mut t = Two::up();
    let mut hello = Hello::read(&t.a.ram).expect("up");
    hello.support = Support::only(1);
    let todo = t.a.link.observe(Some(hello), 1, t.now);
    t.a.carry_out(&t.b.ram, todo, t.now);
    assert_eq!(t.a.down_reasons(), [DownReason::Corrupt]);
}

/// design 2, never 5: a range that is none makes no Hello
#[test]
fn a_hello_without_a_version_is_none() {
    let mut t = Two::up();
    let mut hello = Hello::read(&t.a.ram).expect("up");
    hello.support = Support {
        oldest: 3,
        newest: 2,
        features: 0,
    };
    hello.write(&t.a.ram).expect("inside");
    assert_eq!(Hello::read(&t.a.ram), None);
    t.run(100);
    assert_eq!(t.states(), (State::Up, State::Up));
}

/// design 2, never 5: a peer that changes its version, or says something else in between, is
/// reported no more than once a second
#[test]
fn a_peer_of_many_versions_does_not_fill_the_log() {
    let mut a = Side::new(0, 1);
    a.run(&Ram::new(0), None, MS);
    let mail = Mail {
        generation: 7,
        echo: 0,
        len: LEN,
        addr: 0x10_0000,
    };
    let mut reports = 0;
    for n in 0..10_000 {
        let said = match n % 3 {
            0 => MailRead::Version(2),
            1 => MailRead::Version(3),
            _ => MailRead::Mail(mail),
        };
        let todo = a.link.mailbox(said, MS + n * MS);
        let told = |x: &Action| matches!(x, Action::ReportVersion(_));
        reports += todo.into_iter().filter(told).count();
    }
    assert!(
        (9..=11).contains(&reports),
        "{reports} reports in 10 seconds"
    );
}

/// design 2, never 5
#[test]
fn a_layout_that_does_not_fit_the_window_is_rejected() {
    let mut t = Two::new();
    while t.a.link.state() != State::Mapped {
        t.step(true, true);
    }
    let mut bad = local(1).layout;
    bad.data_off = LEN;
    let hello = Hello {
        goodbye: false,
        epoch: 5,
        echo: 0,
        identity: identity(1),
        layout: bad,
        further: Further::default(),
        support: WIRE,
    };
    let todo = t.a.link.observe(Some(hello), 1, t.now);
    t.a.carry_out(&t.b.ram, todo, t.now);
    assert_eq!(t.a.link.state(), State::Hold);
}

/// design 2, never 5: a layout is for a whole epoch
#[test]
fn a_layout_that_changes_within_the_epoch_is_corrupt() {
    let mut t = Two::up();
    let mut hello = Hello::read(&t.a.ram).expect("up");
    hello.layout.queues += 1;
    let todo = t.a.link.observe(Some(hello), 1, t.now);
    t.a.carry_out(&t.b.ram, todo, t.now);
    assert_eq!(t.a.down_reasons(), [DownReason::Corrupt]);
}

/// design 4.4: so are the further windows
#[test]
fn further_windows_that_change_within_the_epoch_are_corrupt() {
    let mut t = Two::up();
    let mut hello = Hello::read(&t.a.ram).expect("up");
    hello.further.commons_len = 1 << 20;
    let todo = t.a.link.observe(Some(hello), 1, t.now);
    t.a.carry_out(&t.b.ram, todo, t.now);
    assert_eq!(t.a.down_reasons(), [DownReason::Corrupt]);
}

/// A peer that comes back again and again has an identity to tell in each epoch
#[test]
fn each_epoch_has_its_own_changes_of_identity() {
    let mut t = Two::up();
    for n in 0..20 {
        let todo = t.a.link.ntb_link(false, t.now);
        t.a.carry_out(&t.b.ram, todo, t.now);
        t.run(150);
        assert_eq!(t.states(), (State::Up, State::Up));
        let named = Identity {
            features: n % 2 + 1,
            ..identity(0)
        };
        let todo = t.a.link.set_identity(named, t.now);
        t.a.carry_out(&t.b.ram, todo, t.now);
        t.run(30);
        assert_eq!(t.states(), (State::Up, State::Up));
    }
    assert!(!t.b.down_reasons().contains(&DownReason::Corrupt));
    let changes = t.b.log.iter();
    let changes = changes.filter(|todo| matches!(todo, Action::PeerChanged(_)));
    assert_eq!(changes.count(), 20);
    assert!(t.now < 5000 * MS, "all within one time");
}

/// Each change costs the caller a grace period: there is a limit
#[test]
fn a_peer_that_changes_its_identity_again_and_again_does_not_behave() {
    let mut t = Two::up();
    let names = [identity(0).features, 1].map(|features| Identity {
        features,
        ..identity(0)
    });
    for n in 1..=16 {
        let todo = t.a.link.set_identity(names[n % 2], t.now);
        t.a.carry_out(&t.b.ram, todo, t.now);
        t.run(30);
    }
    let changes = |t: &Two| {
        let changes = t.b.log.iter();
        changes
            .filter(|todo| matches!(todo, Action::PeerChanged(_)))
            .count()
    };
    assert_eq!((changes(&t), t.states()), (16, (State::Up, State::Up)));
    // Time makes up for it.
    t.run(6000);
    let todo = t.a.link.set_identity(names[1], t.now);
    t.a.carry_out(&t.b.ram, todo, t.now);
    t.run(30);
    assert_eq!(changes(&t), 17);
    for n in 0..16 {
        let todo = t.a.link.set_identity(names[n % 2], t.now);
        t.a.carry_out(&t.b.ram, todo, t.now);
        t.run(30);
    }
    assert_eq!(changes(&t), 32);
    assert_eq!(t.b.down_reasons(), [DownReason::Corrupt]);
}

/// IDT-ID-5: an endpoint learns its id from the RP while the link is up
#[test]
fn a_changed_identity_is_told_without_a_new_epoch() {
    let mut t = Two::up();
    let named = Identity {
        your_id: PeerId(9),
        your_index: 2,
        ..identity(0)
    };
    let todo = t.a.link.set_identity(named, t.now);
    t.a.carry_out(&t.b.ram, todo, t.now);
    t.run(100);
    let told = t.b.log.iter().filter(|a| **a == Action::PeerChanged(named));
    assert_eq!(told.count(), 1);
    assert_eq!(t.b.down_reasons(), []);
}

/// design 4.3: nothing to do before the deadline
#[test]
fn the_deadline_is_when_tick_acts() {
    let mut t = Two::up();
    for _ in 0..20 {
        let at = t.a.link.deadline().expect("up");
        assert_eq!(t.a.link.tick(at - 1).into_iter().count(), 0);
        t.now = at - at % (10 * MS);
        t.step(true, true);
    }
    assert_eq!(Side::new(0, 1).link.deadline(), None);
}

/// design 4.1: a window that cannot be mapped is tried again
#[test]
fn a_window_that_cannot_be_mapped_is_tried_again_later() {
    let mut t = Two::new();
    t.step(true, true);
    let mail = t.b.mailbox.expect("published");
    let answer = Mail {
        echo: t.a.mailbox.expect("published").generation,
        ..mail
    };
    let todo = t.a.link.mailbox(MailRead::Mail(answer), t.now);
    assert!(todo
        .into_iter()
        .any(|a| matches!(a, Action::MapWindow { .. })));
    let todo = t.a.link.mapped(None, t.now);
    t.a.carry_out(&t.b.ram, todo, t.now);
    assert_eq!(t.a.link.state(), State::Hold);
    assert_eq!(t.a.link.mapped(Some(LEN), t.now).into_iter().count(), 0);
    t.run(500);
    assert_eq!(t.states(), (State::Up, State::Up));
}

fn any_layout() -> impl Strategy<Value = Layout> {
    any::<([u64; 5], [u32; 3])>().prop_map(|(w, s)| Layout {
        len: w[0],
        control_off: w[1],
        control_size: s[0],
        data_size: s[1],
        data_off: w[2],
        queues: s[2],
        arena_off: w[3],
        arena_len: w[4],
    })
}

fn any_hello() -> impl Strategy<Value = Hello> {
    (
        any::<(bool, bool)>(),
        1u64..5,
        0u64..5,
        any::<[u32; 5]>(),
        any_layout(),
        any::<(u64, u64, u32)>(),
    )
        .prop_map(|((goodbye, root), epoch, echo, i, layout, w)| Hello {
            goodbye,
            epoch,
            echo,
            identity: Identity {
                role: if root { Role::Root } else { Role::Endpoint },
                id: PeerId(i[0]),
                index: i[1],
                your_id: PeerId(i[2]),
                your_index: i[3],
                features: i[4],
            },
            layout: if i[0] % 2 == 0 {
                local(1).layout
            } else {
                layout
            },
            further: Further {
                commons_len: w.0,
                commons_addr: w.1,
                exposed: w.2,
            },
            support: Support {
                oldest: 1 + (w.2 & 1) as u8,
                newest: 2 + (w.2 >> 1 & 3) as u8,
                features: (w.2 >> 16) as u16,
            },
        })
}

proptest! {
    /// design 4.1
    #[test]
    fn a_hello_survives_memory_and_a_torn_one_is_none(hello in any_hello(), at in 0..HELLO_SIZE / 8, val: u64) {
        let ram = Ram::new(4096);
        prop_assert_eq!(Hello::read(&ram), None);
        hello.write(&ram).expect("inside");
        prop_assert_eq!(Hello::read(&ram), Some(hello));
        prop_assume!(ram.word(at * 8) != val);
        ram.set_word(at * 8, val);
        prop_assert_eq!(Hello::read(&ram), None);
    }

    /// design 2, never 5: any order of any inputs; the actions stay sane
    #[test]
    fn the_machine_survives_any_inputs_in_any_order(
        inputs in prop::collection::vec((0u8..9, any::<u64>(), any_hello(), any::<u16>()), 0..200),
    ) {
        let mut link = Link::new(Config::default(), local(0), Dice::new(9));
        let (mut now, mut mapping, mut mapped, mut up) = (0u64, false, false, false);
        let (mut own, mut own_epoch) = (0, 0);
        for (what, word, hello, small) in inputs {
            now = now.saturating_add(word % (300 * MS));
            let todo = match what {
                0 => link.ntb_link(word % 8 != 0, now),
                1 => link.mailbox(MailRead::Version(word as u8), now),
                2 | 3 => {
                    let echo = if word % 4 == 0 { small } else { own };
                    let mail = Mail { generation: 1 + small % 3, echo, len: LEN, addr: 0 };
                    link.mailbox(MailRead::Mail(mail), now)
                }
                4 => link.mapped((word % 8 != 0).then_some(LEN), now),
                5 => link.observe(Some(hello), word, now),
                6 => {
                    // The peer knows the own epoch, as an honest one or a good liar does.
                    let echo = own_epoch;
                    link.observe(Some(Hello { echo, ..hello }), word, now)
                }
                7 if word % 16 == 0 => link.corrupt(now),
                _ => link.tick(now),
            };
            mapping &= link.state() == State::Mapping;
            let maps = todo.iter().position(|a| matches!(a, Action::MapWindow { .. }));
            prop_assert!(maps.is_none_or(|at| at + 1 == todo.iter().count()), "not the last");
            for action in todo {
                match action {
                    Action::ResetInbound => prop_assert!(!mapped && !up),
                    Action::PublishMailbox(mail) => {
                        prop_assert!(mail.encode().is_ok());
                        own = mail.generation;
                    }
                    Action::MapWindow { .. } => {
                        prop_assert!(!mapped && !mapping);
                        mapping = true;
                    }
                    Action::UnmapWindow => {
                        prop_assert!(!up);
                        (mapped, mapping) = (false, false);
                    }
                    Action::WriteHello(hello) => {
                        prop_assert!(what == 4 || mapped, "write without a window");
                        own_epoch = hello.epoch;
                        mapped = true;
                    }
                    Action::Beat(_) => prop_assert!(mapped, "write without a window"),
                    Action::LinkUp { .. } => {
                        prop_assert!(mapped && !up);
                        up = true;
                    }
                    Action::LinkDown(_) => {
                        prop_assert!(up);
                        up = false;
                    }
                    Action::PeerChanged(_) => prop_assert!(up),
                    Action::ReportVersion(_) | Action::ClearMailbox => {}
                }
            }
            prop_assert_eq!(up, link.state() == State::Up);
            prop_assert_eq!(up, link.tags().is_some());
        }
    }
}
