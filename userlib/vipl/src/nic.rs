// SPDX-License-Identifier: MIT OR Apache-2.0

//! NICs: the fabric of this host as a program has opened it, and all that it has made there.

use crate::{
    arrivals::Arrivals,
    attributes::{NicAttributes, ViAttributes, CQ_MAX},
    completion::Cq,
    connect::RequestShared,
    descriptor::Status,
    lock,
    memory::{lockable, Locks, Regions},
    notify::Notifier,
    report::{ErrorCode, ErrorEvent, ErrorHandler, Report, Resource},
    room::{must_have_memory, Living},
    tag::Tags,
    trunk::Trunks,
    vi::{Serviced, Vi},
    Error, HostAddress, MemAttributes, MemHandle, Ptag, Result,
};
use mp_fabric::{CharDevice, Device, Fabric, Interface, ProcessMemory};
use mp_queue_pair::provider::{Owner, Role, Service};
use std::{
    collections::HashMap,
    env, fmt,
    sync::{
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        Arc, Mutex, Weak,
    },
};
use tracing::{debug, error};

/// What the names of NICs begin with.
pub const NIC_BASE_NAME: &str = "VINIC";

/// Most errors that repeat and wait for the error handler.
const REPEATED_MAX: usize = 256;

/// How a fabric is opened.
type Open<D> = Arc<dyn Fn() -> mp_fabric::Result<Fabric<D>> + Send + Sync>;

/// The environment variable that asks for checks of what crosses, if it is `1`.
pub const CHECKS_VARIABLE: &str = "VIPL_CHECKS";

/// The environment variable that switches off that calls tell of partitions, if it is `0`.
pub const PARTITIONS_VARIABLE: &str = "VIPL_PARTITIONS";

/// The library: the way to the driver. A process has one: pages that are registered with NICs of
/// two of them are locked until the first of them lets go.
pub struct Library<D: Device = CharDevice> {
    open: Open<D>,
    checks: bool,
    partitions: bool,
    locks: Arc<Locks>,
}

impl<D: Device> Clone for Library<D> {
    fn clone(&self) -> Self {
        Library {
            open: Arc::clone(&self.open),
            checks: self.checks,
            partitions: self.partitions,
            locks: Arc::clone(&self.locks),
        }
    }
}

impl<D: Device> fmt::Debug for Library<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

impl Library {
    /// The library on this host's fabric, as the environment asks for it ([`CHECKS_VARIABLE`],
    /// [`PARTITIONS_VARIABLE`]).
    pub fn load() -> Self {
        mp_log::init();
        let is = |name, value| env::var_os(name).is_some_and(|set| set == value);
        let library = Library::new(Fabric::open).checks(is(CHECKS_VARIABLE, "1"));
        library.partitions(!is(PARTITIONS_VARIABLE, "0"))
    }
}

impl<D: Device> Library<D> {
    /// The library on a device of another kind.
    pub fn new(open: impl Fn() -> mp_fabric::Result<Fabric<D>> + Send + Sync + 'static) -> Self {
        Library {
            open: Arc::new(open),
            checks: false,
            partitions: true,
            locks: Arc::default(),
        }
    }

    /// Ask for checks of what crosses, for the connections of NICs that are opened from now on:
    /// each message has a checksum and a number, and is told of as the level says if it is
    /// spoiled or lost (VI-EM-7, VI-EM-8, VI-EM-10). A connection has checks if one of its sides
    /// asks for them.
    #[must_use]
    pub fn checks(self, checks: bool) -> Self {
        Library { checks, ..self }
    }

    /// Whether calls that connect tell at once of a host that no link leads to (VI-NR-1); they do
    /// at first. Otherwise they go on trying, and tell that they are too late (VI-NR-2). For NICs
    /// that are opened from now on.
    #[must_use]
    pub fn partitions(self, partitions: bool) -> Self {
        Library { partitions, ..self }
    }

    /// Open a NIC by its name. `VINIC` and `VINIC0` are the fabric of this host (VI-NIC-1 to
    /// VI-NIC-4); each opening is a handle of its own.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: not a name of a NIC. [`Error::Resource`]: there is no such NIC,
    /// or no fabric.
    pub fn open_nic(&self, name: &str) -> Result<Nic<D>> {
        let number = name.strip_prefix(NIC_BASE_NAME);
        let number = number.ok_or(Error::InvalidParameter)?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        match number {
            "" | "0" => {}
            _ if is_number => return Err(Error::Resource),
            _ => return Err(Error::InvalidParameter),
        }
        must_have_memory()?;
        let fabric = (self.open)().map_err(|error| {
            error!("{name}: {error}");
            Error::Resource
        })?;
        Nic::new(fabric, name, self)
    }
}

