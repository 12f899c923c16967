// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The sending half. The model is the list of what was posted, each request with its messages.

use crate::net::{Id, Message, Posted, Side, Spoiled, MOST};
use crate::script::{alone, flushed, hear, outcome, work, NONE};
use mp_proto::work::{
    header, End, Errors, Kind, Level, Notice, Operation, Place, QueueKind, Reason, Remote, State,
    READS_MAX,
};
use proptest::prelude::*;

/// A request of the sender.
#[derive(Clone, Debug)]
struct Ask {
    /// 0 a send, 1 a write, 2 a read.
    what: u8,
    len: u8,
    immediate: Option<u32>,
    fence: bool,
    /// It is wrong.
    bad: bool,
}

#[derive(Clone, Debug)]
enum Script {
    Post(Ask),
    /// The sender's turn, with so much room.
    Turn(usize),
    /// Acknowledge so many more, as far as they were sent.
    Ack(u32),
    /// Answer the oldest read, with so many bytes.
    Answer(u8),
}

fn scripts() -> impl Strategy<Value = Vec<Script>> {
    let ask = (
        0..3_u8,
        0..30_u8,
        any::<Option<u32>>(),
        prop::bool::weighted(0.2),
    );
    let ask =
        (ask, prop::bool::weighted(0.02)).prop_map(|((what, len, immediate, fence), bad)| Ask {
            what,
            len,
            immediate: immediate.filter(|_| what < 2),
            fence,
            bad,
        });
    let script = prop_oneof![
        3 => ask.prop_map(Script::Post),
        4 => (0..5_usize).prop_map(Script::Turn),
        2 => (1..4_u32).prop_map(Script::Ack),
        3 => (0..=MOST as u8).prop_map(Script::Answer),
    ];
    prop::collection::vec(script, 0..100)
}

/// A request, and what has become of it.
struct Asked {
    ask: Ask,
    id: Id,
    bytes: Vec<u8>,
    /// Its messages.
    messages: Vec<Message>,
    /// Bytes of a read that have come.
    answered: usize,
    /// All of them have.
    arrived: bool,
}

impl Asked {
    fn is_read(&self) -> bool {
        self.ask.what == 2
    }

    fn new(side: &mut Side, ask: &Ask, n: usize) -> Self {
        let len = usize::from(ask.len);
        let bytes: Vec<u8> = (0..len).map(|i| ((i * 3 + n * 11) % 251) as u8).collect();
        let segment = match ask.what {
            2 => side.program.room(len),
            _ => side.program.data(&bytes),
        };
        let place = Place {
            handle: n as u32,
            address: 1 << 40 | n as u64,
            len: len as u32,
        };
        let at = Remote {
            address: place.address,
            handle: place.handle,
        };
        let operation = [Operation::Send, Operation::Write(at), Operation::Read(at)];
        let posted = Posted {
            work: match ask.bad {
                true => Err(Errors::FORMAT),
                false => Ok(work(
                    operation[usize::from(ask.what)],
                    ask.immediate,
                    ask.fence,
                    len,
                )),
            },
            segments: vec![segment],
        };
        let messages = match ask.what {
            2 => vec![Message {
                kind: Kind::Read,
                immediate: None,
                header: place.header(),
                bytes: Vec::new(),
                fault: None,
            }],
            what => {
                let first = match what {
                    1 => (Kind::Write, place.header()),
                    _ if len <= MOST => (Kind::Send, NONE),
                    _ => (Kind::LongSend, header([place.len, 0, 0, 0])),
                };
                let rest = bytes
                    .chunks(MOST)
                    .skip(1)
                    .map(|piece| (Kind::More, NONE, piece));
                let piece = &bytes[..len.min(MOST)];
                let all = std::iter::once((first.0, first.1, piece)).chain(rest);
                let each = all.enumerate().map(|(n, (kind, header, piece))| Message {
                    kind,
                    immediate: ask.immediate.filter(|_| n == 0),
                    header,
                    bytes: piece.to_vec(),
                    fault: None,
                });
                each.collect()
            }
        };
        Asked {
            ask: ask.clone(),
            id: side.post(QueueKind::Send, posted),
            bytes,
            messages,
            answered: 0,
            arrived: false,
        }
    }
}

