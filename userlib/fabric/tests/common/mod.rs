// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program on one of two hosts.

use mp_fabric::{Fabric, InterfaceId};
use mp_testing::{FakeDevice, Host, World};

pub struct End {
    pub fabric: Fabric<FakeDevice>,
    pub interface: InterfaceId,
}

impl End {
    pub fn new(world: &World, host: Host) -> Self {
        End {
            fabric: Fabric::with_device(world.open(host)),
            interface: InterfaceId(world.interface(0, host)),
        }
    }
}
