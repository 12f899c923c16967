// SPDX-License-Identifier: GPL-2.0-only

//! Peers and functions come and go while frames do.

use super::*;
use kernel::{
    prelude::*,
    sync::atomic::Full, //
};
use machine::{
    point,
    spawn,
    Handle,
    Kind, //
};
use mp_kernel::bytes::{
    SharedBytes,
    Writer, //
};
use mp_proto::wire::{
    Envelope,
    MsgHdr,
    PeerId,
    Priority, //
};
use mp_transport::{
    frame::{
        Frame,
        FrameBody,
        FuncId,
        RxContext,
        RxData,
        RxFrame, //
    },
    function::{
        self,
        Function, //
    },
    peer::{
        Link,
        Peer,
        SendError, //
    },
    service,
    transport, //
};

const FUNC: u32 = 0x5eed;
/// Peers that come and go.
const PEERS: u32 = 3;
/// Bytes of each frame.
const LEN: usize = 40;
/// What each context does so often.
const ROUNDS: u32 = 6;

/// Be slow, now and then for longer than all that a removal has to do.
fn dawdle() {
    let times = if below(16) == 0 { 5000 } else { below(20) };
    for _ in 0..times {
        point();
    }
}

fn id_of(number: u32) -> PeerId {
    PeerId::from_bdf(number, 0, 0)
}

/// A link that takes or refuses what it is given, and knows whether it may be called.
struct Wire {
    is_gone: Atomic<bool>,
}

impl Link for Wire {
    fn queues(&self) -> u16 {
        1
    }

    fn max_frame(&self) -> usize {
        1000
    }

    fn send(&self, _head: &Envelope, frame: &Frame, _queue: u16) -> Result<u32, SendError> {
        assert!(
            !self.is_gone.load(Relaxed),
            "a link is called that has gone"
        );
        let mut bytes = 0;
        let body = frame.body().for_each_fragment(&mut |fragment| {
            bytes += fragment.len();
            Ok(())
        });
        body.map_err(SendError::Body)?;
        assert!(bytes == frame.body().len());
        dawdle();
        assert!(!self.is_gone.load(Relaxed), "a link goes that is called");
        Ok(1)
    }

    fn kick(&self, _queue: u16) {
        assert!(
            !self.is_gone.load(Relaxed),
            "a link is called that has gone"
        );
    }

    fn arm_tx(&self, _queue: u16) -> bool {
        true
    }
}

/// A function that knows which peers it was told of, and whether it may be called.
struct Watch {
    present: [Atomic<i32>; PEERS as usize + 2],
    is_gone: Atomic<bool>,
    received: Atomic<u32>,
}

impl Watch {
    fn new() -> Result<Arc<Self>> {
        let this = Self {
            present: [const { Atomic::new(0) }; PEERS as usize + 2],
            is_gone: Atomic::new(false),
            received: Atomic::new(0),
        };
        Ok(Arc::new(this, GFP_KERNEL)?)
    }

    fn count(&self, peer: &Peer, by: i32) {
        assert!(
            !self.is_gone.load(Relaxed),
            "a function is told that has gone"
        );
        let present = &self.present[peer.index() as usize];
        let now = present.fetch_add(by, Full) + by;
        assert!((0..=1).contains(&now), "a peer comes or goes twice");
    }
}

impl Function for Watch {
    fn peer_add(&self, peer: &Arc<Peer>) {
        self.count(peer, 1);
    }

    fn peer_del(&self, peer: &Arc<Peer>) {
        self.count(peer, -1);
    }

    fn receive(&self, _rx: &RxContext<'_>, frame: RxFrame<'_>) -> Result {
        assert!(
            !self.is_gone.load(Relaxed),
            "a function is called that has gone"
        );
        let mut bytes = [0; LEN];
        frame.sync(&mut [&mut bytes])?;
        assert_eq!(bytes, [7; LEN]);
        let kept = frame.keep();
        dawdle();
        if let Ok(kept) = kept {
            let mut again = [0; LEN];
            kept.sync(&mut [&mut again])?;
            assert_eq!(again, [7; LEN]);
        }
        assert!(
            !self.is_gone.load(Relaxed),
            "a function goes that is called"
        );
        self.received.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Bytes that have arrived, or are sent; counted when they are done with.
struct Bytes(Arc<Tally>);

/// Frames made, and completed.
struct Tally {
    made: Atomic<u32>,
    done: Atomic<u32>,
}

static SEVEN: [u8; LEN] = [7; LEN];

impl FrameBody for Bytes {
    fn len(&self) -> usize {
        LEN
    }

    fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        f(SEVEN[..10].into())?;
        f(SEVEN[10..].into())
    }

    fn complete(&mut self, _status: Result) {
        self.0.done.fetch_add(1, Relaxed);
    }
}

struct Arrived;

impl RxData for Arrived {
    fn len(&self) -> usize {
        LEN
    }

