// SPDX-License-Identifier: GPL-2.0-only

//! Ethernet interfaces.
//!
//! A driver [allocates](Device::new) a device, builds its own object around
//! it, and [registers](Registration) both together: from then on the network
//! stack calls the object's [`Operations`]. Both live until the last reference
//! to them is gone, so a late event may still use the [`NetDevice`] of an
//! interface that has been unregistered. It then has no effect.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    }, //
};

use kernel::{
    error::{
        code::{
            EBUSY,
            EINVAL,
            ENODEV,
            ENOMEM, //
        },
        from_result,
        to_result, //
    },
    impl_flags,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque, //
};

use super::{
    ethtool,
    napi::Napi,
    rtnl::Rtnl,
    skb::SkBuff, //
};

impl_flags!(
    /// A set of things that a device can do for the stack.
    #[derive(Debug, Clone, Default, Copy, PartialEq, Eq)]
    pub struct Features(u64);

    /// Something that a device can do for the stack.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Feature {
        /// Packets may have page fragments.
        ScatterGather = mp_bindings::NETIF_F_SG,

        /// Transport checksums of all kinds may be left to the device.
        Checksum = mp_bindings::NETIF_F_HW_CSUM,

        /// Checksums of received packets are known to be good.
        RxChecksum = mp_bindings::NETIF_F_RXCSUM,

        /// Segmentation of TCP over IPv4.
        Tso = mp_bindings::NETIF_F_TSO,

        /// Segmentation of TCP over IPv6.
        Tso6 = mp_bindings::NETIF_F_TSO6,

        /// Segmentation of TCP that uses explicit congestion notification.
        TsoEcn = mp_bindings::NETIF_F_TSO_ECN,

        /// Segmentation of UDP, each segment a datagram.
        UdpSegmentation = mp_bindings::NETIF_F_GSO_UDP_L4,

        /// 802.1Q tags are sent beside the data.
        VlanTx = mp_bindings::NETIF_F_HW_VLAN_CTAG_TX,

        /// 802.1Q tags are received beside the data.
        VlanRx = mp_bindings::NETIF_F_HW_VLAN_CTAG_RX,
    }
);

impl Features {
    /// All kinds of segmentation.
    pub fn segmentation() -> Self {
        Feature::Tso | Feature::Tso6 | Feature::TsoEcn | Feature::UdpSegmentation
    }
}

/// What a new device is like.
pub struct Config<'a> {
    /// Name of the interface; `%d` stands for the first free number.
    pub name: &'a CStr,
    /// Most transmit queues there will ever be.
    pub tx_queues: u32,
    /// Most receive queues there will ever be.
    pub rx_queues: u32,
    /// What is switched on at first.
    pub features: Features,
    /// What an administrator may switch on and off.
    pub switchable: Features,
    /// What works for packets of VLANs on top of the interface too.
    pub vlan_features: Features,
    /// Payload of the largest packet, in bytes: at first, at least, at most.
    pub mtu: (u32, u32, u32),
    /// Hardware address; random when `None`.
    pub address: Option<[u8; 6]>,
}

/// A `struct net_device`.
///
/// # Invariants
///
/// Always behind a pointer to a valid device that [`Device::new`] allocated;
/// `netdev_priv()` of it is a [`Private`].
#[repr(transparent)]
pub struct NetDevice(Opaque<mp_bindings::net_device>);

// SAFETY: All operations on a device are synchronised by C code or need proof of a lock.
unsafe impl Send for NetDevice {}
// SAFETY: As above.
unsafe impl Sync for NetDevice {}

/// The private data of a [`NetDevice`].
#[repr(C)]
struct Private {
    /// The object whose operations the device was registered with.
    operations: *const c_void,
}

/// Whom traffic is counted as lost to; see `ip -s -s link`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Received and dropped for lack of memory or room.
    RxDropped,
    /// Received, but not what it claims to be.
    RxMalformed,
    /// Received in part only.
    RxError,
    /// Not sent, for no fault of the packet.
    TxDropped,
    /// Could not be sent.
    TxError,
}

