// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the service thread sleeps on while a thread of the program serves.

use super::{lock, NAP_MIN};
use mp_fabric::Result;
use rustix::{
    event::{poll, PollFd, PollFlags},
    fd::OwnedFd,
    io,
    time::{
        timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags,
        TimerfdTimerFlags, Timespec,
    },
};
use std::{sync::Mutex, time::Duration};

/// A timer that one thread waits for and others set. Setting it wakes nobody at once: on the only
/// processor, whoever sets it goes on. It need not be set as long as the one that waits looks by
/// itself.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    /// When it goes off, if nobody has noticed yet that it has.
    setting: Mutex<Setting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Off,
    Soon,
    Now,
}

impl Alarm {
    /// It is not set.
    ///
    /// # Errors
    /// [`Error::System`](mp_fabric::Error::System): there are no more descriptors.
    pub(super) fn new() -> Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Alarm {
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            setting: Mutex::new(Setting::Off),
        })
    }

    /// Let it go off after [`NAP_MIN`], or earlier if it was set before.
    pub(super) fn set(&self) {
        let mut setting = lock(&self.setting);
        if *setting == Setting::Off {
            *setting = Setting::Soon;
            self.set_in(NAP_MIN);
        }
    }

    /// Let it go off now.
    pub(super) fn ring(&self) {
        let mut setting = lock(&self.setting);
        *setting = Setting::Now;
        // Nothing at all would stop it.
        self.set_in(Duration::from_nanos(1));
    }

    fn set_in(&self, delay: Duration) {
        let value = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(delay).unwrap_or_default(),
        };
        // The descriptor and the times are right.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value);
    }

    /// Wait until it goes off, and for no longer than the nap, if there is one: nobody has to set it
    /// meanwhile. What its setters have done before is seen afterwards, also of those that have found
    /// it set.
    pub(super) fn wait(&self, nap: Option<Duration>) {
        if nap.is_some() {
            let mut setting = lock(&self.setting);
            if *setting == Setting::Off {
                *setting = Setting::Soon;
            }
        }
        let nap = nap.and_then(|nap| Timespec::try_from(nap).ok());
        // The caller looks again, whatever has ended the wait.
        let gone_off = poll(&mut [PollFd::new(&self.timer, PollFlags::IN)], nap.as_ref());
        let mut setting = lock(&self.setting);
        if gone_off != Ok(0) || *setting == Setting::Now {
            let _ = io::read(&self.timer, &mut [0; 8]);
        }
        *setting = Setting::Off;
    }
}
