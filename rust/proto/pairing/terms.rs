// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What a process asks of a session, and whether two sessions fit: the criteria that need no
//! knowledge of free space. Pure functions; the engine calls them for own requests, the caller
//! may check a request before the engine exists, and what a peer sends goes through the same.

use crate::name;

/// How a session looks for its partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// Is posted and waits for a client.
    Server,
    /// Takes a posted server, or fails.
    Client,
    /// Takes a posted peer, or is posted.
    Peer,
}

/// What the windows of a session are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// Memory that each side cuts from its arena.
    Logical,
    /// Physical addresses that the server names.
    Physical,
}

/// Size of a window in bytes, at least and at most. A `max` of zero: no such window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Fewer bytes are of no use.
    pub min: u64,
    /// The preferred size, never exceeded.
    pub max: u64,
}

impl Limits {
    /// Exactly `size` bytes.
    pub const fn exactly(size: u64) -> Limits {
        Limits {
            min: size,
            max: size,
        }
    }

    /// Whether a window of `size` bytes will do.
    pub const fn contain(&self, size: u64) -> bool {
        self.min <= size && size <= self.max
    }

    /// What satisfies both, below `reach` bytes (PXI-PAIR-4).
    fn net(&self, other: &Limits, reach: u64) -> Option<Limits> {
        let net = Limits {
            min: self.min.max(other.min),
            max: self.max.min(other.max).min(reach),
        };
        (net.min <= net.max).then_some(net)
    }
}

/// Most bytes of opaque data that a post carries.
pub const DATA_MAX: usize = 1024;

/// The name of a session, which may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    whole: name::Name,
    own: u8,
}

impl Name {
    /// No name.
    pub const NONE: Name = Name {
        whole: name::Name::NONE,
        own: 0,
    };

    /// A name, whose first `own` bytes are a peer's own one; `None` if it is too long.
    pub fn new(name: &[u8], own: usize) -> Option<Name> {
        let whole = name::Name::new(name)?;
        (own <= name.len()).then_some(Name {
            whole,
            own: u8::try_from(own).ok()?,
        })
    }

    /// All of it.
    pub fn whole(&self) -> &[u8] {
        self.whole.bytes()
    }

    /// Bytes of the own name.
    pub fn own(&self) -> usize {
        usize::from(self.own)
    }

    /// The own name, and that of the partner.
    fn parts(&self) -> (&[u8], &[u8]) {
        self.whole()
            .split_at_checked(self.own())
            .unwrap_or_default()
    }

    /// Whether two sessions have names for each other.
    fn suits(&self, other: &Name) -> bool {
        let ((own, wanted), (theirs, of_them)) = (self.parts(), other.parts());
        match (self.own, other.own) {
            (0, 0) => self == other,
            (0, _) | (_, 0) => false,
            _ => own == of_them && wanted == theirs,
        }
    }

    /// The name that a session with this one is paired with.
    pub(super) fn of_partner(&self) -> Name {
        let (own, wanted) = self.parts();
        let theirs = if own.is_empty() { 0 } else { wanted.len() };
        Name {
            whole: self.whole.rotated(own.len()),
            // No more than `own` of the whole.
            own: theirs as u8,
        }
    }
}

/// The parameters of a request. `local` and `remote` are seen from the session itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// How it looks for its partner.
    pub connection: Connection,
    /// What its windows are; there is no physical peer.
    pub location: Location,
    /// Format of the data and use of the events; any value.
    pub protocol: u32,
    /// The unique identifier the process named: of its own post, or of the post that it wants.
    /// Zero for any.
    pub uid: u32,
    /// The window that this host backs.
    pub local: Limits,
    /// The window that the other host backs.
    pub remote: Limits,
    /// Where a physical server's window lies; zero for all others.
    pub address: u64,
    /// Bits of an address in the process: what is larger cannot be mapped there.
    pub address_bits: u8,
    /// Its name, and that of its partner.
    pub name: Name,
    /// A server whose owner answers each request.
    pub hold: bool,
    /// With `hold`: is over after a request that comes to nothing.
    pub once: bool,
    /// Without windows.
    pub bare: bool,
}

