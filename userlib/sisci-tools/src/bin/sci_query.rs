// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`sisci_tools::sci_query`] and `sci_query(1)`.

fn main() -> std::process::ExitCode {
    sisci_tools::start::<sisci_tools::sci_query::Options>()
}
