// SPDX-License-Identifier: GPL-2.0-only

//! One end of a link: feeds [`mp_proto::link`] and carries out its actions, in the order of
//! `rust/pximc_ntb/peer_link.rs`; and its upper side, in that of `upper.rs` there.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mp_proto::layout::{Layout, STATUS_LEN};
use mp_proto::link::{
    read_beat, write_beat, Action, Actions, Further, Hello, Identity, Link, Local, Role, State,
};
use mp_proto::mailbox::{self, MailRead, MessageRx, MessageTx};
use mp_proto::memory::Inbound;
use mp_proto::receiving::poll_queue;
use mp_proto::ring::Ringing;
use mp_proto::version::{Terms, WIRE};
use mp_proto::wire::PeerId;

use crate::channel::{queue_of, rings, Channel, Making};
use crate::dice::Dice;
use crate::host::{Entity, Env, Host, LINK_BELL};
use crate::memory::{Memory, Pool};
use crate::plan::MS;
use crate::user::UserLink;
use crate::wire::{Bytes, Near, Window, Wire};

/// How often a link without a peer is looked at, in milliseconds.
const IDLE_MS: u64 = 250;

/// What the NTB says of a link, to both its ends.
#[derive(Debug, Default)]
pub struct Joint {
    /// There is a link.
    pub up: Cell<bool>,
    /// Each end has looked since it went down: first the one with the lower number.
    pub seen: [Cell<bool>; 2],
}

/// An epoch that lives.
struct Active {
    session: Rc<Session>,
    remote: Identity,
    entered: bool,
}

/// A live channel, with the peer it leads to.
pub struct Session {
    /// Its rings.
    pub channel: Rc<RefCell<Channel>>,
    /// Its memory.
    pub memory: Rc<Memory>,
    id: PeerId,
    index: u32,
}

/// What the message frame service knows of.
pub struct Entered {
    session: Rc<Session>,
    /// The life of the peer, unless it was refused.
    life: Option<u32>,
}

/// What exists from the first time that the NTB's link was up.
struct Live {
    machine: Link<Dice>,
    near: Near,
    layout: Layout,
    pool: Rc<RefCell<Pool>>,
    tx: Option<MessageTx>,
    rx: MessageRx,
    more: bool,
    identity: Identity,
    window: Option<Window>,
    active: Option<Active>,
}

/// One end of a link.
pub struct Port {
    /// The host at the other end.
    pub peer: usize,
    /// The bridge.
    pub bridge: usize,
    /// The index that the root processor gives to the peer.
    pub given: u32,
    /// What the NTB says.
    pub joint: Rc<Joint>,
    /// The way to the peer.
    pub out: Rc<RefCell<Wire>>,
    /// The way from it.
    pub inw: Rc<RefCell<Wire>>,
    /// The inbound memory.
    pub bytes: Bytes,
    /// The window cannot be mapped the next time.
    pub no_window: bool,
    /// The user service's end.
    pub user: UserLink,
    live: Option<Live>,
    /// Since when a side of a queue sleeps although there is something for it.
    overdue: [Option<u64>; 2],
    wanted: Option<Rc<Session>>,
    current: Option<Entered>,
}

