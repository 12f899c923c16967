// SPDX-License-Identifier: GPL-2.0-only
//! The loopback interface, brought up by one netlink message: running `ip`
//! would read half the host's libraries over 9p before the guest is ready.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{bind, recv, send, socket_with, AddressFamily, RecvFlags, SendFlags};
use rustix::net::{SocketFlags, SocketType};

const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const IFF_UP: u32 = 1;
/// The kernel creates `lo` first in every network namespace.
const LOOPBACK_INDEX: u32 = 1;
/// `struct nlmsghdr` and `struct ifinfomsg`.
const MESSAGE_LENGTH: usize = 32;

fn set_up_message() -> [u8; MESSAGE_LENGTH] {
    let words: [u32; 8] = [
        MESSAGE_LENGTH as u32,
        u32::from(RTM_NEWLINK) | u32::from(NLM_F_REQUEST | NLM_F_ACK) << 16,
        0, // sequence
        0, // sender: the kernel fills it in
        0, // family and type: any
        LOOPBACK_INDEX,
        IFF_UP, // flags
        IFF_UP, // which of them change
    ];
    let mut bytes = [0; MESSAGE_LENGTH];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Set the loopback interface up.
///
/// # Errors
/// What the netlink socket or the kernel's answer reports.
pub fn loopback_up() -> io::Result<()> {
    // No protocol named: 0 is NETLINK_ROUTE.
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    send(&socket, &set_up_message(), SendFlags::empty())?;
    let mut answer = [0u8; 64];
    let (length, _) = recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
    match parse_error(answer.get(..length).unwrap_or(&[])) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The error number of an acknowledgement: zero or negative.
fn parse_error(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let errno = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (kind == NLMSG_ERROR).then_some(errno)
}
