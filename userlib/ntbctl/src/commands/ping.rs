// SPDX-License-Identifier: MIT OR Apache-2.0

//! `ping`: how long a question to a peer's message frame service takes until it is answered.

use crate::{
    cli,
    failure::Failure,
    model::PeerId,
    netlink::Connection,
    output::{microseconds, print, print_json},
    uapi,
};
use serde::Serialize;
use std::{io::ErrorKind, iter, thread::sleep, time::Duration};

/// What is told of all questions.
#[derive(Serialize)]
struct Report<'a> {
    peer: PeerId,
    asked: u64,
    answered: usize,
    min_ns: Option<u64>,
    mean_ns: Option<u64>,
    max_ns: Option<u64>,
    round_trip_ns: &'a [u64],
}

/// Round trips, in nanoseconds.
#[derive(Default)]
struct Summary {
    asked: u64,
    answers: Vec<u64>,
}

impl Summary {
    fn bounds(&self) -> Option<(u64, u64, u64)> {
        let sum: u128 = self.answers.iter().map(|ns| u128::from(*ns)).sum();
        let mean = sum.checked_div(self.answers.len() as u128)? as u64;
        Some((
            *self.answers.iter().min()?,
            mean,
            *self.answers.iter().max()?,
        ))
    }

    fn text(&self) -> String {
        let answered = self.answers.len();
        let count = format!("{} asked, {} answered", self.asked, answered);
        match self.bounds() {
            Some((min, mean, max)) => format!(
                "{count}; least {}, mean {}, most {}",
                microseconds(min),
                microseconds(mean),
                microseconds(max)
            ),
            None => count,
        }
    }

    fn report(&self, peer: PeerId) -> Report<'_> {
        let bounds = self.bounds();
        Report {
            peer,
            asked: self.asked,
            answered: self.answers.len(),
            min_ns: bounds.map(|b| b.0),
            mean_ns: bounds.map(|b| b.1),
            max_ns: bounds.map(|b| b.2),
            round_trip_ns: &self.answers,
        }
    }
}

/// Ask as often as was wished.
pub fn run(kernel: &mut Connection, options: &cli::Ping, json: bool) -> Result<(), Failure> {
    let mut summary = Summary::default();
    while options.count == 0 || summary.asked < options.count {
        if summary.asked != 0 {
            sleep(options.interval);
        }
        summary.asked += 1;
        let answer = ask(kernel, options)?;
        if let Some(ns) = answer {
            summary.answers.push(ns);
        }
        if !json {
            print(&line(options, summary.asked, answer))?;
        }
    }
    match json {
        true => print_json(&summary.report(options.peer))?,
        false => print(&summary.text())?,
    }
    match summary.answers.is_empty() {
        true => Err(Failure::NoAnswer),
        false => Ok(()),
    }
}

/// The longest time that the kernel waits for an answer.
const LONGEST: Duration = Duration::from_millis(uapi::MP_TIMEOUT_MS_MAX as u64);

/// The times of the questions that wait for so long together.
fn parts(timeout: Duration) -> impl Iterator<Item = Duration> {
    let mut left = timeout;
    iter::from_fn(move || {
        let part = left.min(LONGEST);
        left -= part;
        (part.as_millis() != 0).then_some(part)
    })
}

/// The round trip in nanoseconds; `None` if the peer does not answer in time.
fn ask(kernel: &mut Connection, options: &cli::Ping) -> Result<Option<u64>, Failure> {
    for part in parts(options.timeout) {
        let request = [
            (uapi::MP_A_PEER_ID, options.peer.0),
            (uapi::MP_A_TIMEOUT_MS, part.as_millis() as u32),
        ];
        match kernel.ask(uapi::MP_CMD_PING, &request) {
            Ok(answer) => return answer.required(uapi::MP_A_ROUND_TRIP_NS).map(Some),
            Err(failure) if failure.is_kernel(ErrorKind::TimedOut) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

fn line(options: &cli::Ping, number: u64, answer: Option<u64>) -> String {
    let peer = options.peer;
    match answer {
        Some(ns) => format!("{peer}: answer {number} after {}", microseconds(ns)),
        None => {
            let waited = options.timeout.as_secs_f64();
            format!("{peer}: no answer {number} in {waited} s")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_least_mean_and_most() {
        let summary = Summary {
            asked: 4,
            answers: vec![3000, 1000, 2500],
        };
        assert_eq!(summary.bounds(), Some((1000, 2166, 3000)));
        assert_eq!(
            summary.text(),
            "4 asked, 3 answered; least 1.000 us, mean 2.166 us, most 3.000 us"
        );
    }

    #[test]
    fn who_waits_for_long_asks_again() {
        let parts = |ms| {
            let parts = super::parts(Duration::from_millis(ms));
            parts.map(|part| part.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(parts(300), [300]);
        assert_eq!(parts(1000), [1000]);
        assert_eq!(parts(2500), [1000, 1000, 500]);
    }

    #[test]
    fn without_any_answer_there_is_nothing_to_sum_up() {
        let summary = Summary {
            asked: 2,
            answers: Vec::new(),
        };
        assert_eq!(summary.text(), "2 asked, 0 answered");
    }
}