impl Port {
    /// An end of which nothing is known yet.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        peer: usize,
        bridge: usize,
        joint: Rc<Joint>,
        out: Rc<RefCell<Wire>>,
        inw: Rc<RefCell<Wire>>,
        bytes: Bytes,
    ) -> Port {
        Port {
            peer,
            bridge,
            given: peer as u32,
            joint,
            out,
            inw,
            bytes,
            no_window: false,
            user: UserLink::default(),
            live: None,
            overdue: [None; 2],
            wanted: None,
            current: None,
        }
    }

    /// Where the link stands.
    pub fn state(&self) -> State {
        let live = self.live.as_ref();
        live.map_or(State::Down, |live| live.machine.state())
    }

    /// The life of the peer that is entered.
    pub fn entered(&self) -> Option<u32> {
        self.current.as_ref().and_then(|entered| entered.life)
    }

    /// The rings of the epoch.
    pub fn channel(&self) -> Option<Rc<RefCell<Channel>>> {
        let active = self.live.as_ref()?.active.as_ref()?;
        Some(active.session.channel.clone())
    }

    /// The rings of the peer that is entered.
    pub fn polled(&self) -> Option<Rc<RefCell<Channel>>> {
        let entered = self.current.as_ref()?;
        entered.life.map(|_| entered.session.channel.clone())
    }

    /// Number of the queues that are polled.
    pub fn polled_queues(&self) -> u16 {
        self.polled().map_or(0, |channel| channel.borrow().queues())
    }

    /// The memory of the peer that is entered.
    pub fn memory(&self) -> Option<Rc<Memory>> {
        let entered = self.current.as_ref()?;
        entered.life.map(|_| entered.session.memory.clone())
    }

    /// Whether all of this host's memory for the peer is free.
    pub fn is_memory_whole(&self) -> bool {
        let active = self.live.as_ref().and_then(|live| live.active.as_ref());
        active.is_none_or(|active| active.session.memory.is_whole())
    }

    /// Add up what happened on the present channel.
    pub fn tally(&mut self, env: &Env) {
        if let Some(channel) = self.channel() {
            let moved = channel.borrow().moved_out();
            env.check.borrow_mut().totals.moved_out += moved;
        }
    }

    /// Anything may come over this link until the epoch ends.
    pub fn taint(&mut self) {
        if let Some(channel) = self.channel() {
            channel.borrow().taint();
        }
        if let Some(channel) = self.polled() {
            channel.borrow().taint();
        }
    }

    /// The division of the inbound memory.
    pub fn layout(&self) -> Option<Layout> {
        self.live.as_ref().map(|live| live.layout)
    }
}

impl Host {
    fn live(&mut self, k: usize) -> &mut Live {
        self.ports[k]
            .live
            .as_mut()
            .expect("made before the machine runs")
    }

    /// Who this host is to the peer at that link.
    fn identity_for(&self, k: usize) -> Identity {
        let (id, index) = self.assigned;
        let given = self.ports[k].given;
        let (your_id, your_index) = match self.role {
            Role::Root => (PeerId::from_bdf(given, 0, 0), given),
            Role::Endpoint => (PeerId::SELF, 0),
        };
        Identity {
            role: self.role,
            id,
            index,
            your_id,
            your_index,
            features: 0,
        }
    }

    fn is_link_up(&self, k: usize) -> bool {
        let port = &self.ports[k];
        if !port.joint.up.get() {
            port.joint.seen[usize::from(self.index > port.peer)].set(true);
        }
        // A register that reads as all ones says that all links are up.
        port.joint.up.get() || self.ones_until > self.now
    }

    fn ensure_live(&mut self, k: usize) -> bool {
        if self.ports[k].live.is_some() {
            return true;
        }
        if !self.is_link_up(k) {
            return false;
        }
        let identity = self.identity_for(k);
        let crate::plan::HostPlan { queues, newest, .. } = self.env.plan.hosts[self.index];
        let port = &mut self.ports[k];
        let len = port.bytes.borrow().len() as u64;
        let layout = Layout::plan(len, queues).expect("large enough");
        let near = Near {
            bytes: port.bytes.clone(),
            wire: port.inw.clone(),
            races: true,
            dice: self.env.dice.clone(),
        };
        let local = Local {
            addr: 0x1_0000 * (1 + self.index as u64),
            layout,
            identity,
            further: Further::default(),
            support: WIRE.narrowed(0, newest).expect("a version is left"),
        };
        let dice = self.env.dice.clone();
        port.live = Some(Live {
            machine: Link::new(self.env.plan.config, local, dice),
            pool: Pool::new(near.clone(), layout.arena_off, layout.arena_len),
            near,
            layout,
            tx: None,
            rx: MessageRx::new(),
            more: false,
            identity,
            window: None,
            active: None,
        });
        true
    }

