// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`sisci_tools::scipp`] and `scipp(1)`.

fn main() -> std::process::ExitCode {
    sisci_tools::start::<sisci_tools::scipp::Options>()
}
