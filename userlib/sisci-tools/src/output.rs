// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results: tables for people, JSON for programs. Rates are bytes per microsecond (MB/s), times
//! microseconds.

use crate::failure::Outcome;
use mp_table::{Align, Columns};
use mp_tools::{Quantiles, Sink};
use serde::Serialize;
use std::{iter, time::Duration};

/// Times of so many rounds, in microseconds.
#[derive(Serialize)]
struct Times<'a> {
    name: &'a str,
    bytes: usize,
    rounds: u32,
    #[serde(flatten)]
    times: Quantiles,
}

/// The rate of so many rounds.
#[derive(Serialize)]
struct Rate<'a> {
    name: &'a str,
    bytes: usize,
    rounds: u32,
    mb_s: f64,
}

/// Something that has happened.
#[derive(Serialize)]
struct Event<'a> {
    event: &'a str,
    node: u32,
}

/// The names of the columns of a table of results; those from the fourth on are the results.
const TIMES: [&str; 6] = ["name", "bytes", "rounds", "min us", "median us", "99 % us"];
const RATES: [&str; 4] = ["name", "bytes", "rounds", "MB/s"];

/// The columns of a table of results.
fn columns() -> Columns {
    let widths = [10, 10, 13, 13, 14].map(|width| (width, Align::Right));
    Columns::new(1, iter::once((12, Align::Left)).chain(widths))
}

/// Where results go.
#[derive(Debug)]
pub struct Output<'a>(mp_tools::Output<'a>);

impl<'a> Output<'a> {
    /// Results as tables or as JSON.
    pub fn new(json: bool, to: &'a mut Sink<'a>) -> Self {
        Output(mp_tools::Output::new(json, columns(), to))
    }

    /// Print a line at once: the value as JSON, or the words.
    ///
    /// # Errors
    /// Those of writing; so below.
    pub fn line(&mut self, value: &impl Serialize, words: &str) -> Outcome {
        Ok(self.0.line(value, words)?)
    }

    /// Print what so many rounds have resulted in.
    fn result(
        &mut self,
        value: &impl Serialize,
        (name, bytes, rounds): (&str, usize, u32),
        results: &[f64],
    ) -> Outcome {
        let mut cells = vec![name.into(), bytes.to_string(), rounds.to_string()];
        cells.extend(results.iter().map(|result| format!("{result:.3}")));
        Ok(self.0.result(value, &[cells])?)
    }

    /// Print the head of a table of times.
    pub fn head_of_times(&mut self) -> Outcome {
        Ok(self.0.head(&TIMES)?)
    }

    /// Print the head of a table of rates.
    pub fn head_of_rates(&mut self) -> Outcome {
        Ok(self.0.head(&RATES)?)
    }

    /// Print the least, the median and the 99th percentile of times; nothing if there are none.
    pub fn times(&mut self, name: &str, bytes: usize, rounds: u32, times: &[Duration]) -> Outcome {
        let Some(times) = Quantiles::of(times) else {
            return Ok(());
        };
        let value = Times {
            name,
            bytes,
            rounds,
            times,
        };
        let results = [times.min, times.median, times.p99];
        self.result(&value, (name, bytes, rounds), &results)
    }

    /// Print the rate at which so many rounds have taken a time.
    pub fn rate(&mut self, name: &str, bytes: usize, rounds: u32, time: Duration) -> Outcome {
        let rate = bytes as f64 * f64::from(rounds) / time.as_secs_f64() / 1e6;
        let value = Rate {
            name,
            bytes,
            rounds,
            mb_s: rate,
        };
        self.result(&value, (name, bytes, rounds), &[rate])
    }

    /// Print what has happened, and at which node; at none if that is 0.
    pub fn event(&mut self, event: &str, node: u32) -> Outcome {
        let words = match node {
            0 => event.to_string(),
            node => format!("{event:<14} node {node}"),
        };
        self.line(&Event { event, node }, &words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn printed(json: bool, print: impl FnOnce(&mut Output<'_>) -> Outcome) -> String {
        let mut bytes = Vec::new();
        print(&mut Output::new(json, &mut bytes)).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn times_are_sorted_microseconds_below_their_heads() {
        let times: Vec<_> = (1..=200).rev().map(Duration::from_micros).collect();
        let text = printed(false, |out| {
            out.head_of_times()?;
            out.times("scipp", 64, 200, &times)
        });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "name              bytes     rounds        min us     median us        99 % us",
                "scipp                64        200         1.000       101.000        199.000",
            ]
        );
    }

    #[test]
    fn rates_are_megabytes_per_second() {
        let rate = |out: &mut Output<'_>| {
            out.head_of_rates()?;
            out.rate("write", 1000, 500, Duration::from_millis(10))
        };
        let lines = printed(false, rate);
        assert_eq!(
            lines,
            "name              bytes     rounds          MB/s\n\
             write              1000        500        50.000\n"
        );
        let value: Value = serde_json::from_str(&printed(true, rate)).unwrap();
        assert_eq!(
            value,
            json!({ "name": "write", "bytes": 1000, "rounds": 500, "mb_s": 50.0 })
        );
    }

    #[test]
    fn without_times_nothing_is_printed() {
        assert_eq!(printed(true, |out| out.times("scipp", 4, 0, &[])), "");
    }

    #[test]
    fn events_name_a_node_if_there_is_one() {
        let both = |out: &mut Output<'_>| {
            out.event("created", 0)?;
            out.event("connected", 8)
        };
        assert_eq!(printed(false, both), "created\nconnected      node 8\n");
        assert_eq!(
            printed(true, both),
            "{\"event\":\"created\",\"node\":0}\n{\"event\":\"connected\",\"node\":8}\n"
        );
    }
}