    /// Leave all peers for good.
    pub fn unload(&mut self) {
        for k in 0..self.ports.len() {
            if self.ports[k].live.is_some() {
                let todo = self.live(k).machine.shutdown();
                self.carry_out(k, todo);
                assert!(self.live(k).window.is_none(), "mapped after the end");
            }
            self.run_upper(k);
        }
    }

    /// The worker of a link.
    pub fn run_worker(&mut self, k: usize) {
        // Doorbells that are set although nobody was interrupted.
        self.answer(self.ports[k].bridge);
        if !self.ensure_live(k) {
            return self.kick_in(Entity::Worker(k), IDLE_MS * MS);
        }
        self.observe(k);
        self.follow_identity(k);
        let now = self.clock();
        let todo = self.live(k).machine.tick(now);
        self.carry_out(k, todo);
        if let Some(channel) = self.ports[k].channel() {
            {
                let mut channel = channel.borrow_mut();
                channel.repeat_indices();
                channel.age_kept();
            }
            self.poll_where(k, |_| true);
        }
        let next = match self.live(k).machine.deadline() {
            Some(at) => at.saturating_sub(now).div_ceil(MS).clamp(1, IDLE_MS),
            None => IDLE_MS,
        };
        self.kick_in(Entity::Worker(k), next * MS);
    }

    fn observe(&mut self, k: usize) {
        let now = self.clock();
        let up = self.is_link_up(k);
        let todo = self.live(k).machine.ntb_link(up, now);
        self.carry_out(k, todo);
        while let Some(mail) = self.read_mail(k) {
            let todo = self.live(k).machine.mailbox(mail, now);
            self.carry_out(k, todo);
            if !self.live(k).more {
                break;
            }
        }
        let channel = self.ports[k].channel();
        if channel.is_some_and(|channel| channel.borrow().is_faulty()) {
            self.env.check.borrow_mut().totals.resets += 1;
            let todo = self.live(k).machine.corrupt(now);
            self.carry_out(k, todo);
        }
        let near = self.live(k).near.clone();
        let hello = Hello::read(&near);
        let beat = read_beat(&near).unwrap_or(0);
        let before = self.live(k).machine.state();
        let todo = self.live(k).machine.observe(hello, beat, now);
        self.carry_out(k, todo);
        let rejected = before != State::Hold && self.live(k).machine.state() == State::Hold;
        let lying = self.env.check.borrow().lying;
        assert!(!rejected || lying, "an honest peer's Hello is rejected");
    }

    fn read_mail(&mut self, k: usize) -> Option<MailRead> {
        let (ones, by_messages) = (self.ones_until > self.now, self.env.plan.by_messages);
        let dice = self.env.dice.clone();
        self.send_messages(k);
        let port = &mut self.ports[k];
        let live = port.live.as_mut()?;
        live.more = false;
        if !by_messages {
            return Some(mailbox::read(|word| {
                if dice.once_in(8) {
                    // A store of the peer may arrive between any two reads.
                    port.inw.borrow_mut().deliver_one();
                }
                let whole = !ones && !dice.once_in(400);
                Some(if whole {
                    port.inw.borrow().pads[word]
                } else {
                    u32::MAX
                })
            }));
        }
        loop {
            let message = match ones {
                true => return None,
                false => port.inw.borrow_mut().messages.pop_front()?,
            };
            // A message that comes before the driver listens is lost.
            if dice.once_in(50) {
                continue;
            }
            if let Some(mail) = live.rx.accept(message) {
                live.more = true;
                return Some(mail);
            }
        }
    }

    fn put_mail(&mut self, k: usize, words: [u32; mailbox::WORDS]) {
        let cpu = self.cpu.get();
        let by_messages = self.env.plan.by_messages;
        let port = &mut self.ports[k];
        let Some(live) = &mut port.live else { return };
        if !by_messages {
            for (word, value) in mailbox::stores(&words) {
                port.out.borrow_mut().store_pad(cpu, word, value);
            }
            return;
        }
        if !live.tx.as_ref().is_some_and(|tx| tx.is_sending(&words)) {
            live.tx = Some(MessageTx::new(words));
        }
        self.send_messages(k);
    }

