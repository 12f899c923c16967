// SPDX-License-Identifier: GPL-2.0

//! Socket buffers: packets, owned.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};

/// An owned packet.
///
/// # Invariants
///
/// `ptr` points to a valid `struct sk_buff` and owns one reference to it.
pub struct SkBuff {
    ptr: NonNull<mp_bindings::sk_buff>,
}

// SAFETY: A packet that nobody else refers to may be handled by any task.
unsafe impl Send for SkBuff {}
// SAFETY: Methods with a shared reference only read.
unsafe impl Sync for SkBuff {}

impl SkBuff {
    /// Takes over a packet from C code.
    ///
    /// # Safety
    ///
    /// `ptr` must be a valid packet; its ownership passes to the result.
    #[inline]
    pub unsafe fn from_raw(ptr: NonNull<mp_bindings::sk_buff>) -> Self {
        // INVARIANT: By the safety requirements.
        Self { ptr }
    }

    /// Gives the packet to C code, which has to release it.
    #[inline]
    pub fn into_raw(self) -> NonNull<mp_bindings::sk_buff> {
        ManuallyDrop::new(self).ptr
    }
}

/// Frees the packet as dropped, visible to drop monitors.
impl Drop for SkBuff {
    fn drop(&mut self) {
        // SAFETY: By the type invariants we own the packet. Any context is allowed.
        unsafe {
            mp_bindings::dev_kfree_skb_any_reason(
                self.ptr.as_ptr(),
                mp_bindings::skb_drop_reason_SKB_DROP_REASON_NOT_SPECIFIED,
            )
        };
    }
}
