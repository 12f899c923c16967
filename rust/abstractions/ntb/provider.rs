// SPDX-License-Identifier: GPL-2.0-only

//! Drivers of NTB hardware.
//!
//! A hardware driver implements [`Device`], puts it into an [`Ntb`] and hands
//! that to a [`Registration`]. Only the groups of operations named by the
//! [`Features`] appear in the operations table, so that one driver can be a
//! device with scratchpads or one without, decided when it is loaded.
//!
//! # Examples
//!
//! ```ignore
//! let ntb = Ntb::new(pdev, Topology::Switch, Features::MESSAGES, my_device);
//! let ntb = Arc::pin_init(ntb, GFP_KERNEL)?;
//! let registration = Registration::new(ntb.clone())?;
//! // Events may be raised from now on: request interrupts here.
//! ntb.link_event();
//! ```

use crate::error::unsupported;

use super::device::{
    AddressRange,
    WindowLimits, //
};
use core::{
    ops::BitOr,
    ptr, //
};
use kernel::{
    device,
    error::to_result,
    pci,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        Arc, //
    },
    types::Opaque, //
};
use mp_bindings as bindings;

/// The state of the links of a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkState {
    /// The peers whose link is up, a bit for each `pidx`.
    pub up: u64,
    /// PCI Express generation; zero if no link is up.
    pub speed: u8,
    /// Number of lanes; zero if no link is up.
    pub width: u8,
}

/// Groups of optional operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// None of the groups.
    pub const NONE: Self = Self(0);
    /// Ports have numbers of their own, and there may be more than two.
    pub const PORTS: Self = Self(1 << 0);
    /// The receiver programs the translation of a window.
    pub const RECEIVER_TRANSLATES: Self = Self(1 << 1);
    /// The sender programs the translation of a window.
    pub const SENDER_TRANSLATES: Self = Self(1 << 2);
    /// Doorbells are spread over several interrupt vectors.
    pub const DOORBELL_VECTORS: Self = Self(1 << 3);
    /// There are scratchpads.
    pub const SCRATCHPADS: Self = Self(1 << 4);
    /// There are message registers.
    pub const MESSAGES: Self = Self(1 << 5);
    /// A host can ring its own doorbells, and read those of its peers.
    pub const DOORBELL_STATE: Self = Self(1 << 6);

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// How the device joins its hosts. Without [`Features::PORTS`] the core derives
/// from it which port each of two hosts has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Unknown; both ports have number 0.
    Unknown,
    /// A switch; without port operations, both ports have number 0.
    Switch,
    /// One bridge, this host on its primary side: ports 0, here, and 1.
    Primary,
    /// One bridge, this host on its secondary side: ports 1, here, and 0.
    Secondary,
    /// Two bridges back to back, this host's the upstream one: ports 0, here, and 1.
    Upstream,
    /// Two bridges back to back, this host's the downstream one: ports 1, here, and 0.
    Downstream,
}

impl Topology {
    fn as_raw(self) -> bindings::ntb_topo {
        match self {
            Self::Unknown => bindings::ntb_topo_NTB_TOPO_NONE,
            Self::Switch => bindings::ntb_topo_NTB_TOPO_SWITCH,
            Self::Primary => bindings::ntb_topo_NTB_TOPO_PRI,
            Self::Secondary => bindings::ntb_topo_NTB_TOPO_SEC,
            Self::Upstream => bindings::ntb_topo_NTB_TOPO_B2B_USD,
            Self::Downstream => bindings::ntb_topo_NTB_TOPO_B2B_DSD,
        }
    }
}

