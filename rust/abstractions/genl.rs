// SPDX-License-Identifier: GPL-2.0-only

//! Generic netlink: families of commands that programs send, and of events that
//! they listen to.
//!
//! A module describes its family by a type that implements [`Protocol`], has a
//! `static` [`Family`] of it, and keeps a [`Registration`] as long as it takes
//! commands.
//!
//! C header: [`include/net/genetlink.h`](srctree/include/net/genetlink.h)

mod protocol;

pub use protocol::Protocol;

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};

use kernel::{
    error::{
        from_result,
        to_result, //
    },
    ffi::{
        c_ulong,
        c_void, //
    },
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Release, //
    },
    types::Opaque, //
};
use mp_bindings::{
    genl_family,
    genl_info,
    genl_multicast_group,
    genl_small_ops,
    netlink_callback,
    nla_policy,
    nla_policy__bindgen_ty_1,
    nlmsghdr,
    notifier_block,
    sk_buff, //
};

use crate::notifier::Event;

/// A command of a family.
#[repr(transparent)]
pub struct Command<P>(genl_small_ops, PhantomData<fn(P)>);

impl<P: Protocol> Command<P> {
    /// A command with that number that [`Protocol::answer`] answers.
    pub const fn answered(number: u8) -> Self {
        let command = genl_small_ops {
            doit: Some(answer_request::<P>),
            dumpit: None,
            cmd: number,
            internal_flags: 0,
            flags: 0,
            validate: 0,
        };
        Self(command, PhantomData)
    }

    /// A command with that number that [`Protocol::take`] takes.
    pub const fn answered_later(number: u8) -> Self {
        let mut command = Self::answered(number);
        command.0.doit = Some(take_request::<P>);
        command
    }

    /// The same for programs with `CAP_NET_ADMIN` only.
    pub const fn privileged(mut self) -> Self {
        self.0.flags = mp_bindings::GENL_ADMIN_PERM;
        self
    }

    /// The same, if it asks for one thing; [`Protocol::list`] lists all of them.
    pub const fn listed(mut self) -> Self {
        self.0.dumpit = Some(continue_list::<P>);
        self
    }
}

/// What an attribute of a request has to be.
#[repr(transparent)]
pub struct Attribute(nla_policy);

/// An attribute that is refused.
const REFUSED: Attribute = Attribute(nla_policy {
    type_: 0,
    validation_type: 0,
    len: 0,
    __bindgen_anon_1: nla_policy__bindgen_ty_1 {
        reject_message: core::ptr::null(),
    },
});

/// A table in which these attributes are numbers of 32 bits, and all others are
/// refused. `N` is the highest of them and one.
pub const fn numbers<const N: usize>(which: &[u32]) -> [Attribute; N] {
    let mut table = [REFUSED; N];
    let mut n = 0;
    while n < which.len() {
        table[which[n] as usize].0.type_ = mp_bindings::NLA_TYPE_U32;
        n += 1;
    }
    table
}

/// A multicast group, for those who listen to events.
#[repr(transparent)]
pub struct Group(genl_multicast_group);

impl Group {
    /// A group of that name, of at most 15 bytes, that everybody may listen to.
    pub const fn new(name: &CStr) -> Self {
        let mut group = genl_multicast_group {
            name: [0; mp_bindings::GENL_NAMSIZ as usize],
            flags: 0,
        };
        let name = name.to_bytes();
        assert!(name.len() < group.name.len());
        let mut n = 0;
        while n < name.len() {
            group.name[n] = name[n];
            n += 1;
        }
        Self(group)
    }
}

/// Not registered yet.
const FRESH: u32 = 0;
/// Being registered.
const STARTING: u32 = 1;
/// Takes commands.
const OPEN: u32 = 2;
/// Takes no commands any more, for good: lists that programs have begun to read
/// may still refer to the family.
const CLOSED: u32 = 3;

