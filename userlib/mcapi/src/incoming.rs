// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages on their way from one node: buffers in use, messages of which frames are missing, and
//! the credit that the node gets back.
//!
//! Invariant of a lane: buffers in use and buffers that are free but untold are at most
//! [`BUFFERS`]; a frame beyond that is a lie. There are at most [`LANES_MAX`] lanes.
//!
//! Credit is told when a quarter of the buffers is free. A sender that does not know of the others
//! yet has enough for any message as soon as all messages are received, and so goes on.

use crate::{
    outgoing::{BUFFERS, LANES_MAX},
    table::Table,
    wire::{append, frames, Control, End, Frame, Lane, FRAME},
    MESSAGE_MAX,
};
use mp_queue_pair::Piece;
use std::collections::VecDeque;

/// Free buffers of a lane that are worth a frame.
const TELL: u32 = BUFFERS / 4;

/// Whatever a sender does not know of leaves it enough for the longest message.
const _: () = assert!(BUFFERS - (TELL - 1) >= MESSAGE_MAX.div_ceil(FRAME) as u32);

/// A message all of which has arrived. Its buffers are in use until they are
/// [freed](Incoming::free).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) lane: Lane,
    /// Bytes that it had.
    pub(crate) total: usize,
    /// The bytes; nothing if nobody wanted them when it began, or there was no memory for them.
    pub(crate) data: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Account {
    used: u32,
    /// Free, but not told.
    owed: u32,
    /// The lane is, once, in the list of those that owe enough.
    is_listed: bool,
    part: Option<Part>,
}

/// A message whose last frame has not arrived.
#[derive(Debug)]
struct Part {
    total: usize,
    /// Bytes that have arrived.
    at: usize,
    /// These bytes, if somebody wants them.
    data: Option<Vec<u8>>,
}

/// Messages on their way from one node.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    accounts: Table<Lane, Account>,
    /// Lanes whose credit is to be told.
    listed: VecDeque<Lane>,
}

impl Incoming {
    /// A frame of a message has arrived; the message, if it is whole. Its bytes are kept if it is
    /// `wanted` when it begins, and there is memory for them.
    ///
    /// # Errors
    /// [`End::Broken`]: there is no buffer for it, or it does not fit what came before.
    pub(crate) fn frame(
        &mut self,
        frame: &Frame<'_>,
        wanted: bool,
    ) -> Result<Option<Arrived>, End> {
        let (lane, data, total) = match frame {
            Frame::Message {
                lane, data, total, ..
            } => (*lane, data, Some(*total as usize)),
            Frame::More { lane, data } => (*lane, data, None),
            _ => return Err(End::Broken),
        };
        if self.accounts.len() >= LANES_MAX && !self.accounts.contains_key(&lane) {
            return Err(End::Broken);
        }
        let account = self.accounts.entry(lane).or_default();
        if account.used + account.owed >= BUFFERS {
            return Err(End::Broken);
        }
        let part = match (&mut account.part, total) {
            (slot @ None, Some(total)) if total <= MESSAGE_MAX => slot.insert(Part {
                total,
                at: 0,
                data: wanted.then(|| room(total)).flatten(),
            }),
            (Some(part), None) => part,
            _ => return Err(End::Broken),
        };
        take(part, data)?;
        account.used += 1;
        if part.at < part.total {
            return Ok(None);
        }
        let part = account.part.take();
        Ok(part.map(|Part { total, data, .. }| Arrived { lane, total, data }))
    }

    /// Nobody wants the messages to a port any more that have begun.
    pub(crate) fn unwant(&mut self, port: u16) {
        let accounts = self.accounts.iter_mut();
        for (_, account) in accounts.filter(|(lane, _)| lane.port == port) {
            if let Some(part) = &mut account.part {
                part.data = None;
            }
        }
    }

    /// A message of so many bytes is not needed any more. Whether there is credit to tell of it.
    pub(crate) fn free(&mut self, lane: Lane, len: usize) -> bool {
        self.give(lane, len, TELL);
        !self.listed.is_empty()
    }

    /// A message of so many bytes was for nobody: that nothing else may come on its lane, its
    /// credit is told at once.
    pub(crate) fn discard(&mut self, lane: Lane, len: usize) {
        self.give(lane, len, 1);
    }

    /// Buffers are free; list the lane if it owes so many.
    fn give(&mut self, lane: Lane, len: usize, enough: u32) {
        let Some(account) = self.accounts.get_mut(&lane) else {
            return;
        };
        let count = frames(len).min(account.used);
        account.used -= count;
        account.owed += count;
        if account.owed >= enough && !account.is_listed {
            account.is_listed = true;
            self.listed.push_back(lane);
        }
    }

