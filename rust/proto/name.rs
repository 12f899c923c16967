// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Names that processes choose for what they share. They are opaque bytes, compared exactly: in
//! length and in bytes.

/// Most bytes of a name.
pub const NAME_MAX: usize = 64;

/// A name, which may be empty.
///
/// The bytes behind the last one are zero, so that names are equal, and in order, as these fields
/// are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    len: u8,
}

impl Name {
    /// No name.
    pub const NONE: Name = Name {
        bytes: [0; NAME_MAX],
        len: 0,
    };

    /// A name of those bytes; `None` if there are too many.
    pub fn new(name: &[u8]) -> Option<Name> {
        let mut bytes = [0; NAME_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        Some(Name {
            bytes,
            len: u8::try_from(name.len()).ok()?,
        })
    }

    /// Whether it has no bytes.
    pub fn is_none(&self) -> bool {
        self.len == 0
    }

    /// The same bytes with those from `at` on first.
    pub(crate) fn rotated(&self, at: usize) -> Name {
        let mut rotated = *self;
        if let Some(bytes) = rotated.bytes.get_mut(..usize::from(self.len)) {
            bytes.rotate_left(at.min(bytes.len()));
        }
        rotated
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    /// Bytes of which many are zero, and many names have the same ones first.
    fn bytes() -> impl Strategy<Value = vec::Vec<u8>> {
        prop::collection::vec(0u8..2, 0..=NAME_MAX + 1)
    }

    #[test]
    fn a_name_has_64_bytes_at_most() {
        assert!(Name::new(&[0; NAME_MAX]).is_some());
        assert!(Name::new(&[0; NAME_MAX + 1]).is_none());
        assert_eq!(Name::new(b""), Some(Name::NONE));
    }

    proptest! {
        #[test]
        fn names_are_equal_if_their_bytes_are(a in bytes(), b in bytes(), cut in 0..=NAME_MAX) {
            for other in [b.as_slice(), a.get(..cut).unwrap_or(&a)] {
                let (Some(one), Some(two)) = (Name::new(&a), Name::new(other)) else {
                    prop_assert!(a.len() > NAME_MAX || other.len() > NAME_MAX);
                    continue;
                };
                prop_assert_eq!(one.bytes(), a.as_slice());
                prop_assert_eq!(one == two, a.as_slice() == other);
                // A list in their order finds each by a search.
                prop_assert_eq!(one.cmp(&two).is_eq(), one == two);
                prop_assert_eq!(one.cmp(&two), two.cmp(&one).reverse());
                prop_assert_eq!(one.is_none(), a.is_empty());
            }
        }
    }
}
