// SPDX-License-Identifier: GPL-2.0-only

//! Accesses to memory that others change.

// Parts are for devices, of which there are none yet; the kernel has an older clippy.
#[allow(clippy::manual_is_multiple_of, dead_code)]
pub(crate) mod access;
