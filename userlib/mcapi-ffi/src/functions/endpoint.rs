// SPDX-License-Identifier: MIT OR Apache-2.0

//! Endpoints and their attributes.

use super::{endpoint, place, required};
use crate::{
    operations::{Begun, Destination},
    process::State,
    structures, sys,
};
use mcapi::{Attribute, Deadline, Device, Endpoint, Error, Result};
use mp_c_abi::{Input, Null, Out, Room};

/// Make an endpoint of a port, or of one that is free (MC-EPCREATE-1 to MC-EPCREATE-7).
pub fn endpoint_create<D: Device>(state: &State<D>, port: u32) -> Result<u64> {
    let port = (port != u32::MAX).then_some(port);
    Ok(state.node.endpoint_create(port)?.to_raw())
}

/// Begin to wait until an endpoint exists (MC-EPGETI-1 to MC-EPGETI-6).
pub fn endpoint_get_i<D: Device>(
    state: &State<D>,
    domain: u32,
    node: u32,
    port: u32,
    endpoint: Out<u64>,
) -> Result<Begun> {
    let destination = Destination::Endpoint(required(endpoint)?);
    let request = state.node.endpoint_get_i(domain, node, port)?;
    Ok(Begun::plain(request, destination))
}

/// Wait until an endpoint exists (MC-EPGET-1 to MC-EPGET-4).
pub fn endpoint_get<D: Device>(
    state: &State<D>,
    domain: u32,
    node: u32,
    port: u32,
    timeout: u32,
) -> Result<u64> {
    let deadline = Deadline::after_milliseconds(timeout);
    let found = state.node.endpoint_get(domain, node, port, deadline)?;
    Ok(found.to_raw())
}

/// Take an endpoint away (MC-EPDEL-1 to MC-EPDEL-7).
pub fn endpoint_delete<D: Device>(state: &State<D>, raw: u64) -> Result<()> {
    state.node.endpoint_delete(endpoint(raw)?)
}

/// Tell an attribute of any endpoint (MC-EPATTRGET-1 to MC-EPATTRGET-3).
pub fn endpoint_get_attribute<D: Device>(
    state: &State<D>,
    raw: u64,
    number: u32,
    attribute: Room<u8>,
) -> Result<()> {
    place(attribute)?;
    let endpoint = endpoint(raw)?;
    let known = match Attribute::of(number) {
        Ok(known) => known,
        // That there is such an endpoint matters first.
        Err(error) => {
            state.node.endpoint_attribute(endpoint, Attribute::Type)?;
            return Err(error);
        }
    };
    let value = state.node.endpoint_attribute(endpoint, known)?;
    if attribute.len() != structures::size(known) {
        return Err(Error::AttributeSize);
    }
    attribute.fill(&structures::words(known, value));
    Ok(())
}

/// Set an attribute of an endpoint of this node (MC-EPATTRSET-1 to MC-EPATTRSET-5).
pub fn endpoint_set_attribute<D: Device>(
    state: &State<D>,
    raw: u64,
    number: u32,
    attribute: Input<u8>,
) -> Result<()> {
    attribute.required().map_err(|Null| Error::Parameter)?;
    let endpoint = endpoint(raw)?;
    let (known, value) = match value(number, attribute) {
        Ok(given) => given,
        // Whose endpoint it is, and whether it is connected, matters first.
        Err(error) => {
            check_settable(state, endpoint)?;
            return Err(error);
        }
    };
    state.node.set_endpoint_attribute(endpoint, known, value)
}

/// The attribute of a number, and what a program wants it to be; anything for one that cannot be
/// set.
///
/// # Errors
/// [`Error::AttributeNumber`], [`Error::AttributeSize`].
fn value(number: u32, attribute: Input<u8>) -> Result<(Attribute, u64)> {
    let known = Attribute::of(number)?;
    match known {
        _ if attribute.len() != structures::size(known) => Err(Error::AttributeSize),
        Attribute::GetSource => Ok((known, 0)),
        _ => Ok((known, structures::word(attribute)?)),
    }
}

/// # Errors
/// [`Error::EndpointRemote`]; [`Error::EndpointInvalid`]; [`Error::ChannelConnected`].
fn check_settable<D: Device>(state: &State<D>, endpoint: Endpoint) -> Result<()> {
    if endpoint.node() != state.node.id()? {
        return Err(Error::EndpointRemote);
    }
    let status = state.node.endpoint_attribute(endpoint, Attribute::Status)?;
    match status & u64::from(sys::MCAPI_ENDP_ATTR_STATUS_CONNECTED) {
        0 => Ok(()),
        _ => Err(Error::ChannelConnected),
    }
}
