// SPDX-License-Identifier: MIT OR Apache-2.0

//! Makes calls, well or badly put, and checks their answers against those that
//! `uapi/linux/mp_fabric.h` allows.

use crate::{
    faults::Faults,
    forms::{Answers, Form},
    log::Log,
    memory::{Arena, Place},
    random::Random,
};
use mp_fabric::sys::MP_IOC_MAGIC;
use std::io;

/// What `errno` is after a call that has succeeded.
pub const OK: i32 = 0;

/// What a call may say that has found no memory, or has not reached that of the process.
const FAULTS: [i32; 2] = [libc::ENOMEM, libc::EFAULT];

/// The one who calls, in one process.
pub struct Caller {
    pub random: Random,
    pub log: &'static Log,
    pub arena: Arena,
    /// Where the last structure was.
    pub place: Place,
    pub faults: Faults,
}

/// A structure as bytes.
pub fn bytes_of<T: Copy>(value: &T) -> Vec<u8> {
    let start = std::ptr::from_ref(value).cast::<u8>();
    // SAFETY: Structures of the header are numbers without padding.
    unsafe { std::slice::from_raw_parts(start, size_of::<T>()) }.to_vec()
}

/// The error of the last call of the C library.
pub fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(-1)
}

/// What a call that returned this came to.
fn outcome(returned: i64) -> i32 {
    if returned < 0 {
        errno()
    } else {
        OK
    }
}

impl Caller {
    /// End this process because of an answer that must not be.
    pub fn fail(&self, why: &str) -> ! {
        self.log.end(&format!("WRONG: {why}"));
        std::process::exit(1);
    }

    /// Whatever else the answer is, it is one of these; counts it.
    pub fn expect(&self, name: &str, got: i32, allowed: &[i32]) {
        self.log.end(&format!("= {got}"));
        if !allowed.contains(&got) {
            let error = io::Error::from_raw_os_error(got);
            self.fail(&format!("{name} gave {error}; allowed are {allowed:?}"));
        }
        self.log.count(name, got == OK);
    }

    /// What a call comes to that may find no memory, or not reach that of the process, and is
    /// allowed to say so then.
    pub fn with_faults(&mut self, allowed: &mut Vec<i32>, call: impl FnOnce() -> i64) -> i32 {
        if !self.faults.0 || !self.random.one_in(3) {
            return outcome(call());
        }
        let nth = 1 + self.random.below(12);
        allowed.extend(FAULTS);
        self.log.end(&format!("fault {nth}"));
        self.faults.during(nth, || outcome(call()))
    }

    /// As [`plain`](Self::plain), of a call that may fail for the same reasons.
    pub fn plain_with_faults(
        &mut self,
        name: &str,
        text: &str,
        allowed: &[i32],
        call: impl FnOnce() -> i64,
    ) -> Result<i64, i32> {
        self.log.begin(&format!("{name} {text}"));
        let mut allowed = allowed.to_vec();
        let mut returned = -1;
        let got = self.with_faults(&mut allowed, || {
            returned = call();
            returned
        });
        self.told(name, got, returned, &allowed)
    }

    /// What a call has returned, or its error, once that is seen to be one of these.
    fn told(&self, name: &str, got: i32, returned: i64, allowed: &[i32]) -> Result<i64, i32> {
        self.expect(name, got, allowed);
        match got {
            OK => Ok(returned),
            error => Err(error),
        }
    }

    /// Make a call of the C library, described by `text`, that must have one of these
    /// results; what it has returned, or the error.
    pub fn plain(
        &self,
        name: &str,
        text: &str,
        allowed: &[i32],
        call: impl FnOnce() -> i64,
    ) -> Result<i64, i32> {
        self.log.begin(&format!("{name} {text}"));
        let returned = call();
        let got = outcome(returned);
        self.told(name, got, returned, allowed)
    }

    /// Make a call of the device, in one of six cases badly put, and return the structure as
    /// it is afterwards, or the error. `allowed` are the results if it is well put.
    pub fn ask<T: Copy>(
        &mut self,
        fd: i32,
        form: &Form,
        value: T,
        allowed: &[i32],
        text: &str,
    ) -> Result<T, i32> {
        let whole = size_of::<T>();
        let mut bytes = bytes_of(&value);
        let mut size = whole as u32;
        let (mut number, mut place) = (form.number, Place::Good);
        let mut allowed = allowed.to_vec();
        let flaw = if self.random.one_in(6) {
            self.random.below(8)
        } else {
            u64::MAX
        };
        // A context that the caller may not use says so before it looks at anything.
        let mut only = |error| {
            if allowed != [libc::EACCES] {
                allowed = vec![error];
            }
        };
        match flaw {
            0 => {
                size = self.random.index(form.first) as u32;
                only(libc::EINVAL);
            }
            1 => {
                size = self.random.pick(&[4097, 8192, 1 << 31, u32::MAX]);
                only(libc::E2BIG);
            }
            2 | 3 => {
                size += 1 + self.random.below(4096 - whole as u64) as u32;
                bytes.resize(size as usize, 0);
                if flaw == 3 {
                    let beyond = whole + self.random.index(bytes.len() - whole);
                    bytes[beyond] = 1;
                    only(libc::E2BIG);
                }
            }
            4 => {
                place = Place::Nowhere;
                only(libc::EFAULT);
            }
            5 => {
                place = Place::Cut;
                only(libc::EFAULT);
            }
            6 => {
                place = Place::ReadOnly;
                let written = |error: i32| match form.answers {
                    Answers::Never => false,
                    Answers::Late => error == OK || form.short.contains(&error),
                };
                let faults = allowed.iter_mut().filter(|error| written(**error));
                faults.for_each(|error| *error = libc::EFAULT);
            }
            7 => {
                let magic = MP_IOC_MAGIC << 8;
                number = self.random.pick(&[
                    magic | 0x7F,
                    magic | 0xFF,
                    (MP_IOC_MAGIC - 1) << 8,
                    form.number | 1 << 30,
                    u32::MAX,
                ]);
                only(libc::ENOTTY);
            }
            _ => {}
        }
        self.place = place;
        bytes[..4].copy_from_slice(&size.to_ne_bytes());
        let address = self.arena.put(&bytes, place, &mut self.random);
        self.log.begin(&format!(
            "{} fd {fd} number {number:#x} size {size} at {address:#x} {place:?} {text}",
            form.name
        ));
        let got = self.with_faults(&mut allowed, || {
            // SAFETY: The kernel writes to what is at the address only, memory for that.
            i64::from(unsafe { libc::ioctl(fd, u64::from(number), address) })
        });
        self.expect(form.name, got, &allowed);
        if place != Place::Good {
            return if got == OK { Ok(value) } else { Err(got) };
        }
        let after = self.arena.get(address, bytes.len());
        let wrote = form.answers != Answers::Never && (got == OK || form.short.contains(&got));
        let from = if wrote { whole } else { 0 };
        if after[from..] != bytes[from..] || after[..4] != bytes[..4] {
            self.fail("it has written where it must not");
        }
        match got {
            // SAFETY: All bits will do for structures of numbers, and it has so many bytes.
            OK => Ok(unsafe { after.as_ptr().cast::<T>().read_unaligned() }),
            error => Err(error),
        }
    }
}
