// SPDX-License-Identifier: GPL-2.0-only
//! Ports, their sockets and their event descriptors.
//!
//! One thread, one `poll(2)`. Whatever a client does, the worst that happens is
//! that its own connection closes.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};

use crate::board::{Board, Geometry, MAX_PORTS};
use crate::wire;

/// What happened, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A guest connected as this port.
    Connected(usize),
    /// This port's guest has gone.
    Lost(usize),
    /// A second guest asked for a port that has one, or the handshake failed.
    Refused(usize),
    /// This port's cable was taken out.
    Unplugged(usize),
    /// This port's cable was put in.
    Plugged(usize),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Connected(port) => write!(f, "port {port} connected"),
            Event::Lost(port) => write!(f, "port {port} lost"),
            Event::Refused(port) => write!(f, "port {port} refused a connection"),
            Event::Unplugged(port) => write!(f, "port {port} unplugged"),
            Event::Plugged(port) => write!(f, "port {port} plugged"),
        }
    }
}

#[derive(Debug)]
struct Port {
    listener: UnixListener,
    client: Option<UnixStream>,
    /// One per vector: signalled by whoever rings this port.
    doorbells: Vec<OwnedFd>,
}

impl Port {
    fn new(path: &Path, vectors: u32) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let doorbells = (0..vectors)
            .map(|_| eventfd(0, flags))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            listener,
            client: None,
            doorbells,
        })
    }

    /// Whether the client has gone. Bytes from it have no meaning and are read
    /// only to be thrown away.
    fn has_hung_up(&mut self) -> bool {
        let Some(client) = self.client.as_mut() else {
            return false;
        };
        let mut scrap = [0; 512];
        match client.read(&mut scrap) {
            Ok(0) => true,
            Ok(_) => false,
            Err(e) => !matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }

    fn ring(&self) {
        self.ring_at(0);
    }

    fn ring_at(&self, vector: usize) {
        if let (Some(_), Some(doorbell)) = (&self.client, self.doorbells.get(vector)) {
            // A full counter already means "ring": nothing is lost.
            let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        }
    }

    /// Forget rings meant for a guest that is no longer there.
    fn silence(&self) {
        let mut count = [0; 8];
        for doorbell in &self.doorbells {
            let _ = rustix::io::read(doorbell, &mut count);
        }
    }
}

/// The server: all ports and the memory they share.
#[derive(Debug)]
pub struct Server {
    board: Board,
    ports: Vec<Port>,
    control: UnixDatagram,
}

impl Server {
    /// Path of a port's socket in the directory of the rig's run.
    pub fn socket_path(dir: &Path, port: usize) -> PathBuf {
        dir.join(format!("port{port}.sock"))
    }

    /// Path of the socket that takes orders, one in a datagram: `plug N` and
    /// `unplug N`; for peers that lie `ring N VECTOR`, which raises an interrupt of a
    /// port, and `store OFFSET WORD`, which writes 32 bits into the registers of the
    /// ports. Numbers are decimal.
    pub fn control_path(dir: &Path) -> PathBuf {
        dir.join("control.sock")
    }

