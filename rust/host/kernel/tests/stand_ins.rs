// SPDX-License-Identifier: GPL-2.0-only

//! The kernel crate on the host: what modules rely on, and what is said of those that are wrong.

use kernel::{
    module::{
        self,
        Watchers, //
    },
    new_condvar,
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        rcu,
        Arc,
        CondVar,
        Mutex,
        SetOnce,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use machine::{
    dice::Odds,
    memory::pieces_of,
    run,
    spawn,
    spawn_on,
    Handle,
    Host,
    Kind,
    Plan, //
};

/// Seeds of each test.
const SEEDS: u64 = 50;

fn for_each_seed(test: fn()) {
    for seed in 0..SEEDS {
        run(Plan::new(seed), move || {
            test();
            assert_eq!(pieces_of(&machine::host()), 0);
        });
    }
}

/// A number that is read and written in two steps.
#[pin_data]
struct Counter {
    #[pin]
    mutex: Mutex<u32>,
    #[pin]
    spin: SpinLock<u32>,
    loose: Atomic<u32>,
}

impl Counter {
    fn new() -> Arc<Self> {
        let init = pin_init!(Self {
            mutex <- new_mutex!(0),
            spin <- new_spinlock!(0),
            loose: Atomic::new(0),
        });
        Arc::pin_init(init, GFP_KERNEL).expect("memory is there")
    }

    fn bump(&self) {
        let mut count = self.mutex.lock();
        let seen = *count;
        machine::point();
        *count = seen + 1;
        drop(count);
        let mut count = self.spin.lock();
        let seen = *count;
        machine::point();
        *count = seen + 1;
        drop(count);
        let seen = self.loose.load(Relaxed);
        self.loose.store(seen + 1, Relaxed);
    }
}

/// What four contexts that bump a counter ten times each leave: by mutex, spin lock, none.
fn bumped(seed: u64) -> (u32, u32, u32) {
    let result = std::rc::Rc::new(std::cell::Cell::new((0, 0, 0)));
    let out = result.clone();
    run(Plan::new(seed), move || {
        let counter = Counter::new();
        let bumpers = [(); 4].map(|()| {
            let counter = counter.clone();
            spawn("bumper", Kind::Process, move || {
                (0..10).for_each(|_| counter.bump());
            })
        });
        bumpers.iter().for_each(Handle::join);
        out.set((
            *counter.mutex.lock(),
            *counter.spin.lock(),
            counter.loose.load(Relaxed),
        ));
    });
    result.get()
}

#[test]
fn locks_exclude_and_what_has_none_loses_updates() {
    let all = (0..SEEDS).map(bumped);
    let loose = all.map(|(mutex, spin, loose)| {
        assert_eq!((mutex, spin), (40, 40));
        loose
    });
    assert!(loose.min() < Some(40));
}

#[test]
#[should_panic(expected = "it takes a lock that it has")]
fn a_mutex_that_one_has_is_reported() {
    run(Plan::new(1), || {
        let counter = Counter::new();
        let _first = counter.mutex.lock();
        let _second = counter.mutex.lock();
    });
}

#[test]
#[should_panic(expected = "it sleeps where it must not")]
fn a_mutex_under_a_spin_lock_is_reported() {
    run(Plan::new(1), || {
        let counter = Counter::new();
        let _first = counter.spin.lock();
        let _second = counter.mutex.lock();
    });
}

#[test]
#[should_panic(expected = "it sleeps where it must not")]
fn memory_that_is_waited_for_under_rcu_is_reported() {
    run(Plan::new(1), || {
        let _guard = rcu::read_lock();
        let _ = KBox::new(1u8, GFP_KERNEL);
    });
}

/// Three locks of classes of their own.
#[pin_data]
struct Three {
    #[pin]
    a: Mutex<u32>,
    #[pin]
    b: Mutex<u32>,
    #[pin]
    c: Mutex<u32>,
}

impl Three {
    fn new() -> Arc<Self> {
        let init = pin_init!(Self {
            a <- new_mutex!(0, "a"),
            b <- new_mutex!(0, "b"),
            c <- new_mutex!(0, "c"),
        });
        Arc::pin_init(init, GFP_KERNEL).expect("memory is there")
    }
}

#[test]
#[should_panic(expected = "it takes a inside b, which is taken inside a elsewhere")]
fn locks_in_two_orders_are_reported_though_nobody_waits() {
    run(Plan::new(1), || {
        let locks = Three::new();
        let first = locks.a.lock();
        drop(locks.b.lock());
        drop(first);
        // Other locks of the same classes.
        let locks = Three::new();
        let _first = locks.b.lock();
        let _second = locks.a.lock();
    });
}

#[test]
#[should_panic(expected = "it takes a inside c, which is taken inside a elsewhere")]
fn locks_in_a_circle_of_three_are_reported() {
    run(Plan::new(1), || {
        let locks = Three::new();
        for (outer, inner) in [
            (&locks.a, &locks.b),
            (&locks.b, &locks.c),
            (&locks.c, &locks.a),
        ] {
            let _outer = outer.lock();
            drop(inner.lock());
        }
    });
}

#[test]
#[should_panic(expected = "inside another lock of its class")]
fn two_locks_of_a_class_at_a_time_are_reported() {
    run(Plan::new(1), || {
        let (one, other) = (Counter::new(), Counter::new());
        let _first = one.mutex.lock();
        let _second = other.mutex.lock();
    });
}

#[test]
fn an_attempt_may_be_in_any_order_and_what_is_left_is_not_held() {
    run(Plan::new(1), || {
        let locks = Three::new();
        let first = locks.a.lock();
        drop(locks.b.lock());
        drop(first);
        let second = locks.b.lock();
        assert!(locks.a.try_lock().is_some());
        drop(second);
        let (first, second) = (locks.a.lock(), locks.b.lock());
        // The outer one is left first.
        drop(first);
        drop(second);
        drop(locks.b.lock());
    });
}

#[test]
#[should_panic(expected = "it takes or leaves a mutex in an interrupt: a")]
fn an_attempt_at_a_mutex_in_an_interrupt_is_reported() {
    run(Plan::new(1), || {
        let locks = Three::new();
        let handler = spawn("handler", Kind::Interrupt, move || {
            drop(locks.a.try_lock());
        });
        handler.join();
    });
}

#[test]
#[should_panic(expected = "forgetful has ended with a lock")]
fn a_process_that_ends_with_a_lock_is_reported() {
    run(Plan::new(1), || {
        let locks = Three::new();
        let theirs = locks.clone();
        let forgetful = spawn("forgetful", Kind::Process, move || {
            core::mem::forget(theirs.a.lock());
        });
        forgetful.join();
    });
}

#[test]
#[should_panic(expected = "it frees memory with a in it, which somebody has")]
fn memory_that_is_freed_with_a_lock_that_is_taken_is_reported() {
    run(Plan::new(1), || {
        let locks = Three::new();
        core::mem::forget(locks.a.lock());
        drop(locks);
    });
}

/// What was there is noted when it goes.
struct Noted(Arc<Atomic<u32>>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.store(1, Relaxed);
    }
}