/// The operations of an NTB device, as `struct ntb_dev_ops` describes them.
///
/// Indices come from clients: an implementation refuses those that are out of
/// range. Operations may be called from any context and concurrently, except
/// those said to sleep; the device's own events must not be raised from inside
/// of any of them, because a client may hold its locks.
///
/// Optional groups have defaults; implement a group together with its
/// [`Features`] flag.
pub trait Device: Send + Sync + 'static {
    /// This host's port number.
    fn port_number(&self) -> u32 {
        0
    }

    /// Number of peers.
    fn peer_port_count(&self) -> u32 {
        1
    }

    /// Port number of a peer.
    fn peer_port_number(&self, _pidx: u32) -> Result<u32> {
        Err(EINVAL)
    }

    /// Index of the peer with a port number.
    fn peer_port_idx(&self, _port: u32) -> Result<u32> {
        Err(EINVAL)
    }

    /// The links that are up.
    fn link_is_up(&self) -> LinkState;

    /// Let links come up. May sleep.
    fn link_enable(&self) -> Result;

    /// Take links down. May sleep.
    fn link_disable(&self) -> Result;

    /// Number of inbound windows for a peer.
    fn mw_count(&self, pidx: u32) -> u32;

    /// What an inbound window demands of its memory. May sleep.
    fn mw_get_align(&self, pidx: u32, widx: u32) -> Result<WindowLimits>;

    /// Expose local memory to a peer. May sleep.
    fn mw_set_trans(&self, _pidx: u32, _widx: u32, _addr: u64, _size: u64) -> Result {
        Err(EINVAL)
    }

    /// End that. May sleep.
    fn mw_clear_trans(&self, _pidx: u32, _widx: u32) -> Result {
        Err(EINVAL)
    }

    /// Number of outbound windows.
    fn peer_mw_count(&self) -> u32;

    /// Where an outbound window lies in local physical memory.
    fn peer_mw_get_addr(&self, widx: u32) -> Result<AddressRange>;

    /// Lead an outbound window to a peer's memory. May sleep.
    fn peer_mw_set_trans(&self, _pidx: u32, _widx: u32, _addr: u64, _size: u64) -> Result {
        Err(EINVAL)
    }

    /// End that. May sleep.
    fn peer_mw_clear_trans(&self, _pidx: u32, _widx: u32) -> Result {
        Err(EINVAL)
    }

    /// The doorbells that exist.
    fn db_valid_mask(&self) -> u64;

    /// Number of doorbell vectors.
    fn db_vector_count(&self) -> u32 {
        1
    }

    /// The doorbells of a vector.
    fn db_vector_mask(&self, _vector: u32) -> u64 {
        self.db_valid_mask()
    }

    /// The doorbells that rang.
    fn db_read(&self) -> u64;

    /// Ring this host's own doorbells.
    fn db_set(&self, _bits: u64) -> Result {
        Err(EINVAL)
    }

    /// Clear doorbells.
    fn db_clear(&self, bits: u64) -> Result;

    /// The masked doorbells.
    fn db_read_mask(&self) -> u64;

    /// Mask doorbells.
    fn db_set_mask(&self, bits: u64) -> Result;

    /// Unmask doorbells; what rang meanwhile raises its event afterwards.
    fn db_clear_mask(&self, bits: u64) -> Result;

    /// Which of its doorbells rang at the peer.
    fn peer_db_read(&self) -> u64 {
        0
    }

    /// Ring doorbells of the peers.
    fn peer_db_set(&self, bits: u64) -> Result;

    /// The doorbells masked at the peer.
    fn peer_db_read_mask(&self) -> u64 {
        0
    }

    /// Number of scratchpads.
    fn spad_count(&self) -> u32 {
        0
    }

    /// A scratchpad of this host, or all ones.
    fn spad_read(&self, _sidx: u32) -> u32 {
        !0
    }

    /// Write a scratchpad of this host.
    fn spad_write(&self, _sidx: u32, _val: u32) -> Result {
        Err(EINVAL)
    }

    /// A scratchpad of a peer, or all ones.
    fn peer_spad_read(&self, _pidx: u32, _sidx: u32) -> u32 {
        !0
    }

    /// Write a scratchpad of a peer.
    fn peer_spad_write(&self, _pidx: u32, _sidx: u32, _val: u32) -> Result {
        Err(EINVAL)
    }

    /// Number of message registers in each direction.
    fn msg_count(&self) -> u32 {
        0
    }

    /// Status bits of inbound messages.
    fn msg_inbits(&self) -> u64 {
        0
    }

    /// Status bits of outbound messages.
    fn msg_outbits(&self) -> u64 {
        0
    }

    /// Status of all message registers.
    fn msg_read_sts(&self) -> u64 {
        0
    }

    /// Clear status bits.
    fn msg_clear_sts(&self, _bits: u64) -> Result {
        Err(EINVAL)
    }

    /// Mask status bits.
    fn msg_set_mask(&self, _bits: u64) -> Result {
        Err(EINVAL)
    }

    /// Unmask status bits; what is set meanwhile raises its event afterwards.
    fn msg_clear_mask(&self, _bits: u64) -> Result {
        Err(EINVAL)
    }

    /// An inbound message and the index of its sender.
    fn msg_read(&self, _midx: u32) -> (u32, u32) {
        (!0, 0)
    }

    /// Send a message to a peer.
    fn peer_msg_write(&self, _pidx: u32, _midx: u32, _msg: u32) -> Result {
        Err(EINVAL)
    }
}

