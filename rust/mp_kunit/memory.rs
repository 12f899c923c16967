// SPDX-License-Identifier: GPL-2.0-only

//! Memory of both ends of a link: of this host as its own peer, and over epochs.

use kernel::prelude::*;

#[kunit_tests(mp_memory)]
mod tests {
    use super::*;
    use kernel::{
        sync::{
            atomic::{
                Acquire,
                Atomic,
                Relaxed,
                Release, //
            },
            Arc, //
        },
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };
    use mp_kernel::{
        error,
        iomem::DeviceRange,
        new_spinlock_bh,
        shared_pages::SharedPages,
        sync::SpinLockBh,
        worker::{
            new_worker,
            Work, //
        }, //
    };
    use mp_proto::{
        layout::PAGE,
        wire::PeerId, //
    };
    use mp_transport::{
        copy::Completion,
        frame::FuncId,
        local,
        memory::{
            run_of,
            Cache,
            Commons,
            Far,
            Further,
            Hold,
            Holder,
            LeadWindows,
            Lease,
            Limits,
            Local,
            Memory,
            PageFrame,
            Pool,
            RemoteBytes,
            Runs,
            Source,
            Told, //
        },
        service, //
    };

    /// The service that grants what is granted, and another one.
    const SERVICE: FuncId = FuncId(1);
    const OTHER: FuncId = FuncId(2);

    /// Pages of the pools that are made here.
    const PAGES: u64 = 8;

    /// The memory of this host as its own peer.
    fn own() -> Result<Arc<Memory>> {
        let me = service::peer_get(PeerId::SELF).ok_or(ENOENT)?;
        me.memory().ok_or(ENOENT)
    }

    /// A link whose ends share some pages.
    struct Shared {
        pages: Arc<SharedPages>,
        pool: Arc<Pool>,
    }

    impl Shared {
        fn new() -> Result<Self> {
            let pages = SharedPages::new((PAGES * PAGE) as usize / kernel::page::PAGE_SIZE)?;
            let pages = Arc::new(pages, GFP_KERNEL)?;
            let pool = Pool::new((c"test", PAGES * PAGE), pages.clone(), Further::default())?;
            Ok(Self { pages, pool })
        }

        fn begin(&self) -> Result<Arc<Memory>> {
            let far = Far::arena(self.pages.clone(), PAGES * PAGE);
            Memory::begin(self.pool.clone(), far)
        }
    }

    fn lease(piece: &Local) -> Result<Arc<Lease>> {
        Ok(piece.lease().ok_or(EINVAL)?.clone())
    }

    /// Counts how often it is told; takes its time for that.
    struct Counter {
        begun: Atomic<u32>,
        told: Atomic<u32>,
        ms: i64,
    }

    impl Counter {
        fn new(ms: i64) -> Result<Arc<Self>> {
            let this = Self {
                begun: Atomic::new(0),
                told: Atomic::new(0),
                ms,
            };
            Ok(Arc::new(this, GFP_KERNEL)?)
        }

        fn told(&self) -> u32 {
            self.told.load(Acquire)
        }
    }

    impl Holder for Counter {
        fn revoke(&self) {
            self.begun.fetch_add(1, Relaxed);
            fsleep(Delta::from_millis(self.ms));
            self.told.fetch_add(1, Release);
        }
    }

    #[test]
    fn a_piece_is_as_long_as_asked_for_and_begins_on_a_page() -> Result {
        let memory = own()?;
        let before = memory.limits();
        assert_eq!(before.local_total, before.remote_total);
        assert_eq!(before.local_largest_free, before.local_total);
        let first = memory.alloc(1)?;
        let second = memory.alloc(PAGE + 1)?;
        assert_eq!((first.len(), second.len()), (1, PAGE + 1));
        assert_eq!((first.off(), second.off()), (0, PAGE));
        let now = memory.limits().local_largest_free;
        assert_eq!(now, before.local_total - 3 * PAGE);
        assert!(first.page(0)? != second.page(0)?);
        assert_eq!(first.page(1).err(), Some(EINVAL));
        assert_eq!(second.page(2).err(), Some(EINVAL));
        drop((first, second));
        assert_eq!(memory.limits(), before);
        Ok(())
    }

