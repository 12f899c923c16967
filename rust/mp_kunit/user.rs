// SPDX-License-Identifier: GPL-2.0-only

//! What serves programs, as far as it can be seen without one: offsets, mappings
//! that nobody maps, waits, sizes of structures.

use kernel::prelude::*;

#[kunit_tests(mp_user)]
mod tests {
    use super::*;
    use kernel::{
        page::PAGE_SIZE,
        sync::{
            atomic::{
                Acquire,
                Atomic,
                Relaxed,
                Release, //
            },
            Arc, //
        },
        transmute::{
            AsBytes,
            FromBytes, //
        },
        uaccess::UserPtr, //
    };
    use mp_kernel::{
        eventfd::EventFd,
        idle::{
            IdleThread,
            IdleWork, //
        },
        new_wait_queue,
        process::Owner,
        time::monotonic_ns,
        uaccess::{
            self,
            Versioned, //
        },
        vma::{
            offsets::{
                self,
                OffsetSpace, //
            },
            AddressSpace,
            Cache,
            Frame,
            Frames,
            ScrapPage, //
        },
        wait::{
            Events,
            Sleep,
            WaitQueue,
            Waited, //
        },
    };

    const MILLISECOND: u64 = 1_000_000;

    fn number(n: u32) -> Result<Arc<u32>> {
        Ok(Arc::new(n, GFP_KERNEL)?)
    }

    #[test]
    fn an_offset_leads_to_the_value_whose_range_has_all_pages() -> Result {
        let space = OffsetSpace::new()?;
        let one = OffsetSpace::reserve(&space, 10, |_| number(1))?;
        let two = OffsetSpace::reserve(&space, 1, |_| number(2))?;
        let find = |first, pages| space.find(first, pages).map(|value| *value);
        // Zero is nobody's offset.
        assert!(one.first() > 0 && two.first() > 0);
        for page in 0..10 {
            assert_eq!(find(one.first() + page, 1), Some(1));
        }
        assert_eq!(find(one.first(), 10), Some(1));
        assert_eq!(find(two.first(), 1), Some(2));
        // Beyond its end, also where something else follows; nothing; too much to add up.
        assert_eq!(find(one.first(), 11), None);
        assert_eq!(find(one.first() + 9, 2), None);
        assert_eq!(find(one.first(), 0), None);
        assert_eq!(find(one.first() + 1, usize::MAX), None);
        assert_eq!(find(usize::MAX, 1), None);
        Ok(())
    }

    #[test]
    fn an_offset_is_free_once_its_owner_has_gone() -> Result {
        let space = OffsetSpace::new()?;
        // All of them, so that nothing else fits.
        let all = OffsetSpace::reserve(&space, offsets::END - 1, |_| number(1))?;
        assert_eq!(all.first(), 1);
        let refused = OffsetSpace::reserve(&space, 1, |_| number(2));
        assert_eq!(refused.err(), Some(ENOSPC));
        let value = space.find(1, 1).ok_or(ENOENT)?;
        drop(all);
        assert_eq!(*value, 1);
        assert!(space.find(1, 1).is_none());
        // A value that could not be made leaves nothing behind.
        let failed = OffsetSpace::<u32>::reserve(&space, offsets::END - 1, |_| Err(EIO));
        assert_eq!(failed.err(), Some(EIO));
        OffsetSpace::reserve(&space, offsets::END - 1, |_| number(3))?;
        let nothing = OffsetSpace::reserve(&space, 0, |_| number(4));
        assert_eq!(nothing.err(), Some(EINVAL));
        let too_much = OffsetSpace::reserve(&space, offsets::END, |_| number(5));
        assert_eq!(too_much.err(), Some(ENOSPC));
        Ok(())
    }

    #[test]
    fn programs_with_32_bits_reach_all_offsets() -> Result {
        assert!((offsets::END as u64) * (PAGE_SIZE as u64) <= 1 << 44);
        Ok(())
    }

    /// Memory that notes that it was freed; nobody maps it.
    struct Noted(Arc<Atomic<bool>>);

