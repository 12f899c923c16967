// SPDX-License-Identifier: GPL-2.0-only

//! Socket buffers: packets, owned, read in pieces and built from foreign memory.
//!
//! On the way out a driver copies a packet's data out of its fragments
//! ([`SkBuff::for_each_fragment`]), and learns what the stack expects of the device
//! ([`SkBuff::checksum`], [`SkBuff::gso`], [`SkBuff::vlan_tag`]). On the way in
//! it allocates a packet of a known length with [`SkBuff::receive`], has the data
//! copied straight to its final place, and applies what the sender
//! said of it. A sender may be another host: everything it claims is checked
//! here before the stack sees it.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use core::{
    mem::ManuallyDrop,
    ptr::NonNull,
    slice, //
};

use kernel::{
    error::code::{
        EINVAL,
        ENOMEM, //
    },
    prelude::*, //
};

use super::{
    device::NetDevice,
    napi::Napi, //
};
use crate::bytes::{
    self,
    SharedBytes,
    Writer, //
};

/// Bytes of a large packet that [`SkBuff::receive`] puts into the linear part:
/// all headers that matter, and little more.
pub const LINEAR_MAX: usize = 256;

/// An owned packet.
///
/// # Invariants
///
/// `ptr` points to a valid `struct sk_buff`, to which nobody else has a reference. Clones
/// of it may share its data, which nobody writes then.
pub struct SkBuff {
    ptr: NonNull<mp_bindings::sk_buff>,
}

// SAFETY: A packet that nobody else refers to may be handled by any task.
unsafe impl Send for SkBuff {}
// SAFETY: Methods with a shared reference only read.
unsafe impl Sync for SkBuff {}

/// What is known, or wanted, of a packet's transport checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing: it is in the packet as the sender made it.
    None,
    /// It is there and was found correct.
    Valid,
    /// To be computed from byte `start` to the end and stored `offset` bytes
    /// behind `start`; counted from the Ethernet header. The field holds the
    /// pseudo header's sum already.
    Partial {
        /// First byte that is summed up.
        start: u16,
        /// Distance of the checksum field from `start`.
        offset: u16,
    },
}

/// Transport protocol of a packet that has to be cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over either, each segment a datagram.
    UdpL4,
}

impl GsoKind {
    /// The kernel's bit for it.
    fn bits(self) -> u32 {
        let bit = match self {
            Self::TcpV4 => mp_bindings::SKB_GSO_TCPV4,
            Self::TcpV6 => mp_bindings::SKB_GSO_TCPV6,
            Self::UdpL4 => mp_bindings::SKB_GSO_UDP_L4,
        };
        bit as u32
    }

    /// Length of the transport header without options, in bytes.
    fn header_len(self) -> u32 {
        match self {
            Self::TcpV4 | Self::TcpV6 => 20,
            Self::UdpL4 => 8,
        }
    }

    /// Distance of the checksum field from the transport header, in bytes.
    fn checksum_offset(self) -> u16 {
        match self {
            Self::TcpV4 | Self::TcpV6 => 16,
            Self::UdpL4 => 6,
        }
    }

    /// Length of the shortest network header, in bytes.
    fn network_len(self) -> u32 {
        match self {
            Self::TcpV6 => 40,
            Self::TcpV4 | Self::UdpL4 => 20,
        }
    }
}

/// How a packet larger than the MTU is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Its protocol.
    pub kind: GsoKind,
    /// TCP with the ECN bit CWR, which only the first segment keeps.
    pub ecn: bool,
    /// Payload bytes per segment.
    pub size: u16,
}

/// Why [`SkBuff::receive`] gave no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// Out of memory.
    NoMemory,
    /// More bytes than a packet can hold.
    TooLong,
    /// The data could not be copied: the closure's own error, or `EINVAL` if it has
    /// left bytes out.
    Copy(Error),
}

impl SkBuff {
    /// Take over a packet from C code.
    ///
    /// # Safety
    ///
    /// `ptr` must be a valid packet to which nobody else has a reference; its ownership passes
    /// to the result.
    #[inline]
    pub unsafe fn from_raw(ptr: NonNull<mp_bindings::sk_buff>) -> Self {
        // INVARIANT: By the safety requirements.
        Self { ptr }
    }