    /// The credit that is told next. It stays so until [`told`](Self::told).
    pub(crate) fn credit(&self) -> Option<Control> {
        let lane = *self.listed.front()?;
        let count = self.accounts.get(&lane)?.owed;
        Some(Control::Credit { lane, count })
    }

    /// The credit was told.
    pub(crate) fn told(&mut self) {
        let Some(lane) = self.listed.pop_front() else {
            return;
        };
        if let Some(account) = self.accounts.get_mut(&lane) {
            (account.owed, account.is_listed) = (0, false);
            if account.used == 0 {
                self.accounts.remove(&lane);
            }
        }
    }

    /// Count the buffers in use.
    pub(crate) fn used(&self) -> u32 {
        self.accounts.values().map(|account| account.used).sum()
    }

    /// Whether no buffer is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Bytes that are kept of messages that are not whole.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let parts = self.accounts.values().flat_map(|account| &account.part);
        let data = parts.flat_map(|part| &part.data);
        data.map(Vec::capacity).sum()
    }

    /// Buffers that are free, as the node knows or will know.
    pub(crate) fn available(&self, lane: Lane) -> u32 {
        let account = self.accounts.get(&lane);
        BUFFERS - account.map_or(0, |account| account.used)
    }

    /// The session has ended: what is not whole is lost, the rest stays in use.
    pub(crate) fn reset(&mut self) {
        for account in self.accounts.values_mut() {
            if let Some(part) = account.part.take() {
                let lost = part.at.div_ceil(FRAME) as u32;
                account.used = account.used.saturating_sub(lost);
            }
            (account.owed, account.is_listed) = (0, false);
        }
        self.listed.clear();
        self.accounts.retain(|_, account| account.used > 0);
    }

    /// What a new session begins with: buffers in use. All others are free, and known to be.
    pub(crate) fn debts(&mut self) -> Vec<Control> {
        for account in self.accounts.values_mut() {
            (account.owed, account.is_listed) = (0, false);
        }
        self.listed.clear();
        self.accounts.retain(|_, account| account.used > 0);
        let accounts = self.accounts.iter();
        let debts = accounts.map(|(lane, account)| Control::Debt {
            lane: *lane,
            count: account.used,
        });
        debts.collect()
    }
}

/// Room for so many bytes, if there is memory: what another node sends must not end this process.
fn room(len: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    Some(bytes)
}

