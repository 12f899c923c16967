// SPDX-License-Identifier: MIT OR Apache-2.0

//! What both hosts know, and how sessions find each other: the criteria of PXImc's section on
//! pairing, tried in the order of opening.

use super::{
    acceptance::{self, Acceptance},
    sharing::Sharing,
    Host, LOOPBACK,
};
use mp_fabric::sys::*;
use rustix::{
    event::{eventfd, EventfdFlags},
    fd::OwnedFd,
    fs::{ftruncate, memfd_create, MemfdFlags},
    io::{self, Errno},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

type Result<T> = std::result::Result<T, Errno>;

const BUS_ADDRESS: u64 = 0x38_0000_0000;

pub fn interface(link: usize, host: Host) -> u32 {
    0x10 * (link as u32 + 1) + host as u32
}

#[derive(Debug)]
pub struct Link {
    pub up: bool,
    pub epoch: u64,
    pub present: [bool; 2],
    pub total: u64,
    pub free: [u64; 2],
    /// The host that it leads from, and to.
    pub own: Option<Host>,
}

impl Link {
    /// One between the hosts.
    pub fn new(total: u64) -> Self {
        Link {
            own: None,
            up: true,
            epoch: 1,
            present: [true; 2],
            total,
            free: [total; 2],
        }
    }
}

/// A window of a pair.
#[derive(Clone, Debug)]
pub struct Place {
    pub size: u64,
    pub file: Option<Arc<OwnedFd>>,
}

#[derive(Debug)]
pub struct Session {
    pub context: u32,
    pub host: Host,
    pub link: usize,
    pub open: mp_session_open,
    pub data: Vec<u8>,
    pub name: Vec<u8>,
    pub acceptance: Acceptance,
    pub events: u32,
    pub partner: Option<u32>,
    pub local: Place,
    pub remote: Place,
    pub access: Vec<(u32, u32, u8, u8)>,
}

/// What a pair holds until both sides have closed.
#[derive(Debug)]
struct Pair {
    link: usize,
    sides: [Side; 2],
}

#[derive(Debug)]
struct Side {
    handle: u32,
    host: Host,
    uid: u32,
    bytes: u64,
    closed: bool,
}

/// Handle or interface, and which of them.
pub type Key = (u32, bool);

#[derive(Debug)]
pub struct Context {
    pub host: Host,
    pub readable: OwnedFd,
    pub reported: Vec<mp_event>,
    pub watches: HashMap<Key, mp_watch>,
    pub notifies: HashMap<Key, (u32, OwnedFd)>,
    pub interfaces: HashMap<u32, u32>,
}

#[derive(Debug)]
pub struct State {
    pub links: Vec<Link>,
    pub contexts: BTreeMap<u32, Context>,
    pub sessions: BTreeMap<u32, Session>,
    pairs: Vec<Pair>,
    next: u32,
    pub waiting: usize,
    pub privileged: bool,
    pub reachable: bool,
    /// Whether drivers copy where no window leads.
    pub places: bool,
    pub tells_arrivals: bool,
    pub mappable: bool,
    pub routed: bool,
    pub signals_fail: u32,
    /// How many stores fail, and with what.
    pub stores_fail: (u32, Errno),
    pub pci: bool,
    pub quota: usize,
    pub version: u32,
    pub fills: bool,
    pub accepts: bool,
    pub big_endian: bool,
    /// Most bytes that can be pinned.
    pub pinned: u64,
    pub name: Vec<u8>,
    pub sharing: Sharing,
    /// Most bytes of a segment, and of one that peers reach.
    pub memory: u64,
    pub window: u64,
}

impl State {
    pub fn new(links: Vec<Link>) -> Self {
        State {
            links,
            contexts: BTreeMap::new(),
            sessions: BTreeMap::new(),
            pairs: Vec::new(),
            next: 100,
            waiting: 0,
            privileged: true,
            reachable: true,
            places: true,
            tells_arrivals: true,
            mappable: true,
            routed: false,
            signals_fail: 0,
            stores_fail: (0, Errno::NOMEM),
            pci: true,
            quota: 1024,
            version: mp_fabric::sys::MP_FABRIC_VERSION,
            fills: true,
            accepts: true,
            big_endian: false,
            pinned: 1 << 24,
            name: b"ntb0".to_vec(),
            sharing: Sharing::default(),
            memory: 1 << 32,
            window: 1 << 24,
        }
    }

    /// Whether another host forwards to the peer at an interface.
    pub fn is_routed(&self, interface: u32) -> bool {
        self.routed && interface != LOOPBACK
    }

    pub fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub fn enter(&mut self, host: Host) -> Result<(u32, OwnedFd)> {
        let readable = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let copy = readable.try_clone().map_err(|_| Errno::MFILE)?;
        let context = Context {
            host,
            readable,
            reported: Vec::new(),
            watches: HashMap::new(),
            notifies: HashMap::new(),
            interfaces: HashMap::new(),
        };
        let number = self.number();
        self.enter_objects(number)?;
        self.contexts.insert(number, context);
        Ok((number, copy))
    }

    pub fn leave(&mut self, context: u32) {
        let own = self.sessions.iter().filter(|(_, s)| s.context == context);
        let own: Vec<u32> = own.map(|(handle, _)| *handle).collect();
        for handle in own {
            let _ = self.close(context, handle);
        }
        self.leave_objects(context);
        self.contexts.remove(&context);
    }

    /// The link behind an interface.
    pub fn link(&self, host: Host, id: u32) -> Result<usize> {
        let leads = |link: &usize| match self.links[*link].own {
            None => interface(*link, host) == id,
            own => id == LOOPBACK && own == Some(host),
        };
        let link = (0..self.links.len()).find(leads);
        link.filter(|link| self.links[*link].present[host as usize])
            .ok_or(Errno::NODEV)
    }

    pub fn link_up(&self, host: Host, id: u32) -> Result<usize> {
        let link = self.link(host, id)?;
        if !self.is_up(link) {
            return Err(Errno::NETDOWN);
        }
        Ok(link)
    }

    pub fn is_up(&self, link: usize) -> bool {
        self.links[link].up && self.links[link].present == [true; 2]
    }

    pub fn session(&self, context: u32, handle: u32) -> Result<&Session> {
        let session = self.sessions.get(&handle);
        session
            .filter(|session| session.context == context)
            .ok_or(Errno::NOENT)
    }

    pub fn session_mut(&mut self, context: u32, handle: u32) -> Result<&mut Session> {
        let session = self.sessions.get_mut(&handle);
        session
            .filter(|session| session.context == context)
            .ok_or(Errno::NOENT)
    }

    /// A session that is in use with its partner, which is there.
    pub fn paired(&self, context: u32, handle: u32) -> Result<&Session> {
        let session = self.session(context, handle)?;
        if session.events & MP_EVENT_CLOSED != 0 {
            Err(Errno::CONNRESET)
        } else if session.events & MP_EVENT_DOWN != 0 {
            Err(Errno::NETDOWN)
        } else if session.events & MP_EVENT_PAIRED == 0 {
            Err(Errno::NOTCONN)
        } else {
            Ok(session)
        }
    }

    pub fn access(&self, handle: u32) -> Vec<(u32, u32, u8, u8)> {
        self.sessions
            .get(&handle)
            .map_or(Vec::new(), |session| session.access.clone())
    }

    /// Windows of the other host, as a host sees them; its own on the link with itself.
    pub fn windows(&self, host: Host, link: usize) -> impl Iterator<Item = &Session> {
        let all = self.sessions.values();
        let own = self.links[link].own.is_some();
        let is_there = |session: &&Session| !session.acceptance.is_over;
        all.filter(move |session| session.link == link && (own || session.host != host))
            .filter(is_there)
    }

    /// The unique identifiers that sessions of a host have.
    fn uids(&self, host: Host, link: usize) -> HashSet<u32> {
        let sessions = self.sessions.values();
        let open = sessions.filter(|s| s.host == host && s.link == link);
        let pairs = self.pairs.iter().filter(|pair| pair.link == link);
        let held = pairs.flat_map(|pair| &pair.sides);
        let held = held.filter(|side| side.host == host);
        let open = open.map(|session| session.open.uid);
        open.chain(held.map(|side| side.uid)).collect()
    }

    fn uid_in_use(&self, host: Host, link: usize, uid: u32) -> bool {
        self.uids(host, link).contains(&uid)
    }

    fn free_uid(&self, host: Host, link: usize) -> u32 {
        let used = self.uids(host, link);
        let mut uids = 1..;
        uids.find(|uid| !used.contains(uid)).unwrap_or(u32::MAX)
    }

    /// Open a session: the order of errors is that of the header.
    pub fn open(
        &mut self,
        context: u32,
        open: &mut mp_session_open,
        data: &[u8],
        name: &[u8],
    ) -> Result<()> {
        let host = self.contexts.get(&context).ok_or(Errno::SHUTDOWN)?.host;
        let link = self.link(host, open.interface)?;
        let bare = open.flags & MP_SESSION_NO_WINDOWS != 0;
        let windows = open.local_max > 0 || open.remote_max > 0;
        let fits = windows != bare
            && acceptance::may_be(open, name)
            && open.local_min <= open.local_max
            && open.remote_min <= open.remote_max
            && data.len() <= MP_WINDOW_DATA_MAX as usize;
        if !fits {
            return Err(Errno::INVAL);
        }
        self.link_up(host, open.interface)?;
        let free = |of: Host| self.links[link].free[of as usize];
        let physical = open.location == MP_LOCATION_PHYSICAL;
        let server = open.role == MP_ROLE_SERVER;
        let local_short = !(physical && server) && open.local_min > free(host);
        let remote_short = !physical && open.remote_min > free(host.other());
        if local_short || remote_short {
            return Err(Errno::NOSPC);
        }
        if physical && server && !self.privileged {
            return Err(Errno::PERM);
        }
        if physical && server && !self.reachable {
            return Err(Errno::OPNOTSUPP);
        }
        if !self.accepts && acceptance::is_new(open) {
            return Err(Errno::OPNOTSUPP);
        }
        if self
            .sessions
            .values()
            .filter(|session| session.context == context)
            .count()
            >= self.quota
        {
            return Err(Errno::DQUOT);
        }
        let uid = open.uid;
        let partner = match server {
            true => None,
            false => self.candidate(host, link, open, uid, name),
        };
        if partner.is_none() && open.role == MP_ROLE_CLIENT {
            return Err(Errno::CONNREFUSED);
        }
        let taken = uid != 0 && self.uid_in_use(host, link, uid);
        if partner.is_none() && taken {
            return Err(Errno::ADDRINUSE);
        }
        if uid == 0 || taken {
            open.uid = self.free_uid(host, link);
        }
        open.handle = self.number();
        let none = Place {
            size: 0,
            file: None,
        };
        let session = Session {
            context,
            host,
            link,
            open: *open,
            data: data.into(),
            name: name.into(),
            acceptance: Acceptance::default(),
            events: 0,
            partner: None,
            local: none.clone(),
            remote: none,
            access: Vec::new(),
        };
        self.sessions.insert(open.handle, session);
        match partner {
            Some((server, ..)) if self.holds(server) => self.ask(open.handle, server),
            Some((partner, local, remote)) => self.pair(open.handle, partner, local, remote)?,
            None => {}
        }
        self.windows_changed(link, host.other());
        Ok(())
    }

    /// Who fits, and the sizes of the requester's local and remote window.
    fn candidate(
        &self,
        host: Host,
        link: usize,
        open: &mp_session_open,
        uid: u32,
        name: &[u8],
    ) -> Option<(u32, u64, u64)> {
        let wanted = match open.role {
            MP_ROLE_CLIENT => MP_ROLE_SERVER,
            _ => MP_ROLE_PEER,
        };
        let free = self.links[link].free;
        self.windows(host, link).find_map(|other| {
            let theirs = &other.open;
            let eligible = other.partner.is_none()
                && other.events & MP_EVENT_PAIRED == 0
                && theirs.role == wanted
                && theirs.location == open.location
                && theirs.protocol == open.protocol
                && acceptance::meet((open, name), other)
                && (uid == 0 || theirs.uid == uid);
            if !eligible {
                return None;
            }
            let (local, remote) = sizes(open, theirs, free, host)?;
            let bare = open.flags & MP_SESSION_NO_WINDOWS != 0;
            (local > 0 || remote > 0 || bare).then_some((theirs.handle, local, remote))
        })
    }

    pub fn pair(&mut self, handle: u32, partner: u32, local: u64, remote: u64) -> Result<()> {
        let (local, remote) = (place(local)?, place(remote)?);
        let mut sides = Vec::new();
        let both = [
            (handle, partner, local.clone(), remote.clone()),
            (partner, handle, remote, local),
        ];
        let mut on_link = 0;
        for (handle, partner, local, remote) in both {
            let told = self.told(partner);
            let session = self.sessions.get_mut(&handle).ok_or(Errno::NOENT)?;
            if session.acceptance.partner.is_none() {
                session.acceptance.partner = told;
            }
            let physical = session.open.location == MP_LOCATION_PHYSICAL;
            session.events |= MP_EVENT_PAIRED;
            session.partner = Some(partner);
            let bytes = if physical { 0 } else { local.size };
            self.links[session.link].free[session.host as usize] -= bytes;
            on_link = session.link;
            sides.push(Side {
                handle,
                host: session.host,
                uid: session.open.uid,
                bytes,
                closed: false,
            });
            (session.local, session.remote) = (local, remote);
            let host = session.host;
            self.windows_changed(on_link, host.other());
        }
        if let Ok(sides) = sides.try_into() {
            self.pairs.push(Pair {
                link: on_link,
                sides,
            });
        }
        for handle in [handle, partner] {
            self.show(handle);
            self.announce(handle, MP_EVENT_PAIRED);
        }
        Ok(())
    }

    pub fn close(&mut self, context: u32, handle: u32) -> Result<()> {
        self.session(context, handle)?;
        let Some(session) = self.sessions.remove(&handle) else {
            return Err(Errno::NOENT);
        };
        if let Some(context) = self.contexts.get_mut(&context) {
            context.watches.remove(&(handle, false));
            context.notifies.remove(&(handle, false));
        }
        self.end_requests(handle, &session);
        if let Some(partner) = session.partner {
            self.raise(partner, MP_EVENT_CLOSED);
        }
        let up = self.is_up(session.link);
        for pair in &mut self.pairs {
            for side in &mut pair.sides {
                side.closed |= side.handle == handle;
            }
            // Beyond a link that is down nobody can reach the memory any longer.
            if pair.sides.iter().all(|side| side.closed || !up) {
                for side in &mut pair.sides {
                    self.links[pair.link].free[side.host as usize] += side.bytes;
                    side.bytes = 0;
                }
            }
        }
        self.pairs
            .retain(|pair| pair.sides.iter().any(|side| !side.closed));
        self.windows_changed(session.link, session.host.other());
        Ok(())
    }

    pub fn signal(&mut self, context: u32, handle: u32) -> Result<()> {
        let partner = self
            .paired(context, handle)?
            .partner
            .ok_or(Errno::NOTCONN)?;
        self.raise(partner, MP_EVENT_SIGNAL);
        Ok(())
    }

    pub fn address(&self, context: u32, handle: u32) -> Result<u64> {
        if !self.privileged {
            return Err(Errno::PERM);
        }
        if self.paired(context, handle)?.remote.size == 0 {
            return Err(Errno::NXIO);
        }
        match self.reachable {
            true => Ok(BUS_ADDRESS + u64::from(handle) * 0x10_0000),
            false => Err(Errno::OPNOTSUPP),
        }
    }

    pub fn set_up(&mut self, link: usize, up: bool) {
        let was = self.is_up(link);
        self.links[link].up = up;
        self.links[link].epoch += u64::from(up);
        self.link_changed(link);
        match (was, self.is_up(link)) {
            (true, false) => self.connections_changed(link, MP_NOTICE_DOWN),
            (false, true) => self.connections_changed(link, MP_NOTICE_UP),
            _ => {}
        }
    }

    pub fn remove(&mut self, link: usize, host: Host) {
        self.links[link].present[host as usize] = false;
        self.link_changed(link);
        self.connections_changed(link, MP_NOTICE_LOST);
        let here = self
            .sessions
            .iter()
            .filter(|(_, s)| s.link == link && s.host == host);
        let here: Vec<u32> = here.map(|(handle, _)| *handle).collect();
        for handle in here {
            if self.sessions[&handle].events & MP_EVENT_PAIRED != 0 {
                self.raise(handle, MP_EVENT_CLOSED);
            }
        }
    }

    pub fn add(&mut self, link: usize, host: Host) {
        self.links[link].present[host as usize] = true;
        self.link_changed(link);
        self.tell_host(MP_INTERFACE_ANY, host, MP_EVENT_STATE);
    }

    /// A pair does not survive its link; a session that waits does.
    fn link_changed(&mut self, link: usize) {
        let up = self.is_up(link);
        let all = self
            .sessions
            .iter()
            .filter(|(_, session)| session.link == link);
        let all: Vec<(u32, u32)> = all.map(|(handle, s)| (*handle, s.events)).collect();
        for (handle, events) in all {
            match (up, events & MP_EVENT_PAIRED != 0) {
                (false, _) if events & MP_EVENT_CLOSED == 0 => self.raise(handle, MP_EVENT_DOWN),
                (true, true) => self.raise(handle, MP_EVENT_CLOSED),
                (true, false) => self.clear(handle, MP_EVENT_DOWN),
                _ => {}
            }
        }
        if !up {
            self.requests_lost(link);
        }
        for host in [Host::A, Host::B] {
            self.interface_changed(link, host, MP_EVENT_STATE | MP_EVENT_WINDOWS);
        }
    }

    pub fn raise(&mut self, handle: u32, events: u32) {
        if let Some(session) = self.sessions.get_mut(&handle) {
            session.events |= events;
        }
        self.show(handle);
        self.announce(handle, events);
    }

    pub fn clear(&mut self, handle: u32, events: u32) {
        if let Some(session) = self.sessions.get_mut(&handle) {
            session.events &= !events;
        }
        self.show(handle);
    }

    /// Show the state of a session in its status word.
    fn show(&self, handle: u32) {
        if let Some(session) = self.sessions.get(&handle) {
            let state = session.events & !MP_EVENT_SIGNAL;
            self.put_status(session.context, handle, state.into());
        }
    }

    /// Tell those who are not waiting in a call.
    fn announce(&mut self, handle: u32, events: u32) {
        let Some(session) = self.sessions.get(&handle) else {
            return;
        };
        if let Some(context) = self.contexts.get_mut(&session.context) {
            context.report((handle, false), events);
        }
    }

    /// Fail as long as stores do.
    pub fn store_fails(&mut self) -> Result<()> {
        let (left, errno) = &mut self.stores_fail;
        match left.checked_sub(1) {
            None => Ok(()),
            Some(less) => {
                *left = less;
                Err(*errno)
            }
        }
    }

    /// Whether a signal fails for want of memory.
    pub fn signal_fails(&mut self) -> bool {
        let fails = self.signals_fail > 0;
        self.signals_fail = self.signals_fail.saturating_sub(1);
        fails
    }

    pub fn windows_changed(&mut self, link: usize, host: Host) {
        self.interface_changed(link, host, MP_EVENT_WINDOWS);
    }

    fn interface_changed(&mut self, link: usize, host: Host, events: u32) {
        self.tell_host(interface(link, host), host, events);
    }

    /// Tell all contexts of a host of an interface.
    fn tell_host(&mut self, id: u32, host: Host, events: u32) {
        for context in self
            .contexts
            .values_mut()
            .filter(|context| context.host == host)
        {
            *context.interfaces.entry(id).or_insert(BOTH) |= events;
            context.report((id, true), events);
        }
    }
}

/// The events of an interface, both of which the first wait finds.
pub const BOTH: u32 = MP_EVENT_STATE | MP_EVENT_WINDOWS;

impl Context {
    pub fn report(&mut self, key: Key, events: u32) {
        if let Some((mask, eventfd)) = self.notifies.get(&key) {
            if mask & events != 0 {
                ring(eventfd);
            }
        }
        let Some(watch) = self.watches.get(&key) else {
            return;
        };
        if watch.mask & events != 0 {
            self.reported.push(mp_event {
                cookie: watch.cookie,
                target: key.0,
                events: watch.mask & events,
            });
            ring(&self.readable);
        }
    }
}

fn ring(eventfd: &OwnedFd) {
    // A counter that is full is readable all the same.
    let _ = io::write(eventfd, &1_u64.to_ne_bytes());
}

/// The sizes of the windows of a pair as `open`, on that host, sees them.
pub fn sizes(
    open: &mp_session_open,
    theirs: &mp_session_open,
    free: [u64; 2],
    host: Host,
) -> Option<(u64, u64)> {
    let own = free[host as usize];
    let their = match open.location {
        MP_LOCATION_PHYSICAL => u64::MAX,
        _ => free[host.other() as usize],
    };
    let local = size(
        open.local_min.max(theirs.remote_min),
        open.local_max.min(theirs.remote_max),
        own,
    )?;
    let remote = size(
        open.remote_min.max(theirs.local_min),
        open.remote_max.min(theirs.local_max),
        their,
    )?;
    Some((local, remote))
}

/// The largest size that can be served.
fn size(least: u64, most: u64, free: u64) -> Option<u64> {
    let size = most.min(free);
    (size >= least).then_some(size)
}

fn place(size: u64) -> Result<Place> {
    if size == 0 {
        return Ok(Place { size, file: None });
    }
    let file = memfd_create("window", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, size.next_multiple_of(4096))?;
    Ok(Place {
        size,
        file: Some(Arc::new(file)),
    })
}