/// An open NIC. Copies are the same one; the last of them closes it when it is dropped.
pub struct Nic<D: Device = CharDevice>(Arc<Opened<D>>);

impl<D: Device> Clone for Nic<D> {
    fn clone(&self) -> Self {
        Nic(Arc::clone(&self.0))
    }
}

impl<D: Device> fmt::Debug for Nic<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic").finish_non_exhaustive()
    }
}

/// What closes a NIC when the program has no copy of it any more.
struct Opened<D: Device> {
    shared: Arc<NicShared<D>>,
}

impl<D: Device> Drop for Opened<D> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

pub(crate) struct NicShared<D: Device> {
    pub(crate) fabric: Fabric<D>,
    pub(crate) attributes: NicAttributes,
    /// Connections are asked to have checks.
    pub(crate) checks: bool,
    /// Calls that connect fail with [`Error::NotReachable`].
    pub(crate) tells_partitions: bool,
    /// Most bytes that are registered, huge pages included.
    most_registered: u64,
    pub(crate) tags: Tags,
    pub(crate) regions: Regions,
    pub(crate) service: Arc<Service>,
    role: Role<Serviced<D>>,
    pub(crate) trunks: Arc<Trunks<D>>,
    /// Threads of it that wait for partners; rung as well when it is closed.
    pub(crate) arrivals: Arrivals,
    objects: Mutex<Objects<D>>,
    last: AtomicU64,
    closed: AtomicBool,
    handler: Arc<Mutex<Slot<D>>>,
    /// The NIC as handlers are given it.
    opened: Mutex<Weak<Opened<D>>>,
    notifier: Notifier,
    /// Errors that repeat and that nobody has been told of yet.
    repeated: Arc<AtomicUsize>,
}

/// Where the error handler is, unless it runs.
struct Slot<D: Device> {
    handler: Option<ErrorHandler<D>>,
    ended: bool,
}

impl<D: Device> Default for Slot<D> {
    fn default() -> Self {
        Slot {
            handler: None,
            ended: false,
        }
    }
}

struct Objects<D: Device> {
    vis: HashMap<u64, Vi<D>>,
    cqs: HashMap<u64, Cq<D>>,
    /// Requests of clients that may not be answered yet.
    requests: Living<RequestShared<D>>,
}

impl<D: Device> Nic<D> {
    fn new(fabric: Fabric<D>, name: &str, library: &Library<D>) -> Result<Self> {
        let info = fabric.info()?;
        let own = fabric.host().map_err(|_| Error::Resource)?;
        let lockable = lockable();
        let attributes = NicAttributes::of(
            name.into(),
            HostAddress::of(own),
            info.version,
            info.sessions_max,
            lockable.told,
        );
        let service = Arc::new(Service::new()?);
        let trunks = Arc::new(Trunks::new(&fabric, &service)?);
        let opened = Arc::new(Opened {
            shared: Arc::new(NicShared {
                fabric,
                attributes,
                most_registered: lockable.most,
                checks: library.checks,
                tells_partitions: library.partitions,
                tags: Tags::default(),
                regions: Regions::new(&library.locks),
                service,
                role: Role::default(),
                trunks,
                arrivals: Arrivals::new()?,
                objects: Mutex::new(Objects {
                    vis: HashMap::new(),
                    cqs: HashMap::new(),
                    requests: Living::default(),
                }),
                last: AtomicU64::new(0),
                closed: AtomicBool::new(false),
                handler: Arc::default(),
                opened: Mutex::default(),
                notifier: Notifier::new("vipl-error"),
                repeated: Arc::default(),
            }),
        });
        *lock(&opened.shared.opened) = Arc::downgrade(&opened);
        Ok(Nic(opened))
    }

    pub(crate) fn shared(&self) -> &Arc<NicShared<D>> {
        &self.0.shared
    }

    fn open(&self) -> Result<&Arc<NicShared<D>>> {
        let shared = self.shared();
        shared.must_be_open()?;
        Ok(shared)
    }

    /// As [`open()`](Self::open), for calls that make something.
    fn open_with_memory(&self) -> Result<&Arc<NicShared<D>>> {
        must_have_memory()?;
        self.open()
    }

    /// End everything that was made with it (VI-NIC-5): calls that wait return
    /// [`Error::InvalidParameter`], and no handler starts any more.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: closed before, as of all calls.
    pub fn close(&self) -> Result<()> {
        match self.shared().close() {
            true => Ok(()),
            false => Err(Error::InvalidParameter),
        }
    }

