// SPDX-License-Identifier: GPL-2.0-only

//! Those who are to be told that they may not reach memory any more.

use super::Holder;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::error;

/// Names a holder among those of one list.
type Token = u64;

struct List {
    /// Until all are told.
    is_open: bool,
    next: Token,
    entries: KVec<(Token, Arc<dyn Holder>)>,
}

/// A list of holders.
#[pin_data]
pub(super) struct Holders {
    /// Held while holders are told; the outer one of the two.
    #[pin]
    telling: Mutex<()>,
    #[pin]
    list: Mutex<List>,
}

impl Holders {
    /// An empty list.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                telling <- new_mutex!(()),
                list <- new_mutex!(List {
                    is_open: true,
                    next: 0,
                    entries: KVec::new(),
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Add a holder, for as long as the hold is there.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if the others have been told, `ENOMEM`.
    pub(super) fn add(self: &Arc<Self>, holder: Arc<dyn Holder>) -> Result<Hold> {
        let mut list = self.list.lock();
        if !list.is_open {
            return Err(error::not_connected());
        }
        let token = list.next;
        list.entries.push((token, holder), GFP_KERNEL)?;
        list.next += 1;
        Ok(Hold {
            holders: self.clone(),
            token,
        })
    }

    /// Take a holder off the list. It is not being told when this returns.
    fn remove(&self, token: Token) {
        let mut list = self.list.lock();
        let at = list.entries.iter().position(|(t, _)| *t == token);
        let removed = at.and_then(|at| list.entries.remove(at).ok());
        drop(list);
        if removed.is_none() {
            drop(self.telling.lock());
        }
    }

    /// Tell all holders, one after the other, and let nobody in any more.
    pub(super) fn revoke(&self) {
        let _telling = self.telling.lock();
        self.list.lock().is_open = false;
        loop {
            let next = self.list.lock().entries.pop();
            let Some((_, holder)) = next else {
                return;
            };
            holder.revoke();
        }
    }
}

/// Tell a [`Holder`] when it may not reach a piece of memory any more, for as long
/// as it lives.
///
/// The holder may refer to the piece, and lives at least as long as the hold. Dropping
/// the hold sleeps, and returns when no call of [`Holder::revoke`] is under way or can
/// start; what the holder has mapped is taken away before that.
pub struct Hold {
    holders: Arc<Holders>,
    token: Token,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holders.remove(self.token);
    }
}
