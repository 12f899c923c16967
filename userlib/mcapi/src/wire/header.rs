// SPDX-License-Identifier: MIT OR Apache-2.0

//! Headers: the words that a frame is told by, as the table of [`wire`](super) has them, and what of words
//! that have arrived is a frame.

use super::{Control, Frame, Lane, Subject, Terms, FRAME};
use crate::{
    attributes::{BufferType, MemoryType},
    channel::{Direction, Kind},
    connection::{Role, Say},
    Endpoint, Error, PORT_MAX, PRIORITIES,
};
use mp_queue_pair::Piece;

/// In the word of the priorities: memory is shared.
const SHARED: u16 = 0x8000;

/// Words of a header, at most.
pub(crate) const WORDS: usize = 8;

/// A header: kind, words, and how many of them.
pub(crate) struct Header {
    pub(crate) kind: u8,
    words: [u32; WORDS],
}

fn port(word: u32) -> Option<u16> {
    u16::try_from(word).ok().filter(|_| word <= PORT_MAX)
}

fn long(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn halves(long: u64) -> [u32; 2] {
    [long as u32, (long >> 32) as u32]
}

/// The words of a header that begins with these.
fn words<const N: usize>(first: [u32; N]) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    for (word, from) in words.iter_mut().zip(first) {
        *word = from;
    }
    words
}

impl Lane {
    fn word(self) -> u32 {
        u32::from(self.port) | u32::from(self.level) << 16
    }

    fn of(word: u32) -> Option<Self> {
        let lane = Lane {
            level: (word >> 16) as u16,
            port: port(word & 0xffff)?,
        };
        (usize::from(lane.level) < PRIORITIES).then_some(lane)
    }
}

fn kind(word: u32) -> Option<Kind> {
    match word {
        0 => Some(Kind::Packets),
        1 => Some(Kind::Scalars),
        _ => None,
    }
}

fn kind_word(kind: Kind) -> u32 {
    match kind {
        Kind::Packets => 0,
        Kind::Scalars => 1,
    }
}

fn role(word: u32) -> Option<Role> {
    let direction = match word >> 1 {
        0 => Direction::Send,
        1 => Direction::Receive,
        _ => return None,
    };
    let kind = kind(word & 1)?;
    Some(Role { kind, direction })
}

fn role_word(role: Role) -> u32 {
    let direction = match role.direction {
        Direction::Send => 0,
        Direction::Receive => 2,
    };
    kind_word(role.kind) | direction
}

/// The number of a result, as in `mcapi.h`.
fn code<T>(result: &Result<T, Error>) -> u32 {
    result.as_ref().map_or_else(|error| error.code(), |_| 1)
}

/// Whether a node may tell another one of an error: not of those that only the caller's own node
/// decides.
fn is_told(error: Error) -> bool {
    use Error::*;
    !matches!(
        error,
        Timeout
            | Parameter
            | NodeInitFailed
            | NodeInitialized
            | NodeNotInit
            | NodeFinalFailed
            | RequestInvalid
            | RequestLimit
            | RequestCancelled
            | WaitPending
    )
}

/// The result of a number; nothing if it is none, or not another node's to tell.
fn result(code: u32) -> Option<Result<(), Error>> {
    match code {
        1 => Some(Ok(())),
        other => Error::of(other).filter(|error| is_told(*error)).map(Err),
    }
}

/// The same of the answer to a get, which may have been withdrawn.
fn got(code: u32) -> Option<Result<(), Error>> {
    match Error::of(code) {
        Some(error @ Error::RequestCancelled) => Some(Err(error)),
        _ => result(code),
    }
}

impl Header {
    /// Words of a kind's header; nothing if there is no such kind.
    pub(crate) fn words_of(kind: u8) -> Option<usize> {
        match kind {
            1 | 3 | 8 | 9 | 16 => Some(3),
            2 | 5 | 6 | 11 | 13 | 15 => Some(2),
            4 | 7 => Some(1),
            10 => Some(4),
            12 => Some(6),
            14 => Some(8),
            _ => None,
        }
    }