    /// What the NIC has (VI-QRY-1).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`].
    pub fn attributes(&self) -> Result<&NicAttributes> {
        Ok(&self.open()?.attributes)
    }

    /// Make a protection tag.
    ///
    /// # Errors
    /// [`Error::Resource`].
    pub fn create_ptag(&self) -> Result<Ptag> {
        let shared = self.open_with_memory()?;
        shared.tags.create(shared.attributes.max_ptags as usize)
    }

    /// End a protection tag that no VI and no region has.
    ///
    /// # Errors
    /// [`Error::Resource`]: it is used. [`Error::InvalidParameter`].
    pub fn destroy_ptag(&self, tag: Ptag) -> Result<()> {
        self.open()?.tags.destroy(tag)
    }

    /// Register memory: all pages that it lies in. From then on descriptors can name it, and
    /// peers reach it as far as its attributes say.
    ///
    /// What is promised of [`ProcessMemory::new`] has to hold until the memory is deregistered, for
    /// the pages; also that it stays mapped.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: no bytes, or nothing is mapped there. [`Error::InvalidPtag`].
    /// [`Error::Resource`]: too much, or too many regions.
    pub fn register(
        &self,
        memory: ProcessMemory<'_>,
        attributes: &MemAttributes,
    ) -> Result<MemHandle> {
        let shared = self.open_with_memory()?;
        shared.tags.hold(attributes.ptag)?;
        let most = shared.most_registered;
        let handle = shared.regions.register(memory, *attributes, most);
        handle.inspect_err(|_| shared.tags.release(attributes.ptag))
    }

    /// End the registration of the memory at that address. When it returns, nothing uses the
    /// memory any more.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: it was not registered with that address and handle.
    pub fn deregister(&self, start: usize, handle: MemHandle) -> Result<()> {
        let shared = self.open()?;
        let tag = shared.regions.deregister(start, handle)?;
        shared.tags.release(tag);
        Ok(())
    }

    /// What registered memory has.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`].
    pub fn query_memory(&self, start: usize, handle: MemHandle) -> Result<MemAttributes> {
        self.open()?.regions.query(start, handle)
    }

    /// Change what registered memory has, all or nothing.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`], [`Error::InvalidPtag`].
    pub fn set_memory(
        &self,
        start: usize,
        handle: MemHandle,
        attributes: &MemAttributes,
    ) -> Result<()> {
        let shared = self.open()?;
        shared.regions.set(start, handle, *attributes, |before| {
            shared.tags.exchange(before.ptag, attributes.ptag)
        })
    }

    /// Make a completion queue for so many entries. The token is the program's own.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: no entries. [`Error::Resource`]: too many.
    pub fn create_cq(&self, entries: u64, token: u64) -> Result<Cq<D>> {
        let shared = self.open_with_memory()?;
        let cq = Cq::new(shared, shared.number(), entries, token)?;
        let mut objects = lock(&shared.objects);
        if objects.cqs.len() >= CQ_MAX {
            return Err(Error::Resource);
        }
        shared.must_be_open()?;
        reserve_one(&mut objects.cqs)?;
        objects.cqs.insert(cq.0.id, cq.clone());
        Ok(cq)
    }

    /// Make a VI, whose queues may be bound to completion queues (VI-EP-1 to VI-EP-9). The token
    /// is the program's own.
    ///
    /// # Errors
    /// [`Error::InvalidMtu`], [`Error::InvalidRdmaRead`], [`Error::InvalidPtag`].
    /// [`Error::InvalidParameter`]: a completion queue of another NIC, or destroyed.
    /// [`Error::Resource`]: too many.
    pub fn create_vi(
        &self,
        attributes: &ViAttributes,
        send_cq: Option<&Cq<D>>,
        recv_cq: Option<&Cq<D>>,
        token: u64,
    ) -> Result<Vi<D>> {
        let shared = self.open_with_memory()?;
        attributes.check()?;
        let cqs = [send_cq, recv_cq];
        for cq in cqs.into_iter().flatten() {
            if !lock(&shared.objects).cqs.contains_key(&cq.0.id) || !cq.0.is_of(shared) {
                return Err(Error::InvalidParameter);
            }
        }
        shared.tags.hold(attributes.ptag)?;
        let cqs = cqs.map(|cq| cq.cloned());
        let vi = Vi::new(shared, shared.number(), *attributes, cqs.clone(), token);
        let vi = vi.inspect_err(|_| shared.tags.release(attributes.ptag))?;
        let entered = shared.enter(&vi).and_then(|()| {
            let bound = cqs.iter().flatten().map(|cq| cq.0.bind(&vi.0));
            bound.collect::<Result<()>>()
        });
        if let Err(error) = entered {
            shared.forget_vi(vi.0.id);
            vi.0.end();
            vi.0.leave();
            return Err(error);
        }
        Ok(vi)
    }

