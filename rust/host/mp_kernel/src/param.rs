// SPDX-License-Identifier: GPL-2.0-only

//! Values of module parameters, which tests set on each host.

/// The value of a parameter that `module!` declares.
#[macro_export]
macro_rules! param {
    ($name:ident) => {
        module_parameters::$name.value()
    };
}
pub use param;
