// SPDX-License-Identifier: MIT OR Apache-2.0

//! Names of sessions, and servers that answer each request themselves.

use super::state::{sizes, Session, State};
use mp_fabric::sys::*;
use rustix::io::Errno;

type Result<T> = std::result::Result<T, Errno>;

/// What a session is told of another one.
#[derive(Clone, Debug)]
pub struct Told {
    peer: u32,
    data: Vec<u8>,
    /// Least and most of the local and the remote window.
    sizes: [u64; 4],
}

/// What a request has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Rejected(u32),
    Gone,
}

/// What a session has to do with requests.
#[derive(Debug, Default)]
pub struct Acceptance {
    /// Of a server: the client whose request is at hand.
    client: Option<u32>,
    /// Of a server: requests so far.
    count: u32,
    /// Of a client: the server that has its request.
    server: Option<u32>,
    refusal: Option<Refusal>,
    /// The partner, or who asks, or who has refused.
    pub partner: Option<Told>,
    /// Of a server: it takes no more requests.
    pub is_over: bool,
}

/// Whether the flags and the name are such that there may be.
pub fn may_be(open: &mp_session_open, name: &[u8]) -> bool {
    let flags = match open.role {
        MP_ROLE_SERVER if open.flags & MP_SESSION_DEFER != 0 => MP_SESSION_DEFER | MP_SESSION_ONCE,
        MP_ROLE_SERVER => MP_SESSION_DEFER,
        _ => MP_SESSION_NONBLOCK,
    };
    let own = match open.role {
        MP_ROLE_PEER => name.len(),
        _ => 0,
    };
    open.flags & !(flags | MP_SESSION_NO_WINDOWS) == 0
        && name.len() <= MP_NAME_MAX as usize
        && open.name_own as usize <= own
}

/// Whether a service that knows no names cannot be asked for it.
pub fn is_new(open: &mp_session_open) -> bool {
    open.name_size != 0 || open.flags & (MP_SESSION_DEFER | MP_SESSION_NO_WINDOWS) != 0
}

/// Whether the names and flags of two sessions fit, and the other one has no request at hand.
pub fn meet((open, name): (&mp_session_open, &[u8]), other: &Session) -> bool {
    let (own, wanted) = name.split_at(open.name_own as usize);
    let (theirs, others) = other.name.split_at(other.open.name_own as usize);
    let is_divided = open.name_own != 0;
    let named = match is_divided == (other.open.name_own != 0) {
        true if is_divided => own == others && wanted == theirs,
        equally => equally && name == other.name,
    };
    let bare = (open.flags ^ other.open.flags) & MP_SESSION_NO_WINDOWS == 0;
    named && bare && other.acceptance.client.is_none()
}

impl State {
    pub fn holds(&self, server: u32) -> bool {
        let server = self.sessions.get(&server);
        server.is_some_and(|server| server.open.flags & MP_SESSION_DEFER != 0)
    }

    /// What is told of a session before it has a partner.
    pub fn told(&self, handle: u32) -> Option<Told> {
        let session = self.sessions.get(&handle)?;
        let open = &session.open;
        Some(Told {
            peer: session.host as u32,
            data: session.data.clone(),
            sizes: [
                open.local_min,
                open.local_max,
                open.remote_min,
                open.remote_max,
            ],
        })
    }

    /// A client asks a server that holds requests.
    pub fn ask(&mut self, client: u32, server: u32) {
        let told = self.told(client);
        let to = self.told(server);
        if let Some(session) = self.sessions.get_mut(&client) {
            session.acceptance.server = Some(server);
            session.acceptance.partner = to.map(|told| Told {
                data: Vec::new(),
                ..told
            });
        }
        if let Some(session) = self.sessions.get_mut(&server) {
            session.acceptance.client = Some(client);
            session.acceptance.count += 1;
            session.acceptance.partner = told;
        }
        self.raise(server, MP_EVENT_REQUEST);
    }

    /// What the call of a client that waits for its answer has come to. One that was refused does
    /// not exist any more.
    pub fn outcome(&mut self, context: u32, handle: u32) -> Result<()> {
        let acceptance = &self.session(context, handle)?.acceptance;
        match (acceptance.server, acceptance.refusal) {
            (_, Some(_)) => {
                self.close(context, handle)?;
                Err(Errno::CONNREFUSED)
            }
            (Some(_), None) => Err(Errno::AGAIN),
            (None, None) => Ok(()),
        }
    }