    #[test]
    fn what_comes_back_is_zeroed_before_anybody_asks_for_it() -> Result {
        let link = Shared::new()?;
        let memory = link.begin()?;
        let places = [0, PAGE + 8, 3 * PAGE - 8];
        let piece = memory.alloc(3 * PAGE)?;
        for at in places {
            piece.store_u64(at, u64::MAX)?;
        }
        let off = piece.off();
        drop(piece);
        let is_zero = |at: &u64| link.pages.read_u64((off + at) as usize) == Ok(0);
        for _ in 0..400 {
            if places.iter().all(is_zero) {
                return Ok(());
            }
            fsleep(Delta::from_millis(5));
        }
        Err(ETIMEDOUT)
    }

    #[test]
    fn what_is_cut_is_zero_however_soon_after_it_came_back() -> Result {
        let link = Shared::new()?;
        let memory = link.begin()?;
        for _ in 0..200 {
            let piece = memory.alloc(2 * PAGE)?;
            for at in (0..2 * PAGE).step_by(8) {
                assert_eq!(piece.load_u64(at), Ok(0));
                piece.store_u64(at, u64::MAX)?;
            }
        }
        Ok(())
    }

    #[test]
    fn what_cannot_be_cut_is_refused() -> Result {
        let memory = own()?;
        let largest = memory.limits().local_largest_free;
        assert_eq!(memory.alloc(0).err(), Some(EINVAL));
        assert_eq!(memory.alloc(largest + 1).err(), Some(ENOSPC));
        assert_eq!(memory.alloc(u64::MAX).err(), Some(ENOSPC));
        assert_eq!(memory.limits().local_largest_free, largest);
        Ok(())
    }

    #[test]
    fn a_piece_shows_nothing_of_the_one_before_it() -> Result {
        let memory = own()?;
        let piece = memory.alloc(2 * PAGE)?;
        let off = piece.off();
        piece.write(PAGE - 2, &[0xa5; 4])?;
        piece.store_u64(2 * PAGE - 8, u64::MAX)?;
        drop(piece);
        let piece = memory.alloc(2 * PAGE - 1)?;
        assert_eq!(piece.off(), off);
        let mut bytes = KVec::from_elem(1u8, 2 * PAGE as usize - 1, GFP_KERNEL)?;
        piece.read(0, &mut bytes)?;
        assert!(bytes.iter().all(|byte| *byte == 0));
        Ok(())
    }

    #[test]
    fn a_piece_shows_nothing_behind_its_end_either() -> Result {
        let shared = Shared::new()?;
        let memory = shared.begin()?;
        let piece = memory.alloc(2 * PAGE)?;
        let end = (piece.off() + 2 * PAGE) as usize;
        piece.store_u64(2 * PAGE - 8, u64::MAX)?;
        drop(piece);
        // Who maps it sees all of its last page.
        let piece = memory.alloc(PAGE + 1)?;
        assert_eq!((piece.off() + 2 * PAGE) as usize, end);
        let mut bytes = KVec::from_elem(1u8, PAGE as usize, GFP_KERNEL)?;
        shared.pages.read(end - PAGE as usize, &mut bytes)?;
        assert!(bytes.iter().all(|byte| *byte == 0));
        Ok(())
    }

    #[test]
    fn both_ends_of_the_own_host_are_the_same_pages() -> Result {
        let memory = own()?;
        let local = memory.alloc(3 * PAGE)?;
        memory.grant(SERVICE, &local)?;
        let remote = memory.reach(local.off(), local.len())?;
        for page in 0..3 {
            assert_eq!(local.page(page)?, remote.page(page)?);
        }
        assert!(local.page(0)?.cache == Cache::Cached);
        let text: [u8; 100] = core::array::from_fn(|i| i as u8);
        remote.write(PAGE - 50, &text)?;
        remote.store_u64(8, 0x1234_5678)?;
        remote.flush()?;
        let mut got = [0; 100];
        local.read(PAGE - 50, &mut got)?;
        assert_eq!(got, text);
        assert_eq!(local.load_u64(8)?, 0x1234_5678);
        assert!(!local.exchange_u64(8, 7, 9)?);
        assert!(local.exchange_u64(8, 0x1234_5678, 9)?);
        assert_eq!(local.load_u64(8)?, 9);
        assert_eq!(remote.bus_address(0).err(), Some(error::unsupported()));
        memory.peer_let_go(SERVICE, local.off())
    }

