// SPDX-License-Identifier: MIT OR Apache-2.0

//! The exported functions, as `mcapi.h` and `mcapi_abb.h` declare them, and the function that does what each does.

use crate::{
    answer::{Answer, Number, Value},
    functions,
    operations::Begun,
    process::{Process, State},
    sys,
};
use mcapi::{CharDevice, Error, Fabric, Result, Topology};
use mp_c_abi::{export, guarded, In, Out, PerProcess, Room};
use std::{
    ffi::{c_char, c_void},
    ptr,
};

static PROCESSES: PerProcess<Process<CharDevice>> = PerProcess::new(&|_| Process::new(&load));

/// The fabric of this host, and the configuration file.
fn load() -> Result<(Fabric, Topology)> {
    let failed = |error: &dyn std::error::Error| {
        tracing::error!("the node cannot be initialized: {error}");
        Error::NodeInitFailed
    };
    let topology = Topology::load().map_err(|error| failed(&error))?;
    let fabric = Fabric::open().map_err(|error| failed(&error))?;
    Ok((fabric, topology))
}

/// Where a status goes.
type Status = Out<sys::mcapi_status_t>;

/// Run a function for the process that calls, and tell its status. Without a place for the status
/// nothing is done (MC-GEN-2). A panic is a defect of this library, for which there is the general
/// error.
fn answered<T: Value>(
    status: Status,
    function: impl FnOnce(&Process<CharDevice>) -> Answer<T>,
) -> T {
    if status.required().is_err() {
        return T::NONE;
    }
    let answer = guarded(|| function(PROCESSES.current()));
    let answer = answer.unwrap_or_else(|| Error::General.into());
    status.write(answer.status);
    answer.value.unwrap_or(T::NONE)
}

/// Run a function that needs no node.
fn run_anywhere<T: Value>(
    status: Status,
    function: impl FnOnce(&Process<CharDevice>) -> Result<T>,
) -> T {
    answered(status, |process| function(process).into())
}

/// Run a function of a node.
fn run<T: Value>(status: Status, function: impl FnOnce(&State<CharDevice>) -> Result<T>) -> T {
    answered(status, |process| process.with(function).into())
}

/// Run a function of a node that may find something pending.
fn run_answer<T: Value>(
    status: Status,
    function: impl FnOnce(&State<CharDevice>) -> Result<Answer<T>>,
) -> T {
    answered(status, |process| process.with(function).into())
}

/// Begin an operation. Without one, the program has no request (MC-GEN-6).
fn run_request(
    request: Out<sys::mcapi_request_t>,
    status: Status,
    function: impl FnOnce(&State<CharDevice>) -> Result<Begun>,
) {
    answered(status, |process| process.begin(request, function));
}

/// Run a function that has no status.
fn run_alone(function: impl FnOnce(&()) -> *mut c_char) -> *mut c_char {
    guarded(|| function(&())).unwrap_or(ptr::null_mut())
}

/// Write a name; the place that it was written to, or NULL.
fn named(_: &(), status: u32, message: *mut c_char, room: Room<c_char>) -> *mut c_char {
    match functions::display_status(status, room) {
        true => message,
        false => ptr::null_mut(),
    }
}

export! {
    header = sys; run = run_anywhere;

    /// Become a node.
    mcapi_initialize(
        domain: sys::mcapi_domain_t, node: sys::mcapi_node_t,
        attributes: In<sys::mcapi_node_attributes_t>, parameters: In<sys::mcapi_param_t>,
        info: Out<sys::mcapi_info_t>; status: Status
    ) = functions::initialize;

    /// Become a node, which is running or is to be started.
    mcapi_initialize2(
        domain: sys::mcapi_domain_t, node: sys::mcapi_node_t,
        attributes: In<sys::mcapi_node_attributes_t>, parameters: In<sys::mcapi_param_t>,
        info: Out<sys::mcapi_info_t>, start: sys::mcapi_boolean_t; status: Status
    ) = functions::initialize2;

    /// Be a node no longer.
    mcapi_finalize(; status: Status) = functions::finalize;

    /// Give attributes of a node their defaults.
    mcapi_node_init_attributes(
        attributes: Out<sys::mcapi_node_attributes_t>; status: Status
    ) = functions::node_init_attributes;

    /// Set an attribute of a node that is initialized later.
    mcapi_node_set_attribute(
        attributes: Out<sys::mcapi_node_attributes_t>, number: sys::mcapi_uint_t,
        attribute: *const c_void, size: usize; status: Status
    ) = functions::node_set_attribute(attributes, number, [attribute; size]);
}

