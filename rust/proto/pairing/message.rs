// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the pairing engines of two hosts tell each other: 64 bytes, little-endian. Behind a
//! message that brings a session to the reader's knowledge comes that session's window data.
//!
//! Codecs only: a decoded message holds whatever the peer wrote, and the engine checks it.

use crate::pairing::terms::{Connection, Limits, Location, Params, Span};
use crate::wire::{get_u32, get_u64, put_u32, put_u64};

/// Why a session was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The reader of the refused message has not the space that is needed.
    Space,
    /// No posted session fits.
    NoPairing,
}

/// Two sessions become a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pairing {
    /// The session of the reader, the asker.
    pub session: u32,
    /// The session of the writer, the arbiter.
    pub partner: u32,
    /// The identifier of the writer's session.
    pub uid: u32,
    /// The writer's session was not posted; its window data is in the frame.
    pub unposted: bool,
    /// The window that the writer backs.
    pub theirs: Option<Span>,
    /// The window that the reader backs, as it was reserved.
    pub yours: Option<Span>,
}

/// A message between pairing engines. "Asker" and "arbiter" are the two roles of
/// [`Mode`](crate::pairing::Mode); sessions are numbers of the host that owns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The writer's session `0` waits for a partner, under identifier `2`.
    Post(u32, Params, u32),
    /// The reader's post is known.
    Posted(u32),
    /// From the asker: a client or peer session looks for a partner.
    Request(u32, Params),
    /// From the arbiter: reserve the local window of that session.
    Reserve(u32, Limits),
    /// From the asker: reserved under that identifier; `None` if that cannot be.
    Reserved(u32, Option<(u32, Option<Span>)>),
    /// From the arbiter: the reserved session has a partner.
    Paired(Pairing),
    /// From the arbiter: the reserved session has not, and stays posted.
    Release(u32),
    /// The session that was posted, or that looks for a partner, is not known any more.
    Refused(u32, Why),
    /// The writer's session is closed.
    Close(u32),
    /// The reader's session, closed and without a partner, is not known any more.
    Closed(u32),
    /// From the asker: space has become free.
    Freed,
}

/// A message with what every message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Bytes of the longest free run in the writer's arena.
    pub free: u64,
    /// The message itself.
    pub what: What,
}

/// Size of a message on the wire, in bytes; window data follows it.
pub const SIZE: usize = 64;

const POST: u32 = 1;
const POSTED: u32 = 2;
const REQUEST: u32 = 3;
const RESERVE: u32 = 4;
const RESERVED: u32 = 5;
const PAIRED: u32 = 6;
const RELEASE: u32 = 7;
const REFUSED: u32 = 8;
const CLOSE: u32 = 9;
const CLOSED: u32 = 10;
const FREED: u32 = 11;

/// In the first word: the session has not asked for its identifier; nothing could be reserved; the
/// partner was not posted; there is not enough space.
const FLAG: u32 = 1 << 24;

impl Message {
    /// The session of the writer whose window data belongs behind the message, perhaps zero bytes.
    pub fn data_of(&self) -> Option<u32> {
        match self.what {
            What::Post(session, ..) | What::Request(session, _) => Some(session),
            What::Paired(pairing) => pairing.unposted.then_some(pairing.partner),
            _ => None,
        }
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        let (kind, session) = match self.what {
            What::Post(session, params, uid) => {
                let flag = flag(params.uid == 0);
                put_params(&mut b, &params, uid);
                (POST | flag | kind_bits(&params), session)
            }
            What::Posted(session) => (POSTED, session),
            What::Request(session, params) => {
                put_params(&mut b, &params, params.uid);
                (REQUEST | kind_bits(&params), session)
            }
            What::Reserve(session, limits) => {
                put_u64(&mut b, 16, limits.min);
                put_u64(&mut b, 24, limits.max);
                (RESERVE, session)
            }
            What::Reserved(session, granted) => {
                if let Some((uid, span)) = granted {
                    put_u32(&mut b, 12, uid);
                    put_span(&mut b, 16, span);
                }
                (RESERVED | flag(granted.is_none()), session)
            }
            What::Paired(pairing) => {
                put_u32(&mut b, 8, pairing.partner);
                put_u32(&mut b, 12, pairing.uid);
                put_span(&mut b, 16, pairing.theirs);
                put_span(&mut b, 32, pairing.yours);
                (PAIRED | flag(pairing.unposted), pairing.session)
            }
            What::Release(session) => (RELEASE, session),
            What::Refused(session, why) => (REFUSED | flag(why == Why::Space), session),
            What::Close(session) => (CLOSE, session),
            What::Closed(session) => (CLOSED, session),
            What::Freed => (FREED, 0),
        };
        put_u32(&mut b, 0, kind);
        put_u32(&mut b, 4, session);
        put_u64(&mut b, 56, self.free);
        b
    }

