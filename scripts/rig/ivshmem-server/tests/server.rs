// SPDX-License-Identifier: GPL-2.0-only
//! The server against clients that behave like QEMU, and worse.

use std::fs::File;
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixDatagram, UnixStream};

use ivshmem_server::board::{
    Geometry, LOST_OFFSET, MAX_PORTS, PORTS_OFFSET, PORT_STRIDE, SIZE, STATE_OFFSET,
    UNPLUGGED_OFFSET,
};
use ivshmem_server::server::{Event, Server};
use rustix::event::Timespec;
use rustix::net::{recvmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tempfile::TempDir;

const GEOMETRY: Geometry = Geometry {
    ports: 3,
    vectors: 2,
    ram_size: 512 << 20,
    area_base: 0x1000_0000,
    area_size: 64 << 20,
    plain_slot_base: 16,
};

struct Rig {
    dir: TempDir,
    server: Server,
}

/// What one client learnt from its handshake.
struct Guest {
    stream: UnixStream,
    messages: Vec<(i64, Option<OwnedFd>)>,
}

impl Rig {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let server = Server::new(dir.path(), GEOMETRY).unwrap();
        Self { dir, server }
    }

    fn step(&mut self) -> Vec<Event> {
        let timeout = Timespec {
            tv_sec: 2,
            tv_nsec: 0,
        };
        self.server.step(Some(&timeout)).unwrap()
    }

    fn dial(&self, port: usize) -> UnixStream {
        UnixStream::connect(Server::socket_path(self.dir.path(), port)).unwrap()
    }

    fn boot(&mut self, port: usize) -> Guest {
        let stream = self.dial(port);
        assert_eq!(self.step(), [Event::Connected(port)]);
        let expected = 3 + GEOMETRY.ports * GEOMETRY.vectors;
        let messages = (0..expected).map(|_| receive(&stream)).collect();
        Guest { stream, messages }
    }
}

impl Guest {
    fn values(&self) -> Vec<i64> {
        self.messages.iter().map(|(value, _)| *value).collect()
    }

    fn board(&self) -> File {
        let fd = self.messages[2].1.as_ref().unwrap();
        File::from(fd.try_clone().unwrap())
    }

    fn word(&self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.board().read_exact_at(&mut bytes, offset).unwrap();
        u32::from_le_bytes(bytes)
    }

    /// The event descriptor of a port's vector, as this guest was given it.
    fn doorbell(&self, port: i64, vector: usize) -> &OwnedFd {
        let mut of_port = self.messages[3..].iter().filter(|(id, _)| *id == port);
        of_port.nth(vector).unwrap().1.as_ref().unwrap()
    }

    fn rings(&self, port: i64, vector: usize) -> u64 {
        let mut bytes = [0; 8];
        match rustix::io::read(self.doorbell(port, vector), &mut bytes) {
            Ok(_) => u64::from_ne_bytes(bytes),
            Err(_) => 0,
        }
    }
}

