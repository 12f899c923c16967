// SPDX-License-Identifier: MIT OR Apache-2.0

//! Structures and attributes of `mcapi.h`, made of values of the crate `mcapi` and the other way
//! round.

use crate::{process::State, sys};
use mcapi::{
    Attribute, Device, Error, NodeAttributes, Parameters, Result, Topology, DOMAIN_MAX, NODE_MAX,
    PORT_MAX,
};
use mp_c_abi::{In, Input, Null};

/// The version of the specification, and of this library: hexadecimal, three digits minor.
const VERSION: u32 = 0x2000;

/// What marks attributes of a node that were initialized.
const ATTRIBUTES_MAGIC: u32 = 0x4D43_4E31;
const ATTRIBUTES_VERSION: u32 = 1;

/// What `mcapi_initialize` tells (MC-INIT-5).
pub fn info<D: Device>(state: &State<D>, topology: &Topology) -> sys::mcapi_info_t {
    let domains = topology.domains().map(|count| count as u32);
    sys::mcapi_info_t {
        mcapi_version: VERSION,
        organization_id: sys::MCA_ORG_ID_TBA,
        implementation_version: VERSION,
        number_of_domains: domains.unwrap_or(DOMAIN_MAX + 1),
        number_of_nodes: NODE_MAX + 1,
        number_of_ports: PORT_MAX + 1,
        impl_info: (&raw const *state.implementation).cast_mut(),
    }
}

/// Return what a program passes to `mcapi_initialize`: NULL, or what was never initialized, is
/// none.
///
/// # Errors
/// [`Error::Parameter`].
pub fn parameters(parameters: In<sys::mcapi_param_t>) -> Result<Parameters> {
    let usual = Parameters::default();
    let given = match parameters.read() {
        Ok(given) if given.magic == sys::MCAPI_PARAM_MAGIC => given,
        _ => return Ok(usual),
    };
    let is_good = given.size as usize == size_of::<sys::mcapi_param_t>()
        && given.flags & !sys::MCAPI_PARAM_STRICT == 0
        && given.reserved.iter().all(|word| *word == 0);
    if !is_good {
        return Err(Error::Parameter);
    }
    let or = |limit, usual| match limit {
        0 => usual,
        limit => limit as usize,
    };
    Ok(Parameters {
        endpoints: or(given.max_endpoints, usual.endpoints),
        requests: or(given.max_requests, usual.requests),
        is_strict: given.flags & sys::MCAPI_PARAM_STRICT != 0,
    })
}

/// Attributes of a node that have their defaults (MC-NATTRINIT-1).
pub fn default_attributes() -> sys::mcapi_node_attributes_t {
    let unset = sys::mcapi_node_attributes_t__bindgen_ty_1 {
        valid: 0,
        reserved: [0; 3],
        bytes: 0,
        value: 0,
    };
    sys::mcapi_node_attributes_t {
        magic: ATTRIBUTES_MAGIC,
        version: ATTRIBUTES_VERSION,
        entries: [unset; 8],
    }
}

/// Refuse attributes of a node that were never initialized (MC-NATTRSET-4).
///
/// # Errors
/// [`Error::Parameter`].
pub fn check_attributes(attributes: &sys::mcapi_node_attributes_t) -> Result<()> {
    let is_good = attributes.magic == ATTRIBUTES_MAGIC && attributes.version == ATTRIBUTES_VERSION;
    is_good.then_some(()).ok_or(Error::Parameter)
}

/// Attributes of a node, as the crate has them.
///
/// # Errors
/// [`Error::Parameter`].
pub fn node_attributes(attributes: &sys::mcapi_node_attributes_t) -> Result<NodeAttributes> {
    check_attributes(attributes)?;
    let mut made = NodeAttributes::default();
    for (number, entry) in (0..).zip(&attributes.entries) {
        if entry.valid != 0 {
            made.set(number, entry.value)
                .map_err(|_| Error::Parameter)?;
        }
    }
    Ok(made)
}

/// Bytes of an attribute of an endpoint in C.
pub fn size(attribute: Attribute) -> usize {
    match attribute {
        Attribute::GetSource => size_of::<sys::mcapi_endp_attr_get_source_t>(),
        _ => size_of::<u32>(),
    }
}

/// An attribute of an endpoint as C has it: words of 32 bits.
pub fn words(attribute: Attribute, value: u64) -> Vec<u8> {
    let [upper, lower] = [(value >> 32) as u32, value as u32];
    match attribute {
        // The domain, and the node.
        Attribute::GetSource => [upper.to_ne_bytes(), lower.to_ne_bytes()].concat(),
        _ => lower.to_ne_bytes().to_vec(),
    }
}

/// An attribute of one word, as C has it.
///
/// # Errors
/// [`Error::Parameter`]: NULL; [`Error::AttributeSize`] (MC-ATTR-2).
pub fn word(attribute: Input<u8>) -> Result<u64> {
    attribute.required().map_err(|Null| Error::Parameter)?;
    if attribute.len() != size_of::<u32>() {
        return Err(Error::AttributeSize);
    }
    let bytes = attribute.copy().map_err(|Null| Error::Parameter)?;
    let bytes = bytes.try_into().map_err(|_| Error::AttributeSize)?;
    Ok(u32::from_ne_bytes(bytes).into())
}
