// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Direct memory buffers of one host that another host sends into (a DIBS device).
//!
//! The owner of a buffer keeps it private. It lends one host a *landing place* for it in the arena that
//! this host reaches, and copies from there what a record says is new:
//!
//! | object | is in the memory of | is written by |
//! |---|---|---|
//! | buffer | its owner | its owner |
//! | landing place | the owner of the buffer, in the arena of the link | the sender |
//! | table of [`Entry`]s | the sender, in the arena of the link | the owner of the buffers |
//! | [`Message`]s | frames of the function | both |
//!
//! A sender takes the place and the length of a buffer from its own table, by the [`Token`] that its
//! client names. A token that stands in no table is refused: a client may have it from anybody.
//!
//! * [`Token`], [`Entry`], [`Grant`]: what a sender may write.
//! * [`Message`]: the frames.
//! * [`record`]: what is to be told, and waits.
//! * [`slots`]: the buffers of a link, as their owner has them.
//! * [`cdc`]: the records of SMC-D, which are checked before the client sees them.

use crate::reach::{Place, ARENA};
use crate::wire::PeerId;

pub mod cdc;
pub mod message;
pub mod record;
pub mod slots;

pub use message::{Hello, Malformed, Message, Moved};
pub use record::{Outbox, Pending, Range};
pub use slots::{Slot, Slots};

/// Function id in the message header: "DIBS".
pub const FUNC_ID: u32 = 0x4449_4253;

/// Id of the fabric that all devices of this kind report. Ids from 0xff00 on are those of devices that
/// no hardware offers; their clients compare all 128 bits of a [`Gid`].
pub const FABRIC_ID: u16 = 0xff4d;

/// Most entries of a table.
pub const MAX_SLOTS: usize = 1024;

/// First bytes of a buffer: the record by which its client's partner reports. They never lie in a
/// landing place.
pub const HEAD: u32 = 32;

/// Longest buffer.
pub const MAX_BUFFER: u32 = 4 << 20;

/// Shortest buffer.
pub const MIN_BUFFER: u32 = 4096;

/// Name of a device: random, but for the id of its host in the last two bytes, and none of its halves
/// zero. A host is believed a name with its own id only: names are no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// A name made of random numbers, for the device of a host. `None` if that is not a host.
    pub fn new(host: PeerId, numbers: [u64; 2]) -> Option<Gid> {
        let id = u16::try_from(host.0).ok()?;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&numbers[0].max(1).to_le_bytes());
        bytes[8..].copy_from_slice(&numbers[1].to_le_bytes());
        bytes[8] = bytes[8].max(1);
        bytes[14..].copy_from_slice(&id.to_le_bytes());
        Some(Gid(bytes))
    }

    /// Whether it can be a name: clients take a half of zeros for none.
    pub fn is_valid(&self) -> bool {
        self.0[..8] != [0; 8] && self.0[8..] != [0; 8]
    }

    /// Whose device it names.
    pub fn host(&self) -> PeerId {
        PeerId(u32::from(u16::from_le_bytes([self.0[14], self.0[15]])))
    }
}

/// Bits of a token for the entry of the table.
const SLOT_BITS: u32 = 12;
/// Random bits of a token.
const RANDOM_BITS: u32 = 36;

/// What allows its holder to send into a buffer: the owner's id, the entry in the sender's table and
/// random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    /// The token of a buffer of `owner`, never zero.
    ///
    /// `None` if the owner is not a host, or there is no such slot.
    pub fn new(owner: PeerId, slot: u16, random: u64) -> Option<Token> {
        if !owner.is_host() || usize::from(slot) >= MAX_SLOTS {
            return None;
        }
        let random = random % ((1 << RANDOM_BITS) - 1) + 1;
        let owner = u64::from(owner.0) << (SLOT_BITS + RANDOM_BITS);
        Some(Token(owner | u64::from(slot) << RANDOM_BITS | random))
    }

    /// What a client or a peer says that it is one.
    pub const fn from_raw(raw: u64) -> Token {
        Token(raw)
    }

    /// The number that clients know.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The host whose buffer it names.
    pub const fn owner(self) -> PeerId {
        PeerId((self.0 >> (SLOT_BITS + RANDOM_BITS)) as u32)
    }

    /// The entry in the sender's table. It may lie outside.
    pub const fn slot(self) -> u16 {
        (self.0 >> RANDOM_BITS) as u16 & ((1 << SLOT_BITS) - 1)
    }
}

/// Why something that a client or a peer asks for is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The token does not stand in the table: its owner has not told it, or has taken it back.
    Token,
    /// The entry names no place that this host reaches.
    Place,
    /// Outside of the buffer, or in its head.
    Bounds,
}

/// An entry of a table, three words: place, length, token. The token is stored last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Where the landing place begins; see [`reach`](crate::reach).
    pub place: u64,
    /// Bytes of the buffer, as many as of the landing place.
    pub len: u32,
    /// The buffer's token.
    pub token: Token,
}

impl Entry {
    /// Bytes from one entry to the next.
    pub const SIZE: u64 = 32;
    /// Where the token is.
    pub const TOKEN_AT: u64 = 16;

