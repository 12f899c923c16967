// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The bootstrap mailbox: how two hosts find each other before either can reach the other's
//! memory (design 4.1).
//!
//! Each side owns four words that the other can read:
//!
//! | word | bits 31..24 | 23..20 | 19..16 | 15..0 |
//! |---|---|---|---|---|
//! | 0 | magic | version | zero | generation of the writer |
//! | 1 | inbound memory in pages of 4 KiB, 32 bits | | | |
//! | 2 | bus address, bits 31..16 | | | generation of the reader, as last seen |
//! | 3 | bus address, bits 63..32 | | | |
//!
//! All ones and zero in word 0 mean that nobody is there. A generation is a random number that is
//! never zero; it changes with every attempt of its owner. The *echo* in word 2 proves that the
//! writer is alive: a mailbox that a dead host left behind cannot echo a generation that was
//! chosen after its death, and nobody writes into the memory of a host that has not answered.
//!
//! Over scratchpads the words are the mailbox. Over message registers they travel as messages of
//! 16 bits each ([`MessageTx`], [`MessageRx`]).

use crate::layout::{MIN_LEN, PAGE};
use crate::wire::mix;

/// Number of words.
pub const WORDS: usize = 4;
/// Version of the bootstrap: of the mailbox, and of the place and meaning of what a
/// [`Hello`](crate::link::Hello) says. Everything behind it has the versions of
/// [`version::WIRE`](crate::version::WIRE), on which two hosts agree in their Hellos.
pub const VERSION: u8 = 1;
/// Alignment of the inbound memory in bytes.
pub const ALIGN: u64 = 64 << 10;

const MAGIC: u32 = 0xb7;
const HALVES: usize = WORDS * 2;

/// What a host tells in its mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mail {
    /// The writer's generation, not zero.
    pub generation: u16,
    /// The reader's generation as the writer saw it last, zero when it saw none.
    pub echo: u16,
    /// Bytes of the writer's inbound memory, whole pages.
    pub len: u64,
    /// Bus address of that memory, aligned to [`ALIGN`]; needed where the sender programs the
    /// translation.
    pub addr: u64,
}

/// The mail cannot be expressed in the mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailError {
    /// Generation zero.
    Generation,
    /// Less than 64 KiB, not whole pages, or more than 2^32 pages.
    Length,
    /// Not aligned to [`ALIGN`].
    Address,
}

/// What a mailbox held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailRead {
    /// Zero or all ones: nobody there.
    Nobody,
    /// Being written, or not ours; look again.
    Unclear,
    /// A host with another version of the bootstrap.
    Version(u8),
    /// A host.
    Mail(Mail),
}

impl Mail {
    /// The four words.
    ///
    /// # Errors
    /// See [`MailError`].
    pub fn encode(&self) -> Result<[u32; WORDS], MailError> {
        if self.generation == 0 {
            return Err(MailError::Generation);
        }
        let pages = u32::try_from(self.len / PAGE).map_err(|_| MailError::Length)?;
        if self.len < MIN_LEN || self.len % PAGE != 0 {
            return Err(MailError::Length);
        }
        if self.addr % ALIGN != 0 {
            return Err(MailError::Address);
        }
        let low = low_half(self.addr) | u32::from(self.echo);
        let head = (MAGIC << 24) | (u32::from(VERSION) << 20) | u32::from(self.generation);
        Ok([head, pages, low, low_half(self.addr >> 32)])
    }

    /// What the four words say.
    pub fn decode(w: &[u32; WORDS]) -> MailRead {
        let [head, pages, low, high] = *w;
        if head == 0 || head == u32::MAX {
            return MailRead::Nobody;
        }
        if head >> 24 != MAGIC {
            return MailRead::Unclear;
        }
        let version = (head >> 20 & 0xf) as u8;
        if version != VERSION {
            return MailRead::Version(version);
        }
        let mail = Mail {
            generation: (head & 0xffff) as u16,
            echo: (low & 0xffff) as u16,
            len: u64::from(pages) * PAGE,
            addr: u64::from(high) << 32 | u64::from(low & 0xffff_0000),
        };
        if mail.generation == 0 || mail.len < MIN_LEN || head & 0xf_0000 != 0 {
            return MailRead::Unclear;
        }
        MailRead::Mail(mail)
    }
}

fn low_half(x: u64) -> u32 {
    (x & 0xffff_ffff) as u32
}

/// The stores that put `words` into a mailbox, in order: word and value. Word 0 is taken away
/// first and comes last, so that [`read`] never accepts a mixture.
pub fn stores(words: &[u32; WORDS]) -> [(usize, u32); WORDS + 1] {
    let [w0, w1, w2, w3] = *words;
    [(0, 0), (1, w1), (2, w2), (3, w3), (0, w0)]
}