    /// The bytes that are sent.
    pub(crate) fn bytes(&self) -> ([u8; 4 * WORDS], usize) {
        let mut bytes = [0; 4 * WORDS];
        for (to, word) in bytes.chunks_exact_mut(4).zip(self.words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        (bytes, 4 * Self::words_of(self.kind).unwrap_or(0))
    }

    /// A header of bytes that have arrived; nothing if they are too few or the kind is unknown.
    pub(crate) fn read(kind: u8, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..4 * Self::words_of(kind)?)?;
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(from.try_into().ok()?);
        }
        Some(Header { kind, words })
    }

    /// The frame with that header and those data; nothing if it cannot be.
    pub(crate) fn frame(self, data: Piece<'_>) -> Option<Frame<'_>> {
        let [a, b, total, ..] = self.words;
        match self.kind {
            3 | 4 if data.len() > FRAME => None,
            3 => Some(Frame::Message {
                lane: Lane::of(a)?,
                from: port(b)?,
                total,
                data,
            }),
            4 => Some(Frame::More {
                lane: Lane::of(a)?,
                data,
            }),
            _ if data.is_empty() => self.control().map(Frame::Control),
            _ => None,
        }
    }

    fn control(self) -> Option<Control> {
        let [a, b, c, d, e, f, g, h] = self.words;
        let endpoint = |low: u32, high: u32| Endpoint::from_raw(long(low, high));
        let (low, high) = (|word: u32| word & 0xffff, |word: u32| word >> 16);
        let (number, count) = (a, b);
        Some(match self.kind {
            1 => Control::Ready {
                version: a,
                features: long(b, c),
            },
            2 => Control::Debt {
                lane: Lane::of(a)?,
                count,
            },
            5 => Control::Credit {
                lane: Lane::of(a)?,
                count,
            },
            6 => Control::Get {
                number,
                port: port(b)?,
            },
            7 => Control::Withdrawn { number },
            8 => Control::Got {
                number,
                result: got(b)?.map(|()| c),
            },
            9 => Control::Question {
                number,
                subject: match b & 0xffff {
                    0 => Subject::Endpoint { port: port(c)? },
                    1 => Subject::Node,
                    _ => return None,
                },
                attribute: (b >> 16) as u16,
            },
            10 => Control::Told {
                number,
                result: result(b)?.map(|()| long(c, d)),
            },
            11 => Control::Released {
                port: port(a)?,
                life: b,
            },
            12 => Control::Connect {
                number,
                kind: kind(b)?,
                send: endpoint(c, d)?,
                receive: endpoint(e, f)?,
            },
            13 => Control::Connected {
                number,
                result: result(b)?,
            },
            14 => Control::Reserve {
                number,
                id: long(b, c),
                port: port(low(d))?,
                role: role(high(d))?,
                partner: endpoint(e, f)?,
                terms: Terms {
                    max_payload: g,
                    priorities: low(h) as u16 & !SHARED,
                    priority: high(h) as u8,
                    buffers: BufferType::of(high(h) >> 8)?,
                    memory: match low(h) as u16 & SHARED {
                        0 => MemoryType::Local,
                        _ => MemoryType::Shared,
                    },
                },
            },
            15 => Control::Reserved {
                number,
                result: result(b)?,
            },
            16 => Control::Channel {
                port: port(low(a))?,
                id: long(b, c),
                say: Say::of(high(a))?,
            },
            _ => return None,
        })
    }
}

impl Control {
    /// Whether only nodes with the feature [`CHANNELS`] know of it.
    pub(crate) fn is_of_channels(&self) -> bool {
        self.header().kind >= 12
    }

    /// Kind and words.
    fn header(self) -> Header {
        let (kind, words) = match self {
            Control::Ready { version, features } => {
                let [low, high] = halves(features);
                (1, words([version, low, high]))
            }
            Control::Debt { lane, count } => (2, words([lane.word(), count])),
            Control::Credit { lane, count } => (5, words([lane.word(), count])),
            Control::Get { number, port } => (6, words([number, port.into()])),
            Control::Withdrawn { number } => (7, words([number])),
            Control::Got { number, result } => {
                let life = result.unwrap_or(0);
                (8, words([number, code(&result), life]))
            }
            Control::Released { port, life } => (11, words([port.into(), life])),
            Control::Question {
                number,
                subject,
                attribute,
            } => {
                let (subject, port) = match subject {
                    Subject::Endpoint { port } => (0, port),
                    Subject::Node => (1, 0),
                };
                let what = subject | u32::from(attribute) << 16;
                (9, words([number, what, port.into()]))
            }
            Control::Told { number, result } => {
                let [low, high] = halves(result.unwrap_or(0));
                (10, words([number, code(&result), low, high]))
            }
            Control::Connect {
                number,
                kind,
                send,
                receive,
            } => {
                let [[a, b], [c, d]] = [send, receive].map(|end| halves(end.to_raw()));
                (12, words([number, kind_word(kind), a, b, c, d]))
            }
            Control::Connected { number, result } => (13, words([number, code(&result)])),
            Control::Reserve {
                number,
                id,
                port,
                role,
                partner,
                terms,
            } => {
                let [[a, b], [c, d]] = [id, partner.to_raw()].map(halves);
                let end = u32::from(port) | role_word(role) << 16;
                let buffers = (terms.buffers as u32) << 24;
                let shared = match terms.memory {
                    MemoryType::Local => 0,
                    MemoryType::Shared => SHARED,
                };
                let priorities = u32::from(terms.priorities | shared);
                let levels = priorities | u32::from(terms.priority) << 16;
                let all = [number, a, b, end, c, d, terms.max_payload, levels | buffers];
                (14, words(all))
            }
            Control::Reserved { number, result } => (15, words([number, code(&result)])),
            Control::Channel { port, id, say } => {
                let [low, high] = halves(id);
                (16, words([u32::from(port) | (say as u32) << 16, low, high]))
            }
        };
        Header { kind, words }
    }
}

