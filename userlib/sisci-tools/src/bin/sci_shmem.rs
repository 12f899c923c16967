// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`sisci_tools::shmem`] and `sci_shmem(1)`.

fn main() -> std::process::ExitCode {
    sisci_tools::start::<sisci_tools::shmem::Options>()
}
