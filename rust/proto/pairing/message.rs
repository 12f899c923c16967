// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the pairing engines of two hosts tell each other: 64 bytes, little-endian. Behind a
//! message that brings a session with a name or with flags to the reader's knowledge come 72 more,
//! with the name. Then comes the data of that session, or of the answer that the message is.
//!
//! Codecs only: a decoded message holds whatever the peer wrote, and the engine checks it.

use crate::name::NAME_MAX;
use crate::pairing::terms::{Connection, Limits, Location, Name, Params, Span};
use crate::wire::{get_u32, get_u64, put_u32, put_u64, Bytes};

/// Why a session was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The reader of the refused message has not the space that is needed.
    Space,
    /// No posted session fits.
    NoPairing,
    /// The writer's server has rejected the request.
    Rejected {
        /// That server.
        server: u32,
        /// Why it has.
        reason: u32,
    },
    /// The server that had the request has closed.
    Gone,
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
    /// The writer's session has accepted the reader's request; the data is its answer.
    pub answered: bool,
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
    /// From the arbiter: its session `0` asks the reader's session `2`, which answers requests
    /// itself.
    Ask(u32, Params, u32),
    /// From the arbiter: that session's request waits for the answer of a server.
    Held(u32),
    /// From the asker: its session `0` accepts the request of the reader's session `1`.
    Accept(u32, u32),
    /// From the asker: its session `0` rejects the request of session `1`, for reason `2`.
    Reject(u32, u32, u32),
    /// From the arbiter: what that session has accepted cannot be, for lack of space; the request
    /// waits on.
    Unable(u32),
}

/// What the data behind a message belongs to; both are numbers of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataOf {
    /// A session.
    Session(u32),
    /// The last answer of a server.
    Answer(u32),
}

/// A message with what every message tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Bytes of the longest free run in the writer's arena.
    pub free: u64,
    /// The message itself.
    pub what: What,
}

/// Size of a message on the wire, in bytes.
pub const SIZE: usize = 64;

/// Size of a message with a name, in bytes.
pub const SIZE_NAMED: usize = SIZE + 8 + NAME_MAX;

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
const ASK: u32 = 12;
const HELD: u32 = 13;
const ACCEPT: u32 = 14;
const REJECT: u32 = 15;
const UNABLE: u32 = 16;

/// In the first word: the session has not asked for its identifier; nothing could be reserved; the
/// partner was not posted; there is not enough space.
const FLAG: u32 = 1 << 24;

/// In the first word: a name follows.
const NAMED: u32 = 1 << 25;

/// In the first word: the server has rejected the request, or accepted it.
const ANSWERED: u32 = 1 << 26;

/// In the first word: the server has closed.
const GONE: u32 = 1 << 27;

const HOLD: u8 = 1;
const ONCE: u8 = 2;
const BARE: u8 = 4;

impl Message {
    /// What the data behind the message belongs to, perhaps zero bytes.
    pub fn data_of(&self) -> Option<DataOf> {
        match self.what {
            What::Post(session, ..) | What::Request(session, _) | What::Ask(session, ..) => {
                Some(DataOf::Session(session))
            }
            What::Paired(pairing) if pairing.answered => Some(DataOf::Answer(pairing.partner)),
            What::Paired(pairing) if pairing.unposted => Some(DataOf::Session(pairing.partner)),
            What::Accept(server, _) | What::Reject(server, ..) => Some(DataOf::Answer(server)),
            What::Refused(_, Why::Rejected { server, .. }) => Some(DataOf::Answer(server)),
            _ => None,
        }
    }

    /// The session of the writer's of which the reader may not have heard before: the data is its
    /// own.
    pub fn introduces(&self) -> Option<u32> {
        match self.what {
            What::Post(session, ..) | What::Request(session, _) | What::Ask(session, ..) => {
                Some(session)
            }
            What::Paired(pairing) if pairing.unposted => Some(pairing.partner),
            _ => None,
        }
    }

