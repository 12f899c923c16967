// SPDX-License-Identifier: GPL-2.0-only

//! NAPI: when polls run, and what is asked of their source between them.

use super::*;
use mp_kernel::net::napi::{
    Instance,
    Napi,
    NapiHost,
    Poll, //
};

impl Poll for Turns {
    fn poll(&self, _napi: &Napi, _budget: u32) -> u32 {
        self.turn();
        0
    }
}

#[test]
fn a_poll_follows_when_it_is_asked_for_and_none_once_it_is_closed() {
    for_each_seed(|| {
        let turns = Turns::new(0)?;
        let napi = NapiHost::new()?.add(turns.clone())?;
        napi.schedule();
        machine::sleep_until(machine::now() + 1_000_000);
        assert_eq!(turns.done.load(Relaxed), 0);
        napi.enable()?;
        for round in 1..=5 {
            turns.asked.store(round, Relaxed);
            napi.schedule();
        }
        machine::sleep_until(machine::now() + 1_000_000);
        assert_eq!(turns.done.load(Relaxed), 5);
        turns.asked.store(6, Relaxed);
        napi.schedule();
        napi.close();
        assert_eq!(turns.inside.load(Relaxed), 0);
        let done = turns.done.load(Relaxed);
        turns.asked.store(7, Relaxed);
        napi.schedule();
        machine::sleep_until(machine::now() + 1_000_000);
        assert_eq!(turns.done.load(Relaxed), done);
        assert_eq!(napi.enable(), Err(EINVAL));
        Ok(())
    });
}

/// A source that notes what it is asked.
struct Source {
    /// Packets that it has, and takes out so many at a time.
    packets: Atomic<u32>,
    linger_ns: u64,
    is_armed: Atomic<bool>,
    /// Arming takes its time.
    arming: Atomic<bool>,
    polls: Atomic<u32>,
    /// Polls that began while the source was being armed.
    during_arm: Atomic<u32>,
    muted: Atomic<u32>,
    asked: Atomic<u32>,
}

impl Source {
    fn new(linger_ns: u64) -> Result<Arc<Self>> {
        let this = Self {
            packets: Atomic::new(0),
            linger_ns,
            is_armed: Atomic::new(false),
            arming: Atomic::new(false),
            polls: Atomic::new(0),
            during_arm: Atomic::new(0),
            muted: Atomic::new(0),
            asked: Atomic::new(0),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    /// A packet arrives: an interrupt, if the source is armed.
    fn arrive(&self, napi: &Instance<Self>) {
        self.packets.fetch_add(1, Relaxed);
        if self.is_armed.xchg(false, Relaxed) {
            napi.schedule();
        }
    }
}

impl Poll for Source {
    fn linger_ns(&self) -> u64 {
        self.linger_ns
    }

    fn poll(&self, _napi: &Napi, budget: u32) -> u32 {
        self.polls.fetch_add(1, Relaxed);
        let overlaps = self.arming.load(Relaxed);
        self.during_arm.fetch_add(u32::from(overlaps), Relaxed);
        let packets = self.packets.load(Relaxed).min(budget);
        self.packets.fetch_sub(packets, Relaxed);
        packets
    }

    fn arm(&self, _watch_ns: u64) -> bool {
        self.arming.store(true, Relaxed);
        self.is_armed.xchg(true, Relaxed);
        (0..5).for_each(|_| machine::point());
        self.arming.store(false, Relaxed);
        self.is_ready()
    }

    fn mute(&self) {
        self.muted.fetch_add(1, Relaxed);
        self.is_armed.store(false, Relaxed);
    }

    fn is_ready(&self) -> bool {
        self.asked.fetch_add(1, Relaxed);
        self.packets.load(Relaxed) != 0
    }
}

/// What was seen of a source to which packets come now and then, over all seeds.
fn packets_come(linger_ns: u64, at_once: u32, see: fn(&Source) -> u32) -> u32 {
    let sum = std::rc::Rc::new(std::cell::Cell::new(0));
    for seed in 0..SEEDS {
        let sum = sum.clone();
        run(Plan::new(seed), move || {
            let source = Source::new(linger_ns).expect("memory is there");
            let host = NapiHost::new().expect("memory is there");
            let napi = host.add(source.clone()).expect("memory is there");
            napi.enable().expect("it is not closed");
            napi.schedule();
            for _ in 0..20 {
                (0..at_once).for_each(|_| source.arrive(&napi));
                machine::sleep_until(machine::now() + machine::world::below(4_000));
            }
            machine::sleep_until(machine::now() + 20_000_000);
            assert_eq!(source.packets.load(Relaxed), 0, "packets are left");
            napi.close();
            sum.set(sum.get() + see(&source));
        });
    }
    sum.get()
}

#[test]
fn a_poll_may_begin_while_the_last_one_arms_the_source() {
    assert!(packets_come(0, 1, |source| source.during_arm.load(Relaxed)) > 0);
}

#[test]
fn a_source_that_lingers_is_watched_and_muted_meanwhile() {
    assert!(packets_come(20_000, 1, |source| source.muted.load(Relaxed)) > 0);
    assert_eq!(packets_come(0, 1, |source| source.muted.load(Relaxed)), 0);
}

#[test]
fn many_packets_are_polled_in_several_turns() {
    let polls = packets_come(0, 300, |source| source.polls.load(Relaxed));
    assert!(polls > 20 * 300 / 64 * SEEDS as u32, "{polls}");
}

#[test]
fn a_source_goes_when_its_instance_is_closed_and_is_not_asked_after_that() {
    for seed in 0..4 * SEEDS {
        run(Plan::new(seed), || {
            let linger_ns = machine::world::below(2) * 1_000_000;
            let source = Source::new(linger_ns).expect("memory is there");
            let host = NapiHost::new().expect("memory is there");
            let napi = host.add(source.clone()).expect("memory is there");
            napi.enable().expect("it is not closed");
            napi.schedule();
            for _ in 0..machine::world::below(4) {
                machine::sleep_until(machine::now() + machine::world::below(2_000));
                source.arrive(&napi);
            }
            drop(source);
            machine::sleep_until(machine::now() + machine::world::below(4_000));
            // A poll that runs yet would use memory of the source, or of the thread that watches.
            napi.close();
            drop((napi, host));
            machine::sleep_until(machine::now() + 1_000_000);
            assert_eq!(pieces_of(&machine::host()), 0);
        });
    }
}
