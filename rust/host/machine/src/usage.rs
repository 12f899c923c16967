// SPDX-License-Identifier: GPL-2.0-only

//! Where the locks of a class are taken: the rules of lockdep for interrupts and softirqs.
//!
//! What interrupts a processor waits for ever if it wants a lock that the processor has. A class
//! of locks that one of them takes is therefore taken with those disabled everywhere else. Contexts of a
//! host run on a processor each and never wait that way: this is what finds it.

use crate::{
    context::{
        interrupts_are_off,
        kind,
        softirqs_are_off,
        Kind, //
    },
    order,
    world::{
        fail,
        world, //
    }, //
};
use std::collections::HashMap;

/// How a class has been taken, as [`bits`], by its number.
pub(crate) type Usages = HashMap<usize, u8>;

mod bits {
    pub(super) const IN_INTERRUPT: u8 = 1;
    pub(super) const INTERRUPTS_ON: u8 = 2;
    pub(super) const IN_SOFTIRQ: u8 = 4;
    pub(super) const SOFTIRQS_ON: u8 = 8;
}

/// How the caller takes a lock now.
fn usage(was_tried: bool) -> u8 {
    let inside = match kind() {
        // An attempt never waits.
        _ if was_tried => 0,
        Kind::Process => 0,
        Kind::Softirq => bits::IN_SOFTIRQ,
        Kind::Interrupt => bits::IN_INTERRUPT,
    };
    let on = match (interrupts_are_off(), softirqs_are_off()) {
        (true, _) => 0,
        (false, true) => bits::INTERRUPTS_ON,
        (false, false) => bits::INTERRUPTS_ON | bits::SOFTIRQS_ON,
    };
    inside | on
}

/// What takes locks used as the first number says and comes where locks are taken as the second one
/// says; `None` if nothing does.
pub(crate) fn both(outer: u8, inner: u8) -> Option<&'static str> {
    [
        (bits::IN_INTERRUPT, bits::INTERRUPTS_ON, "interrupts"),
        (bits::IN_SOFTIRQ, bits::SOFTIRQS_ON, "softirqs"),
    ]
    .into_iter()
    .find_map(|(inside, on, what)| (outer & inside != 0 && inner & on != 0).then_some(what))
}

/// The caller takes a spin lock of this class and name, or tries to.
///
/// Fails if locks of the class are taken in interrupts or softirqs and anywhere where those may come.
pub fn note(class: usize, name: &str, was_tried: bool) {
    let world = world();
    let (before, all) = {
        let mut usages = world.usages.borrow_mut();
        let all = usages.entry(class).or_default();
        let before = *all;
        *all |= usage(was_tried);
        (before, *all)
    };
    if let Some(what) = both(all, all) {
        fail(format!(
            "it takes {name}, which is taken in {what} and elsewhere with {what} on"
        ));
    }
    if all != before {
        order::assert_safe(class);
    }
}
