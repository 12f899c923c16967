// SPDX-License-Identifier: MIT OR Apache-2.0

//! What is logged of asynchronous errors for which there is no handler.

mod common;

use common::{Device, Pair};
use mp_testing::{again, is_inner};
use std::{
    fmt,
    sync::{mpsc, Mutex},
    thread,
    time::Duration,
};
use tracing::{
    field::{Field, Visit},
    span, Event, Level as Severity, Metadata, Subscriber,
};
use vipl::{ErrorEvent, Level, State};

const SOON: Duration = Duration::from_secs(30);

/// Collects errors that are logged.
struct Log(Mutex<mpsc::Sender<String>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Severity::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().send(text.0).unwrap();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A connection is lost.
fn lose(pair: &Pair) {
    let (a, b) = pair.connected(Level::ReliableDelivery);
    a.disconnect().unwrap();
    while b.query().unwrap().state != State::Error {
        thread::yield_now();
    }
}

/// VI-ERR-2: without a handler, and after one was taken away; the process goes on.
#[test]
fn an_error_that_nobody_handles_is_logged() {
    let (log, logged) = mpsc::channel();
    tracing::subscriber::set_global_default(Log(Mutex::new(log))).unwrap();
    let pair = Pair::new();
    let expected = "ConnLost of a Vi, and no handler";
    lose(&pair);
    assert_eq!(logged.recv_timeout(SOON).as_deref(), Ok(expected));
    let (tell, told) = mpsc::channel();
    let handler = move |_: &_, event: &ErrorEvent<Device>| tell.send(event.code).unwrap();
    pair.b
        .nic
        .set_error_handler(Some(Box::new(handler)))
        .unwrap();
    lose(&pair);
    assert!(told.recv_timeout(SOON).is_ok());
    assert!(logged.try_recv().is_err());
    pair.b.nic.set_error_handler(None).unwrap();
    lose(&pair);
    assert_eq!(logged.recv_timeout(SOON).as_deref(), Ok(expected));
    assert!(told.try_recv().is_err());
}

/// VI-ERR-2: also if nobody has asked to be told, unless the environment asks for silence.
#[test]
fn an_error_that_nobody_handles_or_logs_is_on_standard_error() {
    let test = "an_error_that_nobody_handles_or_logs_is_on_standard_error";
    if is_inner() {
        mp_log::init();
        let pair = Pair::new();
        lose(&pair);
        // Handlers run in order: once this one is there, the error has been told.
        let (tell, told) = mpsc::channel();
        let handler = move |_: &_, event: &ErrorEvent<Device>| tell.send(event.code).unwrap();
        let nic = &pair.b.nic;
        nic.set_error_handler(Some(Box::new(handler))).unwrap();
        lose(&pair);
        assert!(told.recv_timeout(SOON).is_ok());
        return;
    }
    let line = "ConnLost of a Vi, and no handler\n";
    let (_, told) = again(test, &[]);
    assert_eq!(told, format!("vipl: {line}"));
    assert_eq!(again(test, &[("MP_LOG", "off")]).1, "");
    let (_, logged) = again(test, &[("MP_LOG", "error")]);
    assert_eq!(logged.matches(line).count(), 1, "{logged}");
    assert!(
        logged.contains("ERROR") && logged.ends_with(line),
        "{logged}"
    );
}