/// A family; to be a `static`.
///
/// # Invariants
///
/// `raw` is initialised, and known to generic netlink, once `state` is [`OPEN`];
/// it is written in the state [`STARTING`] only.
pub struct Family<P> {
    raw: Opaque<genl_family>,
    state: Atomic<u32>,
    _protocol: PhantomData<fn(P)>,
}

// SAFETY: Generic netlink synchronises its access to the family, and `state` ours.
unsafe impl<P> Sync for Family<P> {}

impl<P: Protocol> Family<P> {
    /// A family that is not registered yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self {
            raw: Opaque::uninit(),
            state: Atomic::new(FRESH),
            _protocol: PhantomData,
        }
    }

    /// Register the family, once in the life of `module`, in which it lies.
    ///
    /// # Errors
    ///
    /// `EEXIST` if another family has the name, `EBUSY` if it was registered
    /// before, `EINVAL` if its description is not right, `ENOMEM`.
    pub fn register(&'static self, module: &'static ThisModule) -> Result<Registration<P>> {
        if self.state.cmpxchg(FRESH, STARTING, Full).is_err() {
            return Err(EBUSY);
        }
        let family = describe::<P>(module)?;
        // SAFETY: Only who has changed the state to `STARTING` writes, and nobody reads before
        // the state is `OPEN`.
        unsafe { self.raw.get().write(family) };
        // SAFETY: The family and all that it refers to is static memory of the module that it
        // names, which generic netlink keeps as long as a list is being read.
        to_result(unsafe { mp_bindings::genl_register_family(self.raw.get()) })?;
        // INVARIANT: The family is initialised and registered.
        self.state.store(OPEN, Release);
        Ok(Registration { family: self })
    }

    /// Tell all who listen to the family's events. Process context, sleeps.
    ///
    /// `write` is called if there is anybody. Listeners are told that something
    /// is missing if the event finds no memory or does not fit into a message.
    pub fn notify(&self, event: u8, write: impl FnOnce(&mut Message<'_>) -> Result) {
        if self.state.load(Acquire) != OPEN {
            return;
        }
        let family = self.raw.get();
        // SAFETY: By the invariants the family is initialised; so below.
        if unsafe { mp_bindings::genl_is_heard(family) } && self.send(event, write).is_err() {
            // SAFETY: As above.
            unsafe { mp_bindings::genl_lose_event(family) };
        }
    }

    /// Answer a command that was taken. Process context, sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ECONNREFUSED` if the socket is closed, `EAGAIN` if it takes no more; the error of
    /// `write`.
    pub fn answer(
        &self,
        asker: &Asker,
        command: u8,
        write: impl FnOnce(&mut Message<'_>) -> Result,
    ) -> Result {
        if self.state.load(Acquire) < OPEN {
            return Err(ENODEV);
        }
        let family = self.raw.get();
        let packet = Packet::new()?;
        let number = asker.header.nlmsg_seq;
        packet.compose(
            // SAFETY: The packet is ours; by the invariants the family is initialised.
            |skb| unsafe {
                mp_bindings::genl_put_late_answer(skb, family, asker.socket, number, command)
            },
            write,
        )?;
        // SAFETY: The packet is given away.
        to_result(unsafe { mp_bindings::genl_send_late(packet.into_raw(), asker.socket) })
    }

    fn send(&self, event: u8, write: impl FnOnce(&mut Message<'_>) -> Result) -> Result {
        let family = self.raw.get();
        let packet = Packet::new()?;
        packet.compose(
            // SAFETY: The packet is ours; `notify`, the only caller, has seen that the family is
            // initialised.
            |skb| unsafe { mp_bindings::genl_put_event(skb, family, event) },
            write,
        )?;
        // SAFETY: As above; the packet is given away. That nobody listens any more is no error.
        unsafe { mp_bindings::genl_send_event(family, packet.into_raw()) };
        Ok(())
    }
}

/// The family as generic netlink wants it described.
fn describe<P: Protocol>(module: &'static ThisModule) -> Result<genl_family> {
    let mut family = genl_family {
        version: P::VERSION.into(),
        maxattr: (P::ATTRIBUTES.len() as u32).checked_sub(1).ok_or(EINVAL)?,
        // The wrappers of the elements are transparent.
        policy: P::ATTRIBUTES.as_ptr().cast(),
        small_ops: P::COMMANDS.as_ptr().cast(),
        n_small_ops: P::COMMANDS.len().try_into()?,
        mcgrps: P::EVENTS.as_ptr().cast(),
        n_mcgrps: 1,
        module: module.as_ptr().cast(),
        ..Default::default()
    };
    // Commands do not wait for those of other families.
    family.set_parallel_ops(1);
    let name = P::NAME.to_bytes_with_nul();
    let room = family.name.get_mut(..name.len()).ok_or(EINVAL)?;
    room.copy_from_slice(name);
    Ok(family)
}

/// Let a family take commands; dropping it, which waits for those under way, ends that.
///
/// # Invariants
///
/// The family is registered.
pub struct Registration<P: Protocol> {
    family: &'static Family<P>,
}

impl<P: Protocol> Drop for Registration<P> {
    fn drop(&mut self) {
        self.family.state.store(CLOSED, Release);
        // SAFETY: By the invariants the family is registered, and nobody else ends that. It
        // stays readable for those who still look at it: it is static and not written again.
        unsafe { mp_bindings::genl_unregister_family(self.family.raw.get()) };
    }
}

/// A command as it was sent.
///
/// # Invariants
///
/// `info` is valid for `'a`.
pub struct Request<'a> {
    info: NonNull<genl_info>,
    _call: PhantomData<&'a genl_info>,
}

impl Request<'_> {
    /// The number in attribute `attribute`, if the request has that.
    pub fn number(&self, attribute: u32) -> Option<u32> {
        let mut value = 0;
        // SAFETY: By the invariants; the helper checks that the family has such an attribute.
        unsafe { mp_bindings::genl_number(self.info.as_ptr(), attribute, &mut value) }
            .then_some(value)
    }

    /// The number in an attribute that the request has to have.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is missing, which the program is told.
    pub fn required(&self, attribute: u32) -> Result<u32> {
        self.number(attribute).ok_or_else(|| {
            // SAFETY: By the invariants.
            unsafe { mp_bindings::genl_report_missing(self.info.as_ptr(), attribute) };
            EINVAL
        })
    }

    /// The sender, for a command that is answered later.
    pub fn asker(&self) -> Asker {
        let mut header = nlmsghdr::default();
        // SAFETY: By the invariants; the header is valid for writes.
        let socket = unsafe { mp_bindings::genl_asker(self.info.as_ptr(), &mut header) };
        Asker { socket, header }
    }

    /// The error, with an explanation for the user.
    pub fn refuse(&self, error: Error, why: &'static CStr) -> Error {
        // SAFETY: By the invariants; the text is static.
        unsafe { mp_bindings::genl_report(self.info.as_ptr(), why.as_char_ptr()) };
        error
    }
}

