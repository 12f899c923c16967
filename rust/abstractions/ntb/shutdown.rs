// SPDX-License-Identifier: GPL-2.0

//! A last word before the machine restarts or powers off.
//!
//! C header: [`include/linux/reboot.h`](srctree/include/linux/reboot.h)

use kernel::{
    container_of,
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};
use mp_bindings as bindings;

/// The notifier does not mind (`include/linux/notifier.h`).
const NOTIFY_DONE: c_int = 0;

/// Something that peers should be told of before this host goes.
pub trait Shutdown: Send + Sync + 'static {
    /// Called once, in process context, while everything still works.
    fn shutdown(&self);
}

/// Calls a [`Shutdown`] when the machine is about to stop; dropping it ends that.
///
/// # Invariants
///
/// `node` is registered with the reboot notifiers.
pub struct ShutdownHook<T: Shutdown> {
    node: Pin<KBox<Node<T>>>,
}

#[pin_data]
struct Node<T: Shutdown> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    target: Arc<T>,
}

// SAFETY: The notifier chain has a lock of its own, and `T` is `Send` and `Sync`.
unsafe impl<T: Shutdown> Send for ShutdownHook<T> {}
// SAFETY: Nothing can be done with a shared hook.
unsafe impl<T: Shutdown> Sync for ShutdownHook<T> {}

impl<T: Shutdown> ShutdownHook<T> {
    /// Starts to wait for the end.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(target: Arc<T>) -> Result<Self> {
        let node = KBox::pin_init(
            try_pin_init!(Node {
                block <- Opaque::ffi_init(|slot: *mut bindings::notifier_block| {
                    // SAFETY: `slot` is valid for writes.
                    unsafe {
                        slot.write(bindings::notifier_block {
                            notifier_call: Some(Self::callback),
                            ..Default::default()
                        })
                    }
                }),
                target,
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: The block is pinned and lives until it is unregistered.
        to_result(unsafe { bindings::ntb_register_shutdown(node.block.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self { node })
    }

    /// # Safety
    ///
    /// `block` must be embedded in a live `Node<T>`.
    unsafe extern "C" fn callback(
        block: *mut bindings::notifier_block,
        _action: c_ulong,
        _data: *mut c_void,
    ) -> c_int {
        let block: *mut Opaque<bindings::notifier_block> = block.cast();
        // SAFETY: As the caller promises.
        let node = unsafe { &*container_of!(block, Node<T>, block) };
        node.target.shutdown();
        NOTIFY_DONE
    }
}

impl<T: Shutdown> Drop for ShutdownHook<T> {
    fn drop(&mut self) {
        // SAFETY: Registered, by the type invariant; waits for a callback that runs.
        unsafe { bindings::ntb_unregister_shutdown(self.node.block.get()) };
    }
}
