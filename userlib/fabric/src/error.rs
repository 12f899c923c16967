// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the kernel's errors mean here. Every call documents which of them it returns and when.
//!
//! Calls that look something up or make something name it in their errors; the object of a method
//! is known to its caller.

use crate::{device, Goal, InterfaceId, Key, Name};
use rustix::io::Errno;
use std::{fmt, io};
use tracing::debug;

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// What a call was for, as its error names it. Nothing but numbers, so that errors are copied and
/// cost no memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// The object whose method was called, which the caller knows.
    #[default]
    Unnamed,
    /// Any interface of this host that leads to another one.
    AnyInterface,
    /// An interface of this host.
    Interface(InterfaceId),
    /// A window of the peer at an interface.
    Window {
        /// The interface.
        interface: InterfaceId,
        /// The window's unique identifier.
        uid: u32,
    },
    /// A session to be opened.
    Session {
        /// The interface.
        interface: InterfaceId,
        /// The number of its protocol.
        protocol: u32,
        /// Its unique identifier, or the wanted one; 0 is any.
        uid: u32,
    },
    /// A segment to be made.
    NewSegment {
        /// The first id that it may have; a private one has none.
        id: Option<u32>,
        /// Its name, if it has one.
        name: Option<Name>,
        /// Its bytes.
        len: u64,
    },
    /// A segment of this host.
    Segment(u32),
    /// A segment of this host, at an interface.
    SegmentAt {
        /// The segment's id.
        id: u32,
        /// The interface.
        interface: InterfaceId,
    },
    /// An event to be offered, with its number or name unless any will do.
    Event(InterfaceId, Option<Key>),
    /// A port to be offered, with its number or name unless any will do.
    Port(InterfaceId, Option<Key>),
    /// Something of the peer at an interface.
    Goal(InterfaceId, Goal),
    /// A queue to be made.
    Queue {
        /// The interface.
        interface: InterfaceId,
        /// The copies that it has room for.
        entries: u32,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Unnamed => f.write_str("the object"),
            Subject::AnyInterface => f.write_str("any interface to another host that is up"),
            Subject::Interface(id) => write!(f, "interface {id}"),
            Subject::Window { interface, uid } => {
                write!(f, "window {uid:#x} of the peer at interface {interface}")
            }
            Subject::Session {
                interface,
                protocol,
                uid,
            } => {
                f.write_str("session ")?;
                if *uid != 0 {
                    write!(f, "{uid:#x} ")?;
                }
                write!(f, "of protocol {protocol:#x} at interface {interface}")
            }
            Subject::NewSegment { id, name, len } => match (name, id) {
                (Some(name), _) => write!(f, "segment {name} of {len} bytes"),
                (None, Some(id)) => write!(f, "segment {id} of {len} bytes"),
                (None, None) => write!(f, "private segment of {len} bytes"),
            },
            Subject::Segment(id) => write!(f, "segment {id}"),
            Subject::SegmentAt { id, interface } => {
                write!(f, "segment {id} at interface {interface}")
            }
            Subject::Event(interface, key) => offered(f, "event", *interface, *key),
            Subject::Port(interface, key) => offered(f, "port", *interface, *key),
            Subject::Goal(interface, goal) => {
                write!(f, "{goal} of the peer at interface {interface}")
            }
            Subject::Queue { interface, entries } => {
                write!(f, "queue for {entries} copies at interface {interface}")
            }
        }
    }
}

fn offered(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    interface: InterfaceId,
    key: Option<Key>,
) -> fmt::Result {
    f.write_str(kind)?;
    if let Some(key) = key {
        write!(f, " {key}")?;
    }
    write!(f, " at interface {interface}")
}

/// The start of an error's text: the subject, if it has a name.
struct About<'a>(&'a Subject);

impl fmt::Display for About<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Subject::Unnamed => Ok(()),
            subject => write!(f, "{subject}: "),
        }
    }
}