/// Read a mailbox through `load`: words 0 to 3 and word 0 again, which must not have changed. A
/// word that cannot be read (`None`) means nobody is there.
pub fn read(mut load: impl FnMut(usize) -> Option<u32>) -> MailRead {
    let mut words = [0; WORDS];
    for (i, w) in words.iter_mut().enumerate() {
        match load(i) {
            Some(val) => *w = val,
            None => return MailRead::Nobody,
        }
    }
    match load(0) {
        Some(again) if again == words[0] => Mail::decode(&words),
        Some(_) => MailRead::Unclear,
        None => MailRead::Nobody,
    }
}

/// Sum over the words that marks the messages of one mail.
fn check(words: &[u32; WORDS]) -> u32 {
    let sum = words
        .iter()
        .fold(0, |sum, w| mix(sum ^ (u64::from(*w) | 1 << 32)));
    (sum >> 52) as u32
}

/// The number of a message within its mail, from 1 on.
pub fn number(msg: u32) -> u32 {
    msg >> 28
}

/// Sends a mail through message registers, 16 bits at a time: bits 31..28 number the halves from
/// 1 to 8, bits 27..16 mark the mail, bits 15..0 are the half word. Neither zero nor all ones is
/// a message.
#[derive(Debug)]
pub struct MessageTx {
    words: [u32; WORDS],
    next: usize,
}

impl MessageTx {
    /// Start over with `words`. To be done again and again until the peer answers: a message
    /// that arrived before the peer's driver did is lost.
    pub fn new(words: [u32; WORDS]) -> MessageTx {
        MessageTx { words, next: 0 }
    }

    /// Whether a part of `words` is still to be sent: then going on delivers them earlier than
    /// starting over, since the peer keeps what it has got.
    pub fn is_sending(&self, words: &[u32; WORDS]) -> bool {
        self.words == *words && self.next < HALVES
    }

    /// The message to send now, `None` when all were sent. It stays the same until
    /// [`Self::sent`], so that a full register is tried again.
    pub fn message(&self) -> Option<u32> {
        let word = *self.words.get(self.next / 2)?;
        let half = if self.next % 2 == 0 {
            word & 0xffff
        } else {
            word >> 16
        };
        let number = self.next as u32 + 1;
        Some(number << 28 | check(&self.words) << 16 | half)
    }

    /// The message was taken by the peer's register.
    pub fn sent(&mut self) {
        self.next = HALVES.min(self.next + 1);
    }
}

/// Puts the messages of a mail together, in any order, with repetitions, with messages of an
/// older mail in between.
#[derive(Debug, Default)]
pub struct MessageRx {
    halves: [u16; HALVES],
    have: u8,
    mark: u32,
}

impl MessageRx {
    /// Nothing received.
    pub const fn new() -> MessageRx {
        MessageRx {
            halves: [0; HALVES],
            have: 0,
            mark: 0,
        }
    }

    /// Take a message; the mail when it is the last that was missing.
    pub fn accept(&mut self, msg: u32) -> Option<MailRead> {
        let number = number(msg) as usize;
        let mark = msg >> 16 & 0xfff;
        if mark != self.mark {
            *self = MessageRx::new();
            self.mark = mark;
        }
        let at = number.checked_sub(1)?;
        *self.halves.get_mut(at)? = (msg & 0xffff) as u16;
        self.have |= 1 << at;
        if self.have != u8::MAX {
            return None;
        }
        let words = self.words();
        if check(&words) != mark {
            // Halves of an older mail that happens to have the same mark: those still to come
            // take their places.
            return None;
        }
        *self = MessageRx::new();
        Some(Mail::decode(&words))
    }

