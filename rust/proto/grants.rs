// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Who may reach which piece of memory: grants that function services have given to the peers of
//! links.
//!
//! Several services cut pieces from the same memory and grant them to the same peer. Each lets go of
//! its own grants only: what is known of one service's other end, that it has ended or begun anew,
//! says nothing of what another one has granted. A piece is granted as long as anybody has a grant
//! of it.
//!
//! The owner of a piece is not in this table, nor what becomes of the piece when nobody reaches it
//! any more: the caller keeps that in an [`Arena`](crate::arena::Arena).

use core::ops::DerefMut;

/// The peer of a link may reach a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Grant {
    /// Where the piece begins, which names it.
    pub off: u64,
    /// Names the link among those of this host.
    pub link: u64,
    /// Function id of the service that has given the grant.
    pub service: u32,
}

/// Why a grant was not entered or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantError {
    /// The table is full.
    Full,
    /// There is no such grant.
    Unknown,
}

/// Grants, in a table of the caller's whose length bounds their number.
#[derive(Debug)]
pub struct Grants<S> {
    /// Those that are there come first, sorted, each once.
    table: S,
    len: usize,
}

impl<S: DerefMut<Target = [Grant]>> Grants<S> {
    /// No grants. What is in `table` is overwritten.
    pub fn new(table: S) -> Self {
        Grants { table, len: 0 }
    }

    /// All of them, those of one piece next to each other.
    pub fn all(&self) -> &[Grant] {
        self.table.get(..self.len).unwrap_or(&[])
    }

    /// Whether anybody may reach the piece at `off`.
    pub fn is_granted(&self, off: u64) -> bool {
        let all = self.all();
        let at = all.partition_point(|grant| grant.off < off);
        all.get(at).is_some_and(|grant| grant.off == off)
    }

    /// Enter a grant, unless it is there.
    ///
    /// # Errors
    /// [`GrantError::Full`].
    pub fn enter(&mut self, grant: Grant) -> Result<(), GrantError> {
        let Err(at) = self.all().binary_search(&grant) else {
            return Ok(());
        };
        let tail = self.table.get_mut(at..=self.len);
        let tail = tail.ok_or(GrantError::Full)?;
        tail.rotate_right(1);
        if let Some(place) = tail.first_mut() {
            *place = grant;
        }
        self.len += 1;
        Ok(())
    }

    /// Remove a grant. Whether nobody may reach its piece any more.
    ///
    /// # Errors
    /// [`GrantError::Unknown`].
    pub fn let_go(&mut self, grant: &Grant) -> Result<bool, GrantError> {
        let at = self.all().binary_search(grant);
        let at = at.map_err(|_| GrantError::Unknown)?;
        let tail = self.table.get_mut(at..self.len);
        tail.ok_or(GrantError::Unknown)?.rotate_left(1);
        self.len -= 1;
        Ok(!self.is_granted(grant.off))
    }

    /// Remove all grants to the peer of a link, or with `service` those of that service. Tell `gone`
    /// of each piece that anybody could reach by these and nobody can any more, in ascending order.
    pub fn let_all_go(&mut self, link: u64, service: Option<u32>, mut gone: impl FnMut(u64)) {
        let is_meant =
            |grant: &Grant| grant.link == link && service.is_none_or(|s| s == grant.service);
        let mut kept: usize = 0;
        // The piece whose grants are looked at, all of which were removed so far.
        let mut removed = None;
        for at in 0..self.len {
            let Some(grant) = self.table.get(at).copied() else {
                break;
            };
            if removed.is_some_and(|off| off != grant.off) {
                removed.take().into_iter().for_each(&mut gone);
            }
            if is_meant(&grant) {
                let is_granted = self.is_last_kept(kept, grant.off);
                removed = (!is_granted).then_some(grant.off);
                continue;
            }
            removed = None;
            if let Some(place) = self.table.get_mut(kept) {
                *place = grant;
                kept += 1;
            }
        }
        self.len = kept;
        removed.into_iter().for_each(gone);
    }

