// SPDX-License-Identifier: GPL-2.0-only

//! Runs of contexts: order by seed, sleep, sections, hosts, memory.

use machine::{
    alarm::Alarm,
    context,
    dice::Odds,
    memory,
    queue,
    run,
    spawn,
    spawn_on,
    statics::place,
    Host,
    Kind,
    Plan, //
};
use std::{
    alloc::Layout,
    cell::{
        Cell,
        RefCell, //
    },
    rc::Rc,
    sync::atomic::{
        AtomicU32,
        Ordering::Relaxed, //
    }, //
};

/// The order in which two contexts note their steps.
fn order(seed: u64) -> Vec<(u8, u8)> {
    let notes = Rc::new(RefCell::new(Vec::new()));
    let kept = notes.clone();
    run(Plan::new(seed), move || {
        for who in 0..2 {
            let notes = notes.clone();
            spawn("note", Kind::Process, move || {
                for step in 0..8 {
                    notes.borrow_mut().push((who, step));
                    machine::point();
                }
            });
        }
    });
    Rc::try_unwrap(kept).expect("the run is over").into_inner()
}

#[test]
fn a_seed_gives_one_order_and_others_give_others() {
    assert_eq!(order(3), order(3));
    assert_eq!(order(3).len(), 16);
    assert!((0..10).any(|seed| order(seed) != order(3)));
}

#[test]
fn a_sleeper_is_woken_or_its_time_is_over() {
    run(Plan::new(1), || {
        let queue = 1;
        let flag = Rc::new(Cell::new(false));
        let mine = flag.clone();
        spawn("waker", Kind::Process, move || {
            flag.set(true);
            queue::wake_all(queue);
        });
        queue::wait_while(queue, move || !mine.get());
        let start = machine::now();
        queue::prepare(queue, false);
        assert!(queue::schedule(Some(start + 1_000_000)));
        queue::finish(queue);
        assert!((start + 1_000_000..start + 1_100_000).contains(&machine::now()));
    });
}

#[test]
fn one_exclusive_sleeper_is_woken_at_a_time() {
    run(Plan::new(1), || {
        let woken = Rc::new(Cell::new(0));
        let sleepers: Vec<_> = (0..3)
            .map(|_| {
                let woken = woken.clone();
                spawn("sleeper", Kind::Process, move || {
                    queue::prepare(1, true);
                    queue::schedule(None);
                    queue::finish(1);
                    woken.set(woken.get() + 1);
                })
            })
            .collect();
        machine::sleep_until(machine::now() + 1_000_000);
        queue::wake(1, 1);
        machine::sleep_until(machine::now() + 1_000_000);
        assert_eq!(woken.get(), 1);
        queue::wake_all(1);
        sleepers.iter().for_each(machine::Handle::join);
        assert_eq!(woken.get(), 3);
    });
}

#[test]
fn a_wake_up_is_not_used_up_by_one_whose_time_is_over() {
    for seed in 0..50 {
        run(Plan::new(seed), || {
            let is_over = Rc::new(Cell::new(false));
            let spoken = is_over.clone();
            let sleeper = |deadline| {
                let is_over = is_over.clone();
                spawn("sleeper", Kind::Process, move || {
                    while !is_over.get() {
                        queue::prepare(1, true);
                        if queue::schedule(deadline) {
                            break;
                        }
                    }
                    queue::finish(1);
                })
            };
            let soon = machine::now() + 100_000;
            let first = sleeper(Some(soon));
            machine::sleep_until(soon - 50_000);
            let second = sleeper(None);
            machine::sleep_until(soon);
            spoken.set(true);
            queue::wake(1, 1);
            first.join();
            second.join();
        });
    }
}

#[test]
fn a_sleeper_behind_exclusive_ones_is_woken_with_the_first() {
    run(Plan::new(1), || {
        let woken = Rc::new(RefCell::new(Vec::new()));
        for (number, is_exclusive) in [(0, true), (1, true), (2, false)] {
            let woken = woken.clone();
            spawn("sleeper", Kind::Process, move || {
                machine::sleep_until(machine::now() + 1_000_000 * (number + 1));
                queue::prepare(1, is_exclusive);
                queue::schedule(None);
                queue::finish(1);
                woken.borrow_mut().push(number);
            });
        }
        machine::sleep_until(machine::now() + 10_000_000);
        queue::wake(1, 1);
        machine::sleep_until(machine::now() + 1_000_000);
        let mut first: Vec<_> = woken.borrow().clone();
        first.sort_unstable();
        assert_eq!(first, [0, 2]);
        queue::wake_all(1);
    });
}