impl NetDevice {
    /// # Safety
    ///
    /// `ptr` must point to a device that [`Device::new`] allocated, which stays
    /// valid for `'a`.
    #[inline]
    unsafe fn from_raw<'a>(ptr: *mut mp_bindings::net_device) -> &'a Self {
        // SAFETY: By the safety requirements; the layout is transparent.
        unsafe { &*ptr.cast() }
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut mp_bindings::net_device {
        self.0.get()
    }

    fn private(&self) -> *mut Private {
        // SAFETY: The device is valid by the type invariants.
        unsafe { mp_bindings::netdev_priv(self.as_ptr()) }.cast()
    }

    /// Whether the interface is up.
    #[inline]
    pub fn is_running(&self) -> bool {
        // SAFETY: The device is valid by the type invariants.
        unsafe { mp_bindings::netif_running(self.as_ptr()) }
    }

    /// Payload of the largest packet, in bytes.
    #[inline]
    pub fn mtu(&self) -> u32 {
        // SAFETY: The device is valid by the type invariants.
        unsafe { ptr::read_volatile(&raw const (*self.as_ptr()).mtu) }
    }

    /// The interface's number; zero before it is registered.
    #[inline]
    pub fn index(&self) -> i32 {
        // SAFETY: The device is valid by the type invariants.
        unsafe { ptr::read_volatile(&raw const (*self.as_ptr()).ifindex) }
    }

    /// The hardware address. One that is being changed may be seen half.
    pub fn address(&self) -> [u8; 6] {
        let mut address = [0; 6];
        // SAFETY: The device is valid by the type invariants; `address` has room for the six
        // bytes of an Ethernet device.
        unsafe { mp_bindings::netdev_copy_address(self.as_ptr(), address.as_mut_ptr()) };
        address
    }

    /// Whether the carrier is on.
    #[inline]
    pub fn carrier(&self) -> bool {
        // SAFETY: The device is valid by the type invariants.
        unsafe { mp_bindings::netif_carrier_ok(self.as_ptr()) }
    }

    /// Number of transmit queues in use.
    #[inline]
    pub fn tx_queues(&self) -> u32 {
        // SAFETY: The device is valid by the type invariants.
        unsafe { mp_bindings::netdev_real_num_tx_queues(self.as_ptr()) }
    }

    /// The transmit queue `index`, also one that is not in use; `None` beyond
    /// what the device was allocated with.
    #[inline]
    pub fn tx_queue(&self, index: u32) -> Option<TxQueue<'_>> {
        // SAFETY: The device is valid by the type invariants.
        let queue = unsafe { mp_bindings::netdev_get_tx_queue(self.as_ptr(), index) };
        // INVARIANT: The queue belongs to the device.
        Some(TxQueue {
            queue: NonNull::new(queue)?,
            index,
            _device: PhantomData,
        })
    }

    /// Count a packet of `len` bytes as received.
    #[inline]
    pub fn count_rx(&self, len: usize) {
        // SAFETY: The device is valid by the type invariants.
        unsafe { mp_bindings::netdev_count_rx(self.as_ptr(), len as u32) };
    }

    /// Count a packet of `len` bytes as sent.
    #[inline]
    pub fn count_tx(&self, len: usize) {
        // SAFETY: The device is valid by the type invariants.
        unsafe { mp_bindings::netdev_count_tx(self.as_ptr(), len as u32) };
    }

    /// Count a packet as lost.
    pub fn count_loss(&self, loss: Loss) {
        let dev = self.as_ptr();
        // SAFETY: The device is valid by the type invariants.
        unsafe {
            match loss {
                Loss::RxDropped => mp_bindings::netdev_count_rx_dropped(dev),
                Loss::RxMalformed => mp_bindings::netdev_count_rx_frame_error(dev),
                Loss::RxError => mp_bindings::netdev_count_rx_error(dev),
                Loss::TxDropped => mp_bindings::netdev_count_tx_dropped(dev),
                Loss::TxError => mp_bindings::netdev_count_tx_error(dev),
            }
        }
    }

    /// Hand a received packet, which starts with its Ethernet header, to the
    /// network stack: through GRO of `napi` where there is one, unless the packet
    /// is `last` in the poll and none before it waits to be merged with others.
    /// Softirq context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has no whole Ethernet header, `ENODEV` if the interface is
    /// down or gone. The packet has been dropped then.
    pub fn deliver(&self, napi: Option<&Napi>, mut skb: SkBuff, last: bool) -> Result {
        skb.set_device(self)?;
        let napi = napi.map_or(ptr::null_mut(), Napi::as_ptr);
        let skb = skb.into_raw().as_ptr();
        // SAFETY: The device is valid by the type invariants, we own the packet, and `napi` is
        // null or owned by the running poll function.
        if unsafe { mp_bindings::netdev_deliver(self.as_ptr(), napi, skb, last) } {
            Ok(())
        } else {
            Err(ENODEV)
        }
    }

