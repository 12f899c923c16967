// SPDX-License-Identifier: GPL-2.0-only

//! The abstractions on the host: workers, wait queues, NAPI, cells read under RCU, pages,
//! directories.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        rcu,
        Arc, //
    }, //
};
use machine::{
    memory::pieces_of,
    run,
    spawn,
    Kind,
    Plan, //
};
use mp_kernel::{
    kobject::{
        self,
        Attributes,
        Directory,
        NoAttributes, //
    },
    net::napi::{
        Napi,
        NapiHost,
        Poll, //
    },
    new_wait_queue,
    shared_pages::SharedPages,
    sync::RcuArc,
    time::monotonic_ns,
    wait::{
        Events,
        Sleep,
        WaitQueue,
        Waited, //
    },
    worker::{
        new_worker,
        Work, //
    }, //
};

/// Seeds of each test.
const SEEDS: u64 = 50;

fn for_each_seed(test: fn() -> Result) {
    for seed in 0..SEEDS {
        run(Plan::new(seed), move || {
            test().expect("memory is there");
            assert_eq!(pieces_of(&machine::host()), 0);
        });
    }
}

/// Work that takes its turns, and sees that nobody else has one meanwhile.
struct Turns {
    inside: Atomic<u32>,
    done: Atomic<u32>,
    asked: Atomic<u32>,
    again_ms: u32,
}

