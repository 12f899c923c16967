// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`sisci_tools::rpc`] and `sci_rpc(1)`.

fn main() -> std::process::ExitCode {
    sisci_tools::start::<sisci_tools::rpc::Options>()
}
