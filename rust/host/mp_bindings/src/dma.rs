// SPDX-License-Identifier: GPL-2.0-only

//! DMA engines: no host has one. Functions that need one fail the run.

use bindings::device;
use core::{
    ffi::c_void,
    ptr, //
};
use machine::fail;

pub const dma_ctrl_flags_DMA_PREP_INTERRUPT: u32 = 1;
pub const dma_ctrl_flags_DMA_CTRL_ACK: u32 = 2;
pub const dmaengine_tx_result_DMA_TRANS_NOERROR: u32 = 0;
pub const dmaengine_tx_result_DMA_TRANS_READ_FAILED: u32 = 1;
pub const dmaengine_tx_result_DMA_TRANS_WRITE_FAILED: u32 = 2;
pub const dmaengine_tx_result_DMA_TRANS_ABORTED: u32 = 3;

/// An engine.
#[repr(C)]
pub struct dma_device {
    pub dev: *mut device,
    pub device_synchronize: Option<unsafe extern "C" fn(*mut dma_chan)>,
}

/// A channel of one.
#[repr(C)]
pub struct dma_chan {
    pub device: *mut dma_device,
}

/// How a copy has ended.
#[repr(C)]
pub struct dmaengine_result {
    pub result: u32,
}

/// A copy.
#[repr(C)]
pub struct dma_async_tx_descriptor {
    pub callback_result: Option<unsafe extern "C" fn(*mut c_void, *const dmaengine_result)>,
    pub callback_param: *mut c_void,
}

/// No channel is free.
///
/// # Safety
///
/// Any pointer will do.
pub unsafe fn dma_request_memcpy(_near: *mut device) -> *mut dma_chan {
    machine::might_sleep();
    ptr::null_mut()
}

macro_rules! of_an_engine {
    ($($name:ident($($type:ty),*) $(-> $ret:ty)?;)*) => {$(
        /// # Safety
        ///
        /// There is a channel.
        pub unsafe fn $name($(_: $type),*) $(-> $ret)? {
            fail("it uses a DMA engine, which no host has")
        }
    )*};
}

of_an_engine! {
    dma_chan_name(*mut dma_chan) -> *const u8;
    dma_release(*mut dma_chan);
    dma_issue_pending(*mut dma_chan);
    dmaengine_prep_dma_memcpy(*mut dma_chan, u64, u64, usize, usize) -> *mut dma_async_tx_descriptor;
    dmaengine_submit_ok(*mut dma_async_tx_descriptor) -> bool;
    dmaengine_terminate_async(*mut dma_chan) -> i32;
    dmaengine_synchronize(*mut dma_chan);
    is_dma_copy_aligned(*mut dma_chan, usize, usize, usize) -> bool;
    dma_map_window(*mut device, u64, usize) -> u64;
    dma_unmap_window(*mut device, u64, usize);
    dma_map_to_device(*mut device, *const c_void, usize) -> u64;
    dma_unmap_to_device(*mut device, u64, usize);
    dma_map_from_device(*mut device, *mut c_void, usize) -> u64;
    dma_unmap_from_device(*mut device, u64, usize);
    dma_addr_failed(*mut device, u64) -> bool;
    virt_range_valid(*const c_void, usize) -> bool;
    phys_ram(u64, usize) -> *mut c_void;
}
