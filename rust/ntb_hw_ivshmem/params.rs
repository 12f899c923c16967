// SPDX-License-Identifier: GPL-2.0-only

//! Module parameters, checked: a personality, and what differs from it.

use super::{
    module_parameters,
    personality::{
        Names,
        Personality,
        WindowPlan, //
    },
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

/// The value of a number that was not given: as the personality has it.
const UNSET: u32 = u32::MAX;

/// What the module was loaded with.
///
/// # Invariants
///
/// All values are in their ranges, or those of the personality; `mw_size` is a
/// power of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Params {
    /// What the device is like, but for the other values here.
    pub(crate) personality: &'static Personality,
    /// Windows for each peer.
    pub(crate) windows: WindowPlan,
    /// Bytes of a direct window.
    pub(crate) mw_size: u64,
    /// Doorbells.
    pub(crate) db_count: u32,
    /// Scratchpads of each port.
    pub(crate) spad_count: u32,
    /// The function whose memory windows may lead to.
    pub(crate) target: Option<Address>,
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
        let personality = personality()?;
        let own = &personality.windows;
        let direct = number("mw_count", param!(mw_count), own.direct_count(), MW_COUNT)?;
        // INVARIANT: All checked.
        Ok(Self {
            personality,
            windows: own.with_direct_count(direct),
            mw_size: mw_size(personality)?,
            db_count: number("db_count", param!(db_count), personality.db_count, DB_COUNT)?,
            spad_count: number(
                "spad_count",
                param!(spad_count),
                personality.spad_count,
                SPAD_COUNT,
            )?,
            target: target()?,
            lose_doorbells: param!(lose_doorbells),
            dead_reads: param!(dead_reads),
        })
    }

    /// One word that is equal on hosts that fit together.
    pub(crate) fn fingerprint(&self) -> u32 {
        self.windows.count()
            | self.mw_size.trailing_zeros() << 4
            | self.db_count << 10
            | self.spad_count << 16
            | self.personality.index() << 26
    }
}

/// Where a function is on the PCI bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) devfn: u32,
}

impl Address {
    /// Read `domain:bus:device.function`, as `lspci -D` writes it.
    fn parse(text: &str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let hex = |digits: &str, max: u32| {
            let value = u32::from_str_radix(digits, 16).ok();
            value.filter(|value| *value <= max)
        };
        Some(Self {
            domain: hex(domain, 0xffff)?,
            bus: hex(bus, 0xff)?,
            devfn: hex(device, 0x1f)? << 3 | hex(function, 7)?,
        })
    }
}

/// The target that was named.
fn target() -> Result<Option<Address>> {
    let Some(text) = super::target.get() else {
        return Ok(None);
    };
    let address = Address::parse(text);
    if address.is_none() {
        pr_err!("target={} is no address like 0000:00:0e.0\n", text);
    }
    address.map(Some).ok_or(EINVAL)
}

/// The personality that was asked for.
fn personality() -> Result<&'static Personality> {
    let Some(name) = super::personality.get() else {
        return Ok(Personality::generic());
    };
    Personality::find(name).ok_or_else(|| {
        pr_err!("personality={} is none of {}\n", name, Names);
        EINVAL
    })
}

fn mw_size(personality: &Personality) -> Result<u64> {
    let mw_size = match param!(mw_size) {
        0 => personality.mw_size as u64,
        given => given,
    };
    if mw_size.is_power_of_two() && (MW_SIZE_MIN..=MW_SIZE_MAX).contains(&mw_size) {
        return Ok(mw_size);
    }
    pr_err!(
        "mw_size={} is not a power of two from {} to {}\n",
        mw_size,
        MW_SIZE_MIN,
        MW_SIZE_MAX
    );
    Err(EINVAL)
}

/// A number that was given and lies in its range, or the personality's `own`.
fn number(name: &str, value: u32, own: u32, range: RangeInclusive<u32>) -> Result<u32> {
    if value == UNSET {
        return Ok(own);
    }
    check(name, value, range)
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
