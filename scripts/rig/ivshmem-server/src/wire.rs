// SPDX-License-Identifier: GPL-2.0-only
//! Messages from the server to QEMU: eight bytes, little-endian, each with at
//! most one file descriptor. QEMU never sends anything.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// The only protocol version there is.
pub const PROTOCOL_VERSION: i64 = 0;
/// Announces the descriptor of the shared memory.
pub const SHARED_MEMORY: i64 = -1;

/// Send one message, whole or not at all.
///
/// # Errors
/// What `sendmsg(2)` reports; `WriteZero` when only a part of it fits.
pub fn send(stream: &UnixStream, value: i64, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = value.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: &[BorrowedFd<'_>] = fd.as_slice();
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = sendmsg(stream, &[IoSlice::new(&bytes)], &mut control, flags)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}