fn receive(stream: &UnixStream) -> (i64, Option<OwnedFd>) {
    let mut bytes = [0; 8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let buffers = &mut [IoSliceMut::new(&mut bytes)];
    let message = recvmsg(stream, buffers, &mut control, RecvFlags::empty()).unwrap();
    assert_eq!(message.bytes, 8);
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    (i64::from_le_bytes(bytes), fd)
}

fn block(port: u64) -> u64 {
    PORTS_OFFSET + port * u64::from(PORT_STRIDE)
}

#[test]
fn handshake_is_version_id_memory_others_then_self() {
    let guest = Rig::new().boot(1);
    assert_eq!(guest.values(), [0, 1, -1, 0, 0, 2, 2, 1, 1]);
    let with_fd: Vec<bool> = guest.messages.iter().map(|(_, fd)| fd.is_some()).collect();
    assert_eq!(
        with_fd,
        [false, false, true, true, true, true, true, true, true]
    );
}

#[test]
fn header_describes_the_rig() {
    let guest = Rig::new().boot(0);
    assert_eq!(guest.board().metadata().unwrap().len(), SIZE);
    let words: Vec<u32> = (0..12).map(|index| guest.word(index * 4)).collect();
    let expected = [
        0x4942_544e,
        1,
        3,
        0x8000,
        512 << 20,
        0,
        0x1000_0000,
        0,
        64 << 20,
        0,
        16,
        2,
    ];
    assert_eq!(words, expected);
}

#[test]
fn a_guest_rings_another_through_its_descriptor() {
    let mut rig = Rig::new();
    let (a, b) = (rig.boot(0), rig.boot(1));
    rustix::io::write(a.doorbell(1, 1), &1u64.to_ne_bytes()).unwrap();
    assert_eq!(b.rings(1, 1), 1);
    assert_eq!(b.rings(1, 0), 0);
}

#[test]
fn a_lost_port_is_cleared_counted_and_rung_about() {
    let mut rig = Rig::new();
    let (a, b) = (rig.boot(0), rig.boot(1));
    b.board()
        .write_all_at(&7u32.to_le_bytes(), block(1) + STATE_OFFSET)
        .unwrap();
    drop(b);
    assert_eq!(rig.step(), [Event::Lost(1)]);
    assert_eq!(a.word(block(1) + STATE_OFFSET), 0);
    assert_eq!(a.word(block(1) + LOST_OFFSET), 1);
    assert_eq!(a.rings(0, 0), 1);
}

#[test]
fn a_returning_guest_is_the_same_port_in_any_order() {
    let mut rig = Rig::new();
    let (a, b) = (rig.boot(0), rig.boot(2));
    drop((a, b));
    let lost = rig.step();
    assert_eq!(lost, [Event::Lost(0), Event::Lost(2)]);
    let (b, a) = (rig.boot(2), rig.boot(0));
    assert_eq!((a.values()[1], b.values()[1]), (0, 2));
}

#[test]
fn a_returning_guest_hears_no_rings_from_before() {
    let mut rig = Rig::new();
    let (a, b) = (rig.boot(0), rig.boot(1));
    rustix::io::write(a.doorbell(1, 0), &1u64.to_ne_bytes()).unwrap();
    drop(b);
    rig.step();
    assert_eq!(rig.boot(1).rings(1, 0), 0);
}

#[test]
fn a_quick_restart_finds_its_port_free() {
    let mut rig = Rig::new();
    drop(rig.boot(0));
    let _again = rig.dial(0);
    assert_eq!(rig.step(), [Event::Lost(0), Event::Connected(0)]);
}

#[test]
fn a_second_guest_on_one_port_is_refused() {
    let mut rig = Rig::new();
    let first = rig.boot(0);
    let _second = rig.dial(0);
    assert_eq!(rig.step(), [Event::Refused(0)]);
    assert_eq!(first.word(block(0) + LOST_OFFSET), 0);
}

#[test]
fn noise_from_a_client_is_ignored() {
    let mut rig = Rig::new();
    let mut guest = rig.boot(0);
    guest.stream.write_all(&[0xff; 4096]).unwrap();
    for _ in 0..8 {
        assert_eq!(rig.step(), []);
    }
    assert_eq!(rig.boot(1).values()[1], 1);
}

#[test]
fn a_scribbled_header_is_restored_for_the_next_guest() {
    let mut rig = Rig::new();
    let guest = rig.boot(0);
    guest.board().write_all_at(&[0xff; 64], 0).unwrap();
    assert_eq!(rig.boot(1).word(0), 0x4942_544e);
}

#[test]
fn the_shared_memory_cannot_be_cut_short() {
    let guest = Rig::new().boot(0);
    assert!(guest.board().set_len(0).is_err());
}

#[test]
fn sizes_out_of_range_are_refused() {
    let dir = TempDir::new().unwrap();
    for (ports, vectors) in [(0, 1), (1, 1), (MAX_PORTS + 1, 1), (2, 0), (2, 65)] {
        let geometry = Geometry {
            ports,
            vectors,
            ..GEOMETRY
        };
        assert!(Server::new(dir.path(), geometry).is_err());
    }
}

#[test]
fn a_cable_is_taken_out_and_put_in_on_order() {
    let mut rig = Rig::new();
    let guest = rig.boot(1);
    let orders = UnixDatagram::unbound().unwrap();
    let control = Server::control_path(rig.dir.path());
    let lost = PORTS_OFFSET + 2 * u64::from(PORT_STRIDE) + LOST_OFFSET;
    orders.send_to(b"unplug 2", &control).unwrap();
    assert_eq!(rig.step(), [Event::Unplugged(2)]);
    assert_eq!(guest.word(UNPLUGGED_OFFSET), 1 << 2);
    assert_eq!(guest.word(lost), 1);
    orders.send_to(b"plug 2", &control).unwrap();
    assert_eq!(rig.step(), [Event::Plugged(2)]);
    assert_eq!(guest.word(UNPLUGGED_OFFSET), 0);
    assert_eq!(guest.word(lost), 1);
}

#[test]
fn what_a_peer_that_lies_can_do_is_done_on_order() {
    let mut rig = Rig::new();
    let guest = rig.boot(1);
    let orders = UnixDatagram::unbound().unwrap();
    let control = Server::control_path(rig.dir.path());
    let word = block(1) + 0x100;
    let store = format!("store {word} 4026531840");
    orders.send_to(store.as_bytes(), &control).unwrap();
    orders.send_to(b"ring 1 1", &control).unwrap();
    assert_eq!(rig.step(), []);
    assert_eq!(guest.word(word), 0xf000_0000);
    assert_eq!((guest.rings(1, 0), guest.rings(1, 1)), (0, 1));
}

#[test]
fn orders_that_are_none_are_ignored() {
    let mut rig = Rig::new();
    let orders = UnixDatagram::unbound().unwrap();
    let control = Server::control_path(rig.dir.path());
    for order in [
        "",
        "unplug",
        "unplug 3",
        "unplug -1",
        "pull 1",
        "unplug 1 now",
        "ring 1",
        "ring 3 0",
        "ring 1 2",
        "store 4096 -1",
        "store 0 1",
        "store 4097 1",
        "store 1048574 1",
    ] {
        orders.send_to(order.as_bytes(), &control).unwrap();
        assert_eq!(rig.step(), [], "{order:?}");
    }
}
