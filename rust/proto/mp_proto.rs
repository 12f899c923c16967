// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! The protocol of the fabric, without I/O.
//!
//! Everything here is arithmetic over values that the caller brings in: no clock, no thread, no
//! allocation, no kernel type and no `unsafe`. The kernel modules, the host tests, the model
//! checker and the simulator compile this same source. Shared memory is reached through the two
//! traits of [`memory`], time is a `u64` of nanoseconds handed in as `now`, and randomness is the
//! trait [`link::Rng`].
//!
//! Nothing that a peer wrote reaches an index, a length or an offset before it was read exactly
//! once, copied and checked; a bad value comes back as a named error and the caller resets the
//! link. No function here panics on any value a peer can write.
//!
//! | module | owns |
//! |---|---|
//! | [`wire`] | ids, message and block headers, epoch tags |
//! | [`memory`] | the traits through which shared memory is reached |
//! | [`version`] | versions and features that two hosts agree on |
//! | [`mailbox`] | the bootstrap over scratchpads or messages |
//! | [`link`] | the state machine of a link: epochs, Hello, heartbeat, what it waits for |
//! | [`layout`] | the division of inbound memory |
//! | [`ring`] | the record ring, doorbell suppression, large frames |
//! | [`sending`] | the sending half of a ring: frames, rests of frames, reports |
//! | [`receiving`] | the receiving half: frames, those that are kept, those in parts |
//! | [`side`] | what both halves are given |
//! | [`arena`] | segments cut from inbound memory |
//! | [`grants`] | which peer may reach which of them, for which service |
//! | [`reach`] | places in what a peer reaches, over all windows |
//! | [`target`] | where exposed windows lead, for senders that lead them |
//! | [`turns`] | whose turn it is among calls that wait to ask a peer |
//! | [`rows`] | tables in which nothing is found by a scan |
//! | [`name`] | names that processes choose |
//! | [`route`] | the way of a frame: delivered here, or forwarded |
//! | [`flow`] | back-pressure of frames that are forwarded |
//! | [`reserve`], [`backlog`] | messages that arrive while there is no memory, and their order |
//! | [`sequence`] | numbers of frames none of which may be missing |
//! | [`manage`] | messages between the message frame services of two hosts |
//! | [`letters`] | how many of these may wait, of each peer |
//! | [`herald`] | what the RP tells the endpoints of each other |
//! | [`pause`] | pauses between lives of what starts over |
//! | [`pairing`] | sessions of two hosts and how they become pairs |
//! | [`sharing`] | segments, events and ports of a host, and connections to them |
//! | [`stores`] | stores into windows that no bridge leads to |
//! | [`queue_pair`] | messages between two processes, in the windows of their session |
//! | [`work`] | work queues: what programs post at two connected endpoints, and its completion |
//! | [`register`] | the latest value of something, in the memory of who reads it |
//! | [`fdb`] | MAC learning |
//! | [`flood`] | how long a packet to all peers waits for those that have no room |
//! | [`queues`] | transmit queues of the virtual Ethernet, by peer |
//! | [`ether`] | the function header of the virtual Ethernet |
//! | [`dibs`] | direct memory buffers: what a sender may write, and what a receiver believes |
//!
//! A link's caller feeds [`link::Link`] and carries out its actions. At
//! [`link::Action::LinkUp`] it makes a [`receiving::ReceivingHalf`] over each ring of its own layout
//! and a [`sending::SendingHalf`] over each ring of the peer's, with the tags of
//! [`link::Link::tags`], and at [`link::Action::LinkDown`] it drops them. `Documentation/wire-format.md` describes what ends
//! up in shared memory.

#![cfg_attr(not(MODULE), no_std)]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod arena;
pub mod backlog;
pub mod dibs;
pub mod ether;
pub mod fabric;
pub mod fdb;
pub mod flood;
pub mod flow;
pub mod grants;
pub mod herald;
pub mod layout;
pub mod letters;
pub mod link;
pub mod mailbox;
pub mod manage;
pub mod memory;
pub mod name;
pub mod pairing;
pub mod pause;
pub mod queue_pair;
pub mod queues;
pub mod reach;
pub mod receiving;
pub mod register;
pub mod reserve;
pub mod ring;
pub mod route;
pub mod rows;
pub mod sending;
pub mod sequence;
pub mod sharing;
pub mod side;
pub mod stores;
pub mod target;
pub mod turns;
pub mod version;
pub mod wire;
pub mod work;
