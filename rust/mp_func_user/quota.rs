// SPDX-License-Identifier: GPL-2.0-only

//! What a user has over all contexts, of what there is not enough for everybody: places in
//! tables that all users share, memory of the kernel, and memory that peers reach.

use kernel::prelude::*;
use mp_kernel::{
    error,
    process::UserId, //
};

kernel::sync::global_lock! {
    // SAFETY: Initialised in the module's `init`, before there are contexts.
    pub(crate) unsafe(uninit) static SHARES: Mutex<KVec<Account>> = KVec::new();
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Open files.
    Context,
    /// Sessions.
    Session,
    /// Uses of segments of this host.
    Segment,
    /// Connections.
    Connection,
    /// All objects but sessions, segments and connections included.
    Object,
    /// Bytes that peers may come to reach: of the link of that interface, or with none
    /// those that segments are cut from.
    Memory(Option<u32>),
}

/// How much a user has of a kind.
pub(crate) struct Account {
    user: UserId,
    kind: Kind,
    amount: u64,
}

impl Account {
    fn is(&self, user: UserId, kind: Kind) -> bool {
        self.user == user && self.kind == kind
    }
}

/// What a user has of a kind now.
fn amount(accounts: &[Account], user: UserId, kind: Kind) -> u64 {
    let mut accounts = accounts.iter();
    let account = accounts.find(|account| account.is(user, kind));
    account.map_or(0, |account| account.amount)
}

/// What a user has of a kind for one object; dropping it gives that back.
pub(crate) struct Share {
    user: UserId,
    kind: Kind,
    amount: u64,
}

impl Share {
    /// `amount` more of that kind for `user`, who may have `most`.
    ///
    /// # Errors
    ///
    /// `EDQUOT`, `ENOMEM`.
    pub(crate) fn new(user: UserId, kind: Kind, amount: u64, most: u64) -> Result<Self> {
        let mut accounts = SHARES.lock();
        let there = self::amount(&accounts, user, kind);
        let then = there.checked_add(amount).filter(|then| *then <= most);
        let then = then.ok_or_else(error::quota)?;
        match accounts.iter_mut().find(|account| account.is(user, kind)) {
            Some(account) => account.amount = then,
            None => {
                let account = Account {
                    user,
                    kind,
                    amount: then,
                };
                accounts.push(account, GFP_KERNEL)?;
            }
        }
        Ok(Self { user, kind, amount })
    }

    /// How much of that kind `user`, who may have `most`, can still get.
    pub(crate) fn left(user: UserId, kind: Kind, most: u64) -> u64 {
        most.saturating_sub(amount(&SHARES.lock(), user, kind))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut accounts = SHARES.lock();
        let is_it = |account: &Account| account.is(self.user, self.kind);
        let Some(at) = accounts.iter().position(is_it) else {
            return;
        };
        if let Some(account) = accounts.get_mut(at) {
            account.amount = account.amount.saturating_sub(self.amount);
            if account.amount == 0 {
                drop(accounts.remove(at));
            }
        }
        if accounts.is_empty() {
            // Nobody drops what is static.
            *accounts = KVec::new();
        }
    }
}