export! {
    header = sys; run = run;

    /// Mark this node as running.
    mcapi_node_start(; status: Status) = functions::node_start;

    /// Mark this node as running down.
    mcapi_node_rundown(; status: Status) = functions::node_rundown;

    /// Tell the domain of this node.
    mcapi_domain_id_get(; status: Status) -> Number = functions::domain_id_get;

    /// Tell the number of this node.
    mcapi_node_id_get(; status: Status) -> Number = functions::node_id_get;

    /// Tell an attribute of a node.
    mcapi_node_get_attribute(
        domain: sys::mcapi_domain_t, node: sys::mcapi_node_t, number: sys::mcapi_uint_t,
        attribute: *mut c_void, size: usize; status: Status
    ) = functions::node_get_attribute(domain, node, number, [attribute; size]);

    /// Make an endpoint.
    mcapi_endpoint_create(port: sys::mcapi_port_t; status: Status) -> sys::mcapi_endpoint_t
        = functions::endpoint_create;

    /// Wait until an endpoint exists.
    mcapi_endpoint_get(
        domain: sys::mcapi_domain_t, node: sys::mcapi_node_t, port: sys::mcapi_port_t,
        timeout: sys::mcapi_timeout_t; status: Status
    ) -> sys::mcapi_endpoint_t = functions::endpoint_get;

    /// Take an endpoint away.
    mcapi_endpoint_delete(endpoint: sys::mcapi_endpoint_t; status: Status)
        = functions::endpoint_delete;

    /// Tell an attribute of an endpoint.
    mcapi_endpoint_get_attribute(
        endpoint: sys::mcapi_endpoint_t, number: sys::mcapi_uint_t, attribute: *mut c_void,
        size: usize; status: Status
    ) = functions::endpoint_get_attribute(endpoint, number, [attribute; size]);

    /// Set an attribute of an endpoint.
    mcapi_endpoint_set_attribute(
        endpoint: sys::mcapi_endpoint_t, number: sys::mcapi_uint_t, attribute: *const c_void,
        size: usize; status: Status
    ) = functions::endpoint_set_attribute(endpoint, number, [attribute; size]);

    /// Send a message.
    mcapi_msg_send(
        from: sys::mcapi_endpoint_t, to: sys::mcapi_endpoint_t, buffer: *const c_void, size: usize,
        priority: sys::mcapi_priority_t; status: Status
    ) = functions::msg_send(from, to, [buffer; size], priority);

    /// Receive a message.
    mcapi_msg_recv(
        endpoint: sys::mcapi_endpoint_t, buffer: *mut c_void, size: usize, received: Out<usize>;
        status: Status
    ) = functions::msg_recv(endpoint, [buffer; size], received);

    /// Count messages.
    mcapi_msg_available(endpoint: sys::mcapi_endpoint_t; status: Status) -> sys::mcapi_uint_t
        = functions::msg_available;

    /// Send a packet.
    mcapi_pktchan_send(
        channel: sys::mcapi_pktchan_send_hndl_t, buffer: *const c_void, size: usize; status: Status
    ) = functions::pktchan_send(channel, [buffer; size]);

    /// Receive a packet.
    mcapi_pktchan_recv(
        channel: sys::mcapi_pktchan_recv_hndl_t, buffer: Out<*mut c_void>, received: Out<usize>;
        status: Status
    ) = functions::pktchan_recv;

    /// Count packets.
    mcapi_pktchan_available(
        channel: sys::mcapi_pktchan_recv_hndl_t; status: Status
    ) -> sys::mcapi_uint_t = functions::pktchan_available;

    /// Give the buffer of a packet back.
    mcapi_pktchan_release(buffer: *const c_void; status: Status) = functions::pktchan_release;

    /// Send a scalar of 64 bits.
    mcapi_sclchan_send_uint64(
        channel: sys::mcapi_sclchan_send_hndl_t, scalar: sys::mcapi_uint64_t; status: Status
    ) = functions::sclchan_send;

    /// Send a scalar of 32 bits.
    mcapi_sclchan_send_uint32(
        channel: sys::mcapi_sclchan_send_hndl_t, scalar: sys::mcapi_uint32_t; status: Status
    ) = functions::sclchan_send;

    /// Send a scalar of 16 bits.
    mcapi_sclchan_send_uint16(
        channel: sys::mcapi_sclchan_send_hndl_t, scalar: sys::mcapi_uint16_t; status: Status
    ) = functions::sclchan_send;

    /// Send a scalar of 8 bits.
    mcapi_sclchan_send_uint8(
        channel: sys::mcapi_sclchan_send_hndl_t, scalar: sys::mcapi_uint8_t; status: Status
    ) = functions::sclchan_send;

    /// Receive a scalar of 64 bits.
    mcapi_sclchan_recv_uint64(
        channel: sys::mcapi_sclchan_recv_hndl_t; status: Status
    ) -> sys::mcapi_uint64_t = functions::sclchan_recv;

    /// Receive a scalar of 32 bits.
    mcapi_sclchan_recv_uint32(
        channel: sys::mcapi_sclchan_recv_hndl_t; status: Status
    ) -> sys::mcapi_uint32_t = functions::sclchan_recv;

    /// Receive a scalar of 16 bits.
    mcapi_sclchan_recv_uint16(
        channel: sys::mcapi_sclchan_recv_hndl_t; status: Status
    ) -> sys::mcapi_uint16_t = functions::sclchan_recv;

    /// Receive a scalar of 8 bits.
    mcapi_sclchan_recv_uint8(
        channel: sys::mcapi_sclchan_recv_hndl_t; status: Status
    ) -> sys::mcapi_uint8_t = functions::sclchan_recv;

    /// Count scalars.
    mcapi_sclchan_available(
        channel: sys::mcapi_sclchan_recv_hndl_t; status: Status
    ) -> sys::mcapi_uint_t = functions::sclchan_available;

    /// Wait for a request.
    mcapi_wait(
        request: In<sys::mcapi_request_t>, size: Out<usize>, timeout: sys::mcapi_timeout_t;
        status: Status
    ) -> sys::mcapi_boolean_t = functions::wait;

    /// Withdraw a request.
    mcapi_cancel(request: In<sys::mcapi_request_t>; status: Status) = functions::cancel;
}

