// SPDX-License-Identifier: GPL-2.0

//! Values of module parameters.

/// A parameter's value as the kernel crate gives it: by value or by reference,
/// depending on its version.
pub trait Given {
    /// The value's type.
    type Value;

    /// The value.
    fn get(self) -> Self::Value;
}

macro_rules! given {
    ($($type:ty)*) => {$(
        impl Given for $type {
            type Value = Self;

            #[inline]
            fn get(self) -> Self {
                self
            }
        }

        impl Given for &$type {
            type Value = $type;

            #[inline]
            fn get(self) -> $type {
                *self
            }
        }
    )*};
}

given!(u8 u32 u64);

/// The value of a parameter that `module!` declares.
#[macro_export]
macro_rules! param {
    ($name:ident) => {
        $crate::param::Given::get(module_parameters::$name.value())
    };
}
pub use param;
