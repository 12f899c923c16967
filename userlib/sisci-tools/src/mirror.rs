// SPDX-License-Identifier: MIT OR Apache-2.0

//! A segment of the server that the client writes into, and a server that looks whether all of it
//! has arrived: what the tools that measure copies have in common.
//!
//! The client sends a message, by a data interrupt, once it has written: the number of the pattern
//! and how many bytes it has, 32 bits each in the order of the machine. The server answers by an
//! interrupt once it has found that. A message of no bytes ends the server.

use crate::{
    failure::{Called, Failure, Outcome},
    side::{map_remote, Side},
};
use mp_fabric::Device;
use sisci::{
    InterruptFlags, LocalDataInterrupt, LocalInterrupt, Map, MapFlags, NewSegment,
    RemoteDataInterrupt, RemoteSegment, INFINITE,
};
use vm_memory::VolatileSlice;

/// Bytes of a message.
const QUESTION: usize = 8;

/// The pattern of a turn.
fn pattern(size: usize, turn: u32) -> Vec<u8> {
    let at = |at: usize| {
        let sum = at.wrapping_mul(7).wrapping_add(at / 256);
        (sum as u8).wrapping_add(turn as u8)
    };
    (0..size).map(at).collect()
}

/// See whether memory has the pattern of a turn.
///
/// # Errors
/// [`Failure::Wrong`]: it has not.
pub fn look(memory: &VolatileSlice<'_>, turn: u32) -> Outcome {
    let size = memory.len();
    let mut found = vec![0_u8; size];
    memory.copy_to(&mut found);
    let expected = pattern(size, turn);
    match found.iter().zip(&expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(Failure::Wrong(format!("byte {at} of {size} is another"))),
    }
}

fn question(turn: u32, size: u32) -> [u8; QUESTION] {
    let mut bytes = [0; QUESTION];
    let (first, second) = bytes.split_at_mut(QUESTION / 2);
    first.copy_from_slice(&turn.to_ne_bytes());
    second.copy_from_slice(&size.to_ne_bytes());
    bytes
}

/// The turn and the size of a message.
fn asked(bytes: &[u8]) -> Option<(u32, usize)> {
    let (turn, size) = bytes.split_first_chunk::<4>()?;
    let size = u32::from_ne_bytes(size.try_into().ok()?);
    Some((u32::from_ne_bytes(*turn), usize::try_from(size).ok()?))
}

fn fixed(id: u32) -> InterruptFlags {
    InterruptFlags {
        number: Some(id),
        ..InterruptFlags::default()
    }
}

/// Serve one client, with a segment of so many bytes.
///
/// # Errors
/// Those of the calls; [`Failure::Wrong`]: what the client has written is not there.
pub fn serve<D: Device>(side: &Side<'_, D>, size: usize) -> Outcome {
    let (id, adapter) = (side.options.id, side.options.adapter());
    let questions = side.desc.create_data_interrupt(adapter, fixed(id));
    let questions = questions.called("SCICreateDataInterrupt")?;
    let new = NewSegment {
        id,
        ..NewSegment::of(size)
    };
    let segment = side.desc.create_segment(new);
    let segment = segment.called("SCICreateSegment")?;
    segment.prepare(adapter).called("SCIPrepareSegment")?;
    let map = segment.map(0, size, 0, MapFlags::empty());
    let map = map.called("SCIMapLocalSegment")?;
    let available = segment.set_available(adapter);
    available.called("SCISetSegmentAvailable")?;

    answer_all(side, &questions, &map)?;

    map.unmap().called("SCIUnmapSegment")?;
    side.remove("SCIRemoveSegment", || {
        segment.remove(sisci::Removal::Unused)
    })?;
    side.remove("SCIRemoveDataInterrupt", || questions.remove())
}