/// The sender of a command that was taken, and which one of its own that is.
#[derive(Clone, Copy)]
pub struct Asker {
    socket: u32,
    header: nlmsghdr,
}

impl Asker {
    /// The number of its socket.
    pub fn socket(&self) -> u32 {
        self.socket
    }

    /// Send an error in place of an answer, with an explanation for the user. Process context,
    /// sleeps.
    ///
    /// # Errors
    ///
    /// Those of [`Family::answer`].
    pub fn refuse(&self, error: Error, why: Option<&CStr>) -> Result {
        let why = why.map_or(core::ptr::null(), |why| why.as_char_ptr());
        let error = error.to_errno();
        // SAFETY: The header is valid, and the text if there is one.
        to_result(unsafe { mp_bindings::genl_refuse_late(self.socket, &self.header, error, why) })
    }
}

/// A socket of generic netlink is closed: its number.
pub struct SocketGone;

// SAFETY: As for `netlink_register_notifier()` and its counterpart.
unsafe impl Event for SocketGone {
    type About = u32;

    unsafe fn about(action: c_ulong, data: *mut c_void) -> Option<u32> {
        let mut socket = 0;
        // SAFETY: As the caller promises.
        unsafe { mp_bindings::genl_is_closed(action, data, &mut socket) }.then_some(socket)
    }

