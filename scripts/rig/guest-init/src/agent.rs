// SPDX-License-Identifier: GPL-2.0-only
//! The agent: reads requests, keeps the table of running commands.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::system::{reboot, RebootCommand};

use crate::boot::while_doing;
use crate::command::{self, Control};
use crate::port::{self, Lines, Sender};
use crate::protocol::{Bytes, Event, Exec, Request};

const CHUNK: usize = 48 << 10;

/// Commands that have not ended yet, by the rig's id.
#[derive(Clone, Default)]
pub struct Table(Arc<Mutex<BTreeMap<u64, Control>>>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Control>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn remove(&self, id: u64) {
        self.lock().remove(&id);
    }
}

/// Serve the rig for the life of the guest.
///
/// # Errors
/// When the port is missing or broken.
pub fn serve() -> io::Result<()> {
    let port = port::open()?;
    let sender = Sender::new(port.try_clone()?);
    let table = Table::default();
    show_all_kernel_messages();
    sender.send(&ready());
    let mut lines = Lines::new(port);
    loop {
        let line = lines.next()?;
        if line.is_empty() {
            continue;
        }
        let id = match serde_json::from_slice(&line) {
            Ok(request) => match handle(request, &sender, &table) {
                Ok(()) => continue,
                Err((id, error)) => (id, error.to_string()),
            },
            Err(error) => (None, format!("not a request: {error}")),
        };
        let (id, message) = id;
        sender.send(&Event::Failed { id, message });
    }
}

/// Boot messages up to here were limited to warnings, to boot fast over a slow
/// serial line; what the tests do must be seen whole.
fn show_all_kernel_messages() {
    if let Err(error) = fs::write("/proc/sys/kernel/printk", "8 4 1 8") {
        eprintln!("guest-init: console log level: {error}");
    }
}

fn ready() -> Event {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Event::Ready {
        host: host.trim().to_owned(),
    }
}

fn handle(
    request: Request,
    sender: &Sender,
    table: &Table,
) -> Result<(), (Option<u64>, io::Error)> {
    match request {
        Request::Ping => {
            sender.send(&ready());
            Ok(())
        }
        Request::Exec(exec) => start(exec, sender, table),
        Request::Input { id, data } => with(table, id, |control| control.input(data.0)),
        Request::Resize { id, terminal } => with(table, id, |control| control.resize(terminal)),
        Request::Kill { id, signal } => with(table, id, |control| control.kill(signal)),
        Request::Read { id, path } => {
            let sender = sender.clone();
            thread::spawn(move || send_file(id, &path, &sender));
            Ok(())
        }
        Request::Poweroff => end(RebootCommand::PowerOff),
        Request::Restart => end(RebootCommand::Restart),
    }
}

fn start(exec: Exec, sender: &Sender, table: &Table) -> Result<(), (Option<u64>, io::Error)> {
    let id = exec.id;
    let fail = |error| (Some(id), error);
    let mut running = table.lock();
    if running.contains_key(&id) {
        return Err(fail(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "this id is in use",
        )));
    }
    let control = command::start(exec, sender.clone(), table.clone()).map_err(fail)?;
    running.insert(id, control);
    Ok(())
}

/// Something done to a command that may have ended meanwhile, which is no error.
fn with(
    table: &Table,
    id: u64,
    action: impl FnOnce(&Control) -> io::Result<()>,
) -> Result<(), (Option<u64>, io::Error)> {
    match table.lock().get(&id) {
        Some(control) => action(control).map_err(|error| (Some(id), error)),
        None => Ok(()),
    }
}

fn end(how: RebootCommand) -> Result<(), (Option<u64>, io::Error)> {
    reboot(how).map_err(|error| (None, error.into()))
}

fn send_file(id: u64, path: &str, sender: &Sender) {
    let event = match try_send_file(id, path, sender) {
        Ok(()) => Event::Exit {
            id,
            code: Some(0),
            signal: None,
            timed_out: false,
        },
        Err(error) => Event::Failed {
            id: Some(id),
            message: error.to_string(),
        },
    };
    sender.send(&event);
}

fn try_send_file(id: u64, path: &str, sender: &Sender) -> io::Result<()> {
    let mut file = File::open(path).map_err(while_doing(path))?;
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = file.read(&mut chunk).map_err(while_doing(path))?;
        if length == 0 {
            return Ok(());
        }
        let data = Bytes(chunk.iter().take(length).copied().collect());
        sender.send(&Event::Out { id, data });
    }
}
