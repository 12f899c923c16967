// SPDX-License-Identifier: GPL-2.0-only

//! What an NTB hardware driver needs of the PCI bus.
//!
//! * [`Registers`]: a BAR mapped for word accesses.
//! * [`Neighbour`]: another function of the same bus that belongs to the bridge.
//! * [`Interrupts`]: message-signalled vectors with one handler for all.
//!
//! All of them own a reference to their function, so they are sound wherever
//! they end up; the driver drops them before it is unbound.

use super::access::Region;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    bindings,
    device::Bound,
    error::to_result,
    irq::IrqReturn,
    pci,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    }, //
};

fn raw(pdev: &pci::Device) -> *mut bindings::pci_dev {
    ptr::from_ref(pdev).cast_mut().cast()
}

/// A BAR, requested and mapped uncached.
///
/// # Invariants
///
/// `map` is the mapping of `bar`, whose region this value owns.
pub struct Registers {
    map: Region,
    bar: u32,
    pdev: ARef<pci::Device>,
}

impl Registers {
    /// Request and map all of `bar`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the function has no such BAR, `EBUSY` if somebody owns it,
    /// `ENOMEM`.
    pub fn map(pdev: &pci::Device<Bound>, bar: u32, name: &'static CStr) -> Result<Self> {
        let len = usize::try_from(pdev.resource_len(bar)?)?;
        if len == 0 {
            return Err(ENODEV);
        }
        // SAFETY: The function is valid, and it has the BAR; the name is static.
        if unsafe { bindings::pci_request_region(raw(pdev), bar as c_int, name.as_char_ptr()) } != 0
        {
            return Err(EBUSY);
        }
        // SAFETY: As above.
        let base = unsafe { bindings::pci_iomap(raw(pdev), bar as c_int, 0) };
        if base.is_null() {
            // SAFETY: Requested just now.
            unsafe { bindings::pci_release_region(raw(pdev), bar as c_int) };
            return Err(ENOMEM);
        }
        // INVARIANT: Just requested and mapped.
        Ok(Self {
            // SAFETY: Mapped until the drop; BARs of a page or more start on one.
            map: unsafe { Region::new(base.cast(), len) },
            bar,
            pdev: ARef::from(&**pdev),
        })
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Load the word at byte `off`; all ones if there is none.
    #[inline]
    pub fn read_u32(&self, off: usize) -> u32 {
        self.map.read_u32(off).unwrap_or(!0)
    }

    /// Load the word at byte `off`; all ones if there is none.
    #[inline]
    pub fn read_u64(&self, off: usize) -> u64 {
        self.map.read_u64(off).unwrap_or(!0)
    }

    /// Store a word at byte `off`; to no effect if there is none.
    #[inline]
    pub fn write_u32(&self, off: usize, val: u32) {
        let _ = self.map.write_u32(off, val);
    }

    /// Store a word at byte `off`; to no effect if there is none.
    #[inline]
    pub fn write_u64(&self, off: usize, val: u64) {
        let _ = self.map.write_u64(off, val);
    }

    /// Store zero to `len` bytes at `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if that many are not there.
    pub fn zero(&self, off: usize, len: usize) -> Result {
        self.map.zero(off, len)
    }
}

impl Drop for Registers {
    fn drop(&mut self) {
        // SAFETY: Mapped and requested by this value.
        unsafe {
            bindings::pci_iounmap(raw(&self.pdev), self.map.base().cast());
            bindings::pci_release_region(raw(&self.pdev), self.bar as c_int);
        }
    }
}

/// A function beside the driver's own, claimed with one of its BARs.
///
/// It needs no driver; if another driver owns it, claiming fails. Whether it
/// was found before or after its neighbour does not matter.
///
/// # Invariants
///
/// The function is enabled and the region of `bar` requested by this value.
pub struct Neighbour {
    pdev: ARef<pci::Device>,
    bar: u32,
}

impl Neighbour {
    /// Claim a function of device `slot` on the bus of `pdev`, if it is of the
    /// same kind and has `bar`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is nothing of that kind, `EBUSY` if somebody owns it.
    pub fn claim(
        pdev: &pci::Device<Bound>,
        (slot, function): (u32, u32),
        bar: u32,
        name: &'static CStr,
    ) -> Result<Self> {
        let devfn = slot.checked_mul(8).filter(|&d| d < 256 && function < 8);
        let devfn = devfn.ok_or(ENODEV)? + function;
        // SAFETY: The function is valid, hence its bus.
        let found = unsafe { mp_bindings::pci_get_slot((*raw(pdev)).bus.cast(), devfn) }
            .cast::<pci::Device>();
        let found = NonNull::new(found).ok_or(ENODEV)?;
        // SAFETY: `pci_get_slot()` returned a function with a reference for us.
        let found = unsafe { ARef::from_raw(found) };
        if found.vendor_id() != pdev.vendor_id()
            || found.device_id() != pdev.device_id()
            || found.resource_len(bar)? == 0
        {
            return Err(ENODEV);
        }
        // SAFETY: The function is valid.
        to_result(unsafe { bindings::pci_enable_device_mem(raw(&found)) })?;
        // SAFETY: The function is valid and has the BAR; the name is static.
        if unsafe { bindings::pci_request_region(raw(&found), bar as c_int, name.as_char_ptr()) }
            != 0
        {
            // SAFETY: Enabled just now.
            unsafe { mp_bindings::pci_disable_device(raw(&found).cast()) };
            return Err(EBUSY);
        }
        // INVARIANT: Enabled and requested.
        Ok(Self { pdev: found, bar })
    }