impl<'a> Frame<'a> {
    /// Header and data.
    pub(crate) fn parts(&self) -> (Header, Piece<'a>) {
        match *self {
            Frame::Control(control) => (control.header(), Piece::Bytes(&[])),
            Frame::Message {
                lane,
                from,
                total,
                data,
            } => {
                let words = words([lane.word(), from.into(), total]);
                (Header { kind: 3, words }, data)
            }
            Frame::More { lane, data } => {
                let words = words([lane.word()]);
                (Header { kind: 4, words }, data)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{way::Loop, Wire},
        *,
    };
    use proptest::prelude::*;

    fn lanes() -> impl Strategy<Value = Lane> {
        (0..PRIORITIES as u16, 0..=0xfffe_u16).prop_map(|(level, port)| Lane { level, port })
    }

    fn results() -> impl Strategy<Value = Result<u64, Error>> {
        prop_oneof![any::<u64>().prop_map(Ok), errors().prop_map(Err),]
    }

    fn errors() -> impl Strategy<Value = Error> {
        let told: Vec<_> = Error::ALL.iter().copied().filter(|e| is_told(*e)).collect();
        prop::sample::select(told)
    }

    const DATA: [u8; 5] = *b"hello";

    fn controls() -> impl Strategy<Value = Control> {
        let numbers = || any::<u32>();
        let ports = || 0..=0xfffe_u16;
        prop_oneof![
            any::<(u32, u64)>()
                .prop_map(|(version, features)| Control::Ready { version, features }),
            (lanes(), numbers()).prop_map(|(lane, count)| Control::Debt { lane, count }),
            (lanes(), numbers()).prop_map(|(lane, count)| Control::Credit { lane, count }),
            (numbers(), ports()).prop_map(|(number, port)| Control::Get { number, port }),
            numbers().prop_map(|number| Control::Withdrawn { number }),
            (numbers(), results()).prop_map(|(number, result)| Control::Got {
                number,
                result: result.map(|value| value as u32),
            }),
            numbers().prop_map(|number| Control::Got {
                number,
                result: Err(Error::RequestCancelled),
            }),
            (ports(), numbers()).prop_map(|(port, life)| Control::Released { port, life }),
            channels(),
            (numbers(), any::<u16>(), prop::option::of(ports())).prop_map(
                |(number, attribute, port)| Control::Question {
                    number,
                    attribute,
                    subject: port.map_or(Subject::Node, |port| Subject::Endpoint { port }),
                }
            ),
            (numbers(), results()).prop_map(|(number, result)| Control::Told { number, result }),
        ]
    }

    fn channels() -> impl Strategy<Value = Control> {
        let numbers = || any::<u32>();
        let ports = || 0..=0xfffe_u16;
        let roles = || (0..4_u32).prop_map(|word| role(word).unwrap());
        let endpoints = || {
            let parts = (0..=0xffff_u64, 0..=0x7fff_u64, 0..=0xfffe_u64);
            parts.prop_map(|(a, b, c)| Endpoint::from_raw(a << 32 | b << 16 | c).unwrap())
        };
        let done = || results().prop_map(|result| result.map(|_| ()));
        let terms = (any::<(u32, u16, u8)>(), 0..2_u32, any::<bool>());
        let terms =
            terms.prop_map(
                |((max_payload, priorities, priority), buffers, shared)| Terms {
                    max_payload,
                    priorities: priorities & !SHARED,
                    priority,
                    buffers: BufferType::of(buffers).unwrap(),
                    memory: match shared {
                        false => MemoryType::Local,
                        true => MemoryType::Shared,
                    },
                },
            );
        prop_oneof![
            (numbers(), 0..2_u32, endpoints(), endpoints()).prop_map(
                |(number, word, send, receive)| {
                    let kind = kind(word).unwrap();
                    Control::Connect {
                        number,
                        kind,
                        send,
                        receive,
                    }
                }
            ),
            (numbers(), done()).prop_map(|(number, result)| Control::Connected { number, result }),
            (numbers(), done()).prop_map(|(number, result)| Control::Reserved { number, result }),
            (
                numbers(),
                any::<u64>(),
                ports(),
                roles(),
                endpoints(),
                terms
            )
                .prop_map(|(number, id, port, role, partner, terms)| {
                    Control::Reserve {
                        number,
                        id,
                        port,
                        role,
                        partner,
                        terms,
                    }
                }),
            (ports(), any::<u64>(), 0..5_u32).prop_map(|(port, id, say)| {
                let say = Say::of(say).unwrap();
                Control::Channel { port, id, say }
            }),
        ]
    }

    fn all_frames() -> impl Strategy<Value = Frame<'static>> {
        let data = Piece::Bytes(&DATA);
        let message = move |(lane, from, total)| Frame::Message {
            lane,
            from,
            total,
            data,
        };
        prop_oneof![
            6 => controls().prop_map(Frame::Control),
            1 => (lanes(), 0..=0xfffe_u16, any::<u32>()).prop_map(message),
            1 => lanes().prop_map(move |lane| Frame::More { lane, data }),
        ]
    }

    proptest! {
        /// Every frame survives the wire.
        #[test]
        fn frames_are_bytes_and_back(frame in all_frames()) {
            let mut way = Loop::default();
            prop_assert_eq!(way.send(&frame), Ok(true));
            let arrived = way.receive();
            prop_assert!(matches!(arrived, Ok(Some(_))));
            if let Ok(Some(arrived)) = arrived {
                prop_assert_eq!(format!("{frame:?}"), format!("{arrived:?}"));
            }
        }

        /// No bytes make it panic, and what it takes is what would be sent.
        #[test]
        fn any_bytes_are_taken_apart(kind: u8, bytes: Vec<u8>) {
            if let Some(header) = Header::read(kind, &bytes) {
                let (_, len) = header.bytes();
                let data = Piece::Bytes(&bytes[len..]);
                if let Some(frame) = header.frame(data) {
                    let (again, _) = frame.parts();
                    prop_assert_eq!(again.kind, kind);
                }
            }
        }
    }

    /// The bytes of two frames, as another implementation would have to send them.
    #[test]
    fn frames_have_the_layout_of_the_table() {
        let lane = Lane {
            level: 2,
            port: 0x0304,
        };
        let data = Piece::Bytes(b"x");
        let message = Frame::Message {
            lane,
            from: 5,
            total: 6,
            data,
        };
        let (header, _) = message.parts();
        assert_eq!(header.kind, 3);
        let (bytes, len) = header.bytes();
        assert_eq!(bytes[..len], [4, 3, 2, 0, 5, 0, 0, 0, 6, 0, 0, 0]);
        let told = Control::Told {
            number: 1,
            result: Ok(1 << 40),
        };
        let (bytes, len) = told.header().bytes();
        assert_eq!(
            bytes[..len],
            [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
        );
        let reserve = Control::Reserve {
            number: 1,
            id: 2,
            port: 3,
            role: role(3).unwrap(),
            partner: Endpoint::from_raw(4).unwrap(),
            terms: Terms {
                max_payload: 5,
                priorities: 6,
                priority: 7,
                buffers: BufferType::State,
                memory: MemoryType::Shared,
            },
        };
        let (bytes, len) = reserve.header().bytes();
        assert_eq!(bytes[len - 8..len], [5, 0, 0, 0, 6, 0x80, 7, 1]);
    }

    /// No node makes a call of another one return what that one's own node decides.
    #[test]
    fn statuses_of_the_own_node_are_nobody_elses_to_tell() {
        use Error::*;
        let own = [
            Timeout,
            Parameter,
            NodeInitFailed,
            NodeInitialized,
            NodeNotInit,
            NodeFinalFailed,
            RequestInvalid,
            RequestLimit,
            RequestCancelled,
            WaitPending,
        ];
        for kind in [8, 10, 13, 15] {
            for error in Error::ALL {
                let words = words([1, error.code()]);
                let frame = Header { kind, words }.frame(Piece::Bytes(&[]));
                let is_withdrawn = kind == 8 && *error == RequestCancelled;
                let expected = !own.contains(error) || is_withdrawn;
                assert_eq!(frame.is_some(), expected, "{kind} {error:?}");
            }
        }
    }
}