#[test]
fn a_reader_keeps_what_it_has_read_until_its_section_ends() {
    for_each_seed(|| {
        let gone = Arc::new(Atomic::new(0), GFP_KERNEL).expect("memory is there");
        let noted = KBox::new(Noted(gone.clone()), GFP_KERNEL).expect("memory is there");
        let cell = Arc::new(Atomic::new(KBox::into_raw(noted)), GFP_KERNEL).expect("memory");
        let (theirs, seen) = (cell.clone(), gone.clone());
        let reader = spawn("reader", Kind::Process, move || {
            for _ in 0..5 {
                let guard = rcu::read_lock();
                if !theirs.load(kernel::sync::atomic::Acquire).is_null() {
                    for _ in 0..5 {
                        assert_eq!(seen.load(Relaxed), 0);
                    }
                }
                drop(guard);
            }
        });
        let old = cell.xchg(core::ptr::null_mut(), Full);
        rcu::synchronize_rcu();
        // SAFETY: Taken out above, and no reader has it any more.
        drop(unsafe { KBox::from_raw(old) });
        reader.join();
        assert_eq!(gone.load(Relaxed), 1);
    });
}

#[test]
#[should_panic(expected = "it counts references to what has gone")]
fn a_reference_taken_behind_the_section_is_found_by_some_seed() {
    for_each_seed(|| {
        let value = Arc::new(7u8, GFP_KERNEL).expect("memory is there");
        let cell = Atomic::new(Arc::into_raw(value).cast_mut());
        let cell = Arc::new(cell, GFP_KERNEL).expect("memory is there");
        let theirs = cell.clone();
        let reader = spawn("reader", Kind::Process, move || {
            let guard = rcu::read_lock();
            let seen = theirs.load(kernel::sync::atomic::Acquire);
            drop(guard);
            if !seen.is_null() {
                // SAFETY: None: that is what is reported. The memory stays until the run ends.
                let borrowed = core::mem::ManuallyDrop::new(unsafe { Arc::from_raw(seen) });
                drop(Arc::clone(&borrowed));
            }
        });
        let old = cell.xchg(core::ptr::null_mut(), Full);
        rcu::synchronize_rcu();
        // SAFETY: Taken out above.
        drop(unsafe { Arc::from_raw(old) });
        reader.join();
    });
}

