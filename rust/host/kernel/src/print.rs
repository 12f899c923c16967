// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's log, of which each host has one.

use core::fmt;
use std::cell::RefCell;

/// Lines of a host's log.
#[derive(Default)]
struct Log(RefCell<Vec<String>>);

/// Add a line to the log of the calling host.
#[doc(hidden)]
pub fn note(level: &str, text: fmt::Arguments<'_>) {
    let line = format!("{level}: {}", text.to_string().trim_end());
    machine::host().own::<Log>().0.borrow_mut().push(line);
}

/// The lines that a host has printed since the last call.
pub fn take_log(host: &machine::Host) -> Vec<String> {
    host.own::<Log>().0.take()
}

/// Print at this level.
#[macro_export]
macro_rules! pr_emerg {
    ($($arg:tt)*) => {
        $crate::print::note("emerg", $crate::prelude::fmt!($($arg)*))
    };
}

/// Print at this level.
#[macro_export]
macro_rules! pr_alert {
    ($($arg:tt)*) => {
        $crate::print::note("alert", $crate::prelude::fmt!($($arg)*))
    };
}

/// Print at this level.
#[macro_export]
macro_rules! pr_crit {
    ($($arg:tt)*) => {
        $crate::print::note("crit", $crate::prelude::fmt!($($arg)*))
    };
}

/// Print at this level.
#[macro_export]
macro_rules! pr_err {
    ($($arg:tt)*) => {
        $crate::print::note("err", $crate::prelude::fmt!($($arg)*))
    };
}

/// Print at this level.
#[macro_export]
macro_rules! pr_warn {
    ($($arg:tt)*) => {
        $crate::print::note("warn", $crate::prelude::fmt!($($arg)*))
    };
}

/// Print at this level.
#[macro_export]
macro_rules! pr_notice {
    ($($arg:tt)*) => {
        $crate::print::note("notice", $crate::prelude::fmt!($($arg)*))
    };
}

/// Print at this level.
#[macro_export]
macro_rules! pr_info {
    ($($arg:tt)*) => {
        $crate::print::note("info", $crate::prelude::fmt!($($arg)*))
    };
}

/// Print at this level.
#[macro_export]
macro_rules! pr_debug {
    ($($arg:tt)*) => {
        $crate::print::note("debug", $crate::prelude::fmt!($($arg)*))
    };
}
