// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages on their way to one node: queues for each port and priority, and the credit for each
//! of them.
//!
//! Invariant of a lane: its credits and the buffers that are in use at the receiver, or on the way
//! to it or back, are [`BUFFERS`]. A message starts only if it has credit for all its frames.

use crate::{
    table::Table,
    wire::{frames, End, Frame, Lane, Wire, FRAME},
    Request, ENDPOINTS_MAX, PRIORITIES,
};
use mp_queue_pair::Piece;
use std::collections::VecDeque;

/// Buffers of each node and priority at an endpoint.
pub(crate) const BUFFERS: u32 = 32;

/// Lanes that a node may make another one keep account of: twice as many as its endpoints have.
pub(crate) const LANES_MAX: usize = 2 * ENDPOINTS_MAX * PRIORITIES;

/// A message that is not sent yet.
#[derive(Debug)]
pub(crate) struct Send {
    pub(crate) request: Request,
    /// The sender's port.
    pub(crate) from: u16,
    pub(crate) data: Box<[u8]>,
}

#[derive(Debug)]
struct Queue {
    sends: VecDeque<Send>,
    credits: u32,
    /// Bytes of the first message that were sent; nothing unless it was started.
    sent: Option<usize>,
    /// The lane is, once, in its level's list of those that can send.
    is_ready: bool,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            sends: VecDeque::new(),
            credits: BUFFERS,
            sent: None,
            is_ready: false,
        }
    }
}

impl Queue {
    /// Whether the first message can go on, or start.
    fn can_send(&self) -> bool {
        let enough = |send: &Send| frames(send.data.len()) <= self.credits;
        self.sent.is_some() || self.sends.front().is_some_and(enough)
    }

    fn is_at_rest(&self) -> bool {
        self.sends.is_empty() && self.credits == BUFFERS
    }
}

/// Messages on their way to one node.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Lanes that are not at rest.
    queues: Table<Lane, Queue>,
    /// Ports that can send, for each level, in the order of their turns.
    ready: [VecDeque<u16>; PRIORITIES],
    /// Levels that have one, a bit each.
    levels: u32,
    /// Debts that the session has begun with.
    indebted: usize,
}

impl Outgoing {
    pub(crate) fn push(&mut self, lane: Lane, send: Send) {
        self.queues.entry(lane).or_default().sends.push_back(send);
        self.refresh(lane);
    }

    /// Send a message at once; false if it has more than one frame, others wait, or there is no credit
    /// or no room.
    ///
    /// # Errors
    /// How the session has ended.
    pub(crate) fn send_at_once(
        &mut self,
        message: Frame<'_>,
        wire: &mut impl Wire,
    ) -> Result<bool, End> {
        let Frame::Message { lane, total, .. } = message else {
            return Ok(false);
        };
        if self.levels != 0 || frames(total as usize) != 1 {
            return Ok(false);
        }
        let credits = match self.queues.get_mut(&lane) {
            Some(queue) if queue.sends.is_empty() => &mut queue.credits,
            Some(_) => return Ok(false),
            None => &mut self.queues.entry(lane).or_default().credits,
        };
        let is_sent = *credits > 0 && wire.send(&message)?;
        *credits -= u32::from(is_sent);
        if !is_sent {
            self.refresh(lane);
        }
        Ok(is_sent)
    }

    /// Buffers are free again.
    ///
    /// # Errors
    /// [`End::Broken`]: none, or more than were in use.
    pub(crate) fn credit(&mut self, lane: Lane, count: u32) -> Result<(), End> {
        if count == 0 {
            return Err(End::Broken);
        }
        let queue = self.queues.get_mut(&lane).ok_or(End::Broken)?;
        let credits = queue.credits.checked_add(count);
        queue.credits = credits.filter(|sum| *sum <= BUFFERS).ok_or(End::Broken)?;
        self.refresh(lane);
        Ok(())
    }

    /// Buffers are in use since an earlier session.
    ///
    /// # Errors
    /// [`End::Broken`]: none, or more than there are; too many lanes.
    pub(crate) fn debt(&mut self, lane: Lane, count: u32) -> Result<(), End> {
        self.indebted += 1;
        if count == 0 || self.indebted > LANES_MAX {
            return Err(End::Broken);
        }
        let queue = self.queues.entry(lane).or_default();
        queue.credits = queue.credits.checked_sub(count).ok_or(End::Broken)?;
        Ok(())
    }

    /// List the lane if it can send, and forget it if it is at rest.
    fn refresh(&mut self, lane: Lane) {
        let Some(queue) = self.queues.get_mut(&lane) else {
            return;
        };
        if queue.is_ready {
            return;
        }
        queue.is_ready = queue.can_send();
        if queue.is_ready {
            if let Some(ready) = self.ready.get_mut(usize::from(lane.level)) {
                ready.push_back(lane.port);
                self.levels |= 1 << lane.level;
            }
        } else if queue.is_at_rest() {
            self.queues.remove(&lane);
        }
    }

