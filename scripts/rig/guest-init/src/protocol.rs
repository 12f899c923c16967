// SPDX-License-Identifier: GPL-2.0-only
//! What the rig asks and what the agent answers: one JSON object per line.
//!
//! The rig chooses an id for every command; all events about it carry that id.
//! Bytes travel as base64, so that any output survives.

use std::collections::BTreeMap;

use base64::prelude::{Engine, BASE64_STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are base64 on the wire.
#[derive(Debug)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD
            .decode(text)
            .map(Bytes)
            .map_err(serde::de::Error::custom)
    }
}

/// Size of a terminal in characters.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Terminal {
    pub rows: u16,
    pub columns: u16,
}

/// A program to run.
#[derive(Debug, Deserialize)]
pub struct Exec {
    pub id: u64,
    pub argv: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Milliseconds until the program's whole process group is killed.
    pub timeout_ms: Option<u64>,
    /// Whether `Input` follows; else its standard input is empty.
    #[serde(default)]
    pub input: bool,
    /// Run it on a terminal of its own, which always takes input.
    pub terminal: Option<Terminal>,
}

/// From the rig.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Request {
    /// Answered by `Ready`.
    Ping,
    Exec(Exec),
    /// Bytes for a program's standard input; none at all closes it.
    Input {
        id: u64,
        data: Bytes,
    },
    Resize {
        id: u64,
        #[serde(flatten)]
        terminal: Terminal,
    },
    /// Sends a signal to a program's process group.
    Kill {
        id: u64,
        signal: i32,
    },
    /// Sends a file's contents as `Out` events, then `Exit`.
    Read {
        id: u64,
        path: String,
    },
    /// Ends the guest, with file systems as they are: nothing on them lasts.
    Poweroff,
    Restart,
}

/// To the rig.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    Ready {
        host: String,
    },
    Started {
        id: u64,
        pid: u32,
    },
    Out {
        id: u64,
        data: Bytes,
    },
    Err {
        id: u64,
        data: Bytes,
    },
    /// The program has ended: by itself with `code`, or by `signal`.
    Exit {
        id: u64,
        code: Option<i32>,
        signal: Option<i32>,
        timed_out: bool,
    },
    /// The request could not be served; `id` is absent if it was not readable.
    Failed {
        id: Option<u64>,
        message: String,
    },
}
