// SPDX-License-Identifier: GPL-2.0-only

//! Sessions: a process's part of a pair.
//!
//! The link knows its sessions and moves them through their states; a session keeps
//! what its process needs: windows, events, and the way to its partner.

use crate::{
    access::{
        Access,
        Requester, //
    },
    answer::Dealings,
    link::Link,
    outbox::{
        Outbox,
        Signal, //
    },
    park,
    quota::{
        Share,
        WindowShare, //
    },
    ready::{
        self,
        Ready, //
    },
    status::Word,
    window::{
        Piece,
        Watch,
        Window, //
    }, //
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc,
        Mutex, //
    }, //
};
use mp_kernel::{
    barrier,
    dmem::Charge,
    error,
    iomem::DeviceRange,
    iommu::Rights,
    new_spinlock_bh,
    new_wait_queue,
    sync::SpinLockBh,
    time::monotonic_ns,
    vma::{
        AddressSpace,
        ScrapPage, //
    },
    wait::{
        Events,
        Sleep,
        WaitQueue,
        Waited, //
    }, //
};
use mp_proto::{
    fabric::Life,
    pairing::terms::{
        Connection as Role,
        Location,
        Params,
        DATA_MAX, //
    }, //
};

/// The request has not ended; all other outcomes are 0 or a negative errno.
pub(crate) const PENDING: i32 = 1;

/// Nobody waits for longer for the answer of a peer's service.
const ANSWER_NS: u64 = 10_000_000_000;

/// Where a session stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its process waits for the outcome of the request.
    Asking,
    /// Its request is with a server that answers itself.
    Held,
    /// That has refused it, and its process knows by an event.
    Refused,
    /// Waits for a partner.
    Posted,
    /// Has a partner, in this life of the link.
    Paired,
    /// It had one in an earlier life of the link, or one that it could not be told of; or
    /// takes no more requests.
    Lost,
}

/// The way to a partner.
pub(crate) struct Partner {
    outbox: Arc<Outbox>,
    /// That of its service.
    life: Life,
    number: u32,
    /// What signals it, once there was a signal.
    signal: Option<Arc<Signal>>,
}

impl Partner {
    /// To that session of the service with that life.
    pub(crate) fn new(outbox: Arc<Outbox>, life: Life, number: u32) -> Self {
        Self {
            outbox,
            life,
            number,
            signal: None,
        }
    }

    /// The way itself.
    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// What signals it, as a session of that number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn signal(&mut self, from: u32) -> Result<Arc<Signal>> {
        match &self.signal {
            Some(signal) => Ok(signal.clone()),
            None => {
                let signal = Signal::new(self.life, from, self.number)?;
                Ok(self.signal.insert(signal).clone())
            }
        }
    }
}

pub(crate) struct State {
    pub(crate) phase: Phase,
    /// Its identifier; zero as long as it has none.
    uid: u32,
    local: Option<Arc<Piece>>,
    remote: Option<Arc<Piece>>,
    local_window: Option<Window>,
    remote_window: Option<Window>,
    /// The devices that reach the remote piece, once there is one.
    access: Option<Access>,
    /// The way to the partner.
    pub(crate) partner: Option<Partner>,
    /// It could not have what is its own.
    is_missed: bool,
    /// Nothing of the partner is to be seen any more.
    is_parted: bool,
    /// The other side, as its process sees it.
    pub(crate) dealings: Dealings,
    /// Its status word, until it is closed.
    word: Option<Word>,
    /// What its local window counts as, as long as the partner may reach memory because of it.
    memory: Option<WindowShare>,
    /// The physical memory of a server, until it is closed.
    range: Option<DeviceRange>,
}

impl State {
    /// Bytes of the two windows.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let len = |piece: &Option<Arc<Piece>>| piece.as_ref().map_or(0, |piece| piece.len());
        (len(&self.local), len(&self.remote))
    }

    /// The remote window.
    pub(crate) fn remote(&self) -> Option<&Piece> {
        self.remote.as_deref()
    }

    /// The partner, if there is one, is not reached any more.
    fn part(&mut self) {
        self.partner = None;
        self.is_parted = true;
        if let Some(window) = &self.remote_window {
            window.forsake();
        }
        if let Some(access) = &self.access {
            access.forsake();
        }
    }
}

/// A window of a session, as the process may map it: bytes, and offset for `mmap()`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place {
    pub(crate) len: u64,
    pub(crate) offset: u64,
}

