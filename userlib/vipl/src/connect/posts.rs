// SPDX-License-Identifier: MIT OR Apache-2.0

//! How two peers come to the same session, where several links lead from one host to the other.
//!
//! The hosts need not see the links in the same order. So the one with the lower address posts its
//! request on each of those that it sees, and the other one on the first that it finds. They meet
//! there if the first one can post there; if it cannot, both wait until their time is over. Once that
//! link is lost, the other one posts on the next. Links over a bridge come before those that another
//! host forwards.

use super::{name, nap, Serial, Told, ANSWERED, ENCODED, HAS_BARE, PROTOCOL};
use crate::{vi::ViShared, Error, HostAddress, Result};
use mp_fabric::{Deadline, Device, Error as FabricError, EventMask, InterfaceId, Session, Wake};
use rustix::fd::AsFd;
use std::sync::Arc;

/// A request, on a link.
struct Post<D: Device> {
    interface: InterfaceId,
    /// Its session has no windows.
    is_bare: bool,
    session: Arc<Session<D>>,
}

/// The requests of a peer.
pub(super) struct Posts<'a, D: Device> {
    vi: &'a Arc<ViShared<D>>,
    serial: Serial,
    host: HostAddress,
    /// Both names, the own one first, and its length.
    names: (Vec<u8>, usize),
    own: &'a Told,
    posts: Vec<Post<D>>,
    /// Links that were lost since the request began, which does not outlive the last one.
    lost: Vec<InterfaceId>,
    wake: Arc<Wake>,
}

impl<'a, D: Device> Posts<'a, D> {
    pub(super) fn new(
        vi: &'a Arc<ViShared<D>>,
        serial: Serial,
        host: HostAddress,
        discriminator: &[u8],
        own: &'a Told,
    ) -> Result<Self> {
        let mine = name(vi.nic.local(), discriminator);
        let both = [&mine[..], &name(host, discriminator)].concat();
        Ok(Posts {
            vi,
            serial,
            host,
            names: (both, mine.len()),
            own,
            posts: Vec::new(),
            lost: Vec::new(),
            wake: vi.wake_of(serial)?,
        })
    }

    /// Wait until a peer has come, and it is clear which session counts. Those on other
    /// links end.
    ///
    /// # Errors
    /// [`Error::NotReachable`]: no link leads to the host, or all that did were lost;
    /// [`Error::Timeout`], [`Error::Resource`]; [`Error::InvalidState`]: it was given up.
    pub(super) fn wait(mut self, deadline: Deadline) -> Result<Arc<Session<D>>> {
        let nic = &self.vi.nic;
        loop {
            let tells = nic.arrivals.take(&nic.fabric, &self.wake)?;
            let is_told = self.post()? && tells;
            if let Some(index) = self.come()? {
                return Ok(self.choose(index));
            }
            if deadline.remaining().is_some_and(|left| left.is_zero()) {
                return Err(Error::Timeout);
            }
            nic.arrivals.sleep(&self.wake, nap(deadline, is_told));
        }
    }

    /// Post on the links on which that has to be done and was not; false if it cannot now on some of
    /// them, and nothing tells when it can.
    fn post(&mut self) -> Result<bool> {
        let links = self.vi.nic.interfaces_to(self.host)?.into_iter();
        let is_left = !self.posts.is_empty();
        let links: Vec<_> = links
            .filter(|link| is_left || !self.lost.contains(link))
            .collect();
        let posts_on_each = self.vi.nic.local() < self.host;
        let mut failure = None;
        for link in links {
            let is_posted = self.posts.iter().any(|post| post.interface == link);
            if is_posted || !posts_on_each && !self.posts.is_empty() {
                continue;
            }
            match self.post_on(link) {
                Ok(()) => {}
                // Not reachable now: the interface tells when it is.
                Err(Error::NotReachable) if !self.posts.is_empty() => {}
                Err(error) => failure = Some(error),
            }
        }
        match self.posts.is_empty() {
            true => Err(failure.unwrap_or(Error::NotReachable)),
            false => Ok(failure.is_none()),
        }
    }

