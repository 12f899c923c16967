// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program may ask of its node when it becomes one: limits below the library's, and strictness.

use crate::{Error, Result, ENDPOINTS_MAX, REQUESTS_MAX};

/// What a node is like, beside its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Most endpoints, up to [`ENDPOINTS_MAX`].
    pub endpoints: usize,
    /// Most requests of the program, up to [`REQUESTS_MAX`].
    pub requests: usize,
    /// An endpoint for messages that a node has got is not connected (MC-PKTCONN-4).
    pub is_strict: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            endpoints: ENDPOINTS_MAX,
            requests: REQUESTS_MAX,
            is_strict: false,
        }
    }
}

impl Parameters {
    /// Refuse limits that are above the library's.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check(&self) -> Result<()> {
        match self.endpoints <= ENDPOINTS_MAX && self.requests <= REQUESTS_MAX {
            true => Ok(()),
            false => Err(Error::Parameter),
        }
    }
}
