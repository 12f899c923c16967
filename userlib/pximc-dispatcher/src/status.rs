// SPDX-License-Identifier: MIT OR Apache-2.0

//! The statuses that the Dispatcher itself returns; all others come from vendors, and pass
//! unchanged. Numbers as in `pximc.h`: negative ones are errors, positive ones are warnings.

/// What every function returns.
pub type Status = i32;

const ERROR_BASE: i32 = i32::MIN;
const WARNING_BASE: i32 = 0x1000_0000;

/// All went well.
pub const SUCCESS: Status = 0;
/// The caller's array is too small.
pub const INSUFFICIENT_SPACE: Status = ERROR_BASE + 0x1000;
/// No vendor has such an interface.
pub const INVALID_INTERFACE: Status = ERROR_BASE + 0x1001;
/// A mandatory output is a null pointer.
pub const INVALID_ARGUMENT: Status = ERROR_BASE + 0x1004;
/// No numbers, or no memory, are left.
pub const SPACE_NOT_AVAILABLE: Status = ERROR_BASE + 0x1005;
/// The vendor's library cannot give devices access.
pub const PHY_RESOURCE_NOT_AVAILABLE: Status = ERROR_BASE + 0x1008;
/// This process has opened no such session.
pub const INVALID_SESSION: Status = ERROR_BASE + 0x1009;
/// There is no vendor's library.
pub const NO_PROVIDER: Status = WARNING_BASE + 0x1000;

/// Whether it tells of an error, and not of success or a warning.
pub fn is_error(status: Status) -> bool {
    status < SUCCESS
}
