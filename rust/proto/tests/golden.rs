// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The bytes in shared memory, pinned: the examples of `Documentation/wire-format.md` are what
//! this crate writes. A change here is a change of the protocol and needs a new version.

mod common;

use common::Ram;
use mp_proto::layout::{target, Layout};
use mp_proto::link::{Further, Hello, Identity, Role};
use mp_proto::mailbox::{Mail, MessageTx};
use mp_proto::memory::Inbound;
use mp_proto::name;
use mp_proto::pairing::message::{Message, Pairing, What};
use mp_proto::pairing::terms::{Connection, Limits, Location, Name, Params, Span};
use mp_proto::ring::{Armed, Consumer, Producer, Ringing, Split};
use mp_proto::sharing::{self, Grant, Object, Rights, Want};
use mp_proto::target::Target;
use mp_proto::version::WIRE;
use mp_proto::wire::{MsgHdr, PeerData, PeerId, Tag};

const DOC: &str = include_str!("../../../Documentation/wire-format.md");

/// The epochs of the examples: of the host that writes and of the one that reads.
const WRITER: u64 = 0x0123_4567_89ab_cdef;
const READER: u64 = 0xfedc_ba98_7654_3210;

/// The document has this example, spaced at will.
fn documented(what: &str) {
    let squeeze = |s: &str| s.split_whitespace().collect::<String>();
    assert!(
        squeeze(DOC).contains(&squeeze(what)),
        "Documentation/wire-format.md lacks: {what}"
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn mail() -> [u32; 4] {
    let mail = Mail {
        generation: 0x1234,
        echo: 0xabcd,
        len: 4 << 20,
        addr: 0x1_2345_0000,
    };
    mail.encode().expect("valid")
}

fn hello() -> Hello {
    Hello {
        goodbye: false,
        epoch: WRITER,
        echo: READER,
        identity: Identity {
            role: Role::Root,
            id: PeerId::RP,
            index: 0,
            your_id: PeerId::from_bdf(1, 0, 0),
            your_index: 1,
            features: 0,
        },
        layout: Layout::plan(4 << 20, 4).expect("large enough"),
        further: Further {
            commons_len: 4 << 20,
            commons_addr: 0x1_2380_0000,
            exposed: 2,
        },
        support: WIRE,
    }
}

/// design 4.1
#[test]
fn the_mailbox_is_as_documented() {
    let words = mail().map(|w| format!("{w:08x}"));
    documented(&words.join(" "));
}

/// design 4.1
#[test]
fn the_messages_are_as_documented() {
    let mut tx = MessageTx::new(mail());
    let mut all = Vec::new();
    while let Some(msg) = tx.message() {
        all.push(format!("{msg:08x}"));
        tx.sent();
    }
    documented(&all.join(" "));
}

/// design 4.2
#[test]
fn the_hello_is_as_documented() {
    documented(&hex(&hello().encode()));
}

/// design 4.2
#[test]
fn the_tags_are_as_documented() {
    let (tx, rx) = (Tag::new(WRITER, READER), Tag::new(READER, WRITER));
    documented(&format!(
        "tag({WRITER:016x}, {READER:016x}) = {:08x}",
        tx.value()
    ));
    documented(&format!(
        "tag({READER:016x}, {WRITER:016x}) = {:08x}",
        rx.value()
    ));
}

/// IDT-EP-3
#[test]
fn the_peer_data_is_as_documented() {
    let data = PeerData {
        inb_base: 0x1_2345_0000,
        reg_base: 0,
        peer_index: 1,
        reserved: 0,
    };
    documented(&hex(&data.encode()));
}

/// IDT-EP-2, IDT-MSG-1, design 4.5
#[test]
fn the_ring_is_as_documented() {
    let place = hello().layout.ring(1).expect("exists");
    let (tx, rx) = (Tag::new(WRITER, READER), Tag::new(READER, WRITER));
    let mut producer = Producer::<8>::new(place, tx, rx, Ringing::Level).expect("good place");
    let (inb, out) = (Ram::new(4096), Ram::new(4 << 20));
    for n in 0..2u8 {
        let mut split = Split::new(16, 4, producer.record_cap()).expect("fits");
        let chunk = split.next().expect("one record");
        let slot = producer.reserve(&inb, chunk.hdr.buffer_len).expect("space");
        let msg = MsgHdr {
            dst: PeerId(0x100),
            src: PeerId::RP,
            len: 4,
            func: 7,
        };
        slot.write(&out, 0, &slot.header(&chunk.hdr))
            .expect("inside");
        slot.write(&out, 16, &msg.encode()).expect("inside");
        slot.write(&out, 32, &[n; 4]).expect("inside");
        producer.commit(slot);
    }
    assert!(producer.publish(&out, &inb).expect("inside"));
    for record in 0..2 {
        let mut bytes = [0; 36];
        out.read(place.data + record * 64, &mut bytes)
            .expect("inside");
        documented(&hex(&bytes));
    }
    documented(&format!("prod = {:016x}", out.word(place.prod)));
    for ringing in [Ringing::Edge, Ringing::Level] {
        let mut consumer = Consumer::<8>::new(place, rx, tx, ringing).expect("good place");
        while let Some(record) = consumer.next(&out).expect("honest") {
            consumer.release(record.token);
        }
        let want = || format!("want_data = {:016x}", inb.word(place.want_data));
        assert_eq!(consumer.arm_data(&inb, &out), Ok(Armed::Asleep));
        documented(&want());
        consumer.mute(&inb).expect("inside");
        documented(&want());
    }
}

/// design 4.4
#[test]
fn the_plans_are_as_documented() {
    for (kib, wanted) in [
        (64, 4),
        (256, 4),
        (1024, 4),
        (4096, 4),
        (4096, 1),
        (65536, 8),
    ] {
        let l = Layout::plan(kib << 10, wanted).expect("large enough");
        documented(&format!(
            "| {kib} | {wanted} | {} | {} x {} | {} |",
            l.control_size >> 10,
            l.queues,
            l.data_size >> 10,
            l.arena_len >> 10
        ));
    }
}

/// design 4.4
#[test]
fn the_words_of_exposed_windows_are_as_documented() {
    documented("| 0x700 + 16 *e* | 8 |");
    documented("| 0x708 + 16 *e* | 8 |");
    assert_eq!((target(0), target(15)), (Some(0x700), Some(0x7f0)));
    let page = Ram::new(4096);
    let there = Target {
        addr: WRITER,
        len: 8192,
    };
    there.write(1, &page).expect("exists");
    assert_eq!((page.word(0x710), page.word(0x718)), (WRITER, 8192));
}

/// PXI-REQLS-9, PXI-REQPS-8, PXI-GEN-10
#[test]
fn the_pairing_messages_are_as_documented() {
    let client = Params {
        connection: Connection::Client,
        location: Location::Logical,
        protocol: 0xabcd_1000,
        uid: 0,
        local: Limits {
            min: 0,
            max: u64::MAX,
        },
        remote: Limits::exactly(0x1000),
        address: 0,
        address_bits: 64,
        name: Name::NONE,
        hold: false,
        once: false,
        bare: false,
    };
    let request = Message {
        free: 4 << 20,
        what: What::Request(2, client),
    };
    documented(&hex(&request.encode()));
    let named = Message {
        free: 4 << 20,
        what: What::Request(
            2,
            Params {
                name: Name::new(b"name", 0).expect("short"),
                ..client
            },
        ),
    };
    documented(&hex(&named.encode()));
    let window = |off| Some(Span { off, len: 0x1000 });
    let paired = Message {
        free: 1 << 20,
        what: What::Paired(Pairing {
            session: 2,
            partner: 1,
            uid: 3,
            unposted: false,
            answered: false,
            theirs: window(0x2000),
            yours: window(0x5000),
        }),
    };
    documented(&hex(&paired.encode()));
}

/// SI-NTB-7
#[test]
fn the_messages_of_sharing_engines_are_as_documented() {
    let segment = Want {
        object: Object::Segment,
        number: 2,
        counted: false,
        placed: false,
        session: 0,
    };
    let of_partner = Want {
        session: 7,
        ..segment
    };
    let port = Want {
        object: Object::Port,
        number: 0,
        ..segment
    };
    let none = name::Name::NONE;
    let jobs = name::Name::new(b"jobs").expect("short");
    let connect = sharing::message::What::Connect(segment, none);
    let granted = sharing::message::What::Connect(of_partner, none);
    let named = sharing::message::What::Connect(port, jobs);
    let connected = sharing::message::What::Connected(Grant {
        token: 9,
        off: 0x10000,
        len: 0x2000,
        rights: Rights::ALL,
    });
    for what in [connect, granted, named, connected] {
        let connection = 5;
        let message = sharing::message::Message { connection, what };
        documented(&hex(&message.encode()));
        assert_eq!(
            sharing::message::Message::decode(&message.encode()),
            Some(message)
        );
    }
}