    /// Describe the other side of a session.
    pub fn partner(
        &self,
        context: u32,
        out: &mut mp_session_partner,
        room: &mut [u8],
    ) -> Result<()> {
        let session = self.session(context, out.handle)?;
        let acceptance = &session.acceptance;
        (out.request, out.reason) = (0, 0);
        out.state = match acceptance.refusal {
            Some(Refusal::Rejected(reason)) => {
                out.reason = reason;
                MP_PARTNER_REJECTED
            }
            Some(Refusal::Gone) => MP_PARTNER_GONE,
            None if session.events & MP_EVENT_PAIRED != 0 => MP_PARTNER_PAIRED,
            None if acceptance.client.is_some() => {
                out.request = acceptance.count;
                MP_PARTNER_REQUEST
            }
            None => return Err(Errno::NOTCONN),
        };
        let told = acceptance.partner.as_ref().ok_or(Errno::NOTCONN)?;
        out.peer = told.peer;
        [out.local_min, out.local_max, out.remote_min, out.remote_max] = told.sizes;
        if out.state == MP_PARTNER_PAIRED {
            // As the partner sees them.
            let (theirs, own) = (session.remote.size, session.local.size);
            (out.local_min, out.local_max) = (theirs, theirs);
            (out.remote_min, out.remote_max) = (own, own);
        }
        out.data_size = told.data.len() as u32;
        let room = room.get_mut(..told.data.len()).ok_or(Errno::NOSPC)?;
        room.copy_from_slice(&told.data);
        Ok(())
    }

    /// Accept or reject a request.
    pub fn answer(&mut self, context: u32, answer: &mp_session_answer, data: &[u8]) -> Result<()> {
        let handle = answer.handle;
        let session = self.session(context, handle)?;
        let accepts = match answer.flags {
            MP_ANSWER_ACCEPT if answer.reason == 0 => true,
            MP_ANSWER_REJECT => false,
            _ => return Err(Errno::INVAL),
        };
        if data.len() > MP_WINDOW_DATA_MAX as usize || !self.holds(handle) {
            return Err(Errno::INVAL);
        }
        if !self.is_up(session.link) {
            return Err(Errno::NETDOWN);
        }
        let at_hand = session.acceptance.count == answer.request;
        let client = session.acceptance.client.filter(|_| at_hand);
        let client = client.ok_or(Errno::CONNRESET)?;
        if accepts {
            return self.accept(handle, client, data);
        }
        self.refuse(client, Refusal::Rejected(answer.reason), data);
        self.request_ends(handle);
        Ok(())
    }

    fn accept(&mut self, server: u32, client: u32, data: &[u8]) -> Result<()> {
        let (Some(to), Some(of)) = (self.sessions.get(&server), self.sessions.get(&client)) else {
            return Err(Errno::CONNRESET);
        };
        let free = self.links[of.link].free;
        let sizes = sizes(&of.open, &to.open, free, of.host).ok_or(Errno::NOSPC)?;
        if let Some(session) = self.sessions.get_mut(&server) {
            session.acceptance.client = None;
            session.events &= !MP_EVENT_REQUEST;
        }
        if let Some(session) = self.sessions.get_mut(&client) {
            session.acceptance.server = None;
            if let Some(told) = &mut session.acceptance.partner {
                told.data = data.into();
            }
        }
        self.pair(client, server, sizes.0, sizes.1)
    }

    fn refuse(&mut self, client: u32, refusal: Refusal, data: &[u8]) {
        if let Some(session) = self.sessions.get_mut(&client) {
            session.acceptance.server = None;
            session.acceptance.refusal = Some(refusal);
            if let Some(told) = &mut session.acceptance.partner {
                told.data = data.into();
            }
        }
        self.raise(client, MP_EVENT_REFUSED);
    }

    /// A server has no request any more, and no partner.
    fn request_ends(&mut self, server: u32) {
        let mut changed = None;
        if let Some(session) = self.sessions.get_mut(&server) {
            session.acceptance.client = None;
            session.acceptance.partner = None;
            if session.open.flags & MP_SESSION_ONCE != 0 {
                session.acceptance.is_over = true;
                changed = Some((session.link, session.host.other()));
            }
        }
        self.clear(server, MP_EVENT_REQUEST);
        if let Some((link, host)) = changed {
            self.raise(server, MP_EVENT_CLOSED);
            self.windows_changed(link, host);
        }
    }

    /// A session has been closed: its request is withdrawn, or the one that it had is refused.
    pub fn end_requests(&mut self, handle: u32, session: &Session) {
        if let Some(client) = session.acceptance.client {
            self.refuse(client, Refusal::Gone, &[]);
        }
        let server = session.acceptance.server;
        if let Some(server) = server.filter(|server| self.has_request(*server, handle)) {
            self.request_ends(server);
        }
    }

    fn has_request(&self, server: u32, client: u32) -> bool {
        let server = self.sessions.get(&server);
        server.is_some_and(|server| server.acceptance.client == Some(client))
    }

    /// A link has gone down: requests over it end.
    pub fn requests_lost(&mut self, link: usize) {
        let on_link = self.sessions.values().filter(|s| s.link == link);
        let asked = on_link.filter_map(|s| Some((s.open.handle, s.acceptance.client?)));
        for (server, client) in asked.collect::<Vec<_>>() {
            self.refuse(client, Refusal::Gone, &[]);
            self.request_ends(server);
        }
    }
}
