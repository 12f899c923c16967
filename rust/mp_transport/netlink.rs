// SPDX-License-Identifier: GPL-2.0-only

//! Management over generic netlink: the family that `uapi/linux/mp_netlink.h`
//! describes.
//!
//! Everybody may look; what sends frames to another host needs `CAP_NET_ADMIN`.
//! The family is there as long as the module, in the first network namespace.

use crate::{
    interface,
    peer::Peer,
    questions::{
        self,
        Answer, //
    },
    service, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    error,
    genl::{
        self,
        Asker,
        Attribute,
        Command,
        Family,
        Group,
        Message,
        Request,
        SocketGone, //
    },
    notifier::{
        Listener,
        Notifier, //
    }, //
};
use mp_proto::wire::PeerId;

#[path = "netlink/describe.rs"]
mod describe;
#[path = "netlink/uapi.rs"]
mod uapi;

/// The family.
static FAMILY: Family<Management> = Family::new();

/// Keeps the family open.
pub(crate) struct Registration {
    _family: genl::Registration<Management>,
    _sockets: Notifier<SocketGone, Sockets>,
}

/// Open the family.
///
/// # Errors
///
/// `EEXIST` if another family has the name, `ENOMEM`.
pub(crate) fn start(module: &'static ThisModule) -> Result<Registration> {
    let sockets = Notifier::new(Arc::new(Sockets, GFP_KERNEL)?)?;
    Ok(Registration {
        _family: FAMILY.register(module)?,
        _sockets: sockets,
    })
}

/// Listens to sockets that are closed.
struct Sockets;

impl Listener<SocketGone> for Sockets {
    fn notify(&self, socket: u32) {
        questions::forget(socket);
    }
}

/// Tell listeners that a peer has arrived. Process context.
pub(crate) fn arrived(peer: &Peer) {
    notify(uapi::MP_CMD_PEER_ADD_NTF, peer);
}

/// Tell listeners that a peer has left. Process context.
pub(crate) fn left(peer: &Peer) {
    notify(uapi::MP_CMD_PEER_DEL_NTF, peer);
}

fn notify(event: u32, peer: &Peer) {
    FAMILY.notify(event as u8, |message| describe::peer(message, peer));
}

/// What the family understands and says.
pub(crate) struct Management;

/// The text of a string that bindgen has found in a header.
const fn text(bytes: &'static [u8]) -> &'static CStr {
    match CStr::from_bytes_with_nul(bytes) {
        Ok(text) => text,
        Err(_) => panic!("a string of the header without an end"),
    }
}

/// The attributes that requests may have.
const ATTRIBUTES: [Attribute; uapi::MP_A_TIMEOUT_MS as usize + 1] =
    genl::numbers(&[uapi::MP_A_PEER_ID, uapi::MP_A_TIMEOUT_MS]);

impl genl::Protocol for Management {
    const NAME: &'static CStr = text(uapi::MP_GENL_NAME);
    const VERSION: u8 = uapi::MP_GENL_VERSION as u8;
    const COMMANDS: &'static [Command<Self>] = &[
        Command::answered(uapi::MP_CMD_HOST_GET as u8),
        Command::answered(uapi::MP_CMD_PEER_GET as u8).listed(),
        Command::answered_later(uapi::MP_CMD_REMOTE_STATS_GET as u8).privileged(),
        Command::answered_later(uapi::MP_CMD_PING as u8).privileged(),
        Command::answered(uapi::MP_CMD_INTERFACE_GET as u8).listed(),
    ];
    const ATTRIBUTES: &'static [Attribute] = &ATTRIBUTES;
    const EVENTS: &'static [Group; 1] = &[Group::new(text(uapi::MP_GENL_GROUP_PEERS))];

    fn answer(command: u8, request: &Request<'_>, answer: &mut Message<'_>) -> Result {
        match u32::from(command) {
            uapi::MP_CMD_HOST_GET => describe::host(answer),
            uapi::MP_CMD_PEER_GET => describe::peer(answer, &*find(request)?),
            // Only all of them are told.
            _ => Err(error::unsupported()),
        }
    }

    fn take(command: u8, request: &Request<'_>) -> Result {
        ask(command, request)
    }

    fn list(command: u8, position: usize, entry: &mut Message<'_>) -> Result<Option<usize>> {
        // The position is the lowest index or id that is still to come.
        let before = position.checked_sub(1).map(|number| number as u32);
        match u32::from(command) {
            uapi::MP_CMD_INTERFACE_GET => list_interface(before, entry),
            _ => list_peer(before, entry),
        }
    }
}

