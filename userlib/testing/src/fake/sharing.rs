// SPDX-License-Identifier: MIT OR Apache-2.0

//! Segments, connections, offers and queues: what is published on one host and used on the other
//! one, or on the same over the loopback interface.

use super::{
    state::{interface, Context, State},
    Host, LOOPBACK,
};
use mp_fabric::sys::*;
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{ftruncate, memfd_create, open, MemfdFlags, Mode, OFlags},
    io::{self, Errno},
};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

type Result<T> = std::result::Result<T, Errno>;

/// Bytes of the status words of a context.
pub const STATUS_LEN: u64 = 0x10000;
/// Where they are mapped.
pub const STATUS_OFFSET: u64 = 0xffff_ffff << 32;

/// Most messages that a port keeps.
const MESSAGES: usize = 64;

/// The memory behind one or more handles.
#[derive(Debug)]
struct Body {
    host: Host,
    id: Option<u32>,
    name: Vec<u8>,
    len: u64,
    file: Arc<OwnedFd>,
    /// Whether it was made without memory, and whether it has none yet.
    fillable: bool,
    empty: bool,
    /// Whether no window shows it.
    hidden: bool,
    /// The only interface whose window leads to it; of all if there is none.
    only: Option<u32>,
    /// What its host's kernel copies: `MP_GRANT_*`.
    copied: u32,
    shared: bool,
    at: HashMap<u32, u32>,
}

#[derive(Debug)]
struct Object {
    context: u32,
    host: Host,
    kind: Kind,
}

type Notices = VecDeque<(u32, u32, u32)>;

#[derive(Debug)]
enum Kind {
    Segment { body: u32, notices: Notices },
    Offer(Offer),
    Connection(Connection),
    Queue(Queue),
    Permit(Permit),
}

/// What the partner of a session may do with a segment.
#[derive(Clone, Copy, Debug)]
struct Permit {
    body: u32,
    session: u32,
    rights: u32,
}

#[derive(Debug)]
struct Offer {
    object: u32,
    interface: u32,
    number: u32,
    name: Vec<u8>,
    flags: u32,
    closing: bool,
    triggers: u32,
    messages: VecDeque<(Vec<u8>, u32)>,
}

#[derive(Debug)]
struct Connection {
    interface: u32,
    object: u32,
    number: u32,
    /// Whether it was asked for by a name.
    named: bool,
    body: Option<u32>,
    rights: u32,
    /// The handle of the grant that it was made by.
    grant: Option<u32>,
    state: u32,
    count: u32,
    notices: Notices,
}

#[derive(Debug)]
struct Queue {
    interface: u32,
    entries: u32,
    state: u32,
    starts: u32,
    pending: Option<Transfer>,
}

#[derive(Clone, Debug)]
struct Transfer {
    segment: u32,
    connection: u32,
    copies: Vec<mp_copy>,
    /// From the connection's segment.
    reads: bool,
}

/// All objects of both hosts.
#[derive(Debug, Default)]
pub struct Sharing {
    objects: BTreeMap<u32, Object>,
    bodies: BTreeMap<u32, Body>,
    status: HashMap<u32, Arc<OwnedFd>>,
    /// Whether queues wait until a test lets them go on.
    pub held: bool,
    /// Whether peers answer.
    pub silent: bool,
}

fn file(name: &str, len: u64) -> Result<Arc<OwnedFd>> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC)?;
    ftruncate(&file, len.next_multiple_of(4096))?;
    Ok(Arc::new(file))
}

/// All bytes of a part of a file.
fn read(file: impl AsFd, at: u64, len: u64) -> Result<Vec<u8>> {
    let mut data = vec![0; len as usize];
    match io::pread(file, &mut data[..], at) {
        Ok(read) if read == data.len() => Ok(data),
        _ => Err(Errno::FAULT),
    }
}

/// Whether it is no name.
fn is_too_long(name: &[u8]) -> bool {
    name.len() > MP_NAME_MAX as usize
}

/// What this process has at an address.
fn memory_of_caller(at: u64, len: u64) -> Result<Vec<u8>> {
    let memory = open(c"/proc/self/mem", OFlags::CLOEXEC, Mode::empty())?;
    read(memory, at, len)
}

/// Write to what this process has at an address.
fn give_to_caller(at: u64, data: &[u8]) -> Result<()> {
    let memory = open(
        c"/proc/self/mem",
        OFlags::CLOEXEC | OFlags::WRONLY,
        Mode::empty(),
    )?;
    io::pwrite(memory, data, at)?;
    Ok(())
}

/// Where the word of a connection or queue is.
pub fn slot(handle: u32) -> u64 {
    u64::from(handle) * 8 % STATUS_LEN
}

impl State {
    /// The host and interface at the other end, and whether it can be reached.
    fn other_end(&self, host: Host, id: u32) -> Result<(Host, u32, bool)> {
        if id == LOOPBACK {
            return Ok((host, LOOPBACK, true));
        }
        let link = self.link(host, id)?;
        let other = host.other();
        Ok((other, interface(link, other), self.is_up(link)))
    }

    /// An interface that is up, and the host there.
    pub fn reach(&self, host: Host, id: u32) -> Result<(Host, u32)> {
        let (other, there, up) = self.other_end(host, id)?;
        match up {
            true if self.sharing.silent && id != LOOPBACK => Err(Errno::TIMEDOUT),
            true => Ok((other, there)),
            false => Err(Errno::NETDOWN),
        }
    }

    fn object(&self, context: u32, handle: u32) -> Result<&Object> {
        let object = self.sharing.objects.get(&handle);
        object.filter(|o| o.context == context).ok_or(Errno::NOENT)
    }

