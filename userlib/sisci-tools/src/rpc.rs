// SPDX-License-Identifier: MIT OR Apache-2.0

//! `sci_rpc`: calls of a function on another node, by data interrupts there and back. The function
//! adds up bytes. A call of no bytes ends the server.
//!
//! A call is its number, how many bytes it has, and these; an answer is the number of the call and
//! the sum. Numbers have 32 bits in the order of the machine.

use crate::{
    failure::{Called, Failure, Outcome},
    options::{size, Pair, Rounds},
    output::Output,
    side::Side,
    Tool,
};
use clap::Parser;
use mp_fabric::Device;
use sisci::{
    InterruptFlags, Library, LocalDataInterrupt, RemoteDataInterrupt, INFINITE, MESSAGE_MAX,
};
use std::time::{Duration, Instant};

/// Bytes before those that are added up.
const HEADER: usize = 8;
/// Most bytes that are.
const MOST: usize = MESSAGE_MAX - HEADER;

/// Measures calls of a function on another node, by data interrupts.
#[derive(Parser, Clone, Debug)]
#[command(name = "sci_rpc", version, after_help = "sci_rpc(1) tells more.")]
pub struct Options {
    #[command(flatten)]
    pair: Pair,

    #[command(flatten)]
    rounds: Rounds,

    /// Bytes of a call, at most 4088
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = bytes)]
    #[arg(default_value = "4,64,1024,4088")]
    sizes: Vec<usize>,
}

fn bytes(text: &str) -> Result<usize, String> {
    match size(text)? {
        size if size <= MOST => Ok(size),
        _ => Err(format!("more than {MOST}")),
    }
}

fn pack(number: u32, second: u32, bytes: &[u8]) -> Vec<u8> {
    [&number.to_ne_bytes(), &second.to_ne_bytes(), bytes].concat()
}

/// Two numbers, and the bytes behind them.
fn unpack(message: &[u8]) -> Option<(u32, u32, &[u8])> {
    let (first, rest) = message.split_first_chunk()?;
    let (second, rest) = rest.split_first_chunk()?;
    Some((
        u32::from_ne_bytes(*first),
        u32::from_ne_bytes(*second),
        rest,
    ))
}

fn add_up(bytes: &[u8]) -> u32 {
    bytes.iter().copied().map(u32::from).sum()
}

impl Tool for Options {
    fn json(&self) -> bool {
        self.pair.local.json
    }

    fn run<D: Device>(&self, library: &Library<D>, out: &mut Output<'_>) -> Outcome {
        Side::on(library, &self.pair, |side| self.talk(side, out))
    }
}

impl Options {
    fn talk<D: Device>(&self, side: &Side<'_, D>, out: &mut Output<'_>) -> Outcome {
        let (node, adapter) = (self.pair.node, self.pair.adapter());
        let flags = InterruptFlags {
            number: Some(self.pair.own_id()),
            ..InterruptFlags::default()
        };
        let local = side.desc.create_data_interrupt(adapter, flags);
        let local = local.called("SCICreateDataInterrupt")?;
        let other = self.pair.other_id();
        let remote = side.connect("SCIConnectDataInterrupt", other, || {
            side.desc
                .connect_data_interrupt(node, adapter, other, INFINITE)
        })?;

        let mut line = Line {
            local: &local,
            remote: &remote,
            patience: self.pair.patience,
            room: vec![0; MESSAGE_MAX],
        };
        match self.pair.is_server() {
            true => line.serve()?,
            false => self.call_all(&mut line, out)?,
        }

        remote.disconnect().called("SCIDisconnectDataInterrupt")?;
        side.remove("SCIRemoveDataInterrupt", || local.remove())
    }
}

impl Options {
    fn call_all<D: Device>(&self, line: &mut Line<'_, D>, out: &mut Output<'_>) -> Outcome {
        out.head_of_times()?;
        let mut number = 0;
        for &size in &self.sizes {
            let rounds = 0..self.rounds.rounds;
            let times = rounds.map(|_| line.call(&mut number, size));
            let times = times.collect::<Outcome<Vec<Duration>>>()?;
            out.times("rpc", size, self.rounds.rounds, &times)?;
        }
        line.call(&mut number, 0).map(|_| ())
    }
}

/// The two directions.
struct Line<'a, D: Device> {
    local: &'a LocalDataInterrupt<D>,
    remote: &'a RemoteDataInterrupt<D>,
    patience: u32,
    room: Vec<u8>,
}

impl<D: Device> Line<'_, D> {
    fn send(&self, message: &[u8]) -> Outcome {
        let sent = self.remote.trigger(message);
        sent.called("SCITriggerDataInterrupt")
    }

    fn receive(&mut self) -> Outcome<&[u8]> {
        let received = self.local.wait(&mut self.room, self.patience);
        let len = received.called("SCIWaitForDataInterrupt")?;
        let message = self.room.get(..len);
        message.ok_or_else(|| Failure::Wrong("a message is too long".into()))
    }

    /// Answer calls.
    fn serve(&mut self) -> Outcome {
        loop {
            let message = self.receive()?;
            let (number, len, bytes) = match unpack(message) {
                Some(call) if call.2.len() == call.1 as usize => call,
                _ => {
                    let len = message.len();
                    let what = format!("a call of {len} bytes makes no sense");
                    return Err(Failure::Wrong(what));
                }
            };
            let answer = pack(number, add_up(bytes), &[]);
            self.send(&answer)?;
            if len == 0 {
                return Ok(());
            }
        }
    }

    /// The time that a call takes, of so many bytes.
    fn call(&mut self, number: &mut u32, size: usize) -> Outcome<Duration> {
        let start = Instant::now();
        *number = number.wrapping_add(1);
        let bytes = vec![(*number % 251) as u8; size];
        self.send(&pack(*number, size as u32, &bytes))?;
        match unpack(self.receive()?) {
            Some((answered, sum, [])) if (answered, sum) == (*number, add_up(&bytes)) => {
                Ok(start.elapsed())
            }
            _ => Err(Failure::Wrong(format!("call {number} has a wrong answer"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let message = pack(7, 3, &[1, 2, 250]);
        assert_eq!(message.len(), HEADER + 3);
        assert_eq!(unpack(&message), Some((7, 3, &[1, 2, 250][..])));
        assert_eq!(unpack(&message[..7]), None);
        assert_eq!(add_up(&[1, 2, 250]), 253);
    }

    #[test]
    fn calls_that_do_not_fit_a_message_are_refused() {
        assert!(Options::try_parse_from(["rpc", "client", "8", "--sizes", "4089"]).is_err());
        let options = Options::try_parse_from(["rpc", "client", "8", "--sizes", "1,4088"]);
        assert_eq!(options.unwrap().sizes, [1, 4088]);
    }
}
