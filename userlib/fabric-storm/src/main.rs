// SPDX-License-Identifier: GPL-2.0

//! Random calls of the fabric's character device by several processes, of which some are
//! killed: `fabric_storm --seed N --calls N --workers N`, on a host with the module. Each worker
//! makes so many calls. An answer that `uapi/linux/mp_fabric.h` does not allow, a fault, or a
//! worker that hangs is a failure: then the last calls of that worker are printed.
//!
//! * [`worker`] has what is called, and what it may answer.
//! * [`caller`] knows how it is called, well or badly, and whether the answer is right.
//! * [`memory`] has places for arguments.
//! * [`log`] keeps what a worker has done.
//! * [`random`] makes numbers.

mod caller;
mod log;
mod memory;
mod random;
mod worker;

use crate::{log::Log, random::Random, worker::Worker};
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
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        seed: 1,
        calls: 1000,
        workers: 3,
    };
    let mut words = env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().and_then(|value| value.parse::<u64>().ok());
        let value = value.ok_or(format!("{name} needs a number"))?;
        match name.as_str() {
            "--seed" => options.seed = value,
            "--calls" => options.calls = value,
            "--workers" => options.workers = value.clamp(1, 64) as usize,
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
            // SAFETY: No pointers; whoever dies leaves no workers behind.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let random = Random::new(options.seed, part);
            Worker::new(random, self.log).run(options.calls);
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

/// Runs all workers to their end, or to the first failure; how many were killed.
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

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("fabric_storm: {why}");
            return ExitCode::from(2);
        }
    };
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
    for (kind, name) in log::KINDS.iter().enumerate() {
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
