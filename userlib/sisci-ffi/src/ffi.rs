// SPDX-License-Identifier: MIT OR Apache-2.0

//! The exported functions, each by three names (SI-ABI-3). What they do with pointers is to make
//! values of [`buffer`](crate::buffer) of them; what they do with a panic is to end it. And this is
//! where callbacks of the program are called.

use crate::{buffer::Output, functions, process::Process, sys, table::Handle};
use mp_c_abi::PerProcess;
use mp_fabric::CharDevice;
use sisci::{Action, Library, Result};
use std::{
    ffi::c_void,
    panic::{catch_unwind, AssertUnwindSafe},
};

static PROCESSES: PerProcess<Process<CharDevice>> =
    PerProcess::new(&|parent| Process::new(&Library::load, parent));

/// Where the error goes.
type Error = *mut sys::sci_error_t;

/// Runs a function for the process that calls. A panic is a defect of this library, which the
/// specification has no error for: the caller is told that a resource is missing.
fn caught<T>(function: impl FnOnce(&Process<CharDevice>) -> Result<T>) -> Result<T> {
    let result = catch_unwind(AssertUnwindSafe(|| function(PROCESSES.current())));
    result.unwrap_or(Err(sisci::Error::ApiNoSpace))
}

/// Writes an error, and `errno` if it is one of the system's.
fn tell(error: Error, result: Result<()>) {
    if let Err(sisci::Error::System(errno)) = result {
        // SAFETY: The address is that of this thread's variable.
        unsafe { *libc::__errno_location() = errno.raw_os_error() }
    }
    // SAFETY: Promised by the caller of the exported function.
    unsafe { Output::new(error) }.write(functions::code(result));
}

/// Runs a function that writes an error; a value of nothing if it fails.
fn run<T: Default>(error: Error, function: impl FnOnce(&Process<CharDevice>) -> Result<T>) -> T {
    let (value, result) = match caught(function) {
        Ok(value) => (value, Ok(())),
        Err(error) => (T::default(), Err(error)),
    };
    tell(error, result);
    value
}

/// Runs a function without an error; a value of nothing if it fails.
fn plain<T: Default>(function: impl FnOnce(&Process<CharDevice>) -> Result<T>) -> T {
    caught(function).unwrap_or_default()
}

/// Where a handle goes; NULL goes there at once, which stays if the function fails (SI-GEN-11).
///
/// # Safety
/// The pointer is NULL, or one may write a handle there as long as the value exists.
unsafe fn handle_out<T>(pointer: *mut *mut T) -> HandleOut {
    // SAFETY: The caller's promise; all handles are pointers.
    let out: Output<Handle> = unsafe { Output::new(pointer.cast()) };
    out.write(Handle::NULL);
    out
}

type HandleOut = Output<Handle>;

/// What a program gives a callback, which may run on another thread.
#[derive(Clone, Copy)]
struct Argument(*mut c_void);

// SAFETY: It is only handed back to the program, which knows that callbacks have a thread.
unsafe impl Send for Argument {}

impl Argument {
    /// Also has closures take the whole of it, rather than the pointer in it.
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

fn action(number: sys::sci_callback_action_t) -> Action {
    match number {
        sys::SCI_CALLBACK_CANCEL => Action::Cancel,
        _ => Action::Continue,
    }
}

/// Exports functions by their own name, and by the two that programs for other implementations
/// are linked to.
macro_rules! export {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Of `sisci_api.h`, as for all functions: a pointer is NULL, or leads to as much memory
        /// as the other arguments say, which is the call's until it returns. Handles are not
        /// followed.
        #[no_mangle]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? $body

        const _: () = {
            #[export_name = concat!("_SISCI_PUBLIC_FUNC_ST_", stringify!($name))]
            unsafe extern "C" fn single($($argument: $type),*) $(-> $result)? {
                // SAFETY: The caller's promise.
                unsafe { $name($($argument),*) }
            }

            #[export_name = concat!("_SISCI_PUBLIC_FUNC_MT_", stringify!($name))]
            unsafe extern "C" fn multiple($($argument: $type),*) $(-> $result)? {
                // SAFETY: The caller's promise.
                unsafe { $name($($argument),*) }
            }
        };
    )*};
}

// After the macro that they are made with.
mod channel;
mod device;
mod dma;
mod interrupt;
mod library;
mod map;
mod query;
mod remote;
mod segment;

#[cfg(test)]
mod tests {
    use super::{
        channel::*, device::*, dma::*, interrupt::*, library::*, map::*, query::*, remote::*,
        segment::*,
    };
    use super::{map, plain, run};
    use crate::sys;
    use std::ptr;