    /// Post on a link: where memory is short, first without windows. A partner that sees the session
    /// with windows finds the other one.
    fn post_on(&mut self, interface: InterfaceId) -> Result<()> {
        let nic = &self.vi.nic;
        let (names, len) = &self.names;
        let peer = || {
            let peer = nic.fabric.peer(interface, PROTOCOL).name(names);
            peer.own_name(*len as u32)
        };
        let without = || {
            let meeting = nic.meeting(self.serial).encode();
            let data = [&self.own.encode()[..], &meeting].concat();
            peer().data(&data).bare().open().ok()
        };
        let bare = nic.is_short(interface).then(without).flatten();
        let says = [&self.own.encode()[..], &[HAS_BARE]].concat();
        let data = match bare {
            Some(_) => &says[..],
            None => says.get(..ENCODED).unwrap_or_default(),
        };
        let window = nic.window(interface);
        let windows = peer().data(data).local(window.clone()).remote(window);
        let windows = windows.open();
        let bare = match windows {
            Err(FabricError::NoSpace(_)) => bare.or_else(without),
            _ => bare,
        };
        match (bare, windows) {
            (None, Err(error)) => Err(error.into()),
            (bare, windows) => {
                let both = [(true, bare), (false, windows.ok())];
                let sessions = both
                    .into_iter()
                    .filter_map(|(is_bare, s)| Some((is_bare, s?)));
                sessions
                    .into_iter()
                    .try_for_each(|(is_bare, session)| self.add(interface, is_bare, session))
            }
        }
    }

    /// Add a session, which ends with the attempt.
    fn add(&mut self, interface: InterfaceId, is_bare: bool, session: Session<D>) -> Result<()> {
        let session = Arc::new(session);
        self.vi.keep(self.serial, &session)?;
        match session.notify(ANSWERED, Some(self.wake.as_fd())) {
            // Closed by who gave the attempt up.
            Err(FabricError::NotFound(_)) => return Err(Error::InvalidState),
            other => other?,
        }
        self.posts.push(Post {
            interface,
            is_bare,
            session,
        });
        Ok(())
    }

    /// The first session that a peer has come to. Those whose links were lost before end.
    ///
    /// # Errors
    /// [`Error::InvalidState`]: it was given up.
    fn come(&mut self) -> Result<Option<usize>> {
        let mut index = 0;
        while let Some(post) = self.posts.get(index) {
            let events = post
                .session
                .state()
                .map_err(|_| Error::InvalidState)?
                .events;
            if events.contains(EventMask::DOWN) {
                let post = self.posts.remove(index);
                // It may have ended by itself.
                let _ = post.session.close();
                self.lost.push(post.interface);
                // Others are posted on without it, by the next look.
                self.wake.ring();
                continue;
            }
            if events.intersects(ANSWERED) {
                return Ok(Some(index));
            }
            index += 1;
        }
        Ok(None)
    }

    /// The session that counts once a peer has come to one: that without windows if the peer has
    /// posted one on the same link as well.
    fn choose(mut self, index: usize) -> Arc<Session<D>> {
        let come = self.posts.swap_remove(index);
        let is_same = |post: &Post<D>| post.interface == come.interface;
        let (same, others): (Vec<_>, Vec<_>) = self.posts.drain(..).partition(is_same);
        for post in others {
            // It may have ended by itself.
            let _ = post.session.close();
        }
        let says = || {
            let partner = come.session.partner().map(|partner| partner.data);
            partner.is_ok_and(|data| data.get(ENCODED) == Some(&HAS_BARE))
        };
        let bare = same.into_iter().find(|post| post.is_bare);
        match bare {
            Some(bare) if !come.is_bare && says() => bare.session,
            _ => come.session,
        }
    }
}
