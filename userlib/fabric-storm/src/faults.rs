// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations of the kernel, and its copies from and to a process, that fail for a call, in
//! kernels that can do that.

use std::{fs::OpenOptions, io::Write};

/// Whether calls of this process are to fail for that now and then.
#[derive(Debug, Clone, Copy)]
pub struct Faults(pub bool);

impl Faults {
    /// Make a call, of which the `nth` allocation or copy fails. It must not allocate itself.
    pub fn during<T>(self, nth: u64, call: impl FnOnce() -> T) -> T {
        let words = [nth.to_string(), "0".to_owned()];
        let file = OpenOptions::new()
            .write(true)
            .open("/proc/thread-self/fail-nth");
        // Opening it takes memory: it stays open.
        let mut file = file.expect("the kernel has fail-nth");
        let mut write = |word: &str| file.write_all(word.as_bytes());
        write(&words[0]).expect("a number");
        let result = call();
        // The kernel copies this number, too: if that was the one to fail, none is left.
        if write(&words[1]).is_err() {
            write(&words[1]).expect("a number");
        }
        result
    }
}
