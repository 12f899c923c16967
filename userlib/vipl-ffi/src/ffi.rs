// SPDX-License-Identifier: MIT OR Apache-2.0

//! The exported functions, as `vipl.h` declares them, and the function that does what each does.
//! And this is where handlers of the program are called.

use crate::{
    address::Address,
    functions::{self, descriptor, handle_of, Descriptor, Waiting},
    process::Process,
    sys,
};
use mp_c_abi::{
    declared, diagnostics, export, guarded, Abi, Handle, Input, Nap, Opaque, Out, PerProcess, Room,
    Text,
};
use mp_fabric::{CharDevice, Device, ProcessMemory};
use std::{cell::RefCell, ffi::c_void, ptr};
use vipl::{
    CqHandler, Error, ErrorEvent, ErrorHandler, Library, QueueHandler,
    QueueKind::{Receive, Send},
    Result,
};

static PROCESSES: PerProcess<Process<CharDevice>> =
    PerProcess::new(&|_| Process::new(&Library::load));

/// Run a function for the process that calls. A panic is a defect of this library, which the
/// specification has no value for: the caller is told that a resource is missing.
fn run(function: impl FnOnce(&Process<CharDevice>) -> Result<()>) -> sys::VIP_RETURN {
    let result = guarded(|| function(PROCESSES.current()));
    result
        .unwrap_or(Err(Error::Resource))
        .map_or_else(Error::code, |()| sys::VIP_SUCCESS)
}

/// What `VipSendNotify` and `VipRecvNotify` take.
pub type QueueFunction = Option<
    unsafe extern "C" fn(
        sys::VIP_PVOID,
        sys::VIP_NIC_HANDLE,
        sys::VIP_VI_HANDLE,
        *mut sys::VIP_DESCRIPTOR,
    ),
>;

/// What `VipCQNotify` takes.
pub type CqFunction = Option<
    unsafe extern "C" fn(sys::VIP_PVOID, sys::VIP_NIC_HANDLE, sys::VIP_VI_HANDLE, sys::VIP_BOOLEAN),
>;

/// What `VipErrorCallback` takes.
pub type ErrorFunction =
    Option<unsafe extern "C" fn(sys::VIP_PVOID, *mut sys::VIP_ERROR_DESCRIPTOR)>;

/// The handler of a queue that calls a function of the program.
pub fn queue_handler<D: Device>(
    function: QueueFunction,
    context: Opaque,
    nic: Handle,
) -> Option<QueueHandler<D>> {
    let function = function?;
    Some(Box::new(move |vi, done| {
        let (context, vi) = (context.pointer(), handle_of(vi.token()));
        let done = done.map_or(ptr::null_mut(), |done| descriptor(done.descriptor));
        // SAFETY: The program has asked for that, with the context.
        unsafe { function(context, nic.to_c(), vi.to_c(), done) };
    }))
}

/// The same of a completion queue.
pub fn cq_handler<D: Device>(
    function: CqFunction,
    context: Opaque,
    nic: Handle,
) -> Option<CqHandler<D>> {
    let function = function?;
    Some(Box::new(move |vi, queue| {
        let (context, vi) = (context.pointer(), handle_of(vi.token()));
        let is_receive = (queue == Receive).into();
        // SAFETY: The program has asked for that, with the context.
        unsafe { function(context, nic.to_c(), vi.to_c(), is_receive) };
    }))
}

/// The same of a NIC.
pub fn error_handler<D: Device>(
    function: ErrorFunction,
    context: Opaque,
    nic: Handle,
) -> Option<ErrorHandler<D>> {
    let function = function?;
    Some(Box::new(move |_, event| {
        let mut told = error_descriptor(event, nic);
        // SAFETY: The program has asked for that, with the context. What happened is there until
        // it returns (VI-ERR-19).
        unsafe { function(context.pointer(), &raw mut told) };
    }))
}

/// What has happened, as programs in C are told it (VI-ERR-18).
fn error_descriptor<D: Device>(event: &ErrorEvent<D>, nic: Handle) -> sys::VIP_ERROR_DESCRIPTOR {
    let vi = event.vi.as_ref().map_or(0, |vi| vi.token());
    let cq = event.cq.as_ref().map_or(0, |cq| cq.token());
    sys::VIP_ERROR_DESCRIPTOR {
        NicHandle: nic.to_c(),
        ViHandle: handle_of(vi).to_c(),
        CQHandle: handle_of(cq).to_c(),
        DescriptorPtr: event.descriptor.map_or(ptr::null_mut(), descriptor),
        OpCode: event.operation.0.into(),
        ResourceCode: event.resource as sys::VIP_RESOURCE_CODE,
        ErrorCode: event.code as sys::VIP_ERROR_CODE,
    }
}

