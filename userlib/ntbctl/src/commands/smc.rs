// SPDX-License-Identifier: MIT OR Apache-2.0

//! `smc`: what the kernel's SMC has and carries, and the identity that two hosts need in common.

use crate::{
    cli::{Smc, SmcCommand},
    failure::Failure,
    netlink::{sockets, Attributes, Connection},
    output::{print, print_json, print_table},
};
use mp_table::Table;
use serde::Serialize;
use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Numbers of `linux/smc.h`.
mod kernel {
    pub const GET_LGR_SMCD: u32 = 4;
    pub const GET_FBACK_STATS: u32 = 8;
    pub const DUMP_UEID: u32 = 9;
    pub const ADD_UEID: u32 = 10;
    pub const REMOVE_UEID: u32 = 11;

    pub const EID_ENTRY: u32 = 1;

    pub const LGR: u32 = 4;
    pub const LGR_PEER_GID: u32 = 3;
    pub const LGR_CONNS: u32 = 5;
    pub const LGR_V2: u32 = 9;
    pub const LGR_V2_EID: u32 = 3;
    pub const LGR_V2_HOST: u32 = 4;

    pub const FBACK: u32 = 8;
    pub const FBACK_TYPE: u32 = 1;
    pub const FBACK_CODE: u32 = 4;
    pub const FBACK_COUNT: u32 = 5;
}

/// Numbers of `linux/smc_diag.h`, and where the fields of its answer are.
mod diag {
    /// The family of SMC's addresses.
    pub const AF_SMC: u8 = 43;
    /// Bytes of a request, and of an answer before its attributes.
    pub const REQUEST: usize = 52;
    pub const ANSWER: usize = 64;
    pub const AF_INET6: u8 = 10;

    pub const MODE_SMCR: u8 = 0;
    pub const MODE_TCP: u8 = 1;
    pub const MODE_SMCD: u8 = 2;

    pub const FALLBACK: u32 = 5;
}

/// Bytes of an identity, with spaces behind its name.
const IDENTITY: usize = 32;

/// Why a connection goes over TCP: the numbers of SMC's declines (`net/smc/smc_clc.h`).
const REASONS: [(u32, &str); 15] = [
    (0x0101_0000, "no memory in the window for its buffers"),
    (0x0300_0000, "the configuration"),
    (0x0301_0000, "the peer's socket is none of SMC"),
    (0x0302_0000, "IPsec"),
    (0x0303_0000, "no device of SMC"),
    (0x0303_0001, "no device for memory: is mp_dibs loaded?"),
    (0x0303_0002, "no device for RDMA"),
    (0x0303_0004, "the peer speaks no SMC version 2"),
    (
        0x0303_0007,
        "no device that leads to the peer: is mp_dibs loaded at both ends?",
    ),
    (
        0x0303_0008,
        "no identity in common: `ntbctl smc identify` at both ends",
    ),
    (0x0304_0000, "the peer has another kind of device"),
    (0x0306_0000, "an option of the socket that SMC has not"),
    (0x030c_0000, "the peer speaks another version"),
    (0x030d_0000, "the device has no more buffers"),
    (0x0500_0000, "the peer has declined: look there"),
];

/// What the kernel says of SMC.
#[derive(Serialize)]
struct State {
    identities: Vec<String>,
    devices: Vec<SmcDevice>,
    groups: Vec<Group>,
    fallbacks: Vec<Fallback>,
}

/// A device that shares memory with other hosts, or with this one itself.
#[derive(Serialize)]
struct SmcDevice {
    name: String,
    /// Those that can reach each other have the same; 0xff4d is that of `mp_dibs`.
    fabric: String,
    /// Its name for peers.
    gid: String,
}

/// Connections with one host.
#[derive(Serialize)]
struct Group {
    /// The gid of its device.
    peer: String,
    host: String,
    identity: String,
    connections: u64,
}

/// Connections that went over TCP for one reason.
#[derive(Serialize)]
struct Fallback {
    side: &'static str,
    code: String,
    reason: String,
    connections: u16,
}

/// A socket.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct SmcSocket {
    /// Address and port, `*` for an address that the kernel does not tell.
    local: String,
    peer: String,
    state: &'static str,
    /// What carries it: `window`, `rdma` or `tcp`.
    carrier: &'static str,
    /// Why it is TCP.
    why: Option<String>,
}

/// Do what the command line says.
pub fn run(kernel: &mut Connection, options: &Smc, json: bool) -> Result<(), Failure> {
    match &options.command {
        None => show(kernel, json),
        Some(SmcCommand::Connections) => show_connections(json),
        Some(SmcCommand::Identify(identity)) => identify(kernel, &identity.name),
        Some(SmcCommand::Forget(identity)) => {
            kernel.have_done(kernel::REMOVE_UEID, entry(&identity.name))
        }
    }
}

