// SPDX-License-Identifier: GPL-2.0-only

//! Static keys. The host has no tracepoints, so nobody asks for one.

/// Whether a static key is on.
#[macro_export]
macro_rules! static_branch_unlikely {
    ($key:path, $type:ty, $field:ident) => {
        false
    };
}
pub use static_branch_unlikely;
