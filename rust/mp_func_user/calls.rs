// SPDX-License-Identifier: GPL-2.0-only

//! The calls of `uapi/linux/mp_fabric.h`: structures in, objects' methods, structures
//! out.
//!
//! * [`interfaces`]: those about interfaces and windows. [`sessions`]: those about sessions.

use crate::{
    answer as partner,
    connection::{
        Connection,
        Goal, //
    },
    context::{
        Context,
        Make,
        Object, //
    },
    handover,
    host::Links,
    lane::Lane,
    link::Link,
    notices::Notice,
    offer::Terms,
    park,
    placed::{
        Exchanging,
        Word, //
    },
    queue::{
        Job,
        Queue,
        Source, //
    },
    ready,
    segment::{
        Holding,
        Wanted, //
    },
    stores,
    uapi::*,
    window::Piece, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};
use mp_kernel::{
    dma_buf::{
        Part,
        HAS_DMA_BUFS, //
    },
    error,
    eventfd::EventFd,
    iomem::{
        Bar,
        DeviceRange, //
    },
    process::{
        self,
        PhysicalUse, //
    },
    time,
    uaccess::{
        read_sized,
        read_versioned,
        write_versioned,
        Versioned, //
    },
    user_pages::Purpose, //
};
use mp_proto::{
    fabric,
    name::{
        Name,
        NAME_MAX, //
    },
    sharing, //
};
use mp_transport::memory::Memory;

/// The BAR that the fields of a structure name.
macro_rules! bar_of {
    ($of:expr) => {
        Bar {
            domain: u32::from($of.pci_domain_high) << 16 | u32::from($of.pci_domain),
            bus: $of.pci_bus,
            devfn: $of.pci_devfn,
            number: $of.pci_bar.into(),
        }
    };
}

#[path = "calls/interfaces.rs"]
mod interfaces;
#[path = "calls/sessions.rs"]
mod sessions;

use interfaces::{
    describe_interface,
    describe_window,
    list_interfaces,
    list_windows, //
};
use sessions::{
    address_of,
    describe_session,
    grant_access,
    open_session, //
};

/// Structures of numbers only, with the size of their first version. They have no padding:
/// `layout.c` beside this file does not compile otherwise.
macro_rules! structures {
    ($($name:ident $size:literal)*) => {$(
        const _: () = assert!(core::mem::size_of::<$name>() >= $size);
        // SAFETY: Numbers, for which all bits will do, without padding: see above.
        unsafe impl kernel::transmute::FromBytes for $name {}
        // SAFETY: As above.
        unsafe impl kernel::transmute::AsBytes for $name {}

        impl Versioned for $name {
            const FIRST_SIZE: usize = $size;
        }
    )*};
}

structures! {
    mp_info 24
    mp_handle 8
    mp_export 24
    mp_import 32
    mp_wait 32
    mp_eventfd 24
    mp_watch 24
    mp_interfaces 24
    mp_interface 96
    mp_windows 24
    mp_window 72
    mp_session_open 80
    mp_session_partner 72
    mp_session_answer 40
    mp_session 48
    mp_session_address 16
    mp_session_access 16
    mp_session_store 32
    mp_park 40
    mp_park_entry 40
    mp_segment_create 32
    mp_segment_attach 24
    mp_segment_interface 16
    mp_segment 48
    mp_segment_register 32
    mp_segment_grant 24
    mp_segment_dmabuf 24
    mp_remove 16
    mp_offer 24
    mp_connect 32
    mp_connection 48
    mp_notice 32
    mp_message 32
    mp_barrier 24
    mp_exchange 48
    mp_address 32
    mp_queue_create 16
    mp_queue_start 32
    mp_queue 24
    mp_copy 24
    mp_event 16
}

