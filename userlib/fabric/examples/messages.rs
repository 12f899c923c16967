// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages by ports between processes of two hosts: how long one takes, and how many there are.
//!
//! `messages serve` on one host, and when that has said that it is ready, `messages play ROUNDS COUNT
//! SIZE` on the other. ROUNDS messages of SIZE bytes go there and back, one at a time, between
//! processes that sleep for each; then COUNT go there, as fast as they are taken. The second
//! process prints the microseconds of half a round trip, and the messages in a second.

use mp_fabric::{Connection, Deadline, Fabric, Goal, InterfaceId, Key, Number, Offer};
use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant},
};

/// The ports of the two hosts.
const SERVER: u32 = 0xF111_D007;
const PLAYER: u32 = 0xF111_D008;
/// Most bytes of a message.
const ROOM: usize = 4096;
/// So long is nothing under way.
const PATIENCE: Duration = Duration::from_secs(60);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// One end: its port, and the way to the other one's.
struct End {
    port: Offer,
    to: Connection,
    room: [u8; ROOM],
}

impl End {
    fn send(&self, len: usize) -> Outcome<()> {
        let message = self.room.get(..len).ok_or("too long a message")?;
        Ok(self.to.send(message, Deadline::after(PATIENCE))?)
    }

    fn receive(&mut self) -> Outcome<usize> {
        Ok(receive(&self.port, &mut self.room)?)
    }
}

fn receive(port: &Offer, room: &mut [u8]) -> mp_fabric::Result<usize> {
    Ok(port.receive(room, Deadline::after(PATIENCE))?.len)
}

fn connect(fabric: &Fabric, interface: InterfaceId, port: u32) -> mp_fabric::Result<Connection> {
    let goal = Goal::Port(Key::Number(port));
    fabric.connect(interface, goal, Deadline::after(PATIENCE))
}

/// The numbers of a game, as words.
fn numbers<const N: usize>(words: impl Iterator<Item = String>) -> Outcome<[usize; N]> {
    let numbers: Result<Vec<usize>, _> = words.map(|word| word.parse()).collect();
    numbers?
        .try_into()
        .map_err(|_| "usage: messages serve | play ROUNDS COUNT SIZE".into())
}

fn serve(fabric: &Fabric, interface: InterfaceId) -> Outcome<()> {
    let port = fabric.offer_port(interface, Number::Own(SERVER))?;
    println!("ready");
    let mut room = [0; ROOM];
    let len = receive(&port, &mut room)?;
    let told = String::from_utf8_lossy(room.get(..len).unwrap_or_default()).into_owned();
    let [rounds, count] = numbers(told.split(' ').map(String::from))?;
    let to = connect(fabric, interface, PLAYER)?;
    let mut end = End { port, to, room };
    for _ in 0..rounds {
        let len = end.receive()?;
        end.send(len)?;
    }
    for _ in 0..count {
        end.receive()?;
    }
    end.send(1)?;
    // It goes when the other one has.
    let _ = end.receive();
    Ok(())
}

fn play(fabric: &Fabric, interface: InterfaceId, game: [usize; 3]) -> Outcome<()> {
    let [rounds, count, size] = game;
    let port = fabric.offer_port(interface, Number::Own(PLAYER))?;
    let to = connect(fabric, interface, SERVER)?;
    let words = format!("{rounds} {count}");
    to.send(words.as_bytes(), Deadline::after(PATIENCE))?;
    let room = [0; ROOM];
    let mut end = End { port, to, room };
    let start = Instant::now();
    for _ in 0..rounds {
        end.send(size)?;
        end.receive()?;
    }
    let played = start.elapsed();
    let start = Instant::now();
    for _ in 0..count {
        end.send(size)?;
    }
    end.receive()?;
    let sent = start.elapsed();
    end.send(1)?;
    println!(
        "{{\"one_way_us\": {:.2}, \"messages_s\": {:.0}}}",
        played.as_secs_f64() * 0.5e6 / rounds.max(1) as f64,
        count as f64 / sent.as_secs_f64()
    );
    Ok(())
}

fn run() -> Outcome<()> {
    let mut words = env::args().skip(1);
    let role = words.next();
    let fabric = Fabric::open()?;
    let interface = fabric.wait_for_interface(Deadline::after(PATIENCE))?;
    match role.as_deref() {
        Some("serve") => serve(&fabric, interface),
        _ => play(&fabric, interface, numbers(words)?),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("messages: {error}");
            ExitCode::FAILURE
        }
    }
}