    fn send_messages(&mut self, k: usize) {
        let cpu = self.cpu.get();
        let port = &mut self.ports[k];
        let Some(tx) = port.live.as_mut().and_then(|live| live.tx.as_mut()) else {
            return;
        };
        while let Some(message) = tx.message() {
            if !port.out.borrow_mut().send_message(cpu, message) {
                return;
            }
            tx.sent();
        }
    }

    fn follow_identity(&mut self, k: usize) {
        let remote = self.live(k).active.as_ref().map(|active| active.remote);
        if let Some(remote) = remote {
            self.learn_identity(k, &remote);
        }
        let identity = self.identity_for(k);
        let (had, now) = (self.live(k).identity, self.clock());
        if identity != had {
            let renamed = had.id.is_host() && identity.id != had.id;
            let entered = self.live(k).active.as_ref().is_some_and(|a| a.entered);
            if renamed && entered {
                let todo = self.live(k).machine.corrupt(now);
                self.carry_out(k, todo);
            }
            self.live(k).identity = identity;
            let todo = self.live(k).machine.set_identity(identity, now);
            self.carry_out(k, todo);
            self.enter_peer(k);
        }
    }

    fn carry_out(&mut self, k: usize, todo: Actions) {
        for action in todo {
            self.act(k, action);
        }
    }

    fn ring_link(&mut self, k: usize) {
        self.bells.borrow_mut().push((k, LINK_BELL));
    }

    fn act(&mut self, k: usize, action: Action) {
        match action {
            Action::ResetInbound => {
                let live = self.live(k);
                assert!(
                    live.window.is_none(),
                    "memory is reset with the window in use"
                );
                live.near.zero(0, STATUS_LEN).expect("a status page");
            }
            Action::PublishMailbox(mail) => {
                let words = mail.encode().expect("valid");
                self.put_mail(k, words);
                self.ring_link(k);
            }
            Action::ClearMailbox => self.put_mail(k, [0; mailbox::WORDS]),
            Action::MapWindow { len, .. } => self.map(k, len),
            Action::UnmapWindow => {
                let live = self.live(k);
                assert!(live.active.is_none(), "unmapped under a living epoch");
                live.window = None;
            }
            Action::WriteHello(hello) => {
                let window = self.live(k).window.clone();
                let window = window.expect("mapped, or nothing is written");
                let check = &self.env.check;
                check.borrow_mut().hello(hello.epoch, hello.echo);
                hello.write(&window).expect("inside");
                if self.live(k).machine.state() != State::Up {
                    self.ring_link(k);
                }
            }
            Action::Beat(beat) => {
                let window = self.live(k).window.as_ref();
                write_beat(window.expect("mapped"), beat).expect("inside");
            }
            Action::LinkUp {
                local_epoch,
                peer,
                terms,
            } => self.link_up(k, local_epoch, peer, terms),
            Action::LinkDown(reason) => {
                self.note(|| format!("link {k} is down: {reason:?}"));
                self.link_down(k);
            }
            Action::PeerChanged(identity) => self.peer_changed(k, identity),
            Action::ReportVersion(version) => {
                let lying = self.env.check.borrow().lying;
                assert!(lying, "no host is another release: {version:?}");
            }
        }
    }

    fn map(&mut self, k: usize, len: u64) {
        let works = !std::mem::take(&mut self.ports[k].no_window);
        let window = Window {
            wire: self.ports[k].out.clone(),
            len: len as usize,
            cpu: self.cpu.clone(),
        };
        self.live(k).window = works.then_some(window);
        let now = self.clock();
        let todo = self.live(k).machine.mapped(works.then_some(len), now);
        self.carry_out(k, todo);
    }

