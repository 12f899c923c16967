// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two processes of two hosts that take turns, each asleep while it is the other one's.
//!
//! `parked server` on one host, `parked client ROUNDS [SECONDS] [blind]` on the other. A side that
//! has its turn stores the number of the round into the partner's window. Both sides print how
//! often they have slept, and fail when a wake-up got lost. At the end the client sleeps for some
//! seconds, during which nothing happens. A `blind` client does not wait for the answer of the
//! server's host before it sleeps, and tells whether a wake-up got lost.

use mp_fabric::{
    flush_stores, vm_memory::VolatileMemory, Deadline, Error, EventMask, Fabric, Map, Park, Parked,
    Session,
};
use std::{
    env,
    hint::spin_loop,
    process::ExitCode,
    sync::atomic::{fence, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Of the range for own protocols.
const PROTOCOL: u32 = 0xF111_D006;
const WINDOW: u64 = 0x1000;
/// Where the number of the round is, in both windows.
const WORD: u64 = 0;
/// Where the arm word is, on a line of its own.
const ARM: u64 = 64;
/// A side pauses for less than this before its turn, and looks for less than this before it
/// sleeps: both may happen while stores of the kernel are on their way.
const PAUSE_NS: u64 = 200_000;
/// Patience with a partner.
const PATIENCE: Duration = Duration::from_secs(60);
/// A signal does not take so long, also on a busy machine.
const LOST: Duration = Duration::from_secs(2);
const NEWS: EventMask = EventMask::SIGNAL
    .union(EventMask::CLOSED)
    .union(EventMask::DOWN);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// One end, and what it has counted.
struct Side {
    session: Session,
    near: Map,
    far: Map,
    random: u64,
    armed: u64,
    answered: u64,
    is_blind: bool,
    parked: u64,
    lost: u64,
}

impl Side {
    fn new(session: Session, is_blind: bool) -> Outcome<Side> {
        session.wait(EventMask::PAIRED, Deadline::NEVER)?;
        Ok(Side {
            near: session.map_local()?.ok_or("no window")?,
            far: session.map_remote()?.ok_or("no window")?,
            random: u64::from(session.handle()) | 1,
            session,
            armed: 0,
            answered: 0,
            is_blind,
            parked: 0,
            lost: 0,
        })
    }

    fn load(&self, at: u64) -> Outcome<u64> {
        let memory = self.near.volatile();
        let word = memory.get_atomic_ref::<AtomicU64>(at as usize)?;
        Ok(word.load(Ordering::Acquire))
    }

    /// Look at the word for a while of random length; whether it has changed.
    fn look(&mut self, value: u64) -> Outcome<bool> {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005) + 1;
        let pause = Duration::from_nanos((self.random >> 33) % PAUSE_NS);
        let began = Instant::now();
        while self.load(WORD)? == value && began.elapsed() < pause {
            spin_loop();
        }
        Ok(self.load(WORD)? != value)
    }

    /// Wait until the word is another one, and return it; nothing once the partner has gone, or
    /// nothing has happened for so long.
    fn wait(&mut self, value: u64, patience: Duration) -> Outcome<Option<u64>> {
        let end = Deadline::after(patience);
        while !self.look(value)? {
            self.armed += 1;
            let park = Park {
                word: WORD,
                value,
                arm: ARM,
                arm_value: self.armed,
            };
            self.parked += 1;
            let ended = match self.is_blind {
                true => self.sleep_blindly(&park)?,
                false => self.sleep(&park, end)?,
            };
            if ended {
                return Ok(None);
            }
        }
        Ok(Some(self.load(WORD)?))
    }

    /// Whether the partner has gone, or it is over.
    fn sleep(&mut self, park: &Park, end: Deadline) -> Outcome<bool> {
        match self.session.park(park, end) {
            Ok(Parked::Changed { late: true }) => {
                // It may still come: the partner may have been interrupted.
                match self.session.wait_one(NEWS, Deadline::after(LOST)) {
                    Err(Error::TimedOut) => Err("a wake-up got lost".into()),
                    other => Ok(other? != EventMask::SIGNAL),
                }
            }
            Ok(Parked::Changed { late: false }) => Ok(false),
            Ok(Parked::Event(event)) => Ok(event != EventMask::SIGNAL),
            Err(Error::TimedOut) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn sleep_blindly(&mut self, park: &Park) -> Outcome<bool> {
        match self.session.park(park, Deadline::PAST) {
            Ok(Parked::Changed { .. }) => return Ok(false),
            Ok(Parked::Event(event)) => return Ok(event != EventMask::SIGNAL),
            Err(Error::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        match self.session.wait_one(NEWS, Deadline::after(LOST)) {
            Ok(event) => Ok(event != EventMask::SIGNAL),
            Err(Error::TimedOut) => {
                self.lost += u64::from(self.load(WORD)? != park.value);
                Ok(self.lost > 0)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Store the word, and wake the partner if it has asked for that.
    fn post(&mut self, value: u64) -> Outcome<()> {
        let memory = self.far.volatile();
        let word = memory.get_atomic_ref::<AtomicU64>(WORD as usize)?;
        word.store(value, Ordering::Relaxed);
        flush_stores();
        fence(Ordering::SeqCst);
        let armed = self.load(ARM)?;
        if armed != self.answered {
            self.answered = armed;
            self.session.signal()?;
        }
        Ok(())
    }

    fn print(&self, rounds: u64) {
        let (parked, lost) = (self.parked, self.lost);
        println!(r#"{{"rounds": {rounds}, "parked": {parked}, "lost": {lost}}}"#);
    }
}

/// Answer each round.
fn serve(fabric: &Fabric) -> Outcome<()> {
    let window = WINDOW..=WINDOW;
    let interface = fabric.wait_for_interface(Deadline::after(PATIENCE))?;
    let request = fabric.server(interface, PROTOCOL);
    let session = request.local(window.clone()).remote(window).open()?;
    let mut side = Side::new(session, false)?;
    let mut last = 0;
    while let Some(round) = side.wait(last, PATIENCE)? {
        last = round;
        // A pause of random length: the word does not change in it.
        side.look(last)?;
        match side.post(last) {
            Err(error) if error.downcast_ref() == Some(&Error::PartnerGone) => break,
            posted => posted?,
        }
    }
    side.print(last);
    Ok(())
}

fn play(fabric: &Fabric, rounds: u64, idle: u64, is_blind: bool) -> Outcome<()> {
    let window = WINDOW..=WINDOW;
    let interface = fabric.wait_for_interface(Deadline::after(PATIENCE))?;
    let end = Instant::now() + PATIENCE;
    let session = loop {
        let request = fabric.client(interface, PROTOCOL).local(window.clone());
        match request.remote(window.clone()).open() {
            Err(Error::NoPartner(_)) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(10));
            }
            session => break session?,
        }
    };
    let mut side = Side::new(session, is_blind)?;
    for round in 1..=rounds {
        side.post(round)?;
        let answer = side.wait(round - 1, PATIENCE)?;
        if is_blind && answer.is_none() {
            break;
        }
        if answer != Some(round) {
            return Err(format!("round {round} was answered by {answer:?}").into());
        }
        side.look(round)?;
    }
    side.print(rounds);
    if idle > 0 {
        side.wait(rounds, Duration::from_secs(idle))?;
    }
    Ok(())
}

fn run() -> Outcome<()> {
    let fabric = Fabric::open()?;
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["server"] => serve(&fabric),
        ["client", rounds] => play(&fabric, rounds.parse()?, 0, false),
        ["client", rounds, idle] => play(&fabric, rounds.parse()?, idle.parse()?, false),
        ["client", rounds, idle, "blind"] => play(&fabric, rounds.parse()?, idle.parse()?, true),
        _ => Err("server | client ROUNDS [SECONDS] [blind]".into()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("parked: {error}");
            ExitCode::FAILURE
        }
    }
}
