// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random calls of the fabric's character device by several processes, of which some are
//! killed: `fabric_storm --seed N --calls N --workers N`, on a host with the module. Each
//! worker makes so many calls. With `--faults 1`, some of them find no memory, or do not reach
//! that of the process; with `--nobody UID`, every other worker is that user, with a group of
//! the same number; with `--spare ADDRESS`, those who may expose physical memory that begins
//! there, two pages that nobody uses. An answer that `uapi/linux/mp_fabric.h` does not allow, a
//! fault, or a worker that hangs is a failure: then the last calls of that worker are printed.
//! With `--copies 1`, it fails each copy of each call once instead, and none at random.
//!
//! * [`forms`] has all calls.
//! * [`worker`], [`objects`] have what is called, and what it may answer; [`races`] what
//!   several threads and processes do at once.
//! * [`caller`] knows how it is called, well or badly, and whether the answer is right.
//! * [`memory`] has places for arguments.
//! * [`copies`] has all calls fail for each of their copies.
//! * [`faults`] takes the kernel's memory away, and its way to that of a process.
//! * [`log`] keeps what a worker has done.
//! * [`random`] makes numbers.

mod caller;
mod copies;
mod faults;
mod forms;
mod log;
mod memory;
mod objects;
mod parks;
mod races;
mod random;
mod worker;

use crate::{
    faults::Faults,
    log::Log,
    random::Random,
    worker::{Powers, Worker},
};
use std::{
    env,
    process::ExitCode,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// A call may take as long; the longest that the kernel waits for a peer is ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most calls of a process before it is killed.
const LONGEST_LIFE: u64 = 1000;
/// How often workers are looked after.
const LOOK: Duration = Duration::from_millis(10);

/// What the program is told.
struct Options {
    seed: u64,
    calls: u64,
    workers: usize,
    faults: Faults,
    nobody: Option<u32>,
    spare: Option<u64>,
    copies: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        seed: 1,
        calls: 1000,
        workers: 3,
        faults: Faults(false),
        nobody: None,
        spare: None,
        copies: false,
    };
    let mut words = env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().and_then(|value| value.parse::<u64>().ok());
        let value = value.ok_or(format!("{name} needs a number"))?;
        match name.as_str() {
            "--seed" => options.seed = value,
            "--calls" => options.calls = value,
            "--workers" => options.workers = value.clamp(1, 64) as usize,
            "--faults" => options.faults = Faults(value != 0),
            "--nobody" => options.nobody = u32::try_from(value).ok(),
            "--spare" => options.spare = Some(value),
            "--copies" => options.copies = value != 0,
            _ => return Err(format!("{name} is unknown")),
        }
    }
    Ok(options)
}

/// A worker as its parent sees it.
struct Charge {
    pid: i32,
    log: &'static Log,
    /// Processes that were it before.
    lives: u64,
    /// How many calls have been made when this process is killed.
    end: u64,
    /// When it was last seen to have gone on, and how far.
    seen: (Instant, u64),
}

impl Charge {
    fn start(&mut self, options: &Options, number: usize) {
        let part = (number as u64) << 32 | self.lives;
        let life = Random::new(options.seed, !part).below(LONGEST_LIFE);
        self.end = self.log.calls.load(Relaxed) + life;
        self.lives += 1;
        // SAFETY: There is one thread only.
        self.pid = unsafe { libc::fork() };
        assert!(self.pid >= 0, "fork");
        if self.pid == 0 {
            let nobody = options.nobody.filter(|_| number % 2 == 1);
            if let Some(user) = nobody {
                become_user(user);
            }
            // SAFETY: No pointers; whoever dies leaves no workers behind.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let powers = Powers {
                is_privileged: nobody.is_none(),
                spare: options.spare,
            };
            let random = Random::new(options.seed, part);
            Worker::new(random, self.log, options.faults, powers).run(options.calls);
            std::process::exit(0);
        }
    }

    fn kill(&self) {
        // SAFETY: A child of this process that has not been waited for.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }

    /// Its status, if it has ended.
    fn ended(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: A status is written.
        let pid = unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) };
        (pid == self.pid).then_some(status)
    }

    fn is_stuck(&mut self) -> bool {
        let calls = self.log.calls.load(Relaxed);
        if calls != self.seen.1 {
            self.seen = (Instant::now(), calls);
        }
        self.seen.0.elapsed() > PATIENCE
    }

    fn report(&self, what: &str) {
        println!("worker {}: {what}; its last calls:", self.pid);
        self.log.last().iter().for_each(|line| println!("  {line}"));
        for file in ["status", "stack"] {
            let path = format!("/proc/{}/{file}", self.pid);
            if let Ok(text) = std::fs::read_to_string(path) {
                println!("{text}");
            }
        }
    }
}

