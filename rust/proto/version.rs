// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Which versions of a protocol a host speaks, and what two hosts agree on.
//!
//! Each side announces a range of versions and a set of optional features in a word of its own.
//! Both compute the same result: the newest version that both speak, and the features that both
//! have. The link does so in its [`Hello`](crate::link::Hello), the user service in the frame of
//! its [`Hello`](crate::fabric::Hello).
//!
//! | bits | content |
//! |---|---|
//! | 7..0 | oldest version |
//! | 15..8 | newest version |
//! | 31..16 | optional features |
//!
//! A word of zero stands for a release that announced nothing: it speaks the first version that
//! was published, and has no optional feature.

/// What one host speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Support {
    /// The oldest version, not zero.
    pub oldest: u8,
    /// The newest version, not below [`oldest`](Self::oldest).
    pub newest: u8,
    /// Bits for optional features. A feature is in force where both hosts have it.
    pub features: u16,
}

/// What two hosts have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The version that both speak from now on.
    pub version: u8,
    /// The optional features that both have.
    pub features: u16,
}

/// The wire versions of this source: all that lies in shared memory behind the bootstrap.
///
/// | version | what is new |
/// |---|---|
/// | 1 | first release |
/// | 2 | doorbells are rung by level: see [`ring`](crate::ring) |
pub const WIRE: Support = Support {
    oldest: 1,
    newest: 2,
    features: 0,
};

impl Support {
    /// One version without optional features: what a release speaks that announces nothing.
    pub const fn only(version: u8) -> Support {
        Support {
            oldest: version,
            newest: version,
            features: 0,
        }
    }

    /// The word that announces this.
    pub fn encode(self) -> u32 {
        u32::from(self.oldest) | u32::from(self.newest) << 8 | u32::from(self.features) << 16
    }

    /// What `word` announces; zero announces `first`. `None` if the range is none.
    pub fn decode(word: u32, first: Support) -> Option<Support> {
        if word == 0 {
            return Some(first);
        }
        let [oldest, newest, low, high] = word.to_le_bytes();
        let features = u16::from_le_bytes([low, high]);
        (oldest != 0 && oldest <= newest).then_some(Support {
            oldest,
            newest,
            features,
        })
    }

    /// What this host and `other` agree on; `None` if they have no version in common. The other
    /// host comes to the same result.
    pub fn agree(self, other: Support) -> Option<Terms> {
        let version = self.newest.min(other.newest);
        (version >= self.oldest.max(other.oldest)).then_some(Terms {
            version,
            features: self.features & other.features,
        })
    }

    /// Whether all versions of this host are older than those of `other`.
    pub fn is_older_than(self, other: Support) -> bool {
        self.newest < other.oldest
    }

    /// These versions, but none below `oldest` and none above `newest`; `None` if none is left.
    pub fn narrowed(self, oldest: u8, newest: u8) -> Option<Support> {
        let range = Support {
            oldest: self.oldest.max(oldest),
            newest: self.newest.min(newest),
            ..self
        };
        (range.oldest <= range.newest).then_some(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn support() -> impl Strategy<Value = Support> {
        (1u8.., any::<u8>(), any::<u16>()).prop_map(|(oldest, more, features)| Support {
            oldest,
            newest: oldest.saturating_add(more % 8),
            features,
        })
    }

    /// design 4.1
    #[test]
    fn a_release_that_announces_nothing_speaks_the_first_version() {
        let first = Support::decode(0, Support::only(1)).expect("valid");
        assert_eq!(
            WIRE.agree(first),
            Some(Terms {
                version: 1,
                features: 0
            })
        );
    }

    /// design 4.1
    #[test]
    fn hosts_without_a_common_version_know_which_is_older() {
        let (old, new) = (Support::only(1), Support::only(2));
        assert_eq!(old.agree(new), None);
        assert!(old.is_older_than(new) && !new.is_older_than(old));
    }

    /// design 4.1
    #[test]
    fn a_range_can_be_narrowed_but_not_emptied() {
        assert_eq!(WIRE.narrowed(0, 1), Some(Support::only(1)));
        assert_eq!(WIRE.narrowed(2, u8::MAX), Some(Support::only(2)));
        assert_eq!(WIRE.narrowed(WIRE.newest + 1, u8::MAX), None);
        assert_eq!(WIRE.narrowed(2, 1), None);
    }

    proptest! {
        /// design 4.1
        #[test]
        fn two_hosts_come_to_the_same_result(a in support(), b in support()) {
            prop_assert_eq!(a.agree(b), b.agree(a));
            let common = (1..=u8::MAX).rev().find(|&v| {
                [a, b].iter().all(|s| (s.oldest..=s.newest).contains(&v))
            });
            prop_assert_eq!(a.agree(b).map(|terms| terms.version), common);
            let apart = a.is_older_than(b) || b.is_older_than(a);
            prop_assert_eq!(common.is_none(), apart);
            if let Some(terms) = a.agree(b) {
                prop_assert_eq!(terms.features, a.features & b.features);
            }
        }

        /// design 2, never 5
        #[test]
        fn what_is_announced_survives_the_wire(s in support(), word: u32) {
            prop_assert_eq!(Support::decode(s.encode(), Support::only(1)), Some(s));
            if let Some(any) = Support::decode(word, Support::only(1)) {
                prop_assert!(any.oldest >= 1 && any.oldest <= any.newest);
            }
        }
    }
}