/// What a sender has to have done, of which so many messages have crossed.
struct Progress {
    /// Requests whose messages have all crossed.
    whole: usize,
    /// Sends and writes among them.
    numbered: u32,
    reads: u32,
}

fn progress(asked: &[Asked], said: &[Message]) -> Progress {
    let mut progress = Progress {
        whole: 0,
        numbered: 0,
        reads: 0,
    };
    let mut said = said;
    for asked in asked {
        let messages = match asked.ask.bad {
            true => &[][..],
            false => &asked.messages[..],
        };
        let common = said.len().min(messages.len());
        assert_eq!(said[..common], messages[..common]);
        if common < messages.len() {
            assert!(said.len() == common);
            return progress;
        }
        said = &said[common..];
        progress.whole += 1;
        progress.numbered += u32::from(!asked.is_read() && !asked.ask.bad);
        progress.reads += u32::from(asked.is_read() && !asked.ask.bad);
    }
    assert!(said.is_empty(), "{said:?}");
    progress
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// What crosses are the messages of the list, in order, whatever room there is, and each request is
    /// complete when its level says so and not before.
    #[test]
    fn a_sender_follows_its_model(level in 0..3_usize, scripts in scripts(), refuses in any::<Option<u32>>()) {
        let level = Level::ALL[level];
        let mut side = alone(level);
        let mut asked: Vec<Asked> = Vec::new();
        let mut acked = 0;
        let said = |side: &Side| -> Vec<Message> { side.link.out.borrow().frames.iter().cloned().collect() };
        for script in &scripts {
            let is_up = side.end.state() == State::Connected;
            let now = progress(&asked, &said(&side));
            match script {
                Script::Post(ask) if ask.what == 2 && !level.has_reads() => {}
                // What fails ends the test soon.
                Script::Post(_) if !is_up => break,
                Script::Post(ask) => {
                    let n = asked.len();
                    asked.push(Asked::new(&mut side, ask, n));
                }
                Script::Turn(room) => {
                    side.link.room = *room;
                    side.progress();
                }
                Script::Ack(more) if level.is_acknowledged() && is_up => {
                    let number = now.numbered.min(acked + more);
                    hear(&mut side, Kind::Ack, None, header([number, 0, 0, 0]), &[]);
                    acked = number;
                    side.link.room = 0;
                    side.progress();
                }
                Script::Answer(len) if is_up => {
                    let crossed = asked[..now.whole].iter_mut();
                    let mut reads = crossed.filter(|asked| asked.is_read() && !asked.ask.bad);
                    let open = reads.find(|asked| !asked.arrived);
                    let Some(read) = open else { continue };
                    let left = read.bytes.len() - read.answered;
                    let len = left.min(usize::from(*len).max(1));
                    let bytes = read.bytes[read.answered..read.answered + len].to_vec();
                    read.answered += len;
                    read.arrived = read.answered == read.bytes.len();
                    hear(&mut side, Kind::ReadData, None, NONE, &bytes);
                    side.link.room = 0;
                    side.progress();
                }
                Script::Ack(_) | Script::Answer(_) => {}
            }
            check(&side, level, &asked, acked)?;
        }
        if side.end.state() == State::Connected && level.is_acknowledged() {
            if let Some(bits) = refuses {
                refused(&mut side, &asked, acked, bits)?;
            }
        }
        side.disconnect();
        side.take();
        prop_assert_eq!(&side.taken, &side.posted);
    }
}

/// A sender that has sent so many requests, of 4 bytes each.
fn sent(level: Level, operation: Operation, count: usize) -> Side {
    let mut side = alone(level);
    for _ in 0..count {
        let bytes = side.program.data(&[1; 4]);
        let posted = Posted {
            work: Ok(work(operation, None, false, 4)),
            segments: vec![bytes],
        };
        side.post(QueueKind::Send, posted);
    }
    side.link.room = count;
    side.progress();
    side
}

