// SPDX-License-Identifier: GPL-2.0-only

//! Registers the device with the first peer of the host, which has an id by then.

use crate::{
    dibs::Registration,
    fabric::Fabric, //
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
    pci,
    random,
    worker::{
        Work,
        Worker, //
    }, //
};
use mp_proto::dibs::Gid;
use mp_transport::{
    interface::{
        Interface,
        Watcher, //
    },
    peer::Peer,
    service, //
};

/// How far it is.
enum Stage {
    /// No peer has been seen.
    Waiting,
    /// One has, at this bridge.
    Found(pci::Function),
    /// The device is there until this is dropped.
    Done(#[expect(dead_code)] Registration<Fabric>),
    /// It is not, and will not be.
    Over,
}

/// What registers the device, once.
#[pin_data]
pub(crate) struct Starter {
    fabric: Arc<Fabric>,
    #[pin]
    stage: Mutex<Stage>,
}

impl Starter {
    /// Nothing is registered yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(fabric: &Arc<Fabric>) -> Result<Arc<Self>> {
        let this = pin_init!(Self {
            fabric: fabric.clone(),
            stage <- new_mutex!(Stage::Waiting, "mp_dibs::Starter"),
        });
        Arc::pin_init(this, GFP_KERNEL)
    }

    /// Remove the device. Its buffers have been removed when this returns.
    fn stop(&self) {
        let stage = core::mem::replace(&mut *self.stage.lock(), Stage::Over);
        // Without the lock.
        drop(stage);
    }
}

impl Work for Starter {
    fn run(&self) -> Option<u32> {
        let mut stage = self.stage.lock();
        let Stage::Found(bridge) = *stage else {
            return None;
        };
        let numbers = [random::next_u64(), random::next_u64()];
        let Some(gid) = Gid::new(service::self_id(), numbers) else {
            *stage = Stage::Waiting;
            return None;
        };
        let device = self.fabric.device().clone();
        *stage = match Registration::new(device, &gid.0, self.fabric.clone(), &bridge) {
            Ok(registration) => {
                self.fabric.begin(gid);
                Stage::Done(registration)
            }
            // The bridge has been pulled.
            Err(e) if e == ENODEV => Stage::Waiting,
            Err(e) => {
                pr_err!("cannot register the device: error {}\n", e.to_errno());
                Stage::Over
            }
        };
        None
    }
}

/// Removes the device when it is dropped.
pub(crate) struct Started(pub(crate) Arc<Starter>);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Hears of bridges with peers.
pub(crate) struct Bridges(pub(crate) Arc<Worker<Starter>>);

impl Watcher for Bridges {
    fn added(&self, _interface: &Arc<Interface>) {}

    fn removed(&self, _interface: &Arc<Interface>) {}

    fn peer_up(&self, interface: &Arc<Interface>, _peer: &Arc<Peer>) {
        let Some(location) = interface.info().location else {
            return;
        };
        let mut stage = self.0.target().stage.lock();
        if matches!(*stage, Stage::Waiting) {
            *stage = Stage::Found(location);
            self.0.kick();
        }
    }

    fn peer_down(&self, _interface: &Arc<Interface>, _peer: &Arc<Peer>) {}
}