    /// Give the packet to C code, which has to release it.
    #[inline]
    pub fn into_raw(self) -> NonNull<mp_bindings::sk_buff> {
        ManuallyDrop::new(self).ptr
    }

    #[inline]
    pub(super) fn raw(&self) -> *mut mp_bindings::sk_buff {
        self.ptr.as_ptr()
    }

    /// Free the packet as delivered: not a drop, for monitors. Not in hard
    /// interrupt context.
    #[inline]
    pub fn consume(self) {
        // SAFETY: By the type invariants we own the packet; `into_raw()` gives it up.
        unsafe { mp_bindings::consume_skb(self.into_raw().as_ptr()) };
    }

    /// Number of bytes, from the Ethernet header on while the driver has it.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariants the packet is valid.
        unsafe { (*self.raw()).len as usize }
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The linear part, which comes first.
    #[inline]
    pub fn head(&self) -> &[u8] {
        // SAFETY: By the type invariants the packet is valid; its linear part has `len -
        // data_len` initialised bytes from `data` on, which live as long as the packet. It is
        // memory of the kernel alone, and whoever has it mutably may write it only while no
        // clone shares it.
        unsafe {
            let skb = self.raw();
            slice::from_raw_parts((*skb).data, ((*skb).len - (*skb).data_len) as usize)
        }
    }