/// Only what waits for the partner can be acknowledged; any other number ends the connection, at
/// levels without acknowledgements each.
#[test]
fn numbers_that_cannot_be_end_the_connection() {
    for level in Level::ALL {
        for number in [0, 1, 2, 3, 4, u32::MAX] {
            let mut side = sent(level, Operation::Send, 3);
            if level.is_acknowledged() {
                hear(&mut side, Kind::Ack, None, header([1, 0, 0, 0]), &[]);
            }
            hear(&mut side, Kind::Ack, None, header([number, 0, 0, 0]), &[]);
            side.progress();
            let can_be = level.is_acknowledged() && (1..=3).contains(&number);
            assert_eq!(
                side.end.state() == State::Connected,
                can_be,
                "{level:?} {number}"
            );
        }
    }
}

/// The program changes one of several requests that the partner acknowledges or refuses at once: that
/// one and those behind it are flushed, and the partner is not said to have failed.
#[test]
fn one_that_was_changed_is_no_fault_of_the_partner() {
    let good = Errors::NONE;
    for (how, second) in [(Spoiled::Altered, Errors::FLUSHED), (Spoiled::Untold, good)] {
        let expected = [good, second, Errors::FLUSHED].map(Some);
        for (kind, words) in [
            (Kind::Ack, [3, 0, 0, 0]),
            (Kind::Refusal, [3, Errors::REMOTE_RECEIVE.0, 0, 0]),
        ] {
            let mut side = sent(Level::Acknowledged, Operation::Send, 3);
            side.program.spoiled.push((1, how));
            hear(&mut side, kind, None, header(words), &[]);
            side.progress();
            let found = [0, 1, 2].map(|id| side.outcome(id).map(|outcome| outcome.errors));
            assert_eq!(found, expected, "{how:?} {kind:?}");
            assert_eq!(side.program.notices, [Notice::Lost]);
            side.progress();
            let end = side.link.out.borrow().end;
            assert_eq!(end, Some(End::Closed(Reason::Fault)), "{how:?} {kind:?}");
        }
    }
}

/// Answers bring as many bytes as a read has asked for, and at least one if it has.
#[test]
fn an_answer_has_the_bytes_that_were_asked_for() {
    let at = Remote {
        address: 0,
        handle: 0,
    };
    for (parts, up, complete) in [
        (vec![3], true, false),
        (vec![4], true, true),
        (vec![3, 1], true, true),
        (vec![5], false, false),
        (vec![3, 2], false, false),
        (vec![0], false, false),
        (vec![3, 0], false, false),
        (vec![4, 0], false, true),
    ] {
        let mut side = sent(Level::Reliable, Operation::Read(at), 1);
        for len in &parts {
            hear(&mut side, Kind::ReadData, None, NONE, &vec![7; *len]);
        }
        side.progress();
        assert_eq!(side.end.state() == State::Connected, up, "{parts:?}");
        let good = |outcome: mp_proto::work::Outcome| !outcome.errors.any();
        assert_eq!(side.outcome(0).is_some_and(good), complete, "{parts:?}");
    }
}

/// An end tells what has taken effect before it, and what was refused.
#[test]
fn an_end_tells_what_it_was_before() {
    for (reason, errors) in [
        (Reason::Disconnect, Errors::FLUSHED),
        (Reason::Fault, Errors::FLUSHED),
        (Reason::Transport, Errors::TRANSPORT),
        (Reason::RefusedReceive, Errors::REMOTE_RECEIVE),
        // That cannot be what has happened to a send.
        (Reason::RefusedRdma, Errors::TRANSPORT),
    ] {
        for effective in 0..=2 {
            let mut side = sent(Level::Acknowledged, Operation::Send, 3);
            side.link.inward.borrow_mut().close(reason, effective);
            side.progress();
            let expected = [1, 2, 3].map(|number| match number {
                _ if number <= effective => Errors::NONE,
                _ if number == effective + 1 => errors,
                _ => Errors::FLUSHED,
            });
            let found = [0, 1, 2].map(|id| side.outcome(id).map(|outcome| outcome.errors));
            assert_eq!(found, expected.map(Some), "{reason:?} {effective}");
            assert!(side.end.is_over());
        }
    }
}

