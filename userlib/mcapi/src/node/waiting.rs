// SPDX-License-Identifier: MIT OR Apache-2.0

//! Threads of the program that wait: they look for a while, and then sleep until one of their requests
//! is over.

use super::{core::Core, NodeShared, Own, LOOK};
use crate::{lock, wire::End, Deadline, Error, Outcome, Request, Result};
use mp_fabric::Device;
use mp_queue_pair::provider::{lead, Led};
use std::{
    hint::spin_loop,
    sync::{Arc, Condvar, MutexGuard},
    time::{Duration, Instant},
};

/// How long a node may take to receive the rest of a message whose sender has waited long enough.
const GRACE: Duration = Duration::from_secs(2);
/// How long a call sleeps that there is no memory for, before it tries again.
const NAP: Duration = Duration::from_millis(1);

/// Looks between two looks at the clock.
const LOOKS: usize = 16;

/// A thread that sleeps until one of some requests is over.
pub(super) struct Sleeper {
    pub(super) requests: Vec<Request>,
    pub(super) woken: Arc<Condvar>,
    /// It serves meanwhile, and looks itself.
    pub(super) leads: bool,
}

impl<D: Device> NodeShared<D> {
    /// Wait until there is an answer for requests: look for a while from `begun` on, then sleep.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::NodeNotInit`]: also if the node is finalized meanwhile.
    pub(super) fn wait<T>(
        self: &Arc<Self>,
        requests: &[Request],
        begun: Instant,
        deadline: Deadline,
        mut answer: impl FnMut(&mut Core<D>) -> Option<T>,
    ) -> Result<T> {
        let found = look_for(begun, deadline, || Ok(answer(&mut *self.look()?)))?;
        if let Some(answer) = found {
            return Ok(answer);
        }
        self.unwatch(&mut *self.alive()?);
        loop {
            let mut core = self.alive()?;
            if let Some(answer) = answer(&mut core) {
                return Ok(answer);
            }
            if is_over(deadline) {
                return Err(Error::Timeout);
            }
            self.sleep(core, requests, deadline);
        }
    }

    /// Wait until one of some requests is over, serving meanwhile unless somebody else does.
    pub(super) fn sleep(
        self: &Arc<Self>,
        mut core: MutexGuard<'_, Core<D>>,
        requests: &[Request],
        deadline: Deadline,
    ) {
        let woken = Arc::new(Condvar::new());
        core.sleepers.push(Sleeper {
            requests: requests.into(),
            woken: Arc::clone(&woken),
            leads: true,
        });
        drop(core);
        let own = Own(Arc::clone(self));
        let led = lead(&own, deadline, || {
            let mut core = lock(&self.core);
            !core.alive || core.is_any_over(requests)
        });
        let mut core = lock(&self.core);
        if let Led::Follow(_follower) = led {
            if core.alive && !core.is_any_over(requests) {
                let is_this = |sleeper: &&mut Sleeper| Arc::ptr_eq(&sleeper.woken, &woken);
                if let Some(sleeper) = core.sleepers.iter_mut().find(is_this) {
                    sleeper.leads = false;
                }
                core = deadline.sleep_on(&woken, core);
            }
        }
        core.sleepers
            .retain(|sleeper| !Arc::ptr_eq(&sleeper.woken, &woken));
        if !core.alive && core.sleepers.is_empty() {
            // Whoever finalizes waits for that.
            self.slept.notify_all();
        }
    }

    /// Begin a request of a call and wait for its end, both until a deadline.
    ///
    /// # Errors
    /// What it cannot begin for, but no memory; as [`finish`](Self::finish).
    pub(super) fn call(
        self: &Arc<Self>,
        deadline: impl FnOnce(&Core<D>) -> Result<Deadline>,
        begin: impl Fn(&mut Core<D>) -> Result<Request>,
    ) -> Result<Outcome> {
        let deadline = deadline(&*self.alive()?)?;
        let (mut core, request) = begin_call(deadline, || {
            let mut core = self.alive()?;
            let begun = begin(&mut core);
            self.settle(&mut core);
            Ok((core, begun?))
        })?;
        if let Some(done) = core.take_done(request) {
            return Ok(done);
        }
        drop(core);
        self.finish(request, Instant::now(), deadline)
    }

