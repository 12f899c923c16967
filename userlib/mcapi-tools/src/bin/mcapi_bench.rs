// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`mcapi_tools::bench`](mod@mcapi_tools::bench) and `mcapi_bench(1)`.

fn main() -> std::process::ExitCode {
    mcapi_tools::start::<mcapi_tools::bench::Options>()
}