    /// Tell a handler of asynchronous errors, in the place of one that there was; without one they
    /// are logged (VI-ERR-1, VI-ERR-2). It runs on a thread of its own, one error after the other.
    ///
    /// The one that there was is told of the errors up to now. It has returned, and is dropped, when
    /// this returns, unless it is the caller, or waits for the caller to return.
    ///
    /// # Errors
    /// [`Error::Resource`]: there are no more threads. [`Error::InvalidParameter`]: closed, also
    /// meanwhile.
    pub fn set_error_handler(&self, handler: Option<ErrorHandler<D>>) -> Result<()> {
        let shared = self.open_with_memory()?;
        shared.notifier.start()?;
        let next = Arc::clone(&shared.handler);
        // Not while one runs: it may be the one that asks for another one.
        let refused = shared.notifier.push(Box::new(move || {
            let before = std::mem::replace(&mut lock(&next).handler, handler);
            drop(before);
        }));
        match refused {
            None => {
                shared.notifier.settle();
                shared.must_be_open()
            }
            Some(_) => Err(Error::InvalidParameter),
        }
    }

    /// Addresses of hosts that are so many links away at most, without its own (VI-SMI-2). Those
    /// that another host forwards to are two links away.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`].
    pub fn neighbours(&self, hops: u64) -> Result<Vec<HostAddress>> {
        let fabric = &self.open()?.fabric;
        let interfaces = fabric.interfaces()?.into_iter();
        let interfaces = interfaces.filter_map(|id| fabric.interface(id).ok());
        let is_within = |interface: &Interface| match hops {
            0 => false,
            1 => interface.is_link(),
            _ => !interface.loopback,
        };
        let others = interfaces.filter(|interface| interface.up && is_within(interface));
        let mut hosts: Vec<_> = others.filter_map(|i| i.peer).map(HostAddress::of).collect();
        hosts.sort_unstable();
        hosts.dedup();
        Ok(hosts)
    }
}

/// VIs and trunks are served by their numbers.
impl<D: Device> Owner for NicShared<D> {
    type Device = D;
    type Link = Serviced<D>;

    fn service(&self) -> &Service {
        &self.service
    }

    fn role(&self) -> &Role<Serviced<D>> {
        &self.role
    }

    fn fabric(&self) -> &Fabric<D> {
        &self.fabric
    }

    fn link(&self, number: u64) -> Option<Serviced<D>> {
        if let Some(Vi(vi)) = lock(&self.objects).vis.get(&number).cloned() {
            return Some(Serviced::Vi(vi));
        }
        let trunk = self.trunks.get(number)?;
        Some(Serviced::Trunk(trunk, self.fabric.clone()))
    }

    /// A NIC without its device has failed, and all VIs with it (VI-ERR-15).
    fn fail(&self) {
        let report = Report {
            code: ErrorCode::Catastrophic,
            resource: Resource::Nic,
            operation: Status::default(),
            descriptor: None,
        };
        self.report(None, None, report, false);
        let vis: Vec<Vi<D>> = lock(&self.objects).vis.values().cloned().collect();
        vis.iter().for_each(|vi| vi.0.fail());
    }
}

