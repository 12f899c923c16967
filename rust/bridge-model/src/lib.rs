// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What becomes of stores through a bridge, for tests. The simulator of whole hosts and the tests
//! of libraries have the same model; each brings its own memory and its own time.
//!
//! 1. A store goes into a write-combining buffer of the processor that executes it
//!    ([`Buffers`]): a line of 64 bytes of which it fills a part. They are written out in any
//!    order: when one is needed for another line, by chance at any time, and all of them by a
//!    fence. A whole line goes out in one piece, a part of one in words, in any order.
//!
//!    A processor that has a store of a whole line writes it out at once, ahead of what the buffers
//!    hold back ([`Buffers::store_line`]).
//! 2. What was written out is posted: posted writes of one sender to one target stay in order, and
//!    take their time ([`Way`]). A test without a clock has a queue instead.
//! 3. A line arrives in words of 8 bytes, perhaps not all of them at once ([`Line::arriving`]),
//!    unless the memory takes it whole ([`Line::whole`]): bridges do not promise that.

#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// Write-combining buffers of a processor.
const LINES: usize = 6;
/// Bytes of a line.
pub const LINE: usize = 64;

/// Random numbers.
pub trait Chance {
    /// A number below `n`, which is not zero.
    fn below(&self, n: u64) -> u64;

    /// True once in `n` times.
    fn once_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A line of which some bytes are set.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where it is in the memory, a multiple of [`LINE`].
    pub at: usize,
    /// Which bytes are set, a bit each.
    pub set: u64,
    /// The bytes.
    pub data: [u8; LINE],
    /// It becomes visible in one piece.
    pub whole: bool,
}

impl Line {
    /// Which of its bytes become visible now: mostly all of them, else some of its words. What
    /// it returns is not set any more.
    pub fn arriving(&mut self, chance: &impl Chance) -> u64 {
        let now = match chance.once_in(32) {
            true if !self.whole => self.set & spread(chance.below(1 << 8)),
            _ => self.set,
        };
        self.set &= !now;
        now
    }

    fn is_full(&self) -> bool {
        self.set == u64::MAX
    }

    fn word(&self, word: u64) -> Option<Line> {
        let set = self.set & 0xff << (8 * word);
        (set != 0).then(|| Line {
            set,
            ..self.clone()
        })
    }
}

/// Whole words, by the low bits of a number.
fn spread(bits: u64) -> u64 {
    (0..8)
        .filter(|word| bits >> word & 1 != 0)
        .fold(0, |set, word| set | 0xff << (8 * word))
}

/// The write-combining buffers of one processor.
#[derive(Debug, Default)]
pub struct Buffers(Vec<Line>);

impl Buffers {
    /// Whether nothing is held back.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Store bytes; what is written out meanwhile goes to `post`.
    pub fn store(
        &mut self,
        off: usize,
        bytes: &[u8],
        chance: &impl Chance,
        mut post: impl FnMut(Line),
    ) {
        let mut done = 0;
        while done < bytes.len() {
            let (at, skip) = ((off + done) / LINE * LINE, (off + done) % LINE);
            let n = (LINE - skip).min(bytes.len() - done);
            let line = self.line(at, chance, &mut post);
            line.data[skip..skip + n].copy_from_slice(&bytes[done..done + n]);
            let all = if n == LINE { u64::MAX } else { (1 << n) - 1 };
            line.set |= all << skip;
            done += n;
        }
        if chance.once_in(16) {
            self.evict(chance, &mut post);
        }
    }

    /// Store the line at `at` in one piece: it goes to `post` at once, whatever is held back. What is
    /// held back of the same line is combined with it; nothing that is stored later is.
    pub fn store_line(&mut self, at: usize, data: [u8; LINE], post: impl FnOnce(Line)) {
        self.0.retain(|line| line.at != at);
        post(Line {
            at,
            set: u64::MAX,
            data,
            whole: false,
        });
    }

    /// The buffer for the line at `at`.
    fn line(&mut self, at: usize, chance: &impl Chance, post: &mut impl FnMut(Line)) -> &mut Line {
        let found = self.0.iter().position(|line| line.at == at);
        let found = found.unwrap_or_else(|| {
            if self.0.len() >= LINES {
                self.evict(chance, post);
            }
            self.0.push(Line {
                at,
                set: 0,
                data: [0; LINE],
                whole: false,
            });
            self.0.len() - 1
        });
        &mut self.0[found]
    }

    /// Write one of the buffers out.
    pub fn evict(&mut self, chance: &impl Chance, post: &mut impl FnMut(Line)) {
        if self.0.is_empty() {
            return;
        }
        let pick = chance.below(self.0.len() as u64) as usize;
        let line = self.0.swap_remove(pick);
        if line.is_full() {
            return post(line);
        }
        let first = chance.below(8);
        let words = (0..8).map(|n| (first + n * 3) % 8);
        words.filter_map(|word| line.word(word)).for_each(post);
    }

    /// A fence: writes all buffers out.
    pub fn flush(&mut self, chance: &impl Chance, mut post: impl FnMut(Line)) {
        while !self.is_empty() {
            self.evict(chance, &mut post);
        }
    }
}

/// What is under way from one sender to one target, in order: lines, and whatever else the caller
/// lets go the same way. Each may be late; those behind it are as late.
#[derive(Debug)]
pub struct Way<T> {
    /// With the times at which they arrive.
    posted: VecDeque<(u64, T)>,
    last: u64,
    delay: u64,
}

