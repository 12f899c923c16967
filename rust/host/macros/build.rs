// SPDX-License-Identifier: GPL-2.0-only

//! What the kernel's configuration says of this compiler.

fn main() {
    println!("cargo:rustc-cfg=CONFIG_RUSTC_HAS_SPAN_FILE");
}
