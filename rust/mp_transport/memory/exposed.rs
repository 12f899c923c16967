// SPDX-License-Identifier: GPL-2.0-only

//! Windows of a link that are led to physical memory of somebody's choice.

use super::{
    LeadWindows,
    Pool, //
};
use crate::frame::FuncId;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    dma_buf::Attached,
    error,
    iomem::DeviceRange,
    user_pages::UserPages, //
};
use mp_proto::reach::{
    self,
    Place,
    FIRST_EXPOSED,
    MAX_EXPOSED, //
};

/// What a window is led to.
pub(super) enum What<'a> {
    /// Physical memory.
    Physical(&'a DeviceRange),
    /// Pages of a process.
    Pages(&'a Arc<UserPages>),
    /// A part of a dma-buf that the bridge reaches.
    Attached(&'a Arc<Attached>),
}

impl What<'_> {
    /// Bytes.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Physical(range) => range.len(),
            Self::Pages(pages) => pages.len() as u64,
            Self::Attached(attached) => attached.len(),
        }
    }
}

/// Whether a window could be led to some memory.
pub(super) type Check<'a> = dyn Fn(&dyn LeadWindows, u32) -> Result + 'a;

/// A window that is led somewhere; names the time for which it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Led {
    window: u32,
    turn: u64,
}

/// A window.
#[derive(Clone, Copy, Default)]
struct Window {
    /// How often it has been led somewhere.
    turn: u64,
    /// Somebody has it led somewhere.
    is_owned: bool,
    /// The service for which the peer may reach it, if it may.
    granted_by: Option<FuncId>,
}

impl Window {
    fn is_free(&self) -> bool {
        !self.is_owned && self.granted_by.is_none()
    }
}

/// The windows of a link.
pub(super) struct Exposed {
    /// Until the link has gone.
    way: Option<Arc<dyn LeadWindows>>,
    windows: KVec<Window>,
}

impl Exposed {
    /// The windows that there are; none without a way to lead them.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(way: Option<Arc<dyn LeadWindows>>) -> Result<Self> {
        let count = way.as_ref().map_or(0, |way| way.count().min(MAX_EXPOSED));
        let windows = KVec::from_elem(Window::default(), count as usize, GFP_KERNEL)?;
        Ok(Self { way, windows })
    }

    /// The way to lead windows.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are none, `ENOTCONN` once the link has gone.
    pub(super) fn way(&self) -> Result<Arc<dyn LeadWindows>> {
        if self.windows.is_empty() {
            return Err(ENOSPC);
        }
        self.way.clone().ok_or(error::not_connected())
    }

    /// How many there are.
    fn count(&self) -> u32 {
        self.windows.len() as u32
    }

    /// Whether any window could be led to some memory.
    ///
    /// # Errors
    ///
    /// See [`Memory::expose`](super::Memory::expose).
    pub(super) fn can_expose(&self, check: &Check<'_>) -> Result {
        let way = self.way()?;
        // What the last one says if none will do.
        let mut answer = Err(ENOSPC);
        for window in 0..self.count() {
            answer = check(&*way, window);
            if answer.is_ok() {
                break;
            }
        }
        answer
    }

    /// Lead a free window to some memory. The peer may reach it from now on, for that service.
    ///
    /// # Errors
    ///
    /// See [`Memory::expose`](super::Memory::expose).
    pub(super) fn expose(&mut self, service: FuncId, what: &What<'_>) -> Result<Led> {
        let way = self.way()?;
        let mut refused = ENOSPC;
        for (number, window) in (0..).zip(&mut self.windows) {
            if !window.is_free() {
                continue;
            }
            // Windows differ in what they demand: another one may do.
            let led = match *what {
                What::Physical(range) => way.lead(number, range),
                What::Pages(pages) => way.lead_pages(number, pages),
                What::Attached(attached) => way.lead_attached(number, attached),
            };
            match led {
                Ok(()) => {
                    window.turn += 1;
                    (window.is_owned, window.granted_by) = (true, Some(service));
                    return Ok(Led {
                        window: number,
                        turn: window.turn,
                    });
                }
                Err(e) => refused = e,
            }
        }
        Err(refused)
    }

    /// Its owner gives a window up; while the peer may reach it, it stays led there.
    pub(super) fn give_up(&mut self, led: Led) {
        if let Some(window) = self.windows.get_mut(led.window as usize) {
            if window.turn == led.turn && window.is_owned {
                window.is_owned = false;
                self.settle(led.window);
            }
        }
    }

    /// The peer does not reach a window any more, for that service.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it did not before, or if nothing begins at that offset.
    pub(super) fn let_go(&mut self, service: FuncId, window: u16, off: u64) -> Result {
        let number = window.checked_sub(FIRST_EXPOSED).ok_or(ENOENT)?;
        let known = self.windows.get_mut(usize::from(number)).ok_or(ENOENT)?;
        if off != 0 || known.granted_by != Some(service) {
            return Err(ENOENT);
        }
        known.granted_by = None;
        self.settle(number.into());
        Ok(())
    }

    /// The peer reaches no window any more that it could reach, or that it could for that service.
    pub(super) fn let_all_go(&mut self, service: Option<FuncId>) {
        for number in 0..self.count() {
            if let Some(window) = self.windows.get_mut(number as usize) {
                let is_meant = |by: &mut FuncId| service.is_none_or(|service| service == *by);
                if window.granted_by.take_if(is_meant).is_some() {
                    self.settle(number);
                }
            }
        }
    }

    /// The link goes: windows lead nowhere any more.
    pub(super) fn close(&mut self) {
        let Some(way) = self.way.take() else { return };
        for (number, window) in (0..).zip(&mut self.windows) {
            if !window.is_free() {
                way.withdraw(number);
                *window = Window::default();
            }
        }
    }

    /// Lead a window nowhere that nobody needs any more.
    fn settle(&mut self, number: u32) {
        let window = self.windows.get(number as usize);
        if let (Some(way), true) = (&self.way, window.is_some_and(Window::is_free)) {
            way.withdraw(number);
        }
    }
}

/// Physical memory of this host, or pages of a process, that the peer of a link reaches by a
/// window of its own.
///
/// Dropping it leads the window nowhere: at once if the peer has let go, else when it
/// does or the next epoch begins. Sleeps.
pub struct Exposure {
    pool: Arc<Pool>,
    led: Led,
    len: u64,
}

impl Exposure {
    pub(super) fn new(pool: &Arc<Pool>, led: Led, len: u64) -> Self {
        Self {
            pool: pool.clone(),
            led,
            len,
        }
    }

    /// Where it begins among what the peer may reach: the peer is told this.
    pub fn off(&self) -> u64 {
        let window = u16::try_from(self.led.window).unwrap_or(u16::MAX);
        reach::start_of(FIRST_EXPOSED.saturating_add(window))
    }

    /// The window, among all that lead to this host, and the offset in it.
    pub fn place(&self) -> Place {
        Place::decode(self.off())
    }

    /// Bytes, as they were asked for.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }
}

impl Drop for Exposure {
    fn drop(&mut self) {
        self.pool.conceal(self.led);
    }
}
