// SPDX-License-Identifier: GPL-2.0-only

//! This host in the fabric, over all its NTB devices: its part, its id, and on
//! the root processor the indices that it gives to the others (`IDT-ID-5`).
//!
//! Unless a parameter says it, the root processor is the host with the lowest
//! port of every bridge it is at. Endpoints take the id that the root processor
//! gives them. One that loses its root processor keeps its id until another one
//! gives it a different one; while it has one, it takes no orders from another.

use crate::device::Shared;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex,
        MutexGuard, //
    }, //
};
use mp_proto::{
    link::Role,
    wire::PeerId, //
};
use mp_transport::service::{
    self,
    MAX_PEERS, //
};

/// An id and index, packed so that they change together.
struct Assigned(Atomic<u64>);

impl Assigned {
    const NOBODY: (PeerId, u32) = (PeerId::SELF, 0);

    const fn nobody() -> Self {
        Self(Atomic::new(PeerId::SELF.0 as u64))
    }

    fn get(&self) -> (PeerId, u32) {
        let word = self.0.load(Relaxed);
        (PeerId(word as u32), (word >> 32) as u32)
    }

    fn set(&self, (id, index): (PeerId, u32)) {
        self.0
            .store(u64::from(index) << 32 | u64::from(id.0), Relaxed);
    }
}

/// Names a link: number of the bridge, index of the peer at it.
pub(crate) type LinkKey = (u32, u32);

/// What changes with the devices.
struct Devices {
    bound: KVec<Arc<Shared>>,
    /// Whether this host has a port that is not the lowest of its bridge.
    has_higher_port: bool,
    /// The indices given out, a bit each; that of the root processor is taken.
    indices: u64,
    /// The link to the root processor that this endpoint obeys.
    root: Option<LinkKey>,
}

/// This host.
#[pin_data]
pub(crate) struct Host {
    /// The part that a parameter says.
    wanted: Option<Role>,
    is_root: Atomic<bool>,
    assigned: Assigned,
    #[pin]
    devices: Mutex<Devices>,
    #[pin]
    allocating: Mutex<()>,
}

/// What an endpoint made of the id that a root processor gave it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// It has it.
    Taken,
    /// It obeys another root processor.
    Refused,
}

impl Host {
    /// A host without devices.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(wanted: Option<Role>) -> Result<Arc<Self>> {
        let may_be_root = wanted != Some(Role::Endpoint);
        Arc::pin_init(
            pin_init!(Self {
                wanted,
                is_root: Atomic::new(may_be_root),
                assigned: Assigned::nobody(),
                devices <- new_mutex!(Devices {
                    bound: KVec::new(),
                    has_higher_port: false,
                    indices: 1,
                    root: None,
                }),
                allocating <- new_mutex!(()),
            }),
            GFP_KERNEL,
        )
    }

    /// Only one link at a time allocates inbound memory.
    pub(crate) fn allocation_turn(&self) -> MutexGuard<'_, ()> {
        self.allocating.lock()
    }

    /// The part that a parameter says.
    pub(crate) fn wanted(&self) -> Option<Role> {
        self.wanted
    }

    /// The part it plays.
    pub(crate) fn role(&self) -> Role {
        match self.is_root.load(Relaxed) {
            true => Role::Root,
            false => Role::Endpoint,
        }
    }

    /// Its own id and index.
    pub(crate) fn assigned(&self) -> (PeerId, u32) {
        self.assigned.get()
    }

    /// Indices for so many peers, the lowest that are free.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are not so many, `ENOMEM`.
    pub(crate) fn take_indices(&self, count: u32) -> Result<KVec<u32>> {
        let mut devices = self.devices.lock();
        let mut taken = KVec::with_capacity(count as usize, GFP_KERNEL)?;
        let mut indices = devices.indices;
        for _ in 0..count {
            let index = indices.trailing_ones();
            if index as usize >= MAX_PEERS {
                return Err(ENOSPC);
            }
            indices |= 1 << index;
            taken.push(index, GFP_KERNEL)?;
        }
        devices.indices = indices;
        Ok(taken)
    }

    /// Take indices back.
    pub(crate) fn return_indices(&self, indices: &[u32]) {
        let mut devices = self.devices.lock();
        for index in indices {
            devices.indices &= !(1 << index);
        }
    }

    /// A device is bound, at the lowest port of its bridge or at another one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or `EBUSY` if something else than this transport has given the
    /// host an id.
    pub(crate) fn join(&self, device: &Arc<Shared>, at_lowest_port: bool) -> Result {
        let mut devices = self.devices.lock();
        devices.bound.push(device.clone(), GFP_KERNEL)?;
        devices.has_higher_port |= !at_lowest_port;
        let is_root = match self.wanted {
            Some(role) => role == Role::Root,
            None => !devices.has_higher_port,
        };
        if is_root {
            service::set_self_id(PeerId::RP).inspect_err(|_| drop(devices.bound.pop()))?;
            self.assigned.set((PeerId::RP, 0));
        } else if self.is_root.xchg(false, Relaxed) && self.assigned() != Assigned::NOBODY {
            // The devices so far made it look like the root processor.
            self.forget(&devices);
        }
        Ok(())
    }

    /// A device goes. Without any, the host is nobody again.
    pub(crate) fn leave(&self, device: &Arc<Shared>) {
        let mut devices = self.devices.lock();
        devices.bound.retain(|bound| !Arc::ptr_eq(bound, device));
        if devices.bound.is_empty() {
            devices.has_higher_port = false;
            self.is_root
                .store(self.wanted != Some(Role::Endpoint), Relaxed);
            self.forget(&devices);
        }
    }

    /// Give the id back; links on which it was known start over.
    fn forget(&self, devices: &Devices) {
        if self.assigned() == Assigned::NOBODY {
            return;
        }
        self.assigned.set(Assigned::NOBODY);
        service::clear_self_id();
        kick(devices);
    }

    /// The root processor behind `link` gives this endpoint its id and index.
    pub(crate) fn order(&self, link: LinkKey, id: PeerId, index: u32) -> Order {
        let mut devices = self.devices.lock();
        if devices.root.is_some_and(|root| root != link) {
            return Order::Refused;
        }
        devices.root = Some(link);
        if self.assigned() == (id, index) {
            return Order::Taken;
        }
        if service::set_self_id(id).is_ok() {
            self.assigned.set((id, index));
            pr_info!("this host is {:08x}, index {}\n", id.0, index);
            kick(&devices);
        } else {
            // The id is from an earlier root processor; once it is forgotten, the links ask again.
            self.forget(&devices);
        }
        Order::Taken
    }

    /// A link is down.
    pub(crate) fn link_down(&self, link: LinkKey) {
        let mut devices = self.devices.lock();
        devices.root = devices.root.filter(|root| *root != link);
    }
}

/// Look at all links.
fn kick(devices: &Devices) {
    for device in &devices.bound {
        device.kick_all();
    }
}
