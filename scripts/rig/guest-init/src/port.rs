// SPDX-License-Identifier: GPL-2.0-only
//! The virtio serial port to the rig: lines in, lines out.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::protocol::Event;

const NAME: &str = "rig.agent";
const CLASS: &str = "/sys/class/virtio-ports";
const PROBE_INTERVAL: Duration = Duration::from_millis(10);
const PROBE_ATTEMPTS: u32 = 500;
/// Nobody listens at the other end: how long until the next look.
const DISCONNECTED_DELAY: Duration = Duration::from_millis(20);
/// A longer line is garbage.
const LONGEST_LINE: usize = 4 << 20;

fn find() -> Option<PathBuf> {
    let entries = fs::read_dir(CLASS).ok()?.flatten();
    let mut named = entries.filter(|entry| {
        fs::read_to_string(entry.path().join("name")).is_ok_and(|name| name.trim() == NAME)
    });
    Some(PathBuf::from("/dev").join(named.next()?.file_name()))
}

/// Open the port, which appears some time after the bus has been scanned.
///
/// # Errors
/// `NotFound` when it does not appear within five seconds.
pub fn open() -> io::Result<File> {
    for _ in 0..PROBE_ATTEMPTS {
        if let Some(path) = find() {
            return OpenOptions::new().read(true).write(true).open(path);
        }
        thread::sleep(PROBE_INTERVAL);
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("no virtio serial port named {NAME}"),
    ))
}

/// Sends events; shared by all threads.
#[derive(Clone)]
pub struct Sender(Arc<Mutex<File>>);

impl Sender {
    pub fn new(port: File) -> Self {
        Self(Arc::new(Mutex::new(port)))
    }

    /// Send one event. The rig may have gone: then nobody misses it.
    pub fn send(&self, event: &Event) {
        let Ok(mut line) = serde_json::to_vec(event) else {
            return;
        };
        line.push(b'\n');
        let mut port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = port.write_all(&line);
    }
}

/// Reads lines; survives a rig that disconnects and lines without end.
pub struct Lines {
    port: File,
    buffer: Vec<u8>,
}

impl Lines {
    pub fn new(port: File) -> Self {
        Self {
            port,
            buffer: Vec::new(),
        }
    }

    /// Wait for the next line, without its line feed.
    ///
    /// # Errors
    /// Only when the port itself fails.
    pub fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut chunk = vec![0; 64 << 10];
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(line);
            }
            if self.buffer.len() > LONGEST_LINE {
                self.buffer.clear();
            }
            match self.port.read(&mut chunk) {
                Ok(0) => thread::sleep(DISCONNECTED_DELAY),
                Ok(length) => self.buffer.extend(chunk.iter().take(length)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}