/// A limit that a call has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    /// One that the call does not tell.
    #[default]
    #[error(
        "a limit of the user or of the control group is reached: close objects, or raise the limits \
        of the module mp_func_user, or `dmem.max` of the group"
    )]
    Unnamed,
    /// On sessions.
    #[error(
        "too many sessions, or too much memory of the user or of the control group: a context may have \
        {context}, and all of a user's {user}; close some, or raise `user_memory`, `sessions` or \
        `user_sessions` of the module mp_func_user, or `dmem.max` of the group"
    )]
    Sessions {
        /// Most of a context.
        context: u32,
        /// Most of all contexts of a user.
        user: u32,
    },
    /// On other objects.
    #[error(
        "{}too many objects of the context or the user, or too much memory of the user or of the \
        control group; close some, or raise the limits of the module mp_func_user, or `dmem.max` of \
        the group", About(.0)
    )]
    Objects(Subject),
    /// `RLIMIT_MEMLOCK`, on pinned memory.
    #[error(
        "{len} bytes cannot be pinned: the user may pin {} bytes (RLIMIT_MEMLOCK); raise that by \
        `ulimit -l`", Most(.most)
    )]
    Pinned {
        /// The bytes to pin.
        len: u64,
        /// The most of the user; none if that is not known.
        most: Option<u64>,
    },
}

impl Limit {
    /// Tell the limit on pinned memory, which `len` bytes do not keep.
    pub(crate) fn pinned(len: u64) -> Self {
        let most = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        Limit::Pinned { len, most }
    }
}

/// A limit in bytes as a text has it.
struct Most<'a>(&'a Option<u64>);

impl fmt::Display for Most<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => bytes.fmt(f),
            None => f.write_str("no more"),
        }
    }
}

/// Why a call has failed, and what it was for. Each call says in its documentation what the error
/// is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device's file is not there, or nobody serves it.
    #[error(
        "there is no fabric on this host: load the module mp_func_user, as by `modprobe \
        mp_func_user`, which makes {}",
        device::path()
    )]
    NotLoaded,
    /// The user may not open the device's file.
    #[error(
        "no permission to use the fabric: it takes membership of the group mp, which the rule \
        70-mp-fabric.rules of udev gives {} to; `usermod -a -G mp USER` makes a member",
        device::path()
    )]
    NoPermission,
    /// There is no such interface, or it has been removed (`ENODEV`).
    #[error("{}there is no such interface: `ntbctl links` lists the bridges of this host", About(.0))]
    NoInterface(Subject),
    /// The other host cannot be reached (`ENETDOWN`).
    #[error(
        "{}the interface is down, so the other host is not reached: `ntbctl peers` lists those \
        that are", About(.0)
    )]
    InterfaceDown(Subject),
    /// The object is closed, or the peer has nothing of that id or number (`ENOENT`).
    #[error(
        "{}there is nothing of that id, or it is closed or not published: see that its owner runs",
        About(.0)
    )]
    NotFound(Subject),
    /// An argument makes no sense (`EINVAL`).
    #[error("{}invalid argument: the documentation of the call lists what it takes", About(.0))]
    Invalid(Subject),
    /// The space asked for cannot be had, or is not reached by the peer (`ENOSPC`).
    #[error(
        "{}not enough memory in the windows of the interface: ask for less, or give the bridge \
        larger windows", About(.0)
    )]
    NoSpace(Subject),
    /// The user has too many objects, or too much memory pinned (`EDQUOT`).
    #[error("{0}")]
    Quota(Limit),
    /// The kernel, or this process, is out of memory (`ENOMEM`).
    #[error(
        "out of memory: end other programs, or raise the limits of the process and its cgroup"
    )]
    NoMemory,
    /// The id, number or name is in use on this host (`EADDRINUSE`).
    #[error("{}the id, number or name is in use on this host: choose another one", About(.0))]
    UidTaken(Subject),
    /// No partner fits, or it takes no more connections (`ECONNREFUSED`).
    #[error(
        "{}nobody at the other host takes the connection: start the other side first, with the \
        same protocol, identifier and name", About(.0)
    )]
    NoPartner(Subject),
    /// The session has not been paired yet (`ENOTCONN`).
    #[error("the session has no partner yet: wait for its connection first")]
    NotPaired,
    /// The other end has closed for good (`ECONNRESET`).
    #[error("the other end is gone for good: close this one, and connect anew")]
    PartnerGone,
    /// There is no such window, or the segment is not prepared or published there (`ENXIO`).
    #[error(
        "{}there is no such window, or the memory is not prepared there: prepare the segment for \
        the interface first", About(.0)
    )]
    NoWindow(Subject),
    /// That is for its owner, or takes a privilege (`EPERM`).
    #[error(
        "{}not permitted: run as its owner, or, for physical addresses, with \
        CAP_SYS_RAWIO on a kernel that is not locked down", About(.0)
    )]
    NotPermitted(Subject),
    /// The hardware or the platform cannot do it (`EOPNOTSUPP`).
    #[error(
        "{}the hardware, the platform or the peer's release cannot do it: the documentation of \
        the call tells what it takes, and `ntbctl links` the wire version with the peer", About(.0)
    )]
    NotSupported(Subject),
    /// Nothing has happened in time (`ETIMEDOUT`).
    #[error("timed out: see that the other side runs, or wait for longer")]
    TimedOut,
    /// The context belongs to another process (`EACCES`).
    #[error("the context belongs to another process: open one after fork()")]
    Foreign,
    /// The context has ended: the process has closed a descriptor of it (`ESHUTDOWN`).
    #[error("the context has ended, as a descriptor of it was closed: open another one")]
    Ended,
    /// Whoever has released the object has ended the wait (`ECANCELED`).
    #[error("the wait was cancelled, as the object was closed meanwhile: open another one")]
    Cancelled,
    /// A signal has ended the wait (`EINTR`).
    #[error("a signal has ended the wait: make the call again")]
    Interrupted,
    /// All has ended, but the other host has not confirmed that nothing is stored any more
    /// (`EINPROGRESS`).
    #[error(
        "ended, but the other host has not confirmed that it stores nothing any more: wait for \
        its link to end before the memory is used for anything else"
    )]
    Unproven,
    /// A message is longer than the room for it (`EMSGSIZE`).
    #[error("there is no room for a message of {len} bytes: receive with as much room")]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// Any other error of the system.
    #[error("{0}")]
    System(Errno),
}

