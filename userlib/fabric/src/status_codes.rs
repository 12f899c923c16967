// SPDX-License-Identifier: MIT OR Apache-2.0

//! Errors that are the statuses of a specification.

/// Define an error type `Error` whose variants have a name, a number and a text each, for a crate
/// that has `thiserror`.
///
/// # Examples
/// ```
/// mp_fabric::status_codes! {
///     /// What the specification knows.
///     NoRoom "X_NO_ROOM" 3 "there is no room";
///     Gone "X_GONE" 4 "the other side has gone";
/// }
///
/// assert_eq!((Error::Gone.code(), Error::Gone.name()), (4, "X_GONE"));
/// assert_eq!(Error::ALL, [Error::NoRoom, Error::Gone]);
/// assert_eq!(Error::NoRoom.to_string(), "there is no room");
/// ```
#[macro_export]
macro_rules! status_codes {
    ($(#[$of_type:meta])* $($variant:ident $name:literal $code:literal $text:literal;)*) => {
        $(#[$of_type])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        pub enum Error {
            $(#[doc = $text] #[error($text)] $variant,)*
        }

        impl Error {
            /// All of them, in the order of the specification.
            pub const ALL: &[Error] = &[$(Error::$variant),*];

            /// The number that the specification gives it.
            pub const fn code(self) -> u32 {
                match self {
                    $(Error::$variant => $code,)*
                }
            }

            /// The name that the specification gives it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Error::$variant => $name,)*
                }
            }
        }
    };
}