    fn words(&self) -> [u32; WORDS] {
        let mut words = [0; WORDS];
        let pairs = self.halves.chunks_exact(2);
        for (w, pair) in words.iter_mut().zip(pairs) {
            if let [low, high] = *pair {
                *w = u32::from(high) << 16 | u32::from(low);
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn mail() -> impl Strategy<Value = Mail> {
        (1u16.., any::<u16>(), 16u64..1 << 28, 0u64..1 << 48).prop_map(
            |(generation, echo, pages, addr)| Mail {
                generation,
                echo,
                len: pages * PAGE,
                addr: addr * ALIGN,
            },
        )
    }

    /// design 4.1
    #[test]
    fn all_ones_and_zero_are_nobody_there() {
        assert_eq!(Mail::decode(&[u32::MAX; WORDS]), MailRead::Nobody);
        assert_eq!(Mail::decode(&[0; WORDS]), MailRead::Nobody);
        assert_eq!(read(|_| None), MailRead::Nobody);
    }

    /// design 4.1
    #[test]
    fn a_mail_that_is_repeated_before_all_of_it_was_sent_arrives() {
        let words = [0xb710_1234, 16, 0x0001_0000, 0];
        let (mut tx, mut rx) = (MessageTx::new(words), MessageRx::new());
        for _ in 0..3 {
            if !tx.is_sending(&words) {
                tx = MessageTx::new(words);
            }
            // As many as the peer's registers take before the next repetition.
            for _ in 0..3 {
                let Some(msg) = tx.message() else { break };
                tx.sent();
                if let Some(mail) = rx.accept(msg) {
                    assert_eq!(mail, Mail::decode(&words));
                    assert!(!tx.is_sending(&words));
                    return;
                }
            }
        }
        panic!("the mail never arrived");
    }

    /// design 4.1
    #[test]
    fn mail_that_does_not_fit_is_refused_at_the_writer() {
        let good = Mail {
            generation: 1,
            echo: 0,
            len: MIN_LEN,
            addr: ALIGN,
        };
        assert!(good.encode().is_ok());
        let bad = |m: Mail| m.encode().expect_err("must be refused");
        assert_eq!(
            bad(Mail {
                generation: 0,
                ..good
            }),
            MailError::Generation
        );
        assert_eq!(bad(Mail { len: 4096, ..good }), MailError::Length);
        assert_eq!(
            bad(Mail {
                len: MIN_LEN + 1,
                ..good
            }),
            MailError::Length
        );
        assert_eq!(
            bad(Mail {
                len: 1 << 45,
                ..good
            }),
            MailError::Length
        );
        assert_eq!(bad(Mail { addr: 4096, ..good }), MailError::Address);
    }

    proptest! {
        /// design 4.1
        #[test]
        fn mail_survives_the_mailbox(m in mail()) {
            let words = m.encode().expect("valid");
            prop_assert_eq!(Mail::decode(&words), MailRead::Mail(m));
        }

        /// design 4.1
        #[test]
        fn a_reader_never_sees_a_mixture(a in mail(), b in mail(), cuts: [u8; 5]) {
            prop_assume!(a.generation != b.generation);
            let mut pads = a.encode().expect("valid");
            let update = stores(&b.encode().expect("valid"));
            let mut pending = update.iter();
            let mut cuts = cuts.iter();
            let got = read(|i| {
                for _ in 0..cuts.next().map_or(0, |c| c % 6) {
                    if let Some((at, val)) = pending.next() {
                        pads[*at] = *val;
                    }
                }
                Some(pads[i])
            });
            match got {
                MailRead::Mail(m) => prop_assert!(m == a || m == b),
                other => prop_assert!(matches!(other, MailRead::Nobody | MailRead::Unclear)),
            }
        }

        /// design 4.1
        #[test]
        fn a_host_of_another_version_is_told_apart(m in mail(), v in 0u8..16) {
            prop_assume!(v != VERSION);
            let mut words = m.encode().expect("valid");
            words[0] = words[0] & !0x00f0_0000 | u32::from(v) << 20;
            prop_assert_eq!(Mail::decode(&words), MailRead::Version(v));
        }

        /// design 4.1
        #[test]
        fn messages_in_any_order_with_repetitions_give_the_mail(
            m in mail(), older in mail(), order in prop::collection::vec(0usize..8, 0..40),
        ) {
            prop_assume!(m != older);
            let messages = |m: &Mail| {
                let mut tx = MessageTx::new(m.encode().expect("valid"));
                let mut all = Vec::new();
                while let Some(msg) = tx.message() {
                    all.push(msg);
                    tx.sent();
                }
                all
            };
            let (old, new) = (messages(&older), messages(&m));
            prop_assert_eq!(new.len(), 8);
            let mut rx = MessageRx::new();
            let mut got = Vec::new();
            got.extend(old.iter().take(5).filter_map(|w| rx.accept(*w)));
            got.extend(order.iter().filter_map(|i| rx.accept(new[*i])));
            got.extend(new.iter().rev().filter_map(|w| rx.accept(*w)));
            prop_assert!(!got.is_empty());
            for g in got {
                prop_assert_eq!(g, MailRead::Mail(m));
            }
        }

        /// design 2, never 5
        #[test]
        fn any_messages_are_survived(msgs: Vec<u32>) {
            let mut rx = MessageRx::new();
            for m in msgs {
                let _ = rx.accept(m);
            }
        }
    }
}