    /// Whether the interface is known to the stack. While RTNL is held, that
    /// does not change.
    fn is_registered(&self, _rtnl: &Rtnl) -> bool {
        // SAFETY: The device is valid by the type invariants.
        unsafe { mp_bindings::netdev_is_registered(self.as_ptr()) }
    }

    /// Switch the carrier on or off.
    pub fn set_carrier(&self, rtnl: &Rtnl, on: bool) {
        if !self.is_registered(rtnl) {
            return;
        }
        // SAFETY: The device is valid by the type invariants, and it is registered.
        unsafe {
            if on {
                mp_bindings::netif_carrier_on(self.as_ptr());
            } else {
                mp_bindings::netif_carrier_off(self.as_ptr());
            }
        }
    }

    /// Give the interface an address, unless an administrator gave it one or the
    /// driver did when it was allocated. It may be up.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` for the address of a group, or the error of someone who
    /// objects.
    pub fn adopt_address(&self, rtnl: &Rtnl, address: [u8; 6]) -> Result {
        if !self.is_registered(rtnl) {
            return Err(ENODEV);
        }
        // SAFETY: The device is valid by the type invariants; RTNL is held.
        to_result(unsafe { mp_bindings::netdev_adopt_address(self.as_ptr(), address.as_ptr()) })
    }

    /// Change how many transmit queues are in use. Packets in queues beyond
    /// are dropped.
    ///
    /// # Errors
    ///
    /// `EINVAL` for none, or more than the device was allocated with; `ENODEV`;
    /// `ENOMEM`.
    pub fn set_tx_queues(&self, rtnl: &Rtnl, queues: u32) -> Result {
        if !self.is_registered(rtnl) {
            return Err(ENODEV);
        }
        // SAFETY: The device is valid by the type invariants; RTNL is held.
        to_result(unsafe { mp_bindings::netif_set_real_num_tx_queues(self.as_ptr(), queues) })
    }

    /// Limit the length of packets that are to be segmented, in bytes from the
    /// network header on.
    pub fn set_segmentation_limit(&self, rtnl: &Rtnl, bytes: u32) {
        if self.is_registered(rtnl) {
            // SAFETY: The device is valid by the type invariants; RTNL is held.
            unsafe { mp_bindings::netif_set_tso_max_size(self.as_ptr(), bytes) };
        }
    }

    /// Stop all transmit queues; when this returns, no packet is in
    /// [`Operations::start_xmit`].
    pub fn disable_tx(&self, rtnl: &Rtnl) {
        if self.is_registered(rtnl) {
            // SAFETY: The device is valid by the type invariants.
            unsafe { mp_bindings::netif_tx_disable(self.as_ptr()) };
        }
    }

    /// Restart all transmit queues.
    pub fn enable_tx(&self, rtnl: &Rtnl) {
        if self.is_registered(rtnl) {
            // SAFETY: The device is valid by the type invariants.
            unsafe { mp_bindings::netif_tx_wake_all_queues(self.as_ptr()) };
        }
    }
}

/// One transmit queue of a device.
///
/// # Invariants
///
/// `queue` is a queue of a device that is valid for `'a`.
#[derive(Clone, Copy)]
pub struct TxQueue<'a> {
    queue: NonNull<mp_bindings::netdev_queue>,
    index: u32,
    _device: PhantomData<&'a NetDevice>,
}

impl TxQueue<'_> {
    /// Which one it is.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Tell the stack to hold packets back. To be followed by another look for
    /// room, since the event that makes some may have come just before.
    #[inline]
    pub fn stop(&self) {
        // SAFETY: The queue is valid by the type invariants.
        unsafe { mp_bindings::netif_tx_stop_queue(self.queue.as_ptr()) };
    }

    /// Let the stack go on after [`stop`](Self::stop).
    #[inline]
    pub fn wake(&self) {
        // SAFETY: The queue is valid by the type invariants. Its queueing discipline, which it has
        // once the device has been registered, is harmless to schedule while that is down.
        unsafe { mp_bindings::netdev_tx_queue_wake(self.queue.as_ptr()) };
    }

    /// Whether the stack holds packets back, for [`stop`](Self::stop) or for
    /// the byte limit.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        // SAFETY: The queue is valid by the type invariants.
        unsafe { mp_bindings::netif_xmit_stopped(self.queue.as_ptr()) }
    }
}

