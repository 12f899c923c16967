// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a worker has done last, in memory that outlives it: whoever looks after the workers
//! prints it when one has failed, hangs, or has been killed by a fault.

use crate::forms;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Relaxed};

/// Lines that are kept.
const LINES: usize = 24;
/// Most bytes of a line.
const WIDTH: usize = 200;

/// The log of one worker.
pub struct Log {
    /// Calls begun so far, over all processes that were this worker.
    pub calls: AtomicU64,
    lines: [[AtomicU8; WIDTH]; LINES],
    /// Calls that have succeeded, and those that have failed as they must, by kind.
    tallies: [[AtomicU64; 2]; forms::KINDS],
}

impl Log {
    /// Log for so many workers, shared with all children of this process, for ever.
    pub fn shared(workers: usize) -> &'static [Log] {
        let len = workers * size_of::<Log>();
        // SAFETY: A mapping of its own.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED, "no memory for logs");
        // SAFETY: It is zero, as which a log is one, large and aligned enough, and never
        // unmapped; all of it is atomic.
        unsafe { std::slice::from_raw_parts(memory.cast::<Log>(), workers) }
    }

    /// Begin a line.
    pub fn begin(&self, text: &str) {
        let call = self.calls.fetch_add(1, Relaxed) + 1;
        self.write(call, &format!("#{call} {text}"));
    }

    /// Complete the last line.
    pub fn end(&self, text: &str) {
        let call = self.calls.load(Relaxed);
        let begun = self.line(call);
        self.write(call, &format!("{begun} {text}"));
    }

    /// Count a call that has ended as it may.
    pub fn count(&self, kind: &str, succeeded: bool) {
        let at = (0..forms::KINDS).find(|at| forms::name(*at) == kind);
        let [good, bad] = &self.tallies[at.expect("a kind")];
        if succeeded { good } else { bad }.fetch_add(1, Relaxed);
    }

    /// How many calls of a kind have succeeded and failed.
    pub fn tally(&self, kind: usize) -> [u64; 2] {
        [0, 1].map(|n| self.tallies[kind][n].load(Relaxed))
    }

    fn write(&self, call: u64, text: &str) {
        let line = &self.lines[call as usize % LINES];
        let bytes = text.bytes().chain(std::iter::repeat(0));
        line.iter()
            .zip(bytes)
            .for_each(|(to, byte)| to.store(byte, Relaxed));
    }

    fn line(&self, call: u64) -> String {
        let line = self.lines[call as usize % LINES].iter();
        let bytes = line
            .map(|byte| byte.load(Relaxed))
            .take_while(|byte| *byte != 0);
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    }

    /// The last lines, the oldest one first.
    pub fn last(&self) -> Vec<String> {
        let end = self.calls.load(Relaxed);
        let first = (end + 1).saturating_sub(LINES as u64).max(1);
        (first..=end).map(|call| self.line(call)).collect()
    }
}