/// Deal with a call.
///
/// # Errors
///
/// Those in the header; `ENOTTY` for a call that is none.
pub(crate) fn call(context: &Context, command: u32, arg: UserPtr) -> Result {
    match command {
        MP_IOC_INFO => with(arg, |info| describe(context, info)),
        MP_IOC_CLOSE => take(arg, |close: &mp_handle| context.close(close.handle)),
        MP_IOC_WAIT => wait_for(context, arg),
        MP_IOC_EVENTFD => take(arg, |notify| notify_of(context, notify)),
        MP_IOC_WATCH => take(arg, |watch| watch_for(context, watch)),
        MP_IOC_EXPORT => handover::export(context, arg),
        MP_IOC_IMPORT => handover::import(context, arg),
        MP_IOC_SIGNAL => take(arg, |of: &mp_handle| signal(context, of.handle)),
        MP_IOC_INTERFACES => with(arg, |list| list_interfaces(context, list)),
        MP_IOC_INTERFACE => with(arg, |info| describe_interface(context, info)),
        MP_IOC_WINDOWS => with(arg, |list| list_windows(context, list)),
        MP_IOC_WINDOW => with(arg, |info| describe_window(context, info)),
        MP_IOC_SESSION_OPEN => open_session(context, arg),
        MP_IOC_SESSION => with(arg, |info| describe_session(context, info)),
        MP_IOC_SESSION_ADDRESS => with(arg, |address| address_of(context, address)),
        MP_IOC_SESSION_ACCESS => take(arg, |access| grant_access(context, access)),
        MP_IOC_SESSION_PARTNER => with(arg, |info| partner::describe(context, info)),
        MP_IOC_SESSION_ANSWER => take(arg, |given| partner::give(context, given)),
        MP_IOC_PARK => park::park(context, arg),
        MP_IOC_SESSION_STORE => take(arg, |store| stores::store(context, store)),
        MP_IOC_SEGMENT_CREATE => create_segment(context, arg),
        MP_IOC_SEGMENT_SHARE => take(arg, |of: &mp_handle| {
            own_segment(context, of.handle)?.share()
        }),
        MP_IOC_SEGMENT_ATTACH => attach_segment(context, arg),
        MP_IOC_SEGMENT_PREPARE => take(arg, |at| prepare_segment(context, at)),
        MP_IOC_SEGMENT_PUBLISH => take(arg, |at| publish_segment(context, at)),
        MP_IOC_SEGMENT_WITHDRAW => take(arg, |at| withdraw_segment(context, at)),
        MP_IOC_SEGMENT_REGISTER => take(arg, |fill| fill_segment(context, fill)),
        MP_IOC_SEGMENT_GRANT => grant_segment(context, arg),
        MP_IOC_SEGMENT_DMABUF => handover::export_dma_buf(context, arg),
        MP_IOC_SEGMENT => with(arg, |info| describe_segment(context, info)),
        MP_IOC_REMOVE => take(arg, |remove| remove_object(context, remove)),
        MP_IOC_OFFER => offer(context, arg),
        MP_IOC_CONNECT => connect(context, arg),
        MP_IOC_CONNECTION => with(arg, |info| describe_connection(context, info)),
        MP_IOC_NOTICE => with_taken(arg, |notice, give| take_notice(context, notice, give)),
        MP_IOC_SEND => take(arg, |message| send(context, message)),
        MP_IOC_RECEIVE => with_taken(arg, |message, give| receive(context, message, give)),
        MP_IOC_BARRIER => take(arg, |barrier| wait_for_stores(context, barrier)),
        MP_IOC_EXCHANGE => exchange(context, arg),
        MP_IOC_ADDRESS => with(arg, |range| find_address(context, range)),
        MP_IOC_QUEUE_CREATE => create_queue(context, arg),
        MP_IOC_QUEUE_START => take(arg, |start| start_queue(context, start)),
        MP_IOC_QUEUE_ABORT => take(arg, |of: &mp_handle| abort_queue(context, of.handle)),
        MP_IOC_QUEUE => with(arg, |info| describe_queue(context, info)),
        _ => Err(ENOTTY),
    }
}

/// What a call has come to that has something to tell in any case.
pub(crate) enum Told {
    /// All went well.
    Done,
    /// Tells what there is, and fails.
    Short(Error),
}

/// A call that gives something back; nothing if it fails otherwise.
fn with<T: Versioned>(arg: UserPtr, f: impl FnOnce(&mut T) -> Result<Told>) -> Result {
    let (mut value, size) = read_sized::<T>(arg)?;
    let told = f(&mut value)?;
    write_versioned(arg, size, &value)?;
    match told {
        Told::Done => Ok(()),
        Told::Short(e) => Err(e),
    }
}