/// Counts what is in flight of one transmit queue, against its byte limit.
///
/// # Invariants
///
/// `queue` is a queue of `device`, and nothing else counts for it at the same time.
pub struct ByteLimit {
    queue: NonNull<mp_bindings::netdev_queue>,
    _device: Arc<Device>,
}

// SAFETY: A queue may be used by any task, and only one at a time has it mutably.
unsafe impl Send for ByteLimit {}
// SAFETY: Shared access does nothing.
unsafe impl Sync for ByteLimit {}

impl ByteLimit {
    /// Count for the transmit queue `index`; `None` beyond what the device was allocated with.
    ///
    /// # Safety
    ///
    /// As long as this is used, no other is for the same queue.
    pub unsafe fn new(device: &Arc<Device>, index: u32) -> Option<Self> {
        // INVARIANT: The queue belongs to the device, which stays; as the caller promises.
        Some(Self {
            queue: device.tx_queue(index)?.queue,
            _device: device.clone(),
        })
    }

    /// Count `bytes` as in flight against the byte queue limit, which may stop
    /// the queue, and return whether it is stopped then.
    #[inline]
    pub fn sent(&mut self, bytes: u32) -> bool {
        // SAFETY: The queue is valid by the type invariants.
        unsafe { mp_bindings::netdev_tx_sent_queue(self.queue.as_ptr(), bytes) }
    }

    /// Count `bytes` of those in flight as gone, which may restart the queue.
    /// What exceeds them is ignored.
    #[inline]
    pub fn completed(&mut self, packets: u32, bytes: u32) {
        let queue = self.queue.as_ptr();
        // SAFETY: The queue is valid by the type invariants, by which nothing is counted meanwhile.
        unsafe { mp_bindings::netdev_tx_completed_queue(queue, packets, bytes) };
    }

    /// Set the least that the byte limit may become.
    pub fn set_min(&mut self, bytes: u32) {
        // SAFETY: The queue is valid by the type invariants.
        unsafe { mp_bindings::netdev_queue_set_dql_min_limit(self.queue.as_ptr(), bytes) };
    }

    /// Forget what is in flight.
    pub fn reset(&mut self) {
        // SAFETY: The queue is valid by the type invariants, by which nothing is counted meanwhile.
        unsafe { mp_bindings::netdev_tx_reset_queue(self.queue.as_ptr()) };
    }
}

/// A device's memory.
///
/// # Invariants
///
/// `ptr` came from `alloc_netdev_mqs()`; it is released with this object.
pub struct Device {
    ptr: NonNull<mp_bindings::net_device>,
    /// Whether the one registration that a device can have was made.
    claimed: Atomic<bool>,
}

// SAFETY: See `NetDevice`; the memory may be released by any task.
unsafe impl Send for Device {}
// SAFETY: See `NetDevice`.
unsafe impl Sync for Device {}

impl Device {
    /// Allocate a device. The stack does not know it yet. Its carrier is off.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the configuration makes no sense, `ENOMEM`.
    pub fn new(config: &Config<'_>) -> Result<Arc<Self>> {
        let (mtu, min_mtu, max_mtu) = config.mtu;
        let address_ok = config
            .address
            // SAFETY: An address has six bytes.
            .is_none_or(|a| unsafe { mp_bindings::is_valid_ether_addr(a.as_ptr()) });
        if !address_ok
            || !(min_mtu..=max_mtu).contains(&mtu)
            || config.tx_queues == 0
            || config.rx_queues == 0
            || config.name.to_bytes_with_nul().len() > mp_bindings::IFNAMSIZ as usize
        {
            return Err(EINVAL);
        }
        // SAFETY: The name is a C string that fits, the set-up function is that of Ethernet.
        let ptr = unsafe {
            mp_bindings::alloc_netdev_mqs(
                size_of::<Private>() as c_int,
                config.name.as_char_ptr(),
                mp_bindings::NET_NAME_ENUM as c_uchar,
                Some(mp_bindings::ether_setup),
                config.tx_queues,
                config.rx_queues,
            )
        };
        // INVARIANT: The device was just allocated, private data included.
        let device = Self {
            ptr: NonNull::new(ptr).ok_or(ENOMEM)?,
            claimed: Atomic::new(false),
        };
        let dev = ptr;
        // SAFETY: The device is valid, and nobody else knows it.
        unsafe {
            (*dev).features |= u64::from(config.features);
            (*dev).hw_features |= u64::from(config.switchable);
            (*dev).vlan_features |= u64::from(config.vlan_features);
            (*dev).mtu = mtu;
            (*dev).min_mtu = min_mtu;
            (*dev).max_mtu = max_mtu;
            (*dev).set_pcpu_stat_type(mp_bindings::netdev_stat_type_NETDEV_PCPU_STAT_DSTATS);
            mp_bindings::netdev_set_up(dev);
            match config.address {
                Some(address) => mp_bindings::eth_hw_addr_set(dev, address.as_ptr()),
                None => mp_bindings::eth_hw_addr_random(dev),
            }
            mp_bindings::netif_carrier_off(dev);
        }
        Ok(Arc::new(device, GFP_KERNEL)?)
    }
}

