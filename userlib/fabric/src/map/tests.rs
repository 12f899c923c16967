// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines that are stored in one piece. Where the processor has no such store, a handler of the signal
//! does what the instruction would: that it is this instruction, which words it stores, and where.

use super::*;
use std::{
    mem,
    sync::atomic::{AtomicBool, AtomicU32},
};

/// `movdir64b rdi, [rsi]`
const INSTRUCTION: [u8; 5] = [0x66, 0x0f, 0x38, 0xf8, 0x3e];

/// Lines that the handler has stored.
static STORED: AtomicU32 = AtomicU32::new(0);
/// One of them was not where a line may be.
static CROOKED: AtomicBool = AtomicBool::new(false);

/// Do what the instruction does; end the process at any other.
extern "C" fn stand_in(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: The kernel has filled it for this handler, on which the thread waits.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize];
    let code = ptr::with_exposed_provenance::<[u8; 5]>(at as usize);
    // SAFETY: The processor has read the instruction there. A shorter one has others behind it.
    if unsafe { code.read() } != INSTRUCTION {
        process::abort();
    }
    let [to, from] = [libc::REG_RDI, libc::REG_RSI].map(|name| registers[name as usize] as usize);
    CROOKED.fetch_or(to % LINE != 0, Ordering::Relaxed);
    let to = ptr::with_exposed_provenance_mut::<[u64; 8]>(to);
    let from = ptr::with_exposed_provenance::<[u64; 8]>(from);
    // SAFETY: What the instruction would load and store, in the thread that executes it.
    unsafe { to.write_volatile(from.read_unaligned()) };
    STORED.fetch_add(1, Ordering::Relaxed);
    registers[libc::REG_RIP as usize] += INSTRUCTION.len() as i64;
}

fn handle() {
    let handler: extern "C" fn(_, _, _) = stand_in;
    // SAFETY: All zero is a value of the structure; the handler has the signature that its flag says.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGILL, &action, ptr::null_mut()), 0);
    }
}

#[test]
fn a_line_is_stored_in_one_piece_and_nothing_beside_it() {
    let mut map = Map::allocate(4096).expect("small");
    if !whole::is_there() {
        handle();
    }
    map.whole_lines = true;
    let line = [1, 2, 3, 4, 5, 6, 7, 0x0807_0605_0403_0201];
    for offset in [0, 128, 4096 - 64] {
        assert_eq!(map.store_line(offset, &line), Some(()));
    }
    for outside in [4, 8, 32, 4096 - 32, 4096, usize::MAX - 63] {
        assert_eq!(map.store_line(outside, &line), None);
    }
    let mut found = vec![0; 4096];
    map.volatile().copy_to(&mut found);
    let mut wanted = vec![0; 4096];
    for offset in [0, 128, 4096 - 64] {
        let bytes: Vec<u8> = line.iter().flat_map(|word| word.to_le_bytes()).collect();
        wanted[offset..offset + 64].copy_from_slice(&bytes);
    }
    assert!(found == wanted);
    let by_handler = STORED.load(Ordering::Relaxed);
    assert_eq!(by_handler, if whole::is_there() { 0 } else { 3 });
    assert!(!CROOKED.load(Ordering::Relaxed));
}

#[test]
fn lines_are_stored_in_one_piece_only_where_the_processor_can() {
    let map = Map::allocate(4096).expect("small");
    assert!(!map.whole_lines, "not by itself");
    let can = std::fs::read_to_string("/proc/cpuinfo").expect("there");
    let can = can.split_whitespace().any(|word| word == "movdir64b");
    assert_eq!(map.with_whole_lines().whole_lines, can);
}
