// SPDX-License-Identifier: MIT OR Apache-2.0

//! How libraries are linked.

/// Tell Cargo how to link the library, from its build script: by the name that programs look
/// for, such as `libpximc_ntb.so`.
///
/// - `-Bsymbolic-functions`: no call from inside ends in a function of the same name that another
///   library or the program has.
/// - `-z nodelete`: a thread may still be in the library when a program lets go of it. It stays
///   until the process ends.
pub fn shared_library(soname: &str) {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        &format!("-soname,{soname}"),
        "-Bsymbolic-functions",
        "-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,{argument}");
    }
}
