// SPDX-License-Identifier: GPL-2.0-only

//! Which devices of this host reach a session's remote window (`PXI-EDA-*`).
//!
//! Addresses of a window on the bus are what they are; a grant sees to it that no IOMMU
//! stands between them and a device. All grants end with the window's memory: when the
//! link is lost, when the partner or this side closes; those of a group also when a driver comes
//! that lets programs say what the group reaches.

use crate::window::Piece;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    error,
    iommu::{
        Group,
        ManagerComes,
        Mapping,
        Range,
        Rights, //
    },
    notifier::{
        Listener,
        Notifier, //
    }, //
};
use mp_transport::memory::{
    Hold,
    Holder, //
};

/// Most devices that reach one window.
const GRANTS_MAX: usize = 64;

/// A function on a PCI bus of this host, whether or not it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) domain: u32,
    pub(crate) bus: u8,
    pub(crate) devfn: u8,
}

impl Requester {
    /// What an IOMMU takes it for. Before any lock of this service.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn group(&self) -> Result<Option<Arc<Group>>> {
        Group::of(self.domain, self.bus, self.devfn)
    }
}

/// What a device may do.
struct Grant {
    device: Requester,
    rights: Rights,
    group: Option<Arc<Group>>,
}

/// What a group's devices may do, all together.
struct Way {
    group: Arc<Group>,
    rights: Rights,
    /// None if the group reaches the window without.
    _mapping: Option<Mapping>,
}

struct List {
    /// Until the memory has gone.
    is_open: bool,
    grants: KVec<Grant>,
    ways: KVec<Way>,
}

impl List {
    fn place(&self, device: Requester) -> Option<usize> {
        self.grants.iter().position(|g| g.device == device)
    }

    /// Take off what a device has.
    fn take(&mut self, device: Requester) -> Option<Grant> {
        let at = self.place(device)?;
        self.grants.remove(at).ok()
    }
}

/// The grants of one window.
#[pin_data]
struct Grants {
    range: Range,
    #[pin]
    list: Mutex<List>,
}

impl Grants {
    /// See [`Access::allow`].
    fn allow(&self, device: Requester, group: Option<Arc<Group>>, rights: Rights) -> Result {
        let mut list = self.list.lock();
        if !list.is_open {
            return Err(error::net_down());
        }
        if list.grants.len() == GRANTS_MAX && list.place(device).is_none() {
            return Err(error::unsupported());
        }
        let had = list.take(device).map(|grant| grant.rights);
        let grant = Grant {
            device,
            rights: had.map_or(rights, |had| had.and(rights)),
            group: group.clone(),
        };
        list.grants.push(grant, GFP_KERNEL_ACCOUNT)?;
        let Some(group) = group else { return Ok(()) };
        let led = self.lead(&mut list, &group);
        if led.is_err() {
            // What this device had is lost as well: nobody is to think otherwise.
            list.take(device);
        }
        led
    }

    /// See [`Access::clear`].
    fn clear(&self, device: Requester) -> Result {
        let mut list = self.list.lock();
        match list.take(device).and_then(|grant| grant.group) {
            Some(group) => self.lead(&mut list, &group),
            None => Ok(()),
        }
    }

    /// Let the devices of a group do what the grants say, and nothing else.
    fn lead(&self, list: &mut List, group: &Arc<Group>) -> Result {
        let rights = rights_of(&list.grants, group);
        let at = list.ways.iter().position(|way| way.group.is(group));
        if at.and_then(|at| list.ways.get(at)).map(|way| way.rights) == rights {
            return Ok(());
        }
        // Ends the old mapping: a new one takes its place.
        drop(at.and_then(|at| list.ways.remove(at).ok()));
        let Some(rights) = rights else { return Ok(()) };
        // SAFETY: The range is the remote window's, which leads into a window of the bridge in any
        // case; the mapping ends before somebody else may have it. Grants of groups are watched
        // before they are made, and the listener takes the lock of the list.
        let mapping = unsafe { Mapping::new(group, self.range, rights) }?;
        list.ways.push(
            Way {
                group: group.clone(),
                rights,
                _mapping: mapping,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(())
    }
}

/// What the devices of a group may do, if they may do anything.
fn rights_of(grants: &[Grant], group: &Group) -> Option<Rights> {
    let of_group = |grant: &&Grant| grant.group.as_ref().is_some_and(|g| g.is(group));
    grants
        .iter()
        .filter(of_group)
        .map(|grant| grant.rights)
        .reduce(Rights::and)
}

impl Holder for Grants {
    fn revoke(&self) {
        let mut list = self.list.lock();
        list.is_open = false;
        list.ways.clear();
        list.grants.clear();
    }
}

impl Listener<ManagerComes> for Grants {
    fn notify(&self, group: Group) {
        let mut list = self.list.lock();
        list.ways.retain(|way| !way.group.is(&group));
        let is_its = |grant: &Grant| grant.group.as_ref().is_some_and(|of| of.is(&group));
        list.grants.retain(|grant| !is_its(grant));
    }
}

/// The devices that reach a remote window. Dropping it ends that.
pub(crate) struct Access {
    grants: Arc<Grants>,
    /// Once there was a grant of a group.
    watch: Option<Notifier<ManagerComes, Grants>>,
    /// Told when the memory goes; ends before the piece does.
    hold: Option<Hold>,
}

impl Access {
    /// No device reaches the window yet.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if devices cannot, `ENOTCONN` once the epoch is over, `ENOMEM`.
    pub(crate) fn new(piece: &Piece) -> Result<Self> {
        let range = piece.bus_range()?;
        let grants = Arc::pin_init(
            pin_init!(Grants {
                range,
                list <- new_mutex!(List {
                    is_open: true,
                    grants: KVec::new(),
                    ways: KVec::new(),
                }),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        let hold = piece.hold(grants.clone())?;
        Ok(Self {
            grants,
            watch: None,
            hold,
        })
    }

    /// Let a device, of that group, reach the window, in addition to what it may.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it cannot, or if there are too many, `ENETDOWN` once the window
    /// has gone, `ENOMEM`.
    pub(crate) fn allow(
        &mut self,
        device: Requester,
        group: Option<Arc<Group>>,
        rights: Rights,
    ) -> Result {
        if group.is_some() && self.watch.is_none() {
            self.watch = Some(Notifier::new(self.grants.clone())?);
        }
        self.grants.allow(device, group, rights)
    }

    /// Take all back that a device may.
    ///
    /// # Errors
    ///
    /// Those of [`allow`](Self::allow), if others of its group may go on: then they do not.
    pub(crate) fn clear(&self, device: Requester) -> Result {
        self.grants.clear(device)
    }

    /// Take all back from all.
    pub(crate) fn forsake(&self) {
        self.grants.revoke();
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        self.forsake();
        drop(self.hold.take());
    }
}
