// SPDX-License-Identifier: GPL-2.0-only

//! Events that the kernel calls everybody for who has asked.
//!
//! C header: [`include/linux/notifier.h`](srctree/include/linux/notifier.h)

use core::marker::PhantomData;

use kernel::{
    container_of,
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};
use mp_bindings::notifier_block;

/// The notifier does not mind (`include/linux/notifier.h`).
const NOTIFY_DONE: c_int = 0;

/// A chain of notifiers, and what of it is of interest.
///
/// # Safety
///
/// `register` has the block called until `unregister`, which waits for a call that
/// is under way.
pub unsafe trait Event: 'static {
    /// What listeners are told of it.
    type About;

    /// What the event is about, if this action is one.
    ///
    /// # Safety
    ///
    /// The chain calls its blocks with this action and this data.
    unsafe fn about(action: c_ulong, data: *mut c_void) -> Option<Self::About>;

    /// Add a block to the chain.
    ///
    /// # Safety
    ///
    /// `block` is initialised and lives until it has been taken out of the chain.
    unsafe fn register(block: *mut notifier_block) -> c_int;

    /// Take a block out of the chain.
    ///
    /// # Safety
    ///
    /// `block` is in the chain.
    unsafe fn unregister(block: *mut notifier_block);
}

/// A module has run its exit function and is freed once all listeners have
/// returned. It makes no calls any more: what is held of it was given before.
///
/// Who copies other modules' data asynchronously runs their destructors later,
/// which is code of theirs, and lets go of it now.
pub struct ModuleGoes;

// SAFETY: As for `register_module_notifier()` and its counterpart.
unsafe impl Event for ModuleGoes {
    type About = ();

    unsafe fn about(action: c_ulong, _data: *mut c_void) -> Option<()> {
        (action == kernel::bindings::module_state_MODULE_STATE_GOING as c_ulong).then_some(())
    }

    unsafe fn register(block: *mut notifier_block) -> c_int {
        // SAFETY: As the caller promises.
        unsafe { mp_bindings::register_module_notifier(block) }
    }

    unsafe fn unregister(block: *mut notifier_block) {
        // SAFETY: As the caller promises.
        unsafe { mp_bindings::unregister_module_notifier(block) };
    }
}

/// The machine is about to restart or to power off; everything still works.
pub struct MachineStops;

// SAFETY: As for `register_reboot_notifier()` and its counterpart.
unsafe impl Event for MachineStops {
    type About = ();

    unsafe fn about(_action: c_ulong, _data: *mut c_void) -> Option<()> {
        Some(())
    }

    unsafe fn register(block: *mut notifier_block) -> c_int {
        // SAFETY: As the caller promises.
        unsafe { mp_bindings::register_reboot_notifier(block) }
    }

    unsafe fn unregister(block: *mut notifier_block) {
        // SAFETY: As the caller promises.
        unsafe { mp_bindings::unregister_reboot_notifier(block) };
    }
}

/// Somebody whom an event concerns.
pub trait Listener<E: Event>: Send + Sync + 'static {
    /// The event. Process context, may sleep for a bounded time.
    fn notify(&self, about: E::About);
}

/// Calls a [`Listener`] at each event; dropping it ends that.
///
/// # Invariants
///
/// `node` is in the chain of `E`.
pub struct Notifier<E: Event, L: Listener<E>> {
    node: Pin<KBox<Node<E, L>>>,
}

#[pin_data]
struct Node<E, L> {
    #[pin]
    block: Opaque<notifier_block>,
    listener: Arc<L>,
    _event: PhantomData<fn(E)>,
}

// SAFETY: The chain has a lock of its own, and `L` is `Send` and `Sync`.
unsafe impl<E: Event, L: Listener<E>> Send for Notifier<E, L> {}
// SAFETY: Nothing can be done with a shared notifier.
unsafe impl<E: Event, L: Listener<E>> Sync for Notifier<E, L> {}

impl<E: Event, L: Listener<E>> Notifier<E, L> {
    /// Start to listen.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(listener: Arc<L>) -> Result<Self> {
        let node = KBox::pin_init(
            try_pin_init!(Node {
                block <- Opaque::ffi_init(|slot: *mut notifier_block| {
                    // SAFETY: `slot` is valid for writes.
                    unsafe {
                        slot.write(notifier_block {
                            notifier_call: Some(Self::callback),
                            ..Default::default()
                        })
                    }
                }),
                listener,
                _event: PhantomData,
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: The block is pinned and lives until it is unregistered.
        to_result(unsafe { E::register(node.block.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self { node })
    }

    /// # Safety
    ///
    /// `block` must be embedded in a live `Node<E, L>`.
    unsafe extern "C" fn callback(
        block: *mut notifier_block,
        action: c_ulong,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: The chain calls this.
        if let Some(about) = unsafe { E::about(action, data) } {
            let block: *mut Opaque<notifier_block> = block.cast();
            // SAFETY: As the caller promises.
            let node: &Node<E, L> = unsafe { &*container_of!(block, Node<E, L>, block) };
            node.listener.notify(about);
        }
        NOTIFY_DONE
    }
}

impl<E: Event, L: Listener<E>> Drop for Notifier<E, L> {
    fn drop(&mut self) {
        // SAFETY: Registered, by the type invariant; waits for a callback that runs.
        unsafe { E::unregister(self.node.block.get()) };
    }
}
