// SPDX-License-Identifier: MIT OR Apache-2.0

//! One of the two systems: its interface, the way to a partner, and what a pair can do.

use crate::{Common, Role};
use mp_fabric::Device;
use pximc::{
    Connection, Deadline, Error, Interface, Library, Location, Map, Session, SessionEvent, Sizes,
    Window,
};
use std::{
    error,
    sync::{atomic::Ordering, Arc},
    thread::sleep,
    time::{Duration, Instant},
};
use vm_memory::{Bytes, VolatileSlice};

pub type Failure = Box<dyn error::Error + Send + Sync>;
pub type Outcome<T> = Result<T, Failure>;

/// The server's window data in S-1 to S-3.
const SERVER: &[u8] = b"System 1 Server Process";
/// What a side writes to the other one's window: the two sizes as it has them, a flag, a pattern.
const FLAG: usize = 23;
const PATTERN: usize = 24;
/// Between looks at something of which nobody tells.
const NAP: Duration = Duration::from_millis(1);
/// Another thread may have taken the news.
const NEWS: Duration = Duration::from_millis(100);

/// Fail unless it is so.
pub fn ensure(condition: bool, what: &str) -> Outcome<()> {
    match condition {
        true => Ok(()),
        false => Err(what.into()),
    }
}

/// All bytes of a window are the ones that `expected` has for their places.
pub fn verify(
    window: &VolatileSlice<'_>,
    start: usize,
    expected: impl Fn(usize) -> u8,
) -> Outcome<()> {
    for place in start..window.len() {
        let found: u8 = window.load(place, Ordering::Acquire)?;
        ensure(found == expected(place), "what was written arrives there")?;
    }
    println!("    all {} bytes have arrived", window.len());
    Ok(())
}

/// Fill a window from a place on.
pub fn fill(window: &VolatileSlice<'_>, start: usize, bytes: impl Fn(usize) -> u8) -> Outcome<()> {
    for place in start..window.len() {
        window.store(bytes(place), place, Ordering::Release)?;
    }
    Ok(())
}

/// What a system writes to a place.
fn pattern(role: Role, place: usize) -> u8 {
    let salt = if role == Role::S1 { 101 } else { 13 };
    (place * 7 + place / 251 + salt) as u8
}

/// One of the two systems.
pub struct System<'a, D> {
    interface: Interface<D>,
    pub options: &'a Common,
    pub role: Role,
}

impl<'a, D: Device> System<'a, D> {
    /// Find the interface, once it is up.
    pub fn find(library: &Library<D>, options: &'a Common) -> Outcome<Self> {
        let end = Instant::now() + Duration::from_secs(options.patience);
        let is_wanted = |interface: &Interface<D>| {
            options.interface.is_none_or(|id| id == interface.id())
                && interface.information().is_ok_and(|i| i.interface.up)
        };
        loop {
            if let Some(interface) = library.interfaces().into_iter().find(is_wanted) {
                println!("{:?}: interface {} is up", options.role, interface.id());
                let role = options.role;
                return Ok(System {
                    interface,
                    options,
                    role,
                });
            }
            ensure(Instant::now() < end, "no interface is up")?;
            sleep(NAP);
        }
    }

    /// The same system in the other role.
    pub fn reversed(&self, library: &Library<D>) -> Outcome<Self> {
        Ok(System {
            interface: library.interface(self.interface.id())?,
            options: self.options,
            role: self.role.other(),
        })
    }

    /// When a partner that has to come is late.
    pub fn deadline(&self) -> Deadline {
        Deadline::after(Duration::from_secs(self.options.patience))
    }

    pub fn interface(&self) -> &Interface<D> {
        &self.interface
    }

    /// Sizes of a window of each kind that there is to be, as the options say.
    pub fn sizes(&self, local: bool, remote: bool) -> Sizes {
        let (max, min) = (self.options.max, self.options.min);
        let of = |wanted| if wanted { (max, min) } else { (0, 0) };
        let ((max_local, min_local), (max_remote, min_remote)) = (of(local), of(remote));
        Sizes {
            max_local,
            min_local,
            max_remote,
            min_remote,
        }
    }

