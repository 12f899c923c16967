// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes, their attributes, and names of statuses.

use super::{place, required};
use crate::{
    answer::Number,
    process::{Process, State},
    structures, sys,
};
use mcapi::{Device, Error, NodeAttributes, NodeState, Result};
use mp_c_abi::{In, Input, Null, Out, Room};
use std::ffi::c_char;

/// Become a node (MC-INIT-1 to MC-INIT-8).
pub fn initialize<D: Device>(
    process: &Process<D>,
    domain: u32,
    node: u32,
    attributes: In<sys::mcapi_node_attributes_t>,
    parameters: In<sys::mcapi_param_t>,
    info: Out<sys::mcapi_info_t>,
) -> Result<()> {
    let start = sys::MCAPI_TRUE as sys::mcapi_boolean_t;
    initialize2(process, domain, node, attributes, parameters, info, start)
}

/// Become a node that is running, or is to be started (MC-INIT2-1).
pub fn initialize2<D: Device>(
    process: &Process<D>,
    domain: u32,
    node: u32,
    attributes: In<sys::mcapi_node_attributes_t>,
    parameters: In<sys::mcapi_param_t>,
    info: Out<sys::mcapi_info_t>,
    start: sys::mcapi_boolean_t,
) -> Result<()> {
    if process.is_node() {
        return Err(Error::NodeInitialized);
    }
    let parameters = structures::parameters(parameters)?;
    let mut attributes = match attributes.read() {
        Ok(given) => structures::node_attributes(&given)?,
        Err(Null) => NodeAttributes::default(),
    };
    if u32::from(start) == sys::MCAPI_FALSE {
        attributes.state = NodeState::Initialized;
    }
    required(info)?;
    let told = process.initialize(domain, node, attributes, parameters, structures::info)?;
    info.write(told);
    Ok(())
}

/// Be a node no longer (MC-FINAL-1 to MC-FINAL-4).
pub fn finalize<D: Device>(process: &Process<D>) -> Result<()> {
    process.finalize()
}

/// Mark this node as running (MC-NSTART-1).
pub fn node_start<D: Device>(state: &State<D>) -> Result<()> {
    state.node.mark(NodeState::Running)
}

/// Mark this node as running down (MC-NRUNDOWN-1).
pub fn node_rundown<D: Device>(state: &State<D>) -> Result<()> {
    state.node.mark(NodeState::RunningDown)
}

/// The domain of this node (MC-DOMID-1).
pub fn domain_id_get<D: Device>(state: &State<D>) -> Result<Number> {
    Ok(Number(state.node.id()?.domain()))
}

/// The number of this node in its domain (MC-NODEID-1).
pub fn node_id_get<D: Device>(state: &State<D>) -> Result<Number> {
    Ok(Number(state.node.id()?.node()))
}

/// Give attributes of a node their defaults (MC-NATTRINIT-1).
pub fn node_init_attributes<D: Device>(
    _process: &Process<D>,
    attributes: Out<sys::mcapi_node_attributes_t>,
) -> Result<()> {
    required(attributes)?.write(structures::default_attributes());
    Ok(())
}

/// Set an attribute of a node that is initialized later (MC-NATTRSET-1 to MC-NATTRSET-4).
pub fn node_set_attribute<D: Device>(
    _process: &Process<D>,
    attributes: Out<sys::mcapi_node_attributes_t>,
    number: u32,
    attribute: Input<u8>,
) -> Result<()> {
    let mut changed = attributes.read().map_err(|Null| Error::Parameter)?;
    structures::check_attributes(&changed)?;
    attribute.required().map_err(|Null| Error::Parameter)?;
    NodeAttributes::default().get(number)?;
    let value = structures::word(attribute)?;
    NodeAttributes::default().set(number, value)?;
    let entry = changed.entries.get_mut(number as usize);
    let entry = entry.ok_or(Error::AttributeNumber)?;
    entry.valid = 1;
    entry.bytes = attribute.len() as u32;
    entry.value = value;
    attributes.write(changed);
    Ok(())
}

/// Tell an attribute of any node (MC-NATTRGET-1, MC-NATTRGET-2).
pub fn node_get_attribute<D: Device>(
    state: &State<D>,
    domain: u32,
    node: u32,
    number: u32,
    attribute: Room<u8>,
) -> Result<()> {
    place(attribute)?;
    let value = state.node.node_attribute(domain, node, number)?;
    if attribute.len() != size_of::<u32>() {
        return Err(Error::AttributeSize);
    }
    attribute.fill(&(value as u32).to_ne_bytes());
    Ok(())
}

/// Write the name of a status, as far as there is room, and a NUL; no name for what is none
/// (MC-DISP-1 to MC-DISP-3). Whether there was room for the NUL.
pub fn display_status(status: u32, message: Room<c_char>) -> bool {
    let most = message.len().checked_sub(1);
    let Some(most) = most.filter(|_| message.address() != 0) else {
        return false;
    };
    let name = match status {
        sys::MCAPI_SUCCESS => "MCAPI_SUCCESS",
        sys::MCAPI_PENDING => "MCAPI_PENDING",
        error => Error::of(error).map_or("", Error::name),
    };
    let kept = name.bytes().take(most).chain([0]);
    let kept: Vec<c_char> = kept.map(|byte| byte as c_char).collect();
    message.fill(&kept);
    true
}
