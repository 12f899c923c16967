// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! What the engine says to the other one, in the order of the decisions; see `table` for where that
//! is noted.

use crate::pairing::message::{Message, What};
use crate::pairing::table::{Answer, Far, Hold, Own, Stage, Step, DUE};
use crate::pairing::{Engine, Host, Mode, Side};
use crate::rows::{find_mut, Table, FIRST};

impl<O: Table<Own>, F: Table<Far>> Engine<O, F> {
    /// The next message to the other engine, if there is one. It counts as sent.
    pub fn poll(&mut self, host: &mut impl Host) -> Option<Message> {
        let what = self.next_due(host).or_else(|| {
            let grown = host.largest() > self.told_free;
            let news = self.mode == Mode::Asker && (self.freed || grown);
            news.then_some(What::Freed)
        })?;
        let free = host.largest();
        self.told_free = free;
        if self.mode != Mode::Asker || what == What::Freed {
            self.freed = false;
        }
        Some(Message { free, what })
    }

    /// The message that was decided on first.
    fn next_due(&mut self, host: &mut impl Host) -> Option<What> {
        let (due, side, session) = self.first(DUE, FIRST)?;
        let what = match side {
            Side::Own => self.say_of_own(session, due),
            Side::Far => self.say_of_far(session, due),
        };
        self.bury_own(session, host);
        self.bury_far(session);
        what
    }

    fn say_of_own(&mut self, session: u32, now: u64) -> Option<What> {
        let mut own = find_mut(&mut self.own, session)?;
        if own.ask == now {
            own.ask = 0;
            return Some(match own.stage {
                Stage::Asking => What::Request(session, own.params),
                Stage::Held(server) => What::Ask(session, own.params, server),
                _ => What::Post(session, own.params, own.uid),
            });
        }
        if own.answer == now {
            own.answer = 0;
            let granted = match own.hold {
                Hold::Window(span) => Some((own.uid, span)),
                _ => None,
            };
            return Some(What::Reserved(session, granted));
        }
        if own.verdict == now {
            own.verdict = 0;
            return match own.rejects.take() {
                Some((client, reason)) => Some(What::Reject(session, client, reason)),
                None => own.client.map(|client| What::Accept(session, client)),
            };
        }
        own.close = 0;
        Some(What::Close(session))
    }

    fn say_of_far(&mut self, session: u32, now: u64) -> Option<What> {
        let mut far = find_mut(&mut self.far, session)?;
        if far.answer == now {
            far.answer = 0;
            return Some(match far.answer_is {
                Answer::Posted => What::Posted(session),
                Answer::Refused(why) => What::Refused(session, why),
                Answer::Closed => What::Closed(session),
            });
        }
        if far.notice == now {
            far.notice = 0;
            return Some(What::Held(session));
        }
        far.step = 0;
        Some(match far.step_is {
            Step::Reserve(limits) => What::Reserve(session, limits),
            Step::Release => What::Release(session),
            Step::Unable => What::Unable(session),
            Step::Paired(pairing) => What::Paired(pairing),
        })
    }
}