/// Make this process that of a user, with a group of the same number and no privilege.
fn become_user(user: u32) {
    // SAFETY: No pointer but one to no groups.
    let result = unsafe {
        libc::setgroups(0, std::ptr::null())
            | libc::setresgid(user, user, user)
            | libc::setresuid(user, user, user)
    };
    assert_eq!(result, 0, "no other user");
}

/// Run all workers to their end, or to the first failure; how many were killed.
fn run(options: &Options, charges: &mut [Charge]) -> Result<u64, ()> {
    let mut killed = 0;
    let mut running = charges.len();
    while running > 0 {
        std::thread::sleep(LOOK);
        for (number, charge) in charges.iter_mut().enumerate().filter(|(_, c)| c.pid != 0) {
            match charge.ended() {
                Some(0) => {
                    charge.pid = 0;
                    running -= 1;
                }
                Some(status) if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == 9 => {
                    killed += 1;
                    charge.start(options, number);
                }
                Some(status) => {
                    charge.report(&format!("ended with status {status:#x}"));
                    return Err(());
                }
                None if charge.is_stuck() => {
                    charge.report("is stuck");
                    return Err(());
                }
                None if charge.log.calls.load(Relaxed) >= charge.end => charge.kill(),
                None => {}
            }
        }
    }
    Ok(killed)
}

/// As the program that a worker has become.
fn heir() -> Option<ExitCode> {
    let mut words = env::args().skip(1);
    if words.next()? != "--heir" {
        return None;
    }
    let fds: Vec<_> = words.filter_map(|word| word.parse().ok()).collect();
    Some(report(races::heir(&fds)))
}

/// What a process ends with that does nothing at random.
fn report(ended: Result<(), String>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    if let Some(ended) = heir() {
        return ended;
    }
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("fabric_storm: {why}");
            return ExitCode::from(2);
        }
    };
    if options.copies {
        return report(copies::run());
    }
    println!("seed {}", options.seed);
    let logs = Log::shared(options.workers);
    let mut charges: Vec<Charge> = Vec::new();
    for (number, log) in logs.iter().enumerate() {
        let mut charge = Charge {
            pid: 0,
            log,
            lives: 0,
            end: 0,
            seen: (Instant::now(), 0),
        };
        charge.start(&options, number);
        charges.push(charge);
    }
    let ended = run(&options, &mut charges);
    charges
        .iter()
        .filter(|charge| charge.pid != 0)
        .for_each(Charge::kill);
    let calls: u64 = logs.iter().map(|log| log.calls.load(Relaxed)).sum();
    for kind in 0..forms::KINDS {
        let name = forms::name(kind);
        let sum = |which: usize| logs.iter().map(|log| log.tally(kind)[which]).sum::<u64>();
        println!("{name}: {} succeeded, {} failed", sum(0), sum(1));
    }
    match ended {
        Ok(killed) => {
            println!("{calls} calls, {killed} workers killed");
            ExitCode::SUCCESS
        }
        Err(()) => {
            println!("failed with seed {}", options.seed);
            ExitCode::FAILURE
        }
    }
}