impl Deref for Device {
    type Target = NetDevice;

    #[inline]
    fn deref(&self) -> &NetDevice {
        // SAFETY: By the type invariants the device was allocated above, and lives as long as
        // `self`.
        unsafe { NetDevice::from_raw(self.ptr.as_ptr()) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the device is ours. A registration holds a reference to
        // `self` until it has unregistered.
        unsafe { mp_bindings::free_netdev(self.ptr.as_ptr()) };
    }
}

/// What became of a packet in [`Operations::start_xmit`].
pub enum Transmit {
    /// It was taken, which includes that it was dropped.
    Done,
    /// There is no room: the stack gets it back and tries again when the queue,
    /// which the driver has stopped, is woken.
    Busy(SkBuff),
}

/// What the network stack asks of an Ethernet interface.
pub trait Operations: ethtool::Operations + Send + Sync + Sized + 'static {
    /// The interface is set up. The transmit queues may be started.
    ///
    /// # Errors
    ///
    /// An error keeps it down.
    fn open(&self, _dev: &NetDevice, _rtnl: &Rtnl) -> Result {
        Ok(())
    }

    /// The interface is taken down: no packet is being sent, and none will be.
    fn stop(&self, _dev: &NetDevice, _rtnl: &Rtnl) {}

    /// Send a packet. Softirq context, under RCU; one call at a time per queue.
    ///
    /// `more` announces further packets for the same queue at once, as long as
    /// the queue is not stopped.
    fn start_xmit(&self, dev: &NetDevice, queue: TxQueue<'_>, skb: SkBuff, more: bool) -> Transmit;

    /// Choose the transmit queue for a packet. A number beyond the queues in use
    /// stands for queue 0. `None`: by hash, as the stack does.
    fn select_queue(&self, _dev: &NetDevice, _skb: &PacketRef<'_>) -> Option<u16> {
        None
    }

    /// Which of `features` can be had for this packet. All others are done in
    /// software before it is sent.
    fn check_features(
        &self,
        _dev: &NetDevice,
        _skb: &PacketRef<'_>,
        features: Features,
    ) -> Features {
        features
    }

    /// The MTU is about to become `mtu`, which is within the limits.
    ///
    /// # Errors
    ///
    /// An error keeps the old one.
    fn change_mtu(&self, _dev: &NetDevice, _rtnl: &Rtnl, _mtu: u32) -> Result {
        Ok(())
    }

    /// The hardware address was changed.
    fn address_changed(&self, _dev: &NetDevice, _rtnl: &Rtnl) {}
}

/// A packet that belongs to the stack, lent to a callback.
pub struct PacketRef<'a> {
    skb: ManuallyDrop<SkBuff>,
    /// Lent to this task only.
    _packet: PhantomData<(&'a SkBuff, *mut ())>,
}

impl PacketRef<'_> {
    /// # Safety
    ///
    /// `skb` must be a valid packet for as long as the result lives.
    #[inline]
    unsafe fn new(skb: NonNull<mp_bindings::sk_buff>) -> Self {
        Self {
            // SAFETY: The packet is valid, and lent for as long as this lives; it is never released
            // through this.
            skb: ManuallyDrop::new(unsafe { SkBuff::from_raw(skb) }),
            _packet: PhantomData,
        }
    }