/// Life of an [`Ntb`]: not registered yet, known to the core.
const FRESH: u32 = 0;
const CLAIMED: u32 = 1;
const REGISTERED: u32 = 2;

/// An NTB device with its hardware driver's data.
///
/// # Invariants
///
/// `dev` points to `ops`, whose callbacks are those of `T` and expect `dev` to
/// be embedded in an `Ntb<T>`. Once `state` is `REGISTERED`, its context lock is
/// initialised.
#[pin_data]
pub struct Ntb<T: Device> {
    #[pin]
    dev: Opaque<bindings::ntb_dev>,
    ops: bindings::ntb_dev_ops,
    state: Atomic<u32>,
    _pdev: ARef<pci::Device>,
    #[pin]
    data: T,
}

// SAFETY: `T` is `Send`, and a device is not tied to a thread.
unsafe impl<T: Device> Send for Ntb<T> {}
// SAFETY: `T` is `Sync`, and the core synchronises the rest.
unsafe impl<T: Device> Sync for Ntb<T> {}

impl<T: Device> Ntb<T> {
    /// A device that is not registered yet.
    pub fn new<'a>(
        pdev: &'a pci::Device<device::Bound>,
        topology: Topology,
        features: Features,
        data: impl PinInit<T, Error> + 'a,
    ) -> impl PinInit<Self, Error> + 'a {
        try_pin_init!(&this in Self {
            ops: Callbacks::<T>::table(features),
            dev <- Opaque::ffi_init(|slot: *mut bindings::ntb_dev| {
                // SAFETY: `slot` is valid for writes; `ops` stays where it is, next to it.
                unsafe {
                    slot.write(bindings::ntb_dev::default());
                    (*slot).pdev = ptr::from_ref(pdev).cast_mut().cast();
                    (*slot).topo = topology.as_raw();
                    (*slot).ops = &raw const (*this.as_ptr()).ops;
                }
            }),
            state: Atomic::new(FRESH),
            _pdev: ARef::from(&**pdev),
            data <- data,
        })
    }

    /// The hardware driver's data.
    #[inline]
    pub fn data(&self) -> &T {
        &self.data
    }

    /// Tell the client that links may have changed. Not from inside of an
    /// operation.
    pub fn link_event(&self) {
        if self.is_registered() {
            // SAFETY: The context lock is initialised.
            unsafe { bindings::ntb_link_event(self.dev.get()) };
        }
    }

    /// Tell the client that a doorbell of `vector` rang. Not from inside of an
    /// operation.
    pub fn db_event(&self, vector: u32) {
        if self.is_registered() {
            // SAFETY: The context lock is initialised.
            unsafe { bindings::ntb_db_event(self.dev.get(), vector as c_int) };
        }
    }

    /// Tell the client that a message arrived. Not from inside of an operation.
    pub fn msg_event(&self) {
        if self.is_registered() {
            // SAFETY: The context lock is initialised.
            unsafe { bindings::ntb_msg_event(self.dev.get()) };
        }
    }

    fn is_registered(&self) -> bool {
        self.state.load(Acquire) == REGISTERED
    }
}

/// A device known to the NTB core; dropping it unbinds its client, waits until
/// all references are gone, and takes it from the core.
///
/// # Invariants
///
/// The device is registered.
pub struct Registration<T: Device> {
    ntb: Arc<Ntb<T>>,
}

impl<T: Device> Registration<T> {
    /// Make the device known; clients are probed before this returns.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it has been registered before, `EINVAL` if the operations do
    /// not suit the core, or what `device_register()` reports.
    pub fn new(ntb: Arc<Ntb<T>>) -> Result<Self> {
        if ntb.state.cmpxchg(FRESH, CLAIMED, Full).is_err() {
            return Err(EBUSY);
        }
        // SAFETY: The device is initialised, pinned, and lives until it is unregistered.
        to_result(unsafe { bindings::ntb_register_device(ntb.dev.get()) })?;
        // INVARIANT: Registered, which initialised the context lock.
        ntb.state.store(REGISTERED, Release);
        Ok(Self { ntb })
    }
}