    /// Wait for the end of a call's own request, and release it. One that is not done in time is
    /// withdrawn, unless it has started to be sent: then its end is near, or the other node does
    /// not take it, and the session with it ends.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub(super) fn finish(
        self: &Arc<Self>,
        request: Request,
        begun: Instant,
        deadline: Deadline,
    ) -> Result<Outcome> {
        let done = |core: &mut Core<D>| core.take_done(request);
        let waited = self.wait(&[request], begun, deadline, done);
        if waited != Err(Error::Timeout) {
            return waited;
        }
        let withdrawn = self.with(|core| match core.engine.started(request) {
            Some(_) => Ok(None),
            None => core.engine.cancel(request).map(Some),
        })?;
        match withdrawn {
            Some(done) => return done.ok_or(Error::Timeout),
            None => match self.wait(&[request], begun, Deadline::after(GRACE), done) {
                Err(Error::Timeout) => {}
                other => return other,
            },
        }
        self.with(|core| {
            if let Some(node) = core.engine.started(request) {
                core.unlink(node, End::Broken);
            }
            Ok(())
        })?;
        self.wait(&[request], begun, Deadline::NEVER, done)
    }
}

/// Look for something for as long as threads look, from `begun` on; nothing if it is not there by then.
///
/// # Errors
/// What the look fails with; [`Error::Timeout`].
pub(super) fn look_for<T>(
    begun: Instant,
    deadline: Deadline,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut looks = 1;
    loop {
        for _ in 0..looks {
            if let Some(found) = look()? {
                return Ok(Some(found));
            }
            spin_loop();
        }
        if is_over(deadline) {
            return Err(Error::Timeout);
        }
        if begun.elapsed() >= LOOK {
            return Ok(None);
        }
        looks = LOOKS;
    }
}

/// Whether nobody waits any more.
fn is_over(deadline: Deadline) -> bool {
    deadline.remaining().is_some_and(|left| left.is_zero())
}

/// Begin what a call that waits is for. Where there is no memory for that, it is begun when there is, before
/// a deadline (MC-MSGSEND-2).
///
/// # Errors
/// What it cannot begin for, but no memory; [`Error::Timeout`].
pub(super) fn begin_call<T>(deadline: Deadline, begin: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        match begin() {
            Err(Error::MemoryLimit) => nap(deadline)?,
            begun => return begun,
        }
    }
}

/// Sleep for a while, until there may be memory.
///
/// # Errors
/// [`Error::Timeout`]: the deadline is over.
fn nap(deadline: Deadline) -> Result<()> {
    let left = deadline.remaining().unwrap_or(NAP);
    if left.is_zero() {
        return Err(Error::Timeout);
    }
    std::thread::sleep(left.min(NAP));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        attributes::{Attribute, NodeAttributes},
        Node, Topology,
    };
    use mp_fabric::Fabric;
    use mp_testing::{Host, World};

    /// MC-CANCEL-2: a call whose request is not there any more ends, whether it looks or sleeps.
    #[test]
    fn a_call_ends_when_its_request_has_gone() {
        let world = World::new(1, 8 << 20);
        world.set_loopback(8 << 20);
        let fabric = Fabric::with_device(world.open(Host::A));
        let attributes = NodeAttributes::default();
        let node = Node::with_fabric(fabric, Topology::default(), 0, 1, attributes).unwrap();
        let endpoint = node.endpoint_create(None).unwrap();
        // It ends anyhow, if it does not end as it should.
        node.set_endpoint_attribute(endpoint, Attribute::Timeout, 10_000)
            .unwrap();
        for pause in [LOOK / 5, 5 * LOOK] {
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| node.msg_take(endpoint, 8));
                let pending = || node.0.with(|core| Ok(core.engine.requests().pending()));
                while pending().unwrap().is_empty() {
                    std::thread::yield_now();
                }
                std::thread::sleep(pause);
                let [request] = pending().unwrap()[..] else {
                    panic!("it waits for one");
                };
                let withdrawn = node.0.with(|core| core.engine.cancel(request));
                assert_eq!(withdrawn, Ok(None));
                assert_eq!(waits.join().unwrap(), Err(Error::RequestCancelled));
            });
        }
    }
}
