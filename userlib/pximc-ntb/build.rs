// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names the library. The Dispatcher has functions of the same names: no call from inside may end
//! there.

fn main() {
    mp_c_abi::shared_library("libpximc_ntb.so");
}