impl Place {
    /// Where a window is to be mapped.
    pub(crate) fn of(window: &Window) -> Self {
        Self {
            len: window.len(),
            offset: window.offset(),
        }
    }
}

/// Where a context maps things.
pub(crate) struct Mapper {
    pub(crate) space: Arc<AddressSpace>,
    /// The number by which the context's mappings are known.
    pub(crate) owner: u64,
    pub(crate) scrap: Arc<ScrapPage>,
}

impl Mapper {
    /// A window onto a piece.
    ///
    /// # Errors
    ///
    /// `ENOSPC` without a free offset, `ENOMEM`.
    pub(crate) fn window(&self, piece: &Arc<Piece>) -> Result<Window> {
        self.make(piece, true, None)
    }

    /// As [`window`](Self::window), in which the process writes only if it may.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn window_for(&self, piece: &Arc<Piece>, is_writable: bool) -> Result<Window> {
        self.make(piece, is_writable, None)
    }

    /// As [`window`](Self::window); `watch` is told of what it shows.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn watched(
        &self,
        piece: &Arc<Piece>,
        watch: Option<Arc<dyn Watch>>,
    ) -> Result<Window> {
        self.make(piece, true, watch)
    }

    fn make(
        &self,
        piece: &Arc<Piece>,
        is_writable: bool,
        watch: Option<Arc<dyn Watch>>,
    ) -> Result<Window> {
        let whose = (self.owner, is_writable);
        Window::new(piece.clone(), &self.space, whose, self.scrap.clone(), watch)
    }
}

/// A session.
#[pin_data]
pub(crate) struct Session {
    number: u32,
    link: Arc<Link>,
    params: Params,
    /// What the peer's processes are told of it.
    data: Arc<KVec<u8>>,
    ready: Arc<Ready>,
    /// The request does not wait for the answer of a server.
    is_pending: bool,
    outcome: Atomic<i32>,
    #[pin]
    pub(crate) asking: WaitQueue,
    /// The partner's number; zero without one.
    partner: Atomic<u32>,
    /// The local window's memory, once threads sleep on words of it; none when the session is
    /// closed. Taken under the state's lock.
    #[pin]
    words: SpinLockBh<Option<Arc<Piece>>>,
    #[pin]
    pub(crate) state: Mutex<State>,
    /// In the link's table, which keeps a session that is closed until that is free.
    _place: Share,
}