    /// As [`SkBuff::flow_hash`].
    #[inline]
    pub fn flow_hash(&self) -> u32 {
        // SAFETY: The packet is valid, and no other task uses it.
        unsafe { mp_bindings::skb_get_hash(self.skb.raw()) }
    }
}

impl Deref for PacketRef<'_> {
    type Target = SkBuff;

    #[inline]
    fn deref(&self) -> &SkBuff {
        &self.skb
    }
}

/// Keeps an interface registered.
///
/// Dropping it (in process context, without RTNL) unregisters the interface
/// and returns when no operation is called any more.
///
/// # Invariants
///
/// The device is registered with the operations of `T` and with `operations`.
pub struct Registration<T: Operations> {
    device: Arc<Device>,
    operations: Arc<T>,
}

impl<T: Operations> Registration<T> {
    /// Register `device` as an interface that `operations` serves. Operations
    /// may be called before this returns.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the device was registered before, `EEXIST` if the name is taken,
    /// or another error of the stack.
    pub fn new(device: Arc<Device>, operations: Arc<T>) -> Result<Self> {
        if device.claimed.xchg(true, Relaxed) {
            return Err(EBUSY);
        }
        let dev = device.as_ptr();
        // SAFETY: The device is valid, and not registered yet. Its private data was allocated
        // with it. The object outlives the registration, which refers to it.
        unsafe {
            (*device.private()).operations = Arc::as_ptr(&operations).cast();
            (*dev).netdev_ops = &Callbacks::<T>::NETDEV_OPS;
            (*dev).ethtool_ops = &ethtool::Callbacks::<T>::OPS;
        }
        // SAFETY: The device is valid and complete.
        to_result(unsafe { mp_bindings::register_netdev(dev) })?;
        // INVARIANT: The device is registered.
        Ok(Self { device, operations })
    }

    /// The interface.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The object that serves it.
    pub fn operations(&self) -> &Arc<T> {
        &self.operations
    }
}

impl<T: Operations> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the device is registered.
        unsafe { mp_bindings::unregister_netdev(self.device.as_ptr()) };
    }
}

/// The device and the object that serves it, in a callback.
///
/// # Safety
///
/// `dev` must be registered by [`Registration<T>`], and stay so for `'a`.
#[inline]
pub(super) unsafe fn callback_args<'a, T: Operations>(
    dev: *mut mp_bindings::net_device,
) -> (&'a NetDevice, &'a T) {
    // SAFETY: By the safety requirements.
    let dev = unsafe { NetDevice::from_raw(dev) };
    // SAFETY: The registration put a pointer to its `T` there before any callback could come.
    let operations = unsafe { &*(*dev.private()).operations.cast() };
    (dev, operations)
}

/// The C side of [`Operations`].
///
/// The network stack calls these for devices that have them in their
/// operations only, which are those of [`Registration<T>`].
struct Callbacks<T: Operations>(PhantomData<T>);

