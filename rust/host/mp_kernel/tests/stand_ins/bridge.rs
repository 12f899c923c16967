// SPDX-License-Identifier: GPL-2.0-only

//! The NTB core over bridges: what is stored through a window, doorbells, scratchpads, links.

use super::*;
use kernel::{
    sync::aref::ARef,
    ThisModule, //
};
use machine::{
    dice::Odds,
    sleep_until,
    spawn_on,
    Host, //
};
use mp_bindings::bridge::{
    self,
    Bridge, //
};
use mp_kernel::{
    barrier,
    ntb::{
        client,
        EventRegistration,
        Events as NtbEvents,
        InboundBuffer,
        NtbDev,
        PeerWindow, //
    }, //
};
use std::{
    cell::{
        Cell,
        RefCell, //
    },
    rc::Rc, //
};

static THIS: ThisModule = ThisModule::new("test");

/// The device that a host's client was offered.
#[derive(Default)]
struct Found(RefCell<Option<ARef<NtbDev>>>);

struct Driver;

impl client::Client for Driver {
    type Data = ();

    fn probe(dev: &NtbDev) -> Result {
        *machine::host().own::<Found>().0.borrow_mut() = Some(dev.into());
        Ok(())
    }

    fn remove(_dev: &NtbDev, (): ()) {
        machine::host().own::<Found>().0.take();
    }
}

/// Run `work` on a host as the driver of its device.
fn drive(host: &Rc<Host>, work: impl FnOnce(&NtbDev) + 'static) -> machine::Handle {
    spawn_on(host, "driver", Kind::Process, move || {
        let client = client::Registration::<Driver>::new(c"test", &THIS);
        let client = KBox::pin_init(client, GFP_KERNEL).expect("memory is there");
        let found = machine::host().own::<Found>().0.borrow().clone();
        let dev = found.expect("the client was offered the device");
        dev.link_enable();
        while dev.link_is_up() == 0 {
            sleep_until(machine::now() + 1000);
        }
        work(&dev);
        dev.link_disable();
        drop((dev, client));
    })
}

/// Two hosts whose drivers do that, over seeds.
fn two_hosts(plan: bridge::Plan, one: fn(&NtbDev), other: fn(&NtbDev)) {
    for seed in 0..SEEDS {
        run(Plan::new(seed), move || {
            let hosts = [machine::host(), Host::add()];
            let bridge = Bridge::new(plan, &hosts);
            let both = [drive(&hosts[0], one), drive(&hosts[1], other)];
            both.iter().for_each(machine::Handle::join);
            for (number, host) in hosts.iter().enumerate() {
                assert_eq!(pieces_of(host), 0);
                assert_eq!(bridge.references(number), 0);
            }
        });
    }
}

const LEN: usize = 4096;
/// The scratchpad by which a receiver says that its window is open.
const OPEN: u32 = 3;

/// Memory that the peer's window leads to, which the peer is told.
fn open_window(dev: &NtbDev) -> InboundBuffer {
    let mut memory = dev.alloc_inbound(0, 0, LEN, 1).expect("memory is there");
    memory.expose(0, 0).expect("a window is there");
    dev.peer_spad_write(0, OPEN, 0x600d).expect("a scratchpad");
    memory
}

/// The window to the peer's memory, once that is open.
fn await_window(dev: &NtbDev) -> PeerWindow {
    while dev.spad_read(OPEN) != 0x600d {
        sleep_until(machine::now() + 1000);
    }
    dev.map_peer_window(0).expect("memory is there")
}

