// SPDX-License-Identifier: GPL-2.0-only

//! What an IOMMU lets PCI functions of this host reach, beside memory of their drivers.
//!
//! A driver, or a program, may have one device write to another one's addresses, at the
//! number that these have on the bus. Where an IOMMU translates for the device, it does
//! not get there until a [`Mapping`] of the same number leads there. The kernel's DMA
//! interface keeps the numbers of the windows of a device's host bridge out of what it gives to
//! drivers, so nothing else of the device has them.
//!
//! A mapping is one of the domain that the kernel has for the group. A driver may let a program
//! put the group into another domain, and back again at any time: the mapping would come back as
//! well. So groups with such a driver have no mappings, and who has one listens to [`ManagerComes`].
//!
//! C header: [`include/linux/iommu.h`](srctree/include/linux/iommu.h)

use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use mp_bindings as bindings;
use mp_bindings::{
    device,
    notifier_block, //
};

use crate::{
    error,
    notifier::Event, //
};

/// Addresses of one device's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Where it begins on the bus.
    pub bus: u64,
    /// Its physical address for processors.
    pub phys: u64,
    /// Bytes, of whole pages.
    pub len: usize,
}

/// What a device may do at addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// It may read.
    pub read: bool,
    /// It may write.
    pub write: bool,
}

impl Rights {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            write: self.write || other.write,
        }
    }
}

/// Functions that an IOMMU cannot tell apart: what one of them reaches, all of them do.
///
/// # Invariants
///
/// The pointer is a `struct iommu_group`, to which this value has a reference.
pub struct Group(NonNull<c_void>);

// SAFETY: Groups are counted and have a lock.
unsafe impl Send for Group {}
// SAFETY: As above.
unsafe impl Sync for Group {}

impl Group {
    /// The group of a function; `None` if no IOMMU knows of it, or if there is none.
    ///
    /// Sleeps, also until functions that come or go have done so: not for those who hold
    /// a lock that is taken while a driver is being unbound.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn of(domain: u32, bus: u8, devfn: u8) -> Result<Option<Arc<Self>>> {
        let Ok(domain) = c_int::try_from(domain) else {
            return Ok(None);
        };
        // SAFETY: Any place will do.
        let group = unsafe { bindings::iommu_group_find(domain, bus.into(), devfn.into()) };
        let Some(group) = NonNull::new(group) else {
            return Ok(None);
        };
        // INVARIANT: With a reference that is ours.
        Ok(Some(Arc::new(Self(group), GFP_KERNEL)?))
    }

    /// Whether that is the same group.
    pub fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// Call `visit` with the domain that the group's devices are in, unless it has none;
    /// the domain does not change meanwhile. `None` if there is no device any more.
    fn with_domain<R>(&self, visit: impl FnOnce(Option<Domain>) -> R) -> Option<R> {
        struct Visit<R, F> {
            visit: Option<F>,
            result: Option<R>,
        }

        /// End the visits with the first one.
        ///
        /// # Safety
        ///
        /// Called by `iommu_group_for_each_dev()` with a `Visit`.
        unsafe extern "C" fn first<R, F: FnOnce(Option<Domain>) -> R>(
            dev: *mut device,
            data: *mut c_void,
        ) -> c_int {
            // SAFETY: As the caller promises; nobody else uses it meanwhile.
            let this = unsafe { &mut *data.cast::<Visit<R, F>>() };
            // SAFETY: Within a visit.
            let domain = NonNull::new(unsafe { bindings::iommu_visited_domain(dev) });
            this.result = this.visit.take().map(|visit| visit(domain.map(Domain)));
            1
        }

        fn of<R, F: FnOnce(Option<Domain>) -> R>(
            _: &Visit<R, F>,
        ) -> unsafe extern "C" fn(*mut device, *mut c_void) -> c_int {
            first::<R, F>
        }

        let mut this = Visit {
            visit: Some(visit),
            result: None,
        };
        let function = of(&this);
        // SAFETY: By the invariants; the function gets what it expects, which outlives the call.
        unsafe {
            bindings::iommu_group_visit(self.0.as_ptr(), Some(function), (&raw mut this).cast());
        }
        this.result
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: By the invariants.
        unsafe { bindings::iommu_group_release(self.0.as_ptr()) };
    }
}

/// A domain that stays as it is while a group is visited.
struct Domain(NonNull<c_void>);

impl Domain {
    /// Whether it lets everything through as it is.
    fn is_identity(&self) -> bool {
        // SAFETY: The domain is valid while it is visited.
        unsafe { bindings::iommu_domain_is_identity(self.0.as_ptr()) }
    }

    /// Whether it is the kernel's DMA interface's: not that of a program, nor one in which nothing
    /// is let through.
    fn is_managed(&self) -> bool {
        // SAFETY: As above.
        unsafe { bindings::iommu_domain_is_managed(self.0.as_ptr()) }
    }

