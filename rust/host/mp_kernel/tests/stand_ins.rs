// SPDX-License-Identifier: GPL-2.0-only

//! The abstractions on the host: workers, wait queues, cells read under RCU, pages, directories, locks
//! that softirqs and interrupts take, timers.
//!
//! * [`napi`]: polls and their sources.
//! * [`bridge`]: the NTB core and bridges.

#[path = "stand_ins/bridge.rs"]
mod bridge;
#[path = "stand_ins/napi.rs"]
mod napi;

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
    new_spinlock_bh,
    new_spinlock_irqsave,
    new_wait_queue,
    shared_pages::SharedPages,
    sync::{
        RcuArc,
        SpinLockBh,
        SpinLockIrqSave, //
    },
    time::monotonic_ns,
    timer::{
        Expire,
        Timer, //
    },
    wait::{
        Events,
        Sleep,
        WaitQueue,
        Waited, //
    },
    worker::{
        new_worker,
        Work,
        Workqueue, //
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

#[pin_data]
struct Locks {
    #[pin]
    plain: kernel::sync::SpinLock<()>,
    #[pin]
    bh: SpinLockBh<()>,
    #[pin]
    irq: SpinLockIrqSave<()>,
}

/// Take a lock in a process and in a context of another kind, in some order.
fn in_both(kind: Kind, take: fn(&Locks)) {
    for seed in 0..SEEDS {
        run(Plan::new(seed), move || {
            let init = pin_init!(Locks {
                plain <- kernel::new_spinlock!((), "plain"),
                bh <- new_spinlock_bh!((), "bh"),
                irq <- new_spinlock_irqsave!((), "irq"),
            });
            let locks = Arc::pin_init(init, GFP_KERNEL).expect("memory is there");
            let theirs = locks.clone();
            let other = spawn("other", kind, move || take(&theirs));
            take(&locks);
            other.join();
        });
    }
}

#[test]
fn locks_may_be_taken_where_they_keep_off_what_else_takes_them() {
    in_both(Kind::Process, |locks| drop(locks.plain.lock()));
    in_both(Kind::Softirq, |locks| drop(locks.bh.lock()));
    in_both(Kind::Interrupt, |locks| drop(locks.irq.lock()));
    // One within the other, and tried.
    in_both(Kind::Softirq, |locks| {
        let _bh = locks.bh.lock();
        let _irq = locks.irq.lock();
    });
    in_both(Kind::Interrupt, |locks| drop(locks.plain.try_lock()));
}

#[test]
#[should_panic(
    expected = "it takes plain, which is taken in softirqs and elsewhere with softirqs on"
)]
fn a_lock_of_softirqs_that_is_taken_with_them_on_is_reported() {
    in_both(Kind::Softirq, |locks| drop(locks.plain.lock()));
}

#[test]
#[should_panic(
    expected = "it takes plain, which is taken in interrupts and elsewhere with interrupts on"
)]
fn a_lock_of_interrupts_that_is_taken_with_them_on_is_reported() {
    in_both(Kind::Interrupt, |locks| drop(locks.plain.lock()));
}

#[test]
#[should_panic(expected = "it enables softirqs where interrupts are off")]
fn softirqs_that_are_enabled_with_interrupts_off_are_reported() {
    in_both(Kind::Process, |locks| {
        let _irq = locks.irq.lock();
        drop(locks.bh.lock());
    });
}

#[test]
#[should_panic(expected = "waits for the mutex, which main has")]
fn a_deadlock_names_locks_and_owners() {
    run(Plan::new(1), || {
        let mutex = kernel::new_mutex!((), "the mutex");
        let mutex = Arc::pin_init(mutex, GFP_KERNEL).expect("memory is there");
        let theirs = mutex.clone();
        let _held = mutex.lock();
        let other = spawn("other", Kind::Process, move || drop(theirs.lock()));
        other.join();
    });
}

#[test]
#[should_panic(
    expected = "bh, which is taken in softirqs, has plain inside, which is taken with softirqs on"
)]
fn what_softirqs_wait_for_has_nothing_inside_whose_owner_they_interrupt() {
    in_both(Kind::Softirq, |locks| {
        if machine::context::kind() == Kind::Softirq {
            return drop(locks.bh.lock());
        }
        drop(locks.plain.lock());
        let _bh = locks.bh.lock();
        drop(locks.plain.lock());
    });
}

