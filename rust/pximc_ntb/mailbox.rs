// SPDX-License-Identifier: GPL-2.0-only

//! The bootstrap mailbox of one peer, over scratchpads or over messages.
//!
//! The scratchpads of a port are one bank that all its peers write, hence each
//! writer has its own four words of it, chosen by its logical port number, or
//! where that takes too many, by its number among the port's peers. A bridge
//! without enough scratchpads has message registers, and its mail travels in
//! messages.

use crate::device::Shared;
use kernel::prelude::*;
use mp_proto::mailbox::{
    self,
    Mail,
    MailRead,
    MessageRx,
    MessageTx,
    WORDS, //
};

/// The way the mail takes.
enum Way {
    /// First word of this host's mail in the peer's bank, and of the peer's in ours.
    Scratchpads { theirs: u32, ours: u32 },
    /// Message registers; what is being sent, and what was received so far.
    Messages {
        tx: Option<MessageTx>,
        rx: MessageRx,
    },
}

/// The mailbox.
pub(crate) struct Mailbox {
    pidx: u32,
    way: Way,
    more: bool,
}

impl Mailbox {
    /// Choose a way.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the bridge has neither enough scratchpads nor messages.
    pub(crate) fn new(shared: &Shared, pidx: u32) -> Result<Self> {
        let ntb = shared.ntb();
        let words = WORDS as u32;
        let needed = ntb.peer_port_count() * words;
        let way = if ntb.spad_count() >= needed + words {
            Way::Scratchpads {
                theirs: shared.logical_port() * words,
                ours: shared.peer_logical_port(pidx) * words,
            }
        } else if ntb.spad_count() >= needed {
            Way::Scratchpads {
                theirs: shared.index_at(pidx) * words,
                ours: pidx * words,
            }
        } else if ntb.msg_count() > 0 {
            Way::Messages {
                tx: None,
                rx: MessageRx::new(),
            }
        } else {
            dev_err!(
                ntb,
                "{} scratchpads and no message registers: {} scratchpads are needed\n",
                ntb.spad_count(),
                needed,
            );
            return Err(ENODEV);
        };
        Ok(Self {
            pidx,
            way,
            more: false,
        })
    }

    /// Put `mail` where the peer reads it.
    pub(crate) fn publish(&mut self, shared: &Shared, mail: &Mail) {
        match mail.encode() {
            Ok(words) => self.put(shared, words),
            Err(e) => pr_err!("cannot express the inbound memory in a mail: {:?}\n", e),
        }
    }

    /// Take the mail away.
    pub(crate) fn clear(&mut self, shared: &Shared) {
        self.put(shared, [0; WORDS]);
    }

    fn put(&mut self, shared: &Shared, words: [u32; WORDS]) {
        match &mut self.way {
            Way::Scratchpads { theirs, .. } => {
                for (word, value) in mailbox::stores(&words) {
                    // A peer whose scratchpads cannot be written reads nothing from us and is
                    // tried again with the next mail.
                    let _ = shared
                        .ntb()
                        .peer_spad_write(self.pidx, *theirs + word as u32, value);
                }
            }
            Way::Messages { tx, .. } => {
                if !tx.as_ref().is_some_and(|tx| tx.is_sending(&words)) {
                    *tx = Some(MessageTx::new(words));
                }
            }
        }
        self.send_messages(shared);
    }

    /// Send as many messages as the peer's registers take.
    fn send_messages(&mut self, shared: &Shared) {
        let Way::Messages { tx: Some(tx), .. } = &mut self.way else {
            return;
        };
        while let Some(message) = tx.message() {
            if !shared.messages().send(shared.ntb(), self.pidx, message) {
                return;
            }
            tx.sent();
        }
    }

    /// The peer's mail, if there is something to read.
    pub(crate) fn read(&mut self, shared: &Shared) -> Option<MailRead> {
        self.send_messages(shared);
        self.more = false;
        match &mut self.way {
            Way::Scratchpads { ours, .. } => Some(mailbox::read(|word| {
                Some(shared.ntb().spad_read(*ours + word as u32))
            })),
            Way::Messages { rx, .. } => {
                while let Some(message) = shared.messages().next(shared.ntb(), self.pidx) {
                    if let Some(mail) = rx.accept(message) {
                        self.more = true;
                        return Some(mail);
                    }
                }
                None
            }
        }
    }

    /// Whether another mail may follow the one just read.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }
}