    /// The page fragment `index`, or `None` behind the last one. User space may have
    /// another mapping of it, as of any page that it sends.
    #[inline]
    fn fragment(&self, index: u32) -> Option<SharedBytes<'_>> {
        let mut len = 0;
        // SAFETY: By the type invariants the packet is valid.
        let data = unsafe { mp_bindings::skb_frag_data(self.raw(), index, &mut len) };
        let data = NonNull::new(data.cast_mut())?;
        // SAFETY: The fragment has `len` bytes from `data` on, which live as long as the packet.
        Some(unsafe { SharedBytes::new(data.cast(), len as usize) })
    }

    /// Call `f` with all data, piece after piece, and stop at the first error.
    ///
    /// # Errors
    ///
    /// Those of `f`, and `EINVAL` if the packet has pieces that cannot be read in
    /// place. [`linearize`](Self::linearize) helps then.
    pub fn for_each_fragment<'a>(&'a self, f: &mut dyn FnMut(SharedBytes<'a>) -> Result) -> Result {
        let head = self.head();
        if !head.is_empty() {
            f(head.into())?;
        }
        let mut seen = head.len();
        let mut index = 0;
        while let Some(fragment) = self.fragment(index) {
            f(fragment)?;
            seen += fragment.len();
            index += 1;
        }
        if seen == self.len() {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Whether data follows that [`for_each_fragment`](Self::for_each_fragment)
    /// does not reach. Not with devices that offer no `FRAGLIST`.
    #[inline]
    pub fn has_frag_list(&self) -> bool {
        // SAFETY: By the type invariants the packet is valid.
        unsafe { mp_bindings::skb_has_frag_list(self.raw()) }
    }

    /// Move all data into the linear part.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the packet is unchanged then.
    pub fn linearize(&mut self) -> Result {
        // SAFETY: By the type invariants we own the packet.
        kernel::error::to_result(unsafe { mp_bindings::skb_linearize(self.raw()) })
    }

    /// What the stack wants done with, or knows of, the transport checksum.
    #[inline]
    pub fn checksum(&self) -> Checksum {
        let (mut start, mut offset) = (0, 0);
        // SAFETY: By the type invariants the packet is valid.
        let kind = unsafe { mp_bindings::skb_csum_get(self.raw(), &mut start, &mut offset) };
        match kind {
            mp_bindings::CHECKSUM_PARTIAL => Checksum::Partial { start, offset },
            mp_bindings::CHECKSUM_UNNECESSARY => Checksum::Valid,
            _ => Checksum::None,
        }
    }

    /// Compute a partial checksum in software.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EINVAL` for a packet whose offsets make no sense.
    pub fn checksum_help(&mut self) -> Result {
        // SAFETY: By the type invariants we own the packet.
        kernel::error::to_result(unsafe { mp_bindings::skb_checksum_help(self.raw()) })
    }

    /// How the packet is to be cut; `None` if it is not, or in a way that
    /// [`GsoKind`] does not have.
    #[inline]
    pub fn gso(&self) -> Option<Gso> {
        let (mut size, mut bits) = (0, 0);
        // SAFETY: By the type invariants the packet is valid.
        if !unsafe { mp_bindings::skb_gso_get(self.raw(), &mut size, &mut bits) } {
            return None;
        }
        let kind = [GsoKind::TcpV4, GsoKind::TcpV6, GsoKind::UdpL4]
            .into_iter()
            .find(|kind| bits & kind.bits() != 0)?;
        Some(Gso {
            kind,
            ecn: bits & ECN_BIT != 0,
            size,
        })
    }

    /// Whether the packet is to be cut, in whatever way.
    #[inline]
    pub fn is_gso(&self) -> bool {
        // SAFETY: By the type invariants the packet is valid.
        unsafe { mp_bindings::skb_is_gso(self.raw()) }
    }

    /// Bytes of all headers up to the transport header's end, as a transmitted
    /// packet has them; a hint for the receiver.
    #[inline]
    pub fn header_len(&self) -> usize {
        // SAFETY: By the type invariants the packet is valid.
        unsafe { mp_bindings::skb_all_headers_len(self.raw()) as usize }
    }

    /// A hash of the packet's flow, computed where the stack has none yet.
    #[inline]
    pub fn flow_hash(&mut self) -> u32 {
        // SAFETY: By the type invariants we own the packet.
        unsafe { mp_bindings::skb_get_hash(self.raw()) }
    }

    /// The 802.1Q tag that is to be inserted: priority, drop indicator and id.
    #[inline]
    pub fn vlan_tag(&self) -> Option<u16> {
        let mut tci = 0;
        // SAFETY: By the type invariants the packet is valid.
        unsafe { mp_bindings::skb_vlan_tag_read(self.raw(), &mut tci) }.then_some(tci)
    }

    /// The transmit queue that was selected for it.
    #[inline]
    pub fn queue_mapping(&self) -> u16 {
        // SAFETY: By the type invariants the packet is valid.
        unsafe { mp_bindings::skb_queue_mapping(self.raw()) }
    }

    /// The destination in an Ethernet header at the start.
    #[inline]
    pub fn destination(&self) -> Option<[u8; 6]> {
        self.head().first_chunk().copied()
    }

    /// Allocate a packet of `len` bytes for `dev` and fill it.
    ///
    /// `write` gets the offset of a piece of the packet and the room for it, in
    /// order, until the packet is full; it has to fill each. Small packets are one
    /// piece; of large ones the first `linear` bytes (at most [`LINEAR_MAX`]) are,
    /// and the rest lies in pages. A piece belongs to the packet once it is written.
    ///
    /// Softirq context. `napi` is the one that polls, where there is one.
    ///
    /// # Errors
    ///
    /// See [`ReceiveError`]. The packet has been dropped then.
    pub fn receive(
        dev: &NetDevice,
        napi: Option<&Napi>,
        len: usize,
        linear: usize,
        write: &mut dyn FnMut(usize, Writer<'_>) -> Result,
    ) -> Result<Self, ReceiveError> {
        // SAFETY: No requirements.
        let whole = unsafe { mp_bindings::skb_linear_fit() } as usize;
        let linear = if len <= whole {
            len
        } else {
            linear.min(LINEAR_MAX)
        };
        let napi = napi.map_or(core::ptr::null_mut(), Napi::as_ptr);
        // SAFETY: `dev` is valid, `napi` is null or the one being polled.
        let skb = unsafe { mp_bindings::skb_alloc_rx(dev.as_ptr(), napi, linear as u32) };
        // INVARIANT: The packet was just allocated.
        let mut skb = Self {
            ptr: NonNull::new(skb).ok_or(ReceiveError::NoMemory)?,
        };

        // SAFETY: The packet was allocated with room for `linear` bytes and has none yet.
        unsafe { skb.put(linear, |room| write(0, room)) }?;
        while skb.len() < len {
            let at = skb.len();
            let pages = RxPages::new(len - at)?;
            skb.add_pages(pages, |room| write(at, room))?;
        }
        Ok(skb)
    }

    /// Append `len` bytes that `write` writes to the linear part.
    ///
    /// # Safety
    ///
    /// There is room for them behind the linear part, which is all that the packet has.
    unsafe fn put(
        &mut self,
        len: usize,
        write: impl FnOnce(Writer<'_>) -> Result,
    ) -> Result<(), ReceiveError> {
        // SAFETY: By the type invariants we own the packet.
        let tail = unsafe { mp_bindings::skb_tail_pointer(self.raw()) };
        let tail = NonNull::new(tail).ok_or(ReceiveError::NoMemory)?;
        // SAFETY: As the caller promises; nobody else has the packet.
        unsafe { bytes::fill(tail, len, write) }.map_err(ReceiveError::Copy)?;
        // SAFETY: As the caller promises, and the bytes have just been written.
        unsafe { mp_bindings::__skb_put(self.raw(), len as u32) };
        Ok(())
    }

    /// Append pages that `write` writes, as a fragment.
    fn add_pages(
        &mut self,
        pages: RxPages,
        write: impl FnOnce(Writer<'_>) -> Result,
    ) -> Result<(), ReceiveError> {
        // SAFETY: By the type invariants the pages have so many bytes, and are ours.
        let written = unsafe { bytes::fill(pages.start, pages.len as usize, write) };
        written.map_err(ReceiveError::Copy)?;
        let pages = ManuallyDrop::new(pages);
        // SAFETY: We own the packet and the pages, which pass to it if it takes them. All bytes
        // have just been written.
        let added = unsafe {
            mp_bindings::skb_add_rx_pages(self.raw(), pages.start.as_ptr().cast(), pages.len)
        };
        if added {
            Ok(())
        } else {
            drop(ManuallyDrop::into_inner(pages));
            Err(ReceiveError::TooLong)
        }
    }

    /// Say that the transport checksum was found correct.
    #[inline]
    pub fn set_checksum_valid(&mut self) {
        // SAFETY: By the type invariants we own the packet.
        unsafe { mp_bindings::skb_csum_set_unnecessary(self.raw()) };
    }

    /// Say that the transport checksum is still partial, see
    /// [`Checksum::Partial`]. To be called while the packet starts with its
    /// Ethernet header.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the offsets, which may come from another host, do not lie
    /// in the packet.
    pub fn set_checksum_partial(&mut self, start: u16, offset: u16) -> Result {
        self.pull(u32::from(start) + u32::from(offset) + 2)?;
        // SAFETY: By the type invariants we own the packet.
        if unsafe { mp_bindings::skb_partial_csum_set(self.raw(), start, offset) } {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Say how the packet is to be cut, should it leave this host again. To be
    /// called after [`set_checksum_partial`](Self::set_checksum_partial).
    ///
    /// Packets that are not longer than one segment stay as they are. All others
    /// are marked, so that the stack checks their headers before it cuts them.
    ///
    /// # Errors
    ///
    /// `EINVAL` if what is said, perhaps by another host, does not fit the packet.
    pub fn set_gso(&mut self, gso: &Gso) -> Result {
        let Checksum::Partial { start, offset } = self.checksum() else {
            return Err(EINVAL);
        };
        let kind = gso.kind;
        let start = u32::from(start);
        if gso.size == 0
            || u32::from(gso.size) == mp_bindings::GSO_BY_FRAGS
            || offset != kind.checksum_offset()
            || start < ETH_HLEN + kind.network_len()
            || (gso.ecn && kind == GsoKind::UdpL4)
        {
            return Err(EINVAL);
        }
        let headers = start + kind.header_len();
        self.pull(headers)?;

        let payload = self.len().saturating_sub(headers as usize);
        let size = match kind {
            GsoKind::UdpL4 => gso.size,
            // Smaller segments than that are an attack: their number would be huge.
            GsoKind::TcpV4 | GsoKind::TcpV6 => gso.size.max(mp_bindings::TCP_MIN_GSO_SIZE as u16),
        };
        if kind == GsoKind::UdpL4
            && payload > usize::from(size) * mp_bindings::UDP_MAX_SEGMENTS as usize
        {
            return Err(EINVAL);
        }
        if payload > usize::from(size) {
            let ecn = if gso.ecn { ECN_BIT } else { 0 };
            // SAFETY: By the type invariants we own the packet.
            unsafe { mp_bindings::skb_gso_set_untrusted(self.raw(), size, kind.bits() | ecn) };
        }
        Ok(())
    }

    /// Give the packet the flow hash that its sender computed.
    #[inline]
    pub fn set_flow_hash(&mut self, hash: u32) {
        // SAFETY: By the type invariants we own the packet.
        unsafe { mp_bindings::skb_set_l4_hash(self.raw(), hash) };
    }

    /// Say that the packet came with an 802.1Q tag, which is not in the data.
    #[inline]
    pub fn set_vlan_tag(&mut self, tci: u16) {
        // SAFETY: By the type invariants we own the packet.
        unsafe { mp_bindings::skb_vlan_tag_put(self.raw(), tci) };
    }

    /// Note the receive queue, if `dev` has one of that number.
    #[inline]
    pub fn set_rx_queue(&mut self, dev: &NetDevice, queue: u16) {
        // SAFETY: By the type invariants we own the packet; `dev` is valid.
        unsafe { mp_bindings::skb_record_rx_queue(self.raw(), dev.as_ptr(), queue) };
    }

    /// Make sure that the first `len` bytes are in the linear part.
    fn pull(&mut self, len: u32) -> Result {
        // SAFETY: By the type invariants we own the packet.
        if unsafe { mp_bindings::pskb_may_pull(self.raw(), len) } {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Note the time of transmission for those who asked for it.
    #[inline]
    pub(super) fn timestamp_tx(&self) {
        // SAFETY: By the type invariants the packet is valid, and owned by the caller.
        unsafe { mp_bindings::skb_tx_timestamp(self.raw()) };
    }

    /// Take the Ethernet header off: sets device, protocol and packet type.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a packet without a whole Ethernet header.
    pub(super) fn set_device(&mut self, dev: &NetDevice) -> Result {
        self.pull(ETH_HLEN)?;
        // SAFETY: By the type invariants we own the packet, and it has an Ethernet header.
        unsafe { mp_bindings::skb_eth_type_trans(self.raw(), dev.as_ptr()) };
        Ok(())
    }
}

/// The kernel's bit for [`Gso::ecn`].
const ECN_BIT: u32 = mp_bindings::SKB_GSO_TCP_ECN as u32;

/// Length of an Ethernet header, in bytes.
const ETH_HLEN: u32 = mp_bindings::ETH_HLEN;

impl From<ReceiveError> for Error {
    fn from(e: ReceiveError) -> Self {
        match e {
            ReceiveError::NoMemory => ENOMEM,
            ReceiveError::TooLong => EINVAL,
            ReceiveError::Copy(e) => e,
        }
    }
}

/// Fresh pages for data of a packet.
///
/// # Invariants
///
/// `start` is where a page of any order from the page allocator begins, which this
/// owns, and which has room for `len` bytes.
struct RxPages {
    start: NonNull<u8>,
    len: u32,
}

impl RxPages {
    /// Pages for `want` bytes, or for as many as can be had in one run.
    fn new(want: usize) -> Result<Self, ReceiveError> {
        let mut len = u32::try_from(want).map_err(|_| ReceiveError::TooLong)?;
        // SAFETY: `len` is there to be read and written.
        let start = unsafe { mp_bindings::skb_alloc_rx_pages(&mut len) };
        let start = NonNull::new(start).ok_or(ReceiveError::NoMemory)?.cast();
        // INVARIANT: Just allocated, for so many bytes.
        Ok(Self { start, len })
    }
}

impl Drop for RxPages {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the pages are ours.
        unsafe { mp_bindings::skb_free_rx_pages(self.start.as_ptr().cast()) };
    }
}

/// Frees the packet as dropped, visible to drop monitors.
impl Drop for SkBuff {
    fn drop(&mut self) {
        // SAFETY: By the type invariants we own the packet. Any context is allowed.
        unsafe {
            mp_bindings::dev_kfree_skb_any_reason(
                self.raw(),
                mp_bindings::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED,
            )
        };
    }
}
