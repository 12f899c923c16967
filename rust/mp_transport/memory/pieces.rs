// SPDX-License-Identifier: GPL-2.0-only

//! Pieces of memory that somebody holds, at this end of a link or at the other one.

use super::{
    flights::{
        self,
        Flights, //
    },
    stock::{
        Lease,
        Stock,
        Tenant, //
    },
    Hold,
    Holder,
    Memory,
    PageFrame,
    Source,
    Told, //
};
use crate::frame::FuncId;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::dmem::Charge;
use mp_proto::{
    layout::PAGE,
    reach::{
        self,
        Place, //
    }, //
};

/// Bytes that are copied without a pause.
const STRETCH: usize = 1 << 14;

/// Check that `count` bytes at `at` lie in a piece of `len` bytes, and say where
/// they are if the piece begins at `off`.
///
/// # Errors
///
/// `EINVAL`.
fn inside(off: u64, len: u64, at: u64, count: usize) -> Result<u64> {
    let end = at.checked_add(count as u64).ok_or(EINVAL)?;
    if end > len {
        return Err(EINVAL);
    }
    off.checked_add(at).ok_or(EINVAL)
}

/// Where page `page` of a piece is.
///
/// # Errors
///
/// `EINVAL` if the piece has not so many.
fn page_at(off: u64, len: u64, page: u64) -> Result<u64> {
    let at = page.checked_mul(PAGE).ok_or(EINVAL)?;
    inside(off, len, at, 1)
}

/// How far pages that `phys` finds are in one run, which begins with byte `at`: the physical
/// address of that, and the bytes, at most `most`.
///
/// # Errors
///
/// `EINVAL` for nothing, or that of `phys`.
pub fn run_of(at: u64, most: u64, phys: impl Fn(u64) -> Result<u64>) -> Result<(u64, u64)> {
    if most == 0 {
        return Err(EINVAL);
    }
    let (page, inside) = (at / PAGE, at % PAGE);
    let first = phys(page)?;
    let mut len = (PAGE - inside).min(most);
    while len < most {
        let done = inside + len;
        let next = phys(page + done / PAGE);
        if next != first.checked_add(done).ok_or(EINVAL) {
            break;
        }
        len = most.min(len + PAGE);
    }
    Ok((first + inside, len))
}

/// A piece of this host's memory that peers may be granted.
///
/// Its owner takes all mappings of it away before it drops it, which sleeps.
pub struct Local {
    stock: Arc<Stock>,
    off: u64,
    len: u64,
    /// There until it is dropped.
    tenant: Option<Tenant>,
}

impl Local {
    /// Cut a piece; see [`Memory::alloc_charged`].
    pub(super) fn cut(stock: &Arc<Stock>, len: u64, charge: Charge) -> Result<Self> {
        let tenant = Some(Tenant::new(charge)?);
        let local = Self {
            off: stock.cut(len)?,
            stock: stock.clone(),
            len,
            tenant,
        };
        stock.prepare(local.off, len)?;
        Ok(local)
    }

    /// What tells how long the memory is not free: longer than this is there, if a peer may
    /// reach it then.
    pub fn lease(&self) -> Option<&Arc<Lease>> {
        self.tenant.as_ref().map(Tenant::lease)
    }

    /// Whether it was cut from that.
    pub(super) fn is_of(&self, stock: &Arc<Stock>) -> bool {
        Arc::ptr_eq(&self.stock, stock)
    }

    /// Whether its pages stay as long as the piece does, whatever becomes of links and bridges.
    pub fn is_lasting(&self) -> bool {
        self.stock.is_lasting()
    }

    /// Where its pages end in what it was cut from.
    pub(super) fn pages_end(&self) -> u64 {
        self.off.saturating_add(self.len.next_multiple_of(PAGE))
    }

    /// The peer of a link may reach it, for that service.
    pub(super) fn grant(&self, link: u64, service: FuncId) -> Result {
        self.stock.grant((link, service), self.off)
    }

