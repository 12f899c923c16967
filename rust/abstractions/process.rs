// SPDX-License-Identifier: GPL-2.0-only

//! Who the caller is: processes as owners, users, privileges.
//!
//! Everything here is about the calling task and makes sense in process context, in
//! a callback of a file, only.

use core::ptr::NonNull;

use kernel::{
    bindings,
    container_of,
    mm::Mm,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
    types::Opaque, //
};

use crate::worker::{
    Work,
    Worker, //
};

/// A process that owns something: a thread group with its address space.
///
/// Neither is kept alive, but their identities are: no later process is taken for
/// this one.
///
/// # Invariants
///
/// `group` is a `struct pid`, to which this owner has a reference.
pub struct Owner {
    mm: ARef<Mm>,
    group: NonNull<c_void>,
}

// SAFETY: A `struct pid` is counted and does not change.
unsafe impl Send for Owner {}
// SAFETY: As above.
unsafe impl Sync for Owner {}

impl Owner {
    /// The calling process.
    ///
    /// # Errors
    ///
    /// `ESRCH` in a kernel thread, or if the process has given up its address space.
    pub fn current() -> Result<Self> {
        // SAFETY: Always safe; with a reference that is ours.
        let mm = NonNull::new(unsafe { mp_bindings::current_mm_grab() }).ok_or(ESRCH)?;
        // SAFETY: `Mm` is a transparent wrapper, and the reference is given away.
        let mm = unsafe { ARef::from_raw(mm.cast::<Mm>()) };
        // SAFETY: A task always has a thread group.
        let group = unsafe { mp_bindings::thread_group_get() };
        // INVARIANT: A reference that is ours.
        Ok(Self {
            mm,
            group: NonNull::new(group).ok_or(ESRCH)?,
        })
    }

    /// The owner's address space; its memory may be gone.
    pub fn mm(&self) -> &Mm {
        &self.mm
    }

    /// Whether the caller is a thread of the owner, in the address space that it had: not
    /// its child, even if they share memory, and not the program that it became by
    /// `execve()`.
    pub fn is_current(&self) -> bool {
        // SAFETY: By the invariants; the pointers are compared only.
        unsafe {
            mp_bindings::thread_group_is_current(self.group.as_ptr())
                && mp_bindings::current_mm_is(self.mm.as_raw().cast())
        }
    }

    /// Whether all its threads have begun to exit.
    pub fn is_over(&self) -> bool {
        // SAFETY: By the invariants.
        unsafe { mp_bindings::thread_group_is_over(self.group.as_ptr()) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { mp_bindings::thread_group_put(self.group.as_ptr()) };
    }
}

/// The table of descriptors that a file was opened in: as a rule that of all threads of a process.
///
/// # Invariants
///
/// The pointer is compared only. It is that table's as long as the table has a descriptor of the
/// file.
pub(crate) struct Table(NonNull<c_void>);

// SAFETY: The pointer is compared only.
unsafe impl Send for Table {}
// SAFETY: As above.
unsafe impl Sync for Table {}

impl Table {
    /// That of the calling task, which opens a file.
    ///
    /// # Errors
    ///
    /// `ESRCH` if it has none any more.
    pub(crate) fn current() -> Result<Self> {
        // SAFETY: Always safe.
        let table = unsafe { mp_bindings::current_table() };
        // INVARIANT: It is not used for anything else.
        Ok(Self(NonNull::new(table.cast_mut()).ok_or(ESRCH)?))
    }

    /// Whether the table `closing`, of which the calling task has just closed a descriptor of the
    /// file, is this one and has none any more: it was the last one, or the table is being
    /// emptied as nobody has it.
    pub(crate) fn is_left(
        &self,
        closing: bindings::fl_owner_t,
        file: *const bindings::file,
    ) -> bool {
        let table = self.0.as_ptr();
        // SAFETY: The pointers are compared only.
        closing == table && !unsafe { mp_bindings::current_table_has_file(table, file.cast()) }
    }
}

/// Kicks a worker when a process has ended, and maybe at other times:
/// [`Owner::is_over`] tells. Dropping it waits for the worker.
///
/// # Invariants
///
/// `entry` is in the queue of those who are told of the end of `owner`'s thread group.
#[pin_data(PinnedDrop)]
pub struct ExitWatch<W: Work> {
    #[pin]
    entry: Opaque<mp_bindings::wait_queue_entry>,
    owner: Arc<Owner>,
    worker: Arc<Worker<W>>,
}

// SAFETY: The entry is protected by its queue's lock; the rest may be sent and shared.
unsafe impl<W: Work> Send for ExitWatch<W> {}
// SAFETY: As above.
unsafe impl<W: Work> Sync for ExitWatch<W> {}

impl<W: Work> ExitWatch<W> {
    /// Kick `worker` at the end of `owner`, which has not ended yet.
    pub fn new(owner: Arc<Owner>, worker: Arc<Worker<W>>) -> impl PinInit<Self> {
        let group = owner.group.as_ptr();
        // INVARIANT: Entered here, and removed when it is dropped.
        pin_init!(Self {
            owner,
            worker,
            // The last field: a callback finds the others.
            entry <- Opaque::ffi_init(move |slot| {
                // SAFETY: `slot` is valid for writes and pinned; it leaves the queue before it
                // goes, and until then `owner` keeps the `struct pid` that has the queue.
                unsafe { mp_bindings::thread_group_watch(group, slot, Some(Self::callback)) }
            }),
        })
    }

