// SPDX-License-Identifier: GPL-2.0-only

//! Accesses to memory that others change.

pub(crate) mod access;