impl Turns {
    fn new(again_ms: u32) -> Result<Arc<Self>> {
        let this = Self {
            inside: Atomic::new(0),
            done: Atomic::new(0),
            asked: Atomic::new(0),
            again_ms,
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    fn turn(&self) {
        assert_eq!(self.inside.fetch_add(1, Relaxed), 0, "two turns at a time");
        for _ in 0..5 {
            machine::point();
        }
        self.done.store(self.asked.load(Relaxed), Relaxed);
        self.inside.fetch_sub(1, Relaxed);
    }
}

impl Work for Turns {
    fn run(&self) -> Option<u32> {
        self.turn();
        (self.again_ms != 0).then_some(self.again_ms)
    }
}

#[test]
fn a_worker_that_is_kicked_runs_after_that_and_never_twice_at_a_time() {
    for_each_seed(|| {
        let turns = Turns::new(0)?;
        let worker = new_worker!(turns.clone())?;
        for round in 1..=5 {
            turns.asked.store(round, Relaxed);
            worker.kick();
            if round % 2 == 0 {
                machine::sleep_until(machine::now() + 2000);
            }
        }
        machine::sleep_until(machine::now() + 1_000_000);
        assert_eq!(turns.done.load(Relaxed), 5);
        worker.stop();
        Ok(())
    });
}

#[test]
fn a_worker_does_not_run_once_it_is_stopped() {
    for_each_seed(|| {
        let turns = Turns::new(1)?;
        let worker = new_worker!(turns.clone())?;
        worker.kick();
        machine::sleep_until(machine::now() + machine::world::below(3_000_000));
        worker.stop();
        assert_eq!(turns.inside.load(Relaxed), 0);
        turns.asked.store(1, Relaxed);
        worker.kick();
        drop(worker);
        machine::sleep_until(machine::now() + 5_000_000);
        assert_eq!(turns.done.load(Relaxed), 0);
        Ok(())
    });
}

#[test]
fn a_worker_runs_again_in_its_time() {
    run(Plan::new(1), || {
        let turns = Turns::new(0).expect("memory is there");
        let worker = new_worker!(turns.clone()).expect("memory is there");
        turns.asked.store(1, Relaxed);
        worker.kick_in(5);
        worker.kick_once_in(1);
        machine::sleep_until(machine::now() + 4_000_000);
        assert_eq!(turns.done.load(Relaxed), 0);
        machine::sleep_until(machine::now() + 2_000_000);
        assert_eq!(turns.done.load(Relaxed), 1);
        turns.asked.store(2, Relaxed);
        worker.kick_in(50);
        worker.kick_in(1);
        machine::sleep_until(machine::now() + 2_000_000);
        assert_eq!(turns.done.load(Relaxed), 2);
    });
}

#[pin_data]
struct Gate {
    #[pin]
    queue: WaitQueue,
    is_open: Atomic<bool>,
}

#[test]
fn who_waits_is_woken_or_its_time_is_over() {
    for_each_seed(|| {
        let init = pin_init!(Gate {
            queue <- new_wait_queue!(),
            is_open: Atomic::new(false),
        });
        let gate = Arc::pin_init(init, GFP_KERNEL)?;
        let is_open = || gate.is_open.load(Acquire);
        let soon = monotonic_ns() + 1_000_000;
        let waited = gate.queue.wait_until(Sleep::Killable, Some(soon), is_open);
        assert_eq!(waited, Waited::TimedOut);
        assert!(monotonic_ns() >= soon);
        let opener = gate.clone();
        let opener = spawn("opener", Kind::Process, move || {
            opener.is_open.store(true, Release);
            opener.queue.wake(Events::IN);
        });
        let waited = gate.queue.wait_until(Sleep::Killable, None, is_open);
        assert_eq!(waited, Waited::Woken);
        opener.join();
        Ok(())
    });
}

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

/// A value that notes when it goes.
struct Noted(Arc<Atomic<u32>>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_cell_gives_its_value_up_when_no_reader_has_it() {
    for_each_seed(|| {
        let gone = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let cell = Arc::new(RcuArc::empty(), GFP_KERNEL)?;
        cell.replace(Some(Arc::new(Noted(gone.clone()), GFP_KERNEL)?));
        let (theirs, seen) = (cell.clone(), gone.clone());
        let reader = spawn("reader", Kind::Process, move || {
            let guard = rcu::read_lock();
            if theirs.load(&guard).is_some() {
                (0..5).for_each(|_| assert_eq!(seen.load(Relaxed), 0));
            }
        });
        drop(cell.replace(None));
        assert_eq!(gone.load(Relaxed), 1);
        reader.join();
        Ok(())
    });
}

#[test]
fn pages_are_zero_when_they_are_taken_and_keep_what_is_written() {
    for_each_seed(|| {
        let pages = SharedPages::new(2)?;
        let mut bytes = [1; 8];
        assert_eq!(pages.read(0, &mut bytes), Err(EINVAL));
        pages.populate(0, 2 * kernel::page::PAGE_SIZE)?;
        pages.read(4092, &mut bytes)?;
        assert_eq!(bytes, [0; 8]);
        pages.write(4092, &[7; 8])?;
        assert_eq!(pages.read_u64(4096)?, 0x0707_0707);
        assert_eq!(pages.phys_address(4096)? % 4096, 0);
        Ok(())
    });
}

struct One;

impl Attributes for One {
    fn names(&self) -> &'static [&'static CStr] {
        &[c"one"]
    }

    fn show(&self, _index: usize, out: &mut dyn core::fmt::Write) -> core::fmt::Result {
        writeln!(out, "1")
    }
}

#[test]
fn directories_have_one_name_each_and_their_files_can_be_read() {
    for_each_seed(|| {
        let root = Directory::new(c"root", None, Arc::new(NoAttributes, GFP_KERNEL)?)?;
        let inner = Directory::new(c"inner", Some(&root), Arc::new(One, GFP_KERNEL)?)?;
        let again = Directory::new(c"inner", Some(&root), Arc::new(One, GFP_KERNEL)?);
        assert_eq!(again.err(), Some(EEXIST));
        assert_eq!(kobject::list(), ["root", "root/inner"]);
        assert_eq!(kobject::read("root/inner", "one").as_deref(), Some("1\n"));
        assert_eq!(kobject::read("root/inner", "two"), None);
        drop((inner, root));
        assert!(kobject::list().is_empty());
        Ok(())
    });
}