impl<T> Way<T> {
    /// A way on which a write takes less than `delay` nanoseconds, mostly a sixteenth of that.
    pub fn new(delay: u64) -> Self {
        Self {
            posted: VecDeque::new(),
            last: 0,
            delay: delay.max(16),
        }
    }

    /// Something goes from here on at the time `now`.
    pub fn post(&mut self, now: u64, what: T, chance: &impl Chance) {
        let late = match chance.once_in(64) {
            true => self.delay,
            false => self.delay / 16,
        };
        self.last = self.last.max(now + chance.below(late));
        self.posted.push_back((self.last, what));
    }

    /// When all that is posted has arrived, if nothing holds it up.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// When the next one arrives.
    pub fn due(&self) -> Option<u64> {
        self.posted.front().map(|(at, _)| *at)
    }

    /// The next one arrives now, whatever its time, unless nothing is under way.
    pub fn take(&mut self) -> Option<(u64, T)> {
        self.posted.pop_front()
    }

    /// What of the one that [`take`](Self::take) has returned has not arrived yet.
    pub fn put_back(&mut self, rest: (u64, T)) {
        self.posted.push_front(rest);
    }

    /// All that is under way, the next one first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.posted.iter().map(|(_, what)| what)
    }

    /// Lose what is under way; how much it was.
    pub fn lose(&mut self) -> usize {
        let lost = self.posted.len();
        self.posted.clear();
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Counter(Cell<u64>);

    impl Chance for Counter {
        fn below(&self, n: u64) -> u64 {
            self.0
                .set(self.0.get().wrapping_mul(0x5851_f42d_4c95_7f2d) + 1);
            (self.0.get() >> 33) % n
        }
    }

    #[test]
    fn whatever_is_stored_arrives_once_and_parts_of_lines_in_words() {
        let chance = Counter(Cell::new(7));
        let mut buffers = Buffers::default();
        let (mut memory, mut wanted) = (vec![0; 4096], vec![0; 4096]);
        let (mut torn, mut late) = (0, 0);
        for n in 0..2000_usize {
            let (off, len) = (n * 97 % 3900, n * 31 % 190);
            let bytes = vec![n as u8; len];
            wanted[off..off + len].copy_from_slice(&bytes);
            let mut posted = Vec::new();
            buffers.store(off, &bytes, &chance, |line| posted.push(line));
            if n % 3 == 0 {
                buffers.flush(&chance, |line| posted.push(line));
            }
            for mut line in posted {
                torn += usize::from(!line.is_full());
                let mut times = 0;
                while line.set != 0 {
                    let now = line.arriving(&chance);
                    for (n, byte) in line.data.iter().enumerate() {
                        if now >> n & 1 != 0 {
                            memory[line.at + n] = *byte;
                        }
                    }
                    times += 1;
                }
                late += usize::from(times > 1);
            }
            if buffers.is_empty() {
                assert!(memory == wanted, "after store {n}");
            }
        }
        assert!(torn > 100 && late > 100, "{torn} {late}");
    }

    #[test]
    fn a_line_in_one_piece_is_ahead_of_what_is_held_back_and_behind_nothing_of_its_own() {
        // Nothing is written out by chance.
        struct Never;
        impl Chance for Never {
            fn below(&self, n: u64) -> u64 {
                n - 1
            }
        }
        let (mut buffers, mut posted) = (Buffers::default(), Vec::new());
        for (off, byte) in [(0, 1), (64, 2), (72, 3)] {
            buffers.store(off, &[byte; 8], &Never, |line| posted.push(line));
        }
        assert!(posted.is_empty(), "held back");
        buffers.store_line(64, [4; LINE], |line| posted.push(line));
        buffers.store(64, &[5; 8], &Never, |line| posted.push(line));
        buffers.flush(&Never, |line| posted.push(line));
        let found: Vec<_> = posted.iter().map(|line| (line.at, line.set)).collect();
        assert_eq!((found[0], found.len()), ((64, u64::MAX), 3));
        assert_eq!(posted[0].data, [4; LINE]);
        assert!(found.contains(&(0, 0xff)) && found.contains(&(64, 0xff)));
    }

    #[test]
    fn what_is_posted_arrives_in_order_and_one_that_is_late_holds_up_the_others() {
        let chance = Counter(Cell::new(7));
        let mut way = Way::new(1600);
        let mut late = 0;
        for n in 0..2000 {
            way.post(10 * n, n, &chance);
            assert!(way.last() < 10 * n + 1600);
            late += u64::from(way.last() >= 10 * n + 100);
        }
        assert!((50..1500).contains(&late), "{late}");
        let mut before = 0;
        for n in 0..2000 {
            let due = way.due().expect("it is under way");
            assert!(due >= before.max(10 * n));
            before = due;
            assert_eq!(way.take(), Some((due, n)));
        }
        assert!(way.due().is_none() && way.take().is_none());
    }

    #[test]
    fn a_line_that_the_memory_takes_whole_arrives_in_one_piece() {
        let chance = Counter(Cell::new(7));
        let arrives_at_once = |whole| {
            let mut line = Line {
                at: 0,
                set: u64::MAX,
                data: [0; LINE],
                whole,
            };
            line.arriving(&chance) == u64::MAX
        };
        let at_once = |whole| (0..2000).filter(|_| arrives_at_once(whole)).count();
        assert_eq!(at_once(true), 2000);
        assert!(at_once(false) < 1990);
    }
}