export! {
    header = sys; run = run_answer;

    /// Tell whether the memory of a packet may be used again.
    mcapi_pktchan_release_test(
        buffer: *const c_void; status: Status
    ) -> sys::mcapi_boolean_t = functions::pktchan_release_test;

    /// Tell what a request has come to.
    mcapi_test(
        request: In<sys::mcapi_request_t>, size: Out<usize>; status: Status
    ) -> sys::mcapi_boolean_t = functions::test;

    /// Wait for one of several requests.
    mcapi_wait_any(
        number: usize, requests: *const sys::mcapi_request_t, size: Out<usize>,
        timeout: sys::mcapi_timeout_t; status: Status
    ) -> Number = functions::wait_any([requests; number], size, timeout);
}

export! {
    header = sys; run = run_request;

    /// Begin to wait until an endpoint exists.
    mcapi_endpoint_get_i(
        domain: sys::mcapi_domain_t, node: sys::mcapi_node_t, port: sys::mcapi_port_t,
        endpoint: Out<sys::mcapi_endpoint_t>; request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::endpoint_get_i;

    /// Begin to send a message.
    mcapi_msg_send_i(
        from: sys::mcapi_endpoint_t, to: sys::mcapi_endpoint_t, buffer: *const c_void, size: usize,
        priority: sys::mcapi_priority_t; request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::msg_send_i(from, to, [buffer; size], priority);

    /// Begin to receive a message.
    mcapi_msg_recv_i(
        endpoint: sys::mcapi_endpoint_t, buffer: *mut c_void, size: usize;
        request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::msg_recv_i(endpoint, [buffer; size]);

    /// Begin to connect endpoints by a packet channel.
    mcapi_pktchan_connect_i(
        send: sys::mcapi_endpoint_t, receive: sys::mcapi_endpoint_t;
        request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::pktchan_connect_i;

    /// Begin to open the receiving end of a packet channel.
    mcapi_pktchan_recv_open_i(
        handle: Out<sys::mcapi_pktchan_recv_hndl_t>, endpoint: sys::mcapi_endpoint_t;
        request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::pktchan_recv_open_i;

    /// Begin to open the sending end of a packet channel.
    mcapi_pktchan_send_open_i(
        handle: Out<sys::mcapi_pktchan_send_hndl_t>, endpoint: sys::mcapi_endpoint_t;
        request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::pktchan_send_open_i;

    /// Begin to send a packet.
    mcapi_pktchan_send_i(
        channel: sys::mcapi_pktchan_send_hndl_t, buffer: *const c_void, size: usize;
        request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::pktchan_send_i(channel, [buffer; size]);

    /// Begin to receive a packet.
    mcapi_pktchan_recv_i(
        channel: sys::mcapi_pktchan_recv_hndl_t, buffer: Out<*mut c_void>;
        request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::pktchan_recv_i;

    /// Begin to close the receiving end of a packet channel.
    mcapi_pktchan_recv_close_i(
        channel: sys::mcapi_pktchan_recv_hndl_t; request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::pktchan_recv_close_i;

    /// Begin to close the sending end of a packet channel.
    mcapi_pktchan_send_close_i(
        channel: sys::mcapi_pktchan_send_hndl_t; request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::pktchan_send_close_i;

    /// Begin to connect endpoints by a scalar channel.
    mcapi_sclchan_connect_i(
        send: sys::mcapi_endpoint_t, receive: sys::mcapi_endpoint_t;
        request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::sclchan_connect_i;

    /// Begin to open the receiving end of a scalar channel.
    mcapi_sclchan_recv_open_i(
        handle: Out<sys::mcapi_sclchan_recv_hndl_t>, endpoint: sys::mcapi_endpoint_t;
        request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::sclchan_recv_open_i;

    /// Begin to open the sending end of a scalar channel.
    mcapi_sclchan_send_open_i(
        handle: Out<sys::mcapi_sclchan_send_hndl_t>, endpoint: sys::mcapi_endpoint_t;
        request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::sclchan_send_open_i;

    /// Begin to close the receiving end of a scalar channel.
    mcapi_sclchan_recv_close_i(
        channel: sys::mcapi_sclchan_recv_hndl_t; request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::sclchan_recv_close_i;

    /// Begin to close the sending end of a scalar channel.
    mcapi_sclchan_send_close_i(
        channel: sys::mcapi_sclchan_send_hndl_t; request: Out<sys::mcapi_request_t>, status: Status
    ) = functions::sclchan_send_close_i;
}

export! {
    header = sys; run = run_alone;

    /// Write the name of a status.
    mcapi_display_status(
        status: sys::mcapi_status_t, message: *mut c_char, size: usize
    ) -> *mut c_char = named(status, message, [message; size]);
}
