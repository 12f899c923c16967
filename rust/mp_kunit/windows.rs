// SPDX-License-Identifier: GPL-2.0-only

//! Windows of sessions, and lists of objects, of the user service: its own source.

#[allow(dead_code)] // what sessions need besides
#[path = "../mp_func_user/numbered.rs"]
mod numbered;
#[allow(dead_code)]
#[path = "../mp_func_user/window.rs"]
mod window;

use kernel::prelude::*;

#[kunit_tests(mp_windows)]
mod tests {
    use super::{
        numbered::{
            for_each,
            Keyed,
            List, //
        },
        window::{
            Piece,
            Watch,
            Watched,
            Window, //
        },
        *,
    };
    use kernel::{
        page::PAGE_SIZE,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc, //
        }, //
    };
    use mp_kernel::{
        error,
        iomem::DeviceRange,
        new_spinlock_bh,
        shared_pages::SharedPages,
        sync::SpinLockBh,
        vma::{
            AddressSpace,
            Frames,
            Mapping,
            ScrapPage, //
        }, //
    };
    use mp_proto::layout::PAGE;
    use mp_transport::{
        frame::FuncId,
        memory::{
            Far,
            Further,
            LeadWindows,
            Memory,
            Pool, //
        }, //
    };

    /// A window that leads anywhere.
    struct Led;

    impl LeadWindows for Led {
        fn count(&self) -> u32 {
            1
        }

        fn check(&self, _window: u32, _phys: u64, _len: u64) -> Result {
            Ok(())
        }

        fn lead(&self, _window: u32, _range: &DeviceRange) -> Result {
            Ok(())
        }

        fn withdraw(&self, _window: u32) {}
    }

    /// A page that is there.
    fn pages() -> Result<Arc<SharedPages>> {
        let pages = SharedPages::new(PAGE as usize / PAGE_SIZE)?;
        pages.populate(0, PAGE as usize)?;
        Ok(Arc::new(pages, GFP_KERNEL)?)
    }

    /// A link whose ends share a page.
    fn link() -> Result<(Arc<Pool>, Arc<Memory>)> {
        let pages = pages()?;
        let further = Further {
            windows: Some(Arc::new(Led, GFP_KERNEL)?),
            ..Default::default()
        };
        let pool = Pool::new((c"test", PAGE), pages.clone(), further)?;
        let memory = Memory::begin(pool.clone(), Far::arena(pages, PAGE))?;
        Ok((pool, memory))
    }

    fn piece(piece: Piece) -> Result<Arc<Piece>> {
        Ok(Arc::new(piece, GFP_KERNEL)?)
    }

    /// A window onto the only page of the peer's arena, and what a process maps.
    fn remote(memory: &Arc<Memory>) -> Result<(Window, Arc<Mapping>)> {
        watched(memory, None)
    }

    /// The same with one who is told of what is shown.
    fn watched(
        memory: &Arc<Memory>,
        watch: Option<Arc<dyn Watch>>,
    ) -> Result<(Window, Arc<Mapping>)> {
        let space = AddressSpace::new()?;
        let there = piece(Piece::Remote(memory.reach(0, PAGE)?))?;
        let window = Window::new(there, &space, (1, true), ScrapPage::new()?, watch)?;
        let first = window.offset() / PAGE_SIZE as u64;
        let mapping = space.find(first as usize, 1).ok_or(ENOENT)?;
        Ok((window, mapping))
    }

    /// Notes what it is told, and what a mapping showed then.
    #[pin_data]
    struct Witness {
        #[pin]
        mapping: SpinLockBh<Option<Arc<Mapping>>>,
        has_gone: Atomic<bool>,
        was_live: Atomic<bool>,
    }

    impl Witness {
        fn new() -> Result<Arc<Self>> {
            let witness = pin_init!(Self {
                mapping <- new_spinlock_bh!(None),
                has_gone: Atomic::new(false),
                was_live: Atomic::new(false),
            });
            Arc::pin_init(witness, GFP_KERNEL)
        }
    }

    impl Watch for Witness {
        fn back(&self) {
            self.has_gone.store(false, Relaxed);
        }

        fn gone(&self) {
            let mapping = self.mapping.lock().clone();
            let is_live = mapping.is_some_and(|mapping| mapping.is_live());
            self.was_live.store(is_live, Relaxed);
            self.has_gone.store(true, Relaxed);
        }
    }

    /// Were it after, a process would store into the scrap page, and find its connection in order.
    #[test]
    fn that_memory_goes_is_told_before_it_is_taken_away() -> Result {
        let (_pool, memory) = link()?;
        let witness = Witness::new()?;
        let (_window, mapping) = watched(&memory, Some(witness.clone()))?;
        *witness.mapping.lock() = Some(mapping.clone());
        assert!(!witness.has_gone.load(Relaxed));
        memory.end();
        assert!(witness.has_gone.load(Relaxed));
        assert!(witness.was_live.load(Relaxed));
        assert!(!mapping.is_live());
        Ok(())
    }

    /// The place is empty before those are told who hold the memory: a fault meanwhile is the first.
    #[test]
    fn a_page_that_is_not_there_any_more_is_told_by_who_asks_for_it() -> Result {
        let (_pool, memory) = link()?;
        let witness = Witness::new()?;
        let shown = Watched {
            piece: piece(Piece::Remote(memory.reach(0, PAGE)?))?,
            watch: Some(witness.clone()),
        };
        assert!(shown.frame(0).is_some());
        assert!(!witness.has_gone.load(Relaxed));
        memory.end();
        assert!(shown.frame(0).is_none());
        assert!(witness.has_gone.load(Relaxed));
        Ok(())
    }

    /// Where no page can be mapped nothing is: a process would store into the scrap page unawares.
    #[test]
    fn what_has_no_pages_is_not_mapped() -> Result {
        let empty = Arc::new(SharedPages::new(PAGE as usize / PAGE_SIZE)?, GFP_KERNEL)?;
        let pool = Pool::new((c"test", PAGE), empty.clone(), Further::default())?;
        let memory = Memory::begin(pool.clone(), Far::arena(empty, PAGE))?;
        assert!(watched(&memory, None).is_err());
        memory.end();
        Ok(())
    }

    /// What has gone before it is shown is told, and what is shown after that is back.
    #[test]
    fn what_is_shown_again_is_told_to_be_back() -> Result {
        let (pool, memory) = link()?;
        let gone = piece(Piece::Remote(memory.reach(0, PAGE)?))?;
        let witness = Witness::new()?;
        let (mut window, _mapping) = watched(&memory, Some(witness.clone()))?;
        window.release();
        memory.end();
        window.show(gone)?;
        assert!(witness.has_gone.load(Relaxed));
        let pages = pages()?;
        let next = Memory::begin(pool, Far::arena(pages, PAGE))?;
        window.release();
        window.show(piece(Piece::Remote(next.reach(0, PAGE)?))?)?;
        assert!(!witness.has_gone.load(Relaxed));
        next.end();
        Ok(())
    }

    #[test]
    fn what_is_held_is_shown_until_the_epoch_ends() -> Result {
        let (_pool, memory) = link()?;
        let (_window, mapping) = remote(&memory)?;
        assert!(mapping.is_live());
        memory.end();
        assert!(!mapping.is_live());
        Ok(())
    }

    /// Nobody would take it away again.
    #[test]
    fn what_cannot_be_held_is_not_shown() -> Result {
        let (_pool, memory) = link()?;
        let (mut window, mapping) = remote(&memory)?;
        window.release();
        assert!(!mapping.is_live());
        // SAFETY: The old adapters' memory, which is never the kernel's, and nobody maps it.
        let range = unsafe { DeviceRange::new(0xa_0000, PAGE)? };
        let exposed = piece(Piece::Exposed(memory.expose(FuncId(1), &range)?))?;
        assert_eq!(window.show(exposed).err(), Some(error::unsupported()));
        assert!(!mapping.is_live());
        Ok(())
    }

    #[test]
    fn what_has_gone_is_not_shown() -> Result {
        let (_pool, memory) = link()?;
        let (mut window, mapping) = remote(&memory)?;
        let gone = piece(Piece::Remote(memory.reach(0, PAGE)?))?;
        window.release();
        memory.end();
        window.show(gone)?;
        assert!(!mapping.is_live());
        Ok(())
    }

    /// The epoch ends between the two steps: a fault before that has found nothing, and to one after it
    /// the piece names no frames. Were memory shown first, a frame from before would stay with the process.
    #[test]
    fn what_goes_as_it_is_shown_was_shown_to_nobody() -> Result {
        let (_pool, memory) = link()?;
        let (mut window, mapping) = remote(&memory)?;
        let there = piece(Piece::Remote(memory.reach(0, PAGE)?))?;
        window.release();
        let mut is_held = false;
        window.show_once_held(there.clone(), |piece, holder| {
            assert!(!mapping.is_live());
            let hold = piece.hold(holder)?;
            is_held = hold.is_some();
            assert!(!mapping.is_live());
            memory.end();
            Ok(hold)
        })?;
        assert!(is_held);
        assert_eq!(there.phys_address(0, PAGE), Err(error::not_connected()));
        Ok(())
    }

    struct Number(u32);

    impl Keyed<u32> for Number {
        fn key(&self) -> u32 {
            self.0
        }
    }

    #[pin_data]
    struct Objects {
        #[pin]
        list: SpinLockBh<List<Number>>,
    }

    impl Objects {
        fn new(numbers: &[u32]) -> Result<Arc<Self>> {
            let objects = Arc::pin_init(
                pin_init!(Self { list <- new_spinlock_bh!(List::new()) }),
                GFP_KERNEL,
            )?;
            for number in numbers {
                let object = Arc::new(Number(*number), GFP_KERNEL)?;
                objects.list.lock().enter(object)?;
            }
            Ok(objects)
        }
    }

    #[test]
    fn objects_are_found_by_their_numbers() -> Result {
        let objects = Objects::new(&[7, 3, 9])?;
        let mut list = objects.list.lock();
        assert!([3, 7, 9]
            .iter()
            .all(|n| list.get(n).is_some_and(|o| o.0 == *n)));
        assert!(list.get(&4).is_none());
        assert_eq!(list.remove(&7).map(|object| object.0), Some(7));
        assert!(list.remove(&7).is_none() && list.get(&7).is_none());
        Ok(())
    }

    /// Also if those leave that have been met, or are next.
    #[test]
    fn all_that_stay_are_met() -> Result {
        let objects = Objects::new(&[1, 2, 3, 4, 5])?;
        let mut met = KVec::new();
        for_each(&objects.list, |object| {
            let gone = match object.0 {
                2 => [1, 3],
                _ => [0, 0],
            };
            for number in gone {
                drop(objects.list.lock().remove(&number));
            }
            let _ = met.push(object.0, GFP_KERNEL);
        });
        assert_eq!(met.as_slice(), [1, 2, 4, 5]);
        Ok(())
    }
}