impl Error {
    /// Make errors of what the kernel returns for a call on `subject`.
    pub(crate) fn of(subject: Subject) -> impl Fn(Errno) -> Self {
        move |errno| match subject {
            Subject::Unnamed => Self::about(subject, errno),
            _ => Self::about(subject, errno).logged(),
        }
    }

    /// Log the error: callers of the libraries in C have no other way to its text.
    pub(crate) fn logged(self) -> Self {
        debug!("{self}");
        self
    }

    fn about(subject: Subject, errno: Errno) -> Self {
        match errno {
            Errno::NODEV => Error::NoInterface(subject),
            Errno::NETDOWN => Error::InterfaceDown(subject),
            Errno::NOENT => Error::NotFound(subject),
            Errno::INVAL => Error::Invalid(subject),
            Errno::NOSPC => Error::NoSpace(subject),
            Errno::DQUOT => Error::Quota(match subject {
                Subject::Unnamed => Limit::Unnamed,
                named => Limit::Objects(named),
            }),
            Errno::NOMEM => Error::NoMemory,
            Errno::ADDRINUSE => Error::UidTaken(subject),
            Errno::CONNREFUSED => Error::NoPartner(subject),
            Errno::NOTCONN => Error::NotPaired,
            Errno::CONNRESET => Error::PartnerGone,
            Errno::NXIO => Error::NoWindow(subject),
            Errno::PERM => Error::NotPermitted(subject),
            Errno::OPNOTSUPP => Error::NotSupported(subject),
            Errno::TIMEDOUT => Error::TimedOut,
            Errno::ACCESS => Error::Foreign,
            Errno::SHUTDOWN => Error::Ended,
            Errno::CANCELED => Error::Cancelled,
            Errno::INTR => Error::Interrupted,
            Errno::INPROGRESS => Error::Unproven,
            other => Error::System(other),
        }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::of(Subject::Unnamed)(errno)
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::NotLoaded | Error::NoInterface(_) => Errno::NODEV,
            Error::InterfaceDown(_) => Errno::NETDOWN,
            Error::NotFound(_) => Errno::NOENT,
            Error::Invalid(_) => Errno::INVAL,
            Error::NoSpace(_) => Errno::NOSPC,
            Error::Quota(_) => Errno::DQUOT,
            Error::NoMemory => Errno::NOMEM,
            Error::UidTaken(_) => Errno::ADDRINUSE,
            Error::NoPartner(_) => Errno::CONNREFUSED,
            Error::NotPaired => Errno::NOTCONN,
            Error::PartnerGone => Errno::CONNRESET,
            Error::NoWindow(_) => Errno::NXIO,
            Error::NotPermitted(_) => Errno::PERM,
            Error::NotSupported(_) => Errno::OPNOTSUPP,
            Error::TimedOut => Errno::TIMEDOUT,
            Error::NoPermission | Error::Foreign => Errno::ACCESS,
            Error::Ended => Errno::SHUTDOWN,
            Error::Cancelled => Errno::CANCELED,
            Error::Interrupted => Errno::INTR,
            Error::Unproven => Errno::INPROGRESS,
            Error::TooLong { .. } => Errno::MSGSIZE,
            Error::System(errno) => errno,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Errno::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_keeps_its_number() {
        for number in 1..134 {
            let errno = Errno::from_raw_os_error(number);
            assert_eq!(Errno::from(Error::from(errno)), errno);
        }
    }

    /// What was looked for stands first, and what to do last.
    #[test]
    fn texts_say_what_was_looked_for_and_what_to_do() {
        let interface = InterfaceId(5);
        let session = Subject::Session {
            interface,
            protocol: 0xF000_0001,
            uid: 0x17,
        };
        let any = Subject::Session {
            interface,
            protocol: 2,
            uid: 0,
        };
        let segment = Subject::NewSegment {
            id: Some(7),
            name: None,
            len: 4096,
        };
        let sessions = Limit::Sessions {
            context: 16,
            user: 64,
        };
        let pinned = Limit::Pinned {
            len: 8192,
            most: Some(4096),
        };
        let goal = Subject::Goal(interface, Goal::Segment(9.into()));
        let of = |subject, errno| Error::of(subject)(errno);
        let table: &[(Error, &str, &str)] = &[
            (Error::NotLoaded, "no fabric", "`modprobe mp_func_user`"),
            (Error::NotLoaded, "/dev/mp_fabric", "load the module"),
            (Error::NoPermission, "group mp,", "usermod -a -G mp USER"),
            (Error::NoPermission, "/dev/mp_fabric", "70-mp-fabric.rules"),
            (
                of(Subject::Interface(interface), Errno::NODEV),
                "interface 5: ",
                "`ntbctl links`",
            ),
            (
                of(session, Errno::NETDOWN),
                "session 0x17 of protocol 0xf0000001 at interface 5: ",
                "`ntbctl peers`",
            ),
            (
                of(any, Errno::CONNREFUSED),
                "session of protocol 0x2 at interface 5: ",
                "start the other side",
            ),
            (
                of(goal, Errno::NOENT),
                "segment 9 of the peer at interface 5: ",
                "see that its owner runs",
            ),
            (
                of(segment, Errno::ADDRINUSE),
                "segment 7 of 4096 bytes: ",
                "choose another one",
            ),
            (of(segment, Errno::NOSPC), "4096 bytes: ", "ask for less"),
            (
                of(segment, Errno::DQUOT),
                "segment 7 of 4096 bytes: ",
                "`dmem.max` of the group",
            ),
            (
                Error::Quota(sessions),
                "a context may have 16, and all of a user's 64",
                "`user_sessions` of the module mp_func_user",
            ),
            (
                Error::Quota(pinned),
                "8192 bytes cannot be pinned: the user may pin 4096 bytes (RLIMIT_MEMLOCK)",
                "`ulimit -l`",
            ),
            (
                of(Subject::Port(interface, Some(3.into())), Errno::ADDRINUSE),
                "port 3 at interface 5: ",
                "choose another one",
            ),
            (
                of(
                    Subject::Queue {
                        interface,
                        entries: 300,
                    },
                    Errno::INVAL,
                ),
                "queue for 300 copies at interface 5: ",
                "the documentation of the call",
            ),
        ];
        for (error, looked_for, to_do) in table {
            let text = error.to_string();
            assert!(text.contains(looked_for), "{text}: {looked_for}");
            assert!(text.contains(to_do), "{text}: {to_do}");
        }
    }

    /// What to do stands behind a colon or a semicolon, also in what says no more.
    #[test]
    fn every_text_says_what_to_do() {
        let by_number = (1..134).map(|number| Error::from(Errno::from_raw_os_error(number)));
        let others = [
            Error::NotLoaded,
            Error::NoPermission,
            Error::TooLong { len: 5 },
        ];
        // Of errors that no call documents nothing is known but their number.
        let is_known = |error: &Error| !matches!(error, Error::System(_));
        let known = by_number.chain(others).filter(is_known);
        known.for_each(mp_testing::assert_advises);
        let sessions = Limit::Sessions {
            context: 1,
            user: 2,
        };
        let objects = Limit::Objects(Subject::Unnamed);
        [sessions, objects, Limit::pinned(4096)]
            .iter()
            .for_each(mp_testing::assert_advises);
    }

    /// The text of what has no name does not begin with one.
    #[test]
    fn the_object_of_a_method_is_not_named() {
        let text = Error::from(Errno::NODEV).to_string();
        assert!(text.starts_with("there is no such interface"), "{text}");
    }
}