    fn copy_to(&self, offset: usize, mut dst: Writer<'_>) -> Result {
        let end = offset.checked_add(dst.remaining()).ok_or(EINVAL)?;
        dst.write(SEVEN.get(offset..end).ok_or(EINVAL)?.into())
    }
}

fn context() -> RxContext<'static> {
    RxContext {
        napi: None,
        queue: 0,
        priority: Priority::Bulk,
        last: true,
    }
}

/// Enter a peer and remove it again, several times; frames arrive from it meanwhile.
fn come_and_go(transport: &transport::Registration, number: u32) {
    for _ in 0..ROUNDS {
        let wire = Wire {
            is_gone: Atomic::new(false),
        };
        let Ok(wire) = Arc::new(wire, GFP_KERNEL) else {
            continue;
        };
        let Ok(entered) = transport.add_peer(id_of(number), number, wire.clone()) else {
            continue;
        };
        let peer = entered.peer().clone();
        let arrivals = spawn("arrivals", Kind::Softirq, move || {
            let msg = MsgHdr {
                dst: PeerId::RP,
                src: id_of(number),
                len: LEN as u32,
                func: FUNC,
            };
            for _ in 0..3 {
                // Nobody may be there for it.
                let _ = service::receive(&context(), &peer, msg, &[], &Arrived);
                peer.tx_completed(0, 1);
            }
        });
        machine::sleep_until(machine::now() + below(20_000));
        arrivals.join();
        drop(entered);
        wire.is_gone.store(true, Relaxed);
    }
}

/// Register a function and take it away again, several times.
fn serve(received: &Atomic<u32>) {
    for _ in 0..ROUNDS {
        let Ok(watch) = Watch::new() else {
            continue;
        };
        if let Ok(registration) = function::Registration::new(FuncId(FUNC), watch.clone()) {
            machine::sleep_until(machine::now() + below(50_000));
            drop(registration);
            watch.is_gone.store(true, Relaxed);
            let left = watch.present.iter().map(|present| present.load(Relaxed));
            assert_eq!(
                left.sum::<i32>(),
                0,
                "peers that the function was not told of"
            );
        }
        received.fetch_add(watch.received.load(Relaxed), Relaxed);
    }
}

/// Send frames to one peer, to all, and to the host itself.
fn send(tally: &Arc<Tally>) {
    for round in 0..4 * ROUNDS {
        let body = Bytes(tally.clone());
        tally.made.fetch_add(1, Relaxed);
        let Ok(frame) = Frame::new(FuncId(FUNC), &[], Priority::Bulk, body) else {
            continue;
        };
        let to = match round % 3 {
            0 => PeerId::BCAST,
            1 => PeerId::SELF,
            _ => id_of(1 + round % PEERS),
        };
        // The peer may not be there.
        let _ = service::send(to, &frame);
    }
}

/// Everything at once; how many frames a function has had.
fn everything() -> Result<u32> {
    let received = Arc::new(Atomic::new(0), GFP_KERNEL)?;
    let tally = Tally {
        made: Atomic::new(0),
        done: Atomic::new(0),
    };
    let tally = Arc::new(tally, GFP_KERNEL)?;
    let transport = transport::Registration::new(FUNC, c"seeds")?;
    let transport = Arc::new(transport, GFP_KERNEL)?;
    service::set_self_id(PeerId::RP)?;
    run_short();
    let mut running = std::vec::Vec::new();
    for number in 1..=PEERS {
        let transport = transport.clone();
        running.push(spawn("peer", Kind::Process, move || {
            come_and_go(&transport, number);
        }));
    }
    let count = received.clone();
    running.push(spawn("function", Kind::Process, move || serve(&count)));
    let frames = tally.clone();
    running.push(spawn("sender", Kind::Process, move || send(&frames)));
    running.iter().for_each(Handle::join);
    set_failing_memory(Odds::NEVER);
    drop(transport);
    service::clear_self_id();
    let got = received.load(Relaxed);
    drop(received);
    // What is under way to the host itself is done with soon.
    machine::sleep_until(machine::now() + 1_000_000);
    let (made, done) = (tally.made.load(Relaxed), tally.done.load(Relaxed));
    assert_eq!(made, done, "frames that were made, and completed");
    Ok(got)
}

#[test]
fn peers_and_functions_come_and_go_while_frames_do() {
    with_module(|| {
        everything().expect("memory is there at first");
    });
}

#[test]
fn frames_do_arrive_meanwhile() {
    let before = std::rc::Rc::new(std::cell::Cell::new(0));
    let got = before.clone();
    machine::run(Plan::new(1), move || {
        module::load(&HOST_MODULE).expect("memory is there");
        for _ in 0..20 {
            got.set(got.get() + everything().expect("memory is there at first"));
        }
        module::unload(&HOST_MODULE);
    });
    assert!(before.get() > 50, "{}", before.get());
}