#[test]
fn an_allocation_fails_when_the_dice_say_so_and_nothing_is_lost() {
    let plan = Plan::new(1).with_failing_memory(Odds::ALWAYS);
    run(plan, || {
        assert!(KBox::new(1u8, GFP_KERNEL).is_err());
        assert!(Arc::new(1u8, GFP_ATOMIC).is_err());
        let mut vec = KVec::new();
        assert!(vec.push(1u8, GFP_KERNEL).is_err());
        machine::world::set_failing_memory(Odds::NEVER);
        vec.push(1u8, GFP_KERNEL).expect("memory is there");
        machine::world::set_failing_memory(Odds::ALWAYS);
        assert!(vec.reserve(1000, GFP_KERNEL).is_err());
        assert_eq!(vec.as_slice(), [1]);
        drop(vec);
        assert_eq!(pieces_of(&machine::host()), 0);
    });
    let fails = |seed| {
        let count = std::rc::Rc::new(std::cell::Cell::new(0));
        let out = count.clone();
        run(Plan::new(seed).with_failing_memory(Odds(1, 4)), move || {
            let tries = (0..400).filter(|_| KBox::new(1u8, GFP_KERNEL).is_err());
            out.set(tries.count());
        });
        count.get()
    };
    assert!((60..140).contains(&fails(1)), "{}", fails(1));
    assert_eq!(fails(2), fails(2));
}

#[test]
fn the_allocation_of_a_number_fails_and_no_other_and_a_tests_own_are_not_counted() {
    run(Plan::new(1), || {
        machine::world::fail_allocation(2);
        let fails = || KBox::new(1u8, GFP_KERNEL).is_err();
        assert!(!machine::context::spared(fails));
        assert_eq!([fails(), fails(), fails()], [false, true, false]);
        assert!(machine::world::has_failed());
        machine::world::fail_allocation(1);
        assert!(!machine::world::has_failed(), "none was made");
        assert!(!fails(), "it does not fail any more");
    });
}

