// SPDX-License-Identifier: MIT OR Apache-2.0

//! Moving what there is to move: what calls have led to, and what threads of the program that look
//! find on all links and channels.

use super::{core::Core, NodeShared};
use crate::{NodeId, Result};
use mp_fabric::Device;
use std::sync::MutexGuard;

/// How often what has been done is sent, with what that has led to, before others get a turn.
const ROUNDS: usize = 4;

impl<D: Device> NodeShared<D> {
    /// Send what has come up on the links that it is for, and do what has come of it. Whether a
    /// thread of the program was woken.
    pub(super) fn settle(&self, core: &mut Core<D>) -> bool {
        self.settle_within(core, ROUNDS)
    }

    pub(super) fn settle_within(&self, core: &mut Core<D>, rounds: usize) -> bool {
        if core.engine.is_quiet() {
            return false;
        }
        // What has been done leads to answers; those of others can wait for a next time.
        for _ in 0..rounds {
            let changes = core.engine.changes();
            for _ in 0..changes {
                if let Some(node) = core.engine.next_changed() {
                    core.progress(node, &self.service);
                }
            }
            if !self.follow_news(core) && changes == 0 {
                break;
            }
        }
        // What the last round has led to is the service thread's to send.
        while self.follow_news(core) {}
        while let Some(node) = core.engine.next_changed() {
            self.look_after(core, node);
        }
        if core.engine.seeks() {
            self.connector.wake.ring();
        }
        let woken = core.wake();
        if woken {
            self.service.kick_leader();
        }
        woken
    }

    /// Let the service thread see to what could not be sent on a link.
    pub(super) fn look_after(&self, core: &mut Core<D>, node: NodeId) {
        if let Some(linked) = core.links.get(&node) {
            if core.engine.has_to_send(node) || linked.link.owes_signal() {
                linked.attention.list(&self.service, linked.number);
            }
        }
    }

    /// Move frames of all links and data of all channels that something waits for.
    pub(super) fn move_all(&self, core: &mut Core<D>) -> bool {
        let mut moved = core.progress_all(&self.service);
        moved |= self.move_data(core);
        self.settle(core);
        moved
    }

    /// Move frames for a call that does not wait.
    pub(super) fn look(&self) -> Result<MutexGuard<'_, Core<D>>> {
        let mut core = self.alive()?;
        self.move_all(&mut core);
        Ok(core)
    }

    /// The threads of the program look no more: partners have to signal.
    pub(super) fn unwatch(&self, core: &mut Core<D>) {
        for linked in core.links.values_mut() {
            linked.link.remind();
            linked.attention.unwatch(&self.service);
        }
        for pipe in core.busy.values() {
            pipe.remind();
            pipe.attention.unwatch(&self.service);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        attributes::{Attribute, NodeAttributes},
        node::LOOK,
        request::By,
        Node, Topology,
    };
    use mp_fabric::Fabric;
    use mp_queue_pair::Piece;
    use mp_testing::{Host, World};

    /// What a call has no turn left to send, the service thread sends.
    #[test]
    fn what_the_rounds_leave_is_sent() {
        let world = World::new(1, 8 << 20);
        world.set_loopback(8 << 20);
        let [a, b] = [1, 2].map(|number| {
            let fabric = Fabric::with_device(world.open(Host::A));
            let attributes = NodeAttributes::default();
            Node::with_fabric(fabric, Topology::default(), 0, number, attributes).unwrap()
        });
        let [from, to] = [&a, &b].map(|node| node.endpoint_create(None).unwrap());
        b.set_endpoint_attribute(to, Attribute::Timeout, 10_000)
            .unwrap();
        a.msg_send(from, to, b"first", 1).unwrap();
        assert_eq!(b.msg_take(to, 8).unwrap().0[..], *b"first");
        // Until the service threads sleep.
        std::thread::sleep(10 * LOOK);
        let mut core = a.0.alive().unwrap();
        core.engine
            .send(from, to, Piece::Bytes(b"left"), 1, By::Program)
            .unwrap();
        a.0.settle_within(&mut core, 0);
        drop(core);
        assert_eq!(b.msg_take(to, 8).unwrap().0[..], *b"left");
    }
}