    fn object_mut(&mut self, context: u32, handle: u32) -> Result<&mut Object> {
        let object = self.sharing.objects.get_mut(&handle);
        object.filter(|o| o.context == context).ok_or(Errno::NOENT)
    }

    fn body_of(&self, context: u32, handle: u32) -> Result<u32> {
        match &self.object(context, handle)?.kind {
            Kind::Segment { body, .. } => Ok(*body),
            _ => Err(Errno::INVAL),
        }
    }

    fn connection(&self, context: u32, handle: u32) -> Result<&Connection> {
        match &self.object(context, handle)?.kind {
            Kind::Connection(connection) => Ok(connection),
            _ => Err(Errno::INVAL),
        }
    }

    fn queue(&mut self, context: u32, handle: u32) -> Result<&mut Queue> {
        match &mut self.object_mut(context, handle)?.kind {
            Kind::Queue(queue) => Ok(queue),
            _ => Err(Errno::INVAL),
        }
    }

    fn enter_object(&mut self, context: u32, kind: Kind) -> Result<u32> {
        let host = self.contexts.get(&context).ok_or(Errno::SHUTDOWN)?.host;
        let objects = self.sharing.objects.values();
        if objects.filter(|object| object.context == context).count() >= self.quota {
            return Err(Errno::DQUOT);
        }
        let handle = self.number();
        let object = Object {
            context,
            host,
            kind,
        };
        self.sharing.objects.insert(handle, object);
        Ok(handle)
    }

    fn host_of(&self, context: u32) -> Result<Host> {
        Ok(self.contexts.get(&context).ok_or(Errno::SHUTDOWN)?.host)
    }

    pub fn segment_create(
        &mut self,
        context: u32,
        create: &mut mp_segment_create,
        name: &[u8],
    ) -> Result<()> {
        let host = self.host_of(context)?;
        let private = create.flags & MP_SEGMENT_PRIVATE != 0;
        if create.length == 0 || is_too_long(name) || private && !name.is_empty() {
            return Err(Errno::INVAL);
        }
        let one_peer = create.flags & MP_SEGMENT_ONE_PEER != 0;
        if one_peer {
            self.other_end(host, create.interface)?;
        }
        let fillable = create.flags & MP_SEGMENT_EMPTY != 0;
        let only = match (one_peer, private && !fillable) {
            (true, _) => Some(create.interface),
            (false, true) => Some(LOOPBACK),
            (false, false) => None,
        };
        if !name.is_empty() && self.published(host, 0, name).is_some() {
            return Err(Errno::ADDRINUSE);
        }
        let id = match private {
            false => {
                let mut ids = create.id..=create.id.saturating_add(create.id_more);
                let free = ids.find(|id| self.published(host, *id, b"").is_none());
                Some(free.ok_or(Errno::ADDRINUSE)?)
            }
            true => None,
        };
        if create.length > self.memory {
            return Err(Errno::NOSPC);
        }
        let body = self.number();
        let file = file("segment", create.length)?;
        let notices = Notices::new();
        create.handle = self.enter_object(context, Kind::Segment { body, notices })?;
        create.id = id.unwrap_or(0);
        let body_of = Body {
            host,
            id,
            name: name.to_vec(),
            len: create.length,
            file,
            fillable,
            empty: fillable,
            hidden: false,
            only,
            copied: MP_GRANT_READ | MP_GRANT_WRITE,
            shared: false,
            at: HashMap::new(),
        };
        self.sharing.bodies.insert(body, body_of);
        Ok(())
    }

    /// Give a segment its memory. That of a process is what it has there at this moment:
    /// others do not see what it writes later.
    pub fn segment_register(&mut self, context: u32, fill: &mp_segment_register) -> Result<()> {
        let key = self.body_of(context, fill.handle)?;
        let physical = fill.flags & MP_REGISTER_PHYSICAL != 0;
        let (privileged, pinned) = (self.privileged, self.pinned);
        let body = self.sharing.bodies.get_mut(&key).ok_or(Errno::NOENT)?;
        if fill.flags & (MP_REGISTER_BAR | MP_REGISTER_DMABUF) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let whole = (fill.length | fill.address) % 4096 == 0;
        let read_only = fill.flags & MP_REGISTER_READ_ONLY != 0;
        if fill.length == 0 || physical && (read_only || !whole) {
            return Err(Errno::INVAL);
        }
        if fill.length > body.len {
            return Err(Errno::RANGE);
        }
        if !body.empty {
            return Err(Errno::EXIST);
        }
        if physical && !privileged {
            return Err(Errno::PERM);
        }
        if !physical {
            let data = memory_of_caller(fill.address, fill.length)?;
            if fill.length > pinned {
                return Err(Errno::DQUOT);
            }
            io::pwrite(&body.file, &data, 0)?;
        }
        (body.empty, body.len) = (false, fill.length);
        body.hidden = read_only || !whole;
        body.copied = match (physical, read_only) {
            (true, _) => 0,
            (_, true) => MP_GRANT_READ,
            _ => MP_GRANT_READ | MP_GRANT_WRITE,
        };
        Ok(())
    }

    /// The segment of an id on a host, or of a name unless that is empty.
    fn published(&self, host: Host, id: u32, name: &[u8]) -> Option<u32> {
        let mut bodies = self.sharing.bodies.iter();
        let is_it = |body: &Body| match name {
            b"" => body.id == Some(id),
            _ => body.name == name,
        };
        let found = bodies.find(|(_, body)| body.host == host && is_it(body));
        found.map(|(key, _)| *key)
    }

    fn body(&self, key: u32) -> Result<&Body> {
        self.sharing.bodies.get(&key).ok_or(Errno::NOENT)
    }

