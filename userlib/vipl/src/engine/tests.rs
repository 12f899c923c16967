// SPDX-License-Identifier: MIT OR Apache-2.0

//! Two engines, face to face, without I/O.