/// A message whose memory goes away ends in the middle, and the partner hears of that before anything
/// else.
#[test]
fn a_message_without_memory_is_aborted() {
    for level in Level::ALL {
        let mut side = alone(level);
        let memory = [20, 4].map(|len| side.program.data(&vec![1; len]));
        for segment in &memory {
            let posted = Posted {
                work: Ok(work(Operation::Send, None, false, segment.len())),
                segments: vec![segment.clone()],
            };
            side.post(QueueKind::Send, posted);
        }
        side.link.room = 1;
        side.progress();
        side.program.closed.push(memory[0].clone());
        side.progress();
        let cut = Errors::PROTECTION.with(Errors::PARTIAL);
        let next = level.is_reliable().then_some(Errors::FLUSHED);
        let found = [0, 1].map(|id| side.outcome(id).map(|outcome| outcome.errors));
        assert_eq!(found, [Some(cut), next], "{level:?}");
        // There is room, but not for that.
        side.link.refuses = Some(Kind::Abort);
        side.link.room = usize::MAX;
        side.progress();
        assert_eq!(side.link.out.borrow().frames.len(), 1, "{level:?}");
        side.link.refuses = None;
        side.progress();
        let way = side.link.out.borrow();
        let kinds: Vec<Kind> = way.frames.iter().map(|message| message.kind).collect();
        let end = End::Closed(Reason::Fault);
        match level {
            Level::Unreliable => assert_eq!(kinds, [Kind::LongSend, Kind::Abort, Kind::Send]),
            _ => assert_eq!(
                (&kinds[..], way.end),
                (&[Kind::LongSend, Kind::Abort][..], Some(end))
            ),
        }
    }
}

/// What the partner has said before it went is heard, although its end is found first.
#[test]
fn what_was_said_before_an_end_is_heard() {
    for end in [End::Gone, End::Down] {
        let mut side = sent(Level::Acknowledged, Operation::Send, 2);
        hear(&mut side, Kind::Ack, None, header([1, 0, 0, 0]), &[]);
        side.link.inward.borrow_mut().arrived = 0;
        side.link.fails = Some(end);
        let bytes = side.program.data(&[1; 4]);
        let posted = Posted {
            work: Ok(work(Operation::Send, None, false, 4)),
            segments: vec![bytes],
        };
        side.post(QueueKind::Send, posted);
        side.progress();
        let second = match end {
            End::Down => Errors::TRANSPORT,
            _ => Errors::FLUSHED,
        };
        let expected = [Errors::NONE, second, Errors::FLUSHED];
        let found = [0, 1, 2].map(|id| side.outcome(id).map(|outcome| outcome.errors));
        assert_eq!(found, expected.map(Some), "{end:?}");
    }
}

/// A read that has failed is the one that the partner names; the others are flushed.
#[test]
fn a_failed_read_is_the_one_that_is_named() {
    let at = Remote {
        address: 0,
        handle: 0,
    };
    for number in 0..5 {
        let mut side = sent(Level::Reliable, Operation::Read(at), 3);
        let failed = header([number, 0, 0, 0]);
        hear(&mut side, Kind::ReadFailed, None, failed, &[]);
        side.progress();
        let expected = [1, 2, 3].map(|read| match (number, 1..=3) {
            (number, _) if number == read => Errors::REMOTE_ACCESS,
            (number, all) if all.contains(&number) => Errors::FLUSHED,
            // There is none of that number: the transport has failed.
            _ => Errors::TRANSPORT,
        });
        let found = [0, 1, 2].map(|id| side.outcome(id).map(|outcome| outcome.errors));
        assert_eq!(found, expected.map(Some), "{number}");
    }
}