    /// Create the shared memory, all event descriptors, the control socket and
    /// one listening socket per port in `dir`.
    ///
    /// # Errors
    /// `InvalidInput` for a number of ports or vectors out of range, else what
    /// the system reports.
    pub fn new(dir: &Path, geometry: Geometry) -> io::Result<Self> {
        if !(2..=MAX_PORTS).contains(&geometry.ports) || !(1..=64).contains(&geometry.vectors) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("need 2 to {MAX_PORTS} ports and 1 to 64 vectors"),
            ));
        }
        let board = Board::new(geometry)?;
        let ports = (0..geometry.ports as usize)
            .map(|port| Port::new(&Self::socket_path(dir, port), geometry.vectors))
            .collect::<io::Result<_>>()?;
        let control = UnixDatagram::bind(Self::control_path(dir))?;
        control.set_nonblocking(true)?;
        Ok(Self {
            board,
            ports,
            control,
        })
    }

    /// Wait for something to happen, at most `timeout` (for ever if `None`),
    /// and deal with it.
    ///
    /// # Errors
    /// Only what `poll(2)` and writing to the shared memory report.
    pub fn step(&mut self, timeout: Option<&Timespec>) -> io::Result<Vec<Event>> {
        self.wait(timeout)?;
        let mut events = Vec::new();
        // Hang-ups first: a guest that restarts quickly finds its port free.
        for port in 0..self.ports.len() {
            if self.ports[port].has_hung_up() {
                self.lose(port)?;
                events.push(Event::Lost(port));
            }
        }
        for port in 0..self.ports.len() {
            if let Ok((client, _)) = self.ports[port].listener.accept() {
                events.push(self.admit(port, client)?);
            }
        }
        while let Some(order) = self.next_order() {
            events.extend(self.obey(&order)?);
        }
        Ok(events)
    }

    fn next_order(&self) -> Option<String> {
        let mut bytes = [0; 32];
        let len = self.control.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..len]).into_owned())
    }

    /// Carry out an order; what is none is ignored.
    fn obey(&mut self, order: &str) -> io::Result<Option<Event>> {
        let words: Vec<_> = order.split_whitespace().collect();
        if let [what @ ("ring" | "store"), place, value] = words[..] {
            if let (Ok(place), Ok(value)) = (place.parse(), value.parse()) {
                self.lie(what, place, value)?;
            }
            return Ok(None);
        }
        let (plugged, port) = match order.trim().split_once(' ') {
            Some(("plug", port)) => (true, port),
            Some(("unplug", port)) => (false, port),
            _ => return Ok(None),
        };
        let Some(port) = port.parse().ok().filter(|port| *port < self.ports.len()) else {
            return Ok(None);
        };
        self.board.set_plugged(port, plugged)?;
        for any in &self.ports {
            any.ring();
        }
        Ok(Some(match plugged {
            true => Event::Plugged(port),
            false => Event::Unplugged(port),
        }))
    }

    /// Do what a peer could do as well.
    fn lie(&self, what: &str, place: usize, value: u32) -> io::Result<()> {
        match (what, self.ports.get(place)) {
            ("ring", Some(port)) => port.ring_at(value as usize),
            ("store", _) => self.board.store(place as u64, value)?,
            _ => {}
        }
        Ok(())
    }

    fn wait(&self, timeout: Option<&Timespec>) -> io::Result<()> {
        let mut fds = Vec::with_capacity(1 + 2 * self.ports.len());
        fds.push(PollFd::new(&self.control, PollFlags::IN));
        for port in &self.ports {
            fds.push(PollFd::new(&port.listener, PollFlags::IN));
            if let Some(client) = &port.client {
                fds.push(PollFd::new(client, PollFlags::IN));
            }
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn lose(&mut self, port: usize) -> io::Result<()> {
        self.ports[port].client = None;
        self.ports[port].silence();
        self.board.release(port)?;
        for other in &self.ports {
            other.ring();
        }
        Ok(())
    }

    fn admit(&mut self, port: usize, client: UnixStream) -> io::Result<Event> {
        if self.ports[port].client.is_some() {
            return Ok(Event::Refused(port));
        }
        self.board.write_header()?;
        Ok(match self.greet(port, &client) {
            Ok(()) => {
                self.ports[port].client = Some(client);
                Event::Connected(port)
            }
            Err(_) => Event::Refused(port),
        })
    }

    /// The whole handshake: version, own id, memory, then every port's event
    /// descriptors, the client's own last.
    fn greet(&self, own: usize, client: &UnixStream) -> io::Result<()> {
        client.set_nonblocking(true)?;
        wire::send(client, wire::PROTOCOL_VERSION, None)?;
        wire::send(client, own as i64, None)?;
        wire::send(client, wire::SHARED_MEMORY, Some(self.board.as_fd()))?;
        let others = (0..self.ports.len()).filter(|&port| port != own);
        for port in others.chain([own]) {
            for doorbell in &self.ports[port].doorbells {
                wire::send(client, port as i64, Some(doorbell.as_fd()))?;
            }
        }
        Ok(())
    }
}