impl<T: Device> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: Registered, by the type invariant.
        unsafe { bindings::ntb_unregister_device(self.ntb.dev.get()) };
    }
}

/// The C side of a [`Device`].
struct Callbacks<T>(core::marker::PhantomData<T>);

/// An index from the C side.
fn index(val: c_int) -> Result<u32> {
    u32::try_from(val).map_err(|_| EINVAL)
}

/// A count for the C side.
fn count(val: u32) -> c_int {
    c_int::try_from(val).unwrap_or(c_int::MAX)
}

/// Success or a negative error number.
fn status(res: Result) -> c_int {
    res.err().map_or(0, Error::to_errno)
}

/// A number or a negative error number.
fn number(res: Result<u32>) -> c_int {
    res.map_or_else(Error::to_errno, count)
}

/// Generates callbacks that forward to the method of the same name.
///
/// All of them share one contract: the core calls them with the device of an
/// `Ntb<T>` that is registered.
macro_rules! forward {
    ($(fn $name:ident($ntb:ident, $self:ident $(, $arg:ident: $ty:ty)*) -> $ret:ty $body:block)*) => {
        $(
            /// # Safety
            ///
            /// `ntb` must be embedded in a live `Ntb<T>`.
            unsafe extern "C" fn $name($ntb: *mut bindings::ntb_dev $(, $arg: $ty)*) -> $ret {
                // SAFETY: As the caller promises.
                let $self = unsafe { Self::data($ntb) };
                $body
            }
        )*
    };
}

impl<T: Device> Callbacks<T> {
    /// # Safety
    ///
    /// `ntb` must be embedded in an `Ntb<T>` that lives for `'a`.
    unsafe fn data<'a>(ntb: *mut bindings::ntb_dev) -> &'a T {
        let ntb: *mut Opaque<bindings::ntb_dev> = ntb.cast();
        // SAFETY: As the caller promises.
        unsafe { &(*kernel::container_of!(ntb, Ntb<T>, dev)).data }
    }

    /// The operations table for a set of features.
    fn table(features: Features) -> bindings::ntb_dev_ops {
        let mut ops = bindings::ntb_dev_ops {
            link_is_up: Some(Self::link_is_up),
            link_enable: Some(Self::link_enable),
            link_disable: Some(Self::link_disable),
            mw_count: Some(Self::mw_count),
            mw_get_align: Some(Self::mw_get_align),
            peer_mw_count: Some(Self::peer_mw_count),
            peer_mw_get_addr: Some(Self::peer_mw_get_addr),
            db_valid_mask: Some(Self::db_valid_mask),
            db_read: Some(Self::db_read),
            db_clear: Some(Self::db_clear),
            db_read_mask: Some(Self::db_read_mask),
            db_set_mask: Some(Self::db_set_mask),
            db_clear_mask: Some(Self::db_clear_mask),
            peer_db_set: Some(Self::peer_db_set),
            // The core calls these whenever their local counterparts exist.
            peer_db_clear: Some(Self::peer_db_unsupported),
            peer_db_read_mask: Some(Self::peer_db_read_mask),
            peer_db_set_mask: Some(Self::peer_db_unsupported),
            peer_db_clear_mask: Some(Self::peer_db_unsupported),
            ..Default::default()
        };
        if features.contains(Features::PORTS) {
            ops.port_number = Some(Self::port_number);
            ops.peer_port_count = Some(Self::peer_port_count);
            ops.peer_port_number = Some(Self::peer_port_number);
            ops.peer_port_idx = Some(Self::peer_port_idx);
        }
        if features.contains(Features::RECEIVER_TRANSLATES) {
            ops.mw_set_trans = Some(Self::mw_set_trans);
            ops.mw_clear_trans = Some(Self::mw_clear_trans);
        }
        if features.contains(Features::SENDER_TRANSLATES) {
            ops.peer_mw_set_trans = Some(Self::peer_mw_set_trans);
            ops.peer_mw_clear_trans = Some(Self::peer_mw_clear_trans);
        }
        if features.contains(Features::DOORBELL_VECTORS) {
            ops.db_vector_count = Some(Self::db_vector_count);
            ops.db_vector_mask = Some(Self::db_vector_mask);
        }
        if features.contains(Features::DOORBELL_STATE) {
            ops.db_set = Some(Self::db_set);
            ops.peer_db_read = Some(Self::peer_db_read);
        }
        if features.contains(Features::SCRATCHPADS) {
            ops.spad_count = Some(Self::spad_count);
            ops.spad_read = Some(Self::spad_read);
            ops.spad_write = Some(Self::spad_write);
            ops.peer_spad_read = Some(Self::peer_spad_read);
            ops.peer_spad_write = Some(Self::peer_spad_write);
        }
        if features.contains(Features::MESSAGES) {
            ops.msg_count = Some(Self::msg_count);
            ops.msg_inbits = Some(Self::msg_inbits);
            ops.msg_outbits = Some(Self::msg_outbits);
            ops.msg_read_sts = Some(Self::msg_read_sts);
            ops.msg_clear_sts = Some(Self::msg_clear_sts);
            ops.msg_set_mask = Some(Self::msg_set_mask);
            ops.msg_clear_mask = Some(Self::msg_clear_mask);
            ops.msg_read = Some(Self::msg_read);
            ops.peer_msg_write = Some(Self::peer_msg_write);
        }
        ops
    }

