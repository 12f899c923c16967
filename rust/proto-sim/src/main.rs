// SPDX-License-Identifier: GPL-2.0-only

//! Runs seeds of the simulator, many or a single one; prints and shrinks what fails.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use mp_sim::check::Totals;
use mp_sim::plan::{Length, Plan, Reduction};
use mp_sim::shrink::shrink;
use mp_sim::{run, run_seed};

const USAGE: &str = "\
usage: mp-sim [--long] [--from N] [--count N] [--minutes N] [--keep-going]
       mp-sim [--long] --seed N [--trace] [--no-shrink] [--hosts N] [--faults N,N...|none]
              [--ms N] [--no-traffic] [--no-sessions] [--no-kept] [--no-bell-loss]";

struct Options {
    length: Length,
    seed: Option<u64>,
    from: u64,
    count: u64,
    time: Option<Duration>,
    trace: bool,
    shrinks: bool,
    keep_going: bool,
    less: Reduction,
}

fn parse() -> Result<Options, String> {
    let mut o = Options {
        length: Length::Short,
        seed: None,
        from: 0,
        count: u64::MAX,
        time: None,
        trace: false,
        shrinks: true,
        keep_going: false,
        less: Reduction::default(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
        match arg.as_str() {
            "--long" => o.length = Length::Long,
            "--seed" => o.seed = Some(number(value()?)?),
            "--from" => o.from = number(value()?)?,
            "--count" => o.count = number(value()?)?,
            "--minutes" => o.time = Some(Duration::from_secs(60 * number(value()?)?)),
            "--trace" => o.trace = true,
            "--no-shrink" => o.shrinks = false,
            "--keep-going" => o.keep_going = true,
            "--hosts" => o.less.hosts = Some(number(value()?)? as usize),
            "--ms" => o.less.ms = Some(number(value()?)?),
            "--no-traffic" => o.less.no_traffic = true,
            "--no-sessions" => o.less.no_sessions = true,
            "--no-kept" => o.less.no_kept = true,
            "--no-bell-loss" => o.less.no_bell_loss = true,
            "--faults" => {
                let list = value()?;
                let each = list.split(',').filter(|n| *n != "none");
                let all: Result<Vec<_>, _> = each.map(|n| number(n.into())).collect();
                o.less.faults = Some(all?.into_iter().map(|n| n as usize).collect());
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(o)
}

fn report(runs: u64, t: &Totals, time: Duration) {
    println!(
        "{runs} runs in {:.1} s: {:.2} simulated hours, {} faults, {} link-ups, {} frames \
         ({} forwarded, {} MB), {} pairs, {} words, {} messages, {} requests, \
         {} lost writes, {} lost doorbells, {} resets of liars, {} frames moved out, {} steps",
        time.as_secs_f64(),
        t.time as f64 / 3.6e12,
        t.faults,
        t.ups,
        t.frames,
        t.forwarded,
        t.bytes >> 20,
        t.pairs,
        t.words,
        t.messages,
        t.requests,
        t.lost,
        t.lost_bells,
        t.resets,
        t.moved_out,
        t.steps,
    );
}

fn failed(o: &Options, seed: u64, why: &str) {
    let long = if o.length == Length::Long {
        " --long"
    } else {
        ""
    };
    println!("seed {seed} fails: {why}");
    println!("    mp-sim{long} --seed {seed}");
    if o.shrinks && o.less == Reduction::default() {
        let (less, why) = shrink(seed, o.length, why, 300);
        let plan = Plan::new(seed, o.length, &less);
        println!("smaller: {why}");
        println!("    mp-sim{long} --seed {seed}{}", less.arguments());
        let (hosts, ms) = (plan.hosts.len(), plan.calm / 1_000_000);
        println!("    {hosts} hosts, {ms} ms, faults: {:?}", plan.faults);
    }
}

fn main() -> ExitCode {
    let o = match parse() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let start = Instant::now();
    if let Some(seed) = o.seed {
        let plan = Plan::new(seed, o.length, &o.less);
        if o.trace {
            eprintln!("{plan:#?}");
        }
        return match run(plan, o.trace) {
            Ok(totals) => {
                report(1, &totals, start.elapsed());
                ExitCode::SUCCESS
            }
            Err(why) => {
                failed(&o, seed, &why);
                ExitCode::FAILURE
            }
        };
    }
    let (mut totals, mut runs, mut bad) = (Totals::default(), 0, 0);
    for seed in o.from..o.from.saturating_add(o.count) {
        if o.time.is_some_and(|time| start.elapsed() > time) {
            break;
        }
        match run_seed(seed, o.length, &o.less) {
            Ok(run) => totals.add(&run),
            Err(why) => {
                failed(&o, seed, &why);
                bad += 1;
                if !o.keep_going {
                    break;
                }
            }
        }
        runs += 1;
    }
    report(runs, &totals, start.elapsed());
    match bad {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