    /// The bytes on the wire.
    pub fn encode(&self) -> Bytes<SIZE_NAMED> {
        let mut b = [0; SIZE];
        let params = match &self.what {
            What::Post(_, params, _) | What::Request(_, params) | What::Ask(_, params, _) => {
                Some(params)
            }
            _ => None,
        };
        let named = params.filter(|params| params.is_extended());
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
                let answered = if pairing.answered { ANSWERED } else { 0 };
                let kind = PAIRED | flag(pairing.unposted) | answered;
                (kind, pairing.session)
            }
            What::Release(session) => (RELEASE, session),
            What::Refused(session, why) => {
                let why = match why {
                    Why::Space => FLAG,
                    Why::NoPairing => 0,
                    Why::Gone => GONE,
                    Why::Rejected { server, reason } => {
                        put_u32(&mut b, 8, server);
                        put_u32(&mut b, 12, reason);
                        ANSWERED
                    }
                };
                (REFUSED | why, session)
            }
            What::Close(session) => (CLOSE, session),
            What::Closed(session) => (CLOSED, session),
            What::Freed => (FREED, 0),
            What::Ask(session, params, server) => {
                put_params(&mut b, &params, server);
                (ASK | kind_bits(&params), session)
            }
            What::Held(session) => (HELD, session),
            What::Accept(session, client) => {
                put_u32(&mut b, 8, client);
                (ACCEPT, session)
            }
            What::Reject(session, client, reason) => {
                put_u32(&mut b, 8, client);
                put_u32(&mut b, 12, reason);
                (REJECT, session)
            }
            What::Unable(session) => (UNABLE, session),
        };
        put_u32(&mut b, 0, if named.is_some() { kind | NAMED } else { kind });
        put_u32(&mut b, 4, session);
        put_u64(&mut b, 56, self.free);
        match named {
            Some(params) => Bytes::new(&b, &more(params)),
            None => Bytes::new(&b, &[]),
        }
    }

    /// The message in `b`; `None` if it is none. Only the form is checked.
    pub fn decode(b: &[u8]) -> Option<Message> {
        let (message, rest) = Message::split(b)?;
        rest.is_empty().then_some(message)
    }

    /// The message at the start of `b`, and what follows; `None` if there is none. Only the form
    /// is checked.
    pub fn split(b: &[u8]) -> Option<(Message, &[u8])> {
        let (b, rest) = b.split_first_chunk::<SIZE>()?;
        let word = get_u32(b, 0);
        let session = get_u32(b, 4);
        let uid = get_u32(b, 12);
        let flag = word & FLAG != 0;
        let (named, rest) = match word & NAMED {
            0 => (None, rest),
            _ => {
                let (more, rest) = rest.split_first_chunk::<MORE>()?;
                (Some(more), rest)
            }
        };
        let params = |uid| get_params(b, word, uid, named);
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
                answered: word & ANSWERED != 0,
                theirs: get_span(b, 16),
                yours: get_span(b, 32),
            }),
            RELEASE => What::Release(session),
            REFUSED if word & ANSWERED != 0 => {
                let (server, reason) = (get_u32(b, 8), uid);
                What::Refused(session, Why::Rejected { server, reason })
            }
            REFUSED if word & GONE != 0 => What::Refused(session, Why::Gone),
            REFUSED if flag => What::Refused(session, Why::Space),
            REFUSED => What::Refused(session, Why::NoPairing),
            CLOSE => What::Close(session),
            CLOSED => What::Closed(session),
            FREED => What::Freed,
            ASK => What::Ask(session, params(0)?, uid),
            HELD => What::Held(session),
            ACCEPT => What::Accept(session, get_u32(b, 8)),
            REJECT => What::Reject(session, get_u32(b, 8), uid),
            UNABLE => What::Unable(session),
            _ => return None,
        };
        let free = get_u64(b, 56);
        Some((Message { free, what }, rest))
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

/// Bytes of a name with what goes with it.
const MORE: usize = SIZE_NAMED - SIZE;

/// The name and the flags of a session.
fn more(params: &Params) -> [u8; MORE] {
    let mut more = [0; MORE];
    let name = params.name.whole();
    let bit = |set: bool, bit: u8| if set { bit } else { 0 };
    let flags = bit(params.hold, HOLD) | bit(params.once, ONCE) | bit(params.bare, BARE);
    let head = [
        name.len() as u8,
        params.name.own() as u8,
        flags,
        0,
        0,
        0,
        0,
        0,
    ];
    for (to, from) in more.iter_mut().zip(head.iter().chain(name)) {
        *to = *from;
    }
    more
}

fn get_params(b: &[u8; SIZE], word: u32, uid: u32, more: Option<&[u8; MORE]>) -> Option<Params> {
    let none = [0; MORE];
    let [len, own, flags, _, _, _, _, _, name @ ..] = more.unwrap_or(&none);
    let name = name.get(..usize::from(*len))?;
    Some(Params {
        name: Name::new(name, usize::from(*own))?,
        hold: flags & HOLD != 0,
        once: flags & ONCE != 0,
        bare: flags & BARE != 0,
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
            prop::collection::vec(any::<u8>(), 0..=NAME_MAX),
            any::<(usize, bool, bool, bool)>(),
        )
            .prop_map(
                |(
                    (connection, location, local, remote),
                    (protocol, uid, address, bits),
                    name,
                    (own, hold, once, bare),
                )| Params {
                    name: Name::new(&name, own % (name.len() + 1)).expect("short"),
                    hold,
                    once,
                    bare,
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
            (id(), id(), id(), any::<(bool, bool)>(), span(), span()).prop_map(
                |(session, partner, uid, (unposted, answered), theirs, yours)| What::Paired(
                    Pairing {
                        answered,
                        session,
                        partner,
                        uid,
                        unposted,
                        theirs,
                        yours,
                    }
                )
            ),
            id().prop_map(What::Release),
            (
                id(),
                prop_oneof![
                    Just(Why::Space),
                    Just(Why::NoPairing),
                    Just(Why::Gone),
                    any::<(u32, u32)>()
                        .prop_map(|(server, reason)| Why::Rejected { server, reason })
                ]
            )
                .prop_map(|(session, why)| What::Refused(session, why)),
            (id(), params(), id()).prop_map(|(session, params, server)| {
                What::Ask(session, Params { uid: 0, ..params }, server)
            }),
            id().prop_map(What::Held),
            (id(), id()).prop_map(|(server, client)| What::Accept(server, client)),
            (id(), id(), id())
                .prop_map(|(server, client, reason)| What::Reject(server, client, reason)),
            id().prop_map(What::Unable),
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
            kind in 0u8..20,
            mut bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..80),
                prop::collection::vec(any::<u8>(), SIZE_NAMED)
            ],
        ) {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Some(message) = Message::decode(&bytes) {
                prop_assert!([SIZE, SIZE_NAMED].contains(&bytes.len()));
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
            answered: false,
            theirs: None,
            yours: None,
        };
        let data_of = message(What::Paired(pairing)).data_of();
        assert_eq!(data_of, Some(DataOf::Session(2)));
        let pairing = Pairing {
            unposted: false,
            ..pairing
        };
        assert_eq!(message(What::Paired(pairing)).data_of(), None);
        assert_eq!(message(What::Close(1)).data_of(), None);
    }
}
