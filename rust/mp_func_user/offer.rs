// SPDX-License-Identifier: GPL-2.0-only

//! Events and ports that processes of this host offer at a link, by number and by name.
//!
//! A [`Number`] is what peers connect to; each [`Offer`] is the part of one process in it.
//! Usually there is one; processes that agree to share get everything each. The sharing
//! engine knows a number by its token.

use crate::{
    link::Link,
    numbered::{
        Keyed,
        List, //
    },
    ready::{
        self,
        Ready, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use mp_kernel::{
    cgroup::{
        atomic_account,
        MemoryGroup, //
    },
    error,
    fifo::Fifo,
    new_spinlock_bh,
    process::UserId,
    sync::SpinLockBh, //
};
use mp_proto::{
    name::Name,
    rows::first_free,
    sharing::{
        Object,
        Want,
        Why, //
    }, //
};

/// Most connections of an event or port: each may have messages that wait.
const GUESTS: usize = 256;

/// A message to a port, which waits in the queue of each offer.
pub(crate) struct Mail {
    /// The connection that it came from.
    pub(crate) guest: u32,
    pub(crate) data: KVec<u8>,
}

impl Mail {
    /// A copy that is charged to the group that is charged now.
    fn copied(&self) -> Result<Arc<Self>> {
        let mut data = KVec::with_capacity(self.data.len(), atomic_account())?;
        data.extend_from_slice(&self.data, atomic_account())?;
        let guest = self.guest;
        Ok(Arc::new(Self { guest, data }, atomic_account())?)
    }
}

struct State {
    offers: KVec<Arc<Offer>>,
    /// Connections.
    guests: usize,
    /// It takes no further ones (`SI-RMINT-3`).
    is_closing: bool,
}

/// What peers connect to.
#[pin_data]
pub(crate) struct Number {
    object: Object,
    number: u32,
    name: Name,
    token: u32,
    is_counted: bool,
    /// All who share it are this user's processes, if it `is_shared`.
    user: UserId,
    is_shared: bool,
    #[pin]
    state: SpinLockBh<State>,
}

impl Number {
    /// Name it among all that this service has ever offered.
    pub(crate) fn token(&self) -> u32 {
        self.token
    }

    /// Whether what is to be offered is the same, and all have agreed to share it, among
    /// processes of one user: each gets everything, and holds up who sends it.
    fn is_shared_by(&self, terms: &Terms) -> bool {
        let is_number = terms.number.is_none_or(|number| number == self.number);
        let is_same = is_number && self.name == terms.name && self.is_counted == terms.is_counted;
        is_same && self.is_shared && terms.is_shared && self.user == terms.user
    }

    /// Whether the part of a process in it has that number.
    pub(crate) fn has_offer(&self, number: u32) -> bool {
        let state = self.state.lock();
        self.token == number || state.offers.iter().any(|offer| offer.number == number)
    }

    /// Enter the part of a process, which is the first one if that `is_new`.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` after the last one has left: it is about to be withdrawn. `ENOMEM`.
    fn join(&self, offer: Arc<Offer>, is_new: bool) -> Result {
        let mut state = self.state.lock();
        if state.offers.is_empty() && !is_new {
            return Err(error::in_use());
        }
        Ok(state.offers.push(offer, atomic_account())?)
    }

    /// A process of the peer would like to connect. It counts until [`left`](Self::left).
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) fn accept(&self, want: &Want) -> Result<(), Why> {
        let mut state = self.state.lock();
        if state.is_closing || state.guests >= GUESTS || (want.counted && !self.is_counted) {
            return Err(Why::Refused);
        }
        state.guests += 1;
        Ok(())
    }

    /// So many connections do not count any more.
    pub(crate) fn left(&self, count: usize) {
        let mut state = self.state.lock();
        state.guests = state.guests.saturating_sub(count);
    }

    /// It was triggered so often. Any context.
    pub(crate) fn trigger(&self, count: u32) {
        for offer in &self.state.lock().offers {
            offer.ready.count(count);
        }
    }

    /// A message has arrived.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; some offers may have it.
    pub(crate) fn deliver(&self, mail: Mail) -> Result {
        let first = self.state.lock().offers.first().cloned();
        let Some(first) = first else { return Ok(()) };
        // However long it waits, one of those who are to take it is charged for it, unless there is
        // no memory for who cannot wait for it: who delivers can, for what has come already.
        let charged = first.group.charge(|| mail.copied());
        let mail = charged.or_else(|_| Arc::new(mail, GFP_KERNEL))?;
        let state = self.state.lock();
        for offer in &state.offers {
            offer.push(mail.clone())?;
        }
        Ok(())
    }
}

/// What makes an event or port.
pub(crate) struct Terms {
    pub(crate) object: Object,
    /// None for one that nobody uses, or that which the name has.
    pub(crate) number: Option<u32>,
    pub(crate) name: Name,
    pub(crate) is_counted: bool,
    pub(crate) is_shared: bool,
    /// Whose process offers it.
    pub(crate) user: UserId,
}

/// The part of a process in an event or port.
#[pin_data]
pub(crate) struct Offer {
    number: u32,
    link: Arc<Link>,
    shares: Arc<Number>,
    ready: Arc<Ready>,
    /// Charged for the messages that wait.
    group: Arc<MemoryGroup>,
    /// Also held while the event that tells of messages changes.
    #[pin]
    mails: SpinLockBh<Fifo<Arc<Mail>>>,
}

/// The first number that is given to who does not ask for one.
const FIRST_FREE: u32 = 0x8000_0000;

impl Keyed<(Object, u32)> for Number {
    fn key(&self) -> (Object, u32) {
        (self.object, self.number)
    }
}

impl Keyed<(Object, Name)> for Number {
    fn key(&self) -> (Object, Name) {
        (self.object, self.name)
    }
}

/// The events and ports of a link: all of them by their numbers, those with names also by these.
pub(crate) struct Offered {
    numbers: List<Number, (Object, u32)>,
    names: List<Number, (Object, Name)>,
}

impl Offered {
    /// None.
    pub(crate) const fn new() -> Self {
        Self {
            numbers: List::new(),
            names: List::new(),
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Number>> {
        self.numbers.iter()
    }

    /// What is wanted, under that name unless it is none.
    pub(crate) fn find(&self, want: &Want, name: &Name) -> Option<&Arc<Number>> {
        match name.is_none() {
            true => self.numbers.get(&(want.object, want.number)),
            false => self.names.get(&(want.object, *name)),
        }
    }

    /// What has the name or, without one, the number that is to be offered.
    fn known(&self, terms: &Terms) -> Option<&Arc<Number>> {
        match terms.name.is_none() {
            true => self.numbers.get(&(terms.object, terms.number?)),
            false => self.names.get(&(terms.object, terms.name)),
        }
    }

    /// The number that nobody uses, or what is shared by those who offer it.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`.
    fn choose(&self, terms: &Terms) -> Result<(u32, Option<Arc<Number>>)> {
        if let Some(known) = self.known(terms) {
            return match known.is_shared_by(terms) {
                true => Ok((known.number, Some(known.clone()))),
                false => Err(error::in_use()),
            };
        }
        let is_free = |number: &u32| self.numbers.get(&(terms.object, *number)).is_none();
        let number = match terms.number {
            Some(number) => Some(number).filter(is_free),
            None => self.free_number(terms.object),
        };
        Ok((number.ok_or_else(error::in_use)?, None))
    }

    fn free_number(&self, object: Object) -> Option<u32> {
        let taken = self.numbers.from(&(object, FIRST_FREE));
        first_free(FIRST_FREE..=u32::MAX, taken.len(), |n, number| {
            let nth = taken.get(n);
            nth.is_some_and(|nth| (nth.object, nth.number) == (object, number))
        })
    }

    /// Make room for one more.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn reserve(&mut self) -> Result {
        self.numbers.reserve()?;
        self.names.reserve()
    }

    /// Enter what is new, for which there is room.
    fn enter(&mut self, number: Arc<Number>) {
        if !number.name.is_none() {
            let _ = self.names.enter(number.clone());
        }
        let _ = self.numbers.enter(number);
    }

    /// Remove what is not offered any more. The caller drops it without the lock.
    pub(crate) fn remove(&mut self, number: &Number) -> [Option<Arc<Number>>; 2] {
        let named = match number.name.is_none() {
            true => None,
            false => self.names.remove(&number.key()),
        };
        [self.numbers.remove(&number.key()), named]
    }
}

impl Offer {
    /// Offer an event or port at a link, which has those of `list`; `numbers` has
    /// those of the offer and, if it is new, of what is offered.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE`, `ENOMEM`.
    pub(crate) fn new(
        numbers: (u32, u32),
        link: Arc<Link>,
        list: &SpinLockBh<Offered>,
        terms: &Terms,
    ) -> Result<Arc<Self>> {
        let counts = (terms.object == Object::Event).then_some(terms.is_counted);
        let ready = match counts {
            Some(counts) => Ready::counting(counts)?,
            None => Ready::new(0)?,
        };
        let group = MemoryGroup::current()?;
        let mut list = list.lock();
        let (number, known) = list.choose(terms)?;
        let is_new = known.is_none();
        let shares = match known {
            Some(known) => known,
            None => {
                list.reserve()?;
                Arc::pin_init(
                    pin_init!(Number {
                        object: terms.object,
                        number,
                        name: terms.name,
                        token: numbers.1,
                        is_counted: terms.is_counted,
                        user: terms.user,
                        is_shared: terms.is_shared,
                        state <- new_spinlock_bh!(State {
                            offers: KVec::new(),
                            guests: 0,
                            is_closing: false,
                        }),
                    }),
                    atomic_account(),
                )?
            }
        };
        let of = shares.clone();
        let offer = Arc::pin_init(
            pin_init!(Self {
                number: numbers.0,
                link,
                shares: of,
                ready,
                group,
                mails <- new_spinlock_bh!(Fifo::new()),
            }),
            atomic_account(),
        )?;
        shares.join(offer.clone(), is_new)?;
        if is_new {
            list.enter(shares);
        }
        drop(list);
        Ok(offer)
    }

    /// Its number, unique on this host.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The number under which it is offered.
    pub(crate) fn offered(&self) -> u32 {
        self.shares.number
    }

    /// The link that it is of.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Its events.
    pub(crate) fn ready(&self) -> &Arc<Ready> {
        &self.ready
    }

    /// Whether it is a port.
    pub(crate) fn is_port(&self) -> bool {
        self.shares.object == Object::Port
    }

    fn push(&self, mail: Arc<Mail>) -> Result {
        let mut mails = self.mails.lock();
        self.group
            .charge(|| mails.push_with(mail, atomic_account()))?;
        self.ready.raise(ready::MESSAGE);
        Ok(())
    }

    fn front(&self) -> Option<Arc<Mail>> {
        self.mails.lock().front().cloned()
    }

    /// Take a message out, if it is still the next one.
    fn pop(&self, mail: &Arc<Mail>) -> bool {
        let mut mails = self.mails.lock();
        let is_next = mails.front().is_some_and(|next| Arc::ptr_eq(next, mail));
        let taken = is_next.then(|| mails.pop()).flatten();
        if mails.is_empty() {
            self.ready.clear(ready::MESSAGE);
        }
        drop(mails);
        taken.is_some()
    }

    /// Wait for a message, have `f` look at it, and take it if that succeeds.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the port is closed, `ETIMEDOUT`, `ERESTARTSYS` for a signal, or that
    /// of `f`.
    pub(crate) fn receive(
        &self,
        deadline: Option<u64>,
        mut f: impl FnMut(&Mail) -> Result,
    ) -> Result {
        loop {
            self.ready.wait(ready::MESSAGE, deadline, false)?;
            let Some(mail) = self.front() else { continue };
            f(&mail)?;
            // Another thread may have been faster.
            if self.pop(&mail) {
                self.link.taken(mail);
                return Ok(());
            }
        }
    }

    /// The interface has gone.
    pub(crate) fn forsaken(&self) {
        self.ready.raise(ready::CLOSED);
    }

    /// End this part, and with the last one what is offered.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is the last one and there are connections, unless they are to be ended by
    /// `force`; there will be no more then. `ENOENT` if it has ended.
    pub(crate) fn remove(self: &Arc<Self>, force: bool) -> Result {
        let (gone, is_last) = {
            let mut state = self.shares.state.lock();
            let at = state.offers.iter().position(|o| Arc::ptr_eq(o, self));
            let at = at.ok_or(ENOENT)?;
            let is_last = state.offers.len() == 1;
            if is_last {
                state.is_closing = true;
                if state.guests != 0 && !force {
                    return Err(EBUSY);
                }
            }
            (state.offers.remove(at).ok(), is_last)
        };
        if is_last {
            self.link.withdraw_number(&self.shares);
        }
        self.ready.close();
        while let Some(mail) = self.front() {
            if self.pop(&mail) {
                self.link.taken(mail);
            }
        }
        drop(gone);
        Ok(())
    }

    /// All parts of processes in it.
    pub(crate) fn each_of(number: &Number, f: impl Fn(&Offer)) {
        number.state.lock().offers.iter().for_each(|o| f(o));
    }
}
