// SPDX-License-Identifier: GPL-2.0-only

//! What a user has over all contexts, of what there is not enough for everybody: places in
//! tables that all users share, memory of the kernel, and memory that peers reach.
//!
//! In a user namespace, whoever has made it is charged as well, so that nobody gets more by
//! being many ([`Payers`]).

use crate::window::Piece;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    dmem::Charge,
    error,
    process::{
        Payer,
        Payers, //
    }, //
};
use mp_transport::memory::Lease;

kernel::sync::global_lock! {
    // SAFETY: Initialised in the module's `init`, before there are contexts.
    pub(crate) unsafe(uninit) static SHARES: Mutex<KVec<Account>> = KVec::new();
}

kernel::sync::global_lock! {
    // SAFETY: As above.
    pub(crate) unsafe(uninit) static LEASED: Mutex<KVec<Leased>> = KVec::new();
}

/// What memory counts as, until nobody has it or reaches it any more.
pub(crate) struct Leased {
    lease: Arc<Lease>,
    _share: Share,
}

impl Leased {
    /// The memory of that piece counts as `share`, for longer than the piece is there if a peer may
    /// reach it then.
    ///
    /// # Errors
    ///
    /// `EINVAL` for memory that is not this host's, `ENOMEM`.
    pub(crate) fn enter(piece: &Piece, share: Share) -> Result {
        let Piece::Local(local) = piece else {
            return Err(EINVAL);
        };
        let leased = Self {
            lease: local.lease().cloned().ok_or(EINVAL)?,
            _share: share,
        };
        let mut all = LEASED.lock();
        all.reserve(1, GFP_KERNEL)?;
        // There is room for it.
        let _ = all.push_within_capacity(leased);
        Ok(())
    }

    /// What is free by now counts no more.
    pub(crate) fn settle() {
        // Those before it have been looked at, but for what others remove meanwhile.
        let mut from = 0;
        let mut next = || {
            let mut all = LEASED.lock();
            let mut rest = all.iter().skip(from);
            from += rest.position(|leased| leased.lease.is_over())?;
            all.remove(from).ok()
        };
        // Each is dropped without the lock.
        while next().is_some() {}
    }

    /// Nothing counts any more: the service ends.
    pub(crate) fn end_all() {
        let all = core::mem::take(&mut *LEASED.lock());
        drop(all);
    }
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Open files.
    Context,
    /// Sessions.
    Session,
    /// Places in the table of sessions of that interface's link: also those of closed sessions,
    /// as long as their partners are open.
    Place(u32),
    /// Uses of segments of this host.
    Segment,
    /// Connections.
    Connection,
    /// Those of them that the peer of that interface was asked for, and has not answered.
    Asked(u32),
    /// All objects but sessions, segments and connections included.
    Object,
    /// Bytes that peers may come to reach: of the link of that interface, or with none
    /// those that segments are cut from.
    Memory(Option<u32>),
    /// Pages of processes that are pinned.
    Pinned,
}

/// How much somebody has of a kind.
pub(crate) struct Account {
    payer: Payer,
    kind: Kind,
    amount: u64,
}

impl Account {
    fn is(&self, payer: Payer, kind: Kind) -> bool {
        self.payer == payer && self.kind == kind
    }
}

/// What somebody has of a kind now.
fn amount(accounts: &[Account], payer: Payer, kind: Kind) -> u64 {
    let mut accounts = accounts.iter();
    let account = accounts.find(|account| account.is(payer, kind));
    account.map_or(0, |account| account.amount)
}

/// Charge somebody; there is room for one account more.
///
/// # Errors
///
/// `ENOMEM` if there is none.
fn charge(accounts: &mut KVec<Account>, payer: Payer, kind: Kind, amount: u64) -> Result {
    if let Some(account) = accounts.iter_mut().find(|a| a.is(payer, kind)) {
        account.amount = account.amount.saturating_add(amount);
        return Ok(());
    }
    let account = Account {
        payer,
        kind,
        amount,
    };
    accounts.push_within_capacity(account).map_err(|_| ENOMEM)
}

/// Give back what somebody was charged with.
fn refund(accounts: &mut KVec<Account>, payer: Payer, kind: Kind, amount: u64) {
    let Some(at) = accounts.iter().position(|a| a.is(payer, kind)) else {
        return;
    };
    if let Some(account) = accounts.get_mut(at) {
        account.amount = account.amount.saturating_sub(amount);
        if account.amount == 0 {
            drop(accounts.remove(at));
        }
    }
}

/// What is had of a kind for one object; dropping it gives that back.
pub(crate) struct Share {
    payers: Arc<Payers>,
    kind: Kind,
    amount: u64,
}

impl Share {
    /// `amount` more of that kind, for which all `payers` are charged, who may have `most` each.
    ///
    /// # Errors
    ///
    /// `EDQUOT`, `ENOMEM`; nobody is charged.
    pub(crate) fn new(payers: &Arc<Payers>, kind: Kind, amount: u64, most: u64) -> Result<Self> {
        let mut accounts = SHARES.lock();
        let has_room = |payer| {
            let then = self::amount(&accounts, payer, kind).checked_add(amount);
            then.is_some_and(|then| then <= most)
        };
        if !payers.iter().all(has_room) {
            return Err(error::quota());
        }
        accounts.reserve(payers.len(), GFP_KERNEL)?;
        for payer in payers.iter() {
            charge(&mut accounts, payer, kind, amount)?;
        }
        Ok(Self {
            payers: payers.clone(),
            kind,
            amount,
        })
    }

    /// Who is charged.
    pub(crate) fn payers(&self) -> &Arc<Payers> {
        &self.payers
    }

    /// How much of that kind can still be had where each of `payers` may have `most`.
    pub(crate) fn left(payers: &Payers, kind: Kind, most: u64) -> u64 {
        let accounts = SHARES.lock();
        let taken = payers.iter().map(|payer| amount(&accounts, payer, kind));
        most.saturating_sub(taken.max().unwrap_or(0))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut accounts = SHARES.lock();
        for payer in self.payers.iter() {
            refund(&mut accounts, payer, self.kind, self.amount);
        }
        if accounts.is_empty() {
            // Nobody drops what is static.
            *accounts = KVec::new();
        }
    }
}

/// What the memory of a session counts as: for its user, if users are limited, and for the control group
/// of the process that has opened it.
pub(crate) struct WindowShare {
    _user: Option<Share>,
    group: Charge,
}

impl WindowShare {
    /// Both of them.
    pub(crate) fn new(user: Option<Share>, group: Charge) -> Self {
        Self { _user: user, group }
    }

    /// What memory that is cut for the session counts as, as long as that may be reached: for the
    /// group, whatever becomes of the session, of the link, and of this module.
    pub(crate) fn group(&self) -> &Charge {
        &self.group
    }
}