/// Why parameters are refused, in the order of the checks; all are invalid arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// No kind of request has such parameters; the caller's mistake, not a process's.
    Kind,
    /// Neither window is wanted (PXI-REQLS-2, PXI-REQLC-2, PXI-REQLP-2), or one of a session that
    /// is to have none.
    NoWindow,
    /// The physical client's window may be empty (PXI-REQPC-2).
    RemoteSize,
    /// More is needed of the local window than wanted (PXI-REQLS-3, PXI-REQLC-3, PXI-REQLP-3).
    LocalOrder,
    /// The same of the remote one (PXI-REQLS-4, PXI-REQLC-4, PXI-REQLP-4, PXI-REQPC-3).
    RemoteOrder,
    /// More than [`DATA_MAX`] bytes (PXI-REQLS-5, PXI-REQLP-5, PXI-REQPS-2).
    DataSize,
    /// The physical server's window is empty (PXI-REQPS-3).
    LocalSize,
    /// The physical server has no address (PXI-REQPS-4).
    Address,
    /// The physical server's window ends behind the last address.
    Wraps,
}

impl Params {
    /// Check the parameters of a request with `data` bytes of window data.
    ///
    /// # Errors
    /// The first [`Invalid`] in the order that is prescribed for that kind of request.
    pub fn check(&self, data: usize) -> Result<(), Invalid> {
        let must = |met: bool, or: Invalid| met.then_some(()).ok_or(or);
        let none = Limits::default();
        must((1..=64).contains(&self.address_bits), Invalid::Kind)?;
        let logical_or = self.connection == Connection::Server || self.address == 0;
        must(logical_or, Invalid::Kind)?;
        let serves = self.connection == Connection::Server;
        let held = (serves || !self.hold) && (self.hold || !self.once);
        let named = self.connection == Connection::Peer || self.name.own == 0;
        must(held && named, Invalid::Kind)?;
        let is_logical = self.location == Location::Logical;
        must(is_logical || !self.bare, Invalid::Kind)?;
        match (self.location, self.connection) {
            (Location::Logical, _) => {
                must(self.address == 0, Invalid::Kind)?;
                let wanted = self.local.max != 0 || self.remote.max != 0;
                must(wanted != self.bare, Invalid::NoWindow)?;
                must(self.local.min <= self.local.max, Invalid::LocalOrder)?;
                must(self.remote.min <= self.remote.max, Invalid::RemoteOrder)?;
                must(data <= DATA_MAX, Invalid::DataSize)
            }
            (Location::Physical, Connection::Server) => {
                let exact = self.local.min == self.local.max;
                must(exact && self.remote == none, Invalid::Kind)?;
                must(data <= DATA_MAX, Invalid::DataSize)?;
                must(self.local.max != 0, Invalid::LocalSize)?;
                must(self.address != 0, Invalid::Address)?;
                let last = self.address.checked_add(self.local.max - 1);
                must(last.is_some(), Invalid::Wraps)
            }
            (Location::Physical, Connection::Client) => {
                must(self.local == none, Invalid::Kind)?;
                let sizes = self.remote.min != 0 && self.remote.max != 0;
                must(sizes, Invalid::RemoteSize)?;
                must(self.remote.min <= self.remote.max, Invalid::RemoteOrder)
            }
            (Location::Physical, Connection::Peer) => Err(Invalid::Kind),
        }
    }

    /// Whether the first release would not understand it.
    pub fn is_extended(&self) -> bool {
        self.name != Name::NONE || self.hold || self.once || self.bare
    }

    /// A digest of all by which [`agree`] compares two sessions, but for sizes: the same for all
    /// with which a session may be paired.
    pub(super) fn alike(&self) -> u64 {
        digest(self.connection, self, &self.name)
    }