    fn link_up(&mut self, k: usize, local_epoch: u64, peer: Hello, terms: Terms) {
        let bells = self.bells.clone();
        let (dice, keeps) = (self.env.dice.clone(), self.env.plan.keeps);
        let tainted = {
            let check = self.env.check.borrow();
            check.lying && !check.reset
        };
        let live = self.live(k);
        assert!(live.active.is_none());
        let far = live.window.clone().expect("mapped");
        let made = Making {
            port: k,
            epochs: (local_epoch, peer.epoch),
            tags: live.machine.tags().expect("the link is up"),
            ringing: Ringing::of(terms.version),
            near: live.near.clone(),
            far: far.clone(),
            bells,
            dice,
            keeps,
            tainted,
        };
        let channel = Channel::new(made, &live.layout, &peer.layout);
        let memory = Memory::begin(
            &live.pool,
            far,
            peer.layout.arena_off,
            peer.layout.arena_len,
        );
        live.active = Some(Active {
            session: Rc::new(Session {
                channel: Rc::new(RefCell::new(channel)),
                memory,
                id: peer.identity.id,
                index: peer.identity.index,
            }),
            remote: peer.identity,
            entered: false,
        });
        self.env.check.borrow_mut().up(local_epoch, peer.epoch);
        self.note(|| format!("link {k} is up: epochs {local_epoch:x} {:x}", peer.epoch));
        self.learn_identity(k, &peer.identity);
        self.enter_peer(k);
    }

    /// An endpoint learns from the root processor who it is.
    fn learn_identity(&mut self, k: usize, remote: &Identity) {
        if remote.role != Role::Root || self.role != Role::Endpoint {
            return;
        }
        if self.root.is_some_and(|root| root != k) {
            return;
        }
        self.root = Some(k);
        if self.assigned == (remote.your_id, remote.your_index) {
            return;
        }
        let (id, index) = (remote.your_id, remote.your_index);
        let known = self.assigned.0 != PeerId::SELF;
        assert!(!known || self.env.check.borrow().lying, "nobody is renamed");
        if id.is_host() {
            self.assigned = (id, index);
            for k in 0..self.ports.len() {
                self.kick(Entity::Worker(k));
            }
        }
    }

    fn enter_peer(&mut self, k: usize) {
        let own = self.self_id();
        let Some(active) = &mut self.live(k).active else {
            return;
        };
        let remote = active.remote;
        if active.entered || !remote.id.is_host() || own == PeerId::SELF {
            return;
        }
        active.entered = true;
        let session = Session {
            channel: active.session.channel.clone(),
            memory: active.session.memory.clone(),
            id: remote.id,
            index: remote.index,
        };
        self.follow(k, Some(Rc::new(session)));
    }

    fn follow(&mut self, k: usize, session: Option<Rc<Session>>) {
        self.ports[k].wanted = session;
        // Functions may take long to let a peer go.
        match self.env.dice.once_in(4) {
            true => self.kick_in(Entity::Upper(k), self.env.dice.below(60 * MS)),
            false => self.kick(Entity::Upper(k)),
        }
    }

    fn peer_changed(&mut self, k: usize, identity: Identity) {
        self.learn_identity(k, &identity);
        let Some(active) = &mut self.live(k).active else {
            return;
        };
        if active.entered && identity.id != active.remote.id {
            let now = self.clock();
            let todo = self.live(k).machine.corrupt(now);
            return self.carry_out(k, todo);
        }
        active.remote = identity;
        self.enter_peer(k);
    }

    fn link_down(&mut self, k: usize) {
        let env = self.env.clone();
        self.ports[k].tally(&env);
        let active = self.live(k).active.take().expect("the link was up");
        if self.root == Some(k) {
            self.root = None;
        }
        active.session.channel.borrow_mut().close();
        // Before the peer, who may rely on it, is told of another epoch.
        active.session.memory.end();
        self.follow(k, None);
    }

    /// The upper side: enters the peer, or removes it.
    pub fn run_upper(&mut self, k: usize) {
        let port = &mut self.ports[k];
        let same = match (&port.current, &port.wanted) {
            (Some(entered), Some(wanted)) => Rc::ptr_eq(&entered.session, wanted),
            (None, None) => true,
            _ => false,
        };
        if same {
            return;
        }
        let wanted = port.wanted.clone();
        self.user_peer_down(k);
        if let Some(life) = self.ports[k]
            .current
            .take()
            .and_then(|entered| entered.life)
        {
            self.peer_del(life);
        }
        let Some(session) = wanted else { return };
        let life = self.peer_add_direct(k, session.id, session.index, &session.channel);
        self.note(|| format!("link {k}: peer {:x} is entered: {life:?}", session.id.0));
        self.ports[k].current = Some(Entered { session, life });
        if let Some(life) = life {
            self.poll_where(k, |_| true);
            self.user_peer_up(k, life);
        }
    }

