// SPDX-License-Identifier: MIT OR Apache-2.0

//! How much memory the process can register (VI-LIM-6): what it may lock, of the memory that it has
//! and could get.

use rustix::{
    param::page_size,
    process::{getrlimit, Resource},
    thread::CapabilitySet,
};
use std::fs;

/// Of this part of the memory that is free nothing is promised: the kernel and other processes need
/// some.
const RESERVE: u64 = 4;

/// Bytes that the process can register, in whole pages.
pub(crate) fn lockable() -> u64 {
    let page = page_size() as u64;
    allowed().min(obtainable()) / page * page
}

/// Bytes that the process may lock.
fn allowed() -> u64 {
    let own = rustix::thread::capabilities(None).map(|own| own.effective);
    match own.is_ok_and(|own| own.contains(CapabilitySet::IPC_LOCK)) {
        true => u64::MAX,
        false => getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX),
    }
}

/// Bytes that the process has in memory, and those that it could get without others losing theirs.
fn obtainable() -> u64 {
    let resident = fs::read_to_string("/proc/self/statm").ok();
    let resident = resident.as_deref().and_then(resident_in).unwrap_or(0);
    let available = fs::read_to_string("/proc/meminfo").ok();
    let available = available.as_deref().and_then(available_in);
    let available = available.unwrap_or_else(free);
    let has = resident.saturating_mul(page_size() as u64);
    has.saturating_add(available - available / RESERVE)
}

/// Pages of a process, by its `statm`.
fn resident_in(statm: &str) -> Option<u64> {
    statm.split_whitespace().nth(1)?.parse().ok()
}

/// Bytes that are available, by `meminfo`.
fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Bytes that are free, where there is no file system that tells more.
fn free() -> u64 {
    let system = rustix::system::sysinfo();
    let unit = u64::from(system.mem_unit);
    system.freeram.saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_there_is() {
        assert_eq!(resident_in("2000 300 200 10 0 100 0\n"), Some(300));
        let meminfo = "MemTotal: 8000 kB\nMemFree:  10 kB\nMemAvailable:     4000 kB\n";
        assert_eq!(available_in(meminfo), Some(4_096_000));
        for other in [
            "",
            "MemTotal: 8 kB\n",
            "MemAvailable:\n",
            "MemAvailable: x kB\n",
        ] {
            assert_eq!((resident_in(other), available_in(other)).1, None);
        }
        let most = lockable();
        assert!(most > 0 && most % page_size() as u64 == 0);
        assert!(free() > 0 && obtainable() >= most);
    }
}
