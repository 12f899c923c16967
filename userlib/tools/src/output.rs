// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results: a table for people, or JSON for programs, a line for each.

use mp_table::Columns;
use serde::Serialize;
use std::{
    fmt,
    io::{self, Write},
};

/// What results are written to.
pub type Sink<'a> = dyn Write + Send + 'a;

/// Where results go, and as what.
pub struct Output<'a> {
    json: bool,
    columns: Columns,
    to: &'a mut Sink<'a>,
}

impl fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("json", &self.json)
            .finish_non_exhaustive()
    }
}

impl<'a> Output<'a> {
    /// Results as JSON, or as a table with these columns.
    pub fn new(json: bool, columns: Columns, to: &'a mut Sink<'a>) -> Self {
        Output { json, columns, to }
    }

    /// Print a line at once: the value as JSON, or the words.
    ///
    /// # Errors
    /// Those of writing; so below.
    pub fn line(&mut self, value: &impl Serialize, words: &str) -> io::Result<()> {
        match self.json {
            true => writeln!(self.to, "{}", serde_json::to_string(value)?)?,
            false => writeln!(self.to, "{words}")?,
        }
        self.to.flush()
    }

    /// Print the head of a table.
    pub fn head(&mut self, names: &[&str]) -> io::Result<()> {
        match self.json {
            true => Ok(()),
            false => writeln!(self.to, "{}", self.columns.line(names)),
        }
    }

    /// Print a result: the value as JSON, or rows of the table.
    pub fn result<T: AsRef<str>>(
        &mut self,
        value: &impl Serialize,
        rows: &[Vec<T>],
    ) -> io::Result<()> {
        let lines: Vec<String> = rows.iter().map(|row| self.columns.line(row)).collect();
        self.line(value, &lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_table::Align;

    fn printed(json: bool) -> String {
        let mut bytes = Vec::new();
        let columns = Columns::new(1, [(4, Align::Left), (5, Align::Right)]);
        let mut out = Output::new(json, columns, &mut bytes);
        out.head(&["name", "us"]).unwrap();
        out.result(&[1, 2], &[vec!["a", "1.0"], vec!["b", "2.0"]])
            .unwrap();
        out.line(&3, "the end").unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_table_has_a_head_and_rows() {
        assert_eq!(
            printed(false),
            "name    us\na      1.0\nb      2.0\nthe end\n"
        );
    }

    #[test]
    fn json_has_a_line_for_each_value_and_no_head() {
        assert_eq!(printed(true), "[1,2]\n3\n");
    }
}
