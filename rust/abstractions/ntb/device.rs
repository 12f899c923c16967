// SPDX-License-Identifier: GPL-2.0-only

//! An NTB device as its client sees it.

use super::{
    posted,
    InboundBuffer,
    PeerWindow, //
};
use crate::pci;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    bindings as core_bindings,
    device,
    error::to_result,
    prelude::*,
    sync::aref::AlwaysRefCounted,
    types::Opaque, //
};
use mp_bindings as bindings;

/// What an inbound window demands of the memory behind it, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct WindowLimits {
    /// Alignment of the address; a power of two.
    pub addr_align: u64,
    /// Alignment of the size.
    pub size_align: u64,
    /// Largest size.
    pub size_max: u64,
}

impl WindowLimits {
    /// Whether the window can lead to memory that begins there.
    pub fn is_aligned(&self, address: u64) -> bool {
        address.checked_rem(self.addr_align) == Some(0)
    }

    /// Whether the window can be of so many bytes.
    pub fn is_size(&self, len: u64) -> bool {
        len <= self.size_max && len.checked_rem(self.size_align) == Some(0)
    }
}

/// A range of physical addresses, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct AddressRange {
    /// First address.
    pub addr: u64,
    /// Size.
    pub size: u64,
}

/// An NTB device.
///
/// `pidx` numbers the peers from zero to [`peer_port_count`](Self::peer_port_count),
/// `widx`, `sidx` and `midx` windows, scratchpads and messages; sets of peers,
/// doorbells and message bits are bit masks. Indices out of range are errors of
/// the device's driver. Unless said otherwise, methods may be called from any
/// context and do not sleep.
///
/// # Invariants
///
/// A valid `struct ntb_dev` that is registered with the NTB core or has
/// references left. The core keeps the device's driver from going away while
/// there are any, so its operations stay callable.
#[repr(transparent)]
pub struct NtbDev(Opaque<bindings::ntb_dev>);

// SAFETY: References may be dropped on any thread.
unsafe impl Send for NtbDev {}
// SAFETY: The operations of an NTB device synchronise themselves.
unsafe impl Sync for NtbDev {}

// SAFETY: `get_device()` and `put_device()` count the references.
unsafe impl AlwaysRefCounted for NtbDev {
    fn inc_ref(&self) {
        // SAFETY: The reference proves that the count is not zero.
        unsafe { core_bindings::get_device(self.as_dev()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns a reference, hence the device is valid.
        let dev = unsafe { obj.as_ref() }.as_dev();
        // SAFETY: As above; it is given up here.
        unsafe { core_bindings::put_device(dev) };
    }
}

impl AsRef<device::Device> for NtbDev {
    fn as_ref(&self) -> &device::Device {
        // SAFETY: The embedded device is valid for as long as `self` is.
        unsafe { device::Device::from_raw(self.as_dev()) }
    }
}

/// A count or index that the C side gives as `int`, negative for an error.
fn to_index(val: c_int) -> Result<u32> {
    if val < 0 {
        return Err(Error::from_errno(val));
    }
    Ok(val as u32)
}

/// A count that an error turns into zero.
fn to_count(val: c_int) -> u32 {
    val.max(0) as u32
}

/// An index for the C side; what does not fit is out of range for any driver.
fn index(val: u32) -> c_int {
    c_int::try_from(val).unwrap_or(c_int::MAX)
}

impl NtbDev {
    /// # Safety
    ///
    /// `ptr` must satisfy the type invariants for the lifetime `'a`.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(ptr: *mut bindings::ntb_dev) -> &'a Self {
        // SAFETY: A transparent wrapper; valid by the caller's word.
        unsafe { &*ptr.cast() }
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::ntb_dev {
        self.0.get()
    }

    /// The embedded `struct device` in the kernel crate's terms.
    #[inline]
    pub(super) fn as_dev(&self) -> *mut core_bindings::device {
        // SAFETY: `self` is valid, so a field of it may be pointed to.
        unsafe { &raw mut (*self.as_raw()).dev }.cast()
    }

    #[inline]
    pub(super) fn dma_dev_raw(&self) -> *mut bindings::device {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_get_dma_dev(self.as_raw()) }
    }

    /// The bridge's function on the PCI bus, if it is on one.
    pub fn pci_function(&self) -> Option<pci::Function> {
        // SAFETY: `self` is valid; its driver keeps the function for as long.
        let pdev = unsafe { (*self.as_raw()).pdev };
        // SAFETY: As above, unless there is none.
        (!pdev.is_null()).then(|| unsafe { pci::Function::of(pdev) })
    }

    /// Whether the bridge cannot be reached now, as an error at its slot is being handled, or
    /// was not handled. What is read from it means nothing then.
    pub fn is_offline(&self) -> bool {
        // SAFETY: `self` is valid; its driver keeps the function for as long.
        unsafe { bindings::ntb_is_offline(self.as_raw()) }
    }

    /// Whether an error at the bridge's slot was not handled: it will not be reached again
    /// before its driver binds to it anew.
    pub fn has_failed(&self) -> bool {
        // SAFETY: As above.
        unsafe { bindings::ntb_has_failed(self.as_raw()) }
    }

    /// The device for DMA allocations and mappings.
    pub fn dma_device(&self) -> &device::Device {
        // SAFETY: The parent of a device stays for as long as the device does.
        unsafe { device::Device::from_raw(self.dma_dev_raw().cast()) }
    }

    /// This host's port number.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn port_number(&self) -> Result<u32> {
        // SAFETY: `self` is valid.
        to_index(unsafe { bindings::ntb_port_number(self.as_raw()) })
    }

