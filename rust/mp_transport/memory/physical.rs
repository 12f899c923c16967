// SPDX-License-Identifier: GPL-2.0-only

//! Physical memory that this host, as its own peer, reaches as the peers of a bridge do
//! by a window: processes map its pages. The kernel itself does not write there.

use super::{
    Cache,
    LeadWindows,
    PageFrame,
    RemoteBytes,
    SeeWindows, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    barrier,
    error,
    ntb::range::is_system_ram, //
};
use mp_proto::layout::PAGE;

/// As many as the windows of some bridges.
const COUNT: usize = 4;

/// A range of physical addresses.
#[derive(Clone, Copy)]
struct Range {
    phys: u64,
    len: u64,
}

impl RemoteBytes for Range {
    fn page(&self, off: u64) -> Result<PageFrame> {
        if off >= self.len {
            return Err(EINVAL);
        }
        PageFrame::at(self.phys + off, Cache::WriteCombining)
    }

    fn bus_address(&self, off: u64) -> Result<u64> {
        if off >= self.len {
            return Err(EINVAL);
        }
        Ok(self.phys + off)
    }

    fn store_u64(&self, _off: u64, _val: u64) -> Result {
        Err(error::unsupported())
    }

    fn write(&self, _off: u64, _src: &[u8]) -> Result {
        Err(error::unsupported())
    }

    fn flush(&self) {
        barrier::wmb();
    }
}

/// Windows of this host to itself.
#[pin_data]
pub(crate) struct OwnWindows {
    #[pin]
    led: Mutex<[Option<Range>; COUNT]>,
}

impl OwnWindows {
    /// Windows that lead nowhere.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let this = pin_init!(Self {
            led <- new_mutex!([None; COUNT]),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }
}

impl LeadWindows for OwnWindows {
    fn count(&self) -> u32 {
        COUNT as u32
    }

    fn check(&self, _window: u32, phys: u64, len: u64) -> Result {
        let whole = len.checked_next_multiple_of(PAGE).ok_or(ENOSPC)?;
        let wraps = phys.checked_add(whole).is_none();
        if wraps || !phys.is_multiple_of(PAGE) || is_system_ram(phys, whole) {
            return Err(error::unsupported());
        }
        PageFrame::at(phys, Cache::WriteCombining).map(|_| ())
    }

    fn lead(&self, window: u32, phys: u64, len: u64) -> Result {
        self.check(window, phys, len)?;
        let mut led = self.led.lock();
        let place = led.get_mut(window as usize).ok_or(ENODEV)?;
        *place = Some(Range { phys, len });
        Ok(())
    }

    fn withdraw(&self, window: u32) {
        if let Some(place) = self.led.lock().get_mut(window as usize) {
            *place = None;
        }
    }
}

impl SeeWindows for OwnWindows {
    fn count(&self) -> u32 {
        COUNT as u32
    }

    fn look(&self, window: u32) -> Result<(Arc<dyn RemoteBytes>, u64)> {
        let led = self.led.lock();
        let range = led.get(window as usize).copied().flatten().ok_or(EINVAL)?;
        drop(led);
        Ok((Arc::new(range, GFP_KERNEL)?, range.len))
    }
}
