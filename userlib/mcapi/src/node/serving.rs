// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the service thread looks after, or a thread of the program in its place: links to other nodes,
//! and the data of channels.

use super::NodeShared;
use crate::{lock, pipe::Pipe, NodeId};
use mp_fabric::{Deadline, Device, Fabric};
use mp_queue_pair::provider::{
    Answer, Attention, NotNow, Owner, Question, Rest, Role, Served, Service,
};
use std::sync::Arc;

/// What the service thread looks after: a link, or the data of a channel.
pub(crate) enum Tie<D: Device> {
    Link(NodeId, Arc<Attention>),
    Pipe(Arc<Pipe<D>>),
}

impl<D: Device> Clone for Tie<D> {
    fn clone(&self) -> Self {
        match self {
            Tie::Link(node, attention) => Tie::Link(*node, Arc::clone(attention)),
            Tie::Pipe(pipe) => Tie::Pipe(Arc::clone(pipe)),
        }
    }
}

impl<D: Device> Tie<D> {
    pub(super) fn attention(&self) -> &Attention {
        match self {
            Tie::Link(_, attention) => attention,
            Tie::Pipe(pipe) => &pipe.attention,
        }
    }
}

/// The same for the service thread.
pub(crate) struct Tied<D: Device> {
    node: Arc<NodeShared<D>>,
    tie: Tie<D>,
    number: u64,
}

impl<D: Device> Served for Tied<D> {
    fn attention(&self) -> &Attention {
        self.tie.attention()
    }

    fn serve(&self) -> bool {
        self.node.serve(&self.tie)
    }

    fn has_work(&self) -> bool {
        self.node.has_work(&self.tie)
    }

    fn rest(&self, until: Deadline) -> Rest {
        self.node.rest(&self.tie, self.number, until)
    }
}

/// What the service thread is of.
pub(crate) struct Own<D: Device>(pub(crate) Arc<NodeShared<D>>);

impl<D: Device> Owner for Own<D> {
    type Device = D;
    type Link = Tied<D>;

    fn service(&self) -> &Service {
        &self.0.service
    }

    fn role(&self) -> &Role<Tied<D>> {
        &self.0.role
    }

    fn fabric(&self) -> &Fabric<D> {
        &self.0.fabric
    }

    fn link(&self, number: u64) -> Option<Tied<D>> {
        let tie = lock(&self.0.core).ties.get(&number).cloned()?;
        let node = Arc::clone(&self.0);
        Some(Tied { node, tie, number })
    }

    fn fail(&self) {
        self.0.fail();
    }
}

impl<D: Device> NodeShared<D> {
    /// Move messages of a link for the service thread; whether there were any.
    fn serve(&self, tie: &Tie<D>) -> bool {
        let Ok(mut core) = self.core.try_lock() else {
            return false;
        };
        if !core.alive {
            return false;
        }
        let moved = match tie {
            Tie::Link(node, _) => core.progress(*node, &self.service),
            Tie::Pipe(pipe) => self.move_in_turn(&mut core, pipe),
        };
        if self.settle(&mut core) {
            // Who was woken goes on with it.
            tie.attention().hand_over();
        }
        moved
    }

    /// Whether there is something on a link that nobody has received. Nobody receives meanwhile.
    fn has_work(&self, tie: &Tie<D>) -> bool {
        let Ok(core) = self.core.try_lock() else {
            return false;
        };
        match tie {
            Tie::Link(node, _) => {
                let linked = core.links.get(node);
                linked.is_some_and(|linked| linked.link.has_news())
            }
            Tie::Pipe(pipe) => pipe.has_work(),
        }
    }

    /// Ask the other node of a link for signals.
    fn rest(&self, tie: &Tie<D>, number: u64, until: Deadline) -> Rest {
        let question = match self.question(tie, number) {
            Ok(question) => question,
            Err(rest) => return rest,
        };
        let answer = question.ask(&self.fabric, until);
        let mut core = lock(&self.core);
        let (answer, owes) = match tie {
            Tie::Link(node, _) => match core.links.get_mut(node) {
                Some(linked) if linked.number == number => {
                    (linked.link.answered(answer), linked.link.owes_signal())
                }
                _ => return Rest::Over,
            },
            Tie::Pipe(pipe) => (pipe.answered(answer), pipe.owes_signal()),
        };
        match answer {
            // Asking has published, for which the partner may have to be woken.
            Answer::Surely if owes => Rest::Nap,
            Answer::Surely => Rest::Armed,
            Answer::Perhaps => Rest::Nap,
            Answer::Busy => Rest::Busy,
        }
    }

    /// What the other node's host is asked; nothing if the link rests, or must not, without that.
    fn question(&self, tie: &Tie<D>, number: u64) -> Result<Question<D>, Rest> {
        let Ok(mut core) = self.core.try_lock() else {
            return Err(Rest::Nap);
        };
        if !core.alive {
            return Err(Rest::Over);
        }
        if tie.attention().has_news() {
            return Err(Rest::Busy);
        }
        // Before anything is noted as asked for that will not be.
        if tie.attention().is_watched() {
            return Err(Rest::Nap);
        }
        let armed = match tie {
            Tie::Link(node, _) => {
                let waits = core.engine.has_to_send(*node);
                let linked = core.links.get_mut(node);
                let linked = linked.filter(|linked| linked.number == number);
                let linked = linked.ok_or(Rest::Over)?;
                if linked.link.owes_signal() {
                    return Err(Rest::Nap);
                }
                linked.link.arm(waits)
            }
            Tie::Pipe(pipe) if !pipe.is_busy() => return Err(Rest::Over),
            Tie::Pipe(pipe) if pipe.owes_signal() => return Err(Rest::Nap),
            Tie::Pipe(pipe) => pipe.arm(),
        };
        match armed {
            Ok(question) => question.ok_or(Rest::Armed),
            Err(NotNow) => Err(Rest::Busy),
        }
    }
}
