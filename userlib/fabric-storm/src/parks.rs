// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sleeps on words of windows.

use crate::{
    caller::bytes_of,
    forms::PARK,
    memory::Place,
    worker::{now, Worker},
};
use libc::{EFAULT, EINVAL, ENOENT, ENOTCONN, ERANGE, ETIMEDOUT};
use mp_fabric::sys::*;

/// What a call with good entries may come to.
const ALLOWED: [i32; 6] = [0, ETIMEDOUT, ENOTCONN, ERANGE, libc::EOPNOTSUPP, ENOENT];

impl Worker {
    pub fn park(&mut self) {
        let of = self.context();
        let count = self.random().below(4) as usize;
        let mut entries = Vec::new();
        let (mut is_wrong, mut is_absent) = (count == 0, false);
        for _ in 0..count {
            let (handle, is_there) = self.session(of.0);
            let random = self.random();
            let word = random.pick(&[0, 8, 64, 4088, 4096, 12, u64::MAX - 7]);
            let entry = mp_park_entry {
                handle,
                reserved: u32::from(random.one_in(30)),
                word,
                value: random.below(2),
                arm: random.pick(&[0, 16, 128, 20]),
                arm_value: random.below(1 << 20),
            };
            is_wrong |= entry.reserved != 0 || word % 8 != 0 || entry.arm % 8 != 0;
            is_absent |= !is_there;
            entries.extend(bytes_of(&entry));
        }
        let random = &mut self.caller.random;
        let place = random.pick(&[Place::Good, Place::Good, Place::Good, Place::Nowhere]);
        let at = self.arrays.put(&entries, place, random) as u64;
        let flags = random.pick(&[0, MP_PARK_ARMED, 2]);
        let deadline = match random.below(3) {
            0 => MP_DEADLINE_PAST,
            _ => now() + random.below(2_000_000),
        };
        // Of several that are wrong, the first one is told.
        let mut allowed = ALLOWED.to_vec();
        if is_wrong || flags == 2 {
            allowed = vec![EINVAL, ENOENT, ERANGE, ENOTCONN, libc::EOPNOTSUPP];
        } else if is_absent {
            allowed.retain(|error| !matches!(*error, 0 | ETIMEDOUT));
        }
        if place != Place::Good {
            allowed = vec![EFAULT, EINVAL];
        }
        let park = mp_park {
            flags,
            count: count as u32,
            entries: at,
            deadline,
            ..Default::default()
        };
        let text = format!("{count} entries, flags {flags:#x}, {place:?}");
        if let Ok(park) = self.ask(of, &PARK, park, &allowed, &text) {
            let is_none = park.index == MP_PARK_NONE && flags == MP_PARK_ARMED && park.events == 0;
            let is_known = (park.index as usize) < count && park.events != 0;
            if !is_none && !is_known {
                let (index, events) = (park.index, park.events);
                self.caller
                    .fail(&format!("index {index:#x}, events {events:#x}"));
            }
        }
    }
}