/// How many words of a record have not arrived when its flag has, over all seeds, if the sender does
/// that in between.
fn missing(between: fn(&PeerWindow)) -> usize {
    let sum = Rc::new(Cell::new(0));
    for seed in 0..SEEDS {
        let sum = sum.clone();
        run(Plan::new(seed), move || {
            let hosts = [machine::host(), Host::add()];
            let _bridge = Bridge::new(bridge::Plan::default(), &hosts);
            let receiver = drive(&hosts[0], move |dev| {
                let memory = open_window(dev);
                for record in 1..20_u64 {
                    while memory.read_u64(0) != Ok(record) {
                        machine::context::relax();
                    }
                    let words = (1..20).filter(|n| memory.read_u64(64 * n) != Ok(record));
                    sum.set(sum.get() + words.count());
                    dev.peer_spad_write(0, 0, record as u32)
                        .expect("a scratchpad");
                }
                // What is under way when the link goes down is lost.
                sleep_until(machine::now() + 1_000_000);
            });
            let sender = drive(&hosts[1], move |dev| {
                let window = await_window(dev);
                for record in 1..20_u64 {
                    for n in 1..20 {
                        window.write_u64(64 * n, record).expect("in the window");
                    }
                    between(&window);
                    window.write_u64(0, record).expect("in the window");
                    window.flush();
                    while dev.spad_read(0) != record as u32 {
                        sleep_until(machine::now() + 1000);
                    }
                }
            });
            receiver.join();
            sender.join();
        });
    }
    sum.get()
}

#[test]
fn stores_arrive_in_any_order_but_for_those_with_a_barrier_between() {
    assert_eq!(missing(PeerWindow::flush), 0);
    assert!(missing(|_| ()) > 20);
}

/// What rings is noted.
struct Rung {
    dev: ARef<NtbDev>,
    rings: Atomic<u32>,
}

impl NtbEvents for Rung {
    fn db_event(&self, vector: u32) {
        assert_eq!(machine::context::kind(), Kind::Interrupt);
        let bits = self.dev.db_read() & self.dev.db_vector_mask(vector);
        self.dev.db_clear(bits).expect("valid doorbells");
        self.rings.fetch_add(1, Relaxed);
    }
}

/// How many interrupts ten doorbells raise.
fn interrupts(lost: Odds) -> u32 {
    let plan = bridge::Plan {
        lost,
        ..bridge::Plan::default()
    };
    thread_local!(static SUM: Cell<u32> = const { Cell::new(0) });
    SUM.set(0);
    let ringer: fn(&NtbDev) = |dev| {
        let _window = await_window(dev);
        for _ in 0..10 {
            dev.peer_db_set(1).expect("a doorbell");
            sleep_until(machine::now() + 100_000);
        }
    };
    two_hosts(
        plan,
        |dev| {
            let rung = Rung {
                dev: dev.into(),
                rings: Atomic::new(0),
            };
            let rung = Arc::new(rung, GFP_KERNEL).expect("memory is there");
            let events = EventRegistration::new(dev, rung.clone()).expect("no other client");
            let _memory = open_window(dev);
            sleep_until(machine::now() + 2_000_000);
            drop(events);
            SUM.set(SUM.get() + rung.rings.load(Relaxed));
        },
        ringer,
    );
    SUM.get()
}

#[test]
fn each_doorbell_raises_an_interrupt_unless_they_are_lost() {
    let all = 10 * SEEDS as u32;
    assert_eq!(interrupts(Odds::NEVER), all);
    // The bit of a doorbell that was lost stays: the next one raises none either.
    let some = interrupts(Odds(1, 10));
    assert!(some > 0 && some < all, "{some}");
}

/// How often a doorbell is there before what was stored before it, over all seeds.
fn early(unordered: bool) -> u32 {
    let plan = bridge::Plan {
        unordered,
        latency: 50_000,
        ..bridge::Plan::default()
    };
    let sum = Rc::new(Cell::new(0));
    for seed in 0..SEEDS {
        let sum = sum.clone();
        run(Plan::new(seed), move || {
            let hosts = [machine::host(), Host::add()];
            let _bridge = Bridge::new(plan, &hosts);
            let receiver = drive(&hosts[0], move |dev| {
                let memory = open_window(dev);
                let has_rung = || dev.db_read() & 1 != 0;
                for number in 1..10_u64 {
                    loop {
                        let (rung, there) = (has_rung(), memory.read_u64(0) == Ok(number));
                        if there {
                            break;
                        }
                        sum.set(sum.get() + u32::from(rung));
                        machine::context::relax();
                    }
                    // Without order it may not come at all.
                    while !unordered && !has_rung() {
                        machine::context::relax();
                    }
                    dev.db_clear(1).expect("a doorbell");
                    dev.peer_spad_write(0, 0, number as u32)
                        .expect("a scratchpad");
                }
                sleep_until(machine::now() + 1_000_000);
            });
            let sender = drive(&hosts[1], move |dev| {
                let window = await_window(dev);
                for number in 1..10_u64 {
                    window.write_u64(0, number).expect("in the window");
                    barrier::wmb();
                    dev.peer_db_set(1).expect("a doorbell");
                    while dev.spad_read(0) != number as u32 {
                        sleep_until(machine::now() + 1000);
                    }
                }
            });
            receiver.join();
            sender.join();
        });
    }
    sum.get()
}

