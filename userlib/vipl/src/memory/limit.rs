// SPDX-License-Identifier: MIT OR Apache-2.0

//! How much memory the process can register (VI-LIM-6): what it may lock, of the memory that it has
//! and could get.

use rustix::{
    param::page_size,
    process::{getrlimit, Resource},
    thread::CapabilitySet,
};
use std::fs;

/// One part in so many of the available memory is left to the kernel and to other processes.
const RESERVE_DIVISOR: u64 = 4;

/// Bytes that the process can register, in whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lockable {
    /// Of memory of any kind: what is told.
    pub(crate) told: u64,
    /// Those of huge pages as well: more is refused.
    pub(crate) most: u64,
}

/// What the process can register at the moment.
pub(crate) fn lockable() -> Lockable {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let (status, meminfo) = (read("/proc/self/status"), read("/proc/meminfo"));
    lockable_of(allowed(), free(), &status, &meminfo)
}

/// The same, by what the process may lock, what is free where `meminfo` does not say what is
/// available, the process's `status`, and `meminfo`. Of free huge pages those of the default size
/// count.
fn lockable_of(allowed: u64, free: u64, status: &str, meminfo: &str) -> Lockable {
    let page = page_size() as u64;
    let available = bytes_in(meminfo, "MemAvailable:").unwrap_or(free);
    let has = bytes_in(status, "VmRSS:").unwrap_or(0);
    let usual = has.saturating_add(available - available / RESERVE_DIVISOR);
    let size = bytes_in(meminfo, "Hugepagesize:").unwrap_or(0);
    let unused = number_in(meminfo, "HugePages_Free:").unwrap_or(0);
    let has = bytes_in(status, "HugetlbPages:").unwrap_or(0);
    let huge = has.saturating_add(unused.saturating_mul(size));
    let whole = |bytes: u64| allowed.min(bytes) / page * page;
    Lockable {
        told: whole(usual),
        most: whole(usual.saturating_add(huge)),
    }
}

/// Bytes that the process may lock.
fn allowed() -> u64 {
    let own = rustix::thread::capabilities(None).map(|own| own.effective);
    match own.is_ok_and(|own| own.contains(CapabilitySet::IPC_LOCK)) {
        true => u64::MAX,
        false => getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX),
    }
}

/// The number on the line that begins with a name.
fn number_in(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The same, of kilobytes.
fn bytes_in(text: &str, name: &str) -> Option<u64> {
    number_in(text, name)?.checked_mul(1024)
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
    fn lines_tell_numbers() {
        let meminfo = "MemTotal: 8000 kB\nMemFree:  10 kB\nMemAvailable:     4000 kB\n";
        assert_eq!(bytes_in(meminfo, "MemAvailable:"), Some(4_096_000));
        for other in [
            "",
            "MemTotal: 8 kB\n",
            "MemAvailable:\n",
            "MemAvailable: x kB\n",
            "MemAvailable: 18446744073709551615 kB\n",
        ] {
            assert_eq!(bytes_in(other, "MemAvailable:"), None);
        }
    }

    /// VI-LIM-6: what may be locked, of what the process has and three quarters of what is available;
    /// huge pages are not told, and not refused.
    #[test]
    fn what_can_be_registered_depends_on_limit_and_memory() {
        let status = "VmHWM:\t 900 kB\nVmRSS:\t     640 kB\nHugetlbPages:\t    2048 kB\n";
        let meminfo = "MemAvailable: 2560 kB\nHugePages_Free:  3\nHugepagesize:  2048 kB\n";
        let of = |allowed, status, meminfo| {
            let found = lockable_of(allowed, 256 * 1024, status, meminfo);
            (found.told / 1024, found.most / 1024)
        };
        assert_eq!(of(u64::MAX, status, meminfo), (2560, 2560 + 8192));
        assert_eq!(of(4 * 1024 * 1024, status, meminfo), (2560, 4096));
        let page = page_size() as u64;
        let limited = lockable_of(7 * page + 1, 0, status, meminfo);
        assert_eq!((limited.told, limited.most), (7 * page, 7 * page));
        assert_eq!(of(u64::MAX, "", ""), (192, 192));
    }

    #[test]
    fn the_kernel_tells_what_there_is() {
        let found = lockable();
        assert!(found.told > 0 && found.most >= found.told && free() > 0);
    }
}