    /// One poll of a queue.
    pub fn run_poll(&mut self, k: usize, queue: u16) {
        if self.deaf_until > self.now {
            let ns = self.deaf_until - self.now;
            return self.kick_in(Entity::Napi(k, queue), ns);
        }
        let (Some(channel), Some(life)) = (self.ports[k].polled(), self.ports[k].entered()) else {
            return;
        };
        let budget = self.env.dice.one_of(&[1, 4, 64]);
        let done = poll_queue(queue, budget, |number, most| {
            let (number, mut done) = (number as usize, 0);
            while let Some(received) = {
                let mut channel = channel.borrow_mut();
                channel.receive(number, most, &mut done)
            } {
                self.receive(life, number, &received);
            }
            channel.borrow_mut().end_poll(number);
            done
        });
        for number in rings(queue) {
            let units = channel.borrow_mut().completions(number);
            if let Some(units) = units {
                self.tx_completed(life, queue_of(number), units);
            }
        }
        if done >= 4.min(budget) {
            // Other tasks go first.
            let ns = self.env.dice.below(MS);
            return self.kick_in(Entity::Napi(k, queue), ns);
        }
        if arm(&mut channel.borrow_mut(), queue) {
            self.kick(Entity::Napi(k, queue));
        } else if done > 0 && self.env.dice.once_in(2) {
            rings(queue).for_each(|number| channel.borrow_mut().mute(number));
            let ns = self.env.dice.below(MS);
            self.kick_in(Entity::Linger(k, queue), ns);
        }
    }

    /// A second look at a queue of which a side went to sleep.
    pub fn run_look(&mut self, k: usize, queue: u16) {
        let channel = self.ports[k].polled();
        if channel.is_some_and(|channel| channel.borrow().is_overdue(queue)) {
            self.kick(Entity::Napi(k, queue));
        }
    }

    /// See to it that queues are looked at once more of which a side has gone to sleep, and
    /// measure how long sides sleep although there is something for them.
    pub fn follow_sleep(&mut self) {
        let look = 2 * self.env.plan.delay;
        for k in 0..self.ports.len() {
            let Some(channel) = self.ports[k].polled() else {
                self.ports[k].overdue = [None; 2];
                continue;
            };
            let queues = channel.borrow().queues();
            for queue in channel.borrow().take_asleep() {
                self.run_in(Entity::Look(k, queue), look);
            }
            for queue in 0..queues {
                let overdue = channel.borrow().is_overdue(queue);
                let since = &mut self.ports[k].overdue[usize::from(queue)];
                match (overdue, since.take()) {
                    (true, before) => *since = Some(before.unwrap_or(self.now)),
                    (false, Some(before)) => {
                        let slept = self.now - before;
                        self.env.check.borrow_mut().slept(slept);
                    }
                    (false, None) => {}
                }
            }
        }
    }

    /// The end of watching a queue.
    pub fn run_linger(&mut self, k: usize, queue: u16) {
        let Some(channel) = self.ports[k].polled() else {
            return;
        };
        let mut channel = channel.borrow_mut();
        let ready = rings(queue).any(|number| channel.is_ready(number));
        if ready || arm(&mut channel, queue) {
            drop(channel);
            self.kick(Entity::Napi(k, queue));
        }
    }

    /// Reset all links, as if all peers had lied.
    pub fn reset_links(&mut self) {
        for k in 0..self.ports.len() {
            let now = self.clock();
            if self.ports[k].live.is_some() {
                let todo = self.live(k).machine.corrupt(now);
                self.carry_out(k, todo);
                self.kick(Entity::Worker(k));
            }
        }
    }
}

fn arm(channel: &mut Channel, queue: u16) -> bool {
    rings(queue).fold(false, |more, number| channel.arm_data(number) | more)
}
