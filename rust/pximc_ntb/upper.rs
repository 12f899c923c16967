// SPDX-License-Identifier: GPL-2.0-only

//! The upper side of a link: enters its peer into the message frame service
//! and removes it.
//!
//! Functions may sleep for long while they learn of a peer, and the heartbeat
//! must go on meanwhile. Hence this has a worker of its own, which follows what
//! the link wants at its own pace: a session that ended before it was entered
//! is never seen by any function.
//!
//! It also owns the interface, which is there whether or not a peer is, and says
//! there which peer is at the far end.

use crate::{
    channel_link::{
        ChannelLink,
        Poller, //
    },
    device::Shared, //
};
use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    net::napi::NapiHost,
    worker::Work, //
};
use mp_proto::{
    link::WaitsFor,
    wire::PeerId, //
};
use mp_transport::{
    interface::{
        self,
        Info,
        Kind, //
    },
    transport::PeerRegistration, //
};

/// A live channel with the peer it leads to.
pub(crate) struct Session {
    pub(crate) link: Arc<ChannelLink>,
    pub(crate) id: PeerId,
    pub(crate) index: u32,
}

/// What the message frame service knows of.
struct Entered {
    session: Arc<Session>,
    /// `None` if the peer was refused.
    peer: Option<PeerRegistration>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // First the pollers, so that functions get nothing from a peer that is leaving.
        self.session.link.stop();
        if self.peer.take().is_some() {
            pr_info!("peer {:08x} has left\n", self.session.id.0);
        }
    }
}

/// What is known of the interface to peer `pidx`, all of it before that is there.
///
/// # Errors
///
/// `ENOMEM`.
fn info(shared: &Shared, pidx: u32) -> Result<Info> {
    let location = shared.ntb().pci_function();
    let bridge = shared.bridge();
    let (id, name) = match &location {
        Some(function) => (
            interface::id_at(function, pidx),
            CString::try_from_fmt(format_args!("NTB {function} peer {pidx}"))?,
        ),
        // As good as nothing: only their number tells such bridges apart.
        None => (
            interface::id_of(bridge, pidx),
            CString::try_from_fmt(format_args!("NTB {bridge} peer {pidx}"))?,
        ),
    };
    Ok(Info {
        id,
        name,
        kind: Kind::Bridge,
        location,
        bridge: Some(bridge),
        port: pidx,
    })
}

/// Follows the sessions of one link.
#[pin_data]
pub(crate) struct Upper {
    shared: Arc<Shared>,
    interface: interface::Registration,
    /// The bridge has failed.
    is_failed: Atomic<bool>,
    /// That has been told.
    is_failure_told: Atomic<bool>,
    #[pin]
    wanted: Mutex<Option<Arc<Session>>>,
    #[pin]
    current: Mutex<Option<Entered>>,
}

impl Upper {
    /// The link to peer `pidx`, without a session, and its interface.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are too many interfaces, `ENOMEM`.
    pub(crate) fn new(shared: Arc<Shared>, pidx: u32) -> Result<Arc<Self>> {
        let interface = interface::Registration::new(info(&shared, pidx)?)?;
        Arc::pin_init(
            pin_init!(Self {
                shared,
                interface,
                is_failed: Atomic::new(false),
                is_failure_told: Atomic::new(false),
                wanted <- new_mutex!(None),
                current <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )
    }

    /// Set the session to follow; takes effect when the worker runs.
    pub(crate) fn want(&self, session: Option<Arc<Session>>) {
        *self.wanted.lock() = session;
    }

    /// The peer wrote what cannot be: its epoch has ended because of that.
    pub(crate) fn count_reset(&self) {
        self.interface.count_reset();
    }

    /// See [`interface::Registration::set_waits`].
    pub(crate) fn set_waits(&self, waits: Option<(WaitsFor, u64)>) {
        self.interface.set_waits(waits);
    }

    /// Whether the bridge has failed for good.
    pub(crate) fn is_failed(&self) -> bool {
        self.is_failed.load(Relaxed)
    }

    /// Whether the message frame service has the peer.
    pub(crate) fn is_entered(&self) -> bool {
        self.interface.interface().is_up()
    }

    /// The bridge has failed for good; takes effect when the worker runs. Whether that is new.
    pub(crate) fn fail(&self) -> bool {
        !self.is_failed.xchg(true, Relaxed)
    }

    fn enter(&self, session: Arc<Session>) -> Entered {
        let mut entered = Entered {
            session,
            peer: None,
        };
        let (id, index) = (entered.session.id, entered.session.index);
        match self.try_enter(&mut entered) {
            Ok(()) => pr_info!("peer {:08x} has arrived\n", id.0),
            Err(e) => {
                entered.peer = None;
                let why = match e {
                    e if e == EEXIST => ": another host has that id or index",
                    _ => "",
                };
                pr_err!(
                    "peer {:08x}, index {}, cannot be entered: error {}{}\n",
                    id.0,
                    index,
                    e.to_errno(),
                    why,
                );
                // There may be memory for it in the next epoch.
                if e == ENOMEM {
                    entered.session.link.channel().give_up();
                }
            }
        }
        entered
    }

    fn try_enter(&self, entered: &mut Entered) -> Result {
        let session = &entered.session;
        let link = session.link.clone();
        let transport = self.shared.transport();
        let registration = transport.add_peer(session.id, session.index, link)?;
        let peer = registration.peer().clone();
        entered.peer = Some(registration);

        let channel = session.link.channel();
        let host = NapiHost::new()?;
        let mut napis = KVec::new();
        for queue in 0..channel.queues() {
            let poller = Poller {
                channel: channel.clone(),
                peer: peer.clone(),
                queue,
                linger_ns: self.shared.settings().linger_ns,
            };
            napis.push(host.add(Arc::new(poller, GFP_KERNEL)?)?, GFP_KERNEL)?;
        }
        let look_ns = self.shared.settings().look_ns;
        session.link.start(napis, &self.shared.own_bell(), look_ns)
    }
}

impl Work for Upper {
    fn run(&self) -> Option<u32> {
        let mut current = self.current.lock();
        let is_failed = self.is_failed.load(Relaxed);
        let wanted = self.wanted.lock().clone().filter(|_| !is_failed);
        let same = match (&*current, &wanted) {
            (Some(entered), Some(wanted)) => Arc::ptr_eq(&entered.session, wanted),
            (None, None) => true,
            _ => false,
        };
        if !same {
            // The old session leaves before the new one comes.
            self.interface.set_peer(None);
            *current = None;
            *current = wanted.map(|session| self.enter(session));
            let peer = current.as_ref().and_then(|entered| entered.peer.as_ref());
            self.interface
                .set_peer(peer.map(|peer| peer.peer().clone()));
        }
        if is_failed && !self.is_failure_told.xchg(true, Relaxed) {
            self.interface.fail();
        }
        None
    }
}