    /// # Safety
    ///
    /// Called by the queue for the entry of a live `ExitWatch<W>`.
    unsafe extern "C" fn callback(
        entry: *mut mp_bindings::wait_queue_entry,
        _mode: c_uint,
        _flags: c_int,
        _key: *mut c_void,
    ) -> c_int {
        // SAFETY: As the caller promises; dropping it waits for this call.
        let this = unsafe { &*container_of!(Opaque::cast_from(entry), Self, entry) };
        this.worker.kick();
        0
    }
}

#[pinned_drop]
impl<W: Work> PinnedDrop for ExitWatch<W> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the invariants.
        unsafe { mp_bindings::thread_group_unwatch(self.owner.group.as_ptr(), self.entry.get()) };
        self.worker.stop();
    }
}

/// A user, of whatever namespace: for what is limited for each of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UserId(u32);

impl UserId {
    /// The caller's real user, who pays for what its programs use.
    pub fn current() -> Self {
        Self(kernel::current!().uid().into_raw().val)
    }
}

/// The user namespace that the caller is in, or one around it.
#[derive(Clone, Copy)]
struct Namespace {
    /// Who has made it.
    owner: UserId,
    number: u32,
}

impl Namespace {
    /// That of the caller, and those around it up to the initial one, which is none of them.
    fn all() -> impl Iterator<Item = Self> {
        (0..).map_while(|up| {
            let (mut owner, mut number) = (0, 0);
            // SAFETY: Both are valid for writes.
            let is_one = unsafe { mp_bindings::user_namespace(up, &mut owner, &mut number) };
            let owner = UserId(owner);
            is_one.then_some(Self { owner, number })
        })
    }
}

/// Who is charged for what a process uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payer {
    /// All processes of a user, and all in the namespaces that the user has made.
    User(UserId),
    /// All processes in a namespace of the host's root, by its number. What root hands out to it
    /// is not root's own.
    Namespace(u32),
}

/// All who are charged for what a process uses: first its user, then who answers for each
/// namespace, from its own outwards. However many users somebody has in namespaces, they have
/// together what one has.
///
/// # Invariants
///
/// None is there twice.
#[derive(PartialEq, Eq)]
pub struct Payers {
    all: KVec<Payer>,
    outermost: Payer,
}

impl Payers {
    /// Those of the caller.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn current() -> Result<Self> {
        let user = Payer::User(UserId::current());
        let mut payers = Self {
            all: KVec::with_capacity(1, GFP_KERNEL_ACCOUNT)?,
            outermost: user,
        };
        payers.all.push(user, GFP_KERNEL_ACCOUNT)?;
        for namespace in Namespace::all() {
            payers.outermost = match namespace.owner {
                UserId(0) => Payer::Namespace(namespace.number),
                owner => Payer::User(owner),
            };
            if !payers.all.contains(&payers.outermost) {
                // INVARIANT: Just looked for.
                payers.all.push(payers.outermost, GFP_KERNEL_ACCOUNT)?;
            }
        }
        Ok(payers)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Payer> + '_ {
        self.all.iter().copied()
    }

    /// How many there are; never zero.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Who answers for all of it: nobody is around that one.
    pub fn outermost(&self) -> Payer {
        self.outermost
    }
}

/// What a process wants physical addresses for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhysicalUse {
    /// To reach the memory there, or to be told where memory is.
    Memory,
    /// To let a device reach the memory there.
    Device,
}

/// Whether the caller may work with physical addresses: it has `CAP_SYS_RAWIO` in the initial
/// user namespace, and the kernel is not locked down. Marks the privilege as used.
pub fn may_use_physical_addresses(wanted: PhysicalUse) -> bool {
    // SAFETY: A capability that there is.
    if !unsafe { bindings::capable(bindings::CAP_SYS_RAWIO as c_int) } {
        return false;
    }
    // SAFETY: No requirements.
    !unsafe {
        match wanted {
            PhysicalUse::Memory => mp_bindings::memory_is_locked_down(),
            PhysicalUse::Device => mp_bindings::devices_are_locked_down(),
        }
    }
}

/// Whether the call under way is that of a 32-bit program on a 64-bit kernel.
pub fn is_compat() -> bool {
    // SAFETY: Always safe.
    unsafe { mp_bindings::in_compat_syscall() }
}
