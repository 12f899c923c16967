// SPDX-License-Identifier: MIT OR Apache-2.0

//! Nodes, names, and what is known of adapters and objects.

use super::{run, Error};
use crate::{
    buffer::{Output, Query},
    functions, query, sys,
    table::Handle,
};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

/// A text of the program; nothing if it is NULL or no text.
///
/// # Safety
/// The pointer is NULL, or leads to a text that ends with NUL.
unsafe fn text(start: *const c_char) -> Option<String> {
    if start.is_null() {
        return None;
    }
    // SAFETY: The caller's promise.
    let text = unsafe { CStr::from_ptr(start) };
    Some(text.to_string_lossy().into_owned())
}

export! {
    /// Tells whether a node answers: 1 or 0.
    fn SCIProbeNode(
        sd: sys::sci_desc_t,
        local_adapter_no: c_uint,
        node_id: c_uint,
        flags: c_uint,
        error: Error,
    ) -> c_int {
        let found = run(error, |process| {
            functions::probe_node(
                process,
                Handle::from_pointer(sd),
                local_adapter_no,
                node_id,
                flags,
            )
            .map(|()| true)
        });
        found.into()
    }

    /// Tells what is asked for.
    fn SCIQuery(command: c_uint, data: *mut c_void, flags: c_uint, error: Error) {
        // SAFETY: The caller's promise.
        let query = unsafe { Query::new(data) };
        run(error, |process| {
            query::query(process, command, query, flags)
        });
    }

    /// Tells this host's node id at an adapter.
    fn SCIGetLocalNodeId(adapter_no: c_uint, node_id: *mut c_uint, flags: c_uint, error: Error) {
        // SAFETY: The caller's promise.
        let out0 = unsafe { Output::new(node_id) };
        run(error, |process| {
            functions::local_node_id(process, adapter_no, out0, flags)
        });
    }

    /// Tells the node ids of a name.
    fn SCIGetNodeIdByAdapterName(
        adaptername: *mut c_char,
        node_id: *mut sys::dis_nodeId_list_t,
        type_: *mut sys::dis_adapter_type_t,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise.
        let (name, nodes, kind) =
            unsafe { (text(adaptername), Output::new(node_id), Output::new(type_)) };
        run(error, |process| {
            functions::nodes_by_name(process, name.as_deref(), None, nodes, kind, flags)
        });
    }

    /// Tells the node ids and adapters of a name.
    fn SCIGetNodeInfoByAdapterName(
        adaptername: *mut c_char,
        adapter_no: *mut c_uint,
        node_idlist: *mut sys::dis_nodeId_list_t,
        type_: *mut sys::dis_adapter_type_t,
        flags: c_uint,
        error: Error,
    ) {
        // SAFETY: The caller's promise; there are as many adapters as node ids.
        let (name, adapters, nodes, kind) = unsafe {
            (
                text(adaptername),
                Output::new(adapter_no.cast()),
                Output::new(node_idlist),
                Output::new(type_),
            )
        };
        run(error, |process| {
            functions::nodes_by_name(process, name.as_deref(), Some(adapters), nodes, kind, flags)
        });
    }
}
