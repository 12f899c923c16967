// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the times of many rounds come to.

use serde::Serialize;
use std::time::Duration;

/// Some of the times of many rounds, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The least.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Quantiles {
    /// Sort the times and pick; nothing if there are none.
    pub fn of(times: &[Duration]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |part: usize| {
            let found = sorted.get(sorted.len() * part / 100);
            found.map(|time| time.as_secs_f64() * 1e6)
        };
        Some(Quantiles {
            min: at(0)?,
            median: at(50)?,
            p99: at(99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_sorted_and_in_microseconds() {
        let times: Vec<_> = (1..=200).rev().map(Duration::from_micros).collect();
        let expected = Quantiles {
            min: 1.0,
            median: 101.0,
            p99: 199.0,
        };
        assert_eq!(Quantiles::of(&times), Some(expected));
        assert_eq!(Quantiles::of(&[]), None);
    }
}