    pub fn segment_grant(&mut self, context: u32, grant: &mut mp_segment_grant) -> Result<()> {
        if grant.rights == 0 || grant.rights & !(MP_GRANT_READ | MP_GRANT_WRITE) != 0 {
            return Err(Errno::INVAL);
        }
        let body = self.body_of(context, grant.segment)?;
        let session = self.sessions.get(&grant.session);
        let session = session.filter(|session| session.context == context);
        let session = session.ok_or(Errno::NOENT)?;
        let at = self.body(body)?.at.get(&session.open.interface).copied();
        if at.unwrap_or(MP_SEGMENT_UNPREPARED) == MP_SEGMENT_UNPREPARED {
            return Err(Errno::NXIO);
        }
        session.partner.ok_or(Errno::NOTCONN)?;
        let by_window = grant.flags & MP_PUBLISH_PLACED == 0 && grant.rights & MP_GRANT_WRITE != 0;
        let refused = match by_window {
            true => self.body(body)?.hidden,
            false => grant.rights & !self.body(body)?.copied != 0,
        };
        if refused {
            return Err(Errno::OPNOTSUPP);
        }
        if by_window && self.is_short(self.body(body)?, session.open.interface) {
            return Err(Errno::NOSPC);
        }
        let permit = Permit {
            body,
            session: grant.session,
            rights: grant.rights,
        };
        grant.handle = self.enter_object(context, Kind::Permit(permit))?;
        Ok(())
    }

    /// What a grant says, for the session of a process that would like to connect by it.
    fn granted(&self, context: u32, session: u32, grant: u32) -> Result<Permit> {
        let own = self.sessions.get(&session);
        let own = own.filter(|own| own.context == context);
        let partner = own.ok_or(Errno::NOENT)?.partner;
        let partner = partner.ok_or(Errno::NOTCONN)?;
        match self.sharing.objects.get(&grant).map(|object| &object.kind) {
            Some(Kind::Permit(permit)) if permit.session == partner => Ok(*permit),
            Some(Kind::Permit(_)) => Err(Errno::CONNREFUSED),
            _ => Err(Errno::NOENT),
        }
    }

    pub fn segment_share(&mut self, context: u32, handle: u32) -> Result<()> {
        let body = self.body_of(context, handle)?;
        let body = self.sharing.bodies.get_mut(&body).ok_or(Errno::NOENT)?;
        if body.id.is_none() {
            return Err(Errno::OPNOTSUPP);
        }
        body.shared = true;
        Ok(())
    }

    pub fn segment_attach(&mut self, context: u32, attach: &mut mp_segment_attach) -> Result<()> {
        let host = self.host_of(context)?;
        let body = self.published(host, attach.id, b"").ok_or(Errno::NOENT)?;
        if !self.body(body)?.shared {
            return Err(Errno::PERM);
        }
        attach.length = self.body(body)?.len;
        let notices = Notices::new();
        attach.handle = self.enter_object(context, Kind::Segment { body, notices })?;
        Ok(())
    }

    /// Prepare, publish or withdraw.
    pub fn segment_at(
        &mut self,
        context: u32,
        argument: &mp_segment_interface,
        to: u32,
        withdraw: bool,
    ) -> Result<()> {
        let host = self.host_of(context)?;
        let key = self.body_of(context, argument.handle)?;
        self.other_end(host, argument.interface)?;
        let placed = !withdraw && argument.flags & MP_PUBLISH_PLACED != 0;
        let body = self.body(key)?;
        let short = self.is_short(body, argument.interface) && !placed && body.id.is_some();
        let unreachable = match placed {
            true => body.copied == 0,
            false => self.is_unreachable(body, argument.interface),
        };
        let body = self.sharing.bodies.get_mut(&key).ok_or(Errno::NOENT)?;
        let state = body.at.entry(argument.interface).or_insert(0);
        match (withdraw, to) {
            (true, _) if *state != MP_SEGMENT_PUBLISHED => return Err(Errno::NXIO),
            (false, MP_SEGMENT_PREPARED) if body.empty => return Err(Errno::NXIO),
            (false, MP_SEGMENT_PREPARED) if short => return Err(Errno::NOSPC),
            (false, MP_SEGMENT_PREPARED) if *state != MP_SEGMENT_UNPREPARED => return Ok(()),
            (false, MP_SEGMENT_PUBLISHED) if body.id.is_none() => return Err(Errno::OPNOTSUPP),
            (false, MP_SEGMENT_PUBLISHED) if *state == MP_SEGMENT_UNPREPARED => {
                return Err(Errno::NXIO)
            }
            (false, MP_SEGMENT_PUBLISHED) if unreachable => return Err(Errno::OPNOTSUPP),
            _ => *state = to,
        }
        if withdraw && argument.flags != 0 {
            let force = argument.flags & MP_WITHDRAW_FORCE != 0;
            for handle in self.users(key, Some((host, argument.interface))) {
                self.withdrawn(handle, force);
            }
        }
        Ok(())
    }

    /// Whether windows are too short for a segment.
    fn is_short(&self, body: &Body, interface: u32) -> bool {
        let elsewhere = body.only.is_some_and(|only| only != interface);
        (body.len > self.window || elsewhere) && interface != LOOPBACK
    }

    /// Whether no window can be led to it.
    fn is_unreachable(&self, body: &Body, interface: u32) -> bool {
        let reachable = self.reachable || interface == LOOPBACK;
        body.fillable && !reachable || body.hidden
    }

    /// Connections to a segment; those over one interface of its owner.
    fn users(&self, key: u32, over: Option<(Host, u32)>) -> Vec<u32> {
        let uses = |(handle, object): (&u32, &Object)| match &object.kind {
            Kind::Connection(c) if c.body == Some(key) && c.state & MP_CONNECTION_LOST == 0 => {
                let there = self.other_end(object.host, c.interface).ok();
                let fits = over.is_none() || there.map(|(h, i, _)| (h, i)) == over;
                fits.then_some(*handle)
            }
            _ => None,
        };
        self.sharing.objects.iter().filter_map(uses).collect()
    }

