// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names the library.

fn main() {
    mp_c_abi::shared_library("libvipl.so.1");
}