    /// The lane whose turn it is: that of the lowest level that can send.
    fn turn(&mut self) -> Option<Lane> {
        while self.levels != 0 {
            let level = self.levels.trailing_zeros() as u16;
            let ready = self.ready.get_mut(usize::from(level))?;
            let Some(port) = ready.front().copied() else {
                self.levels &= !(1 << level);
                continue;
            };
            let lane = Lane { level, port };
            let queue = self.queues.entry(lane).or_default();
            if queue.can_send() {
                return Some(lane);
            }
            // What it had was withdrawn.
            queue.is_ready = false;
            if queue.is_at_rest() {
                self.queues.remove(&lane);
            }
            ready.pop_front();
        }
        None
    }

    /// The frame that is sent next. It stays so until [`advance`](Self::advance).
    pub(crate) fn next(&mut self) -> Option<Frame<'_>> {
        let lane = self.turn()?;
        let queue = self.queues.get(&lane)?;
        let Send { from, data, .. } = queue.sends.front()?;
        let at = queue.sent.unwrap_or(0);
        let end = data.len().min(at + FRAME);
        let part = Piece::Bytes(data.get(at..end)?);
        Some(match queue.sent {
            None => Frame::Message {
                lane,
                from: *from,
                total: data.len() as u32,
                data: part,
            },
            Some(_) => Frame::More { lane, data: part },
        })
    }

    /// The frame was sent; the message, if it was its last one.
    pub(crate) fn advance(&mut self) -> Option<Send> {
        let lane = self.turn()?;
        let queue = self.queues.get_mut(&lane)?;
        let len = queue.sends.front()?.data.len();
        if queue.sent.is_none() {
            queue.credits = queue.credits.saturating_sub(frames(len));
        }
        let sent = queue.sent.unwrap_or(0) + FRAME;
        queue.sent = (sent < len).then_some(sent);
        queue.is_ready = false;
        let done = match queue.sent {
            Some(_) => None,
            None => queue.sends.pop_front(),
        };
        if let Some(ready) = self.ready.get_mut(usize::from(lane.level)) {
            ready.pop_front();
        }
        self.refresh(lane);
        done
    }

    /// Whether a message was started, and is not complete.
    pub(crate) fn is_started(&self, lane: Lane, request: Request) -> bool {
        let queue = self.queues.get(&lane).filter(|queue| queue.sent.is_some());
        let first = queue.and_then(|queue| queue.sends.front());
        first.is_some_and(|send| send.request == request)
    }

    /// Take back a message; false if it was started, or is not there.
    pub(crate) fn withdraw(&mut self, lane: Lane, request: Request) -> bool {
        if self.is_started(lane, request) {
            return false;
        }
        let Some(queue) = self.queues.get_mut(&lane) else {
            return false;
        };
        let Some(index) = queue.sends.iter().position(|send| send.request == request) else {
            return false;
        };
        queue.sends.remove(index);
        self.refresh(lane);
        true
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.values().all(|queue| queue.sends.is_empty())
    }

    /// The session has ended: what waits, in the order of each lane. All buffers are free for the
    /// next session.
    pub(crate) fn reset(&mut self) -> Vec<Send> {
        (self.ready, self.levels) = Default::default();
        self.indebted = 0;
        let queues = std::mem::take(&mut self.queues);
        queues.into_values().flat_map(|queue| queue.sends).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Control, Loop};
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn request(n: usize) -> Request {
        Request::from_raw(n as u32 + 1)
    }

    fn send(n: usize, len: usize) -> Send {
        Send {
            request: request(n),
            from: 1,
            data: vec![n as u8; len].into(),
        }
    }

    fn lane(level: u16, port: u16) -> Lane {
        Lane { level, port }
    }

    /// All that can be sent now: lane, bytes, and the request of what is complete.
    fn drain(out: &mut Outgoing) -> Vec<(Lane, usize, Option<Request>)> {
        let mut all = Vec::new();
        while let Some(frame) = out.next() {
            let (lane, len) = match frame {
                Frame::Message { lane, data, .. } | Frame::More { lane, data } => {
                    (lane, data.len())
                }
                other => panic!("{other:?}"),
            };
            all.push((lane, len, out.advance().map(|send| send.request)));
        }
        all
    }

    /// MC-MSG-2, MC-MSG-3: urgent frames overtake, between the frames of others.
    #[test]
    fn lower_levels_go_first_and_ports_take_turns() {
        let mut out = Outgoing::default();
        out.push(lane(3, 1), send(0, 3 * FRAME));
        out.push(lane(3, 2), send(1, 2 * FRAME));
        assert!(matches!(
            out.next(),
            Some(Frame::Message {
                lane: Lane { level: 3, port: 1 },
                ..
            })
        ));
        assert!(out.advance().is_none());
        out.push(lane(0, 9), send(2, 10));
        let order: Vec<_> = drain(&mut out)
            .into_iter()
            .map(|(lane, _, done)| (lane.port, done))
            .collect();
        let expected = [
            (9, Some(request(2))),
            (2, None),
            (1, None),
            (2, Some(request(1))),
            (1, Some(request(0))),
        ];
        assert_eq!(order, expected);
    }

    /// MC-MSG-10, MC-MSG-13: a lane without credit delays no other one.
    #[test]
    fn a_lane_without_credit_waits_alone() {
        let mut out = Outgoing::default();
        for n in 0..BUFFERS as usize + 1 {
            out.push(lane(7, 1), send(n, 0));
        }
        assert_eq!(drain(&mut out).len(), BUFFERS as usize);
        assert!(out.next().is_none() && !out.is_empty());
        out.push(lane(7, 2), send(100, 1));
        out.push(lane(0, 1), send(101, 1));
        assert_eq!(drain(&mut out).len(), 2);
        assert_eq!(out.credit(lane(7, 1), 1), Ok(()));
        assert_eq!(drain(&mut out).len(), 1);
        assert!(out.is_empty());
    }

    /// A message of several frames starts only with credit for all of them, and one behind it does
    /// not overtake (MC-MSG-4).
    #[test]
    fn a_message_has_credit_for_all_its_frames() {
        let mut out = Outgoing::default();
        assert_eq!(out.debt(lane(1, 1), BUFFERS - 1), Ok(()));
        out.push(lane(1, 1), send(0, FRAME + 1));
        out.push(lane(1, 1), send(1, 1));
        assert!(drain(&mut out).is_empty());
        assert_eq!(out.credit(lane(1, 1), 1), Ok(()));
        let order: Vec<_> = drain(&mut out)
            .into_iter()
            .map(|(_, len, done)| (len, done))
            .collect();
        assert_eq!(order, [(FRAME, None), (1, Some(request(0)))]);
    }

    #[test]
    fn credit_that_nobody_had_is_a_lie() {
        let mut out = Outgoing::default();
        assert_eq!(out.credit(lane(0, 1), 1), Err(End::Broken));
        assert_eq!(out.debt(lane(0, 1), BUFFERS + 1), Err(End::Broken));
        assert_eq!(out.debt(lane(0, 1), 2), Ok(()));
        for count in [0, 3, u32::MAX] {
            assert_eq!(out.credit(lane(0, 1), count), Err(End::Broken));
        }
        assert_eq!(out.credit(lane(0, 1), 2), Ok(()));
        assert!(out.queues.is_empty());
    }

    /// MC-CANCEL-5: wholly or not at all.
    #[test]
    fn a_message_is_withdrawn_until_it_has_started() {
        let mut out = Outgoing::default();
        out.push(lane(1, 1), send(0, 2 * FRAME));
        out.push(lane(1, 1), send(1, 1));
        assert!(out.next().is_some() && out.advance().is_none());
        assert!(!out.withdraw(lane(1, 1), request(0)));
        assert!(out.withdraw(lane(1, 1), request(1)));
        assert!(!out.withdraw(lane(1, 1), request(1)));
        assert_eq!(drain(&mut out).len(), 1);
        out.push(lane(1, 1), send(2, 1));
        assert!(out.withdraw(lane(1, 1), request(2)));
        assert!(drain(&mut out).is_empty());
    }

    /// What waits on a lane, by number and length; credit; bytes of the first one that were sent.
    type Model = (VecDeque<(usize, usize)>, u32, usize);

    #[derive(Clone, Debug)]
    enum Step {
        Push(u16, u16, usize),
        Send,
        Credit(u16, u16, u32),
        Withdraw(u16, u16),
        AtOnce(u16, u16, usize),
    }

    /// Whether the first message of a lane can go on, or start.
    fn may(known: &Model) -> bool {
        known.2 > 0
            || known
                .0
                .front()
                .is_some_and(|(_, len)| frames(*len) <= known.1)
    }

    /// Try to send a message at once, on a way with room or none; whether it has left.
    fn at_once(out: &mut Outgoing, lane: Lane, data: &[u8], wire: &mut Loop) -> bool {
        let message = Frame::Message {
            lane,
            from: 1,
            total: data.len() as u32,
            data: Piece::Bytes(data),
        };
        let is_sent = out.send_at_once(message, wire).unwrap();
        assert_eq!(wire.receive().unwrap().is_some(), is_sent);
        is_sent
    }

    /// MC-MSG-10: messages that leave at once take credit as others do.
    #[test]
    fn what_leaves_at_once_takes_credit() {
        let (mut out, mut wire) = (Outgoing::default(), Loop::default());
        for _ in 0..BUFFERS {
            assert!(at_once(&mut out, lane(1, 1), b"x", &mut wire));
        }
        assert!(!at_once(&mut out, lane(1, 1), b"x", &mut wire));
        assert!(at_once(&mut out, lane(1, 2), b"x", &mut wire));
        assert_eq!(out.credit(lane(1, 1), 1), Ok(()));
        assert!(at_once(&mut out, lane(1, 1), b"x", &mut wire));
    }

    /// One that has no room leaves nothing behind: it waits for its turn instead.
    #[test]
    fn a_message_without_room_has_not_left() {
        let mut out = Outgoing::default();
        let mut full = Loop::default();
        while full.send(&Frame::Control(Control::Withdrawn { number: 1 })) == Ok(true) {}
        let message = Frame::Message {
            lane: lane(1, 1),
            from: 1,
            total: 1,
            data: Piece::Bytes(b"x"),
        };
        assert_eq!(out.send_at_once(message, &mut full), Ok(false));
        assert!(out.queues.is_empty());
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let (level, port) = (0..3_u16, 0..3_u16);
        let one = prop_oneof![
            4 => (level.clone(), port.clone(), 0..4 * FRAME).prop_map(|(l, p, len)| Step::Push(l, p, len)),
            8 => Just(Step::Send),
            2 => (level.clone(), port.clone(), 1..20_u32).prop_map(|(l, p, n)| Step::Credit(l, p, n)),
            1 => (level.clone(), port.clone()).prop_map(|(l, p)| Step::Withdraw(l, p)),
            2 => (level, port, 0..2 * FRAME).prop_map(|(l, p, len)| Step::AtOnce(l, p, len)),
        ];
        prop::collection::vec(one, 0..300)
    }

    proptest! {
        /// Against lists: order within a lane, credit, and that whatever can go goes.
        #[test]
        fn lanes_keep_order_and_credit(steps in steps()) {
            let mut out = Outgoing::default();
            let mut model: HashMap<Lane, Model> = HashMap::new();
            for (n, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(level, port, len) => {
                        out.push(lane(level, port), send(n, len));
                        let known = model.entry(lane(level, port)).or_insert((VecDeque::new(), BUFFERS, 0));
                        known.0.push_back((n, len));
                    }
                    Step::Credit(level, port, count) => {
                        let known = model.entry(lane(level, port)).or_insert((VecDeque::new(), BUFFERS, 0));
                        let count = count.min(BUFFERS - known.1);
                        if count > 0 {
                            prop_assert_eq!(out.credit(lane(level, port), count), Ok(()));
                            known.1 += count;
                        }
                    }
                    Step::Withdraw(level, port) => {
                        let Some(known) = model.get_mut(&lane(level, port)) else { continue };
                        if let Some((last, _)) = known.0.back().copied() {
                            let may = known.0.len() > 1 || known.2 == 0;
                            prop_assert_eq!(out.withdraw(lane(level, port), request(last)), may);
                            if may {
                                known.0.pop_back();
                            }
                        }
                    }
                    Step::AtOnce(level, port, len) => {
                        let goes_first = out.next().is_some();
                        prop_assert_eq!(goes_first, model.values().any(may));
                        let known = model.entry(lane(level, port)).or_insert((VecDeque::new(), BUFFERS, 0));
                        let can = !goes_first && known.0.is_empty() && len <= FRAME && known.1 > 0;
                        let sent = at_once(&mut out, lane(level, port), &vec![0; len], &mut Loop::default());
                        prop_assert_eq!(sent, can);
                        known.1 -= u32::from(sent);
                    }
                    Step::Send => {
                        let levels = model.iter().filter(|(_, known)| may(known)).map(|(lane, _)| lane.level);
                        let level = levels.min();
                        let frame = out.next().map(|frame| (frame.lane().map(|lane| lane.level), format!("{frame:?}").starts_with("Message")));
                        prop_assert_eq!(frame.map(|frame| frame.0), level.map(Some));
                        let Some((_, is_first)) = frame else { continue };
                        let lane = out.turn().unwrap();
                        let done = out.advance();
                        let known = model.get_mut(&lane).unwrap();
                        let (front, len) = known.0[0];
                        prop_assert_eq!(is_first, known.2 == 0);
                        if is_first {
                            prop_assert!(frames(len) <= known.1);
                            known.1 -= frames(len);
                        }
                        known.2 += FRAME;
                        let is_last = known.2 >= len;
                        prop_assert_eq!(done.map(|send| send.request), is_last.then_some(request(front)));
                        if is_last {
                            known.2 = 0;
                            known.0.pop_front();
                        }
                    }
                }
            }
        }
    }
}