    fn withdrawn(&mut self, handle: u32, force: bool) {
        self.change_connection(handle, MP_NOTICE_DISCONNECTED);
        if force {
            self.change_connection(handle, MP_NOTICE_LOST);
        }
    }

    /// Tell a connection's process, and the status word.
    fn change_connection(&mut self, handle: u32, notice: u32) {
        let Some(object) = self.sharing.objects.get_mut(&handle) else {
            return;
        };
        let Kind::Connection(connection) = &mut object.kind else {
            return;
        };
        let was = connection.state & MP_CONNECTION_OPERATIONAL;
        match notice {
            MP_NOTICE_DISCONNECTED => connection.state |= MP_CONNECTION_WITHDRAWN,
            MP_NOTICE_DOWN => connection.state &= !MP_CONNECTION_OPERATIONAL,
            MP_NOTICE_UP => connection.state |= MP_CONNECTION_OPERATIONAL,
            _ => {
                connection.state |= MP_CONNECTION_LOST;
                connection.state &= !MP_CONNECTION_OPERATIONAL;
            }
        }
        if was != 0 && connection.state & MP_CONNECTION_OPERATIONAL == 0 {
            connection.count = connection.count.wrapping_add(1);
        }
        let entry = (notice, connection.interface, 0);
        connection.notices.push_back(entry);
        let word = u64::from(connection.count) << 32 | u64::from(connection.state);
        let context = object.context;
        self.put_status(context, handle, word);
        self.tell(handle, MP_EVENT_NOTICE);
    }

    pub fn put_status(&self, context: u32, handle: u32, word: u64) {
        if let Some(file) = self.sharing.status.get(&context) {
            let written = io::pwrite(file, &word.to_ne_bytes(), slot(handle));
            debug_assert_eq!(written, Ok(8));
        }
    }

    fn tell(&mut self, handle: u32, events: u32) {
        let object = self.sharing.objects.get(&handle);
        let context = object.and_then(|object| self.contexts.get_mut(&object.context));
        if let Some(context) = context {
            Context::report(context, (handle, false), events);
        }
    }

    /// Tell all handles of a segment of something that has happened to one connection.
    fn tell_owner(&mut self, connection: u32, notice: u32) {
        let Some(object) = self.sharing.objects.get(&connection) else {
            return;
        };
        let Kind::Connection(c) = &object.kind else {
            return;
        };
        let (body, importer) = (c.body, object.host);
        let Ok((_, there, _)) = self.other_end(importer, c.interface) else {
            return;
        };
        let mut told = Vec::new();
        for (handle, object) in &mut self.sharing.objects {
            if let Kind::Segment { body: own, notices } = &mut object.kind {
                if Some(*own) == body {
                    notices.push_back((notice, there, importer as u32));
                    told.push(*handle);
                }
            }
        }
        for handle in told {
            self.tell(handle, MP_EVENT_NOTICE);
        }
    }

    pub fn segment_info(&self, context: u32, out: &mut mp_segment) -> Result<()> {
        let host = self.host_of(context)?;
        let key = self.body_of(context, out.handle)?;
        if out.interface != 0 {
            self.other_end(host, out.interface)?;
        }
        let body = self.body(key)?;
        out.state = body.at.get(&out.interface).copied().unwrap_or(0);
        out.id = body.id.unwrap_or(0);
        let shared = if body.shared { MP_SEGMENT_SHARED } else { 0 };
        out.flags = shared
            | if body.id.is_none() {
                MP_SEGMENT_PRIVATE
            } else {
                0
            };
        out.connections = self.users(key, None).len() as u32;
        out.length = body.len;
        out.offset = match body.hidden {
            true => 0,
            false => u64::from(out.handle) << 32,
        };
        Ok(())
    }

    pub fn offer(&mut self, context: u32, offer: &mut mp_offer, name: &[u8]) -> Result<()> {
        let host = self.host_of(context)?;
        let known = matches!(offer.object, MP_OBJECT_EVENT | MP_OBJECT_PORT);
        if !known || is_too_long(name) {
            return Err(Errno::INVAL);
        }
        self.other_end(host, offer.interface)?;
        let key = (host, offer.interface, offer.object);
        let any = offer.flags & MP_OFFER_ANY != 0;
        let named = self.number_of(key, name);
        if let Some(number) = named {
            if !any && number != offer.number {
                return Err(Errno::ADDRINUSE);
            }
            offer.number = number;
        }
        if any && named.is_none() {
            let mut numbers = 0x100..;
            let free = numbers.find(|number| self.offers(key, *number).is_empty());
            offer.number = free.unwrap_or(0);
        } else {
            let mask = MP_OFFER_SHARED | MP_OFFER_COUNTED;
            for other in self.offers(key, offer.number) {
                let Some(Kind::Offer(other)) = self.sharing.objects.get(&other).map(|o| &o.kind)
                else {
                    continue;
                };
                let shared = offer.flags & other.flags & MP_OFFER_SHARED != 0;
                let same = offer.flags & mask == other.flags & mask && other.name == name;
                if !shared || !same {
                    return Err(Errno::ADDRINUSE);
                }
            }
        }
        let kind = Kind::Offer(Offer {
            object: offer.object,
            interface: offer.interface,
            number: offer.number,
            name: name.to_vec(),
            flags: offer.flags,
            closing: false,
            triggers: 0,
            messages: VecDeque::new(),
        });
        offer.handle = self.enter_object(context, kind)?;
        Ok(())
    }