/// The addresses that a list leads to.
///
/// # Errors
/// [`Error::InvalidParameter`]: NULL.
pub fn entries(list: &sys::VIP_AUTODISCOVERY_LIST) -> Result<Vec<Address>> {
    let start: *const *mut sys::VIP_NET_ADDRESS = list.ADAddrArray;
    // SAFETY: So many pointers are there, as the caller has said and the function has checked.
    let pointers = unsafe { Input::new(start, list.NumAdAddrs as usize) };
    let pointers = pointers.copy().map_err(|_| Error::InvalidParameter)?;
    // SAFETY: Each leads to an address, as the caller has said.
    let vouched = |pointer| unsafe { Address::new(pointer) };
    Ok(pointers.into_iter().map(vouched).collect())
}

thread_local! {
    /// The server that the thread waits as in `VipConnectWait`. It ends with a thread that is
    /// cancelled.
    static WAITING: RefCell<Option<Waiting<CharDevice>>> = const { RefCell::new(None) };
}

declared! {
    header = sys;

    /// Waits for a client. A thread that is cancelled ends here, and waits for nobody any more
    /// (VI-CONN-6).
    "C-unwind" fn VipConnectWait(
        nic: Handle,
        local: Address,
        timeout: sys::VIP_ULONG,
        remote: Address,
        attributes: Out<sys::VIP_VI_ATTRIBUTES>,
        conn: Out<Handle>,
    ) -> sys::VIP_RETURN {
        diagnostics::init();
        let begun = run(|process| {
            let begun =
                functions::connect_wait(process, nic, local, timeout, remote, attributes, conn)?;
            WAITING.set(Some(begun));
            Ok(())
        });
        if begun != sys::VIP_SUCCESS {
            return begun;
        }
        loop {
            match look_for_client() {
                Ok(nap) => {
                    // SAFETY: This frame has nothing to drop, and the program's own are its affair.
                    unsafe { nap.sleep_or_end() }
                }
                Err(result) => return result,
            }
        }
    }
}

/// Look for a client of the thread's server: how long to sleep until then.
///
/// # Errors
/// What `VipConnectWait` returns, success among it.
fn look_for_client() -> std::result::Result<Nap, sys::VIP_RETURN> {
    let mut nap = None;
    let result = run(|process| {
        let mut waiting = WAITING.take().ok_or(Error::Resource)?;
        waiting.look(process).unwrap_or_else(|| {
            nap = Some(waiting.nap());
            WAITING.set(Some(waiting));
            Ok(())
        })
    });
    nap.ok_or(result)
}