    /// Physical address and size of the BAR.
    pub fn resource(&self) -> Result<(u64, u64)> {
        Ok((
            self.pdev.resource_start(self.bar)?,
            self.pdev.resource_len(self.bar)?,
        ))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // SAFETY: Enabled and requested by this value.
        unsafe {
            bindings::pci_release_region(raw(&self.pdev), self.bar as c_int);
            mp_bindings::pci_disable_device(raw(&self.pdev).cast());
        }
    }
}

/// Where a memory BAR of some function is, whoever drives that: physical address and
/// size.
///
/// # Errors
///
/// `ENODEV` if there is no such function, or it has no such BAR.
pub fn find_bar(domain: u32, bus: u32, devfn: u32, bar: u32) -> Result<(u64, u64)> {
    let domain = c_int::try_from(domain).map_err(|_| ENODEV)?;
    // SAFETY: No requirements.
    let found = unsafe { mp_bindings::pci_get_domain_bus_and_slot(domain, bus, devfn) };
    let found = NonNull::new(found.cast::<pci::Device>()).ok_or(ENODEV)?;
    // SAFETY: The call returned a function with a reference for us.
    let found = unsafe { ARef::from_raw(found) };
    match found.resource_len(bar)? {
        0 => Err(ENODEV),
        len => Ok((found.resource_start(bar)?, len)),
    }
}

/// A handler of interrupts.
pub trait Handler: Send + Sync + 'static {
    /// Called in hard interrupt context.
    fn interrupt(&self, vector: u32);
}

/// One requested vector.
struct Line<H: Handler> {
    irq: c_uint,
    vector: u32,
    handler: Arc<H>,
}

/// All MSI-X vectors of a function, requested for one handler; dropping it waits
/// for handlers that run.
///
/// # Invariants
///
/// The vectors are allocated, and each of `lines` is requested with its own
/// address as cookie.
pub struct Interrupts<H: Handler> {
    lines: KVec<KBox<Line<H>>>,
    pdev: ARef<pci::Device>,
}

impl<H: Handler> Interrupts<H> {
    /// Allocate and request exactly `count` vectors.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the function has fewer, or what `request_irq()` reports.
    pub fn request(
        pdev: &pci::Device<Bound>,
        count: u32,
        name: &'static CStr,
        handler: Arc<H>,
    ) -> Result<Self> {
        let lines = KVec::with_capacity(count as usize, GFP_KERNEL)?;
        // SAFETY: The function is valid.
        let got = unsafe {
            bindings::pci_alloc_irq_vectors(raw(pdev), count, count, bindings::PCI_IRQ_MSIX)
        };
        if got < 0 {
            return Err(Error::from_errno(got));
        }
        // INVARIANT: Allocated; no line yet.
        let mut this = Self {
            lines,
            pdev: ARef::from(&**pdev),
        };
        for vector in 0..count {
            this.request_line(vector, name, handler.clone())?;
        }
        Ok(this)
    }

    fn request_line(&mut self, vector: u32, name: &'static CStr, handler: Arc<H>) -> Result {
        // SAFETY: The function is valid and has vectors allocated.
        let irq = unsafe { bindings::pci_irq_vector(raw(&self.pdev), vector) };
        if irq < 0 {
            return Err(Error::from_errno(irq));
        }
        let line = KBox::new(
            Line {
                irq: irq as c_uint,
                vector,
                handler,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The line lives until the interrupt is freed by the drop.
        to_result(unsafe {
            bindings::request_irq(
                line.irq,
                Some(Self::interrupt),
                0,
                name.as_char_ptr(),
                ptr::from_ref(&*line).cast_mut().cast(),
            )
        })?;
        // INVARIANT: Requested. Capacity was reserved, so this does not fail.
        self.lines.push(line, GFP_KERNEL)?;
        Ok(())
    }

    /// # Safety
    ///
    /// `cookie` must be a live `Line<H>`.
    unsafe extern "C" fn interrupt(_irq: c_int, cookie: *mut c_void) -> bindings::irqreturn_t {
        // SAFETY: As the caller promises.
        let line = unsafe { &*cookie.cast::<Line<H>>() };
        line.handler.interrupt(line.vector);
        let handled = IrqReturn::Handled as c_uint;
        // SAFETY: The C enumeration, of which this is a value. The kernel crate has made it an
        // integer in one supported version and a type of its own in another.
        unsafe { core::mem::transmute::<c_uint, bindings::irqreturn_t>(handled) }
    }
}

impl<H: Handler> Drop for Interrupts<H> {
    fn drop(&mut self) {
        for line in &self.lines {
            let cookie = ptr::from_ref(&**line).cast_mut().cast();
            // SAFETY: Requested with this cookie; waits for handlers that run.
            unsafe { bindings::free_irq(line.irq, cookie) };
        }
        // SAFETY: Allocated by `request`; no vector is in use any more.
        unsafe { bindings::pci_free_irq_vectors(raw(&self.pdev)) };
    }
}