    /// The number of what is offered under a name; none without one.
    fn number_of(&self, key: (Host, u32, u32), name: &[u8]) -> Option<u32> {
        let named = |it: &Object| match &it.kind {
            Kind::Offer(o) if (it.host, o.interface, o.object) == key && o.name == name => {
                Some(o.number)
            }
            _ => None,
        };
        let mut found = self.sharing.objects.values().filter_map(named);
        found.next().filter(|_| !name.is_empty())
    }

    /// Who offers a number.
    fn offers(&self, (host, interface, object): (Host, u32, u32), number: u32) -> Vec<u32> {
        let fits = |(handle, it): (&u32, &Object)| match &it.kind {
            Kind::Offer(o) => {
                let key = (it.host, o.interface, o.object, o.number);
                (key == (host, interface, object, number)).then_some(*handle)
            }
            _ => None,
        };
        self.sharing.objects.iter().filter_map(fits).collect()
    }

    /// Connections that lead to an offer.
    fn callers(&self, host: Host, offer: (u32, u32, u32)) -> Vec<u32> {
        let (interface, object, number) = offer;
        let fits = |(handle, it): (&u32, &Object)| match &it.kind {
            Kind::Connection(c) if c.state & MP_CONNECTION_LOST == 0 => {
                let (there, over, _) = self.other_end(it.host, c.interface).ok()?;
                let same = (there, over, c.object, c.number) == (host, interface, object, number);
                same.then_some(*handle)
            }
            _ => None,
        };
        self.sharing.objects.iter().filter_map(fits).collect()
    }

    pub fn connect(&mut self, context: u32, connect: &mut mp_connect, name: &[u8]) -> Result<()> {
        let host = self.host_of(context)?;
        let known = matches!(
            connect.object,
            MP_OBJECT_SEGMENT | MP_OBJECT_EVENT | MP_OBJECT_PORT
        );
        let named = !name.is_empty();
        let twice = connect.number != 0 || connect.flags & MP_CONNECT_GRANTED != 0;
        if !known || is_too_long(name) || named && twice {
            return Err(Errno::INVAL);
        }
        let (other, there) = self.reach(host, connect.interface)?;
        let mut body = None;
        let mut number = connect.number;
        let (mut rights, mut grant) = (MP_GRANT_READ | MP_GRANT_WRITE, None);
        if connect.flags & MP_CONNECT_GRANTED != 0 {
            let permit = self.granted(context, connect.session, connect.number)?;
            (body, rights, grant) = (Some(permit.body), permit.rights, Some(connect.number));
        } else if connect.object == MP_OBJECT_SEGMENT {
            let key = self.published(other, number, name).ok_or(Errno::NOENT)?;
            if self.body(key)?.at.get(&there) != Some(&MP_SEGMENT_PUBLISHED) {
                return Err(Errno::NOENT);
            }
            body = Some(key);
        } else {
            let key = (other, there, connect.object);
            if named {
                number = self.number_of(key, name).ok_or(Errno::NOENT)?;
            }
            let offers = self.offers(key, number);
            let offer = offers.into_iter().find_map(|handle| {
                match &self.sharing.objects.get(&handle)?.kind {
                    Kind::Offer(offer) if !offer.closing => Some(offer.flags),
                    _ => None,
                }
            });
            let flags = offer.ok_or(Errno::NOENT)?;
            let counted = connect.flags & MP_CONNECT_COUNTED != 0;
            if counted && flags & MP_OFFER_COUNTED == 0 {
                return Err(Errno::CONNREFUSED);
            }
        }
        let mut state = MP_CONNECTION_OPERATIONAL;
        if connect.flags & MP_CONNECT_PLACED != 0 {
            let body = self.body(body.ok_or(Errno::INVAL)?)?;
            if body.copied == 0 {
                return Err(Errno::NOSPC);
            }
            state |= MP_CONNECTION_PLACED;
        } else if let Some(body) = body.filter(|_| rights & MP_GRANT_WRITE != 0) {
            let body = self.body(body)?;
            if self.is_short(body, there) || self.is_unreachable(body, there) {
                return Err(Errno::NOSPC);
            }
        }
        let kind = Kind::Connection(Connection {
            interface: connect.interface,
            object: connect.object,
            number,
            named,
            body,
            rights,
            grant,
            state,
            count: 0,
            notices: Notices::new(),
        });
        connect.handle = self.enter_object(context, kind)?;
        self.put_status(context, connect.handle, u64::from(state));
        self.tell_owner(connect.handle, MP_NOTICE_CONNECTED);
        Ok(())
    }

    pub fn connection_info(&self, context: u32, out: &mut mp_connection) -> Result<()> {
        let connection = self.connection(context, out.handle)?;
        out.interface = connection.interface;
        out.object = connection.object;
        out.number = match connection.named {
            true => 0,
            false => connection.number,
        };
        out.state = connection.state;
        out.status = slot(out.handle) as u32;
        out.length = match connection.body {
            Some(body) => self.body(body).map_or(0, |body| body.len),
            None => 0,
        };
        out.rights = connection.rights;
        let is_placed = connection.state & MP_CONNECTION_PLACED != 0;
        out.offset = match connection.rights & MP_GRANT_WRITE {
            0 => 0,
            _ if is_placed => 0,
            _ => u64::from(out.handle) << 32,
        };
        Ok(())
    }

    /// A connection over which something can be sent now.
    fn operational(&self, context: u32, handle: u32, object: u32) -> Result<(Host, u32, u32)> {
        let connection = self.connection(context, handle)?;
        if connection.object != object {
            return Err(Errno::INVAL);
        }
        if connection.state & MP_CONNECTION_LOST != 0 {
            return Err(Errno::CONNRESET);
        }
        if connection.state & MP_CONNECTION_OPERATIONAL == 0 {
            return Err(Errno::NETDOWN);
        }
        let (host, there, _) = self.other_end(self.host_of(context)?, connection.interface)?;
        Ok((host, there, connection.number))
    }