/// An identity as the kernel has it.
fn entry(name: &str) -> Attributes {
    Attributes::of_text(kernel::EID_ENTRY, &format!("{name:IDENTITY$}"))
}

/// Give this host an identity; one that it has is no failure.
fn identify(kernel: &mut Connection, name: &str) -> Result<(), Failure> {
    match kernel.have_done(kernel::ADD_UEID, entry(name)) {
        Err(failure) if failure.is_kernel(io::ErrorKind::AlreadyExists) => Ok(()),
        done => done,
    }
}

fn nest(attributes: &Attributes, kind: u32) -> Attributes {
    attributes.nests(kind).next().unwrap_or_default()
}

fn text(attributes: &Attributes, kind: u32) -> String {
    attributes.text(kind).unwrap_or_default().trim_end().into()
}

fn reason(code: u32) -> String {
    let known = REASONS.iter().find(|(number, _)| *number == code);
    known.map_or_else(|| format!("{code:#010x}"), |(_, words)| (*words).into())
}

fn read(kernel: &mut Connection) -> Result<State, Failure> {
    let list = |kernel: &mut Connection, command, kind| -> Result<Vec<Attributes>, Failure> {
        let entries = kernel.list(command)?;
        Ok(entries.iter().map(|entry| nest(entry, kind)).collect())
    };
    let identities = kernel.list(kernel::DUMP_UEID)?;
    let groups = list(kernel, kernel::GET_LGR_SMCD, kernel::LGR)?;
    let fallbacks = list(kernel, kernel::GET_FBACK_STATS, kernel::FBACK)?;
    Ok(State {
        identities: identities
            .iter()
            .map(|entry| text(entry, kernel::EID_ENTRY))
            .collect(),
        devices: devices()?,
        groups: groups.iter().map(Group::read).collect(),
        fallbacks: fallbacks.iter().filter_map(Fallback::read).collect(),
    })
}

/// The devices by name; none where the kernel has no such class.
fn devices() -> Result<Vec<SmcDevice>, Failure> {
    let Ok(class) = fs::read_dir("/sys/class/dibs") else {
        return Ok(Vec::new());
    };
    let mut devices = Vec::new();
    for entry in class {
        let entry = entry?;
        let value = |name| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        devices.push(SmcDevice {
            name: entry.file_name().to_string_lossy().into(),
            fabric: value("fabric_id").trim().into(),
            gid: value("gid").trim().into(),
        });
    }
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(devices)
}

impl Group {
    fn read(group: &Attributes) -> Self {
        let common = nest(group, kernel::LGR_V2);
        Group {
            peer: format!("{:016x}", group.number(kernel::LGR_PEER_GID).unwrap_or(0)),
            host: text(&common, kernel::LGR_V2_HOST),
            identity: text(&common, kernel::LGR_V2_EID),
            connections: group.number(kernel::LGR_CONNS).unwrap_or(0),
        }
    }
}

impl Fallback {
    /// Without a reason it is none.
    fn read(fallback: &Attributes) -> Option<Self> {
        let code = u32::try_from(fallback.number(kernel::FBACK_CODE)?).ok()?;
        Some(Fallback {
            side: match fallback.small(kernel::FBACK_TYPE) {
                Some(0) => "client",
                _ => "server",
            },
            code: format!("{code:#010x}"),
            reason: reason(code),
            connections: fallback.small(kernel::FBACK_COUNT).unwrap_or(0),
        })
    }
}

/// Show what there is, what it carries, and what went over TCP.
fn show(kernel: &mut Connection, json: bool) -> Result<(), Failure> {
    let state = read(kernel)?;
    if json {
        return print_json(&state);
    }
    match state.identities.as_slice() {
        [] => print("identity: none, so nothing goes through a window: `ntbctl smc identify`")?,
        names => print(&format!("identity: {}", names.join(", ")))?,
    }
    let mut devices = Table::new(["device", "fabric", "gid"]);
    for device in state.devices {
        devices.row([device.name, device.fabric, device.gid]);
    }
    print_table(&devices)?;
    let mut groups = Table::new(["peer", "host", "identity", "connections"]);
    for group in state.groups {
        let Group {
            peer,
            host,
            identity,
            connections,
        } = group;
        groups.row([peer, host, identity, connections.to_string()]);
    }
    print_table(&groups)?;
    let mut fallbacks = Table::new(["tcp_side", "code", "connections", "reason"]);
    for fallback in state.fallbacks {
        let connections = fallback.connections.to_string();
        fallbacks.row([
            fallback.side.into(),
            fallback.code,
            connections,
            fallback.reason,
        ]);
    }
    print_table(&fallbacks)
}