export! {
    header = sys; run = run;

    /// Opens a NIC.
    VipOpenNic(device_name: Text, nic: Out<Handle>) -> sys::VIP_RETURN = functions::open_nic;

    /// Closes a NIC.
    VipCloseNic(nic: Handle) -> sys::VIP_RETURN = functions::close_nic;

    /// Tells what a NIC has.
    VipQueryNic(nic: Handle, attributes: Out<sys::VIP_NIC_ATTRIBUTES>) -> sys::VIP_RETURN
        = functions::query_nic;

    /// Tells which hosts there are.
    VipQuerySystemManagementInfo(
        nic: Handle, info_type: sys::VIP_ULONG, info: *mut c_void
    ) -> sys::VIP_RETURN = functions::query_system_management_info(
        nic, info_type,
        // SAFETY: The only information that there is, which the function looks at first, has a list.
        (unsafe { Out::new(info.cast()) }),
        (entries));

    /// Calls a handler for errors that no descriptor tells.
    VipErrorCallback(nic: Handle, context: Opaque, handler: ErrorFunction) -> sys::VIP_RETURN
        = functions::error_callback(nic, (|nic| error_handler(handler, context, nic)));

    /// Makes a VI.
    VipCreateVi(
        nic: Handle, attributes: Out<sys::VIP_VI_ATTRIBUTES>, send_cq: Handle, recv_cq: Handle,
        vi: Out<Handle>
    ) -> sys::VIP_RETURN = functions::create_vi;

    /// Ends a VI.
    VipDestroyVi(vi: Handle) -> sys::VIP_RETURN = functions::destroy_vi;

    /// Tells what a VI has.
    VipQueryVi(
        vi: Handle, state: Out<sys::VIP_VI_STATE>, attributes: Out<sys::VIP_VI_ATTRIBUTES>,
        send_empty: Out<sys::VIP_BOOLEAN>, recv_empty: Out<sys::VIP_BOOLEAN>
    ) -> sys::VIP_RETURN = functions::query_vi;

    /// Changes what a VI has.
    VipSetViAttributes(vi: Handle, attributes: Out<sys::VIP_VI_ATTRIBUTES>) -> sys::VIP_RETURN
        = functions::set_vi_attributes;

    /// Connects a client to a VI.
    VipConnectAccept(conn: Handle, vi: Handle) -> sys::VIP_RETURN = functions::connect_accept;

    /// Rejects a client.
    VipConnectReject(conn: Handle) -> sys::VIP_RETURN = functions::connect_reject;

    /// Connects a VI to a server.
    VipConnectRequest(
        vi: Handle, local: Address, remote: Address, timeout: sys::VIP_ULONG,
        attributes: Out<sys::VIP_VI_ATTRIBUTES>
    ) -> sys::VIP_RETURN = functions::connect_request;

    /// Ends a connection.
    VipDisconnect(vi: Handle) -> sys::VIP_RETURN = functions::disconnect;

    /// Asks for a connection with a peer.
    VipConnectPeerRequest(
        vi: Handle, local: Address, remote: Address, timeout: sys::VIP_ULONG
    ) -> sys::VIP_RETURN = functions::connect_peer_request;

    /// Tells what has come of that.
    VipConnectPeerDone(vi: Handle, attributes: Out<sys::VIP_VI_ATTRIBUTES>) -> sys::VIP_RETURN
        = functions::connect_peer_done;

    /// Waits for what comes of that.
    VipConnectPeerWait(vi: Handle, attributes: Out<sys::VIP_VI_ATTRIBUTES>) -> sys::VIP_RETURN
        = functions::connect_peer_wait;

    /// Makes a protection tag.
    VipCreatePtag(nic: Handle, ptag: Out<sys::VIP_PROTECTION_HANDLE>) -> sys::VIP_RETURN
        = functions::create_ptag;

    /// Ends a protection tag.
    VipDestroyPtag(nic: Handle, ptag: sys::VIP_PROTECTION_HANDLE) -> sys::VIP_RETURN
        = functions::destroy_ptag;

    /// Registers memory.
    VipRegisterMem(
        nic: Handle, start: *mut c_void, length: sys::VIP_ULONG,
        attributes: Out<sys::VIP_MEM_ATTRIBUTES>, handle: Out<sys::VIP_MEM_HANDLE>
    ) -> sys::VIP_RETURN = functions::register_mem(
        nic,
        // SAFETY: A program that registers memory gives it to this library and to peers, as far as
        // it says, and keeps it mapped until it deregisters it.
        (unsafe { ProcessMemory::new(start.expose_provenance(), length as usize) }),
        attributes, handle);

    /// Ends the registration of memory.
    VipDeregisterMem(
        nic: Handle, start: *mut c_void, handle: sys::VIP_MEM_HANDLE
    ) -> sys::VIP_RETURN = functions::deregister_mem;

    /// Tells what registered memory has.
    VipQueryMem(
        nic: Handle, start: *mut c_void, handle: sys::VIP_MEM_HANDLE,
        attributes: Out<sys::VIP_MEM_ATTRIBUTES>
    ) -> sys::VIP_RETURN = functions::query_mem;

    /// Changes what registered memory has.
    VipSetMemAttributes(
        nic: Handle, start: *mut c_void, handle: sys::VIP_MEM_HANDLE,
        attributes: Out<sys::VIP_MEM_ATTRIBUTES>
    ) -> sys::VIP_RETURN = functions::set_mem_attributes;

    /// Posts a descriptor to the send queue.
    VipPostSend(
        vi: Handle, descriptor: Descriptor, handle: sys::VIP_MEM_HANDLE
    ) -> sys::VIP_RETURN = functions::post((Send), vi, descriptor, handle);

    /// Takes a descriptor of the send queue that is complete.
    VipSendDone(vi: Handle, descriptor: Out<Descriptor>) -> sys::VIP_RETURN
        = functions::done((Send), vi, descriptor);

    /// Waits for a descriptor of the send queue.
    VipSendWait(
        vi: Handle, timeout: sys::VIP_ULONG, descriptor: Out<Descriptor>
    ) -> sys::VIP_RETURN = functions::wait((Send), vi, timeout, descriptor);

    /// Calls a handler with a descriptor of the send queue.
    VipSendNotify(vi: Handle, context: Opaque, handler: QueueFunction) -> sys::VIP_RETURN
        = functions::notify((Send), vi, (|nic| queue_handler(handler, context, nic)));

    /// Posts a descriptor to the receive queue.
    VipPostRecv(
        vi: Handle, descriptor: Descriptor, handle: sys::VIP_MEM_HANDLE
    ) -> sys::VIP_RETURN = functions::post((Receive), vi, descriptor, handle);

    /// Takes a descriptor of the receive queue that is complete.
    VipRecvDone(vi: Handle, descriptor: Out<Descriptor>) -> sys::VIP_RETURN
        = functions::done((Receive), vi, descriptor);

    /// Waits for a descriptor of the receive queue.
    VipRecvWait(
        vi: Handle, timeout: sys::VIP_ULONG, descriptor: Out<Descriptor>
    ) -> sys::VIP_RETURN = functions::wait((Receive), vi, timeout, descriptor);

    /// Calls a handler with a descriptor of the receive queue.
    VipRecvNotify(vi: Handle, context: Opaque, handler: QueueFunction) -> sys::VIP_RETURN
        = functions::notify((Receive), vi, (|nic| queue_handler(handler, context, nic)));

    /// Makes a completion queue.
    VipCreateCQ(nic: Handle, entries: sys::VIP_ULONG, cq: Out<Handle>) -> sys::VIP_RETURN
        = functions::create_cq;

    /// Ends a completion queue.
    VipDestroyCQ(cq: Handle) -> sys::VIP_RETURN = functions::destroy_cq;

    /// Changes for how many entries a completion queue has room.
    VipResizeCQ(cq: Handle, entries: sys::VIP_ULONG) -> sys::VIP_RETURN = functions::resize_cq;

    /// Takes an entry.
    VipCQDone(
        cq: Handle, vi: Out<Handle>, is_receive: Out<sys::VIP_BOOLEAN>
    ) -> sys::VIP_RETURN = functions::cq_done;

    /// Waits for an entry.
    VipCQWait(
        cq: Handle, timeout: sys::VIP_ULONG, vi: Out<Handle>, is_receive: Out<sys::VIP_BOOLEAN>
    ) -> sys::VIP_RETURN = functions::cq_wait;

    /// Calls a handler with an entry.
    VipCQNotify(cq: Handle, context: Opaque, handler: CqFunction) -> sys::VIP_RETURN
        = functions::cq_notify(cq, (|nic| cq_handler(handler, context, nic)));

    /// Initializes the name service.
    VipNSInit(nic: Handle, path: *mut c_void) -> sys::VIP_RETURN = functions::ns_init(
        nic,
        // SAFETY: The path of a file, or NULL, as `vipl.conf(5)` has it.
        (unsafe { Text::new(path.cast()) }));

    /// Finds an address of a name.
    VipNSGetHostByName(
        nic: Handle, name: Text, address: Address, index: sys::VIP_ULONG
    ) -> sys::VIP_RETURN = functions::ns_get_host_by_name;

    /// Finds the name of an address.
    VipNSGetHostByAddr(
        nic: Handle, address: Address, name: Out<std::ffi::c_char>, len: Out<sys::VIP_ULONG>
    ) -> sys::VIP_RETURN = functions::ns_get_host_by_addr(
        nic, address, name, len,
        // SAFETY: There is room for as many bytes as the length says, and more are not asked for.
        (|name: Out<std::ffi::c_char>, len| unsafe {
            Room::new(Abi::<*mut std::ffi::c_char>::to_c(name).cast(), len)
        }));

    /// Ends the name service.
    VipNSShutdown(nic: Handle) -> sys::VIP_RETURN = functions::ns_shutdown;
}