    /// Whether the handle is that of something in this file.
    pub fn is_object(&self, handle: u32) -> bool {
        self.sharing.objects.contains_key(&handle)
    }

    pub fn trigger(&mut self, context: u32, handle: u32) -> Result<()> {
        let (host, there, number) = self.operational(context, handle, MP_OBJECT_EVENT)?;
        for offer in self.offers((host, there, MP_OBJECT_EVENT), number) {
            if let Some(Kind::Offer(o)) = self.sharing.objects.get_mut(&offer).map(|o| &mut o.kind)
            {
                o.triggers = match o.flags & MP_OFFER_COUNTED {
                    0 => 1,
                    _ => o.triggers + 1,
                };
            }
            self.tell(offer, MP_EVENT_SIGNAL);
        }
        Ok(())
    }

    /// `EAGAIN` if there is no room.
    pub fn send(&mut self, context: u32, handle: u32, data: &[u8]) -> Result<()> {
        let (host, there, number) = self.operational(context, handle, MP_OBJECT_PORT)?;
        if data.len() > MP_MESSAGE_MAX as usize {
            return Err(Errno::MSGSIZE);
        }
        let from = self.host_of(context)? as u32;
        let offers = self.offers((host, there, MP_OBJECT_PORT), number);
        let full = |handle: &u32| match self.sharing.objects.get(handle).map(|o| &o.kind) {
            Some(Kind::Offer(offer)) => offer.messages.len() >= MESSAGES,
            _ => false,
        };
        if offers.iter().any(full) {
            return Err(Errno::AGAIN);
        }
        for offer in offers {
            if let Some(Kind::Offer(o)) = self.sharing.objects.get_mut(&offer).map(|o| &mut o.kind)
            {
                o.messages.push_back((data.into(), from));
            }
            self.tell(offer, MP_EVENT_MESSAGE);
        }
        Ok(())
    }

    /// `EAGAIN` if there is no message.
    pub fn receive(&mut self, context: u32, out: &mut mp_message, room: &mut [u8]) -> Result<()> {
        let Kind::Offer(offer) = &mut self.object_mut(context, out.handle)?.kind else {
            return Err(Errno::INVAL);
        };
        if offer.object != MP_OBJECT_PORT {
            return Err(Errno::INVAL);
        }
        let (message, peer) = offer.messages.front().ok_or(Errno::AGAIN)?;
        (out.length, out.peer) = (message.len() as u32, *peer);
        let room = room.get_mut(..message.len()).ok_or(Errno::MSGSIZE)?;
        room.copy_from_slice(message);
        offer.messages.pop_front();
        Ok(())
    }

    /// `EAGAIN` if there is none.
    pub fn notice(&mut self, context: u32, out: &mut mp_notice) -> Result<()> {
        let notices = match &mut self.object_mut(context, out.handle)?.kind {
            Kind::Segment { notices, .. } => notices,
            Kind::Connection(connection) => &mut connection.notices,
            _ => return Err(Errno::INVAL),
        };
        (out.notice, out.interface, out.peer) = notices.pop_front().ok_or(Errno::AGAIN)?;
        Ok(())
    }

    pub fn barrier(&self, context: u32, barrier: &mp_barrier) -> Result<()> {
        let host = self.host_of(context)?;
        let id = if barrier.flags & MP_WAIT_INTERFACE != 0 {
            barrier.target
        } else {
            let connection = self.connection(context, barrier.target)?;
            if connection.state & MP_CONNECTION_LOST != 0 {
                return Err(Errno::CONNRESET);
            }
            connection.interface
        };
        self.reach(host, id).map(|_| ())
    }

    pub fn queue_create(&mut self, context: u32, create: &mut mp_queue_create) -> Result<()> {
        self.other_end(self.host_of(context)?, create.interface)?;
        if create.entries == 0 || create.entries > MP_QUEUE_ENTRIES_MAX {
            return Err(Errno::INVAL);
        }
        let kind = Kind::Queue(Queue {
            interface: create.interface,
            entries: create.entries,
            state: MP_QUEUE_IDLE,
            starts: 0,
            pending: None,
        });
        create.handle = self.enter_object(context, kind)?;
        Ok(())
    }

    pub fn queue_info(&mut self, context: u32, out: &mut mp_queue) -> Result<()> {
        let queue = self.queue(context, out.handle)?;
        (out.interface, out.state, out.entries) = (queue.interface, queue.state, queue.entries);
        out.status = slot(out.handle) as u32;
        Ok(())
    }