/// Write the peer behind that index, and say which index is next.
fn list_peer(before: Option<u32>, entry: &mut Message<'_>) -> Result<Option<usize>> {
    let Some(peer) = service::peer_next(before) else {
        return Ok(None);
    };
    describe::peer(entry, &peer)?;
    Ok(Some(peer.index() as usize + 1))
}

/// Write the interface behind that id, and say which id is next.
fn list_interface(before: Option<u32>, entry: &mut Message<'_>) -> Result<Option<usize>> {
    let Some(interface) = interface::next(before) else {
        return Ok(None);
    };
    describe::interface(entry, &interface)?;
    Ok(Some(interface.id() as usize + 1))
}

/// The peer that a request names.
///
/// # Errors
///
/// `EINVAL` if it names none, `ENOTCONN` if there is no such peer.
fn find(request: &Request<'_>) -> Result<Arc<Peer>> {
    let id = PeerId(request.required(uapi::MP_A_PEER_ID)?);
    service::peer_get(id)
        .ok_or_else(|| request.refuse(error::not_connected(), c"there is no such peer"))
}

/// Ask the peer that a request names. The program is told later.
///
/// # Errors
///
/// `EINVAL` for the local host or a time limit out of range; see [`find`] and
/// [`questions::ask_for`].
fn ask(command: u8, request: &Request<'_>) -> Result {
    let peer = find(request)?;
    if peer.id() == service::self_id() || peer.id() == PeerId::SELF {
        return Err(request.refuse(EINVAL, c"that is this host itself"));
    }
    let timeout = request
        .number(uapi::MP_A_TIMEOUT_MS)
        .unwrap_or(uapi::MP_TIMEOUT_MS_DEFAULT);
    if !(1..=uapi::MP_TIMEOUT_MS_MAX).contains(&timeout) {
        return Err(request.refuse(EINVAL, c"the time limit is out of range"));
    }
    let program = Awaiting {
        asker: request.asker(),
        command,
        peer: peer.id(),
    };
    questions::ask_for(&peer, timeout, program).map_err(|e| match reason(e) {
        Some(why) => request.refuse(e, why),
        None => e,
    })
}

/// Why a question has no answer, for the user.
fn reason(error: Error) -> Option<&'static CStr> {
    Some(match error {
        e if e == ETIMEDOUT => c"the peer does not answer",
        e if e == error::not_connected() => c"the peer has left",
        e if e == EAGAIN => c"the ring to the peer is full",
        e if e == EBUSY => c"too many questions are open",
        e if e == ENODEV => c"the fabric is being unloaded",
        _ => return None,
    })
}

/// A program that has asked a peer, and waits for the answer at its socket.
#[derive(Clone, Copy)]
pub(crate) struct Awaiting {
    asker: Asker,
    command: u8,
    peer: PeerId,
}

impl Awaiting {
    /// Whether this is its socket.
    pub(crate) fn is_of(&self, socket: u32) -> bool {
        self.asker.socket() == socket
    }

    /// Tell it what the peer has answered, or why there is no answer. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, with which it may be told again; others if the program does not listen.
    pub(crate) fn tell(&self, outcome: Result<Answer>) -> Result {
        match outcome {
            Ok(answer) => FAMILY.answer(&self.asker, self.command, |message| {
                self.write(&answer, message)
            }),
            Err(error) => self.asker.refuse(error, reason(error)),
        }
    }

    fn write(&self, answer: &Answer, message: &mut Message<'_>) -> Result {
        message.number(uapi::MP_A_PEER_ID, self.peer.0.into())?;
        match u32::from(self.command) {
            uapi::MP_CMD_PING => message.number(uapi::MP_A_ROUND_TRIP_NS, answer.round_trip_ns),
            _ => describe::stats(message, &answer.stats),
        }
    }
}
