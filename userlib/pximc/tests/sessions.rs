// SPDX-License-Identifier: MIT OR Apache-2.0

//! The interface for programs in Rust, where it differs from that for C. The rules of the
//! specification are tested through the functions in C, which are made of this.

use mp_fabric::Fabric;
use mp_testing::{FakeDevice, Host, World, LOOPBACK};
use pximc::{Access, Deadline, Error, Interface, Library, SessionEvent, Sizes};
use std::sync::Arc;
use vm_memory::Bytes;

const PROTOCOL: u32 = 0xF111_D000;
const PAGE: Sizes = Sizes {
    max_local: 0x1000,
    min_local: 0,
    max_remote: 0x1000,
    min_remote: 0,
};

fn library(world: &World, host: Host) -> Library<FakeDevice> {
    Library::with_fabric(Fabric::with_device(world.open(host)), false)
}

fn interface(world: &World, host: Host) -> Interface<FakeDevice> {
    library(world, host).interfaces().remove(0)
}

/// PXI-FI-4, PXI-QI-4, PXI-QI-11
#[test]
fn an_interface_is_described_by_its_bridge() {
    let world = World::new(1, 1 << 20);
    let library = library(&world, Host::A);
    let information = library.interfaces()[0].information().unwrap();
    assert_eq!(information.model, Some("89HPES24NT6AG2"));
    assert!(information.interface.up);
    for unknown in [0, LOOPBACK, 99] {
        assert_eq!(
            library.interface(unknown).unwrap_err(),
            Error::InvalidInterface
        );
    }
    world.remove(0, Host::A);
    assert!(library.interfaces().is_empty());
}

/// Windows are safe to use as long as somebody holds them, also after the session.
#[test]
fn windows_outlive_the_session() {
    let world = World::new(1, 1 << 20);
    let (a, b) = (interface(&world, Host::A), interface(&world, Host::B));
    let server = a.request_logical_as_server(PROTOCOL, PAGE, 0, b"").unwrap();
    let client = b.request_logical_as_client(PROTOCOL, PAGE, 0).unwrap();
    let connection = client.wait_for_connection(Deadline::PAST).unwrap();
    let remote = connection.remote.unwrap();
    remote.volatile().write_slice(b"written", 9).unwrap();
    let local = server
        .wait_for_connection(Deadline::NEVER)
        .unwrap()
        .local
        .unwrap();
    let mut read = [0; 7];
    local.volatile().read_slice(&mut read, 9).unwrap();
    assert_eq!(&read, b"written");
    assert_eq!(Arc::strong_count(&remote), 2);
    client.close().unwrap();
    // Nobody but this test keeps them mapped.
    assert_eq!(Arc::strong_count(&remote), 1);
    assert_eq!(
        server.wait_for_event(Deadline::NEVER),
        Ok(SessionEvent::ConnectionClosed)
    );
    remote.volatile().write_slice(b"nowhere", 9).unwrap();
    assert_eq!(server.close(), Ok(()));
    assert_eq!(server.close(), Err(Error::InvalidSession));
    assert_eq!(
        server.wait_for_connection(Deadline::PAST).unwrap_err(),
        Error::InvalidSession
    );
}

/// PXI-EDA-2, PXI-EDA-4
#[test]
fn accesses_that_contradict_each_other_are_refused() {
    let world = World::new(1, 1 << 20);
    let a = interface(&world, Host::A);
    let session = a.request_logical_as_server(PROTOCOL, PAGE, 0, b"").unwrap();
    for access in [Access::empty(), Access::all(), Access::CLEAR | Access::READ] {
        let refused = session.enable_device_access(access, 0, 0, 0);
        assert_eq!(refused, Err(Error::InvalidArgument));
    }
    let unpaired = session.enable_device_access(Access::READ, 0, 31, 7);
    assert_eq!(unpaired, Err(Error::NoPairing));
    let beyond = session.enable_device_access(Access::READ, 0, 32, 0);
    assert_eq!(beyond, Err(Error::InvalidArgument));
}
