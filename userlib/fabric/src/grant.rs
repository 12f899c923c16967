// SPDX-License-Identifier: MIT OR Apache-2.0

//! Grants: a segment for one partner, and what it may do with it.

use crate::{
    sys::{self, mp_segment_grant},
    Call, CharDevice, Device, Object, Removal, Result, Segment, Session,
};

bitflags::bitflags! {
    /// What the process of a connection may do with a segment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Rights: u32 {
        /// Its host may copy from it.
        const READ = sys::MP_GRANT_READ;
        /// It may map it, and store into it.
        const WRITE = sys::MP_GRANT_WRITE;
        // A newer kernel may know more.
        const _ = !0;
    }
}

/// What one partner was granted. It ends with its value, and the partner's connections with it.
#[derive(Debug)]
pub struct Grant<D: Device = CharDevice> {
    object: Object<D>,
}

impl<D: Device> std::ops::Deref for Grant<D> {
    type Target = Object<D>;

    fn deref(&self) -> &Object<D> {
        &self.object
    }
}

impl<D: Device> Segment<D> {
    /// Let the partner of a session connect, which needs the grant's
    /// [`handle()`](Object::handle) for [`Goal::Granted`](crate::Goal::Granted).
    ///
    /// # Errors
    /// In this order: [`Error::Invalid`](crate::Error::Invalid): no rights, or others.
    /// [`Error::NotFound`](crate::Error::NotFound).
    /// [`Error::NotSupported`](crate::Error::NotSupported): the other host is too old.
    /// [`Error::Quota`](crate::Error::Quota). [`Error::NoWindow`](crate::Error::NoWindow): it is
    /// not prepared at the session's interface. [`Error::NotPaired`](crate::Error::NotPaired),
    /// [`Error::PartnerGone`](crate::Error::PartnerGone),
    /// [`Error::InterfaceDown`](crate::Error::InterfaceDown). To be written, those of
    /// [`publish()`](Segment::publish), and [`Error::NoSpace`](crate::Error::NoSpace) if it is private
    /// and was not made for that interface. [`Error::NoMemory`](crate::Error::NoMemory).
    pub fn grant(&self, session: &Session<D>, rights: Rights) -> Result<Grant<D>> {
        self.grant_by(session, rights, 0)
    }

    /// As [`grant()`](Self::grant), also if no window leads to the memory: the kernel of this host
    /// makes all copies.
    ///
    /// # Errors
    /// As [`grant()`](Self::grant), but for those of publishing.
    /// [`Error::NotSupported`](crate::Error::NotSupported) also: the kernel does not make such
    /// copies.
    pub fn grant_placed(&self, session: &Session<D>, rights: Rights) -> Result<Grant<D>> {
        self.grant_by(session, rights, sys::MP_PUBLISH_PLACED)
    }

    fn grant_by(&self, session: &Session<D>, rights: Rights, flags: u32) -> Result<Grant<D>> {
        let mut grant = mp_segment_grant {
            segment: self.open_handle()?,
            session: session.open_handle()?,
            rights: rights.bits(),
            flags,
            ..Default::default()
        };
        self.device.call(Call::SegmentGrant(&mut grant))?;
        Ok(Grant {
            object: Object::new(&self.device, grant.handle),
        })
    }
}

impl<D: Device> Grant<D> {
    /// End it, and the partner's connections by force; nobody stores by them any more then.
    ///
    /// # Errors
    /// [`Error::System`](crate::Error::System) with `EBUSY`: the partner is connected, and that
    /// is not by force. [`Error::NotFound`](crate::Error::NotFound).
    /// [`Error::Unproven`](crate::Error::Unproven): it has ended, but the partner may still store
    /// into the memory; the segment's [`info()`](Segment::info) tells for how long.
    pub fn remove(&self, removal: Removal) -> Result<()> {
        self.object.remove(removal)
    }
}