#[test]
#[should_panic(expected = "it uses memory that has been freed")]
fn an_atomic_variable_that_has_gone_is_reported() {
    run(Plan::new(1), || {
        let gone = KBox::new(Atomic::new(true), GFP_KERNEL).expect("memory is there");
        let variable = KBox::into_raw(gone);
        // SAFETY: Just taken apart.
        drop(unsafe { KBox::from_raw(variable) });
        // SAFETY: None: that is what is reported. The memory stays until the run ends.
        unsafe { &*variable }.load(Relaxed);
    });
}

#[pin_data]
struct Baton {
    #[pin]
    turn: Mutex<u32>,
    #[pin]
    changed: CondVar,
}

#[test]
fn a_condition_is_waited_for_and_a_wake_up_is_not_lost() {
    for_each_seed(|| {
        let init = pin_init!(Baton {
            turn <- new_mutex!(0),
            changed <- new_condvar!(),
        });
        let baton = Arc::pin_init(init, GFP_KERNEL).expect("memory is there");
        let runners = [0, 1].map(|me| {
            let baton = baton.clone();
            spawn("runner", Kind::Process, move || {
                for _ in 0..5 {
                    let mut turn = baton.turn.lock();
                    while *turn % 2 != me {
                        baton.changed.wait(&mut turn);
                    }
                    *turn += 1;
                    baton.changed.notify_all();
                }
            })
        });
        runners.iter().for_each(Handle::join);
        assert_eq!(*baton.turn.lock(), 10);
    });
}

#[test]
fn a_sleep_takes_its_time() {
    run(Plan::new(1), || {
        let start = machine::now();
        fsleep(Delta::from_millis(3));
        assert!((3_000_000..3_100_000).contains(&(machine::now() - start)));
    });
}

/// Modules in this file: one that counts its loads in a static.
mod counted {
    use super::*;

    pub(crate) static LOADS: Atomic<u32> = Atomic::new(0);
    pub(crate) static FIRST: SetOnce<u32> = SetOnce::new();
    kernel::sync::global_lock! {
        // SAFETY: Initialised in the module's `init`.
        pub(crate) unsafe(uninit) static NAMES: Mutex<KVec<u32>> = KVec::new();
    }

    struct Counted;

    impl kernel::Module for Counted {
        fn init(_module: &'static ThisModule) -> Result<Self> {
            // SAFETY: Called exactly once after each load.
            unsafe { NAMES.init() };
            LOADS.fetch_add(1, Relaxed);
            if param!(fails) != 0 {
                return Err(ENODEV);
            }
            Ok(Self)
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            NAMES.lock().clear();
            *NAMES.lock() = KVec::new();
        }
    }

    macro_rules! param {
        ($name:ident) => {
            module_parameters::$name.value()
        };
    }
    use param;

    module! {
        type: Counted,
        name: "counted",
        authors: ["The pximc-ntb authors"],
        description: "A module of a test",
        license: "GPL",
        params: {
            fails: u32 {
                default: 0,
                description: "Whether it fails to load",
            },
        },
    }
}

use counted::{
    FIRST,
    HOST_MODULE,
    LOADS,
    NAMES, //
};

#[test]
fn each_host_and_each_load_has_statics_of_its_own() {
    run(Plan::new(1), || {
        let other = Host::add();
        for _ in 0..2 {
            module::load(&HOST_MODULE).expect("it loads");
            assert_eq!(LOADS.load(Relaxed), 1);
            assert!(FIRST.populate(7) && !FIRST.populate(8));
            NAMES.lock().push(1, GFP_KERNEL).expect("memory is there");
            let theirs = spawn_on(&other, "other", Kind::Process, || {
                module::load(&HOST_MODULE).expect("it loads");
                assert_eq!(LOADS.load(Relaxed), 1);
                assert!(FIRST.as_ref().is_none() && NAMES.lock().is_empty());
                module::unload(&HOST_MODULE);
            });
            theirs.join();
            assert_eq!((FIRST.copy(), NAMES.lock().len()), (Some(7), 1));
            module::unload(&HOST_MODULE);
        }
        assert_eq!(pieces_of(&machine::host()), 0);
    });
}

