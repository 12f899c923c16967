// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the connector asks a node and tells it: which other nodes are sought, and what has become of
//! sessions with them.

use super::{
    core::{has_room_for, Core},
    NodeShared,
};
use crate::{link::Link, lock, wire::End, NodeId};
use mp_fabric::{Device, EventMask, Session};
use mp_queue_pair::provider::NEWS;
use tracing::debug;

impl<D: Device> NodeShared<D> {
    /// Nodes that the connector has to find.
    pub(crate) fn sought(&self) -> Vec<NodeId> {
        let core = lock(&self.core);
        let mut sought = core.engine.sought();
        sought.retain(|node| !core.links.contains_key(node));
        sought
    }

    /// There is a session with a node on a host, perhaps in the place of one that has ended.
    pub(crate) fn connected(&self, node: NodeId, host: u32, session: Session<D>) {
        // What has woken the connector is the service thread's from now on.
        let quiet = session.notify(EventMask::empty(), None);
        let link = quiet
            .map_err(|_| End::Gone)
            .and_then(|()| Link::new(session));
        let Ok(mut core) = self.alive() else {
            return;
        };
        match link {
            Ok(link) => {
                debug!("a session with {node} begins");
                let number = core.relink(node, host, link);
                self.watch(&core, node, number);
            }
            Err(end) if !core.links.contains_key(&node) => core.engine.down(node, end),
            Err(_) => {}
        }
        self.settle(&mut core);
    }

    /// Let the service thread look after a new link.
    pub(super) fn watch(&self, core: &Core<D>, node: NodeId, number: u64) {
        let Some(linked) = core.links.get(&node) else {
            return;
        };
        if let Some(session) = linked.link.session() {
            // One that cannot be watched has ended, which whoever looks next sees.
            let _ = session.watch(NEWS, number);
        }
        linked.attention.note_news();
        linked.attention.list(&self.service, number);
    }

    /// A node is not there, or cannot be reached.
    pub(crate) fn unreachable(&self, node: NodeId, end: End) {
        let Ok(mut core) = self.alive() else {
            return;
        };
        if !core.links.contains_key(&node) {
            core.engine.down(node, end);
            self.settle(&mut core);
        }
    }

    /// Whether a node of a host that asks may have a session: what those of one host can make this one
    /// keep is limited, whatever domains they are of.
    pub(crate) fn has_room_for(&self, node: NodeId, host: u32) -> bool {
        let core = lock(&self.core);
        let others = core.links.iter().map(|(id, linked)| (*id, linked.host));
        has_room_for(node, host, others)
    }

    /// End everything, for the fabric has ended under the node: the process has closed the descriptor.
    pub(super) fn fail(&self) {
        // A node that has been finalized has ended.
        let _ = self.with(|core| {
            for node in core.links.keys().copied().collect::<Vec<_>>() {
                core.unlink(node, End::Down);
            }
            core.engine.fail();
            Ok(())
        });
        self.connector.stop();
    }

    /// Give up connects that other nodes have not answered for too long, and sessions with nodes that
    /// take nothing.
    pub(crate) fn age(&self) {
        let Ok(mut core) = self.alive() else {
            return;
        };
        for node in core.engine.age() {
            match core.links.contains_key(&node) {
                true => core.unlink(node, End::Broken),
                false => core.engine.down(node, End::Down),
            }
        }
        self.settle(&mut core);
    }
}
