// SPDX-License-Identifier: GPL-2.0

//! Module parameters, checked.

use super::{
    module_parameters,
    regs::SPAD_MAX, //
};
use core::ops::RangeInclusive;
use kernel::prelude::*;
use mp_kernel::param;

const MW_COUNT: RangeInclusive<u32> = 1..=4;
const MW_SIZE_MIN: u64 = 64 << 10;
const MW_SIZE_MAX: u64 = 1 << 30;
const DB_COUNT: RangeInclusive<u32> = 8..=62;
const SPAD_COUNT: RangeInclusive<u32> = 0..=SPAD_MAX;

/// What the module was loaded with.
///
/// # Invariants
///
/// All values are in their ranges; `mw_size` is a power of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Params {
    /// Windows for each peer.
    pub(crate) mw_count: u32,
    /// Bytes of a window.
    pub(crate) mw_size: u64,
    /// Doorbells.
    pub(crate) db_count: u32,
    /// Scratchpads of each port.
    pub(crate) spad_count: u32,
    /// Every so many interrupts of peers get lost; zero: none.
    pub(crate) lose_doorbells: u32,
    /// Every so many reads of scratchpads are all ones; zero: none.
    pub(crate) dead_reads: u32,
}

impl Params {
    /// The parameters, if all are good.
    ///
    /// # Errors
    ///
    /// `EINVAL`, and a line in the log that tells which and why.
    pub(crate) fn read() -> Result<Self> {
        let mw_size = param!(mw_size);
        if !mw_size.is_power_of_two() || !(MW_SIZE_MIN..=MW_SIZE_MAX).contains(&mw_size) {
            pr_err!(
                "mw_size={} is not a power of two from {} to {}\n",
                mw_size,
                MW_SIZE_MIN,
                MW_SIZE_MAX
            );
            return Err(EINVAL);
        }
        // INVARIANT: All checked.
        Ok(Self {
            mw_count: check("mw_count", param!(mw_count), MW_COUNT)?,
            mw_size,
            db_count: check("db_count", param!(db_count), DB_COUNT)?,
            spad_count: check("spad_count", param!(spad_count), SPAD_COUNT)?,
            lose_doorbells: param!(lose_doorbells),
            dead_reads: param!(dead_reads),
        })
    }

    /// One word that is equal on hosts that fit together.
    pub(crate) fn fingerprint(&self) -> u32 {
        self.mw_count
            | self.mw_size.trailing_zeros() << 4
            | self.db_count << 10
            | self.spad_count << 16
    }
}

fn check(name: &str, value: u32, range: RangeInclusive<u32>) -> Result<u32> {
    if range.contains(&value) {
        return Ok(value);
    }
    pr_err!(
        "{}={} is not from {} to {}\n",
        name,
        value,
        range.start(),
        range.end()
    );
    Err(EINVAL)
}