/// Put a frame's data behind those that are there.
///
/// # Errors
/// [`End::Broken`]: every frame but the last one is full, and the last one ends the message.
fn take(part: &mut Part, data: &Piece<'_>) -> Result<(), End> {
    if data.len() != FRAME.min(part.total - part.at) {
        return Err(End::Broken);
    }
    part.at += data.len();
    if let Some(kept) = &mut part.data {
        append(kept, data);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        outgoing::{Outgoing, Send},
        Request,
    };
    use proptest::prelude::*;
    use std::collections::VecDeque;

    const LANE: Lane = Lane { level: 1, port: 7 };

    fn first(total: u32, data: &[u8]) -> Frame<'_> {
        Frame::Message {
            lane: LANE,
            from: 0,
            total,
            data: Piece::Bytes(data),
        }
    }

    fn more(data: &[u8]) -> Frame<'_> {
        Frame::More {
            lane: LANE,
            data: Piece::Bytes(data),
        }
    }

    /// Frames that do not make a message end the session.
    #[test]
    fn frames_that_do_not_fit_are_lies() {
        let full = [0; FRAME];
        let most = MESSAGE_MAX as u32;
        let bad: [&[Frame<'_>]; 8] = [
            &[more(&full)],
            &[first(most + 1, &full)],
            &[first(u32::MAX, &full)],
            &[first(2, b"a")],
            &[first(2, b"abc")],
            &[first(0, b"a")],
            &[first(FRAME as u32 + 2, &full), more(b"a")],
            &[first(FRAME as u32 + 2, &full), first(1, b"a")],
        ];
        for frames in bad {
            let mut incoming = Incoming::default();
            let (last, before) = frames.split_last().unwrap();
            for frame in before {
                assert_eq!(incoming.frame(frame, true), Ok(None));
            }
            assert_eq!(incoming.frame(last, true), Err(End::Broken), "{last:?}");
        }
    }

    /// A node cannot make this one keep more than its buffers.
    #[test]
    fn a_frame_without_a_buffer_is_a_lie() {
        let mut incoming = Incoming::default();
        for _ in 0..BUFFERS {
            assert!(incoming.frame(&first(1, b"a"), true).unwrap().is_some());
        }
        assert_eq!(incoming.available(LANE), 0);
        incoming.free(LANE, 1);
        assert!(incoming.credit().is_none());
        // Free, but the node does not know.
        assert_eq!(incoming.frame(&first(1, b"a"), true), Err(End::Broken));
    }

    /// What an earlier session has left counts in the next one.
    #[test]
    fn buffers_stay_in_use_when_the_session_ends() {
        let mut incoming = Incoming::default();
        assert!(incoming.frame(&first(1, b"a"), true).unwrap().is_some());
        assert!(incoming.frame(&first(1, b"a"), true).unwrap().is_some());
        assert_eq!(
            incoming.frame(&first(FRAME as u32 + 1, &[0; FRAME]), true),
            Ok(None)
        );
        incoming.reset();
        let debts = incoming.debts();
        assert!(matches!(
            debts[..],
            [Control::Debt {
                lane: LANE,
                count: 2
            }]
        ));
        incoming.free(LANE, 1);
        assert_eq!(incoming.available(LANE), BUFFERS - 1);
        // What became free while there was no session is not told in the next one.
        let debts = incoming.debts();
        assert!(matches!(
            debts[..],
            [Control::Debt {
                lane: LANE,
                count: 1
            }]
        ));
        incoming.discard(LANE, 1);
        let credit = incoming.credit();
        assert!(matches!(credit, Some(Control::Credit { count: 1, .. })));
        incoming.told();
        assert!(incoming.credit().is_none() && incoming.accounts.is_empty());
    }

    /// A session that ends by a lie leaves no buffer in use that has no message.
    #[test]
    fn a_lie_takes_no_buffer() {
        let mut incoming = Incoming::default();
        let long = FRAME as u32 + 2;
        assert_eq!(incoming.frame(&first(long, &[0; FRAME]), true), Ok(None));
        assert_eq!(incoming.frame(&more(b"a"), true), Err(End::Broken));
        incoming.reset();
        assert_eq!(incoming.available(LANE), BUFFERS);
        assert!(incoming.debts().is_empty());
    }

    proptest! {
        /// MC-MSG-4, MC-MSG-9: with [`Outgoing`] on the other side, whatever the program's rhythm is:
        /// all messages arrive whole and in order, and credit neither grows nor gets lost.
        #[test]
        fn both_sides_agree_on_buffers(
            sizes in prop::collection::vec(0..5 * FRAME, 1..60),
            rhythm in prop::collection::vec(0..3_u8, 300),
        ) {
            let (mut out, mut incoming) = (Outgoing::default(), Incoming::default());
            let mut waiting: VecDeque<_> = sizes.iter().copied().enumerate().collect();
            let (mut queued, mut received): (VecDeque<Vec<u8>>, usize) = Default::default();
            let mut turns = rhythm.into_iter();
            let mut idle = 0;
            while received < sizes.len() {
                // After the rhythm, all turns are for everybody.
                let turn = turns.next();
                prop_assert!(idle < 2, "nothing moves");
                idle += usize::from(turn.is_none());
                if let Some((n, len)) = waiting.pop_front() {
                    let data = vec![n as u8; len].into();
                    out.push(LANE, Send { request: Request::from_raw(1), from: 0, data });
                    idle = 0;
                }
                if turn != Some(1) {
                    if let Some(frame) = out.next() {
                        if let Some(arrived) = incoming.frame(&frame, true).unwrap() {
                            queued.push_back(arrived.data.unwrap());
                        }
                        out.advance();
                        idle = 0;
                    }
                }
                if turn != Some(2) {
                    if let Some(data) = queued.pop_front() {
                        prop_assert_eq!(&data, &vec![received as u8; sizes[received]]);
                        received += 1;
                        incoming.free(LANE, data.len());
                        if let Some(Control::Credit { lane, count }) = incoming.credit() {
                            incoming.told();
                            prop_assert!(count >= TELL);
                            prop_assert_eq!(out.credit(lane, count), Ok(()));
                        }
                        idle = 0;
                    }
                }
            }
            prop_assert!(out.is_empty());
            // What is left to tell is all that there is.
            let owed = incoming.accounts.get(&LANE).map_or(0, |account| account.owed);
            prop_assert!(owed < TELL);
            prop_assert_eq!(out.credit(LANE, owed + 1), Err(End::Broken));
        }
    }
}