    /// Offset of an entry in its table.
    pub const fn at(slot: u16) -> u64 {
        slot as u64 * Self::SIZE
    }

    /// The words that are stored before the token.
    pub fn words(&self) -> [u64; 2] {
        [self.place, u64::from(self.len)]
    }
}

/// What a sender may write: the landing place of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    place: u64,
    len: u32,
}

/// What a client asks to be moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Data, to this offset of the peer's arena.
    Data(u64),
    /// The record at the start of the buffer, at which the peer's client is to look.
    Record,
}

impl Grant {
    /// What `token` allows. `load` gives the word at an offset of the table, which the owner of the
    /// buffer may change at any time; it has `slots` entries. `reached` bytes of the owner's arena are
    /// reached.
    ///
    /// # Errors
    ///
    /// [`Refused::Token`], [`Refused::Place`].
    pub fn find(
        token: Token,
        slots: usize,
        reached: u64,
        load: impl Fn(u64) -> Option<u64>,
    ) -> Result<Grant, Refused> {
        // An entry that was never stored is zero.
        if usize::from(token.slot()) >= slots || token.raw() == 0 {
            return Err(Refused::Token);
        }
        let at = Entry::at(token.slot());
        let word = |n: u64| load(at + n).ok_or(Refused::Token);
        let is_told = || Ok(word(Entry::TOKEN_AT)? == token.raw());
        if !is_told()? {
            return Err(Refused::Token);
        }
        let (place, len) = (word(0)?, word(8)?);
        // The entry may have become another one's meanwhile.
        if !is_told()? {
            return Err(Refused::Token);
        }
        Self::at(place, len, reached)
    }

    fn at(place: u64, len: u64, reached: u64) -> Result<Grant, Refused> {
        let Place { window, off } = Place::decode(place);
        let end = off.checked_add(len).ok_or(Refused::Place)?;
        let valid = (u64::from(MIN_BUFFER)..=u64::from(MAX_BUFFER)).contains(&len);
        if window != ARENA || end > reached || !valid || off % 8 != 0 {
            return Err(Refused::Place);
        }
        let len = len as u32;
        Ok(Grant { place: off, len })
    }

    /// What moving `size` bytes to `offset` of the buffer is, `signal` if the peer's client is to look.
    ///
    /// # Errors
    ///
    /// [`Refused::Bounds`].
    pub fn classify(&self, signal: bool, offset: u32, size: u32) -> Result<Move, Refused> {
        if signal {
            return match (offset, size) {
                (0, HEAD) => Ok(Move::Record),
                _ => Err(Refused::Bounds),
            };
        }
        let range = Range::new(offset, size).ok_or(Refused::Bounds)?;
        if !range.is_inside(self.len) {
            return Err(Refused::Bounds);
        }
        Ok(Move::Data(self.place + u64::from(offset)))
    }
}