    forward! {
        fn port_number(ntb, dev) -> c_int { count(dev.port_number()) }
        fn peer_port_count(ntb, dev) -> c_int { count(dev.peer_port_count()) }
        fn peer_port_number(ntb, dev, pidx: c_int) -> c_int {
            number(index(pidx).and_then(|p| dev.peer_port_number(p)))
        }
        fn peer_port_idx(ntb, dev, port: c_int) -> c_int {
            number(index(port).and_then(|p| dev.peer_port_idx(p)))
        }
        fn link_is_up(
            ntb, dev, speed: *mut bindings::ntb_speed, width: *mut bindings::ntb_width
        ) -> u64 {
            let link = dev.link_is_up();
            if !speed.is_null() {
                // SAFETY: The core passes null or a variable.
                unsafe { *speed = link.speed.into() };
            }
            if !width.is_null() {
                // SAFETY: The core passes null or a variable.
                unsafe { *width = link.width.into() };
            }
            link.up
        }
        fn link_enable(
            ntb, dev, _speed: bindings::ntb_speed, _width: bindings::ntb_width
        ) -> c_int {
            status(dev.link_enable())
        }
        fn link_disable(ntb, dev) -> c_int { status(dev.link_disable()) }
        fn mw_count(ntb, dev, pidx: c_int) -> c_int {
            index(pidx).map_or(0, |p| count(dev.mw_count(p)))
        }
        fn mw_get_align(
            ntb, dev, pidx: c_int, widx: c_int,
            addr_align: *mut u64, size_align: *mut u64, size_max: *mut u64
        ) -> c_int {
            let limits = index(pidx)
                .and_then(|p| Ok((p, index(widx)?)))
                .and_then(|(p, w)| dev.mw_get_align(p, w));
            let limits = match limits {
                Ok(limits) => limits,
                Err(e) => return e.to_errno(),
            };
            for (out, val) in [
                (addr_align, limits.addr_align),
                (size_align, limits.size_align),
                (size_max, limits.size_max),
            ] {
                if !out.is_null() {
                    // SAFETY: The core passes null or a variable.
                    unsafe { *out = val };
                }
            }
            0
        }
        fn mw_set_trans(ntb, dev, pidx: c_int, widx: c_int, addr: u64, size: u64) -> c_int {
            status(index(pidx).and_then(|p| dev.mw_set_trans(p, index(widx)?, addr, size)))
        }
        fn mw_clear_trans(ntb, dev, pidx: c_int, widx: c_int) -> c_int {
            status(index(pidx).and_then(|p| dev.mw_clear_trans(p, index(widx)?)))
        }
        fn peer_mw_count(ntb, dev) -> c_int { count(dev.peer_mw_count()) }
        fn peer_mw_get_addr(
            ntb, dev, widx: c_int, base: *mut u64, size: *mut u64
        ) -> c_int {
            let range = match index(widx).and_then(|w| dev.peer_mw_get_addr(w)) {
                Ok(range) => range,
                Err(e) => return e.to_errno(),
            };
            for (out, val) in [(base, range.addr), (size, range.size)] {
                if !out.is_null() {
                    // SAFETY: The core passes null or a variable.
                    unsafe { *out = val };
                }
            }
            0
        }
        fn peer_mw_set_trans(
            ntb, dev, pidx: c_int, widx: c_int, addr: u64, size: u64
        ) -> c_int {
            status(index(pidx).and_then(|p| dev.peer_mw_set_trans(p, index(widx)?, addr, size)))
        }
        fn peer_mw_clear_trans(ntb, dev, pidx: c_int, widx: c_int) -> c_int {
            status(index(pidx).and_then(|p| dev.peer_mw_clear_trans(p, index(widx)?)))
        }
        fn db_valid_mask(ntb, dev) -> u64 { dev.db_valid_mask() }
        fn db_vector_count(ntb, dev) -> c_int { count(dev.db_vector_count()) }
        fn db_vector_mask(ntb, dev, vector: c_int) -> u64 {
            index(vector).map_or(0, |v| dev.db_vector_mask(v))
        }
        fn db_read(ntb, dev) -> u64 { dev.db_read() }
        fn db_set(ntb, dev, bits: u64) -> c_int { status(dev.db_set(bits)) }
        fn db_clear(ntb, dev, bits: u64) -> c_int { status(dev.db_clear(bits)) }
        fn db_read_mask(ntb, dev) -> u64 { dev.db_read_mask() }
        fn db_set_mask(ntb, dev, bits: u64) -> c_int { status(dev.db_set_mask(bits)) }
        fn db_clear_mask(ntb, dev, bits: u64) -> c_int { status(dev.db_clear_mask(bits)) }
        fn peer_db_read(ntb, dev) -> u64 { dev.peer_db_read() }
        fn peer_db_set(ntb, dev, bits: u64) -> c_int { status(dev.peer_db_set(bits)) }
        fn peer_db_read_mask(ntb, dev) -> u64 { dev.peer_db_read_mask() }
        fn peer_db_unsupported(ntb, _dev, _bits: u64) -> c_int { unsupported().to_errno() }
        fn spad_count(ntb, dev) -> c_int { count(dev.spad_count()) }
        fn spad_read(ntb, dev, sidx: c_int) -> u32 {
            index(sidx).map_or(!0, |s| dev.spad_read(s))
        }
        fn spad_write(ntb, dev, sidx: c_int, val: u32) -> c_int {
            status(index(sidx).and_then(|s| dev.spad_write(s, val)))
        }
        fn peer_spad_read(ntb, dev, pidx: c_int, sidx: c_int) -> u32 {
            index(pidx)
                .and_then(|p| Ok(dev.peer_spad_read(p, index(sidx)?)))
                .unwrap_or(!0)
        }
        fn peer_spad_write(ntb, dev, pidx: c_int, sidx: c_int, val: u32) -> c_int {
            status(index(pidx).and_then(|p| dev.peer_spad_write(p, index(sidx)?, val)))
        }
        fn msg_count(ntb, dev) -> c_int { count(dev.msg_count()) }
        fn msg_inbits(ntb, dev) -> u64 { dev.msg_inbits() }
        fn msg_outbits(ntb, dev) -> u64 { dev.msg_outbits() }
        fn msg_read_sts(ntb, dev) -> u64 { dev.msg_read_sts() }
        fn msg_clear_sts(ntb, dev, bits: u64) -> c_int { status(dev.msg_clear_sts(bits)) }
        fn msg_set_mask(ntb, dev, bits: u64) -> c_int { status(dev.msg_set_mask(bits)) }
        fn msg_clear_mask(ntb, dev, bits: u64) -> c_int { status(dev.msg_clear_mask(bits)) }
        fn msg_read(ntb, dev, pidx: *mut c_int, midx: c_int) -> u32 {
            let (msg, sender) = index(midx).map_or((!0, 0), |m| dev.msg_read(m));
            if !pidx.is_null() {
                // SAFETY: The core passes null or a variable.
                unsafe { *pidx = count(sender) };
            }
            msg
        }
        fn peer_msg_write(ntb, dev, pidx: c_int, midx: c_int, msg: u32) -> c_int {
            status(index(pidx).and_then(|p| dev.peer_msg_write(p, index(midx)?, msg)))
        }
    }
}