#[test]
#[should_panic(expected = "deadlock: main on host 0 waits")]
fn who_waits_for_nobody_is_reported() {
    run(Plan::new(1), || queue::wait_while(1, || true));
}

#[test]
#[should_panic(expected = "it sleeps where it must not")]
fn a_softirq_must_not_sleep() {
    run(Plan::new(1), || {
        spawn("softirq", Kind::Softirq, machine::might_sleep);
    });
}

#[test]
fn a_grace_period_waits_for_sections_that_were_there_before_and_no_others() {
    for seed in 0..50 {
        run(Plan::new(seed), || {
            let is_over = Rc::new(Cell::new(false));
            let done = Rc::new(Cell::new(0));
            let (stop, count) = (is_over.clone(), done.clone());
            // In a section at any time that somebody else can see.
            let reader = spawn("reader", Kind::Process, move || {
                while !stop.get() {
                    machine::enter_atomic();
                    for _ in 0..10 {
                        machine::point();
                    }
                    count.set(count.get() + 1);
                    machine::leave_atomic();
                }
            });
            while done.get() == 0 {
                machine::point();
            }
            let before = done.get();
            context::await_sections();
            assert!(done.get() > before);
            is_over.set(true);
            reader.join();
        });
    }
}

#[test]
fn a_grace_period_does_not_wait_for_a_softirq_that_has_not_begun() {
    let before = (0..50).filter(|seed| {
        let has_begun = Rc::new(Cell::new(false));
        let over_first = Rc::new(Cell::new(false));
        let out = over_first.clone();
        run(Plan::new(*seed), move || {
            let begun = has_begun.clone();
            spawn("softirq", Kind::Softirq, move || begun.set(true));
            context::await_sections();
            out.set(!has_begun.get());
        });
        over_first.get()
    });
    assert!((1..50).contains(&before.count()));
}

#[test]
fn a_grace_period_waits_for_a_softirq_that_has_begun() {
    for seed in 0..50 {
        run(Plan::new(seed), || {
            let step = Rc::new(Cell::new(0));
            let theirs = step.clone();
            spawn("softirq", Kind::Softirq, move || {
                theirs.set(1);
                (0..5).for_each(|_| machine::point());
                theirs.set(2);
            });
            machine::point();
            let has_begun = step.get() != 0;
            let sees = step.clone();
            context::await_sections();
            assert!(!has_begun || sees.get() == 2);
        });
    }
}

/// Runs a function when it is dropped.
struct AtEnd(fn());

impl Drop for AtEnd {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
#[should_panic(expected = "the first")]
fn nobody_has_a_turn_while_a_panic_unwinds() {
    run(Plan::new(1), || {
        spawn("other", Kind::Process, || {
            for _ in 0..1000 {
                if std::thread::panicking() {
                    machine::fail("it has a turn");
                }
                machine::point();
            }
        });
        let _guard = AtEnd(|| (0..100).for_each(|_| machine::point()));
        panic!("the first");
    });
}

#[test]
#[should_panic(expected = "the first; then main on host 0 runs: it sleeps")]
fn a_sleep_while_a_panic_unwinds_ends_the_run_with_that_panic() {
    run(Plan::new(1), || {
        let _guard = AtEnd(|| queue::wait_while(1, || true));
        panic!("the first");
    });
}

static SHARED: AtomicU32 = AtomicU32::new(5);

/// The static of the host that the caller runs on.
fn own() -> &'static AtomicU32 {
    // SAFETY: The image of a host lives until the run is over, and is as the static is.
    unsafe { &*place((&raw const SHARED).cast_mut()) }
}

#[test]
fn each_host_has_statics_of_its_own_which_can_be_made_anew() {
    for _ in 0..2 {
        run(Plan::new(1), || {
            let other = Host::add();
            assert_eq!(own().fetch_add(1, Relaxed), 5);
            let theirs = spawn_on(&other, "other", Kind::Process, || {
                assert_eq!(own().fetch_add(10, Relaxed), 5);
            });
            theirs.join();
            assert_eq!(own().load(Relaxed), 6);
            // SAFETY: Nobody refers to this host's statics.
            unsafe { machine::host().image().renew_crate("machine") };
            assert_eq!(own().load(Relaxed), 5);
            assert_eq!(SHARED.load(Relaxed), 5);
        });
    }
}