    pub fn queue_start(
        &mut self,
        context: u32,
        start: &mp_queue_start,
        copies: &[mp_copy],
    ) -> Result<()> {
        let queue = self.queue(context, start.handle)?;
        let (interface, entries, state) = (queue.interface, queue.entries, queue.state);
        if state == MP_QUEUE_POSTED {
            return Err(Errno::BUSY);
        }
        let is_pinned = start.flags & MP_QUEUE_PINNED != 0;
        let reads = start.flags & MP_QUEUE_READ != 0;
        let flags_fit = match start.segment {
            0 => is_pinned || !reads,
            _ => !is_pinned,
        };
        if copies.is_empty() || copies.len() > entries as usize || !flags_fit {
            return Err(Errno::INVAL);
        }
        let to = self.connection(context, start.connection)?;
        if to.interface != interface || to.object != MP_OBJECT_SEGMENT {
            return Err(Errno::INVAL);
        }
        let room = to
            .body
            .map_or(Ok(0), |body| self.body(body).map(|b| b.len))?;
        let own = match start.segment {
            0 => None,
            segment => Some(self.body(self.body_of(context, segment)?)?),
        };
        let beyond = |at: u64, len: u64, end: u64| at.checked_add(len).is_none_or(|to| to > end);
        for copy in copies {
            let long = own.is_some_and(|own| beyond(copy.local, copy.length, own.len));
            if long || beyond(copy.remote, copy.length, room) {
                return Err(Errno::RANGE);
            }
        }
        let unprepared = |body: &Body| body.at.get(&interface).copied().unwrap_or(0) == 0;
        if own.is_some_and(unprepared) {
            return Err(Errno::NXIO);
        }
        self.operational(context, start.connection, MP_OBJECT_SEGMENT)?;
        let lengths = copies.iter().map(|copy| copy.length);
        if is_pinned && lengths.sum::<u64>() > self.pinned {
            return Err(Errno::DQUOT);
        }
        if start.segment == 0 {
            for copy in copies {
                memory_of_caller(copy.local, copy.length)?;
            }
        }
        let queue = self.queue(context, start.handle)?;
        queue.starts += 1;
        queue.pending = Some(Transfer {
            segment: start.segment,
            connection: start.connection,
            copies: copies.into(),
            reads,
        });
        self.enter_state(context, start.handle, MP_QUEUE_POSTED);
        // Memory of the caller that is not pinned is read at once.
        if !self.sharing.held || start.segment == 0 && !is_pinned {
            self.run(start.handle);
        }
        Ok(())
    }

    /// Do the work of a queue that is posted.
    fn run(&mut self, handle: u32) {
        let Some(object) = self.sharing.objects.get_mut(&handle) else {
            return;
        };
        let context = object.context;
        let Kind::Queue(queue) = &mut object.kind else {
            return;
        };
        let Some(transfer) = queue.pending.take() else {
            return;
        };
        let state = match self.copy(context, &transfer) {
            Ok(()) => MP_QUEUE_DONE,
            Err(_) => MP_QUEUE_ERROR,
        };
        self.finish(context, handle, state);
    }

    fn finish(&mut self, context: u32, handle: u32, state: u32) {
        if let Ok(queue) = self.queue(context, handle) {
            queue.pending = None;
        }
        self.enter_state(context, handle, state);
        self.tell(handle, MP_EVENT_DONE);
    }

    /// A queue has another state, which its status word tells.
    fn enter_state(&mut self, context: u32, handle: u32, state: u32) {
        if let Ok(queue) = self.queue(context, handle) {
            queue.state = state;
            let word = u64::from(queue.starts) << 32 | u64::from(state);
            self.put_status(context, handle, word);
        }
    }

    fn copy(&self, context: u32, transfer: &Transfer) -> Result<()> {
        self.operational(context, transfer.connection, MP_OBJECT_SEGMENT)?;
        let to = self.connection(context, transfer.connection)?.body;
        let to = self.body(to.ok_or(Errno::INVAL)?)?;
        let own = match transfer.segment {
            0 => None,
            segment => Some(self.body(self.body_of(context, segment)?)?),
        };
        for copy in &transfer.copies {
            let data = match own {
                Some(own) if transfer.reads => {
                    let data = read(&to.file, copy.remote, copy.length)?;
                    io::pwrite(&own.file, &data, copy.local)?;
                    continue;
                }
                Some(own) => read(&own.file, copy.local, copy.length)?,
                None if transfer.reads => {
                    let data = read(&to.file, copy.remote, copy.length)?;
                    give_to_caller(copy.local, &data)?;
                    continue;
                }
                None => memory_of_caller(copy.local, copy.length)?,
            };
            io::pwrite(&to.file, &data, copy.remote)?;
        }
        Ok(())
    }

    pub fn queue_abort(&mut self, context: u32, handle: u32) -> Result<()> {
        match self.queue(context, handle)?.state {
            MP_QUEUE_IDLE => return Err(Errno::NXIO),
            MP_QUEUE_POSTED => self.finish(context, handle, MP_QUEUE_ABORTED),
            _ => {}
        }
        Ok(())
    }

    /// Let all queues go on.
    pub fn release_queues(&mut self) {
        self.sharing.held = false;
        let all: Vec<u32> = self.sharing.objects.keys().copied().collect();
        for handle in all {
            self.run(handle);
        }
    }

    /// Whether a queue that is posted uses an object.
    fn in_transfer(&self, handle: u32) -> bool {
        let uses = |object: &Object| match &object.kind {
            Kind::Queue(queue) => queue
                .pending
                .as_ref()
                .is_some_and(|t| t.segment == handle || t.connection == handle),
            _ => false,
        };
        self.sharing.objects.values().any(uses)
    }

    pub fn remove_object(&mut self, context: u32, handle: u32, flags: u32) -> Result<()> {
        let force = flags & MP_REMOVE_FORCE != 0;
        let object = self.object(context, handle)?;
        let host = object.host;
        let users = match &object.kind {
            Kind::Segment { body, .. } => match self.holders(*body) {
                1 => self.users(*body, None),
                _ => Vec::new(),
            },
            Kind::Offer(o) => match self.offers((host, o.interface, o.object), o.number).len() {
                1 => self.callers(host, (o.interface, o.object, o.number)),
                _ => Vec::new(),
            },
            Kind::Permit(permit) => {
                let mut users = self.users(permit.body, None);
                users.retain(|user| self.is_by_grant(*user, handle));
                users
            }
            _ => return Err(Errno::INVAL),
        };
        if !force && (!users.is_empty() || self.in_transfer(handle)) {
            if let Kind::Offer(offer) = &mut self.object_mut(context, handle)?.kind {
                offer.closing = true;
            }
            return Err(Errno::BUSY);
        }
        for user in users {
            self.withdrawn(user, true);
        }
        self.forget(context, handle);
        Ok(())
    }