    // SAFETY: It names no frames.
    unsafe impl Frames for Noted {
        fn frame(&self, _page: usize) -> Option<Frame> {
            None
        }
    }

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }

    #[test]
    fn what_is_revoked_is_returned_once() -> Result {
        let space = AddressSpace::new()?;
        let freed = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        let memory = Arc::new(Noted(freed.clone()), GFP_KERNEL)?;
        let published = space.publish(4, 7, true, ScrapPage::new()?)?;
        assert_eq!((published.pages(), published.owner()), (4, 7));
        assert!(!published.mapping().is_live());
        published.mapping().show(memory);

        let mapping = space.find(published.first() + 3, 1).ok_or(ENOENT)?;
        assert!(Arc::ptr_eq(&mapping, published.mapping()));
        assert!(mapping.is_live());
        let memory = mapping.revoke();
        assert!(memory.is_some() && !mapping.is_live());
        assert!(mapping.revoke().is_none());
        assert!(!freed.load(Relaxed));
        drop(memory);
        assert!(freed.load(Relaxed));

        let first = published.first();
        drop(published);
        assert!(space.find(first, 1).is_none());
        Ok(())
    }

    #[test]
    fn what_is_shown_again_takes_the_place_of_what_was_revoked() -> Result {
        let space = AddressSpace::new()?;
        let freed = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        let memory = Arc::new(Noted(freed.clone()), GFP_KERNEL)?;
        let published = space.publish(1, 0, true, ScrapPage::new()?)?;
        published.mapping().show(memory);
        drop(published.mapping().revoke());
        assert!(freed.load(Relaxed) && !published.mapping().is_live());

        let again = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        let memory = Arc::new(Noted(again.clone()), GFP_KERNEL)?;
        published.mapping().show(memory);
        assert!(published.mapping().is_live() && !again.load(Relaxed));
        drop(published.mapping().revoke());
        assert!(again.load(Relaxed));
        Ok(())
    }

    #[test]
    fn what_nobody_publishes_or_maps_is_freed() -> Result {
        let space = AddressSpace::new()?;
        let freed = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        let memory = Arc::new(Noted(freed.clone()), GFP_KERNEL)?;
        let published = space.publish(1, 0, true, ScrapPage::new()?)?;
        published.mapping().show(memory);
        // The address space may go first.
        drop(space);
        assert!(!freed.load(Relaxed));
        drop(published);
        assert!(freed.load(Relaxed));
        Ok(())
    }

    #[test]
    fn a_frame_is_that_of_its_address() -> Result {
        let page = PAGE_SIZE as u64;
        let frame = |address| Frame::at(address, Cache::Cached);
        assert_eq!(frame(5 * page), frame(6 * page - 1));
        assert!(frame(5 * page) != frame(6 * page));
        Ok(())
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() -> Result {
        let queue = Arc::pin_init(new_wait_queue!("mp_test"), GFP_KERNEL)?;
        let deadline = monotonic_ns() + 3 * MILLISECOND;
        assert_eq!(
            queue.wait_until(Sleep::Killable, Some(deadline), || false),
            Waited::TimedOut
        );
        assert!(monotonic_ns() >= deadline);
        // In the past; then the condition still counts.
        assert_eq!(
            queue.wait_until(Sleep::Killable, Some(0), || false),
            Waited::TimedOut
        );
        assert_eq!(
            queue.wait_until(Sleep::Killable, Some(0), || true),
            Waited::Woken
        );
        Ok(())
    }

    /// Sets a flag and wakes those who wait for it.
    struct Waker {
        flag: Atomic<bool>,
        queue: Arc<WaitQueue>,
    }

    impl IdleWork for Waker {
        fn run(&self) -> bool {
            self.flag.store(true, Release);
            self.queue.wake(Events::IN);
            false
        }
    }

    #[test]
    fn who_waits_is_woken() -> Result {
        let queue = Arc::pin_init(new_wait_queue!("mp_test"), GFP_KERNEL)?;
        let waker = Waker {
            flag: Atomic::new(false),
            queue: queue.clone(),
        };
        let thread = IdleThread::new(c"mp_test", waker)?;
        thread.kick();
        // Far away, and as far as there is no time: neither decides.
        for deadline in [Some(u64::MAX), Some(monotonic_ns() + (1 << 60)), None] {
            let waited = queue.wait_until(Sleep::Killable, deadline, || {
                thread.work().flag.load(Acquire)
            });
            assert_eq!(waited, Waited::Woken);
            thread.work().flag.store(false, Relaxed);
            thread.kick();
        }
        Ok(())
    }

    /// A structure in its second version.
    #[repr(C)]
    struct Grown {
        size: u32,
        old: u32,
        new: u64,
    }

    // SAFETY: Numbers without padding, for which all bits will do.
    unsafe impl FromBytes for Grown {}
    // SAFETY: As above.
    unsafe impl AsBytes for Grown {}

    impl Versioned for Grown {
        const FIRST_SIZE: usize = 8;
    }

    #[test]
    fn a_structure_of_no_version_is_refused() -> Result {
        let nowhere = UserPtr::from_addr(0);
        let read = |size| uaccess::read_versioned::<Grown>(nowhere, size).err();
        // Before anything is looked at.
        assert_eq!(read(0), Some(EINVAL));
        assert_eq!(read(7), Some(EINVAL));
        assert_eq!(read(PAGE_SIZE + 1), Some(E2BIG));
        assert_eq!(read(usize::MAX), Some(E2BIG));
        // These sizes are right, and there is nothing.
        for size in [8, 12, 16, 17, PAGE_SIZE] {
            assert_eq!(read(size), Some(EFAULT));
        }
        assert_eq!(uaccess::read_sized::<Grown>(nowhere).err(), Some(EFAULT));
        let value = Grown {
            size: 16,
            old: 0,
            new: 0,
        };
        let write = |size| uaccess::write_versioned(nowhere, size, &value);
        assert_eq!(write(7), Err(EINVAL));
        assert_eq!(write(16), Err(EFAULT));
        Ok(())
    }

    #[test]
    fn a_kernel_thread_owns_nothing_as_a_process() -> Result {
        assert_eq!(Owner::current().err(), Some(ESRCH));
        assert_eq!(EventFd::from_fd(-1).err(), Some(EBADF));
        Ok(())
    }
}
