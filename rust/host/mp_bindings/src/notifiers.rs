// SPDX-License-Identifier: GPL-2.0-only

//! Chains of notifiers.

use core::ffi::c_void;
use kernel::module::Watchers;

type Call = unsafe extern "C" fn(*mut notifier_block, usize, *mut c_void) -> i32;

/// One that is told.
#[repr(C)]
pub struct notifier_block {
    pub notifier_call: Option<Call>,
    pub next: *mut notifier_block,
    pub priority: i32,
}

impl Default for notifier_block {
    fn default() -> Self {
        Self {
            notifier_call: None,
            next: core::ptr::null_mut(),
            priority: 0,
        }
    }
}

/// Tell a block of modules that have run their exit functions, or have failed to load.
///
/// # Safety
///
/// The block is initialised and lives until it is unregistered.
pub unsafe fn register_module_notifier(block: *mut notifier_block) -> i32 {
    let tell = move || {
        // SAFETY: Registered: unregistering waits until nobody goes through the chain.
        if let Some(call) = unsafe { (*block).notifier_call } {
            let going = bindings::module_state_MODULE_STATE_GOING as usize;
            // SAFETY: As the chain of modules calls its blocks.
            unsafe { call(block, going, core::ptr::null_mut()) };
        }
    };
    machine::host().own::<Watchers>().add(block.addr(), tell);
    0
}

/// # Safety
///
/// The block is registered.
pub unsafe fn unregister_module_notifier(block: *mut notifier_block) -> i32 {
    machine::host().own::<Watchers>().remove(block.addr());
    0
}

/// Hosts are not restarted.
///
/// # Safety
///
/// Any pointer will do.
pub unsafe fn register_reboot_notifier(_block: *mut notifier_block) -> i32 {
    0
}

/// # Safety
///
/// Any pointer will do.
pub unsafe fn unregister_reboot_notifier(_block: *mut notifier_block) -> i32 {
    0
}
