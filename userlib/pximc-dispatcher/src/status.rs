// SPDX-License-Identifier: MIT OR Apache-2.0

//! The statuses that the Dispatcher itself returns; all others come from vendors, and pass
//! unchanged. Numbers as in `pximc.h`: negative ones are errors, positive ones are warnings.

use crate::sys;

/// What every function returns.
pub type Status = sys::tPXIMC_Status;

/// All went well.
pub const SUCCESS: Status = sys::PXIMC_SUCCESS;
/// The caller's array is too small.
pub const INSUFFICIENT_SPACE: Status = sys::PXIMC_INSUFFICIENT_SPACE;
/// No vendor has such an interface.
pub const INVALID_INTERFACE: Status = sys::PXIMC_INVALID_INTERFACE;
/// A mandatory output is a null pointer.
pub const INVALID_ARGUMENT: Status = sys::PXIMC_INVALID_ARGUMENT;
/// No numbers, or no memory, are left.
pub const SPACE_NOT_AVAILABLE: Status = sys::PXIMC_SPACE_NOT_AVAILABLE;
/// The vendor's library cannot give devices access.
pub const PHY_RESOURCE_NOT_AVAILABLE: Status = sys::PXIMC_PHY_RESOURCE_NOT_AVAILABLE;
/// This process has opened no such session.
pub const INVALID_SESSION: Status = sys::PXIMC_INVALID_SESSION;
/// There is no vendor's library.
pub const NO_PROVIDER: Status = sys::PXIMC_NO_PROVIDER;

/// Whether it tells of an error, and not of success or a warning.
pub fn is_error(status: Status) -> bool {
    status < SUCCESS
}
