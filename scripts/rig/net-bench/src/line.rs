// SPDX-License-Identifier: GPL-2.0-only
//! Two threads that pass a word to each other on one cache line.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Round trips between two looks at the clock.
const BATCH: u64 = 1000;

/// Two words of one line, each of which one thread writes.
#[derive(Default)]
#[repr(align(64))]
struct Line {
    there: AtomicU64,
    back: AtomicU64,
}

/// The word that says that no more come.
const END: u64 = u64::MAX;

/// Wait until a word is another one than `old`.
fn next(word: &AtomicU64, old: u64) -> u64 {
    loop {
        let new = word.load(Ordering::Acquire);
        if new != old {
            return new;
        }
        spin_loop();
    }
}

/// Pass a word there and back for `time`, while both threads look at the line.
pub fn ping_pong(time: Duration) -> String {
    let line = Line::default();
    let (transactions, seconds) = thread::scope(|scope| {
        scope.spawn(|| {
            let mut word = 0;
            while word != END {
                word = next(&line.there, word);
                line.back.store(word, Ordering::Release);
            }
        });
        let mut transactions = 0;
        let mut turn = || {
            transactions += 1;
            line.there.store(transactions, Ordering::Release);
            next(&line.back, transactions - 1);
        };
        // The other thread has been started once it has answered.
        turn();
        let start = Instant::now();
        while start.elapsed() < time {
            (0..BATCH).for_each(|_| turn());
        }
        let seconds = start.elapsed().as_secs_f64();
        line.there.store(END, Ordering::Release);
        (transactions - 1, seconds)
    });
    format!(r#"{{"transactions": {transactions}, "seconds": {seconds:.6}}}"#)
}
