// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`sisci_tools::dmabench`] and `sci_dmabench(1)`.

fn main() -> std::process::ExitCode {
    sisci_tools::start::<sisci_tools::dmabench::Options>()
}
