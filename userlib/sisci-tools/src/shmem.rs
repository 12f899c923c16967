// SPDX-License-Identifier: MIT OR Apache-2.0

//! `sci_shmem`: the life of a segment, told by callbacks. The server makes it; the client connects,
//! writes a greeting and stays until the server wants it to go.

use crate::{
    failure::{Called, Failure, Outcome},
    options::Pair,
    output::Output,
    side::Side,
    Tool,
};
use clap::Parser;
use mp_fabric::Device;
use sisci::{
    Action, Library, LocalEvent, MapFlags, NewSegment, Reason, RemoteEvent, Unavailable, INFINITE,
};
use std::{
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc::{channel, Receiver, Sender},
    },
    time::{Duration, Instant},
};
use vm_memory::{Bytes, VolatileMemory, VolatileSlice};

/// Bytes of the segment.
const ROOM: usize = 4096;
/// Where the greeting is; the first word says that it is there.
const TEXT: usize = 8;
/// As in C, with its end.
const GREETING: &[u8] = b"greetings\0";

/// Shows the life of a segment, told by callbacks.
#[derive(Parser, Clone, Debug)]
#[command(name = "sci_shmem", version, after_help = "sci_shmem(1) tells more.")]
pub struct Options {
    #[command(flatten)]
    pair: Pair,
}

impl Tool for Options {
    fn json(&self) -> bool {
        self.pair.local.json
    }

    fn run<D: Device>(&self, library: &Library<D>, out: &mut Output<'_>) -> Outcome {
        Side::on(library, &self.pair, |side| self.live(side, out))
    }
}

impl Options {
    fn live<D: Device>(&self, side: &Side<'_, D>, out: &mut Output<'_>) -> Outcome {
        match self.pair.is_server() {
            true => self.serve(side, out),
            false => self.visit(side, out),
        }
    }
}

/// Wait for an event for which there is a meaning, and give that.
fn await_event<E, T>(
    events: &Receiver<E>,
    patience: u32,
    meaning: impl Fn(E) -> Option<T>,
) -> Outcome<T> {
    let end = Instant::now() + Duration::from_millis(patience.into());
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = events.recv_timeout(left).map_err(|_| Failure::Silent)?;
        if let Some(found) = meaning(event) {
            return Ok(found);
        }
    }
}

/// Pass on what a callback is told.
fn tell<E>(news: &Sender<E>, event: E) -> Action {
    match news.send(event) {
        Ok(()) => Action::Continue,
        Err(_) => Action::Cancel,
    }
}

fn has_left(event: LocalEvent) -> Option<u32> {
    matches!(event.reason, Reason::Disconnect | Reason::Lost).then_some(event.node)
}

fn has_to_go(event: RemoteEvent) -> Option<()> {
    matches!(event.reason, Reason::Disconnect | Reason::Lost).then_some(())
}

/// Whether somebody has said that the greeting is there.
fn is_greeted(memory: &VolatileSlice<'_>) -> bool {
    let word = memory.get_atomic_ref::<AtomicU32>(0);
    word.is_ok_and(|word| word.load(Ordering::Acquire) != 0)
}

fn greeting(memory: &VolatileSlice<'_>) -> Outcome {
    let mut text = [0; GREETING.len()];
    match memory.read_slice(&mut text, TEXT) {
        Ok(()) if text == GREETING => Ok(()),
        _ => Err(Failure::Wrong("the greeting has not arrived".into())),
    }
}

impl Options {
    fn serve<D: Device>(&self, side: &Side<'_, D>, out: &mut Output<'_>) -> Outcome {
        let (id, adapter) = (self.pair.id, self.pair.adapter());
        let (news, events) = channel();
        let new = NewSegment {
            id,
            ..NewSegment::of(ROOM)
        };
        let segment = side.desc.create_segment(new);
        let segment = segment.called("SCICreateSegment")?;
        let called = segment.set_callback(move |event| tell(&news, event));
        called.called("SCICreateSegment")?;
        out.event("created", 0)?;
        segment.prepare(adapter).called("SCIPrepareSegment")?;
        out.event("prepared", 0)?;
        let map = segment.map(0, ROOM, 0, MapFlags::empty());
        let map = map.called("SCIMapLocalSegment")?;
        let available = segment.set_available(adapter);
        available.called("SCISetSegmentAvailable")?;
        out.event("available", 0)?;

        let has_come = |event: LocalEvent| (event.reason == Reason::Connect).then_some(event.node);
        let node = await_event(&events, self.pair.patience, has_come)?;
        out.event("connected", node)?;
        side.wait_until(|| map.with(|memory| is_greeted(&memory)) == Ok(true))?;
        let greeted = map.with(|memory| greeting(&memory));
        greeted.called("SCIMapLocalSegment")??;
        out.event("greeted", node)?;
        let unavailable = segment.set_unavailable(adapter, Unavailable::Notify);
        unavailable.called("SCISetSegmentUnavailable")?;
        out.event("unavailable", 0)?;
        let node = await_event(&events, self.pair.patience, has_left)?;
        out.event("disconnected", node)?;

        map.unmap().called("SCIUnmapSegment")?;
        side.remove("SCIRemoveSegment", || {
            segment.remove(sisci::Removal::Unused)
        })?;
        out.event("removed", 0)
    }

    fn visit<D: Device>(&self, side: &Side<'_, D>, out: &mut Output<'_>) -> Outcome {
        let Pair { node, id, .. } = self.pair;
        let (news, events) = channel();
        let segment = side.connect("SCIConnectSegment", id, || {
            side.desc
                .connect_segment(node, id, self.pair.adapter(), INFINITE)
        })?;
        let called = segment.set_callback(move |event| tell(&news, event));
        called.called("SCIConnectSegment")?;
        out.event("connected", node)?;
        let map = segment.map(0, ROOM, 0, MapFlags::empty());
        let map = map.called("SCIMapRemoteSegment")?;
        out.event("mapped", 0)?;
        let mut text = GREETING.to_vec();
        let written = map.write(None, TEXT, VolatileSlice::from(&mut text[..]));
        written.called("SCIMemWrite")?;
        let mut word = 1_u32.to_ne_bytes();
        let written = map.write(None, 0, VolatileSlice::from(&mut word[..]));
        written.called("SCIMemWrite")?;
        out.event("written", 0)?;

        await_event(&events, self.pair.patience, has_to_go)?;
        out.event("unavailable", node)?;
        map.unmap().called("SCIUnmapSegment")?;
        segment.disconnect().called("SCIDisconnectSegment")?;
        out.event("disconnected", 0)
    }
}