/// Work that takes a lock.
struct Locking(Arc<kernel::sync::Mutex<()>>);

impl Work for Locking {
    fn run(&self) -> Option<u32> {
        drop(self.0.lock());
        None
    }
}

#[test]
#[should_panic(expected = "it takes work inside the mutex, which is taken inside work elsewhere")]
fn work_that_is_waited_for_with_a_lock_that_it_takes_is_reported() {
    run(Plan::new(1), || {
        let mutex = kernel::new_mutex!((), "the mutex");
        let mutex = Arc::pin_init(mutex, GFP_KERNEL).expect("memory is there");
        let work = Arc::new(Locking(mutex.clone()), GFP_KERNEL).expect("memory is there");
        let worker = new_worker!(work).expect("memory is there");
        worker.kick();
        machine::sleep_until(machine::now() + 1_000_000);
        let _held = mutex.lock();
        worker.stop();
    });
}

/// Work that notes when it begins, and sees that nobody else of its queue runs.
struct InLine {
    number: u32,
    line: Arc<Turns>,
    order: Arc<Atomic<u32>>,
}

impl Work for InLine {
    fn run(&self) -> Option<u32> {
        let place = self.order.fetch_add(1, Relaxed);
        assert_eq!(place, self.number, "order of kicks");
        self.line.turn();
        None
    }
}

#[test]
fn a_queue_runs_so_many_at_a_time_in_the_order_in_which_they_came() {
    for_each_seed(|| {
        let queue = Workqueue::new(c"line", 1)?;
        let order = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let line = Turns::new(0)?;
        let mut workers = std::vec::Vec::new();
        for number in 0..4 {
            let (line, order) = (line.clone(), order.clone());
            let work = InLine {
                number,
                line,
                order,
            };
            let work = Arc::new(work, GFP_KERNEL)?;
            workers.push(new_worker!(in queue.clone(), work)?);
        }
        for worker in &workers {
            worker.kick();
            // The next one comes later.
            machine::sleep_until(machine::now() + 1000);
        }
        machine::sleep_until(machine::now() + 1_000_000);
        assert_eq!(order.load(Relaxed), 4);
        Ok(())
    });
}

#[test]
fn a_worker_that_is_kicked_often_has_one_context() {
    for_each_seed(|| {
        let turns = Turns::new(0)?;
        let worker = new_worker!(turns.clone())?;
        let before = machine::world::count_of_contexts();
        (0..500).for_each(|ms| worker.kick_in(1000 + ms));
        assert!(machine::world::count_of_contexts() <= before + 1);
        worker.stop();
        Ok(())
    });
}

/// A timer's target: how often it has expired, and how often it is to.
struct Ticks {
    left: Atomic<u32>,
    done: Atomic<u32>,
}

impl Expire for Ticks {
    fn expire(&self) -> Option<u64> {
        assert_eq!(machine::context::kind(), Kind::Softirq);
        self.done.fetch_add(1, Relaxed);
        let left = self.left.load(Relaxed);
        self.left.store(left.saturating_sub(1), Relaxed);
        (left != 0).then(|| monotonic_ns() + 1_000_000)
    }
}

#[test]
fn a_timer_expires_in_softirqs_at_its_times_and_not_once_it_is_dropped() {
    for_each_seed(|| {
        let ticks = |left| Ticks {
            left: Atomic::new(left),
            done: Atomic::new(0),
        };
        let timer = Timer::new(ticks(3))?;
        let start = monotonic_ns();
        timer.start(start + 9_000_000);
        timer.start(start + 1_000_000);
        machine::sleep_until(start + 500_000);
        assert_eq!(timer.target().done.load(Relaxed), 0);
        machine::sleep_until(start + 20_000_000);
        assert_eq!(timer.target().done.load(Relaxed), 4);
        let endless = Timer::new(ticks(u32::MAX))?;
        endless.start(monotonic_ns());
        machine::sleep_until(monotonic_ns() + machine::world::below(3_000_000));
        // Its memory is gone with it: an expiry later would be found.
        drop(endless);
        machine::sleep_until(monotonic_ns() + 5_000_000);
        Ok(())
    });
}