    /// [`alike`](Self::alike) of those that it may be paired with.
    pub(super) fn alike_of_partner(&self) -> u64 {
        let connection = match self.connection {
            Connection::Server => Connection::Client,
            Connection::Client => Connection::Server,
            Connection::Peer => Connection::Peer,
        };
        digest(connection, self, &self.name.of_partner())
    }

    /// Whether the local window is cut from the arena.
    pub(super) fn is_backed(&self) -> bool {
        self.location == Location::Logical
    }

    /// Most bytes of a window that the process can map. A physical server maps none.
    pub(super) fn reach(&self) -> u64 {
        let maps = self.is_backed() || self.connection == Connection::Client;
        match 1u64.checked_shl(u32::from(self.address_bits)) {
            Some(space) if maps => space - 1,
            _ => u64::MAX,
        }
    }

    /// Bytes of the window that a physical server offers; zero for all others.
    pub(super) fn offered(&self) -> u64 {
        let offers = !self.is_backed() && self.connection == Connection::Server;
        if offers {
            self.local.max
        } else {
            0
        }
    }
}

/// A digest (FNV-1a) of what partners have in common.
fn digest(connection: Connection, params: &Params, name: &Name) -> u64 {
    let kind = [
        connection as u8,
        params.location as u8,
        u8::from(params.bare),
        name.own,
    ];
    let protocol = params.protocol.to_le_bytes();
    let bytes = kind.iter().chain(&protocol).chain(name.whole());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// A window that was given to a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where it begins in what the peer reaches, as [`reach`](crate::reach) has it: in the arena,
    /// or a physical server's window where that is exposed.
    pub off: u64,
    /// Bytes, never zero.
    pub len: u64,
}

/// Bytes of a window that may not be there.
pub(super) fn len(span: Option<Span>) -> u64 {
    span.map_or(0, |span| span.len)
}

/// The sizes that the windows of a pair may have, seen from the first of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    pub local: Limits,
    pub remote: Limits,
}

impl Terms {
    /// The same seen from the other one.
    pub(super) fn swapped(self) -> Terms {
        Terms {
            local: self.remote,
            remote: self.local,
        }
    }
}

/// The terms of a pair of `x` and `y`, whichever of the two asks; `None` if a criterion other
/// than identifiers and space keeps them apart (PXI-PAIR-2 to PXI-PAIR-5, PXI-PAIR-8).
pub(super) fn agree(x: &Params, y: &Params) -> Option<Terms> {
    let kinds = matches!(
        (x.connection, y.connection),
        (Connection::Client, Connection::Server)
            | (Connection::Server, Connection::Client)
            | (Connection::Peer, Connection::Peer)
    );
    let alike = (x.protocol, x.location, x.bare) == (y.protocol, y.location, y.bare);
    // Names last: they are the longest to compare.
    if !kinds || !alike || !x.name.suits(&y.name) {
        return None;
    }
    let reach = x.reach().min(y.reach());
    let terms = Terms {
        local: x.local.net(&y.remote, reach)?,
        remote: x.remote.net(&y.local, reach)?,
    };
    (x.bare || terms.local.max != 0 || terms.remote.max != 0).then_some(terms)
}