#[test]
fn memory_is_counted_and_an_allocation_fails_when_the_dice_say_so() {
    let layout = Layout::new::<u64>();
    run(Plan::new(1), move || {
        let piece = memory::allocate(layout, true);
        assert!(!piece.is_null());
        assert_eq!(memory::pieces_of(&machine::host()), 1);
        // SAFETY: Nobody else has it.
        unsafe { memory::free(piece) };
        assert_eq!(memory::pieces_of(&machine::host()), 0);
    });
    let plan = Plan::new(1).with_failing_memory(Odds::ALWAYS);
    run(plan, move || {
        assert!(memory::allocate(layout, true).is_null())
    });
}

#[test]
#[should_panic(expected = "it frees memory twice")]
fn memory_is_freed_once() {
    run(Plan::new(1), || {
        let piece = memory::allocate(Layout::new::<u64>(), true);
        // SAFETY: Nobody else has it; the second time is refused.
        unsafe { memory::free(piece) };
        // SAFETY: As above.
        unsafe { memory::free(piece) };
    });
}

#[test]
fn what_is_set_runs_in_its_time_and_one_context_does_it() {
    run(Plan::new(1), || {
        let times = Rc::new(RefCell::new(Vec::new()));
        let noted = times.clone();
        let alarm = Alarm::new("alarm", Kind::Softirq, move || {
            assert_eq!(context::kind(), Kind::Softirq);
            noted.borrow_mut().push(machine::now());
        });
        let before = machine::world::count_of_contexts();
        let start = machine::now();
        for n in 0..1000 {
            alarm.set(start + 10_000_000 - n);
        }
        assert_eq!(machine::world::count_of_contexts(), before + 1);
        machine::sleep_until(start + 20_000_000);
        let ran: Vec<_> = times.take();
        assert_eq!(ran.len(), 1);
        assert!((start + 9_999_000..start + 10_100_000).contains(&ran[0]));
        assert_eq!(machine::world::count_of_contexts(), before);
        alarm.set(start + 30_000_000);
        assert!(alarm.cancel() && !alarm.cancel());
        machine::sleep_until(start + 40_000_000);
        assert!(times.take().is_empty());
    });
}

#[test]
fn memory_that_was_freed_long_ago_is_given_back() {
    run(Plan::new(1), || {
        let layout = Layout::from_size_align(1 << 20, 4096).expect("a layout");
        for _ in 0..300 {
            let start = memory::allocate(layout, true);
            // SAFETY: Nobody has it.
            unsafe { memory::free(start) };
            assert!(memory::bytes() <= memory::QUARANTINE + layout.size());
        }
    });
}

/// Physical addresses of some memory, in a run of that seed.
fn physical(seed: u64) -> Vec<u64> {
    let found = Rc::new(RefCell::new(Vec::new()));
    let kept = found.clone();
    run(Plan::new(seed), move || {
        for size in [8192, 100, 4096] {
            let layout = Layout::from_size_align(size, 4096).expect("a layout");
            let start = memory::allocate(layout, true);
            let phys = memory::phys_of(start.addr() + 8).expect("it is there");
            let back = memory::at_phys(&machine::host(), phys, size - 8);
            assert_eq!(back, Some(start.wrapping_add(8)));
            assert_eq!(memory::at_phys(&machine::host(), phys, size), None);
            assert_eq!(memory::at_phys(&Host::add(), phys, 1), None);
            found.borrow_mut().push(phys);
        }
    });
    kept.take()
}

#[test]
fn physical_addresses_are_apart_and_the_same_in_each_run() {
    // What another run has of the program's addresses changes nothing.
    let _other = [0_u8; 100_000].to_vec();
    assert_eq!(physical(1), physical(2));
    assert_eq!(physical(1), [0x10_0008, 0x10_2008, 0x10_3008]);
}

#[test]
#[should_panic(expected = "a device uses memory that has been freed")]
fn a_device_that_uses_freed_memory_is_reported() {
    run(Plan::new(1), || {
        let layout = Layout::from_size_align(4096, 4096).expect("a layout");
        let start = memory::allocate(layout, true);
        let phys = memory::phys_of(start.addr()).expect("it is there");
        // SAFETY: Nobody has it but the device.
        unsafe { memory::free(start) };
        memory::at_phys(&machine::host(), phys, 1);
    });
}