#[test]
#[should_panic(expected = "it uses a static of a module that has been unloaded")]
fn a_static_of_a_module_that_has_been_unloaded_is_reported() {
    run(Plan::new(1), || {
        module::load(&HOST_MODULE).expect("it loads");
        let late = spawn("late", Kind::Process, || {
            machine::sleep_until(machine::now() + 1_000_000);
            LOADS.load(Relaxed);
        });
        module::unload(&HOST_MODULE);
        late.join();
    });
}

#[test]
fn a_module_is_loaded_by_one_at_a_time() {
    for_each_seed(|| {
        let load = || match module::load(&HOST_MODULE) {
            Ok(()) => true,
            Err(e) => {
                assert_eq!(e, EEXIST);
                false
            }
        };
        let theirs = std::rc::Rc::new(std::cell::Cell::new(false));
        let out = theirs.clone();
        let other = spawn("other", Kind::Process, move || out.set(load()));
        let mine = load();
        other.join();
        assert_ne!(mine, theirs.get());
        assert_eq!(LOADS.load(Relaxed), 1);
        let other = spawn("other", Kind::Process, || module::unload(&HOST_MODULE));
        while !load() {
            machine::point();
        }
        assert!(other.has_ended());
        assert_eq!(LOADS.load(Relaxed), 1);
        module::unload(&HOST_MODULE);
    });
}

#[test]
fn a_host_may_end_with_a_module_that_is_loaded() {
    run(Plan::new(1), || {
        module::load(&HOST_MODULE).expect("it loads");
        NAMES.lock().push(1, GFP_KERNEL).expect("memory is there");
    });
    run(Plan::new(1), || {
        module::load(&HOST_MODULE).expect("it loads");
        assert!(NAMES.lock().is_empty());
        module::unload(&HOST_MODULE);
    });
}

#[test]
fn a_watcher_of_modules_is_not_called_once_it_is_removed() {
    for_each_seed(|| {
        let watchers = machine::host().own::<Watchers>();
        let is_removed = std::rc::Rc::new(std::cell::Cell::new(false));
        watchers.add(1, || machine::sleep_until(machine::now() + 10_000));
        let seen = is_removed.clone();
        watchers.add(2, move || assert!(!seen.get(), "told after it was removed"));
        module::load(&HOST_MODULE).expect("it loads");
        let removing = spawn("removing", Kind::Process, move || {
            machine::sleep_until(machine::now() + machine::world::below(10_000));
            watchers.remove(2);
            is_removed.set(true);
        });
        module::unload(&HOST_MODULE);
        removing.join();
    });
}

#[test]
fn watchers_are_told_of_a_module_that_fails_to_load() {
    run(Plan::new(1), || {
        let told = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = told.clone();
        let watchers = machine::host().own::<Watchers>();
        watchers.add(1, move || count.set(count.get() + 1));
        kernel::module_param::set(&machine::host(), "counted", "fails", 1);
        assert_eq!(module::load(&HOST_MODULE), Err(ENODEV));
        assert_eq!(told.get(), 1);
    });
}

#[test]
fn a_parameter_is_set_for_one_host() {
    run(Plan::new(1), || {
        let other = Host::add();
        kernel::module_param::set(&machine::host(), "counted", "fails", 1);
        assert_eq!(module::load(&HOST_MODULE), Err(ENODEV));
        let theirs = spawn_on(&other, "other", Kind::Process, || {
            module::load(&HOST_MODULE).expect("it loads");
            module::unload(&HOST_MODULE);
        });
        theirs.join();
    });
}

#[test]
fn what_is_printed_stays_with_the_host() {
    run(Plan::new(1), || {
        pr_err!("parameter {}={} is wrong\n", "a", 1);
        let host = machine::host();
        assert_eq!(
            kernel::print::take_log(&host),
            ["err: parameter a=1 is wrong"]
        );
        assert!(kernel::print::take_log(&host).is_empty());
    });
}