    #[test]
    fn nothing_is_reached_beyond_a_piece() -> Result {
        let memory = own()?;
        let local = memory.alloc(PAGE + 8)?;
        let remote = memory.reach(local.off(), local.len())?;
        let mut byte = [0];
        assert_eq!(local.read(PAGE + 8, &mut byte).err(), Some(EINVAL));
        assert_eq!(local.read(u64::MAX, &mut byte).err(), Some(EINVAL));
        assert_eq!(local.write(PAGE + 7, &[1, 2]).err(), Some(EINVAL));
        assert_eq!(local.load_u64(PAGE + 1).err(), Some(EINVAL));
        for at in [PAGE + 4, PAGE + 8, u64::MAX - 7] {
            assert_eq!(local.exchange_u64(at, 0, 1).err(), Some(EINVAL));
        }
        assert_eq!(remote.write(PAGE + 7, &[1, 2]).err(), Some(EINVAL));
        assert_eq!(remote.store_u64(PAGE + 8, 1).err(), Some(EINVAL));
        assert_eq!(remote.page(2).err(), Some(EINVAL));
        assert_eq!(remote.page(u64::MAX).err(), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn only_the_peers_memory_is_reached() -> Result {
        let memory = own()?;
        let total = memory.limits().remote_total;
        for (off, len) in [
            (0, 0),
            (1, PAGE),
            (0, total + 1),
            (total, 1),
            (total - PAGE, PAGE + 1),
            (u64::MAX - PAGE + 1, PAGE),
        ] {
            assert_eq!(memory.reach(off, len).err(), Some(EINVAL));
        }
        assert_eq!(memory.reach(total - PAGE, PAGE)?.len(), PAGE);
        Ok(())
    }

    #[test]
    fn a_granted_piece_is_not_reused_before_the_peer_lets_go() -> Result {
        let memory = own()?;
        let before = memory.limits();
        let piece = memory.alloc(PAGE)?;
        let off = piece.off();
        memory.grant(SERVICE, &piece)?;
        memory.grant(SERVICE, &piece)?;
        drop(piece);
        let other = memory.alloc(PAGE)?;
        assert!(other.off() != off);
        memory.peer_let_go(SERVICE, off)?;
        assert_eq!(memory.peer_let_go(SERVICE, off).err(), Some(ENOENT));
        assert_eq!(memory.alloc(PAGE)?.off(), off);
        drop(other);
        assert_eq!(memory.limits(), before);
        Ok(())
    }

    #[test]
    fn a_piece_that_the_peer_let_go_first_is_free_at_once() -> Result {
        let memory = own()?;
        let piece = memory.alloc(PAGE)?;
        let off = piece.off();
        assert_eq!(memory.peer_let_go(SERVICE, off).err(), Some(ENOENT));
        memory.grant(SERVICE, &piece)?;
        memory.peer_let_go(SERVICE, off)?;
        drop(piece);
        assert_eq!(memory.alloc(PAGE)?.off(), off);
        Ok(())
    }

    #[test]
    fn what_a_service_has_granted_is_free_without_that_of_others() -> Result {
        let commons = Commons::get()?;
        let (shared, memory) = with_commons(8 * PAGE)?;
        let cut = || Ok::<_, Error>([memory.alloc(PAGE)?, commons.alloc(PAGE)?]);
        let (ended, kept, owned) = (cut()?, cut()?, cut()?);
        let at = |pieces: &[Local; 2]| pieces.each_ref().map(Local::off);
        let (ended_at, kept_at) = (at(&ended), at(&kept));
        for (service, pieces) in [(SERVICE, &ended), (OTHER, &kept), (SERVICE, &owned)] {
            for piece in pieces {
                memory.grant(service, piece)?;
            }
        }
        drop((ended, kept));
        memory.peer_let_all_go(SERVICE)?;
        let again = cut()?;
        assert_eq!(at(&again), ended_at);
        for off in kept_at {
            assert_eq!(memory.peer_let_go(SERVICE, off).err(), Some(ENOENT));
            memory.peer_let_go(OTHER, off)?;
        }
        // What is its owner's stays so, and is free when that gives it up.
        let owned_at = at(&owned);
        for off in owned_at {
            assert_eq!(memory.peer_let_go(SERVICE, off).err(), Some(ENOENT));
        }
        owned[0].store_u64(0, 7)?;
        assert_eq!(owned[0].load_u64(0)?, 7);
        drop(owned);
        let _kept = cut()?;
        assert_eq!(at(&cut()?), owned_at);
        memory.end();
        let over = memory.peer_let_all_go(SERVICE);
        assert_eq!(over.err(), Some(error::not_connected()));
        shared.pool.close();
        Ok(())
    }

    #[test]
    fn a_piece_of_another_peer_cannot_be_granted() -> Result {
        let memory = own()?;
        let shared = Shared::new()?;
        let piece = shared.begin()?.alloc(1)?;
        assert_eq!(memory.grant(SERVICE, &piece).err(), Some(ENOSPC));
        Ok(())
    }

    #[test]
    fn quarantine_lasts_until_the_next_epoch_begins() -> Result {
        let shared = Shared::new()?;
        let first = shared.begin()?;
        let (kept, given) = (first.alloc(PAGE)?, first.alloc(PAGE)?);
        first.grant(SERVICE, &kept)?;
        first.grant(SERVICE, &given)?;
        let (kept_at, given_at) = (kept.off(), given.off());
        first.end();
        drop(given);
        assert_eq!(first.alloc(1).err(), Some(error::not_connected()));
        assert_eq!(first.limits(), Limits::default());
        assert_eq!(
            first.peer_let_go(SERVICE, given_at).err(),
            Some(error::not_connected())
        );

        let second = shared.begin()?;
        assert_eq!(second.alloc(PAGE)?.off(), given_at);
        // What was granted in the old epoch cannot be reached any more, but is its owner's.
        kept.store_u64(0, 7)?;
        assert_eq!(kept.load_u64(0)?, 7);
        assert_eq!(
            first.grant(SERVICE, &kept).err(),
            Some(error::not_connected())
        );
        drop(kept);
        assert_eq!(second.alloc(PAGE)?.off(), kept_at);
        Ok(())
    }

    #[test]
    fn a_piece_counts_until_its_owner_and_the_peer_have_let_go() -> Result {
        let shared = Shared::new()?;
        let first = shared.begin()?;
        let (private, given, kept) = (first.alloc(PAGE)?, first.alloc(PAGE)?, first.alloc(PAGE)?);
        let leases = [lease(&private)?, lease(&given)?, lease(&kept)?];
        let over = || leases.each_ref().map(|lease| lease.is_over());
        first.grant(SERVICE, &given)?;
        first.grant(SERVICE, &kept)?;
        let off = given.off();
        assert_eq!(over(), [false, false, false]);
        drop((private, given, kept));
        assert_eq!(over(), [true, false, false]);
        first.peer_let_go(SERVICE, off)?;
        assert_eq!(over(), [true, true, false]);
        first.end();
        assert_eq!(over(), [true, true, false]);
        let _second = shared.begin()?;
        assert_eq!(over(), [true, true, true]);
        Ok(())
    }

    #[test]
    fn memory_of_the_host_and_of_the_commons_stays_and_that_of_a_bridge_does_not() -> Result {
        assert!(own()?.alloc(1)?.is_lasting());
        assert!(Commons::get()?.alloc(1)?.is_lasting());
        assert!(!Shared::new()?.begin()?.alloc(1)?.is_lasting());
        Ok(())
    }

    /// A user may have 512 private segments and 1,024 windows of sessions within the host.
    #[test]
    fn the_own_host_has_places_for_the_pieces_of_two_users() -> Result {
        let memory = own()?;
        let mut pieces = KVVec::new();
        for _ in 0..2 * (512 + 1024) {
            pieces.push(memory.alloc(1)?, GFP_KERNEL)?;
        }
        Ok(())
    }

    #[test]
    fn the_peers_memory_is_revoked_at_the_end_of_the_epoch() -> Result {
        let shared = Shared::new()?;
        let memory = shared.begin()?;
        let local = memory.alloc(PAGE)?;
        let remote = memory.reach(0, PAGE)?;
        let (stays, leaves, of_local) = (Counter::new(0)?, Counter::new(0)?, Counter::new(0)?);
        let _hold = remote.hold(stays.clone())?;
        drop(remote.hold(leaves.clone())?);
        let _local_hold = local.hold(of_local.clone())?;
        memory.end();
        memory.end();
        assert_eq!((stays.told(), leaves.told(), of_local.told()), (1, 0, 0));
        let gone = Some(error::not_connected());
        assert_eq!(remote.page(0).err(), gone);
        assert_eq!(remote.store_u64(0, 1).err(), gone);
        assert_eq!(remote.write(0, &[1]).err(), gone);
        assert_eq!(remote.flush().err(), gone);
        assert_eq!(remote.hold(stays).err(), gone);
        assert_eq!(memory.reach(0, PAGE).err(), gone);
        // A new epoch does not bring it back.
        let _next = shared.begin()?;
        assert_eq!(remote.store_u64(0, 1).err(), gone);
        assert_eq!(local.load_u64(0)?, 0);
        Ok(())
    }

    #[test]
    fn own_memory_is_revoked_when_it_goes() -> Result {
        let shared = Shared::new()?;
        let memory = shared.begin()?;
        let local = memory.alloc(PAGE)?;
        let counter = Counter::new(0)?;
        let _hold = local.hold(counter.clone())?;
        memory.end();
        shared.pool.close();
        assert_eq!(counter.told(), 1);
        let gone = Some(error::not_connected());
        assert_eq!(local.page(0).err(), gone);
        assert_eq!(local.load_u64(0).err(), gone);
        assert_eq!(local.write(0, &[1]).err(), gone);
        assert_eq!(local.hold(counter).err(), gone);
        Ok(())
    }

    /// Ends an epoch.
    struct Ender(Arc<Memory>);

    impl Work for Ender {
        fn run(&self) -> Option<u32> {
            self.0.end();
            None
        }
    }

    #[test]
    fn a_hold_that_is_dropped_has_been_told() -> Result {
        let memory = Shared::new()?.begin()?;
        let slow = Counter::new(50)?;
        let hold = memory.reach(0, PAGE)?.hold(slow.clone())?;
        let ender = new_worker!(Arc::new(Ender(memory), GFP_KERNEL)?)?;
        ender.kick();
        for _ in 0..1000 {
            if slow.begun.load(Relaxed) != 0 {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        assert_eq!(slow.begun.load(Relaxed), 1);
        drop(hold);
        assert_eq!(slow.told(), 1);
        Ok(())
    }

    /// A link whose ends share some pages, and whose peer reaches so much of the commons.
    fn with_commons(reach: u64) -> Result<(Shared, Arc<Memory>)> {
        let pages = SharedPages::new((PAGES * PAGE) as usize / kernel::page::PAGE_SIZE)?;
        let pages = Arc::new(pages, GFP_KERNEL)?;
        let further = Further {
            commons: Some((Commons::get()?, reach)),
            ..Default::default()
        };
        let pool = Pool::new((c"test", PAGES * PAGE), pages.clone(), further)?;
        let shared = Shared { pages, pool };
        let memory = shared.begin()?;
        Ok((shared, memory))
    }

    #[test]
    fn a_common_piece_is_at_the_same_place_for_all() -> Result {
        let commons = Commons::get()?;
        let before = commons.limits();
        let piece = commons.alloc(PAGE + 1)?;
        let (one, first) = with_commons(u64::MAX)?;
        let (two, second) = with_commons(u64::MAX)?;
        let me = own()?;
        for memory in [&first, &second, &me] {
            assert!(memory.can_grant(&piece));
            memory.grant(SERVICE, &piece)?;
        }
        // The own host reaches it where it tells others that it is.
        let remote = me.reach(piece.off(), piece.len())?;
        assert_eq!(
            (remote.off(), remote.page(1)?),
            (piece.off(), piece.page(1)?)
        );
        remote.write(PAGE, &[7])?;
        let mut byte = [0];
        piece.read(PAGE, &mut byte)?;
        assert_eq!(byte, [7]);
        // It is in quarantine until the last has let go, in each of the three ways.
        let off = piece.off();
        drop((remote, piece));
        let largest = || commons.limits().largest_free;
        assert_eq!(largest(), before.largest_free - 2 * PAGE);
        me.peer_let_go(SERVICE, off)?;
        assert_eq!(me.peer_let_go(SERVICE, off).err(), Some(ENOENT));
        first.end();
        let again = one.begin()?;
        assert_eq!(largest(), before.largest_free - 2 * PAGE);
        second.end();
        two.pool.close();
        assert_eq!(commons.limits(), before);
        assert_eq!(again.peer_let_go(SERVICE, off).err(), Some(ENOENT));
        again.end();
        one.pool.close();
        Ok(())
    }

    #[test]
    fn a_common_piece_beyond_the_window_is_not_granted() -> Result {
        let commons = Commons::get()?;
        let (near, far) = (commons.alloc(PAGE)?, commons.alloc(2 * PAGE)?);
        let (shared, memory) = with_commons(2 * PAGE)?;
        assert_eq!(memory.limits().local_commons, 2 * PAGE);
        assert!(memory.can_grant(&near) && !memory.can_grant(&far));
        memory.grant(SERVICE, &near)?;
        assert_eq!(memory.grant(SERVICE, &far).err(), Some(ENOSPC));
        let none = Shared::new()?;
        assert_eq!(none.begin()?.grant(SERVICE, &near).err(), Some(ENOSPC));
        memory.end();
        shared.pool.close();
        Ok(())
    }

    #[test]
    fn one_link_with_one_window_is_home() -> Result {
        let commons = Commons::get()?;
        let home = Shared::new()?;
        let memory = home.begin()?;
        commons.join(&home.pool)?;
        assert_eq!(commons.limits().total, PAGES * PAGE);
        let piece = commons.alloc(PAGE)?;
        assert!(memory.can_grant(&piece) && !own()?.can_grant(&piece));
        memory.grant(SERVICE, &piece)?;
        drop(piece);
        // A second link ends that.
        let other = Shared::new()?;
        commons.join(&other.pool)?;
        let piece = commons.alloc(PAGE)?;
        assert!(!memory.can_grant(&piece) && own()?.can_grant(&piece));
        memory.end();
        other.pool.close();
        home.pool.close();
        Ok(())
    }

    /// Memory of a peer with an engine that copies nothing, and takes its time for that.
    #[pin_data]
    struct Slow {
        #[pin]
        waiting: SpinLockBh<Option<Completion>>,
    }

    impl RemoteBytes for Slow {
        fn page(&self, _off: u64) -> Result<PageFrame> {
            Err(EINVAL)
        }

        fn store_u64(&self, _off: u64, _val: u64) -> Result {
            Ok(())
        }

        fn write(&self, _off: u64, _src: &[u8]) -> Result {
            Ok(())
        }

        unsafe fn copy(&self, _off: u64, pieces: &[local::Piece], done: Completion) -> Result {
            let mut waiting = self.waiting.lock();
            if waiting.is_some() || pieces.is_empty() {
                return Err(EAGAIN);
            }
            *waiting = Some(done);
            Ok(())
        }

        fn flush(&self) {}
    }

    impl Work for Slow {
        fn run(&self) -> Option<u32> {
            fsleep(Delta::from_millis(20));
            let done = self.waiting.lock().take();
            if let Some(done) = done {
                done.tell(Ok(()));
            }
            None
        }
    }

    struct Reader(Local);

    // SAFETY: The piece stays, and tells when its memory goes.
    unsafe impl Runs for Reader {
        fn run(&self, at: u64, most: u64) -> Result<(u64, u64)> {
            self.0.run(at, most)
        }

        fn hold(&self, holder: Arc<dyn Holder>) -> Result<Option<Hold>> {
            self.0.hold(holder).map(Some)
        }
    }

    /// The sum of the tags that have ended.
    struct Ended(Atomic<u32>);

    impl Told for Ended {
        fn told(&self, tag: usize, _result: Result) {
            self.0.fetch_add(tag as u32, Relaxed);
        }
    }

    #[test]
    fn both_ends_of_a_copy_wait_for_the_engine() -> Result {
        let pages = SharedPages::new((PAGES * PAGE) as usize / kernel::page::PAGE_SIZE)?;
        let pool = Pool::new(
            (c"test", PAGES * PAGE),
            Arc::new(pages, GFP_KERNEL)?,
            Further::default(),
        )?;
        let slow = Arc::pin_init(
            pin_init!(Slow {
                waiting <- new_spinlock_bh!(None),
            }),
            GFP_KERNEL,
        )?;
        let engine = new_worker!(slow.clone())?;
        let memory = Memory::begin(pool.clone(), Far::arena(slow, PAGE))?;
        let reader = Arc::new(Reader(memory.alloc(PAGE)?), GFP_KERNEL)?;
        let told = Arc::new(Ended(Atomic::new(0)), GFP_KERNEL)?;
        // The destination ends first, then the source.
        let source = Source::new(reader.clone())?;
        let remote = memory.reach(0, PAGE)?;
        assert_eq!(
            remote.copy(8, &source, 8, PAGE - 8, (told.clone(), 1)),
            Ok(PAGE - 8)
        );
        let second = remote.copy(0, &source, 0, PAGE, (told.clone(), 100));
        assert_eq!(second.err(), Some(EAGAIN));
        assert_eq!(told.0.load(Relaxed), 0);
        engine.kick();
        remote.stop();
        assert_eq!(told.0.load(Relaxed), 1);
        let late = remote.copy(0, &source, 0, PAGE, (told.clone(), 100));
        assert_eq!(late.err(), Some(error::not_connected()));
        let remote = memory.reach(0, PAGE)?;
        assert_eq!(
            remote.copy(0, &source, 0, PAGE, (told.clone(), 2)),
            Ok(PAGE)
        );
        engine.kick();
        drop(source);
        assert_eq!(told.0.load(Relaxed), 3);
        memory.end();
        drop((remote, reader));
        pool.close();
        Ok(())
    }

    #[test]
    fn a_run_ends_where_the_next_page_is_elsewhere() {
        let places = [0x10000, 0x11000, 0x20000];
        let phys = |page: u64| places.get(page as usize).copied().ok_or(EINVAL);
        assert_eq!(run_of(8, 2 * PAGE, phys), Ok((0x10008, 2 * PAGE - 8)));
        assert_eq!(run_of(8, 16, phys), Ok((0x10008, 16)));
        assert_eq!(run_of(PAGE, PAGE, phys), Ok((0x11000, PAGE)));
        assert_eq!(
            run_of(2 * PAGE + 1, 2 * PAGE, phys),
            Ok((0x20001, PAGE - 1))
        );
        assert_eq!(run_of(3 * PAGE, 1, phys), Err(EINVAL));
        assert_eq!(run_of(0, 0, phys), Err(EINVAL));
    }

    /// The old adapters' memory, which is never the kernel's.
    const ADAPTER: u64 = 0xa_0000;

    /// A page of it, and how many bytes from there.
    fn adapter(page: u64, len: u64) -> Result<DeviceRange> {
        // SAFETY: Nobody uses what is there: no peer is, and no process.
        unsafe { DeviceRange::new(ADAPTER + page * PAGE, len) }
    }

    /// Windows that lead anywhere, and remember where.
    struct Led {
        at: [Atomic<u64>; 2],
    }

    impl LeadWindows for Led {
        fn count(&self) -> u32 {
            self.at.len() as u32
        }

        fn check(&self, _window: u32, _phys: u64, len: u64) -> Result {
            (len <= PAGE).then_some(()).ok_or(ENOSPC)
        }

        fn lead(&self, window: u32, range: &DeviceRange) -> Result {
            self.check(window, range.phys(), range.len())?;
            self.at[window as usize].store(range.phys(), Relaxed);
            Ok(())
        }

        fn withdraw(&self, window: u32) {
            self.at[window as usize].store(0, Relaxed);
        }
    }

    fn led_windows() -> Result<(Shared, Arc<Led>)> {
        let pages = Arc::new(SharedPages::new(1)?, GFP_KERNEL)?;
        let led = Led {
            at: [Atomic::new(0), Atomic::new(0)],
        };
        let led = Arc::new(led, GFP_KERNEL)?;
        let further = Further {
            windows: Some(led.clone()),
            ..Default::default()
        };
        let pool = Pool::new((c"test", PAGE), pages.clone(), further)?;
        Ok((Shared { pages, pool }, led))
    }

    impl Led {
        fn now(&self) -> [u64; 2] {
            [self.at[0].load(Relaxed), self.at[1].load(Relaxed)]
        }
    }

    #[test]
    fn an_exposure_stays_until_the_peer_lets_go() -> Result {
        let (shared, led) = led_windows()?;
        let memory = shared.begin()?;
        assert_eq!(
            memory.expose(SERVICE, &adapter(1, PAGE + 1)?).err(),
            Some(ENOSPC)
        );
        let first = memory.expose(SERVICE, &adapter(1, PAGE)?)?;
        let second = memory.expose(SERVICE, &adapter(2, 1)?)?;
        assert!(first.off() != second.off());
        assert_eq!(memory.expose(SERVICE, &adapter(3, 1)?).err(), Some(ENOSPC));
        assert_eq!(memory.can_expose(0x3000, 1), Ok(()));
        assert_eq!(led.now(), [ADAPTER + PAGE, ADAPTER + 2 * PAGE]);
        // The owner first, then the peer; and the other way round.
        let off = first.off();
        drop(first);
        assert_eq!(led.now(), [ADAPTER + PAGE, ADAPTER + 2 * PAGE]);
        memory.peer_let_go(SERVICE, off)?;
        assert_eq!(led.now(), [0, ADAPTER + 2 * PAGE]);
        assert_eq!(memory.peer_let_go(SERVICE, off).err(), Some(ENOENT));
        memory.peer_let_go(SERVICE, second.off())?;
        assert_eq!(led.now(), [0, ADAPTER + 2 * PAGE]);
        drop(second);
        assert_eq!(led.now(), [0, 0]);
        memory.end();
        shared.pool.close();
        Ok(())
    }

    #[test]
    fn what_a_service_has_exposed_ends_without_that_of_others() -> Result {
        let (shared, led) = led_windows()?;
        let memory = shared.begin()?;
        drop(memory.expose(SERVICE, &adapter(1, 1)?)?);
        let other = memory.expose(OTHER, &adapter(2, 1)?)?;
        let off = other.off();
        drop(other);
        assert_eq!(memory.peer_let_go(SERVICE, off).err(), Some(ENOENT));
        memory.peer_let_all_go(SERVICE)?;
        assert_eq!(led.now(), [0, ADAPTER + 2 * PAGE]);
        memory.peer_let_all_go(OTHER)?;
        assert_eq!(led.now(), [0, 0]);
        memory.end();
        shared.pool.close();
        Ok(())
    }

    #[test]
    fn nothing_is_exposed_without_a_window() -> Result {
        let memory = Shared::new()?.begin()?;
        assert_eq!(memory.can_expose(0x1000, 1).err(), Some(ENOSPC));
        assert_eq!(memory.expose(SERVICE, &adapter(1, 1)?).err(), Some(ENOSPC));
        assert!(!memory.sees_exposures());
        Ok(())
    }

    #[test]
    fn an_exposure_ends_with_the_epoch_or_the_link() -> Result {
        let (shared, led) = led_windows()?;
        let memory = shared.begin()?;
        drop(memory.expose(SERVICE, &adapter(1, 1)?)?);
        let kept = memory.expose(SERVICE, &adapter(2, 1)?)?;
        memory.end();
        assert_eq!(
            memory.expose(SERVICE, &adapter(3, 1)?).err(),
            Some(error::not_connected())
        );
        assert_eq!(led.now(), [ADAPTER + PAGE, ADAPTER + 2 * PAGE]);
        let next = shared.begin()?;
        assert_eq!(led.now(), [0, ADAPTER + 2 * PAGE]);
        next.end();
        shared.pool.close();
        assert_eq!(led.now(), [0, 0]);
        drop(kept);
        Ok(())
    }

    #[test]
    fn the_kernels_own_memory_is_not_exposed() -> Result {
        let memory = own()?;
        let piece = memory.alloc(PAGE)?;
        let page = piece.page(0)?.phys;
        let refused = Some(error::unsupported());
        // An address that the processor does not have leads to the page as well: page tables
        // have no room for all its bits.
        let beyond = page | 1 << 52;
        for (phys, len) in [
            (page, PAGE),
            (page + 1, 1),
            (beyond, PAGE),
            (u64::MAX - PAGE + 1, PAGE),
            (ADAPTER, 0),
            (ADAPTER, u64::MAX),
        ] {
            // SAFETY: It is not used.
            let range = unsafe { DeviceRange::new(phys, len) };
            assert_eq!(range.err(), refused);
        }
        assert_eq!(memory.can_expose(page, PAGE).err(), refused);
        assert_eq!(memory.can_expose(page + 1, 1).err(), refused);
        assert_eq!(memory.can_expose(beyond, PAGE).err(), refused);
        assert_eq!(memory.can_expose(u64::MAX - PAGE + 1, PAGE).err(), refused);
        Ok(())
    }

    #[test]
    fn an_exposure_of_the_own_host_is_its_pages() -> Result {
        let memory = own()?;
        let exposure = memory.expose(SERVICE, &adapter(0, 2 * PAGE)?)?;
        assert_eq!(
            memory.reach(exposure.off(), 2 * PAGE + 1).err(),
            Some(EINVAL)
        );
        let remote = memory.reach(exposure.off(), 2 * PAGE)?;
        assert_eq!(remote.off(), exposure.off());
        assert_eq!(remote.page(1)?.phys, ADAPTER + PAGE);
        assert_eq!(remote.bus_address(8)?, ADAPTER + 8);
        assert_eq!(remote.page(2).err(), Some(EINVAL));
        memory.peer_let_go(SERVICE, exposure.off())?;
        let off = exposure.off();
        drop((remote, exposure));
        assert_eq!(memory.reach(off, PAGE).err(), Some(EINVAL));
        Ok(())
    }
}