impl<T: Operations> Callbacks<T> {
    const NETDEV_OPS: mp_bindings::net_device_ops = mp_bindings::net_device_ops {
        ndo_open: Some(Self::open),
        ndo_stop: Some(Self::stop),
        ndo_start_xmit: Some(Self::start_xmit),
        ndo_select_queue: Some(Self::select_queue),
        ndo_features_check: Some(Self::features_check),
        ndo_change_mtu: Some(Self::change_mtu),
        ndo_set_mac_address: Some(Self::set_mac_address),
        ndo_validate_addr: Some(mp_bindings::eth_validate_addr),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// To be called by the network stack, under RTNL.
    unsafe extern "C" fn open(dev: *mut mp_bindings::net_device) -> c_int {
        // SAFETY: By the safety requirements.
        let ((dev, this), rtnl) = unsafe { (callback_args::<T>(dev), Rtnl::assume_held()) };
        from_result(|| this.open(dev, rtnl).map(|()| 0))
    }

    /// # Safety
    ///
    /// To be called by the network stack, under RTNL.
    unsafe extern "C" fn stop(dev: *mut mp_bindings::net_device) -> c_int {
        // SAFETY: By the safety requirements.
        let ((dev, this), rtnl) = unsafe { (callback_args::<T>(dev), Rtnl::assume_held()) };
        this.stop(dev, rtnl);
        0
    }

    /// # Safety
    ///
    /// To be called by the network stack, with the lock of the packet's queue.
    unsafe extern "C" fn start_xmit(
        skb: *mut mp_bindings::sk_buff,
        dev: *mut mp_bindings::net_device,
    ) -> mp_bindings::netdev_tx_t {
        // SAFETY: By the safety requirements.
        let (dev, this) = unsafe { callback_args::<T>(dev) };
        let Some(skb) = NonNull::new(skb) else {
            return mp_bindings::netdev_tx_NETDEV_TX_OK;
        };
        // SAFETY: The packet is ours unless we return it: the device does not accept packets that
        // others send again (`IFF_TX_SKB_SHARING`).
        let skb = unsafe { SkBuff::from_raw(skb) };
        let Some(queue) = dev.tx_queue(skb.queue_mapping().into()) else {
            dev.count_loss(Loss::TxError);
            return mp_bindings::netdev_tx_NETDEV_TX_OK;
        };
        skb.timestamp_tx();
        // SAFETY: Reads a per-CPU flag, on the CPU of the caller.
        let more = unsafe { mp_bindings::netdev_xmit_more() };
        match this.start_xmit(dev, queue, skb, more) {
            Transmit::Done => mp_bindings::netdev_tx_NETDEV_TX_OK,
            Transmit::Busy(skb) => {
                let _ = skb.into_raw();
                mp_bindings::netdev_tx_NETDEV_TX_BUSY
            }
        }
    }

    /// # Safety
    ///
    /// To be called by the network stack.
    unsafe extern "C" fn select_queue(
        dev: *mut mp_bindings::net_device,
        skb: *mut mp_bindings::sk_buff,
        sb_dev: *mut mp_bindings::net_device,
    ) -> u16 {
        let chosen = NonNull::new(skb).and_then(|skb| {
            // SAFETY: By the safety requirements; the packet is valid for this call.
            let ((dev, this), skb) = unsafe { (callback_args::<T>(dev), PacketRef::new(skb)) };
            this.select_queue(dev, &skb)
        });
        // SAFETY: The arguments are those that the stack gave us.
        chosen.unwrap_or_else(|| unsafe { mp_bindings::netdev_pick_tx(dev, skb, sb_dev) })
    }

    /// # Safety
    ///
    /// To be called by the network stack.
    unsafe extern "C" fn features_check(
        skb: *mut mp_bindings::sk_buff,
        dev: *mut mp_bindings::net_device,
        features: mp_bindings::netdev_features_t,
    ) -> mp_bindings::netdev_features_t {
        let Some(packet) = NonNull::new(skb) else {
            return 0;
        };
        // SAFETY: By the safety requirements; the packet is valid for this call.
        let ((dev, this), packet) = unsafe { (callback_args::<T>(dev), PacketRef::new(packet)) };
        // SAFETY: The packet is valid for this call.
        let features = unsafe { mp_bindings::skb_vlan_features_check(skb, features) };
        let wanted = Features(features & Features::all_bits());
        let refused = u64::from(wanted) & !u64::from(this.check_features(dev, &packet, wanted));
        features & !refused
    }

    /// # Safety
    ///
    /// To be called by the network stack, under RTNL.
    unsafe extern "C" fn change_mtu(dev: *mut mp_bindings::net_device, mtu: c_int) -> c_int {
        // SAFETY: By the safety requirements.
        let ((dev, this), rtnl) = unsafe { (callback_args::<T>(dev), Rtnl::assume_held()) };
        from_result(|| {
            let mtu = u32::try_from(mtu).map_err(|_| EINVAL)?;
            this.change_mtu(dev, rtnl, mtu)?;
            // SAFETY: The device is valid; it is read without a lock, but written under RTNL.
            unsafe { ptr::write_volatile(&raw mut (*dev.as_ptr()).mtu, mtu) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the network stack, under RTNL.
    unsafe extern "C" fn set_mac_address(
        dev: *mut mp_bindings::net_device,
        address: *mut c_void,
    ) -> c_int {
        // SAFETY: The arguments are those that the stack gave us.
        let ret = unsafe { mp_bindings::eth_mac_addr(dev, address) };
        if ret == 0 {
            // SAFETY: By the safety requirements.
            let ((dev, this), rtnl) = unsafe { (callback_args::<T>(dev), Rtnl::assume_held()) };
            this.address_changed(dev, rtnl);
        }
        ret
    }
}