    unsafe fn register(block: *mut notifier_block) -> c_int {
        // SAFETY: As the caller promises.
        unsafe { mp_bindings::netlink_register_notifier(block) }
    }

    unsafe fn unregister(block: *mut notifier_block) {
        // SAFETY: As the caller promises.
        unsafe { mp_bindings::netlink_unregister_notifier(block) };
    }
}

/// A message that is being written: attributes in their order.
///
/// # Invariants
///
/// `skb` is valid and exclusively ours for `'a`.
pub struct Message<'a> {
    skb: NonNull<sk_buff>,
    _packet: PhantomData<&'a mut sk_buff>,
}

impl Message<'_> {
    /// Add a number.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if there is no room; so below.
    pub fn number(&mut self, attribute: u32, value: u64) -> Result {
        let skb = self.skb.as_ptr();
        // SAFETY: By the invariants.
        to_result(unsafe { mp_bindings::nla_put_number(skb, attribute as c_int, value) })
    }

    /// Add a text.
    pub fn text(&mut self, attribute: u32, text: &CStr) -> Result {
        let bytes = text.to_bytes_with_nul();
        let len = u16::try_from(bytes.len()).map_err(|_| EMSGSIZE)?;
        // SAFETY: By the invariants; the text is readable for its length.
        to_result(unsafe {
            mp_bindings::nla_put(
                self.skb.as_ptr(),
                attribute as c_int,
                len.into(),
                bytes.as_ptr().cast(),
            )
        })
    }

    /// Add a group of attributes, which `write` writes.
    pub fn nest(&mut self, attribute: u32, write: impl FnOnce(&mut Self) -> Result) -> Result {
        // SAFETY: By the invariants; so below.
        let start = unsafe { mp_bindings::nla_nest_begin(self.skb.as_ptr(), attribute as c_int) };
        if start.is_null() {
            return Err(EMSGSIZE);
        }
        let result = write(self);
        match result {
            // SAFETY: `start` is where this group began.
            Ok(()) => unsafe { mp_bindings::nla_nest_finish(self.skb.as_ptr(), start) },
            // SAFETY: As above.
            Err(_) => unsafe { mp_bindings::nla_nest_withdraw(self.skb.as_ptr(), start) },
        }
        result
    }
}

