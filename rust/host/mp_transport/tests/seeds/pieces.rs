// SPDX-License-Identifier: GPL-2.0-only

//! Memory of both ends of a link: cut, granted, let go and given up by several contexts at once, for
//! two services, over epochs.

use super::*;
use kernel::prelude::*;
use machine::{
    point,
    spawn,
    Handle,
    Kind, //
};
use mp_kernel::shared_pages::SharedPages;
use mp_proto::layout::PAGE;
use mp_transport::{
    frame::FuncId,
    memory::{
        Far,
        Further,
        Memory,
        Pool, //
    }, //
};

/// Pages of the pool.
const PAGES: u64 = 6;
/// A service whose peer lets go of each piece, and one whose peer begins anew.
const SERVICE: FuncId = FuncId(1);
const RESTARTED: FuncId = FuncId(2);
/// What each context does so often.
const ROUNDS: u32 = 8;

/// The owner of each page, as the contexts that cut pieces know it.
struct Owners([Atomic<u32>; PAGES as usize]);

/// Cut a piece for a service, see that it is nobody else's and shows nothing, write all over it, and
/// give it up.
fn cut(memory: &Memory, owners: &Owners, me: u32, service: FuncId) -> Result {
    let pages = 1 + below(2);
    let piece = memory.alloc(pages * PAGE)?;
    let first = piece.off() / PAGE % PAGES;
    let mine = &owners.0[first as usize..(first + pages) as usize];
    for page in mine {
        assert_eq!(page.xchg(me, Relaxed), 0, "a page of two pieces");
    }
    let mut seen = [1; 16];
    for at in [0, PAGE - 32, pages * PAGE - 16] {
        piece.read(at, &mut seen)?;
        assert_eq!(seen, [0; 16], "what somebody else has written");
        piece.write(at, &[me as u8; 16])?;
    }
    let is_granted = memory.grant(service, &piece).is_ok();
    point();
    piece.read(0, &mut seen)?;
    assert_eq!(seen, [me as u8; 16], "what nobody has written");
    let off = piece.off();
    for page in mine {
        assert_eq!(page.xchg(0, Relaxed), me, "a page of two pieces");
    }
    drop(piece);
    if is_granted {
        // The peer lets go later than the owner gives up.
        point();
        match service {
            SERVICE => memory.peer_let_go(SERVICE, off)?,
            _ => memory.peer_let_all_go(service)?,
        }
    }
    Ok(())
}

fn everything() -> Result {
    let pages = (PAGES * PAGE) as usize / kernel::page::PAGE_SIZE;
    let pages = Arc::new(SharedPages::new(pages)?, GFP_KERNEL)?;
    let owners = Arc::new(
        Owners([const { Atomic::new(0) }; PAGES as usize]),
        GFP_KERNEL,
    )?;
    let pool = Pool::new((c"test", PAGES * PAGE), pages.clone(), Further::default())?;
    let far = Far::arena(pages.clone(), PAGES * PAGE);
    let memory = Memory::begin(pool.clone(), far)?;
    run_short();
    let contexts = [(1, SERVICE), (2, SERVICE), (3, RESTARTED)];
    let running = contexts.map(|(me, service)| {
        let (memory, owners) = (memory.clone(), owners.clone());
        spawn("owner", Kind::Process, move || {
            for _ in 0..ROUNDS {
                // It may be too much for the pool, or for the host.
                if let Err(e) = cut(&memory, &owners, me, service) {
                    assert!([ENOSPC, ENOMEM].contains(&e), "{e:?}");
                }
            }
        })
    });
    running.iter().for_each(Handle::join);
    set_failing_memory(Odds::NEVER);
    let all = memory.alloc(PAGES * PAGE);
    assert!(all.is_ok(), "all pieces have come back");
    drop(all);
    memory.end();
    pool.close();
    Ok(())
}

#[test]
fn a_page_is_of_one_piece_and_shows_nothing_of_the_one_before() {
    with_module(|| everything().expect("memory is there at first"));
}
