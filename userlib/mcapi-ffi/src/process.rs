// SPDX-License-Identifier: MIT OR Apache-2.0

//! The node that this process is (MC-INIT-9).
//!
//! A call holds the node's lock for reading until it returns, also while it waits. `mcapi_finalize`
//! ends the node first, upon which calls that wait return, and then takes the lock for writing: when
//! it returns, they have left (MC-FINAL-4). A forked child is no node (MC-GEN-15): it has a
//! [`Process`] of its own.

use crate::{
    answer::Answer,
    operations::{Begun, Operations},
    sent::Sent,
    sys,
};
use mcapi::{Device, Error, Fabric, Node, NodeAttributes, Parameters, Result, Topology};
use mp_c_abi::Out;
use std::sync::{Mutex, PoisonError, RwLock};

/// How a process gets at the fabric.
pub type Load<D> = &'static (dyn Fn() -> Result<(Fabric<D>, Topology)> + Sync);

/// What a process is.
pub struct Process<D: Device> {
    load: Load<D>,
    node: RwLock<Option<State<D>>>,
    /// Held while the process becomes a node.
    starting: Mutex<()>,
}

/// A node, and what the program has to do with it.
pub struct State<D: Device> {
    pub node: Node<D>,
    pub operations: Operations,
    pub sent: Sent,
    /// Where `impl_info` leads to; it does not move until the node is finalized.
    pub implementation: Box<sys::impl_info_t>,
}

impl<D: Device> Process<D> {
    /// One that is no node.
    pub fn new(load: Load<D>) -> Self {
        Process {
            load,
            node: RwLock::new(None),
            starting: Mutex::new(()),
        }
    }

    /// Do something as the node that the process is.
    ///
    /// # Errors
    /// [`Error::NodeNotInit`] (MC-GEN-3); the function's.
    pub fn with<T>(&self, act: impl FnOnce(&State<D>) -> Result<T>) -> Result<T> {
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        act(node.as_ref().ok_or(Error::NodeNotInit)?)
    }

    /// Begin an operation of the node, and give the program its request: 0 if there is none
    /// (MC-GEN-6).
    pub fn begin(
        &self,
        request: Out<u32>,
        start: impl FnOnce(&State<D>) -> Result<Begun>,
    ) -> Answer<()> {
        let answer = Answer::from(self.with(|state| state.begin(request, start)));
        if answer.is_error() {
            request.write(0);
        }
        answer
    }

    /// Become a node, and tell of it.
    ///
    /// # Errors
    /// [`Error::NodeInitialized`] (MC-INIT-2); those of [`Node::with_parameters`].
    pub fn initialize<T>(
        &self,
        domain: u32,
        node: u32,
        attributes: NodeAttributes,
        parameters: Parameters,
        tell: impl FnOnce(&State<D>, &Topology) -> T,
    ) -> Result<T> {
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_node() {
            return Err(Error::NodeInitialized);
        }
        let (fabric, topology) = (self.load)()?;
        let host = fabric.host().map_err(|error| {
            tracing::error!("the node cannot be initialized: {error}");
            Error::NodeInitFailed
        })?;
        let places = topology.clone();
        let state = State {
            node: Node::with_parameters(fabric, places, domain, node, attributes, parameters)?,
            operations: Operations::default(),
            sent: Sent::default(),
            implementation: Box::new(sys::impl_info_t {
                size: size_of::<sys::impl_info_t>() as u32,
                host,
            }),
        };
        let told = tell(&state, &topology);
        *self.node.write().unwrap_or_else(PoisonError::into_inner) = Some(state);
        Ok(told)
    }

    /// Whether it is a node.
    pub fn is_node(&self) -> bool {
        self.with(|_| Ok(())).is_ok()
    }

    /// Be a node no longer. Calls have returned then.
    ///
    /// # Errors
    /// [`Error::NodeNotInit`]: also for all but one of several threads that finalize.
    pub fn finalize(&self) -> Result<()> {
        self.with(|state| state.node.finalize())?;
        *self.node.write().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}
