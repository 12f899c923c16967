// SPDX-License-Identifier: MIT OR Apache-2.0

//! Time of a round trip through windows and signals, on a host with an interface that is up:
//! `ping serve` on one host, `ping` on the other.

use mp_fabric::{Deadline, EventMask, Fabric};
use std::{env, error::Error, time::Duration, time::Instant};
use vm_memory::Bytes;

const PROTOCOL: u32 = 0xF111_D001;
const ROUNDS: u64 = 1000;
const SIZE: u64 = 4096;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let serve = env::args().nth(1).is_some_and(|role| role == "serve");
    let fabric = Fabric::open()?;
    let interface = fabric.wait_for_interface(Deadline::PAST)?;
    let request = match serve {
        true => fabric.server(interface, PROTOCOL),
        false => fabric.client(interface, PROTOCOL),
    };
    let session = request.local(SIZE..=SIZE).remote(SIZE..=SIZE).open()?;
    session.wait(EventMask::PAIRED, Deadline::NEVER)?;
    let (Some(local), Some(remote)) = (session.map_local()?, session.map_remote()?) else {
        return Err("the partner has no windows".into());
    };
    let end = EventMask::SIGNAL | EventMask::CLOSED | EventMask::DOWN;
    let start = Instant::now();
    for round in 0..ROUNDS {
        if !serve {
            remote.volatile().write_obj(round, 0)?;
            session.signal()?;
        }
        let soon = Deadline::after(Duration::from_secs(5));
        if session.wait_one(end, soon)? != EventMask::SIGNAL {
            return Err("the partner is gone".into());
        }
        let told: u64 = local.volatile().read_obj(0)?;
        if serve {
            remote.volatile().write_obj(told, 0)?;
            session.signal()?;
        } else if told != round {
            return Err(format!("round {round} was answered by {told}").into());
        }
    }
    if serve {
        // An end outranks the last answer, which is still on its way.
        session.wait(EventMask::CLOSED | EventMask::DOWN, Deadline::NEVER)?;
    } else {
        println!(
            "{:.1} us",
            start.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64
        );
    }
    Ok(())
}
