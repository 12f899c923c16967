// SPDX-License-Identifier: GPL-2.0-only

//! Direct memory buffers over the fabric: a DIBS device for each host, so that SMC-D sockets of two hosts
//! talk through their window.
//!
//! * [`dibs`]: the kernel's devices for that.
//! * [`fabric`]: the device's operations and the function service in one object.
//! * [`link`]: what this host and one peer have of each other.
//! * [`buffer`]: a buffer of the own client, and what arrives for it.
//! * [`starter`]: the device appears with the first bridge, and stays until the module goes.
//! * [`stats`]: counters in `/sys/kernel/mp_dibs`.
//!
//! There is one device for a host and not one for a link: a client offers its partner four devices at
//! most, and waits for users' sockets while a device goes.
//!
//! The client's buffer is memory that no peer reaches. The peer stores into a *landing place* in the arena
//! of its link, and what it says has arrived is copied and checked here: SMC-D believes its partner's
//! cursors, and keeps pages in pipes. The protocol is [`mp_proto::dibs`].

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    kobject::Directory,
    worker::{
        new_worker,
        Worker, //
    }, //
};
use mp_transport::{
    frame::FuncId,
    function::{
        self,
        Function, //
    },
    interface::Watch, //
};

#[path = "mp_dibs/buffer.rs"]
mod buffer;
#[path = "abstractions/dibs.rs"]
mod dibs;
#[path = "mp_dibs/fabric.rs"]
mod fabric;
#[path = "mp_dibs/link.rs"]
mod link;
#[path = "mp_dibs/starter.rs"]
mod starter;
#[path = "mp_dibs/stats.rs"]
mod stats;

use fabric::{
    Fabric,
    Working, //
};
use starter::{
    Bridges,
    Started,
    Starter, //
};

/// The function service that it is to peers.
pub(crate) const SERVICE: FuncId = FuncId(mp_proto::dibs::FUNC_ID);

/// Says good-bye to peers when it is dropped.
struct Farewell(Arc<Fabric>);

impl Drop for Farewell {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The module. Fields go in this order: no device, no peers, no work.
struct DirectBuffers {
    _watch: Watch,
    _starting: Arc<Worker<Starter>>,
    _started: Started,
    _farewell: Farewell,
    _function: function::Registration,
    _working: Working,
    _directory: Directory,
}

impl kernel::Module for DirectBuffers {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let fabric = Fabric::new()?;
        let directory = Directory::new(c"mp_dibs", None, fabric.clone())?;
        let working = Working::new(new_worker!(fabric.clone())?);
        let function: Arc<dyn Function> = fabric.clone();
        let function = function::Registration::new(SERVICE, function)
            .inspect_err(|e| pr_err!("cannot register the function service: {:?}\n", e))?;
        let farewell = Farewell(fabric.clone());
        let starter = Starter::new(&fabric)?;
        let started = Started(starter.clone());
        let starting = new_worker!(starter)?;
        let bridges = Arc::new(Bridges(starting.clone()), GFP_KERNEL)?;
        Ok(Self {
            _watch: Watch::new(bridges)?,
            _starting: starting,
            _started: started,
            _farewell: farewell,
            _function: function,
            _working: working,
            _directory: directory,
        })
    }
}

module! {
    type: DirectBuffers,
    name: "mp_dibs",
    authors: ["The pximc-ntb authors"],
    description: "Direct memory buffers (DIBS) for NTB fabrics, for SMC-D sockets",
    license: "GPL",
}