/// List the sockets that are connected or were.
fn show_connections(json: bool) -> Result<(), Failure> {
    let mut request = [0; diag::REQUEST];
    request[0] = diag::AF_SMC;
    let told = sockets(&request)?;
    let all: Vec<SmcSocket> = told
        .iter()
        .filter_map(|told| SmcSocket::read(told))
        .collect();
    if json {
        return print_json(&all);
    }
    let mut table = Table::new(["local", "peer", "state", "carrier", "why"]);
    for socket in all {
        table.row([
            socket.local,
            socket.peer,
            socket.state.into(),
            socket.carrier.into(),
            socket.why.unwrap_or("-".into()),
        ]);
    }
    print_table(&table)
}

impl SmcSocket {
    /// Read what is told of a socket; `None` if it is cut off, or the socket is not connected yet.
    fn read(told: &[u8]) -> Option<Self> {
        let (fixed, attributes) = told.split_at_checked(diag::ANSWER)?;
        let &[family, state, mode, _, ..] = fixed else {
            return None;
        };
        let state = match state {
            1 => "open",
            2 | 10 => return None,
            _ => "closing",
        };
        let carrier = match mode {
            diag::MODE_SMCR => "rdma",
            diag::MODE_TCP => "tcp",
            diag::MODE_SMCD => "window",
            _ => "?",
        };
        let fallback = Attributes::of_bytes(attributes);
        let code = fallback
            .bytes(diag::FALLBACK)
            .and_then(|it| it.first_chunk());
        let code = code.map(|code| u32::from_ne_bytes(*code));
        Some(SmcSocket {
            local: address(family, fixed, 4, 8)?,
            peer: address(family, fixed, 6, 24)?,
            state,
            carrier,
            why: code.filter(|_| mode == diag::MODE_TCP).map(reason),
        })
    }
}

/// The address whose port and bytes are there in an answer. Kernels tell that of a socket of the
/// family of SMC, and not yet that of one of its protocol.
fn address(family: u8, told: &[u8], port: usize, at: usize) -> Option<String> {
    let port = u16::from_be_bytes(*told.get(port..)?.first_chunk()?);
    let bytes = told.get(at..)?;
    let ip: IpAddr = match family {
        diag::AF_INET6 => Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(),
        _ => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
    };
    Some(match ip.is_unspecified() {
        true => format!("*:{port}"),
        false => SocketAddr::new(ip, port).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel told of a socket, with that mode and state.
    fn told(state: u8, mode: u8) -> Vec<u8> {
        let mut bytes = vec![2, state, mode, 0];
        bytes.extend([0x13, 0x8e, 0xc0, 0x01]);
        bytes.extend([10, 77, 0, 1]);
        bytes.extend([0; 12]);
        bytes.extend([10, 77, 0, 2]);
        bytes.resize(diag::ANSWER, 0);
        let fallback = [0x0303_0008u32.to_ne_bytes(), [0; 4]].concat();
        bytes.extend([12, 0, 5, 0]);
        bytes.extend(fallback);
        bytes
    }

    #[test]
    fn a_socket_is_read_with_its_addresses_and_its_carrier() {
        let socket = SmcSocket::read(&told(1, diag::MODE_SMCD)).expect("a socket");
        assert_eq!(socket.local, "10.77.0.1:5006");
        assert_eq!(socket.peer, "10.77.0.2:49153");
        assert_eq!((socket.state, socket.carrier), ("open", "window"));
        assert_eq!(socket.why, None);
    }

    #[test]
    fn an_address_that_is_not_told_is_a_star() {
        let mut told = told(1, diag::MODE_SMCD);
        told[8..12].fill(0);
        let socket = SmcSocket::read(&told).expect("a socket");
        assert_eq!(socket.local, "*:5006");
    }

    #[test]
    fn one_over_tcp_says_why() {
        let socket = SmcSocket::read(&told(22, diag::MODE_TCP)).expect("a socket");
        assert_eq!((socket.state, socket.carrier), ("closing", "tcp"));
        let why = socket.why.expect("a reason");
        assert!(why.starts_with("no identity in common"), "{why}");
        assert_eq!(reason(0x0909_0909), "0x09090909");
    }

    #[test]
    fn what_listens_or_is_cut_off_is_no_connection() {
        assert_eq!(SmcSocket::read(&told(10, 0)), None);
        assert_eq!(SmcSocket::read(&told(2, 0)), None);
        assert_eq!(SmcSocket::read(&told(1, 2)[..diag::ANSWER - 1]), None);
    }

    #[test]
    fn an_identity_has_spaces_behind_its_name() {
        let bytes = entry("MPFAB");
        let name = bytes.text(kernel::EID_ENTRY).expect("a name");
        assert_eq!(name.len(), IDENTITY);
        assert_eq!(text(&bytes, kernel::EID_ENTRY), "MPFAB");
    }
}
