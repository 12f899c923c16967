// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`vipl_tools::perf`] and `vi_perf(1)`.

fn main() -> std::process::ExitCode {
    vipl_tools::start::<vipl_tools::perf::Options>()
}