/// Entries of the table for an arena of so many bytes: one for each 16 KiB, and those of a page at least.
pub fn slots_for(arena: u64) -> usize {
    let page = (crate::layout::PAGE / Entry::SIZE) as usize;
    let wanted = usize::try_from(arena >> 14).unwrap_or(MAX_SLOTS);
    wanted.next_multiple_of(page).clamp(page, MAX_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    const OWNER: PeerId = PeerId(0x0107);

    fn table(entries: &[Entry]) -> impl Fn(u64) -> Option<u64> + '_ {
        move |at| {
            let slot = at / Entry::SIZE;
            let entry = entries.iter().find(|e| u64::from(e.token.slot()) == slot)?;
            Some(match at % Entry::SIZE {
                Entry::TOKEN_AT => entry.token.raw(),
                0 => entry.words()[0],
                _ => entry.words()[1],
            })
        }
    }

    fn entry(slot: u16, random: u64) -> Entry {
        Entry {
            place: 0x4000,
            len: 0x1_0000,
            token: Token::new(OWNER, slot, random).unwrap(),
        }
    }

    const REACHED: u64 = 0x1_4000;

    fn find(token: Token, entries: &[Entry]) -> Result<Grant, Refused> {
        Grant::find(token, 128, REACHED, table(entries))
    }

    #[test]
    fn a_token_that_was_told_leads_to_the_landing_place() {
        let told = entry(5, 99);
        let grant = find(told.token, &[entry(4, 1), told]).unwrap();
        let place = 0x4000 + u64::from(HEAD);
        assert_eq!(grant.classify(false, HEAD, 10), Ok(Move::Data(place)));
    }

    /// A client has tokens from its partner, who may be anybody.
    #[test]
    fn a_token_that_was_not_told_is_refused() {
        let told = entry(5, 99);
        for forged in [
            Token::new(OWNER, 5, 100).unwrap(),
            Token::new(OWNER, 6, 99).unwrap(),
            Token::new(PeerId(0x0108), 5, 99).unwrap(),
            Token::new(OWNER, 1023, 99).unwrap(),
            Token::from_raw(0),
            Token::from_raw(u64::MAX),
        ] {
            assert_eq!(find(forged, &[told]), Err(Refused::Token), "{forged:?}");
        }
        assert_eq!(find(told.token, &[]), Err(Refused::Token));
    }

    #[test]
    fn no_token_stands_in_an_empty_table() {
        for raw in [0, u64::from(OWNER.0) << 48, 3 << 36] {
            let found = Grant::find(Token::from_raw(raw), 128, REACHED, |_| Some(0));
            assert_eq!(found, Err(Refused::Token));
        }
        assert_ne!(Token::new(PeerId(0), 0, u64::MAX).unwrap().raw(), 0);
        assert_ne!(Token::new(PeerId(0), 0, 0).unwrap().raw(), 0);
    }

    /// design 2, never 5: what the peer stores leads nowhere but into what is reached of its arena.
    #[test]
    fn a_place_that_is_not_reached_is_refused() {
        let good = entry(0, 1);
        for (place, len) in [
            (REACHED, 0x1000),
            (REACHED - 0x1000, 0x2000),
            (u64::MAX, 0x1000),
            (1 << 48, 0x1000),
            (0, 0),
            (0, MIN_BUFFER - 1),
            (4, MIN_BUFFER),
            (0, MAX_BUFFER + 1),
            (0, u32::MAX),
        ] {
            let wild = Entry { place, len, ..good };
            assert_eq!(find(good.token, &[wild]), Err(Refused::Place), "{wild:?}");
        }
        let last = Entry {
            place: REACHED - 0x1000,
            len: 0x1000,
            ..good
        };
        assert!(find(good.token, &[last]).is_ok());
    }

    #[test]
    fn an_entry_that_changes_while_it_is_read_is_refused() {
        let told = entry(0, 1);
        let loads = Cell::new(0);
        let load = |at| {
            loads.set(loads.get() + 1);
            match at {
                Entry::TOKEN_AT if loads.get() > 2 => Some(0),
                _ => table(&[told])(at),
            }
        };
        assert_eq!(
            Grant::find(told.token, 128, REACHED, load),
            Err(Refused::Token)
        );
    }

    #[test]
    fn nothing_is_moved_outside_of_the_buffer() {
        let told = entry(0, 1);
        let grant = find(told.token, &[told]).unwrap();
        for (offset, size) in [
            (told.len, 1),
            (told.len - 1, 2),
            (u32::MAX, 2),
            (HEAD, u32::MAX),
            (HEAD, told.len),
            (HEAD - 1, 10),
            (0, HEAD),
            (HEAD, 0),
        ] {
            let moved = grant.classify(false, offset, size);
            assert_eq!(moved, Err(Refused::Bounds), "{offset} {size}");
        }
        assert!(grant.classify(false, HEAD, told.len - HEAD).is_ok());
        assert_eq!(grant.classify(true, 0, HEAD), Ok(Move::Record));
        assert_eq!(grant.classify(true, 0, 0), Err(Refused::Bounds));
        assert_eq!(grant.classify(true, 0, HEAD + 1), Err(Refused::Bounds));
        assert_eq!(grant.classify(true, 8, HEAD), Err(Refused::Bounds));
    }

    #[test]
    fn a_name_says_whose_it_is() {
        for host in [0, 0x0107, 0xffff] {
            let gid = Gid::new(PeerId(host), [0, u64::MAX << 16]).unwrap();
            assert_eq!(gid.host(), PeerId(host));
            assert!(gid.is_valid());
            assert!(Gid::new(PeerId(host), [0, 0]).unwrap().is_valid());
        }
        assert_eq!(Gid::new(PeerId::SELF, [1, 1]), None);
    }

    #[test]
    fn tables_fit_their_arena() {
        assert_eq!(slots_for(0), 128);
        assert_eq!(slots_for(4 << 20), 256);
        assert_eq!(slots_for(u64::MAX), MAX_SLOTS);
    }

    proptest! {
        #[test]
        fn a_token_says_whose_and_which_it_is(owner in 0u32..=0xffff, slot in 0u16..1024, random: u64) {
            let token = Token::new(PeerId(owner), slot, random).unwrap();
            prop_assert_eq!(token.owner(), PeerId(owner));
            prop_assert_eq!(token.slot(), slot);
            prop_assert_eq!(Token::from_raw(token.raw()), token);
        }

        /// Whatever stands in the table, writes stay in what is reached.
        #[test]
        fn any_table_keeps_writes_inside(
            words: [u64; 2], near: bool, offset: u32, size: u32, signal: bool
        ) {
            let [place, len] = if near { [words[0] % REACHED, words[1] % 0x8000] } else { words };
            let token = Token::new(OWNER, 0, 7).unwrap();
            let load = |at| Some(match at { Entry::TOKEN_AT => token.raw(), 0 => place, _ => len });
            if let Ok(grant) = Grant::find(token, 128, REACHED, load) {
                if let Ok(Move::Data(at)) = grant.classify(signal, offset, size) {
                    prop_assert!(at >= place + u64::from(HEAD));
                    prop_assert!(at + u64::from(size) <= place + len);
                    prop_assert!(place + len <= REACHED);
                }
            }
        }
    }
}