/// Add a message to `skb`: its header by `begin`, its attributes by `write`.
/// Takes it out again if `write` fails or has nothing to say.
///
/// # Errors
///
/// `EMSGSIZE` if there is no room for it, or the error of `write`.
///
/// # Safety
///
/// `skb` is valid and exclusively the caller's; `begin` adds a netlink header to it
/// and returns a pointer to it, or null if there is no room.
unsafe fn compose<T>(
    skb: NonNull<sk_buff>,
    begin: impl FnOnce(*mut sk_buff) -> *mut c_void,
    write: impl FnOnce(&mut Message<'_>) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let header = begin(skb.as_ptr());
    if header.is_null() {
        return Err(EMSGSIZE);
    }
    // INVARIANT: As the caller promises, for the time of this call.
    let mut message = Message {
        skb,
        _packet: PhantomData,
    };
    let written = write(&mut message);
    match written {
        // SAFETY: `header` is that of the message, which is the last one in `skb`.
        Ok(Some(_)) => unsafe { mp_bindings::genl_end(skb.as_ptr(), header) },
        // SAFETY: As above.
        _ => unsafe { mp_bindings::genl_cancel(skb.as_ptr(), header) },
    }
    written
}

/// A packet for one message.
///
/// # Invariants
///
/// It is valid and ours.
struct Packet(NonNull<sk_buff>);

impl Packet {
    fn new() -> Result<Self> {
        // SAFETY: Safe in a context that may sleep.
        let skb = unsafe { mp_bindings::genl_message_new() };
        // INVARIANT: It was just allocated.
        Ok(Self(NonNull::new(skb).ok_or(ENOMEM)?))
    }

    /// See [`compose`].
    fn compose(
        &self,
        begin: impl FnOnce(*mut sk_buff) -> *mut c_void,
        write: impl FnOnce(&mut Message<'_>) -> Result,
    ) -> Result {
        // SAFETY: By the invariants; the callers add a header of this message.
        unsafe { compose(self.0, begin, |message| write(message).map(Some)) }?;
        Ok(())
    }

    /// Give it away.
    fn into_raw(self) -> *mut sk_buff {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { mp_bindings::genl_message_free(self.0.as_ptr()) };
    }
}

/// # Safety
///
/// Called by generic netlink for a command of `P`.
unsafe extern "C" fn answer_request<P: Protocol>(
    _skb: *mut sk_buff,
    info: *mut genl_info,
) -> c_int {
    from_result(|| {
        // INVARIANT: The command is valid during this call.
        let request = Request {
            info: NonNull::new(info).ok_or(EINVAL)?,
            _call: PhantomData,
        };
        // SAFETY: `info` is valid.
        let command = unsafe { mp_bindings::genl_command(info) };
        let packet = Packet::new()?;
        packet.compose(
            // SAFETY: The packet is ours, and `info` is valid.
            |skb| unsafe { mp_bindings::genl_put_answer(skb, info) },
            |answer| P::answer(command, &request, answer),
        )?;
        // SAFETY: `info` is valid; the packet is given away.
        to_result(unsafe { mp_bindings::genl_send_answer(packet.into_raw(), info) })?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by generic netlink for a command of `P`.
unsafe extern "C" fn take_request<P: Protocol>(_skb: *mut sk_buff, info: *mut genl_info) -> c_int {
    from_result(|| {
        // INVARIANT: The command is valid during this call.
        let request = Request {
            info: NonNull::new(info).ok_or(EINVAL)?,
            _call: PhantomData,
        };
        // SAFETY: `info` is valid.
        let command = unsafe { mp_bindings::genl_command(info) };
        P::take(command, &request)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by generic netlink for a list that `P` has, again and again until the
/// packet stays empty.
unsafe extern "C" fn continue_list<P: Protocol>(
    skb: *mut sk_buff,
    cb: *mut netlink_callback,
) -> c_int {
    from_result(|| {
        let packet = NonNull::new(skb).ok_or(EINVAL)?;
        // SAFETY: `cb` is valid during this call and used by nobody else; so below.
        let position: &mut c_ulong = unsafe { &mut *mp_bindings::genl_dump_position(cb) };
        // SAFETY: As above.
        let command = unsafe { mp_bindings::genl_dump_command(cb) };
        loop {
            // SAFETY: The packet is ours during this call, and `cb` is valid.
            let entry = unsafe {
                compose(
                    packet,
                    |skb| mp_bindings::genl_put_entry(skb, cb),
                    |entry| P::list(command, *position as usize, entry),
                )
            };
            // SAFETY: The packet is valid.
            let len = unsafe { (*skb).len };
            match entry {
                Ok(Some(next)) => *position = next as c_ulong,
                Ok(None) => return Ok(len as c_int),
                Err(e) if e == EMSGSIZE && len != 0 => return Ok(len as c_int),
                Err(e) => return Err(e),
            }
        }
    })
}