    /// Number of peers.
    pub fn peer_port_count(&self) -> u32 {
        // SAFETY: `self` is valid.
        to_count(unsafe { bindings::ntb_peer_port_count(self.as_raw()) })
    }

    /// Port number of a peer.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn peer_port_number(&self, pidx: u32) -> Result<u32> {
        // SAFETY: `self` is valid.
        to_index(unsafe { bindings::ntb_peer_port_number(self.as_raw(), index(pidx)) })
    }

    /// Index of the peer with port number `port`.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn peer_port_idx(&self, port: u32) -> Result<u32> {
        // SAFETY: `self` is valid.
        to_index(unsafe { bindings::ntb_peer_port_idx(self.as_raw(), index(port)) })
    }

    /// The index that this host's resources have at peer `pidx`: which of that
    /// peer's outbound windows is to lead here. It is this host's own `pidx` as the
    /// peer counts.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such peer.
    pub fn peer_resource_idx(&self, pidx: u32) -> Result<u32> {
        // SAFETY: `self` is valid.
        to_index(unsafe { bindings::ntb_peer_resource_idx(self.as_raw(), index(pidx)) })
    }

    /// The peers whose link is up, a bit for each `pidx`.
    pub fn link_is_up(&self) -> u64 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_link_is_up(self.as_raw(), ptr::null_mut(), ptr::null_mut()) }
    }

    /// Let links come up, as fast and wide as they can. May sleep.
    ///
    /// An error of the device's driver is logged only: some drivers, such as that of AMD's
    /// bridge at its secondary side, report one although the link can come up. Whether it
    /// does, [`link_is_up`](Self::link_is_up) says.
    pub fn link_enable(&self) {
        // SAFETY: `self` is valid.
        let ret = unsafe {
            bindings::ntb_link_enable(
                self.as_raw(),
                bindings::ntb_speed_NTB_SPEED_AUTO,
                bindings::ntb_width_NTB_WIDTH_AUTO,
            )
        };
        self.log_link_error(ret, "enabling");
    }

    /// Take all links down. May sleep. An error of the device's driver is logged only, as by
    /// [`link_enable`](Self::link_enable).
    pub fn link_disable(&self) {
        // What is under way was rung while the link was up.
        posted::flush();
        // SAFETY: `self` is valid.
        let ret = unsafe { bindings::ntb_link_disable(self.as_raw()) };
        self.log_link_error(ret, "disabling");
    }

    fn log_link_error(&self, ret: c_int, action: &str) {
        if ret < 0 {
            dev_info!(
                self,
                "the bridge's driver reports error {} for {} the link, which this side may not control\n",
                ret,
                action
            );
        }
    }

    /// Raise a link event for this device's own client, as after
    /// [`link_enable`](Self::link_enable), when a link may have been up already.
    pub fn link_event(&self) {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_link_event(self.as_raw()) };
    }

    /// Number of inbound windows for a peer; may be zero while its link is down.
    pub fn mw_count(&self, pidx: u32) -> u32 {
        // SAFETY: `self` is valid.
        to_count(unsafe { bindings::ntb_mw_count(self.as_raw(), index(pidx)) })
    }

    /// What inbound window `widx` for peer `pidx` demands. Sleeps; call it just
    /// before allocating the memory.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` while the link is down, or what the device's driver reports.
    pub fn mw_get_align(&self, pidx: u32, widx: u32) -> Result<WindowLimits> {
        let (mut addr_align, mut size_align, mut size_max) = (0, 0, 0);
        // SAFETY: `self` is valid, the rest points to variables.
        to_result(unsafe {
            bindings::ntb_mw_get_align(
                self.as_raw(),
                index(pidx),
                index(widx),
                &mut addr_align,
                &mut size_align,
                &mut size_max,
            )
        })?;
        Ok(WindowLimits {
            addr_align: addr_align.max(1),
            size_align: size_align.max(1),
            size_max,
        })
    }

    /// Allocate zeroed memory for inbound window `widx` of peer `pidx`: `len`
    /// bytes, rounded as the window demands, at an address aligned to `align`
    /// bytes, a power of two, and as the window demands. Sleeps. The memory is
    /// not exposed yet.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the window is smaller, `ENOMEM`, or as
    /// [`mw_get_align`](Self::mw_get_align).
    pub fn alloc_inbound(
        &self,
        pidx: u32,
        widx: u32,
        len: usize,
        align: u64,
    ) -> Result<InboundBuffer> {
        let limits = self.mw_get_align(pidx, widx)?;
        let size = (len as u64)
            .checked_next_multiple_of(limits.size_align)
            .ok_or(EINVAL)?;
        if size == 0 || size > limits.size_max {
            return Err(EINVAL);
        }
        InboundBuffer::new(
            self,
            usize::try_from(size)?,
            usize::try_from(limits.addr_align.max(align))?,
        )
    }

    /// Set the translation of inbound window `widx` of peer `pidx`; see
    /// [`InboundBuffer::expose`].
    pub(super) fn mw_set_trans(&self, pidx: u32, widx: u32, addr: u64, size: u64) -> Result {
        // SAFETY: `self` is valid; the buffer at `addr` clears the translation before it is freed.
        to_result(unsafe {
            bindings::ntb_mw_set_trans(self.as_raw(), index(pidx), index(widx), addr, size)
        })
    }

    /// Clear what [`mw_set_trans`](Self::mw_set_trans) has set.
    pub(super) fn mw_clear_trans(&self, pidx: u32, widx: u32) {
        // SAFETY: `self` is valid.
        let ret = unsafe { bindings::ntb_mw_clear_trans(self.as_raw(), index(pidx), index(widx)) };
        if to_result(ret).is_err() {
            dev_warn!(
                self,
                "window {} of peer {} not cleared: {}\n",
                widx,
                pidx,
                ret
            );
        }
    }

    /// Whether the translation of inbound windows is this host's to program; else it is
    /// that of the peers, by [`peer_mw_set_trans`](Self::peer_mw_set_trans).
    pub fn receiver_translates(&self) -> bool {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_receiver_translates(self.as_raw()) }
    }

    /// Number of outbound windows, for all peers together.
    pub fn peer_mw_count(&self) -> u32 {
        // SAFETY: `self` is valid.
        to_count(unsafe { bindings::ntb_peer_mw_count(self.as_raw()) })
    }

    /// Where outbound window `widx` lies in this host's physical memory.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn peer_mw_addr(&self, widx: u32) -> Result<AddressRange> {
        let (mut addr, mut size) = (0, 0);
        // SAFETY: `self` is valid, the rest points to variables.
        to_result(unsafe {
            bindings::ntb_peer_mw_get_addr(self.as_raw(), index(widx), &mut addr, &mut size)
        })?;
        Ok(AddressRange { addr, size })
    }

    /// Map outbound window `widx`. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or as [`peer_mw_addr`](Self::peer_mw_addr).
    pub fn map_peer_window(&self, widx: u32) -> Result<PeerWindow> {
        PeerWindow::map(self, widx)
    }

    /// Lead outbound window `widx` to `size` bytes at `addr` of peer `pidx`, on
    /// bridges where the sender programs the translation; on others it has no
    /// effect and succeed. May sleep.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn peer_mw_set_trans(&self, pidx: u32, widx: u32, addr: u64, size: u64) -> Result {
        // SAFETY: `self` is valid; memory of this host is not affected.
        to_result(unsafe {
            bindings::ntb_peer_mw_set_trans(self.as_raw(), index(pidx), index(widx), addr, size)
        })
    }

    /// End [`peer_mw_set_trans`](Self::peer_mw_set_trans).
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn peer_mw_clear_trans(&self, pidx: u32, widx: u32) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe {
            bindings::ntb_peer_mw_clear_trans(self.as_raw(), index(pidx), index(widx))
        })
    }

    /// Whether the hardware advises against using doorbells.
    pub fn db_is_unsafe(&self) -> bool {
        // SAFETY: `self` is valid.
        (unsafe { bindings::ntb_db_is_unsafe(self.as_raw()) }) != 0
    }

    /// The doorbells that exist.
    pub fn db_valid_mask(&self) -> u64 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_db_valid_mask(self.as_raw()) }
    }

    /// Number of interrupt vectors for doorbells.
    pub fn db_vector_count(&self) -> u32 {
        // SAFETY: `self` is valid.
        to_count(unsafe { bindings::ntb_db_vector_count(self.as_raw()) })
    }

    /// The doorbells of an interrupt vector.
    pub fn db_vector_mask(&self, vector: u32) -> u64 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_db_vector_mask(self.as_raw(), index(vector)) }
    }

    /// The doorbells that rang.
    #[inline]
    pub fn db_read(&self) -> u64 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_db_read(self.as_raw()) }
    }

    /// Clear doorbells, which arms them again.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    #[inline]
    pub fn db_clear(&self, bits: u64) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe { bindings::ntb_db_clear(self.as_raw(), bits) })
    }

    /// The doorbells that raise no event.
    pub fn db_read_mask(&self) -> u64 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_db_read_mask(self.as_raw()) }
    }

    /// Keep doorbells from raising events.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    #[inline]
    pub fn db_set_mask(&self, bits: u64) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe { bindings::ntb_db_set_mask(self.as_raw(), bits) })
    }

    /// Let doorbells raise events; one that rang already raises it now.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    #[inline]
    pub fn db_clear_mask(&self, bits: u64) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe { bindings::ntb_db_clear_mask(self.as_raw(), bits) })
    }

    /// Ring doorbells of the peer; of all peers whose link is up, if there are
    /// several. Everything stored to windows before arrives first.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    #[inline]
    pub fn peer_db_set(&self, bits: u64) -> Result {
        if posted::ring(self, bits) {
            return Ok(());
        }
        self.ring_now(bits)
    }

    /// See [`peer_db_set`](Self::peer_db_set).
    pub(super) fn ring_now(&self, bits: u64) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe { bindings::ntb_peer_db_set(self.as_raw(), bits) })
    }

    /// Whether the hardware advises against using scratchpads.
    pub fn spad_is_unsafe(&self) -> bool {
        // SAFETY: `self` is valid.
        (unsafe { bindings::ntb_spad_is_unsafe(self.as_raw()) }) != 0
    }

    /// Number of scratchpads; zero if there are none.
    pub fn spad_count(&self) -> u32 {
        // SAFETY: `self` is valid.
        to_count(unsafe { bindings::ntb_spad_count(self.as_raw()) })
    }

    /// A scratchpad of this host; all ones if there is none.
    pub fn spad_read(&self, sidx: u32) -> u32 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_spad_read(self.as_raw(), index(sidx)) }
    }

    /// Write a scratchpad of this host.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn spad_write(&self, sidx: u32, val: u32) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe { bindings::ntb_spad_write(self.as_raw(), index(sidx), val) })
    }

    /// A scratchpad of a peer; all ones if there is nobody.
    pub fn peer_spad_read(&self, pidx: u32, sidx: u32) -> u32 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_peer_spad_read(self.as_raw(), index(pidx), index(sidx)) }
    }

    /// Write a scratchpad of a peer.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn peer_spad_write(&self, pidx: u32, sidx: u32, val: u32) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe {
            bindings::ntb_peer_spad_write(self.as_raw(), index(pidx), index(sidx), val)
        })
    }

    /// Number of message registers in each direction; zero if there are none.
    pub fn msg_count(&self) -> u32 {
        // SAFETY: `self` is valid.
        to_count(unsafe { bindings::ntb_msg_count(self.as_raw()) })
    }

    /// The status bits of inbound messages: set means one has arrived.
    pub fn msg_inbits(&self) -> u64 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_msg_inbits(self.as_raw()) }
    }

    /// The status bits of outbound messages: set means one was refused.
    pub fn msg_outbits(&self) -> u64 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_msg_outbits(self.as_raw()) }
    }

    /// The status of all message registers.
    pub fn msg_read_sts(&self) -> u64 {
        // SAFETY: `self` is valid.
        unsafe { bindings::ntb_msg_read_sts(self.as_raw()) }
    }

    /// Clear status bits, which frees inbound registers for the next message.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn msg_clear_sts(&self, bits: u64) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe { bindings::ntb_msg_clear_sts(self.as_raw(), bits) })
    }

    /// Keep status bits from raising events.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn msg_set_mask(&self, bits: u64) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe { bindings::ntb_msg_set_mask(self.as_raw(), bits) })
    }

    /// Let status bits raise events.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn msg_clear_mask(&self, bits: u64) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe { bindings::ntb_msg_clear_mask(self.as_raw(), bits) })
    }

    /// An inbound message and the peer it is from.
    pub fn msg_read(&self, midx: u32) -> (u32, u32) {
        let mut pidx = 0;
        // SAFETY: `self` is valid, `pidx` is a variable.
        let msg = unsafe { bindings::ntb_msg_read(self.as_raw(), &mut pidx, index(midx)) };
        (msg, to_count(pidx))
    }

    /// Send a message to a peer. If its register is full, the message is
    /// dropped and the outbound status bit tells.
    ///
    /// # Errors
    ///
    /// What the device's driver reports.
    pub fn peer_msg_write(&self, pidx: u32, midx: u32, msg: u32) -> Result {
        // SAFETY: `self` is valid.
        to_result(unsafe {
            bindings::ntb_peer_msg_write(self.as_raw(), index(pidx), index(midx), msg)
        })
    }
}