    /// The message in `b`; `None` if it is none. Only the form is checked.
    pub fn decode(b: &[u8]) -> Option<Message> {
        let b: &[u8; SIZE] = b.try_into().ok()?;
        let word = get_u32(b, 0);
        let session = get_u32(b, 4);
        let uid = get_u32(b, 12);
        let flag = word & FLAG != 0;
        let params = |uid| get_params(b, word, uid);
        let what = match word & 0xff {
            POST => What::Post(session, params(if flag { 0 } else { uid })?, uid),
            POSTED => What::Posted(session),
            REQUEST => What::Request(session, params(uid)?),
            RESERVE => What::Reserve(session, get_limits(b, 16)),
            RESERVED if flag => What::Reserved(session, None),
            RESERVED => What::Reserved(session, Some((uid, get_span(b, 16)))),
            PAIRED => What::Paired(Pairing {
                session,
                partner: get_u32(b, 8),
                uid,
                unposted: flag,
                theirs: get_span(b, 16),
                yours: get_span(b, 32),
            }),
            RELEASE => What::Release(session),
            REFUSED if flag => What::Refused(session, Why::Space),
            REFUSED => What::Refused(session, Why::NoPairing),
            CLOSE => What::Close(session),
            CLOSED => What::Closed(session),
            FREED => What::Freed,
            _ => return None,
        };
        let free = get_u64(b, 56);
        Some(Message { free, what })
    }
}

fn flag(set: bool) -> u32 {
    match set {
        true => FLAG,
        false => 0,
    }
}

/// Connection, location and address bits, as they stand in the first word.
fn kind_bits(params: &Params) -> u32 {
    let connection = match params.connection {
        Connection::Server => 1,
        Connection::Client => 2,
        Connection::Peer => 3,
    };
    let location = match params.location {
        Location::Logical => 1,
        Location::Physical => 2,
    };
    connection << 8 | location << 12 | u32::from(params.address_bits) << 16
}

fn put_params(b: &mut [u8; SIZE], params: &Params, uid: u32) {
    put_u32(b, 8, params.protocol);
    put_u32(b, 12, uid);
    put_u64(b, 16, params.local.min);
    put_u64(b, 24, params.local.max);
    put_u64(b, 32, params.remote.min);
    put_u64(b, 40, params.remote.max);
    put_u64(b, 48, params.address);
}

fn get_params(b: &[u8; SIZE], word: u32, uid: u32) -> Option<Params> {
    Some(Params {
        connection: match word >> 8 & 0xf {
            1 => Connection::Server,
            2 => Connection::Client,
            3 => Connection::Peer,
            _ => return None,
        },
        location: match word >> 12 & 0xf {
            1 => Location::Logical,
            2 => Location::Physical,
            _ => return None,
        },
        protocol: get_u32(b, 8),
        uid,
        local: get_limits(b, 16),
        remote: get_limits(b, 32),
        address: get_u64(b, 48),
        address_bits: u8::try_from(word >> 16 & 0xff).ok()?,
    })
}

fn get_limits(b: &[u8; SIZE], off: usize) -> Limits {
    Limits {
        min: get_u64(b, off),
        max: get_u64(b, off + 8),
    }
}

