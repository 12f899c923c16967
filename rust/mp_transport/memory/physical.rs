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
    iomem::{
        is_device_memory,
        DeviceRange, //
    }, //
};
use mp_proto::layout::PAGE;

/// As many as the windows of some bridges.
const COUNT: usize = 4;

/// Where a window leads: an address, and bytes.
struct Range(u64, u64);

impl Range {
    /// The address of its byte at `off`.
    ///
    /// # Errors
    ///
    /// `EINVAL` outside.
    fn address(&self, off: u64) -> Result<u64> {
        match off < self.1 {
            true => Ok(self.0 + off),
            false => Err(EINVAL),
        }
    }
}

impl RemoteBytes for Range {
    fn page(&self, off: u64) -> Result<PageFrame> {
        PageFrame::at(self.address(off)?, Cache::WriteCombining)
    }

    fn bus_address(&self, off: u64) -> Result<u64> {
        self.address(off)
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
    led: Mutex<[Option<DeviceRange>; COUNT]>,
}

impl OwnWindows {
    /// Windows that lead nowhere.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let this = pin_init!(Self {
            led <- new_mutex!([const { None }; COUNT]),
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
        if phys % PAGE != 0 || !is_device_memory(phys, whole) {
            return Err(error::unsupported());
        }
        PageFrame::at(phys, Cache::WriteCombining).map(|_| ())
    }

    fn lead(&self, window: u32, range: &DeviceRange) -> Result {
        self.check(window, range.phys(), range.len())?;
        let mut led = self.led.lock();
        let place = led.get_mut(window as usize).ok_or(ENODEV)?;
        let before = place.replace(range.clone());
        drop(led);
        drop(before);
        Ok(())
    }

    fn withdraw(&self, window: u32) {
        let mut led = self.led.lock();
        let before = led.get_mut(window as usize).and_then(Option::take);
        drop(led);
        drop(before);
    }
}

impl SeeWindows for OwnWindows {
    fn count(&self) -> u32 {
        COUNT as u32
    }

    fn look(&self, window: u32) -> Result<(Arc<dyn RemoteBytes>, u64)> {
        let led = self.led.lock();
        let range = led.get(window as usize).and_then(Option::as_ref);
        let (phys, len) = range.map(|at| (at.phys(), at.len())).ok_or(EINVAL)?;
        drop(led);
        Ok((Arc::new(Range(phys, len), GFP_KERNEL)?, len))
    }
}
