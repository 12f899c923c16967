// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables of text that the tools print.
//!
//! [`Columns`] lays out one line at a time, for rows that are printed as they are measured;
//! [`Table`] keeps its rows and finds out how wide its columns have to be. Neither prints.

use std::iter;

/// The side of a column that its cells are aligned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// The layout of lines: the least width of each column in characters, and its alignment.
#[derive(Clone, Debug)]
pub struct Columns {
    gap: usize,
    columns: Vec<(usize, Align)>,
}

impl Columns {
    /// Columns with so many blanks between them.
    pub fn new(gap: usize, columns: impl IntoIterator<Item = (usize, Align)>) -> Self {
        let columns = columns.into_iter().collect();
        Columns { gap, columns }
    }

    /// A line, without blanks at its end. A cell that is wider than its column moves the others.
    pub fn line<T: AsRef<str>>(&self, cells: impl IntoIterator<Item = T>) -> String {
        let mut line = String::new();
        for (n, (&(width, align), cell)) in self.columns.iter().zip(cells).enumerate() {
            let (gap, cell) = (if n == 0 { 0 } else { self.gap }, cell.as_ref());
            line.push_str(&match align {
                Align::Left => format!("{:gap$}{cell:<width$}", ""),
                Align::Right => format!("{:gap$}{cell:>width$}", ""),
            });
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// A table: columns in the width of their widest cell, numbers to the right.
#[derive(Clone, Debug)]
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

    /// Add a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines of the table, its header first.
    pub fn lines(&self) -> Vec<String> {
        let all = || iter::once(&self.header).chain(&self.rows);
        let column = |n: usize| {
            let widths = all()
                .filter_map(|row| row.get(n))
                .map(|cell| cell.chars().count());
            // The first column names what the row is about, though it may look like a number.
            let is_right = n > 0
                && self
                    .rows
                    .iter()
                    .all(|row| row.get(n).is_some_and(is_number));
            let align = if is_right { Align::Right } else { Align::Left };
            (widths.max().unwrap_or(0), align)
        };
        let columns = Columns::new(2, (0..self.header.len()).map(column));
        all().map(|row| columns.line(row)).collect()
    }
}

fn is_number(text: &String) -> bool {
    text == "-" || text.parse::<f64>().is_ok()
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
    fn columns_of_a_given_width_grow_with_their_cells() {
        let columns = Columns::new(1, [(4, Align::Left), (3, Align::Right)]);
        assert_eq!(columns.line(["ab", "1"]), "ab     1");
        assert_eq!(columns.line(["abcdef", "1234"]), "abcdef 1234");
    }
}
