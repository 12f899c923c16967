// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The pair within one host: both windows come from one arena, at once.

use crate::pairing::table::{Far, Own, Pair};
use crate::pairing::terms::{Limits, Params, Span, Terms};
use crate::pairing::{drop_span, grab, Engine, Event, Host, NoRoom};
use crate::rows::{find, find_mut, Table};

impl<O: Table<Own>, F: Table<Far>> Engine<O, F> {
    /// Pair a session that asks with a posted one; false if the space does not suffice.
    pub(super) fn pair_here(
        &mut self,
        asks: u32,
        posted: u32,
        terms: Terms,
        host: &mut impl Host,
    ) -> bool {
        let params = |session| find(&self.own, session).map(|own| own.params);
        let (Some(of_asks), Some(of_posted)) = (params(asks), params(posted)) else {
            return false;
        };
        let wanted = [
            ((asks, &of_asks), terms.local),
            ((posted, &of_posted), terms.remote),
        ];
        let windows = grab_both(wanted, host);
        let Ok((local, remote)) = windows else {
            return false;
        };
        if find(&self.own, asks).is_some_and(|own| own.uid == 0) {
            let uid = self.free_uid(of_asks.uid, asks);
            if let Some(mut own) = find_mut(&mut self.own, asks) {
                own.uid = uid;
            }
        }
        let pair = |partner, local, remote| Pair {
            partner,
            local,
            remote,
            partner_closed: false,
        };
        self.paired(posted, pair(asks, remote, local), host);
        self.paired(asks, pair(posted, local, remote), host);
        host.event(Event::WindowsChanged);
        true
    }
}

/// A session with its parameters, and the sizes of its window.
type Wanted<'a> = ((u32, &'a Params), Limits);

/// Take two windows, one of them not empty (PXI-PAIR-6, PXI-PAIR-7, PXI-PAIR-12).
fn grab_both(
    [x, y]: [Wanted<'_>; 2],
    host: &mut impl Host,
) -> Result<(Option<Span>, Option<Span>), NoRoom> {
    // The larger minimum goes first: so both find their place whenever there are two places.
    if x.1.min < y.1.min {
        return grab_both([y, x], host).map(|(y, x)| (x, y));
    }
    let minimum =
        |(of, limits): Wanted<'_>, host: &mut _| grab(of, Limits::exactly(limits.min), host);
    let first = minimum(x, host)?;
    let second = minimum(y, host).inspect_err(|_| drop_span(first, host))?;
    let first = widen(x, first, host).inspect_err(|_| drop_span(second, host))?;
    let second = widen(y, second, host).inspect_err(|_| drop_span(first, host))?;
    match (first, second) {
        (None, None) if !x.0 .1.bare => Err(NoRoom),
        windows => Ok(windows),
    }
}

/// Give a window's minimum back for as much as there is, which is no less; a window of one
/// size stays what it is.
fn widen(
    (of, limits): Wanted<'_>,
    minimum: Option<Span>,
    host: &mut impl Host,
) -> Result<Option<Span>, NoRoom> {
    if limits.min == limits.max {
        return Ok(minimum);
    }
    drop_span(minimum, host);
    grab(of, limits, host)
}