/// A call that takes something, which it does once the caller has it: what `f` gets gives the
/// structure.
fn with_taken<T: Versioned>(
    arg: UserPtr,
    f: impl FnOnce(&T, Give<'_, T>) -> Result<Told>,
) -> Result {
    let (value, size) = read_sized::<T>(arg)?;
    let mut is_given = false;
    let told = f(&value, &mut |given| {
        is_given = true;
        write_versioned(arg, size, given)
    });
    match told {
        Ok(Told::Done) => Ok(()),
        Ok(Told::Short(e)) => Err(e),
        Err(e) => {
            if is_given {
                // Another thread has taken it meanwhile. Where it cannot be written any more,
                // it was not given either.
                let _ = write_versioned(arg, size, &value);
            }
            Err(e)
        }
    }
}

/// See [`with_taken`].
type Give<'a, T> = &'a mut dyn FnMut(&T) -> Result;

/// A call that gives nothing back.
fn take<T: Versioned>(arg: UserPtr, f: impl FnOnce(&T) -> Result) -> Result {
    let (value, _) = read_sized::<T>(arg)?;
    f(&value)
}

/// Refuse what must be zero and is not.
pub(crate) fn expect_zero(value: u32) -> Result {
    match value {
        0 => Ok(()),
        _ => Err(EINVAL),
    }
}

/// An address of the caller.
fn user_pointer(address: u64) -> Result<UserPtr> {
    let address = usize::try_from(address).map_err(|_| EFAULT)?;
    Ok(UserPtr::from_addr(address))
}

/// The memory of the caller at `address`.
pub(crate) fn user(address: u64, len: usize) -> Result<UserSlice> {
    Ok(UserSlice::new(user_pointer(address)?, len))
}

/// The name that the caller has at `address`; none without bytes.
///
/// # Errors
///
/// `EINVAL` if it is too long, `EFAULT`.
pub(crate) fn name_of_caller(address: u64, size: u32) -> Result<Name> {
    if size == 0 {
        return Ok(Name::NONE);
    }
    let mut bytes = [0; NAME_MAX];
    let room = bytes.get_mut(..size as usize).ok_or(EINVAL)?;
    user(address, room.len())?.reader().read_slice(room)?;
    Name::new(room).ok_or(EINVAL)
}

/// Element number `n` of an array of the caller, of the size that it has named.
///
/// # Errors
///
/// `EFAULT`, `EINVAL`, `E2BIG`.
pub(crate) fn element<T: Versioned>(array: u64, n: usize, named: u32) -> Result<T> {
    let size = match named {
        0 => T::FIRST_SIZE,
        size => size as usize,
    };
    let at = n
        .checked_mul(size)
        .and_then(|at| array.checked_add(at as u64));
    read_versioned(user_pointer(at.ok_or(EFAULT)?)?, size)
}

/// Give as many numbers as fit, if all fit.
fn put_ids(ids: &[u32], address: u64, capacity: u32) -> Result<Told> {
    if ids.len() > capacity as usize {
        return Ok(Told::Short(ENOSPC));
    }
    let mut writer = user(address, core::mem::size_of_val(ids))?.writer();
    for id in ids {
        writer.write(id)?;
    }
    Ok(Told::Done)
}

fn describe(context: &Context, info: &mut mp_info) -> Result<Told> {
    let shared = context.shared();
    info.version = MP_FABRIC_VERSION;
    info.features = u64::from(
        MP_FEATURE_SESSIONS
            | MP_FEATURE_SEGMENTS
            | MP_FEATURE_EVENTS
            | MP_FEATURE_PORTS
            | MP_FEATURE_QUEUES
            | MP_FEATURE_REGISTER
            | MP_FEATURE_PINNED
            | MP_FEATURE_ACCEPT
            | MP_FEATURE_PARK
            | MP_FEATURE_PLACED
            | MP_FEATURE_REGISTER_ANY
            | MP_FEATURE_GRANTS
            | MP_FEATURE_STORE
            | MP_FEATURE_NAMES
            | MP_FEATURE_ARRIVALS
            | MP_FEATURE_HANDOVER
            | MP_FEATURE_REGISTER_BAR
            | MP_FEATURE_ONE_PEER
            | MP_FEATURE_PRIVATE
            | MP_FEATURE_EXCHANGE,
    );
    info.sessions_max = shared.limits.sessions;
    info.user_sessions_max = shared.limits.user_sessions;
    if HAS_DMA_BUFS {
        info.features |= u64::from(MP_FEATURE_DMABUF);
    }
    info.objects_max = shared.limits.objects;
    info.user_objects_max = shared.limits.user_objects;
    (info.status_offset, info.status_length) = context.status().place();
    info.user_contexts_max = shared.limits.user_contexts;
    info.user_segments_max = shared.limits.user_segments;
    info.user_connections_max = shared.limits.user_connections;
    info.user_memory_max = shared.limits.user_memory.min(100);
    info.message_max = MP_MESSAGE_MAX;
    info.messages_max = sharing::window::MESSAGES;
    info.queue_entries_max = MP_QUEUE_ENTRIES_MAX;
    info.park_entries_max = MP_PARK_ENTRIES_MAX;
    info.stores_max = MP_STORES_MAX;
    info.stores_bytes_max = MP_STORES_BYTES_MAX;
    Ok(Told::Done)
}

/// The events that a call names, with what it may name.
fn target(
    context: &Context,
    flags: u32,
    target: u32,
    mask: u32,
) -> Result<Arc<crate::ready::Ready>> {
    if flags & MP_WAIT_INTERFACE != 0 && target == MP_INTERFACE_ANY {
        expect_zero(mask & !ready::STATE)?;
        return context.arrivals();
    }
    if flags & MP_WAIT_INTERFACE != 0 {
        expect_zero(mask & !ready::OF_INTERFACES)?;
        return context.interface(target);
    }
    expect_zero(mask & !ready::OF_OBJECTS)?;
    let (ready, known) = context.ready(target)?;
    expect_zero(mask & !known)?;
    Ok(ready)
}

fn signal(context: &Context, handle: u32) -> Result {
    match context.session(handle) {
        Ok(session) => session.signal(),
        Err(_) => context.connection(handle)?.trigger(),
    }
}

/// A deadline by the clock of the caller, if it is one, by that of the host.
pub(crate) fn deadline(at: u64) -> Option<u64> {
    (at != u64::MAX).then(|| time::from_clock_of_caller(at))
}

fn wait_for(context: &Context, arg: UserPtr) -> Result {
    let (mut wait, size) = read_sized::<mp_wait>(arg)?;
    expect_zero(wait.reserved)?;
    expect_zero(wait.flags & !(MP_WAIT_INTERFACE | MP_WAIT_ONE))?;
    if wait.mask == 0 {
        return Err(EINVAL);
    }
    let ready = target(context, wait.flags, wait.target, wait.mask)?;
    let deadline = deadline(wait.deadline);
    let one = wait.flags & MP_WAIT_ONE != 0;
    wait.events = ready.wait(wait.mask, deadline, one)?;
    // Nothing of a signal is left but this.
    write_versioned(arg, size, &wait).inspect_err(|_| ready.give_back(wait.events))
}

fn notify_of(context: &Context, notify: &mp_eventfd) -> Result {
    expect_zero(notify.reserved)?;
    expect_zero(notify.flags & !MP_WAIT_INTERFACE)?;
    let ready = target(context, notify.flags, notify.target, notify.mask)?;
    let eventfd = match notify.eventfd {
        -1 => None,
        fd => Some(EventFd::from_fd(fd).map_err(|_| EBADF)?),
    };
    ready.notify(eventfd, notify.mask);
    Ok(())
}

fn watch_for(context: &Context, watch: &mp_watch) -> Result {
    expect_zero(watch.reserved)?;
    expect_zero(watch.flags & !MP_WAIT_INTERFACE)?;
    let ready = target(context, watch.flags, watch.target, watch.mask)?;
    context
        .stream()
        .set_record_size(watch.record_size as usize)?;
    ready.watch(context.stream(), watch.target, watch.mask, watch.cookie)
}

/// `EPERM` unless the process may name physical addresses, and be told them.
fn need_physical_addresses(wanted: PhysicalUse) -> Result {
    match process::may_use_physical_addresses(wanted) {
        true => Ok(()),
        false => Err(EPERM),
    }
}

fn find_address(context: &Context, range: &mut mp_address) -> Result<Told> {
    let object = context.object(range.handle)?;
    need_physical_addresses(PhysicalUse::Memory)?;
    let (offset, length) = (range.offset, range.length);
    range.address = match object {
        Object::Segment(holding) => holding.phys_address(offset, length)?,
        Object::Connection(to) => to.phys_address(offset, length)?,
        _ => return Err(ENOENT),
    };
    Ok(Told::Done)
}

/// Answer a call that has made an object, or close that again: nobody would know its
/// handle.
pub(crate) fn answer<T: Versioned>(
    context: &Context,
    arg: UserPtr,
    size: usize,
    value: &T,
    handle: u32,
) -> Result {
    write_versioned(arg, size, value).inspect_err(|_| {
        // Unless another thread has guessed it, and has closed it already.
        let _ = context.close(handle);
    })
}

/// A segment of which the context says what peers may do with it.
///
/// # Errors
///
/// `ENOENT`, `EACCES` if it was only handed over.
fn own_segment(context: &Context, handle: u32) -> Result<Arc<Holding>> {
    let segment = context.segment(handle)?;
    segment.check_owner()?;
    Ok(segment)
}

/// The link of whose memory a segment is cut, and that memory; none if all peers are to reach it, or it
/// is made without memory. What is private is nobody's but this host's.
///
/// # Errors
///
/// `ENODEV`, `ENETDOWN`.
fn source_of(links: &Links, create: &mp_segment_create) -> Result<Option<(u32, Arc<Memory>)>> {
    let has = |flag| create.flags & flag != 0;
    let link = match (has(MP_SEGMENT_ONE_PEER), has(MP_SEGMENT_PRIVATE)) {
        _ if has(MP_SEGMENT_EMPTY) => return Ok(None),
        (true, _) => links.get(create.interface)?,
        (false, true) => links.own()?,
        (false, false) => return Ok(None),
    };
    let memory = link.memory().ok_or_else(error::net_down)?;
    Ok(Some((link.interface().id(), memory)))
}

fn create_segment(context: &Context, arg: UserPtr) -> Result {
    let (mut create, size) = read_sized::<mp_segment_create>(arg)?;
    expect_zero(create.reserved)?;
    let known = MP_SEGMENT_PRIVATE | MP_SEGMENT_EMPTY | MP_SEGMENT_ONE_PEER;
    expect_zero(create.flags & !known)?;
    let is_private = create.flags & MP_SEGMENT_PRIVATE != 0;
    let is_empty = create.flags & MP_SEGMENT_EMPTY != 0;
    let is_for_one = create.flags & MP_SEGMENT_ONE_PEER != 0;
    if !is_for_one {
        expect_zero(create.interface)?;
    }
    if is_private {
        expect_zero(create.id_more | create.name_size)?;
    }
    if create.length == 0 || is_for_one && is_empty {
        return Err(EINVAL);
    }
    let shared = context.shared();
    let name = name_of_caller(create.name, create.name_size)?;
    let (of, memory) = source_of(&shared.links, &create)?.unzip();
    let wanted = Wanted {
        ids: (!is_private).then_some((create.id, create.id_more)),
        name,
        length: create.length,
        is_empty,
        memory,
    };
    let what = Make::Segment {
        // One that is empty is filled with memory that is not the fabric's.
        len: if is_empty { 0 } else { wanted.length },
        total: Links::memory_total(wanted.memory.as_deref()),
        of,
    };
    let object = context.make(what, || {
        let numbers = (shared.next_handle(), shared.next_handle());
        let segments = shared.links.segments();
        let holding = segments.create(numbers, context.user(), &wanted)?;
        Ok(Object::Segment(holding))
    })?;
    if let Object::Segment(holding) = &object {
        (create.handle, create.id) = (holding.number(), holding.id());
    }
    answer(context, arg, size, &create, create.handle)
}

fn attach_segment(context: &Context, arg: UserPtr) -> Result {
    let (mut attach, size) = read_sized::<mp_segment_attach>(arg)?;
    expect_zero(attach.reserved)?;
    let shared = context.shared();
    let object = context.make(Make::Attachment, || {
        let number = shared.next_handle();
        let segments = shared.links.segments();
        let holding = segments.attach(number, attach.id, context.user())?;
        Ok(Object::Segment(holding))
    })?;
    if let Object::Segment(holding) = &object {
        (attach.handle, attach.length) = (holding.number(), holding.len());
    }
    answer(context, arg, size, &attach, attach.handle)
}

fn fill_segment(context: &Context, fill: &mp_segment_register) -> Result {
    let known = MP_REGISTER_PHYSICAL | MP_REGISTER_READ_ONLY | MP_REGISTER_BAR | MP_REGISTER_DMABUF;
    expect_zero(fill.flags & !known)?;
    if fill.flags != MP_REGISTER_DMABUF {
        expect_zero(fill.fd as u32)?;
    }
    let segment = own_segment(context, fill.handle)?;
    let page = PAGE_SIZE as u64;
    let is_whole = fill.address % page == 0 && fill.length % page == 0;
    let bar = bar_of!(fill);
    let purpose = match fill.flags {
        0 => Some(Purpose::Write),
        MP_REGISTER_READ_ONLY => Some(Purpose::Read),
        MP_REGISTER_PHYSICAL | MP_REGISTER_BAR | MP_REGISTER_DMABUF if is_whole => None,
        _ => return Err(EINVAL),
    };
    let names_function = bar != Bar::default();
    if fill.length == 0 || names_function && fill.flags != MP_REGISTER_BAR {
        return Err(EINVAL);
    }
    segment.check_room(fill.length)?;
    if let Some(purpose) = purpose {
        let pages = context.pin(fill.address, fill.length, purpose)?;
        return segment.fill(Piece::Pages(Arc::new(pages, GFP_KERNEL_ACCOUNT)?));
    }
    if fill.flags == MP_REGISTER_DMABUF {
        let part = Part::of_descriptor(fill.fd, fill.address, fill.length)?;
        return segment.fill(Piece::DmaBuf(Arc::new(part, GFP_KERNEL_ACCOUNT)?));
    }
    let range = match fill.flags {
        MP_REGISTER_BAR => range_of_bar(bar, fill.address, fill.length)?,
        _ => {
            need_physical_addresses(PhysicalUse::Memory)?;
            // SAFETY: The process may name it.
            unsafe { DeviceRange::new(fill.address, fill.length)? }
        }
    };
    segment.fill(Piece::Physical(range))
}

/// What may be done with a segment, from the word that says it.
///
/// # Errors
///
/// `EINVAL` for nothing, or for what is unknown.
pub(crate) fn rights_of(word: u32) -> Result<sharing::Rights> {
    if word == 0 || word & !(MP_GRANT_READ | MP_GRANT_WRITE) != 0 {
        return Err(EINVAL);
    }
    Ok(sharing::Rights {
        read: word & MP_GRANT_READ != 0,
        write: word & MP_GRANT_WRITE != 0,
    })
}

/// Memory of a function, which the process names.
///
/// # Errors
///
/// `EPERM`, or those of [`DeviceRange::of_bar`].
fn range_of_bar(bar: Bar, off: u64, len: u64) -> Result<DeviceRange> {
    need_physical_addresses(PhysicalUse::Device)?;
    // SAFETY: The process may name what the function has.
    unsafe { DeviceRange::of_bar(bar, off, len) }
}

fn grant_segment(context: &Context, arg: UserPtr) -> Result {
    let (mut grant, size) = read_sized::<mp_segment_grant>(arg)?;
    expect_zero(grant.flags & !MP_PUBLISH_PLACED)?;
    let rights = rights_of(grant.rights)?;
    let segment = own_segment(context, grant.segment)?;
    let session = context.session(grant.session)?;
    if !session.link().speaks(fabric::GRANTS) {
        return Err(error::unsupported());
    }
    let needs_window = grant.flags & MP_PUBLISH_PLACED == 0;
    let object = context.make(Make::Other, || {
        let number = context.shared().next_handle();
        let permit = segment.permit(number, &session, rights, needs_window)?;
        Ok(Object::Permit(permit))
    })?;
    if let Object::Permit(permit) = &object {
        grant.handle = permit.number();
    }
    answer(context, arg, size, &grant, grant.handle)
}

fn prepare_segment(context: &Context, at: &mp_segment_interface) -> Result {
    expect_zero(at.flags & !MP_PUBLISH_PLACED)?;
    let segment = own_segment(context, at.handle)?;
    let needs_window = at.flags & MP_PUBLISH_PLACED == 0;
    segment.prepare(&*context.shared().links.get(at.interface)?, needs_window)
}

fn publish_segment(context: &Context, at: &mp_segment_interface) -> Result {
    expect_zero(at.flags & !MP_PUBLISH_PLACED)?;
    let segment = own_segment(context, at.handle)?;
    let needs_window = at.flags & MP_PUBLISH_PLACED == 0;
    segment.publish(&*context.shared().links.get(at.interface)?, needs_window)
}

fn withdraw_segment(context: &Context, at: &mp_segment_interface) -> Result {
    expect_zero(at.flags & !(MP_WITHDRAW_NOTIFY | MP_WITHDRAW_FORCE))?;
    let segment = own_segment(context, at.handle)?;
    let links = &context.shared().links;
    segment.withdraw(&*links.get(at.interface)?, at.flags)
}

fn describe_segment(context: &Context, info: &mut mp_segment) -> Result<Told> {
    let segment = context.segment(info.handle)?;
    if info.interface != 0 {
        context.shared().links.get(info.interface)?;
    }
    segment.describe(context.mapper(), &context.shared().links, info)?;
    Ok(Told::Done)
}

fn remove_object(context: &Context, remove: &mp_remove) -> Result {
    expect_zero(remove.reserved)?;
    expect_zero(remove.flags & !MP_REMOVE_FORCE)?;
    if context.session(remove.handle).is_ok() {
        return Err(EINVAL);
    }
    match context.object(remove.handle)? {
        Object::Segment(_) | Object::Offer(_) | Object::Permit(_) => {}
        _ => return Err(EINVAL),
    }
    context.remove(remove.handle, remove.flags & MP_REMOVE_FORCE != 0)
}

/// The kind of object that peers connect to.
fn kind_of(object: u32) -> Result<sharing::Object> {
    match object {
        MP_OBJECT_SEGMENT => Ok(sharing::Object::Segment),
        MP_OBJECT_EVENT => Ok(sharing::Object::Event),
        MP_OBJECT_PORT => Ok(sharing::Object::Port),
        _ => Err(EINVAL),
    }
}

fn offer(context: &Context, arg: UserPtr) -> Result {
    let (mut offer, size) = read_sized::<mp_offer>(arg)?;
    let known = MP_OFFER_ANY | MP_OFFER_SHARED | MP_OFFER_COUNTED;
    expect_zero(offer.flags & !known)?;
    expect_zero(offer.reserved)?;
    let object = kind_of(offer.object)?;
    let is_counted = offer.flags & MP_OFFER_COUNTED != 0;
    if object == sharing::Object::Segment || is_counted && object != sharing::Object::Event {
        return Err(EINVAL);
    }
    let terms = Terms {
        object,
        number: Some(offer.number).filter(|_| offer.flags & MP_OFFER_ANY == 0),
        name: name_of_caller(offer.name, offer.name_size)?,
        is_counted,
        is_shared: offer.flags & MP_OFFER_SHARED != 0,
        user: context.user(),
    };
    let shared = context.shared();
    let link = shared.links.get(offer.interface)?;
    let object = context.make(Make::Other, || {
        let numbers = (shared.next_handle(), shared.next_handle());
        Ok(Object::Offer(link.offer(numbers, &terms)?))
    })?;
    if let Object::Offer(made) = &object {
        (offer.handle, offer.number) = (made.number(), made.offered());
    }
    answer(context, arg, size, &offer, offer.handle)
}

/// Whether the caller may say to the host at a link that it has a session with a partner there.
///
/// # Errors
///
/// `ENOENT` if it has not, `EINVAL` if the session is elsewhere, `EOPNOTSUPP` if that host knows
/// no grants, those of [`Session::check_paired`](crate::session::Session::check_paired).
fn check_partner(context: &Context, link: &Arc<Link>, session: u32) -> Result {
    let session = context.session(session)?;
    if !Arc::ptr_eq(session.link(), link) {
        return Err(EINVAL);
    }
    session.check_paired()?;
    match link.speaks(fabric::GRANTS) {
        true => Ok(()),
        false => Err(error::unsupported()),
    }
}

fn connect(context: &Context, arg: UserPtr) -> Result {
    let (mut connect, size) = read_sized::<mp_connect>(arg)?;
    let known = MP_CONNECT_COUNTED | MP_CONNECT_PLACED | MP_CONNECT_GRANTED;
    expect_zero(connect.flags & !known)?;
    expect_zero(connect.reserved | connect.reserved2)?;
    let is_granted = connect.flags & MP_CONNECT_GRANTED != 0;
    let want = sharing::Want {
        object: kind_of(connect.object)?,
        number: connect.number,
        counted: connect.flags & MP_CONNECT_COUNTED != 0,
        placed: connect.flags & MP_CONNECT_PLACED != 0,
        session: connect.session,
    };
    let is_event = want.object == sharing::Object::Event;
    let is_segment = want.object == sharing::Object::Segment;
    if want.counted && !is_event || is_granted != (want.session != 0) {
        return Err(EINVAL);
    }
    if (want.placed || is_granted) && !is_segment {
        return Err(EINVAL);
    }
    let name = name_of_caller(connect.name, connect.name_size)?;
    if !name.is_none() && (want.number != 0 || is_granted) {
        return Err(EINVAL);
    }
    let link = context.shared().links.get(connect.interface)?;
    if is_granted {
        check_partner(context, &link, want.session)?;
    }
    let object = context.make(Make::Connection, || {
        let number = context.shared().next_handle();
        let word = context.status().word()?;
        let payers = context.payers();
        let goal = Goal::new(want, name);
        let connection = Connection::new(number, link.clone(), goal, word, payers.outermost())?;
        link.connect(&connection, payers, deadline(connect.deadline))?;
        Ok(Object::Connection(connection))
    })?;
    if let Object::Connection(connection) = &object {
        connect.handle = connection.number();
    }
    answer(context, arg, size, &connect, connect.handle)
}

fn describe_connection(context: &Context, info: &mut mp_connection) -> Result<Told> {
    expect_zero(info.reserved)?;
    expect_zero(info.reserved2)?;
    let connection = context.connection(info.handle)?;
    connection.describe(context.mapper(), info)?;
    Ok(Told::Done)
}

fn take_notice(context: &Context, notice: &mp_notice, give: Give<'_, mp_notice>) -> Result<Told> {
    expect_zero(notice.reserved)?;
    if context.session(notice.handle).is_ok() {
        return Err(EINVAL);
    }
    let until = deadline(notice.deadline);
    let give = |taken: &Notice| {
        give(&mp_notice {
            notice: taken.kind,
            interface: taken.interface,
            peer: taken.peer,
            ..*notice
        })
    };
    match context.object(notice.handle)? {
        Object::Segment(holding) => {
            holding.check_owner()?;
            holding.notices().take(until, give)?
        }
        Object::Connection(connection) => connection.notices().take(until, give)?,
        _ => return Err(EINVAL),
    }
    Ok(Told::Done)
}

fn send(context: &Context, message: &mp_message) -> Result {
    let connection = context.connection(message.handle)?;
    if connection.want().object != sharing::Object::Port {
        return Err(EINVAL);
    }
    if message.length > MP_MESSAGE_MAX {
        return Err(error::message_size());
    }
    let mut data = KVec::from_elem(0, message.length as usize, GFP_KERNEL_ACCOUNT)?;
    user(message.data, data.len())?
        .reader()
        .read_slice(&mut data)?;
    connection.send(&data, deadline(message.deadline))
}

fn receive(context: &Context, message: &mp_message, give: Give<'_, mp_message>) -> Result<Told> {
    let port = match context.object(message.handle) {
        Ok(Object::Offer(offer)) if offer.is_port() => offer,
        Ok(_) => return Err(EINVAL),
        Err(e) => return Err(e),
    };
    let mut is_short = false;
    let received = port.receive(deadline(message.deadline), |mail| {
        let told = mp_message {
            length: mail.data.len() as u32,
            peer: port.link().peer_id(),
            ..*message
        };
        if told.length > message.length {
            give(&told)?;
            is_short = true;
            return Err(error::message_size());
        }
        user(message.data, mail.data.len())?
            .writer()
            .write_slice(&mail.data)?;
        give(&told)
    });
    match received {
        Err(e) if is_short => Ok(Told::Short(e)),
        received => received.map(|()| Told::Done),
    }
}

fn wait_for_stores(context: &Context, barrier: &mp_barrier) -> Result {
    expect_zero(barrier.reserved)?;
    expect_zero(barrier.flags & !MP_WAIT_INTERFACE)?;
    let link = match barrier.flags & MP_WAIT_INTERFACE != 0 {
        true => context.shared().links.get(barrier.target)?,
        false => {
            let connection = context.connection(barrier.target)?;
            connection.check()?;
            connection.link().clone()
        }
    };
    link.barrier(deadline(barrier.deadline))
}

/// Whether a word of a segment may be exchanged, as far as this host knows.
///
/// # Errors
///
/// `EINVAL`, `ERANGE`, `ECONNRESET`, `ENETDOWN`, `EOPNOTSUPP`, `EACCES`.
fn check_exchange(connection: &Connection, at: u64) -> Result {
    const SIZE: u64 = size_of::<u64>() as u64;
    let is_segment = connection.want().object == sharing::Object::Segment;
    if !is_segment || at % SIZE != 0 {
        return Err(EINVAL);
    }
    if at
        .checked_add(SIZE)
        .is_none_or(|end| end > connection.len())
    {
        return Err(ERANGE);
    }
    connection.check()?;
    connection.link().check_feature(fabric::EXCHANGE)?;
    connection.check_read()?;
    connection.check_write()
}

fn exchange(context: &Context, arg: UserPtr) -> Result {
    let (mut call, size) = read_sized::<mp_exchange>(arg)?;
    expect_zero(call.reserved)?;
    let connection = context.connection(call.connection)?;
    check_exchange(&connection, call.offset)?;
    // Who cannot be told has nothing exchanged, unless another thread takes the memory meanwhile.
    call.exchanged = 0;
    write_versioned(arg, size, &call)?;
    let word = Word {
        at: call.offset,
        expected: call.expected,
        desired: call.desired,
    };
    let exchanged = match connection.link().is_loopback() {
        true => connection.exchange_here(&word)?,
        false => Exchanging::new(&connection).make(&word, deadline(call.deadline))?,
    };
    call.exchanged = exchanged.into();
    write_versioned(arg, size, &call)
}

fn create_queue(context: &Context, arg: UserPtr) -> Result {
    let (mut create, size) = read_sized::<mp_queue_create>(arg)?;
    let link = context.shared().links.get(create.interface)?;
    if create.entries == 0 || create.entries > MP_QUEUE_ENTRIES_MAX {
        return Err(EINVAL);
    }
    let object = context.make(Make::Other, || {
        let number = context.shared().next_handle();
        let word = context.status().word()?;
        let lane = Lane::new(link.clone(), context.payers().outermost())?;
        let queue = Queue::new(number, lane, create.entries, word)?;
        Ok(Object::Queue(queue))
    })?;
    if let Object::Queue(queue) = &object {
        create.handle = queue.target().number();
    }
    answer(context, arg, size, &create, create.handle)
}

/// The copies that are asked for, which end at `local` and `remote` at the latest.
fn copies(start: &mp_queue_start, local: Option<u64>, remote: u64) -> Result<KVec<mp_copy>> {
    let count = start.count as usize;
    let mut copies = KVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
    let is_inside = |off: u64, len: u64, end: u64| off.checked_add(len).is_some_and(|at| at <= end);
    for n in 0..count {
        let copy: mp_copy = element(start.copies, n, start.copy_size)?;
        let reads_inside = local.is_none_or(|end| is_inside(copy.local, copy.length, end));
        if !reads_inside || !is_inside(copy.remote, copy.length, remote) {
            return Err(ERANGE);
        }
        copies.push(copy, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(copies)
}

fn start_queue(context: &Context, start: &mp_queue_start) -> Result {
    expect_zero(start.reserved)?;
    let is_pinned = start.flags & MP_QUEUE_PINNED != 0;
    let reads = start.flags & MP_QUEUE_READ != 0;
    expect_zero(start.flags & !(MP_QUEUE_PINNED | MP_QUEUE_READ))?;
    // What is read arrives when the call may have returned.
    let is_bare = reads && !is_pinned && start.segment == 0;
    if is_pinned && start.segment != 0 || is_bare {
        return Err(EINVAL);
    }
    let worker = context.queue(start.handle)?;
    let segment = match start.segment {
        0 => None,
        handle => Some(context.segment(handle)?),
    };
    let connection = context.connection(start.connection)?;
    let queue = worker.target();
    queue.check_idle()?;
    let is_here = Arc::ptr_eq(queue.link(), connection.link());
    let is_segment = connection.want().object == sharing::Object::Segment;
    if start.count == 0 || start.count > queue.entries() || !is_here || !is_segment {
        return Err(EINVAL);
    }
    let local = segment.as_ref().map(|segment| segment.len());
    let copies = copies(start, local, connection.len())?;
    let source = match segment {
        Some(segment) => {
            let used = segment.begin_use(queue.link().interface().id(), reads)?;
            used.check(reads)?;
            Source::Segment(used)
        }
        None => Source::Process,
    };
    if reads {
        connection.link().check_placed()?;
        connection.check_read()?;
    } else {
        connection.check_write()?;
    }
    let purpose = match reads {
        true => Purpose::Write,
        false => Purpose::Read,
    };
    let source = match is_pinned {
        true => Source::pin(context, &copies, purpose)?,
        false => source,
    };
    Queue::start(&worker, Job::new(source, connection, copies, reads))
}

fn abort_queue(context: &Context, handle: u32) -> Result {
    context.queue(handle)?.target().abort()
}

fn describe_queue(context: &Context, info: &mut mp_queue) -> Result<Told> {
    context.queue(info.handle)?.target().describe(info);
    Ok(Told::Done)
}
