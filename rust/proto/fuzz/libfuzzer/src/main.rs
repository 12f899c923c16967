// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! libFuzzer for one of the targets of [`mp_fuzz`], named by the variable `FUZZ_TARGET`.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        mp_fuzz::target(&name).expect("FUZZ_TARGET names a target")
    });
    target(data);
});
