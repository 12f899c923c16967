// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the two ends of a connection tell each other, as messages of a queue pair: the messages of
//! `mp_proto::work`, by their kinds.
//!
//! The two ends may agree on checks of what crosses, which `check` adds behind each payload.
//!
//! A connection ends with a [`Reason`], as the end of the queue pair. An end that says none that is
//! known is an error of the transport.
//!
//! Connections that share a queue pair, a *trunk*, have lanes in it: each side has numbered its own.
//! In front of the header is the receiver's number of the lane (4). Two kinds more are of a lane
//! itself:
//!
//! | kind | name | header behind the lane | sent |
//! |---|---|---|---|
//! | 11 | ready | sender's number of the lane (4) | once by each side, as the first message: the other one may send |
//! | 12 | end | sender's number of the lane (4), reason (4) or 0, messages that have taken effect (8) | as the last message |
//!
//! What is told of a lane is ignored if its two numbers are not those of one connection.
//!
//! A trunk has messages of all its lanes in the order in which they were sent. The end of a trunk
//! is the end of all its lanes.

pub(crate) use mp_proto::work::{
    header, header_of, word, End, Fault, Header, Kind, Reason, Wire, HEADER_MAX,
};

use mp_queue_pair::Piece;

/// A message that has arrived. The payload lies where the partner can still change it.
pub(crate) type Frame<'a> = mp_proto::work::Frame<Piece<'a>>;