    /// The other system's window with these data that waits for a partner, once there is one.
    pub fn window(&self, data: &[u8]) -> Outcome<Window> {
        let deadline = self.deadline();
        while deadline.remaining().is_some_and(|left| !left.is_zero()) {
            for uid in self.interface.windows()? {
                match self.interface.window(uid) {
                    Ok(window) if !window.paired && window.data == data => {
                        let name = String::from_utf8_lossy(data);
                        println!("  window {uid} has \"{name}\"");
                        return Ok(window);
                    }
                    Ok(_) | Err(Error::InvalidWindow) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            match self.interface.wait_for_event(Deadline::after(NEWS)) {
                Ok(_) | Err(Error::Timeout) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err("the other system has not posted its window".into())
    }

    /// A pair of the session, once it has a partner.
    pub fn connect(&self, session: Session<D>, deadline: Deadline) -> Outcome<Pair<D>> {
        let connection = session.wait_for_connection(deadline)?;
        println!(
            "  session {}: {} bytes remote, {} bytes local",
            session.number(),
            connection.remote_size,
            connection.local_size
        );
        Ok(Pair {
            session,
            connection,
            role: self.role,
            patience: Duration::from_secs(self.options.patience),
        })
    }

    /// S1 serves a window of each kind, S0 pairs with it.
    pub fn pair(&self) -> Outcome<Pair<D>> {
        let Common { protocol, uid, .. } = *self.options;
        let sizes = self.sizes(true, true);
        let pair = match self.role {
            Role::S1 => {
                let session = self
                    .interface
                    .request_logical_as_server(protocol, sizes, uid, SERVER)?;
                self.connect(session, self.deadline())?
            }
            Role::S0 => {
                let window = self.window(SERVER)?;
                let as_expected = window.uid == uid
                    && window.role == mp_fabric::Role::Server
                    && window.location == Location::Logical;
                ensure(as_expected, "the window is as it was posted")?;
                let session = self
                    .interface
                    .request_logical_as_client(protocol, sizes, window.uid)?;
                self.connect(session, Deadline::PAST)?
            }
        };
        self.check_size(pair.remote()?.len(), "the remote window")?;
        self.check_size(pair.local()?.len(), "the local window")?;
        Ok(pair)
    }

    /// A size is within the limits.
    pub fn check_size(&self, size: usize, what: &str) -> Outcome<()> {
        let limits = self.options.min..=self.options.max;
        ensure(
            limits.contains(&(size as u64)),
            &format!("the size of {what}"),
        )
    }
}

/// A session with a partner.
pub struct Pair<D: Device> {
    pub session: Session<D>,
    pub connection: Connection,
    role: Role,
    patience: Duration,
}

fn window(map: &Option<Arc<Map>>) -> Outcome<VolatileSlice<'_>> {
    Ok(map.as_ref().ok_or("there is no such window")?.volatile())
}

impl<D: Device> Pair<D> {
    pub fn remote(&self) -> Outcome<VolatileSlice<'_>> {
        window(&self.connection.remote)
    }

    pub fn local(&self) -> Outcome<VolatileSlice<'_>> {
        window(&self.connection.local)
    }

    /// Each side sees what the other one has written to all bytes.
    pub fn exchange(&self) -> Outcome<()> {
        match self.role {
            Role::S0 => {
                self.write_all()?;
                self.verify_all()
            }
            Role::S1 => {
                self.verify_all()?;
                self.write_all()
            }
        }
    }

    fn write_all(&self) -> Outcome<()> {
        let remote = self.remote()?;
        remote.write_obj(self.connection.remote_size, 0)?;
        remote.write_obj(self.connection.local_size, 8)?;
        fill(&remote, PATTERN, |place| pattern(self.role, place))?;
        Ok(self.session.assert_event()?)
    }

    fn verify_all(&self) -> Outcome<()> {
        self.event(SessionEvent::Asserted)?;
        let local = self.local()?;
        let sizes: [u64; 2] = [local.read_obj(0)?, local.read_obj(8)?];
        let swapped = [self.connection.local_size, self.connection.remote_size];
        ensure(sizes == swapped, "what is local here is remote there")?;
        verify(&local, PATTERN, |place| pattern(self.role.other(), place))
    }

    /// Wait for an event, which is to be this one.
    pub fn event(&self, expected: SessionEvent) -> Outcome<()> {
        let found = self
            .session
            .wait_for_event(Deadline::after(self.patience))?;
        println!("  event {found:?}");
        ensure(found == expected, "it is the expected event")
    }

    /// Tell the other side how far this one is, without an event.
    pub fn flag(&self, value: u8) -> Outcome<()> {
        Ok(self.remote()?.store(value, FLAG, Ordering::Release)?)
    }

    pub fn wait_for_flag(&self, value: u8) -> Outcome<()> {
        let (local, end) = (self.local()?, Instant::now() + self.patience);
        while local.load::<u8>(FLAG, Ordering::Acquire)? != value {
            ensure(Instant::now() < end, "the other system gets on")?;
            sleep(NAP);
        }
        Ok(())
    }

    /// S0 closes; S1 is told and closes as well.
    pub fn close(self) -> Outcome<()> {
        if self.role == Role::S1 {
            self.event(SessionEvent::ConnectionClosed)?;
        }
        Ok(self.session.close()?)
    }
}