    /// SI-ABI-8: a panic ends in the library, with an error and nothing that could be taken for a
    /// result; so does one of a function that returns a status.
    #[test]
    fn a_panic_becomes_an_error() {
        let mut error = sys::SCI_ERR_OK;
        let value: u32 = run(&mut error, |_| panic!("a defect"));
        assert_eq!((value, error), (0, sys::SCI_ERR_API_NOSPC));
        error = sys::SCI_ERR_OK;
        let status = map::checked(&mut error, |_| panic!("another one"));
        assert_eq!(status, sys::SCI_SEQ_PENDING);
        assert_eq!(error, sys::SCI_ERR_API_NOSPC);
        assert_eq!(plain::<usize>(|_| panic!("a third one")), 0);
        // The library goes on.
        run(&mut error, |_| Ok(()));
        assert_eq!(error, sys::SCI_ERR_OK);
    }

    fn n<T>() -> *mut T {
        ptr::null_mut()
    }

    /// SI-GEN-3, SI-GEN-11, SI-BORROW-1, SI-RELEXC-1: what is not built says so in each function,
    /// leaves no handle and calls nobody, but not with flags that it would not take.
    #[test]
    fn what_is_not_built_says_so() {
        let mut error = sys::SCI_ERR_OK;
        // SAFETY: Not more is passed than what is there.
        unsafe { SCIInitialize(0, &mut error) };
        macro_rules! missing {
            ($($name:ident($($argument:expr),*) $flags:expr),* $(,)?) => {$(
                for (flags, expected) in [
                    ($flags, sys::SCI_ERR_NOT_IMPLEMENTED),
                    ($flags | 1 << 31, sys::SCI_ERR_ILLEGAL_FLAG),
                ] {
                    // SAFETY: As above; functions that are not built look at nothing else.
                    unsafe { $name($($argument,)* flags, &mut error) };
                    assert_eq!(error, expected, stringify!($name));
                }
            )*};
        }
        let mut device = ptr::dangling_mut();
        let mut segment = ptr::dangling_mut();
        let mut channel = ptr::dangling_mut();
        missing!(
            SCIRequestDMAChannel(n(), &mut channel, 0, sys::SCI_DMA_TYPE_SYSTEM, 0)
                sys::SCI_FLAG_DMA_CHANNEL_SHARED,
            SCIAssignDMAChannel(n(), n()) 0,
            SCIPrepareLocalSegmentForDMA(n(), n()) 0,
            SCIUnprepareLocalSegmentForDMA(n(), n()) 0,
            SCIPrepareRemoteSegmentForDMA(n(), n()) 0,
            SCIUnprepareRemoteSegmentForDMA(n(), n()) 0,
            SCIBorrowDevice(n(), &mut device, 1) sys::SCI_FLAG_EXCLUSIVE,
            SCIReturnDevice(n()) 0,
            SCIReleaseExclusiveBorrow(n()) 0,
            SCIConnectDeviceSegment(n(), &mut segment, 1, 1, None, n()) sys::SCI_FLAG_USE_CALLBACK,
            SCIConnectDeviceSegmentPath(n(), &mut segment, 4, 1, 1, 0, None, n()) 0,
            SCICreateDeviceSegment(n(), 1, 4096, 1, 1) sys::SCI_FLAG_DEVICE_SIDE_ONLY,
            SCIMapLocalSegmentForDevice(n(), 0, n(), n(), 0, 0, None, n()) 0,
            SCIUnmapLocalSegmentForDevice(n(), 0, n()) 0,
            SCIMapRemoteSegmentForDevice(n(), n(), n(), 0, 0, None, n()) 0,
            SCIUnmapRemoteSegmentForDevice(n(), n()) 0,
            SCIGetDeviceList(n(), n(), 0, n()) sys::SCI_FLAG_SPECIFY_SLOT,
        );
        assert!(device.is_null() && segment.is_null() && channel.is_null());
        // SAFETY: As above.
        unsafe {
            SCIReturnDMAChannel(n(), &mut error);
            assert_eq!(error, sys::SCI_ERR_NOT_IMPLEMENTED);
            assert_eq!(SCIGetDMAChannelType(n()), sys::SCI_DMA_TYPE_DONTCARE);
            assert_eq!(SCIGetFabricDeviceId(n()), 0);
            assert_eq!(SCIGetDeviceList(n(), n(), 0, n(), 0, &mut error), 0);
        }
    }