impl<D: Device> NicShared<D> {
    pub(crate) fn must_be_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::InvalidParameter),
        }
    }

    /// A request ends with the NIC.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`]: it is closed. [`Error::Resource`]: there is no memory.
    pub(crate) fn enter_request(&self, request: &Arc<RequestShared<D>>) -> Result<()> {
        let mut objects = lock(&self.objects);
        self.must_be_open()?;
        objects.requests.enter(request)
    }

    /// A number that no object has had.
    pub(crate) fn number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn enter(&self, vi: &Vi<D>) -> Result<()> {
        let mut objects = lock(&self.objects);
        self.must_be_open()?;
        if objects.vis.len() as u64 >= self.attributes.max_vi {
            return Err(Error::Resource);
        }
        reserve_one(&mut objects.vis)?;
        objects.vis.insert(vi.0.id, vi.clone());
        Ok(())
    }

    pub(crate) fn forget_vi(&self, id: u64) {
        let vi = lock(&self.objects).vis.remove(&id);
        drop(vi);
    }

    pub(crate) fn forget_cq(&self, id: u64) {
        let cq = lock(&self.objects).cqs.remove(&id);
        drop(cq);
    }

    /// End everything; false if that was done before.
    ///
    /// First everything is told to end, then handlers are waited for: one that runs may wait for
    /// any of the others.
    fn close(&self) -> bool {
        let mut objects = lock(&self.objects);
        if self.closed.swap(true, Ordering::AcqRel) {
            return false;
        }
        let vis: Vec<Vi<D>> = objects.vis.drain().map(|(_, vi)| vi).collect();
        let cqs: Vec<Cq<D>> = objects.cqs.drain().map(|(_, cq)| cq).collect();
        let requests = std::mem::take(&mut objects.requests);
        drop(objects);
        // They see that it is closed.
        self.arrivals.ring();
        self.service.stop();
        // As long as there are regions: what a partner sends is not refused for want of them.
        vis.iter().for_each(|vi| vi.0.part());
        self.trunks.close();
        // Before queues are flushed: nobody takes from them, and the program may have given the
        // memory back.
        self.regions.clear();
        vis.iter().for_each(|vi| vi.0.end());
        cqs.iter().for_each(|cq| cq.0.end());
        for request in requests.iter() {
            request.end();
        }
        self.notifier.close();
        vis.iter().for_each(|vi| vi.0.leave());
        cqs.iter().for_each(|cq| cq.0.leave());
        self.notifier.stop();
        let mut slot = lock(&self.handler);
        slot.ended = true;
        let handler = slot.handler.take();
        drop(slot);
        drop(handler);
        self.tags.clear();
        true
    }

    /// Tell of an asynchronous error, behind those before (VI-ERR-19): who reports in the order of
    /// occurrence holds the lock of what it is about. Of errors that repeat, which a remote side
    /// may cause at any rate, no more than [`REPEATED_MAX`] wait.
    pub(crate) fn report(
        &self,
        vi: Option<Vi<D>>,
        cq: Option<Cq<D>>,
        report: Report,
        repeats: bool,
    ) {
        let event = ErrorEvent {
            vi,
            cq,
            descriptor: report.descriptor,
            operation: report.operation,
            resource: report.resource,
            code: report.code,
        };
        if self.notifier.start().is_err() {
            return unhandled(&event);
        }
        let waiting = match repeats {
            true => Some(Arc::clone(&self.repeated)),
            false => None,
        };
        if let Some(waiting) = &waiting {
            if waiting.fetch_add(1, Ordering::Relaxed) >= REPEATED_MAX {
                waiting.fetch_sub(1, Ordering::Relaxed);
                return debug!("{:?}, as many that nobody has been told of yet", event.code);
            }
        }
        // Not the NIC itself: dropping it closes it.
        let opened = lock(&self.opened).clone();
        let handler = Arc::clone(&self.handler);
        let refused = self.notifier.push(Box::new(move || {
            if let Some(waiting) = waiting {
                waiting.fetch_sub(1, Ordering::Relaxed);
            }
            // Not with the lock held: it may close the NIC.
            let taken = lock(&handler).handler.take();
            let (Some(mut run), Some(nic)) = (taken, opened.upgrade().map(Nic)) else {
                return unhandled(&event);
            };
            run(&nic, &event);
            let mut slot = lock(&handler);
            if !slot.ended {
                slot.handler = Some(run);
            }
        }));
        // Nothing of the program's is in it.
        drop(refused);
    }

    /// A completion queue had no room: all VIs that are bound to it fail (VI-CQ-11).
    pub(crate) fn overrun(&self, cq: &Cq<D>) {
        let report = Report {
            code: ErrorCode::Catastrophic,
            resource: Resource::Cq,
            operation: Status::default(),
            descriptor: None,
        };
        self.report(None, Some(cq.clone()), report, false);
        cq.0.each_bound(|vi| vi.fail());
    }
}

/// Make sure that there is room for another object.
///
/// # Errors
/// [`Error::Resource`].
fn reserve_one<T>(objects: &mut HashMap<u64, T>) -> Result<()> {
    objects.try_reserve(1).map_err(|_| Error::Resource)
}

/// Log an error that has no handler (VI-ERR-2).
fn unhandled<D: Device>(event: &ErrorEvent<D>) {
    let text = format!("{:?} of a {:?}, and no handler", event.code, event.resource);
    error!("{text}");
    mp_log::last_resort(format_args!("vipl: {text}"));
}
