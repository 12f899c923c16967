// SPDX-License-Identifier: GPL-2.0

//! Modules that are unloaded while their data is under way.
//!
//! Who copies other modules' data asynchronously runs their destructors later,
//! which is code of theirs. A module that goes cannot know of that; a
//! [`ModuleWatch`] tells before its code is freed.
//!
//! C header: [`include/linux/module.h`](srctree/include/linux/module.h)

use kernel::{
    bindings,
    container_of,
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Somebody who may hold on to the data of other modules.
pub trait Departure: Send + Sync + 'static {
    /// A module has run its exit function and is freed when this returns. It
    /// makes no calls any more: what is held of it was given before.
    ///
    /// Process context, may sleep for a bounded time.
    fn let_go(&self);
}

/// Calls a [`Departure`] for each module that goes; dropping it ends that.
///
/// # Invariants
///
/// `node` is registered with the module notifiers.
pub struct ModuleWatch<T: Departure> {
    node: Pin<KBox<Node<T>>>,
}

#[pin_data]
struct Node<T: Departure> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    target: Arc<T>,
}

// SAFETY: The notifier chain has a lock of its own, and `T` is `Send` and `Sync`.
unsafe impl<T: Departure> Send for ModuleWatch<T> {}
// SAFETY: Nothing can be done with a shared watch.
unsafe impl<T: Departure> Sync for ModuleWatch<T> {}

impl<T: Departure> ModuleWatch<T> {
    /// Starts to watch.
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
        to_result(unsafe { bindings::register_module_notifier(node.block.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self { node })
    }

    /// # Safety
    ///
    /// `block` must be embedded in a live `Node<T>`.
    unsafe extern "C" fn callback(
        block: *mut bindings::notifier_block,
        state: c_ulong,
        _module: *mut c_void,
    ) -> c_int {
        if state == bindings::module_state_MODULE_STATE_GOING as c_ulong {
            let block: *mut Opaque<bindings::notifier_block> = block.cast();
            // SAFETY: As the caller promises.
            let node = unsafe { &*container_of!(block, Node<T>, block) };
            node.target.let_go();
        }
        bindings::NOTIFY_DONE as c_int
    }
}

impl<T: Departure> Drop for ModuleWatch<T> {
    fn drop(&mut self) {
        // SAFETY: Registered, by the type invariant; waits for a callback that runs.
        unsafe { bindings::unregister_module_notifier(self.node.block.get()) };
    }
}
