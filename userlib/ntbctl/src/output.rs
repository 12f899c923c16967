// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables for people, JSON for programs.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, Write};

/// A table: columns in the width of their widest cell, numbers to the right.
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns, whose names are shown in capitals.
    pub fn new<T: AsRef<str>>(columns: impl IntoIterator<Item = T>) -> Self {
        let capitals = |name: T| name.as_ref().to_uppercase().replace('_', "-");
        Table {
            header: columns.into_iter().map(capitals).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines of the table, its header first.
    fn lines(&self) -> Vec<String> {
        let all: Vec<&Vec<String>> = std::iter::once(&self.header).chain(&self.rows).collect();
        let cell = |row: &Vec<String>, n: usize| row.get(n).cloned().unwrap_or_default();
        let mut lines = vec![String::new(); all.len()];
        for n in 0..self.header.len() {
            let width = all.iter().map(|row| cell(row, n).len()).max().unwrap_or(0);
            // An id is no number, though it may look like one: those have eight digits at least.
            let right = n > 0 && self.rows.iter().all(|row| is_number(&cell(row, n)));
            for (line, row) in lines.iter_mut().zip(&all) {
                let text = cell(row, n);
                let gap = if n == 0 { "" } else { "  " };
                match right {
                    true => line.push_str(&format!("{gap}{text:>width$}")),
                    false => line.push_str(&format!("{gap}{text:<width$}")),
                }
            }
        }
        lines.iter().map(|line| line.trim_end().into()).collect()
    }

    /// Prints it.
    ///
    /// # Errors
    /// [`Failure::System`]; so below.
    pub fn print(&self) -> Result<(), Failure> {
        print(&self.lines().join("\n"))
    }
}

fn is_number(text: &str) -> bool {
    text == "-" || text.parse::<f64>().is_ok()
}

/// Prints lines, at once.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints a value on a line of its own.
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
    fn columns_are_aligned_and_numbers_are_to_the_right() {
        let mut table = Table::new(["id", "route", "tx_bytes"]);
        table.row(["00000100", "direct", "7"].map(String::from));
        table.row(["00000200", "via 00000000", "123456789"].map(String::from));
        assert_eq!(
            table.lines(),
            [
                "ID        ROUTE          TX-BYTES",
                "00000100  direct                7",
                "00000200  via 00000000  123456789",
            ]
        );
    }

    #[test]
    fn lines_do_not_end_with_blanks() {
        let mut table = Table::new(["a", "bcdef"]);
        table.row(["x", "y"].map(String::from));
        assert_eq!(table.lines(), ["A  BCDEF", "x  y"]);
    }

    #[test]
    fn times_have_three_digits_behind_the_point() {
        assert_eq!(microseconds(1_234_056), "1234.056 us");
        assert_eq!(microseconds(7), "0.007 us");
    }
}