impl Session {
    /// A session that is about to ask; a client that is `is_pending` does not wait for the
    /// answer of a server's owner. It counts as a place in the link's table, and as memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        number: u32,
        link: Arc<Link>,
        params: Params,
        data: KVec<u8>,
        is_pending: bool,
        word: Word,
        (place, memory): (Share, Option<WindowShare>),
    ) -> Result<Arc<Self>> {
        let ready = Ready::of_session()?;
        let data = Arc::new(data, GFP_KERNEL_ACCOUNT)?;
        // Who answers, or waits for an answer, has to hear of it.
        let hears = params.hold || params.connection == Role::Client;
        let dealings = Dealings::new(if hears { DATA_MAX } else { 0 })?;
        Arc::pin_init(
            pin_init!(Self {
                number,
                link,
                params,
                data,
                ready,
                is_pending,
                outcome: Atomic::new(PENDING),
                asking <- new_wait_queue!("mp_session"),
                partner: Atomic::new(0),
                words <- new_spinlock_bh!(None),
                state <- new_mutex!(State {
                    phase: Phase::Asking,
                    uid: 0,
                    local: None,
                    remote: None,
                    local_window: None,
                    remote_window: None,
                    access: None,
                    partner: None,
                    is_missed: false,
                    is_parted: false,
                    dealings,
                    word: Some(word),
                    memory,
                    range: None,
                }),
                _place: place,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Its number, unique on this host.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The link that it is of.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// What it asked for; its identifier is the one that it has got, if it has.
    pub(crate) fn params(&self) -> Params {
        let uid = self.state.lock().uid;
        Params {
            uid: if uid == 0 { self.params.uid } else { uid },
            ..self.params
        }
    }

    /// What the peer's processes are told of it.
    pub(crate) fn data(&self) -> &Arc<KVec<u8>> {
        &self.data
    }

    /// Its events.
    pub(crate) fn ready(&self) -> &Arc<Ready> {
        &self.ready
    }

    /// Whether its request does not wait for the answer of a server.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending
    }

    /// Its identifier; zero as long as it has none.
    pub(crate) fn uid(&self) -> u32 {
        self.state.lock().uid
    }

    /// Bytes from the first status word to its own.
    pub(crate) fn status(&self) -> u32 {
        let state = self.state.lock();
        state.word.as_ref().map_or(0, Word::position)
    }

    /// These have happened; the status word tells those that stay.
    pub(crate) fn raise(&self, events: u32) {
        self.show(|there| there | events);
        self.ready.raise(events);
    }

    /// These are not so any more.
    pub(crate) fn clear(&self, events: u32) {
        self.ready.clear(events);
        self.show(|there| there & !events);
    }

    fn show(&self, change: impl FnOnce(u32) -> u32) {
        let state = self.state.lock();
        if let Some(word) = &state.word {
            word.set(change(self.ready.events()) & !ready::SIGNAL, 0);
        }
    }

    /// Where it stands.
    pub(crate) fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// Whether that is its partner. Any context.
    pub(crate) fn is_partner(&self, number: u32) -> bool {
        number != 0 && self.partner.load(Relaxed) == number
    }

    /// Wait for the outcome of the request, and return the identifier.
    ///
    /// # Errors
    ///
    /// What the request failed with; `ETIMEDOUT` if the peer does not answer, `ENOMEM` if this host
    /// is short of memory meanwhile, `ERESTARTSYS` if the process is being killed.
    pub(crate) fn outcome(&self) -> Result<u32> {
        let ended = || self.outcome.load(Acquire) != PENDING;
        match self.wait_for_peer(ended) {
            // A process may take its time, and what the peer has answered is on its way here.
            Err(e) if e == ETIMEDOUT && self.phase() != Phase::Asking => {
                self.asking.wait_until(Sleep::Killable, None, ended).ok()?;
            }
            answered => answered?,
        }
        kernel::error::to_result(self.outcome.load(Acquire))?;
        Ok(self.state.lock().uid)
    }

    /// Wait until the peer must have answered.
    ///
    /// # Errors
    ///
    /// Those of [`outcome`](Self::outcome), but for what the request failed with.
    fn wait_for_peer(&self, ended: impl Fn() -> bool) -> Result {
        let shortage = self.link.shortage();
        shortage.wait(monotonic_ns(), ANSWER_NS, |deadline| {
            let asking = &self.asking;
            let waited = asking.wait_until(Sleep::Killable, Some(deadline), &ended);
            let is_short = || self.phase() == Phase::Asking && shortage.is_there();
            match waited {
                // A process is not held up for as long as that may last.
                Waited::TimedOut if is_short() => Err(ENOMEM),
                waited => waited.ok(),
            }
        })
    }

    /// The request has ended, or the peer's answer to a session that was posted again is
    /// there.
    pub(crate) fn answer(&self, outcome: Result<u32>) {
        if let Ok(uid) = outcome {
            let mut state = self.state.lock();
            state.uid = uid;
            if state.phase == Phase::Asking {
                state.phase = Phase::Posted;
            }
        } else if self.outcome.load(Acquire) != PENDING {
            // Nobody waits for it: what was posted before is not there any more.
            return self.forsaken();
        }
        self.end_request(outcome.map_or_else(|error| error.to_errno(), |_| 0));
    }

    /// Let the process that waits for the outcome go on.
    pub(crate) fn end_request(&self, outcome: i32) {
        self.outcome.store(outcome, Release);
        self.asking.wake(Events::IN);
    }

    /// The request has ended with a partner: its process learns of both by
    /// [`announce`](Self::announce).
    pub(crate) fn name(&self, uid: u32) {
        self.state.lock().uid = uid;
    }

    /// The request has ended, if it had not before.
    pub(crate) fn answer_if_pending(&self, outcome: Result<u32>) {
        if self.outcome.load(Acquire) == PENDING {
            self.answer(outcome);
        }
    }

    /// It has a partner, with these windows. The process may not know yet: its first
    /// signal must not be there before the partner has one as well.
    pub(crate) fn pair(
        &self,
        partner: u32,
        local: Option<Arc<Piece>>,
        remote: Option<Arc<Piece>>,
        way: Partner,
    ) {
        {
            let mut state = self.state.lock();
            state.phase = Phase::Paired;
            (state.local, state.remote) = (local, remote);
            state.partner = Some(way);
            state.is_parted = false;
            state.dealings.end_request();
        }
        self.clear(ready::REQUEST);
        self.partner.store(partner, Relaxed);
    }

    /// There is no memory for what it was to have, a partner or an answer: it is over. What uses the
    /// engine closes it.
    pub(crate) fn miss(&self, error: Error) {
        {
            let mut state = self.state.lock();
            state.phase = Phase::Lost;
            state.is_missed = true;
        }
        self.answer_accepted(error.to_errno());
        self.answer(Err(error));
    }

    /// Whether it could not have what is its own, and is to be closed.
    pub(crate) fn is_missed(&self) -> bool {
        self.state.lock().is_missed
    }

    /// The partner has been told as well: tells the process of a pair that it does not
    /// know of.
    pub(crate) fn announce(&self) {
        if self.phase() != Phase::Paired {
            return;
        }
        if self.ready.events() & ready::PAIRED == 0 {
            self.raise(ready::PAIRED);
        }
        self.answer_accepted(0);
        if self.outcome.load(Acquire) == PENDING {
            self.end_request(0);
        }
    }

    /// The link is down: this is told together with what becomes of a request.
    pub(crate) fn lose(&self) {
        let events = self.lose_request();
        {
            let mut state = self.state.lock();
            if state.phase == Phase::Paired {
                state.phase = Phase::Lost;
            }
            state.part();
        }
        self.partner.store(0, Relaxed);
        self.raise(ready::DOWN | events);
    }

    /// The link is up again: what was paired is over for good.
    pub(crate) fn find_again(&self) {
        match self.phase() {
            Phase::Lost => self.raise(ready::CLOSED),
            _ => self.clear(ready::DOWN),
        }
    }

    /// The partner, or the interface, is gone for good. The addresses of a physical server
    /// are there as long as the link is (`PXI-CW-12`).
    pub(crate) fn forsaken(&self) {
        let mut state = self.state.lock();
        match self.params.location {
            Location::Logical => state.part(),
            Location::Physical => state.partner = None,
        }
        drop(state);
        self.partner.store(0, Relaxed);
        self.raise(ready::CLOSED);
    }

    /// Signal the partner (`PXI-AE-1`).
    ///
    /// # Errors
    ///
    /// `ECONNRESET` if it is gone, `ENETDOWN`, `ENOTCONN` without one, `ENOMEM`.
    pub(crate) fn signal(&self) -> Result {
        self.check_paired()?;
        let (outbox, signal) = {
            let mut state = self.state.lock();
            let partner = state.partner.as_mut().ok_or_else(error::net_down)?;
            (partner.outbox.clone(), partner.signal(self.number)?)
        };
        outbox.signal(&signal)
    }

    /// Check that there is a word at `word` that a thread may sleep on, and one at `arm` in the
    /// partner's memory. The first one is there for [`word`](Self::word) from now on.
    ///
    /// # Errors
    ///
    /// `ENOTCONN` without a partner, `EINVAL` if a word is unaligned, `ERANGE` outside of its
    /// window, `EOPNOTSUPP` if the kernel does not load it.
    pub(crate) fn check_sleeping_place(&self, word: u64, arm: u64) -> Result {
        if self.ready.events() & ready::PAIRED == 0 {
            return Err(error::not_connected());
        }
        let state = self.state.lock();
        let len = |piece: &Option<Arc<Piece>>| piece.as_ref().map_or(0, |piece| piece.len());
        park::check_word(word, len(&state.local))?;
        park::check_word(arm, len(&state.remote))?;
        match &state.local {
            Some(local) if matches!(**local, Piece::Local(_)) => {
                self.words.lock().get_or_insert_with(|| local.clone());
                Ok(())
            }
            _ => Err(error::unsupported()),
        }
    }

    /// Load a word that threads sleep on. Any context but hard interrupts.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the session is closed, or the memory has gone.
    pub(crate) fn word(&self, at: u64) -> Result<u64> {
        self.words.lock().as_ref().ok_or(ENOENT)?.load_u64(at)
    }

    /// Store a word in the partner's memory, if there is one; wait for a way there until the
    /// deadline.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the kernel does not store there, those of
    /// [`send_word`](Session::send_word).
    pub(crate) fn arm(&self, at: u64, value: u64, deadline: Option<u64>) -> Result {
        if self.link.is_routed() {
            return self.send_word(at, value, deadline);
        }
        // Under the lock: once it has ended, nothing is written.
        let state = self.state.lock();
        match state.remote.as_deref() {
            Some(remote) if !state.is_parted => {
                remote.store_u64(at, value)?;
                // It has left this processor before anybody else may have the memory.
                barrier::wmb();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether it has a partner now.
    ///
    /// # Errors
    ///
    /// `ECONNRESET` if that is gone, `ENETDOWN`, `ENOTCONN` without one.
    pub(crate) fn check_paired(&self) -> Result {
        let events = self.ready.events();
        if events & ready::CLOSED != 0 {
            Err(error::reset())
        } else if events & ready::DOWN != 0 {
            Err(error::net_down())
        } else if events & ready::PAIRED == 0 {
            Err(error::not_connected())
        } else {
            Ok(())
        }
    }

    /// Its windows, local and remote, for the process to map; the same each time.
    ///
    /// # Errors
    ///
    /// `ENOSPC` without free offsets, `ENOMEM`.
    pub(crate) fn places(&self, mapper: &Mapper) -> Result<(Place, Place)> {
        let mut state = self.state.lock();
        let State {
            local,
            remote,
            local_window,
            remote_window,
            is_parted,
            ..
        } = &mut *state;
        Ok((
            place(local, local_window, mapper, false)?,
            place(remote, remote_window, mapper, *is_parted)?,
        ))
    }

    /// The address of its remote window on the PCI bus.
    ///
    /// # Errors
    ///
    /// `ENXIO` without such a window, `EOPNOTSUPP` if devices cannot reach it,
    /// `ENOTCONN` when the link is down.
    pub(crate) fn bus_address(&self) -> Result<u64> {
        match self.state.lock().remote.as_deref() {
            Some(piece) => Ok(piece.bus_range()?.bus),
            None => Err(ENXIO),
        }
    }

    /// Let a device of this host reach the remote window, in addition to what it may, or
    /// takes all back without rights.
    ///
    /// # Errors
    ///
    /// Those of [`bus_address`](Self::bus_address); `EOPNOTSUPP` also if somebody else says
    /// what the device reaches, or if it is one too many; `ENETDOWN`, `ENOMEM`.
    pub(crate) fn allow(&self, device: Requester, rights: Option<Rights>) -> Result {
        let group = device.group()?;
        let mut state = self.state.lock();
        let State {
            remote,
            access,
            is_parted,
            ..
        } = &mut *state;
        if *is_parted {
            return Err(error::net_down());
        }
        let piece = remote.as_deref().ok_or(ENXIO)?;
        // Also to take back what nobody has been given: the window has to be there.
        let access = match access {
            Some(access) => access,
            None => access.insert(Access::new(piece)?),
        };
        match rights {
            Some(rights) => access.allow(device, group, rights),
            None => access.clear(device),
        }
    }

    /// Take the windows away from the process, and give the memory back, if there is any. The
    /// partner may still reach the local one.
    pub(crate) fn strip(&self) -> bool {
        let stripped = {
            let mut state = self.state.lock();
            state.partner = None;
            (
                self.words.lock().take(),
                state.local_window.take(),
                state.remote_window.take(),
                state.access.take(),
                state.local.take(),
                state.remote.take(),
                state.word.take(),
                state.range.take(),
            )
        };
        self.answer_accepted(ENOENT.to_errno());
        self.ready.close();
        let (.., local, _, _, _) = &stripped;
        let had_memory = local.is_some();
        drop(stripped);
        had_memory
    }

    /// No driver gets the physical memory that it shows, until it is closed; while it shows none to
    /// a partner as well.
    pub(crate) fn claim(&self, range: DeviceRange) {
        self.state.lock().range = Some(range);
    }

    /// What memory for its local window counts as for the control group that has opened it.
    pub(crate) fn charge(&self) -> Charge {
        let state = self.state.lock();
        let memory = state.memory.as_ref();
        memory.map_or(Charge::NONE, |memory| memory.group().clone())
    }

    /// Nobody reaches memory because of it: that does not count any more.
    pub(crate) fn give_memory_back(&self) {
        let unused = self.state.lock().memory.take();
        drop(unused);
    }
}

/// A window for the process; none of zero bytes.
fn place(
    piece: &Option<Arc<Piece>>,
    window: &mut Option<Window>,
    mapper: &Mapper,
    is_gone: bool,
) -> Result<Place> {
    // The addresses of a physical server are not its own to map (`PXI-REQPS-13`).
    if let Some(piece) = piece.as_ref().filter(|piece| !piece.is_mappable()) {
        return Ok(Place {
            len: piece.len(),
            offset: 0,
        });
    }
    if let (Some(piece), None) = (piece, &window) {
        let new = mapper.window(piece)?;
        if is_gone {
            new.forsake();
        }
        *window = Some(new);
    }
    Ok(window.as_ref().map_or(Place::default(), Place::of))
}