fn answer_all<D: Device>(
    side: &Side<'_, D>,
    questions: &LocalDataInterrupt<D>,
    map: &Map<D>,
) -> Outcome {
    let options = side.options;
    let mut answer = None;
    loop {
        let mut room = [0; QUESTION];
        let received = questions.wait(&mut room, options.patience);
        let len = received.called("SCIWaitForDataInterrupt")?;
        let question = room.get(..len).and_then(asked);
        let (turn, size) = match question {
            Some((turn, size)) if size <= map.size() => (turn, size),
            _ => return Err(Failure::Wrong("the client is given other options".into())),
        };
        if size == 0 {
            break;
        }
        let memory = map.with(|memory| match memory.subslice(0, size) {
            Ok(part) => look(&part, turn),
            Err(error) => Err(Failure::Wrong(error.to_string())),
        });
        memory.called("SCIMapLocalSegment")??;
        let connected = match &answer {
            Some(connected) => connected,
            None => answer.insert(
                side.desc
                    .connect_interrupt(
                        options.node,
                        options.adapter(),
                        options.id,
                        INFINITE,
                        sisci::Triggers::Merged,
                    )
                    .called("SCIConnectInterrupt")?,
            ),
        };
        connected.trigger().called("SCITriggerInterrupt")?;
    }
    match answer {
        Some(answer) => answer.disconnect().called("SCIDisconnectInterrupt"),
        None => Ok(()),
    }
}

/// The client's end.
#[derive(Debug)]
pub struct Mirror<'a, D: Device> {
    side: &'a Side<'a, D>,
    answer: LocalInterrupt<D>,
    question: RemoteDataInterrupt<D>,
    /// The server's segment.
    pub segment: RemoteSegment<D>,
    /// All of it.
    pub map: Map<D>,
    turn: u32,
}

impl<'a, D: Device> Mirror<'a, D> {
    /// Connect to a server with a segment of so many bytes.
    ///
    /// # Errors
    /// Those of the calls; so below.
    pub fn open(side: &'a Side<'a, D>, size: usize) -> Outcome<Self> {
        let options = side.options;
        let answer = side
            .desc
            .create_interrupt(options.adapter(), fixed(options.id))
            .called("SCICreateInterrupt")?;
        let segment = side.connect_segment(options.id)?;
        let question = side
            .desc
            .connect_data_interrupt(options.node, options.adapter(), options.id, INFINITE)
            .called("SCIConnectDataInterrupt")?;
        let map = map_remote(&segment, size)?;
        Ok(Mirror {
            side,
            answer,
            question,
            segment,
            map,
            turn: 0,
        })
    }

    /// Fill memory with a pattern that it has not had yet.
    pub fn fill(&mut self, memory: &VolatileSlice<'_>) {
        self.turn = self.turn.wrapping_add(1);
        memory.copy_from(&pattern(memory.len(), self.turn));
    }

    /// See whether memory has the pattern of the last filling.
    ///
    /// # Errors
    /// [`Failure::Wrong`]: it has not.
    pub fn look(&self, memory: &VolatileSlice<'_>) -> Outcome {
        look(memory, self.turn)
    }

    fn ask(&self, size: usize) -> Outcome {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let sent = self.question.trigger(&question(self.turn, size));
        sent.called("SCITriggerDataInterrupt")
    }

    /// Let the server look for the pattern of the last filling at the start of its segment.
    pub fn check(&self, size: usize) -> Outcome {
        self.ask(size)?;
        let answered = self.answer.wait(self.side.options.patience);
        answered.called("SCIWaitForInterrupt")
    }

    /// Disconnect, and have the server end.
    pub fn close(self) -> Outcome {
        self.ask(0)?;
        self.map.unmap().called("SCIUnmapSegment")?;
        let disconnected = self.question.disconnect();
        disconnected.called("SCIDisconnectDataInterrupt")?;
        let disconnected = self.segment.disconnect();
        disconnected.called("SCIDisconnectSegment")?;
        let answer = self.answer;
        self.side.remove("SCIRemoveInterrupt", || answer.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_differs_is_told_by_its_place() {
        let mut memory = pattern(1000, 3);
        assert!(look(&VolatileSlice::from(&mut memory[..]), 3).is_ok());
        memory[700] ^= 1;
        let told = look(&VolatileSlice::from(&mut memory[..]), 3).unwrap_err();
        assert_eq!(told.to_string(), "byte 700 of 1000 is another");
    }

    #[test]
    fn turns_have_patterns_of_their_own() {
        assert_ne!(pattern(100, 1), pattern(100, 2));
        assert_ne!(pattern(512, 1)[..256], pattern(512, 1)[256..]);
    }

    #[test]
    fn a_message_is_two_numbers_and_nothing_else() {
        assert_eq!(asked(&question(3, 70_000)), Some((3, 70_000)));
        assert_eq!(asked(&[0; 7]), None);
        assert_eq!(asked(&[0; 9]), None);
    }
}
