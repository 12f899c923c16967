// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What hosts bring into the links of tests.

#![allow(dead_code)] // each test program uses its part

use mp_proto::layout::Layout;
use mp_proto::link::{Further, Identity, Local, Role};
use mp_proto::version::WIRE;
use mp_proto::wire::PeerId;

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;
/// Bytes of inbound memory.
pub const LEN: u64 = 64 << 10;

/// A host with that id.
pub fn identity(id: u32) -> Identity {
    Identity {
        role: if id == 0 { Role::Root } else { Role::Endpoint },
        id: PeerId(id),
        index: id,
        your_id: PeerId::SELF,
        your_index: 0,
        features: 0,
    }
}

/// What it brings.
pub fn local(id: u32) -> Local {
    Local {
        addr: 0x10_0000,
        layout: Layout::plan(LEN, 1).expect("large enough"),
        identity: identity(id),
        further: Further::default(),
        support: WIRE,
    }
}