    /// Whether the last of the first `kept` grants is of the piece at `off`.
    fn is_last_kept(&self, kept: usize, off: u64) -> bool {
        let last = kept.checked_sub(1).and_then(|at| self.table.get(at));
        last.is_some_and(|grant| grant.off == off)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{collections::BTreeSet, vec, vec::Vec};

    fn grants(count: usize) -> Grants<Vec<Grant>> {
        Grants::new(vec![Grant::default(); count])
    }

    fn grant(off: u64, link: u64, service: u32) -> Grant {
        Grant { off, link, service }
    }

    fn all_gone(grants: &mut Grants<Vec<Grant>>, link: u64, service: Option<u32>) -> Vec<u64> {
        let mut gone = Vec::new();
        grants.let_all_go(link, service, |off| gone.push(off));
        gone
    }

    /// design 4.11
    #[test]
    fn what_a_service_has_granted_goes_without_that_of_another() {
        let mut all = grants(8);
        for given in [grant(0, 1, 7), grant(0x1000, 1, 8), grant(0x2000, 1, 7)] {
            all.enter(given).expect("room");
        }
        assert_eq!(all_gone(&mut all, 1, Some(7)), [0, 0x2000]);
        assert!(all.is_granted(0x1000) && !all.is_granted(0));
        assert_eq!(all_gone(&mut all, 1, None), [0x1000]);
        assert_eq!(all.all(), []);
    }

    /// design 4.11
    #[test]
    fn a_piece_is_granted_as_long_as_anybody_has_a_grant_of_it() {
        let mut all = grants(8);
        for given in [grant(0, 1, 7), grant(0, 1, 8), grant(0, 2, 7)] {
            all.enter(given).expect("room");
        }
        assert_eq!(all_gone(&mut all, 1, Some(7)), []);
        assert_eq!(all.let_go(&grant(0, 1, 7)), Err(GrantError::Unknown));
        assert_eq!(all.let_go(&grant(0, 2, 7)), Ok(false));
        assert_eq!(all.let_go(&grant(0, 1, 8)), Ok(true));
    }

    /// design 4.11
    #[test]
    fn a_grant_that_is_there_needs_no_room() {
        let mut all = grants(1);
        assert_eq!(all.enter(grant(0, 1, 7)), Ok(()));
        assert_eq!(all.enter(grant(0, 1, 7)), Ok(()));
        assert_eq!(all.enter(grant(0, 1, 8)), Err(GrantError::Full));
        assert_eq!(all.let_go(&grant(0, 1, 7)), Ok(true));
    }

    proptest! {
        /// design 4.11
        #[test]
        fn each_service_lets_go_of_its_own_grants_and_of_no_others(
            events in prop::collection::vec((0u8..8, 0u64..6, 0u64..3, 0u32..3), 0..200),
        ) {
            const MOST: usize = 20;
            let mut all = grants(MOST);
            let mut model = BTreeSet::new();
            for (what, off, link, service) in events {
                let one = grant(off, link, service);
                let reached = |model: &BTreeSet<Grant>| {
                    model.iter().map(|grant| grant.off).collect::<BTreeSet<_>>()
                };
                let before = reached(&model);
                match what {
                    0..=4 => {
                        let is_full = model.len() == MOST && !model.contains(&one);
                        prop_assert_eq!(all.enter(one).is_err(), is_full);
                        if !is_full {
                            model.insert(one);
                        }
                    }
                    5 => {
                        let had = model.remove(&one);
                        let is_last = !reached(&model).contains(&off);
                        let expected = had.then_some(is_last).ok_or(GrantError::Unknown);
                        prop_assert_eq!(all.let_go(&one), expected);
                    }
                    _ => {
                        let service = (what == 6).then_some(service);
                        model.retain(|grant| {
                            grant.link != link || service.is_some_and(|s| s != grant.service)
                        });
                        let gone: Vec<_> = before.difference(&reached(&model)).copied().collect();
                        prop_assert_eq!(all_gone(&mut all, link, service), gone);
                    }
                }
                prop_assert!(all.all().iter().eq(&model));
                for off in 0..6 {
                    prop_assert_eq!(all.is_granted(off), reached(&model).contains(&off));
                }
            }
        }
    }
}
