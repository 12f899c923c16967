// SPDX-License-Identifier: GPL-2.0-only

//! Virtual Ethernet over message frames: one interface, `ntb0`, per host.
//!
//! All peers form one broadcast domain (rules `IDT-ETH-*`). A packet for a
//! known address goes to the peer behind which that address was heard, every
//! other one to all peers. A packet crosses in one frame, also one of 64 KiB
//! that is still to be segmented or lacks its checksum; a function header says
//! what the receiver has to know of it.
//!
//! * [`interface`]: the network device and the function service in one object.
//! * [`port`]: the way to one peer, its transmit queues and their back-pressure.
//! * [`flood`]: the way to all of them.
//! * [`packet`]: packets as frames and frames as packets.
//! * [`stats`]: the counters of `ethtool -S`.
//!
//! Transmit queue 0 is for packets to all peers. Every peer has queues of its
//! own behind that, so that a slow one holds up nobody else. A full ring
//! stops its queue and drops nothing. Packets to all peers wait for each of
//! them for a limited time and go without those that make no room
//! (`flood_wait_ms`).
//!
//! The address of the interface is made of the host's id in the fabric
//! (`02:4d:50:00:` and the id), and so survives reloads and reboots, until an
//! administrator sets one. Before the id is known it is random.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    net::device,
    param, //
};
use mp_proto::ether;
use mp_transport::{
    frame::FuncId,
    function::{
        self,
        Function, //
    }, //
};

#[path = "mp_func_ether/flood.rs"]
mod flood;
#[path = "mp_func_ether/interface.rs"]
mod interface;
#[path = "mp_func_ether/packet.rs"]
mod packet;
#[path = "mp_func_ether/port.rs"]
mod port;
#[path = "mp_func_ether/stats.rs"]
mod stats;

use interface::{
    Interface,
    Limits, //
};

/// The module: a function service and an interface, gone in this order.
struct VirtualEthernet {
    _function: function::Registration,
    _interface: device::Registration<Interface>,
}

impl kernel::Module for VirtualEthernet {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let limits = Limits::new(param!(peers), param!(queues), param!(flood_wait_ms))?;
        let interface = Interface::new(limits)?;
        let registration = device::Registration::new(interface.device().clone(), interface.clone())
            .inspect_err(|e| pr_err!("cannot register the interface: {:?}\n", e))?;
        let function: Arc<dyn Function> = interface;
        let function = function::Registration::new(FuncId(ether::FUNC_ID), function)
            .inspect_err(|e| pr_err!("cannot register the function service: {:?}\n", e))?;
        Ok(Self {
            _function: function,
            _interface: registration,
        })
    }
}

module! {
    type: VirtualEthernet,
    name: "mp_func_ether",
    authors: ["The pximc-ntb authors"],
    description: "Virtual Ethernet for NTB fabrics",
    license: "GPL",
    params: {
        peers: u32 {
            default: 64,
            description: "Most peers, counted by the highest index (1 to 64, default 64)",
        },
        queues: u32 {
            default: 4,
            description: "Most transmit queues per peer with an index below 16, above there is one (1 to 8, default 4)",
        },
        flood_wait_ms: u32 {
            default: 50,
            description: "Longest time in ms that packets to all peers wait for one that has no room (1 to 10000, default 50)",
        },
    },
}