#[test]
fn doorbells_overtake_what_was_stored_if_they_have_no_order() {
    assert_eq!(early(false), 0);
    assert!(early(true) > 20);
}

#[test]
fn what_is_held_up_arrives_later_and_registers_may_read_as_ones_while_the_cable_is_cut() {
    for seed in 0..SEEDS {
        run(Plan::new(seed), || {
            let hosts = [machine::host(), Host::add()];
            let bridge = Bridge::new(bridge::Plan::default(), &hosts);
            let receiver = drive(&hosts[0], move |dev| {
                let memory = open_window(dev);
                sleep_until(machine::now() + 100_000);
                bridge.stall(true);
                dev.peer_spad_write(0, 0, 1).expect("a scratchpad");
                sleep_until(machine::now() + 1_000_000);
                let seen = memory.read_u64(0);
                sleep_until(machine::now() + 1_000_000);
                assert_eq!(memory.read_u64(0), seen, "held up");
                bridge.stall(false);
                sleep_until(machine::now() + 3_000_000);
                assert_ne!(memory.read_u64(0), seen, "it goes on");
                bridge.cut(true);
                let read = [(); 64].map(|()| dev.spad_read(OPEN));
                assert!(read.contains(&u32::MAX), "ones");
                bridge.cut(false);
            });
            let sender = drive(&hosts[1], |dev| {
                let window = await_window(dev);
                for number in 1..50_u64 {
                    window.write_u64(0, number).expect("in the window");
                    barrier::wmb();
                    sleep_until(machine::now() + 100_000);
                }
            });
            receiver.join();
            sender.join();
        });
    }
}

#[test]
#[should_panic(expected = "it reads through a window")]
fn a_read_through_a_window_is_reported() {
    two_hosts(
        bridge::Plan::default(),
        |dev| {
            let _memory = open_window(dev);
            sleep_until(machine::now() + 1_000_000);
        },
        |dev| {
            let window = await_window(dev);
            mp_bindings::io_load(core::ptr::with_exposed_provenance(window.virt_addr()));
        },
    );
}

#[test]
#[should_panic(expected = "it frees memory that a window of a peer leads to")]
fn memory_that_is_freed_while_a_window_leads_there_is_reported() {
    two_hosts(
        bridge::Plan::default(),
        |dev| {
            let dma = dev.dma_device();
            let memory = open_window(dev);
            let (start, addr) = (memory.as_ptr(), memory.dma_address());
            core::mem::forget(memory);
            let dev = core::ptr::from_ref(dma).cast_mut().cast();
            // SAFETY: The memory of the buffer, which nobody has any more.
            unsafe { mp_bindings::dma_free_attrs(dev, LEN, start.cast(), addr, 0) };
        },
        |_| (),
    );
}

#[test]
fn what_is_stored_while_the_link_is_down_is_lost_and_memory_may_go() {
    two_hosts(
        bridge::Plan::default(),
        |dev| {
            let mut memory = open_window(dev);
            sleep_until(machine::now() + machine::world::below(40_000));
            dev.link_disable();
            memory.withdraw();
            let seen = memory.read_u64(0);
            sleep_until(machine::now() + 1_000_000);
            assert_eq!(memory.read_u64(0), seen);
        },
        |dev| {
            while dev.spad_read(OPEN) != 0x600d && dev.link_is_up() != 0 {
                sleep_until(machine::now() + 1000);
            }
            let window = dev.map_peer_window(0).expect("memory is there");
            for n in 1..1000 {
                window.write_u64(0, n).expect("in the window");
                barrier::wmb();
            }
        },
    );
}
