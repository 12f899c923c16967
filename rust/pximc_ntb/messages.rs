// SPDX-License-Identifier: GPL-2.0-only

//! Message registers as a way for mail: a port's inbound registers are shared
//! by all its peers, so what arrives is sorted by sender first; and so is the
//! outbound one, so that one message is sent at a time.

use kernel::{
    new_mutex,
    prelude::*,
    sync::Mutex, //
};
use mp_kernel::ntb::NtbDev;
use mp_proto::mailbox::number;

/// Messages kept for one peer: those of two mails.
const KEPT: usize = 16;

/// What one peer has sent and its link has not looked at, oldest first.
struct Inbox {
    messages: [u32; KEPT],
    len: usize,
}

impl Inbox {
    const fn new() -> Self {
        Self {
            messages: [0; KEPT],
            len: 0,
        }
    }

    /// Add a message; a full inbox forgets the oldest, as mail is repeated.
    fn push(&mut self, message: u32) {
        if self.len == KEPT {
            self.pop();
        }
        if let Some(slot) = self.messages.get_mut(self.len) {
            *slot = message;
            self.len += 1;
        }
    }

    fn pop(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let first = self.messages.first().copied();
        self.messages.rotate_left(1);
        self.len -= 1;
        first
    }
}

/// The inboxes of all peers, and the way out.
#[pin_data]
pub(crate) struct Messages {
    #[pin]
    inboxes: Mutex<KVec<Inbox>>,
    /// Held from writing a message until it is known whether it was taken.
    #[pin]
    sending: Mutex<()>,
}

impl Messages {
    /// Empty inboxes for `peers` peers.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(peers: u32) -> Result<Pin<KBox<Self>>> {
        let mut inboxes = KVec::new();
        for _ in 0..peers {
            inboxes.push(Inbox::new(), GFP_KERNEL)?;
        }
        KBox::pin_init(
            pin_init!(Self {
                inboxes <- new_mutex!(inboxes),
                sending <- new_mutex!(()),
            }),
            GFP_KERNEL,
        )
    }

    /// The next message from peer `pidx`.
    pub(crate) fn next(&self, ntb: &NtbDev, pidx: u32) -> Option<u32> {
        let mut inboxes = self.inboxes.lock();
        Self::collect(ntb, &mut inboxes);
        inboxes.get_mut(pidx as usize)?.pop()
    }

    /// Empty the registers. A message register is free again, and may take
    /// the next message of any peer, once its status bit is cleared.
    fn collect(ntb: &NtbDev, inboxes: &mut [Inbox]) {
        for (register, bit) in (0..ntb.msg_count()).zip(single_bits(ntb.msg_inbits())) {
            if ntb.msg_read_sts() & bit == 0 {
                continue;
            }
            let (message, pidx) = ntb.msg_read(register);
            if let Some(inbox) = inboxes.get_mut(pidx as usize) {
                inbox.push(message);
            }
            // A register that cannot be cleared is seen again.
            let _ = ntb.msg_clear_sts(bit);
        }
    }

    /// Offer a message to peer `pidx`; `false` if its register is not free. Any
    /// register would do; messages of different numbers take different ones as far
    /// as they go, so that several are on their way.
    pub(crate) fn send(&self, ntb: &NtbDev, pidx: u32, message: u32) -> bool {
        let outbits = ntb.msg_outbits();
        let register = number(message).checked_rem(ntb.msg_count()).unwrap_or(0);
        let _sending = self.sending.lock();
        let ready = ntb.msg_clear_sts(outbits);
        let written = ready.and_then(|()| ntb.peer_msg_write(pidx, register, message));
        written.is_ok() && ntb.msg_read_sts() & outbits == 0
    }
}

/// The bits of a mask one by one, lowest first: those of registers 0, 1, ...
fn single_bits(mask: u64) -> impl Iterator<Item = u64> {
    core::iter::successors(Some(mask), |rest| Some(rest & rest.wrapping_sub(1)))
        .take_while(|rest| *rest != 0)
        .map(|rest| rest & rest.wrapping_neg())
}
