// SPDX-License-Identifier: GPL-2.0-only

//! What the kernel's configuration says of the processor.

fn main() {
    println!("cargo:rustc-cfg=CONFIG_ARCH_SUPPORTS_ATOMIC_RMW");
    println!("cargo:rustc-cfg=CONFIG_64BIT");
}
