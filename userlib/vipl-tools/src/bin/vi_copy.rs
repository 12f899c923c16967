// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`vipl_tools::copy`] and `vi_copy(1)`.

fn main() -> std::process::ExitCode {
    vipl_tools::start::<vipl_tools::copy::Options>()
}