/// Compare what is complete with the list.
fn check(side: &Side, level: Level, asked: &[Asked], acked: u32) -> Result<(), TestCaseError> {
    let said: Vec<Message> = side.link.out.borrow().frames.iter().cloned().collect();
    let now = progress(asked, &said);
    let is_up = side.end.state() == State::Connected;
    let (mut number, mut reads, mut open) = (0, 0, 0);
    let first_bad = asked.iter().position(|asked| asked.ask.bad);
    // Up to the last one of which a message has crossed.
    let crossed = asked[..now.whole].iter().rposition(|asked| !asked.ask.bad);
    let crossed = crossed.unwrap_or(0);
    for (n, asked) in asked.iter().enumerate() {
        let found = side.outcome(asked.id);
        let whole = n < now.whole;
        if asked.ask.bad {
            let failed = Some(outcome(Errors::FORMAT, false, 0, None));
            match (level.is_reliable(), is_up) {
                // Nothing else has ended the connection, and what was sent before it has succeeded
                // first.
                (true, false) if Some(n) == first_bad => {
                    prop_assert_eq!(found, failed);
                    prop_assert!(!level.is_acknowledged() || number <= acked);
                }
                (true, false) => prop_assert_eq!(found, Some(flushed())),
                (true, true) => prop_assert_eq!(found, None),
                (false, _) => prop_assert!(found.is_none() && n >= crossed || found == failed),
            }
            continue;
        }
        let complete = match asked.is_read() {
            true => {
                reads += 1;
                asked.arrived
            }
            false => {
                number += 1;
                whole && (!level.is_acknowledged() || number <= acked)
            }
        };
        if asked.is_read() && whole && !asked.arrived {
            open += 1;
            prop_assert!(found.is_none() || !is_up);
        }
        if asked.is_read() && found.is_some_and(|outcome| !outcome.errors.any()) {
            let segment = side.program.requests[asked.id].segments[0].clone();
            prop_assert_eq!(side.program.bytes(segment), asked.bytes.clone());
            prop_assert!(asked.arrived);
        }
        if asked.ask.fence && whole && open > 0 {
            // It is one of them itself: it has crossed when those before it were complete.
            prop_assert!(open == 1 && asked.is_read() && !asked.arrived);
        }
        match complete {
            true => {
                let good = outcome(Errors::NONE, false, asked.bytes.len(), None);
                prop_assert_eq!(found, Some(good));
            }
            false if is_up => prop_assert_eq!(found, None),
            false => prop_assert_eq!(found, Some(flushed())),
        }
    }
    prop_assert!(open <= READS_MAX && reads >= open);
    Ok(())
}

/// Refuse the oldest request that waits for the partner, with any bits.
fn refused(side: &mut Side, all: &[Asked], acked: u32, bits: u32) -> Result<(), TestCaseError> {
    let asked = all;
    let said: Vec<Message> = side.link.out.borrow().frames.iter().cloned().collect();
    let now = progress(asked, &said);
    let sends = asked.iter().enumerate();
    let mut sends = sends.filter(|(_, asked)| !asked.is_read() && !asked.ask.bad);
    let next = sends.nth(acked as usize);
    let refusal = header([acked + 1, bits, 0, 0]);
    let before: Vec<_> = asked.iter().map(|asked| side.outcome(asked.id)).collect();
    hear(side, Kind::Refusal, None, refusal, &[]);
    side.link.room = 0;
    side.progress();
    prop_assert_eq!(side.end.state(), State::Broken);
    let whole: usize = asked[..now.whole]
        .iter()
        .filter(|asked| !asked.ask.bad)
        .map(|asked| asked.messages.len())
        .sum();
    let begun = said.len() > whole;
    let Some((n, asked)) = next.filter(|(n, _)| *n < now.whole || *n == now.whole && begun) else {
        // There is none: the partner has told what cannot be.
        let way = side.link.out.borrow();
        prop_assert_eq!(way.end, Some(End::Closed(Reason::Transport)));
        return Ok(());
    };
    let mut may = Errors::TRANSPORT.with(Errors::PARTIAL);
    if asked.ask.what == 1 {
        may = may.with(Errors::REMOTE_ACCESS);
    }
    if asked.ask.what == 0 || asked.ask.immediate.is_some() {
        may = may.with(Errors::REMOTE_RECEIVE);
    }
    let mut expected = Errors(bits).masked(may);
    if !expected.any() {
        expected = Errors::TRANSPORT;
    }
    if n == now.whole {
        expected = expected.with(Errors::PARTIAL);
    }
    // It alone says why: what was not complete before is flushed.
    for (m, (other, before)) in all.iter().zip(before).enumerate() {
        let expected = match m == n {
            true => outcome(expected, false, 0, None),
            false => before.unwrap_or(flushed()),
        };
        prop_assert_eq!(side.outcome(other.id), Some(expected));
    }
    Ok(())
}
