// SPDX-License-Identifier: MIT OR Apache-2.0

//! See [`mcapi_tools::ls`] and `mcapi_ls(1)`.

fn main() -> std::process::ExitCode {
    mcapi_tools::start::<mcapi_tools::ls::Options>()
}
