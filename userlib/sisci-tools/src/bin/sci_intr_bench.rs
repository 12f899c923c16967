// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`sisci_tools::intr_bench`] and `sci_intr_bench(1)`.

fn main() -> std::process::ExitCode {
    sisci_tools::start::<sisci_tools::intr_bench::Options>()
}
