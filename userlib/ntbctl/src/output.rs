// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables for people, JSON for programs.

use crate::failure::Failure;
use mp_table::Table;
use serde::Serialize;
use std::io::{self, Write};

/// Print lines, at once.
///
/// # Errors
/// [`Failure::System`]; so below.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Print a table.
pub fn print_table(table: &Table) -> Result<(), Failure> {
    print(&table.lines().join("\n"))
}

/// Print a value on a line of its own.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&serde_json::to_string(value).map_err(io::Error::from)?)
}

/// A time in nanoseconds as people read it.
pub fn microseconds(ns: u64) -> String {
    format!("{}.{:03} us", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_behind_the_point() {
        assert_eq!(microseconds(1_234_056), "1234.056 us");
        assert_eq!(microseconds(7), "0.007 us");
    }
}