    /// Lead addresses on the bus to the memory there. Whether that took a mapping.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the domain is not the kernel's, or if it must take a mapping and may not.
    fn map(&self, range: &Range, rights: Rights, may_be_led: bool) -> Result<bool> {
        let domain = self.0.as_ptr();
        if self.is_identity() {
            return Ok(false);
        }
        if !may_be_led || !self.is_managed() {
            return Err(error::unsupported());
        }
        let Range { bus, phys, len } = *range;
        let Rights { read, write } = rights;
        // SAFETY: The domain is valid while it is visited; nothing but the memory of a device is there.
        to_result(unsafe { bindings::iommu_domain_map(domain, bus, phys, len, read, write) })?;
        Ok(true)
    }
}

/// A function gets a driver that lets programs say what its group reaches. Nobody has done that
/// yet; there are to be no mappings of the group when listeners return.
pub struct ManagerComes;

// SAFETY: As for `bus_register_notifier()` and its counterpart.
unsafe impl Event for ManagerComes {
    type About = Group;

    unsafe fn about(action: c_ulong, data: *mut c_void) -> Option<Group> {
        // SAFETY: As the caller promises, of the chain of the bus.
        let group = unsafe { bindings::iommu_group_to_leave(action, data) };
        // INVARIANT: With a reference that is ours.
        NonNull::new(group).map(Group)
    }

    unsafe fn register(block: *mut notifier_block) -> c_int {
        // SAFETY: As the caller promises.
        unsafe { bindings::pci_bus_notifier_add(block) }
    }

    unsafe fn unregister(block: *mut notifier_block) {
        // SAFETY: As the caller promises.
        unsafe { bindings::pci_bus_notifier_remove(block) };
    }
}

/// How often to look whether a function's reset is over, and the pauses between, in milliseconds:
/// the kernel gives a function up that is not back after a minute.
const LOOKS: u32 = 7_000;
const PAUSE_MS: u32 = 10;

/// Addresses that lead all devices of a group to a device's memory, until it is dropped.
/// The drop sleeps, as long as a device of the group is being reset, and returns when they do not
/// lead there any more.
///
/// # Invariants
///
/// `domain` is the one that the kernel had for the group, which programs cannot take away before
/// listeners to [`ManagerComes`] have returned.
pub struct Mapping {
    group: Arc<Group>,
    /// It may be gone, and is compared only.
    domain: NonNull<c_void>,
    range: Range,
}

// SAFETY: The domain is not used without its group's lock.
unsafe impl Send for Mapping {}
// SAFETY: As above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Let a group reach a device's memory at its addresses on the bus; `None` if it
    /// does so anyway.
    ///
    /// # Safety
    ///
    /// The range is memory of a device that the group's devices may reach as long as the
    /// mapping lives, which is dropped when [`ManagerComes`] names the group. It is made under a
    /// lock that the listener takes.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if somebody else says what the group reaches, or could, or if it cannot reach
    /// those addresses: they may be something else's for a device under another host bridge.
    pub unsafe fn new(group: &Arc<Group>, range: Range, rights: Rights) -> Result<Option<Self>> {
        // SAFETY: By the group's invariants.
        let may_be_led =
            unsafe { bindings::iommu_group_may_be_led(group.0.as_ptr(), range.bus, range.len) };
        let mapped = group.with_domain(|domain| match domain {
            Some(domain) => Ok(domain.map(&range, rights, may_be_led)?.then_some(domain.0)),
            None => Ok(None),
        });
        match mapped {
            Some(Ok(domain)) => Ok(domain.map(|domain| Self {
                group: group.clone(),
                domain,
                range,
            })),
            Some(Err(e)) if e == ENOMEM => Err(e),
            Some(Err(_)) => Err(error::unsupported()),
            // The devices have been removed.
            None => Ok(None),
        }
    }
}

impl Mapping {
    /// Undo it; false as long as the group is in no domain of the kernel's, which may come back.
    fn undo(&self) -> bool {
        let Range { bus, phys, len } = self.range;
        let undone = self.group.with_domain(|domain| {
            let Some(domain) = domain else { return true };
            if domain.0 == self.domain {
                // SAFETY: The domain is valid while it is visited.
                unsafe { bindings::iommu_domain_unmap(domain.0.as_ptr(), bus, phys, len) };
                return true;
            }
            // If the kernel has another one for the group, the one that was mapped is gone.
            domain.is_identity() || domain.is_managed()
        });
        // Without devices there is nothing to lead anywhere.
        undone.unwrap_or(true)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        for _ in 0..LOOKS {
            if self.undo() {
                return;
            }
            // A device of the group is being reset.
            fsleep(Delta::from_millis(PAUSE_MS.into()));
        }
        pr_err!("a device that is not back from its reset may reach what is another one's\n");
    }
}
