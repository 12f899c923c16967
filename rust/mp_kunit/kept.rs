// SPDX-License-Identifier: GPL-2.0-only

//! Data that a transport holds for others: when it may use its memory again.

use kernel::prelude::*;

#[kunit_tests(mp_kept)]
mod tests {
    use super::*;
    use core::ptr;
    use kernel::sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    };
    use mp_bindings::mp_frag;
    use mp_kernel::{
        bytes::Writer,
        new_spinlock_bh,
        sync::SpinLockBh, //
    };
    use mp_proto::memory::{
        Part,
        Parts, //
    };
    use mp_transport::{
        copy::{
            Buffers,
            Completion, //
        },
        kept::{
            Anchor,
            Hold,
            Holder, //
        }, //
    };

    const LEN: usize = 16;

    /// Holds [`LEN`] bytes; its copies last until they are told.
    #[pin_data]
    struct Hands {
        #[pin]
        copies: SpinLockBh<KVec<Completion>>,
        unpinned: Atomic<u32>,
        released: Atomic<u32>,
    }

    impl Hands {
        fn new() -> Result<Arc<Self>> {
            let this = pin_init!(Self {
                copies <- new_spinlock_bh!(KVec::new()),
                unpinned: Atomic::new(0),
                released: Atomic::new(0),
            });
            Arc::pin_init(this, GFP_KERNEL)
        }

        /// One copy comes to its end.
        fn end_one(&self) -> Result {
            let done = self.copies.lock().pop().ok_or(EINVAL)?;
            done.tell(Ok(()));
            Ok(())
        }

        /// How often it was told that data is not copied any more, and that it is of no use.
        fn told(&self) -> (u32, u32) {
            (self.unpinned.load(Relaxed), self.released.load(Relaxed))
        }
    }

    impl Holder for Hands {
        fn copy_to(&self, _hold: &Hold, _offset: usize, mut dst: Writer<'_>) -> Result {
            dst.write([7; LEN].as_slice().into())
        }

        fn sync(
            &self,
            _hold: &Hold,
            _buffers: &Buffers<'_>,
            done: Completion,
        ) -> Result<(), Completion> {
            let mut copies = self.copies.lock();
            copies.push(done, GFP_ATOMIC).expect("a small list");
            Ok(())
        }

        fn unpinned(&self, _hold: &Hold) {
            self.unpinned.fetch_add(1, Relaxed);
        }

        fn release(&self, _hold: &Hold) {
            self.released.fetch_add(1, Relaxed);
        }
    }

    extern "C" fn nobody(_status: c_int, _data: *mut c_void) {}

    /// A completion that tells nobody.
    fn silent() -> Completion {
        // SAFETY: The function does nothing.
        unsafe { Completion::new(nobody, ptr::null_mut()) }
    }

    fn hold() -> Hold {
        let part = |len| Part { off: 0, len };
        let parts = Parts {
            first: part(LEN),
            second: part(0),
        };
        Hold { token: 1, parts }
    }

    /// Data stays where it is while it is copied; who holds it is told once the last copy has
    /// ended, and may move it then.
    #[test]
    fn who_holds_data_is_told_when_no_copy_needs_it() -> Result {
        let hands = Hands::new()?;
        let anchor = Anchor::new(hands.clone())?;
        let (kept, spot) = anchor.hold(hold())?;
        let mut room = [0u8; LEN];
        let piece = mp_frag {
            buf: room.as_mut_ptr(),
            len: LEN as u32,
        };
        let pieces = [piece];
        // SAFETY: The room is there until the end, and nobody else touches it.
        let buffers = unsafe { Buffers::new(&pieces) };
        kept.sync(&buffers, silent())?;
        kept.sync(&buffers, silent())?;
        assert_eq!(spot.move_out(&*hands), Ok(false));
        hands.end_one()?;
        assert_eq!(hands.told(), (0, 0));
        assert_eq!(spot.move_out(&*hands), Ok(false));
        hands.end_one()?;
        assert_eq!(hands.told(), (1, 0));
        assert_eq!(spot.move_out(&*hands), Ok(true));
        drop(kept);
        assert_eq!(hands.told(), (1, 0));
        anchor.close();
        Ok(())
    }

    /// Of data that was released meanwhile it is not told again.
    #[test]
    fn who_holds_data_is_told_once_that_it_is_released() -> Result {
        let hands = Hands::new()?;
        let anchor = Anchor::new(hands.clone())?;
        let (kept, spot) = anchor.hold(hold())?;
        drop(kept);
        assert_eq!(hands.told(), (0, 1));
        assert_eq!(spot.move_out(&*hands), Ok(false));
        anchor.close();
        Ok(())
    }
}
