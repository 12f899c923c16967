// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a thread sleeps on that others wake, beside events of the kernel.

use crate::{Deadline, Result};
use rustix::{
    event::{eventfd, EventfdFlags, PollFd, PollFlags},
    fd::{AsFd, BorrowedFd, OwnedFd},
    io,
};

/// A counter that is readable until somebody reads it. Objects can add to it when they have events
/// ([`Object::notify`](crate::Object::notify)).
#[derive(Debug)]
pub struct Wake(OwnedFd);

impl Wake {
    /// Make one that nobody has rung.
    ///
    /// # Errors
    /// [`Error::System`](crate::Error::System): there are no more descriptors.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Wake(eventfd(0, flags)?))
    }

    /// Make it readable.
    pub fn ring(&self) {
        // A counter that is full is readable all the same.
        let _ = io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Read it; whether it was readable.
    pub fn read(&self) -> bool {
        io::read(&self.0, &mut [0; 8]).is_ok()
    }

    /// Sleep until somebody rings, or until the deadline. The caller reads it and looks again,
    /// whatever has ended the sleep.
    pub fn sleep(&self, deadline: Deadline) {
        // A signal handler that has run ends it as well.
        let _ = deadline.poll(&mut [PollFd::new(&self.0, PollFlags::IN)]);
    }

    /// As [`sleep`](Self::sleep), also until somebody rings the other one.
    pub fn sleep_or(&self, other: &Wake, deadline: Deadline) {
        let mut fds = [self, other].map(|wake| PollFd::new(&wake.0, PollFlags::IN));
        // As above.
        let _ = deadline.poll(&mut fds);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Deadline;
    use rustix::event::{PollFd, PollFlags};

    #[test]
    fn a_wake_is_readable_once_however_often_it_was_rung() {
        let wake = Wake::new().unwrap();
        let is_readable = || {
            let mut fds = [PollFd::new(&wake, PollFlags::IN)];
            Deadline::PAST.poll(&mut fds).unwrap() == 1
        };
        assert!(!is_readable() && !wake.read());
        wake.ring();
        wake.ring();
        assert!(is_readable() && wake.read());
        assert!(!is_readable() && !wake.read());
    }
}