    /// SI-ABI-2, SI-ABI-9: all 84 functions have the signatures of the header.
    #[test]
    fn signatures_are_those_of_the_header() {
        let mut count = 0;
        macro_rules! same {
            ($($name:ident($($argument:tt),*)),* $(,)?) => {$({
                // The arrays compile only if both are functions of one type.
                let header: unsafe extern "C" fn($(same!(@ $argument)),*) -> _ = sys::$name;
                let types = [header, $name as unsafe extern "C" fn($(same!(@ $argument)),*) -> _];
                count += types.len() / 2;
            })*};
            (@ $argument:tt) => { _ };
        }
        same!(
            SCIInitialize(a, b),
            SCITerminate(),
            SCIOpen(a, b, c),
            SCIClose(a, b, c),
            SCICreateSegment(a, b, c, d, e, f, g, h),
            SCIRegisterSegmentMemory(a, b, c, d, e),
            SCIAttachPhysicalMemory(a, b, c, d, e, f, g),
            SCIAttachLocalSegment(a, b, c, d, e, f, g, h),
            SCIShareSegment(a, b, c),
            SCIPrepareSegment(a, b, c, d),
            SCISetSegmentAvailable(a, b, c, d),
            SCISetSegmentUnavailable(a, b, c, d),
            SCIRemoveSegment(a, b, c),
            SCIWaitForLocalSegmentEvent(a, b, c, d, e, f),
            SCIGetLocalSegmentSize(a),
            SCIGetLocalSegmentId(a),
            SCIMapLocalSegment(a, b, c, d, e, f, g),
            SCIConnectSegment(a, b, c, d, e, f, g, h, i, j),
            SCIDisconnectSegment(a, b, c),
            SCIGetRemoteSegmentSize(a),
            SCIGetRemoteSegmentId(a),
            SCIGetRemoteSegmentNodeId(a),
            SCIWaitForRemoteSegmentEvent(a, b, c, d, e),
            SCIMapRemoteSegment(a, b, c, d, e, f, g),
            SCIUnmapSegment(a, b, c),
            SCIGetMapPointer(a),
            SCIGetMapPhysAddr(a),
            SCICreateMapSequence(a, b, c, d),
            SCIRemoveSequence(a, b, c),
            SCIStartSequence(a, b, c),
            SCICheckSequence(a, b, c),
            SCIStoreBarrier(a, b),
            SCIFlush(a, b),
            SCIMemWrite(a, b, c, d, e),
            SCIMemCpy(a, b, c, d, e, f, g),
            SCICacheSync(a, b, c, d, e),
            SCICreateDMAQueue(a, b, c, d, e, f),
            SCIRemoveDMAQueue(a, b, c),
            SCIStartDmaTransfer(a, b, c, d, e, f, g, h, i, j),
            SCIStartDmaTransferMem(a, b, c, d, e, f, g, h, i),
            SCIStartDmaTransferVec(a, b, c, d, e, f, g, h, i),
            SCIDMAQueueState(a),
            SCIWaitForDMAQueue(a, b, c, d),
            SCIAbortDMAQueue(a, b, c),
            SCIRequestDMAChannel(a, b, c, d, e, f, g),
            SCIReturnDMAChannel(a, b),
            SCIAssignDMAChannel(a, b, c, d),
            SCIGetDMAChannelType(a),
            SCIPrepareLocalSegmentForDMA(a, b, c, d),
            SCIUnprepareLocalSegmentForDMA(a, b, c, d),
            SCIPrepareRemoteSegmentForDMA(a, b, c, d),
            SCIUnprepareRemoteSegmentForDMA(a, b, c, d),
            SCICreateInterrupt(a, b, c, d, e, f, g, h),
            SCIRemoveInterrupt(a, b, c),
            SCIWaitForInterrupt(a, b, c, d),
            SCIConnectInterrupt(a, b, c, d, e, f, g, h),
            SCIDisconnectInterrupt(a, b, c),
            SCITriggerInterrupt(a, b, c),
            SCICreateDataInterrupt(a, b, c, d, e, f, g, h),
            SCIRemoveDataInterrupt(a, b, c),
            SCIWaitForDataInterrupt(a, b, c, d, e, f),
            SCIConnectDataInterrupt(a, b, c, d, e, f, g, h),
            SCIDisconnectDataInterrupt(a, b, c),
            SCITriggerDataInterrupt(a, b, c, d, e),
            SCIProbeNode(a, b, c, d, e),
            SCIQuery(a, b, c, d),
            SCIGetLocalNodeId(a, b, c, d),
            SCIGetNodeIdByAdapterName(a, b, c, d, e),
            SCIGetNodeInfoByAdapterName(a, b, c, d, e, f),
            SCIGetErrorString(a),
            SCIRegisterPCIeRequester(a, b, c, d, e, f),
            SCIUnregisterPCIeRequester(a, b, c, d, e, f),
            SCIBorrowDevice(a, b, c, d, e),
            SCIReturnDevice(a, b, c),
            SCIReleaseExclusiveBorrow(a, b, c),
            SCIConnectDeviceSegment(a, b, c, d, e, f, g, h),
            SCIConnectDeviceSegmentPath(a, b, c, d, e, f, g, h, i, j),
            SCICreateDeviceSegment(a, b, c, d, e, f, g),
            SCIMapLocalSegmentForDevice(a, b, c, d, e, f, g, h, i, j),
            SCIUnmapLocalSegmentForDevice(a, b, c, d, e),
            SCIMapRemoteSegmentForDevice(a, b, c, d, e, f, g, h, i),
            SCIUnmapRemoteSegmentForDevice(a, b, c, d),
            SCIGetDeviceList(a, b, c, d, e, f),
            SCIGetFabricDeviceId(a),
        );
        assert_eq!(count, 84);
    }
}