    /// Where it begins among what the peer may reach, a place as
    /// [`reach`](mp_proto::reach) has them; a multiple of [`PAGE`]. The peer is told
    /// this. It is the same for all peers that may be granted the piece.
    pub fn off(&self) -> u64 {
        self.stock.place(self.off)
    }

    /// Bytes, as they were asked for.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Let `holder` be told when the memory goes, from now on. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` if it has gone, `ENOMEM`.
    pub fn hold(&self, holder: Arc<dyn Holder>) -> Result<Hold> {
        self.stock.hold(holder)
    }

    /// Its page number `page`, for a mapping. The bytes behind the end of the piece in
    /// its last page are nobody's.
    ///
    /// For one who has a [hold](Self::hold) on it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has not so many, `EOPNOTSUPP` if its pages cannot be mapped,
    /// `ENOTCONN` if the memory has gone.
    pub fn page(&self, page: u64) -> Result<PageFrame> {
        let at = page_at(self.off, self.len, page)?;
        self.stock.with_bytes(|bytes| bytes.page(at))
    }

    /// The physical address of its byte `at`, and how many bytes are in one run behind it, at
    /// most `most`: for an engine.
    ///
    /// For one who has a [hold](Self::hold) on it.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, `ENOTCONN` if the memory has gone, or that of
    /// [`PageFrame::at`].
    pub fn run(&self, at: u64, most: u64) -> Result<(u64, u64)> {
        let most = most.min(self.len.saturating_sub(at));
        run_of(at, most, |page| Ok(self.page(page)?.phys))
    }

    /// Its address for the kernel, if it is in one run: valid while the piece is there
    /// and until [`Holder::revoke`] has returned, for one who has a [hold](Self::hold)
    /// on it. The peer may write there at any time.
    pub fn address(&self) -> Option<*mut u8> {
        let address = self.stock.with_bytes(|bytes| Ok(bytes.address(self.off)));
        address.ok().flatten()
    }

    /// Load an aligned word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside, `ENOTCONN` if the memory has gone.
    pub fn load_u64(&self, at: u64) -> Result<u64> {
        let at = inside(self.off, self.len, at, size_of::<u64>())?;
        self.stock.with_bytes(|bytes| bytes.load_u64(at))
    }

    /// Store an aligned word in one piece.
    ///
    /// # Errors
    ///
    /// As for [`load_u64`](Self::load_u64).
    pub fn store_u64(&self, at: u64, val: u64) -> Result {
        let at = inside(self.off, self.len, at, size_of::<u64>())?;
        self.stock.with_bytes(|bytes| bytes.store_u64(at, val))
    }

    /// Exchange an aligned word that has the value `expected` for `desired`, in one step; whether
    /// it had. Any context.
    ///
    /// # Errors
    ///
    /// As for [`load_u64`](Self::load_u64).
    pub fn exchange_u64(&self, at: u64, expected: u64, desired: u64) -> Result<bool> {
        let at = inside(self.off, self.len, at, size_of::<u64>())?;
        self.stock
            .with_bytes(|bytes| bytes.exchange_u64(at, expected, desired))
    }