fn put_span(b: &mut [u8; SIZE], off: usize, span: Option<Span>) {
    put_u64(b, off, span.map_or(0, |span| span.off));
    put_u64(b, off + 8, span.map_or(0, |span| span.len));
}

/// A window of zero bytes is none.
fn get_span(b: &[u8; SIZE], off: usize) -> Option<Span> {
    let len = get_u64(b, off + 8);
    (len != 0).then_some(Span {
        off: get_u64(b, off),
        len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    fn params() -> impl Strategy<Value = Params> {
        let connection = prop_oneof![
            Just(Connection::Server),
            Just(Connection::Client),
            Just(Connection::Peer)
        ];
        let location = prop_oneof![Just(Location::Logical), Just(Location::Physical)];
        let limits = || any::<(u64, u64)>().prop_map(|(min, max)| Limits { min, max });
        (
            (connection, location, limits(), limits()),
            any::<(u32, u32, u64, u8)>(),
        )
            .prop_map(
                |((connection, location, local, remote), (protocol, uid, address, bits))| Params {
                    connection,
                    location,
                    protocol,
                    uid,
                    local,
                    remote,
                    address,
                    address_bits: bits,
                },
            )
    }

    fn span() -> impl Strategy<Value = Option<Span>> {
        prop::option::of((any::<u64>(), 1u64..).prop_map(|(off, len)| Span { off, len }))
    }

    fn whats() -> impl Strategy<Value = What> {
        let id = any::<u32>;
        prop_oneof![
            (id(), params(), id()).prop_map(|(session, params, uid)| {
                let uid = if params.uid == 0 { uid } else { params.uid };
                What::Post(session, params, uid)
            }),
            id().prop_map(What::Posted),
            (id(), params()).prop_map(|(session, params)| What::Request(session, params)),
            (id(), any::<(u64, u64)>())
                .prop_map(|(session, (min, max))| What::Reserve(session, Limits { min, max })),
            (id(), prop::option::of((id(), span())))
                .prop_map(|(session, granted)| What::Reserved(session, granted)),
            (id(), id(), id(), any::<bool>(), span(), span()).prop_map(
                |(session, partner, uid, unposted, theirs, yours)| What::Paired(Pairing {
                    session,
                    partner,
                    uid,
                    unposted,
                    theirs,
                    yours,
                })
            ),
            id().prop_map(What::Release),
            (id(), prop_oneof![Just(Why::Space), Just(Why::NoPairing)])
                .prop_map(|(session, why)| What::Refused(session, why)),
            id().prop_map(What::Close),
            id().prop_map(What::Closed),
            Just(What::Freed),
        ]
    }

    proptest! {
        /// PXI-GEN-10, PXI-REQLS-9, PXI-REQPS-8
        #[test]
        fn every_message_survives_the_wire(what in whats(), free in any::<u64>()) {
            let message = Message { free, what };
            prop_assert_eq!(Message::decode(&message.encode()), Some(message));
        }

        #[test]
        fn bytes_that_are_no_message_are_refused_and_never_panic(
            kind in 0u8..14,
            mut bytes in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Some(message) = Message::decode(&bytes) {
                prop_assert_eq!(bytes.len(), SIZE);
                prop_assert_eq!(Message::decode(&message.encode()), Some(message));
            }
        }
    }

    /// PXI-REQLS-14
    #[test]
    fn window_data_follows_what_makes_a_session_known() {
        let message = |what| Message { free: 0, what };
        let pairing = Pairing {
            session: 1,
            partner: 2,
            uid: 3,
            unposted: true,
            theirs: None,
            yours: None,
        };
        assert_eq!(message(What::Paired(pairing)).data_of(), Some(2));
        let pairing = Pairing {
            unposted: false,
            ..pairing
        };
        assert_eq!(message(What::Paired(pairing)).data_of(), None);
        assert_eq!(message(What::Close(1)).data_of(), None);
    }
}
