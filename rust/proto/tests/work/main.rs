// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0

//! Work queues against simple models: what was posted at both ends, in any interleaving of posts,
//! messages, room, takes and ends.
//!
//! | file | what |
//! |---|---|
//! | `net` | programs and a way between them |
//! | `pair` | two ends: what is posted at one takes effect at the other |
//! | `script` | one end whose partner is a script |
//! | `receiver`, `sender` | each half, against such a partner |

mod net;
mod pair;
mod receiver;
mod script;
mod sender;