/// The terms on which a session that asks may have a posted one, whose identifier is `uid`. An
/// identifier that was asked for is compared with the one assigned to the post (PXI-PAIR-9,
/// PXI-PAIR-10); a server never asks.
pub(super) fn meet(asks: &Params, posted: &Params, uid: u32) -> Option<Terms> {
    let asks_for = asks.uid == 0 || asks.uid == uid;
    if !asks_for || asks.connection == Connection::Server {
        return None;
    }
    agree(asks, posted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logical(connection: Connection) -> Params {
        Params {
            connection,
            location: Location::Logical,
            protocol: 7,
            uid: 0,
            local: Limits { min: 10, max: 20 },
            remote: Limits { min: 10, max: 20 },
            address: 0,
            address_bits: 64,
            name: Name::NONE,
            hold: false,
            once: false,
            bare: false,
        }
    }

    fn server(address: u64, size: u64) -> Params {
        Params {
            location: Location::Physical,
            local: Limits::exactly(size),
            remote: Limits::default(),
            address,
            ..logical(Connection::Server)
        }
    }

    fn client(min: u64, max: u64) -> Params {
        Params {
            location: Location::Physical,
            local: Limits::default(),
            remote: Limits { min, max },
            ..logical(Connection::Client)
        }
    }

    /// PXI-REQLS-2 to PXI-REQLS-5, PXI-REQLC-2 to PXI-REQLC-4, PXI-REQLP-2 to PXI-REQLP-5: with
    /// all mistakes at once the first rule names the error; each mended shows the next.
    #[test]
    fn mistakes_in_logical_requests_are_found_in_order() {
        for connection in [Connection::Server, Connection::Client, Connection::Peer] {
            let mut p = logical(connection);
            p.local = Limits { min: 2, max: 0 };
            p.remote = Limits { min: 2, max: 0 };
            assert_eq!(p.check(DATA_MAX + 1), Err(Invalid::NoWindow));
            p.local.max = 1;
            p.remote.max = 1;
            assert_eq!(p.check(DATA_MAX + 1), Err(Invalid::LocalOrder));
            p.local.max = 2;
            assert_eq!(p.check(DATA_MAX + 1), Err(Invalid::RemoteOrder));
            p.remote.max = 2;
            assert_eq!(p.check(DATA_MAX + 1), Err(Invalid::DataSize));
            assert_eq!(p.check(DATA_MAX), Ok(()));
        }
    }

    /// PXI-REQLS-12, PXI-REQLC-11, PXI-REQLP-18
    #[test]
    fn one_window_is_enough() {
        let mut p = logical(Connection::Peer);
        p.local = Limits::default();
        assert_eq!(p.check(0), Ok(()));
        p.local = p.remote;
        p.remote = Limits::default();
        assert_eq!(p.check(0), Ok(()));
    }

    /// PXI-REQPS-2 to PXI-REQPS-4
    #[test]
    fn mistakes_of_a_physical_server_are_found_in_order() {
        assert_eq!(server(0, 0).check(DATA_MAX + 1), Err(Invalid::DataSize));
        assert_eq!(server(0, 0).check(DATA_MAX), Err(Invalid::LocalSize));
        assert_eq!(server(0, 1).check(0), Err(Invalid::Address));
        assert_eq!(server(u64::MAX, 2).check(0), Err(Invalid::Wraps));
        assert_eq!(server(u64::MAX, 1).check(0), Ok(()));
        assert_eq!(server(0x1000, 0x1000).check(0), Ok(()));
    }

    /// PXI-REQPC-2, PXI-REQPC-3
    #[test]
    fn mistakes_of_a_physical_client_are_found_in_order() {
        for (min, max) in [(0, 0), (0, 5), (5, 0)] {
            assert_eq!(client(min, max).check(0), Err(Invalid::RemoteSize));
        }
        assert_eq!(client(6, 5).check(0), Err(Invalid::RemoteOrder));
        assert_eq!(client(5, 5).check(0), Ok(()));
    }

    /// PXI-PAIR-3
    #[test]
    fn there_is_no_physical_peer() {
        let mut p = client(1, 1);
        p.connection = Connection::Peer;
        assert_eq!(p.check(0), Err(Invalid::Kind));
    }

    /// PXI-PAIR-2, PXI-PAIR-3
    #[test]
    fn of_all_kinds_only_three_combinations_fit() {
        let kinds = [
            logical(Connection::Server),
            logical(Connection::Client),
            logical(Connection::Peer),
            server(0x1000, 15),
            client(10, 20),
        ];
        let mut fitting = std::vec::Vec::new();
        for (n, x) in kinds.iter().enumerate() {
            for (m, y) in kinds.iter().enumerate() {
                if meet(x, y, 1).is_some() {
                    fitting.push((n, m));
                }
            }
        }
        assert_eq!(fitting, [(1, 0), (2, 2), (4, 3)]);
    }

    /// PXI-PAIR-4
    #[test]
    fn one_byte_in_common_is_enough_and_none_is_not() {
        let posted = logical(Connection::Peer);
        let mut asks = posted;
        asks.local = Limits { min: 20, max: 30 };
        let terms = meet(&asks, &posted, 1).expect("20 bytes suit both");
        assert_eq!(terms.local, Limits::exactly(20));
        asks.local.min = 21;
        assert_eq!(meet(&asks, &posted, 1), None);
        asks.local = posted.remote;
        asks.remote = Limits { min: 5, max: 10 };
        let terms = meet(&asks, &posted, 1).expect("10 bytes suit both");
        assert_eq!(terms.remote, Limits::exactly(10));
        asks.remote.max = 9;
        assert_eq!(meet(&asks, &posted, 1), None);
    }

    /// PXI-PAIR-5
    #[test]
    fn two_sessions_without_a_window_in_common_do_not_fit() {
        let mut p = logical(Connection::Peer);
        p.local = Limits { min: 0, max: 20 };
        p.remote = Limits::default();
        assert_eq!(meet(&p, &p, 1), None);
    }

    /// PXI-PAIR-8, PXI-PRO-3, PXI-PRO-5
    #[test]
    fn protocols_are_equal_to_the_last_bit() {
        for protocol in [0, 7, 0xabcd_1000, u32::MAX] {
            let mut posted = logical(Connection::Peer);
            posted.protocol = protocol;
            assert!(meet(&posted, &posted, 1).is_some());
            for bit in 0..32 {
                let mut asks = posted;
                asks.protocol ^= 1 << bit;
                assert_eq!(meet(&asks, &posted, 1), None);
            }
        }
    }

    /// PXI-PAIR-9, PXI-PAIR-10, PXI-REQLC-13
    #[test]
    fn an_identifier_asked_for_is_the_one_assigned() {
        let mut posted = logical(Connection::Server);
        let mut asks = logical(Connection::Client);
        for passed in [0, 3] {
            posted.uid = passed;
            asks.uid = 0;
            assert!(meet(&asks, &posted, 3).is_some());
            asks.uid = 3;
            assert!(meet(&asks, &posted, 3).is_some());
            asks.uid = 4;
            assert_eq!(meet(&asks, &posted, 3), None);
        }
    }

    /// PXI-REQPC-10, PXI-REQPS-11
    #[test]
    fn a_physical_window_has_exactly_the_size_of_the_server() {
        let posted = server(0x1000, 100);
        for (min, max, fits) in [
            (50, 200, true),
            (100, 100, true),
            (101, 200, false),
            (50, 99, false),
        ] {
            let terms = meet(&client(min, max), &posted, 1);
            assert_eq!(terms.is_some(), fits);
            assert!(terms.is_none_or(|t| t.remote == Limits::exactly(100)));
        }
    }

    /// PXI-GEN-10: what a process cannot map is not there for it.
    #[test]
    fn no_window_is_larger_than_a_process_can_map() {
        let mut small = logical(Connection::Client);
        small.address_bits = 31;
        small.local = Limits {
            min: 0,
            max: u64::MAX,
        };
        small.remote = small.local;
        let mut large = logical(Connection::Server);
        large.local = small.local;
        large.remote = small.local;
        let terms = meet(&small, &large, 1).expect("fits");
        assert_eq!(terms.local.max, (1 << 31) - 1);
        assert_eq!(terms.remote.max, (1 << 31) - 1);
        large.local.min = 1 << 31;
        assert_eq!(meet(&small, &large, 1), None);
    }
}
