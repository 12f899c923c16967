// SPDX-License-Identifier: GPL-2.0-only

//! The windows of the peer.

use super::{
    Link,
    Up, //
};
use kernel::prelude::*;
use mp_kernel::error;
use mp_proto::pairing::RemoteWindow;

impl Link {
    /// Call `f` with the windows of the peer.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the interface has gone, `ENETDOWN`.
    pub(crate) fn with_windows<R>(&self, f: impl FnOnce(&Windows<'_>) -> R) -> Result<R> {
        let core = self.core.lock();
        match &core.up {
            _ if core.removed => Err(ENODEV),
            Some(up) => Ok(f(&Windows { link: self, up })),
            None => Err(error::net_down()),
        }
    }
}

/// The windows of the peer, as processes see them.
pub(crate) struct Windows<'a> {
    link: &'a Link,
    up: &'a Up,
}

impl Windows<'_> {
    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RemoteWindow> + '_ {
        self.up.engine.remote_windows()
    }

    /// What a window was posted with.
    pub(crate) fn data(&self, window: &RemoteWindow, f: impl FnOnce(&[u8])) {
        if self.link.is_loopback() {
            let session = self.link.session(window.session);
            f(session.as_ref().map_or(&[][..], |session| session.data()));
        } else {
            let posted = self.up.data.get(&window.session);
            f(posted.map_or(&[][..], |posted| &posted.data));
        }
    }
}