    /// Fill all of `dst` from `at`; bytes that the peer writes meanwhile may be seen
    /// old or new.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, and then `dst` is unchanged; `ENOTCONN` if the memory has gone.
    pub fn read(&self, at: u64, dst: &mut [u8]) -> Result {
        let mut at = inside(self.off, self.len, at, dst.len())?;
        for part in dst.chunks_mut(STRETCH) {
            self.stock.with_bytes(|bytes| bytes.read(at, part))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Copy all of `src` to `at`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, and then nothing is written; `ENOTCONN` if the memory has gone.
    pub fn write(&self, at: u64, src: &[u8]) -> Result {
        let mut at = inside(self.off, self.len, at, src.len())?;
        for part in src.chunks(STRETCH) {
            self.stock.with_bytes(|bytes| bytes.write(at, part))?;
            at += part.len() as u64;
        }
        Ok(())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        if let Some(tenant) = self.tenant.take() {
            self.stock.give_up(self.off, tenant);
        }
    }
}

/// A piece of a peer's memory, as this host reaches it in one epoch. Dropping it waits for
/// copies by an engine.
pub struct Remote {
    memory: Arc<Memory>,
    window: u16,
    /// In the window.
    off: u64,
    len: u64,
    /// Copies to it by an engine.
    flights: Arc<Flights>,
}

impl Remote {
    /// See [`Memory::reach`], which has checked the place.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(memory: &Arc<Memory>, at: Place, len: u64) -> Result<Self> {
        Ok(Self {
            memory: memory.clone(),
            window: at.window,
            off: at.off,
            len,
            flights: Flights::new()?,
        })
    }

    /// Where it begins in the peer's memory, as the peer has said.
    pub fn off(&self) -> u64 {
        reach::start_of(self.window) + self.off
    }

    /// Bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Let `holder` be told at the end of the epoch, from now on. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` once the epoch is over, `ENOMEM`.
    pub fn hold(&self, holder: Arc<dyn Holder>) -> Result<Hold> {
        self.memory.holders.add(holder)
    }

    /// Its page number `page`, for a mapping.
    ///
    /// For one who has a [hold](Self::hold) on it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has not so many, `EOPNOTSUPP` if its pages cannot be mapped,
    /// `ENOTCONN` once the epoch is over.
    pub fn page(&self, page: u64) -> Result<PageFrame> {
        let at = page_at(self.off, self.len, page)?;
        self.memory.with_remote(self.window, |bytes| bytes.page(at))
    }

    /// The address on the PCI bus of its byte `at`, and of all behind it: where other
    /// devices of this host write if nothing translates between them and the bridge.
    ///
    /// For one who has a [hold](Self::hold) on it.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, `EOPNOTSUPP` if it is not on a bus, `ENOTCONN` once the epoch
    /// is over.
    pub fn bus_address(&self, at: u64) -> Result<u64> {
        let at = inside(self.off, self.len, at, 1)?;
        self.memory
            .with_remote(self.window, |bytes| bytes.bus_address(at))
    }

    /// Store an aligned word in one piece.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is unaligned or outside, `ENOTCONN` once the epoch is over.
    pub fn store_u64(&self, at: u64, val: u64) -> Result {
        let at = inside(self.off, self.len, at, size_of::<u64>())?;
        self.memory
            .with_remote(self.window, |bytes| bytes.store_u64(at, val))
    }

    /// Copy all of `src` to `at`, in any order and any pieces.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside, and then nothing is written; `ENOTCONN` once the epoch is over,
    /// and then part of it may have been.
    pub fn write(&self, at: u64, src: &[u8]) -> Result {
        let mut at = inside(self.off, self.len, at, src.len())?;
        for part in src.chunks(STRETCH) {
            self.memory
                .with_remote(self.window, |bytes| bytes.write(at, part))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Let an engine copy at most `len` bytes, which are not zero, that begin at `from` in
    /// `source` to `at`, in the background; `told` is told of its end with the tag, maybe
    /// before this returns. Says how many bytes these are: fewer if the source is in many
    /// runs. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENODEV` without an engine, `EAGAIN` if it has too much to do, others if the processor
    /// is to copy this, or will find out what is wrong; nobody is told then.
    pub fn copy(
        &self,
        at: u64,
        source: &Source,
        from: u64,
        len: u64,
        told: (Arc<dyn Told>, usize),
    ) -> Result<u64> {
        let off = inside(self.off, self.len, at, usize::try_from(len)?)?;
        flights::launch(source, from, len, &self.flights, told, |pieces, done| {
            self.memory.with_remote(self.window, |bytes| {
                // SAFETY: The source stays until the copy has been told: `Source` and its hold
                // wait for that.
                unsafe { bytes.copy(off, pieces, done) }
            })
        })
    }

    /// No engine copies there any more when this returns, nor will one. Sleeps.
    pub fn stop(&self) {
        self.flights.close();
    }

    /// Push all stores before it out, ahead of all stores after it.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` once the epoch is over.
    pub fn flush(&self) -> Result {
        self.memory.with_remote(self.window, |bytes| {
            bytes.flush();
            Ok(())
        })
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.stop();
    }
}
