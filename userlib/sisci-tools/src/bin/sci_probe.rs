// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`sisci_tools::sci_probe`] and `sci_probe(1)`.

fn main() -> std::process::ExitCode {
    sisci_tools::start::<sisci_tools::sci_probe::Options>()
}