    fn is_by_grant(&self, connection: u32, grant: u32) -> bool {
        let object = self.sharing.objects.get(&connection);
        matches!(object.map(|o| &o.kind), Some(Kind::Connection(c)) if c.grant == Some(grant))
    }

    /// Handles of a segment.
    fn holders(&self, key: u32) -> usize {
        let holds =
            |object: &&Object| matches!(&object.kind, Kind::Segment { body, .. } if *body == key);
        self.sharing.objects.values().filter(holds).count()
    }

    fn forget(&mut self, context: u32, handle: u32) {
        if let Some(context) = self.contexts.get_mut(&context) {
            context.watches.remove(&(handle, false));
            context.notifies.remove(&(handle, false));
        }
        let Some(object) = self.sharing.objects.remove(&handle) else {
            return;
        };
        if let Kind::Segment { body, .. } = object.kind {
            if self.holders(body) == 0 {
                self.sharing.bodies.remove(&body);
            }
        }
    }

    /// Close whatever the handle is of.
    pub fn close_object(&mut self, context: u32, handle: u32) -> Result<()> {
        match self.object(context, handle)?.kind {
            Kind::Segment { .. } | Kind::Offer(_) | Kind::Permit(_) => {
                self.remove_object(context, handle, MP_REMOVE_FORCE)
            }
            Kind::Connection(ref connection) => {
                if connection.state & MP_CONNECTION_LOST == 0 {
                    self.tell_owner(handle, MP_NOTICE_DISCONNECTED);
                }
                self.forget(context, handle);
                Ok(())
            }
            Kind::Queue(_) => {
                self.forget(context, handle);
                Ok(())
            }
        }
    }

    pub fn enter_objects(&mut self, context: u32) -> Result<()> {
        let status = file("status", STATUS_LEN)?;
        self.sharing.status.insert(context, status);
        Ok(())
    }

    pub fn leave_objects(&mut self, context: u32) {
        let own = self.sharing.objects.iter();
        let own: Vec<u32> = own
            .filter(|(_, object)| object.context == context)
            .map(|(handle, _)| *handle)
            .collect();
        for handle in own {
            let _ = self.close_object(context, handle);
        }
        self.sharing.status.remove(&context);
    }

    /// What a link does to the connections over it.
    pub fn bridge_failed(&mut self, link: usize, host: Host) {
        let at = interface(link, host);
        let mut told = Vec::new();
        let mut lost = Vec::new();
        for (handle, object) in &mut self.sharing.objects {
            if object.host != host {
                continue;
            }
            match &mut object.kind {
                Kind::Segment { body, notices } => {
                    let body = self.sharing.bodies.get(body);
                    let state = body.and_then(|body| body.at.get(&at)).copied();
                    if state.unwrap_or(MP_SEGMENT_UNPREPARED) != MP_SEGMENT_UNPREPARED {
                        notices.push_back((MP_NOTICE_FATAL, at, 0));
                        told.push(*handle);
                    }
                }
                Kind::Connection(connection) if connection.interface == at => {
                    connection.notices.push_back((MP_NOTICE_FATAL, at, 0));
                    lost.push(*handle);
                }
                _ => {}
            }
        }
        for handle in told {
            self.tell(handle, MP_EVENT_NOTICE);
        }
        for handle in lost {
            self.change_connection(handle, MP_NOTICE_LOST);
        }
    }

    pub fn connections_changed(&mut self, link: usize, notice: u32) {
        let over: Vec<u32> = self
            .sharing
            .objects
            .iter()
            .filter(|(_, object)| match &object.kind {
                Kind::Connection(c) => {
                    c.interface == interface(link, object.host) && c.state & MP_CONNECTION_LOST == 0
                }
                _ => false,
            })
            .map(|(handle, _)| *handle)
            .collect();
        for handle in over {
            self.tell_owner(handle, notice);
            self.change_connection(handle, notice);
        }
    }

    /// What is there of an object.
    pub fn object_events(&self, context: u32, handle: u32) -> Result<u32> {
        let there = |is: bool, event| if is { event } else { 0 };
        Ok(match &self.object(context, handle)?.kind {
            Kind::Segment { notices, .. } => there(!notices.is_empty(), MP_EVENT_NOTICE),
            Kind::Offer(offer) => {
                there(offer.triggers > 0, MP_EVENT_SIGNAL)
                    | there(!offer.messages.is_empty(), MP_EVENT_MESSAGE)
            }
            Kind::Connection(c) => there(!c.notices.is_empty(), MP_EVENT_NOTICE),
            Kind::Queue(queue) => {
                let running = matches!(queue.state, MP_QUEUE_IDLE | MP_QUEUE_POSTED);
                there(!running, MP_EVENT_DONE)
            }
            Kind::Permit(_) => 0,
        })
    }

    pub fn take_object_events(&mut self, context: u32, handle: u32, events: u32) {
        if let Ok(Object {
            kind: Kind::Offer(offer),
            ..
        }) = self.object_mut(context, handle)
        {
            if events & MP_EVENT_SIGNAL != 0 {
                offer.triggers -= 1;
            }
        }
    }

    /// The file and its length that an offset for mapping leads to.
    pub fn mappable_object(&self, context: u32, offset: u64) -> Result<(Arc<OwnedFd>, u64)> {
        if offset == STATUS_OFFSET {
            let status = self.sharing.status.get(&context).ok_or(Errno::SHUTDOWN)?;
            return Ok((status.clone(), STATUS_LEN));
        }
        let body = match &self.object(context, (offset >> 32) as u32)?.kind {
            Kind::Segment { body, .. } => Some(*body),
            Kind::Connection(connection) => connection.body,
            _ => None,
        };
        let body = self.body(body.ok_or(Errno::INVAL)?)?;
        Ok((body.file.clone(), body.len.next_multiple_of(4096)))
    }
}
