// SPDX-License-Identifier: MIT OR Apache-2.0

//! What several threads and processes do at once: objects that are closed while they are used,
//! contexts in the wrong hands, and processes that end in the midst of it.

use crate::{
    caller::{errno, OK},
    forms::{Form, CLOSE, FORMS},
    objects::Kind,
    random::Random,
    worker::{map, now, Worker, CONTEXTS, PAGE},
};
use libc::{EACCES, ENOENT, ENOMEM, ETIMEDOUT};
use mp_fabric::sys::*;
use std::{ffi::CString, mem::offset_of, ptr::null, time::Duration};

/// Threads of a crowd, and calls of each.
const CROWD: u64 = 3;
const CROWD_CALLS: usize = 40;
/// Errors that any call may have.
const OF_ALL: [i32; 6] = [
    // The descriptor has been closed.
    libc::EBADF,
    libc::EFAULT,
    libc::EINVAL,
    libc::E2BIG,
    libc::ESHUTDOWN,
    libc::ENOTTY,
];

/// Make a call with a structure in bytes; its error, or [`OK`].
fn call(fd: i32, form: &Form, bytes: &mut [u64]) -> i32 {
    // SAFETY: The structure is as long as it says, and all else is checked by the kernel; what
    // it points to is memory for that, or none.
    match unsafe { libc::ioctl(fd, u64::from(form.number), bytes.as_mut_ptr()) } {
        0 => OK,
        _ => errno(),
    }
}

/// A structure with these words at these places, in bytes.
fn structure(form: &Form, words: &[(usize, u64)]) -> [u64; 16] {
    let mut bytes = [0; 16];
    let mut put = |at: usize, word: u64, half: bool| {
        let (index, shift) = (at / 8, at % 8 * 8);
        match half {
            true => bytes[index] |= (word & 0xFFFF_FFFF) << shift,
            false => bytes[index] = word,
        }
    };
    put(0, form.size as u64, true);
    for (at, word) in words {
        put(*at, *word, *word <= u64::from(u32::MAX));
    }
    bytes
}

/// Half a word of a random structure: nothing, a small number, a handle, or bytes of a page.
fn half_of(random: &mut Random, handles: &[u32]) -> u64 {
    match random.below(4) {
        0 => 0,
        1 => random.below(6),
        2 => u64::from(random.pick(handles)),
        _ => PAGE,
    }
}

/// One of a crowd: random calls of a context that others use at the same time. What it has been
/// told that it must not be.
fn of_crowd(fd: i32, random: &mut Random, handles: &[u32], powers: bool) -> Option<String> {
    let mut array = [0_u64; 1024];
    let mut handles = handles.to_vec();
    for _ in 0..CROWD_CALLS {
        let form = &FORMS[random.index(FORMS.len())];
        let mut bytes = [0_u64; 16];
        for word in &mut bytes[..form.size.div_ceil(8)] {
            // The upper half of what is wide is mostly zero.
            let upper = match random.one_in(4) {
                true => 0,
                false => half_of(random, &handles),
            };
            *word = half_of(random, &handles) | upper << 32;
        }
        let size = form.size as u64;
        bytes[0] = bytes[0] >> 32 << 32 | size;
        if let Some(at) = form.array {
            bytes[at / 8] = array.as_mut_ptr().expose_provenance() as u64;
        }
        if let Some(at) = form.deadline {
            bytes[at / 8] = now() + random.below(500_000);
        }
        if form.number == MP_IOC_SEGMENT_REGISTER && powers {
            let at = offset_of!(mp_segment_register, flags);
            bytes[at / 8] &= !(0xFFFF_FFFF << (at % 8 * 8));
        }
        if form.number == MP_IOC_SESSION_OPEN && powers {
            // Who may, must not have peers write anywhere.
            let at = offset_of!(mp_session_open, location);
            let shift = at % 8 * 8;
            bytes[at / 8] &= !(0xFFFF_FFFF << shift);
            bytes[at / 8] |= u64::from(MP_LOCATION_LOGICAL) << shift;
        }
        let got = call(fd, form, &mut bytes);
        let may = [&[OK], &OF_ALL[..], form.errors].concat();
        if !may.contains(&got) {
            return Some(format!("{} of a crowd: error {got}", form.name));
        }
        if got == OK {
            // Whatever it is that was made: handles are among what was written.
            let halves = bytes
                .iter()
                .flat_map(|word| [*word as u32, (*word >> 32) as u32]);
            handles.extend(halves.filter(|half| *half > 6).take(8));
        }
    }
    None
}

/// Try a context that is another process's; what it may not have said.
fn try_foreign(fd: i32) -> Option<String> {
    for form in FORMS {
        let got = call(fd, form, &mut structure(form, &[]));
        if got != EACCES {
            return Some(format!("{} gave another process error {got}", form.name));
        }
    }
    for offset in [0, PAGE, 1 << 32] {
        if map(fd, offset, PAGE as usize) != -1 || errno() != EACCES {
            return Some("another process maps its memory".to_owned());
        }
    }
    let mut byte = [0_u8; 64];
    // SAFETY: Memory for that.
    let read = unsafe { libc::read(fd, byte.as_mut_ptr().cast(), byte.len()) };
    (read != -1 || errno() != EACCES).then(|| "another process reads its events".to_owned())
}

/// What a process does that has become another program: it has contexts that it must not use.
pub fn heir(fds: &[i32]) -> Result<(), String> {
    match fds.iter().find_map(|fd| try_foreign(*fd)) {
        Some(why) => Err(why),
        None => Ok(()),
    }
}

/// A pair of sockets over which descriptors go.
fn sockets() -> [i32; 2] {
    let mut both = [-1; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: Two descriptors are written.
    let result = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, both.as_mut_ptr()) };
    assert_eq!(result, 0, "socketpair");
    both
}

/// Room for a message with one descriptor.
#[repr(align(8))]
struct Control([u8; 64]);

/// A message of one byte, whose control data is at `control`.
fn with_message<R>(control: &mut Control, f: impl FnOnce(&mut libc::msghdr) -> R) -> R {
    let mut byte = 0_u8;
    let mut vector = libc::iovec {
        iov_base: std::ptr::from_mut(&mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: Zero is a message without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: Arithmetic.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as usize;
    f(&mut message)
}

/// Send a descriptor.
fn give(socket: i32, fd: i32) -> bool {
    let mut control = Control([0; 64]);
    with_message(&mut control, |message| {
        // SAFETY: There is room for one header and one descriptor, which is aligned.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd);
            libc::sendmsg(socket, message, libc::MSG_NOSIGNAL) == 1
        }
    })
}

/// Receive a descriptor, if one comes.
fn get(socket: i32) -> Option<i32> {
    let mut control = Control([0; 64]);
    with_message(&mut control, |message| {
        // SAFETY: As above; the header is looked at only if it was written.
        unsafe {
            if libc::recvmsg(socket, message, libc::MSG_CMSG_CLOEXEC) != 1 {
                return None;
            }
            let header = libc::CMSG_FIRSTHDR(message);
            (!header.is_null()).then(|| libc::CMSG_DATA(header).cast::<i32>().read_unaligned())
        }
    })
}

fn close_all(fds: &[i32]) {
    for fd in fds {
        // SAFETY: Descriptors of the caller, who forgets them.
        unsafe { libc::close(*fd) };
    }
}

impl Worker {
    /// A context of this process, with one of its descriptors.
    fn own_context(&mut self) -> Option<(usize, i32)> {
        Some(self.context()).filter(|(at, _)| !self.contexts[*at].is_inherited)
    }

    /// Close an object while another thread waits for it.
    pub fn race(&mut self) {
        let Some((at, fd)) = self.own_context() else {
            return;
        };
        let context = &self.contexts[at];
        let sessions = context.sessions.iter().map(|session| {
            let mask = MP_EVENT_SIGNAL | MP_EVENT_PAIRED;
            (session.handle, mask)
        });
        let things = context.things.iter().map(|t| (t.handle, t.events()));
        let objects: Vec<_> = sessions.chain(things).collect();
        if objects.is_empty() {
            return;
        }
        let (handle, mask) = self.random().pick(&objects);
        self.caller.log.begin(&format!("race for {handle:#x}"));
        let pause = Duration::from_micros(self.caller.random.below(300));
        let waiter = std::thread::spawn(move || {
            let mut wait = mp_wait {
                size: size_of::<mp_wait>() as u32,
                target: handle,
                mask,
                deadline: now() + 5_000_000,
                ..Default::default()
            };
            // SAFETY: The structure that goes with the number.
            match unsafe { libc::ioctl(fd, u64::from(MP_IOC_WAIT), &mut wait) } {
                0 => OK,
                _ => errno(),
            }
        });
        std::thread::sleep(pause);
        self.close_surely((at, fd), handle);
        let got = waiter.join().expect("it does not panic");
        self.caller.expect("WAIT", got, &[OK, ENOENT, ETIMEDOUT]);
    }

    /// Close an object that is there.
    fn close_surely(&mut self, (at, fd): (usize, i32), handle: u32) {
        let place = offset_of!(mp_handle, handle);
        let mut close = structure(&CLOSE, &[(place, u64::from(handle))]);
        if call(fd, &CLOSE, &mut close) != OK {
            self.caller.fail("it was closed already");
        }
        let context = &mut self.contexts[at];
        context.sessions.retain(|session| session.handle != handle);
        self.forget(at, handle);
    }

    /// Close an object while another thread maps and unmaps its memory.
    pub fn race_for_memory(&mut self) {
        let Some((at, fd)) = self.own_context() else {
            return;
        };
        let things = self.contexts[at].things.iter();
        let mapped = |kind| matches!(kind, Kind::Segment | Kind::Connection(_));
        let mut things = things.filter(|thing| mapped(thing.kind) && thing.window.0 != 0);
        let Some(thing) = things.next().copied() else {
            return self.describe_segment();
        };
        self.caller
            .log
            .begin(&format!("race for memory of {:#x}", thing.handle));
        let (offset, len) = thing.window;
        let len = len.next_multiple_of(PAGE).min(16 * PAGE) as usize;
        let mapper = std::thread::spawn(move || {
            for _ in 0..24 {
                let address = map(fd, offset, len);
                if address == -1 {
                    match errno() {
                        ENOENT => return OK,
                        ENOMEM => continue,
                        error => return error,
                    }
                }
                for at in (address as usize..address as usize + len).step_by(PAGE as usize) {
                    // SAFETY: Inside of the mapping, aligned, shared with who does the same.
                    unsafe {
                        (at as *mut u64).write_volatile(1);
                        (at as *const u64).read_volatile();
                    }
                }
                // SAFETY: A mapping of this thread.
                unsafe { libc::munmap(address as *mut _, len) };
            }
            OK
        });
        std::thread::sleep(Duration::from_micros(self.caller.random.below(500)));
        self.close_surely((at, fd), thing.handle);
        let got = mapper.join().expect("it does not panic");
        self.caller.expect("mmap", got, &[OK]);
    }

    /// Several threads call one context at random, and it is closed while they do.
    pub fn crowd(&mut self) {
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
        let opened = self.caller.plain("open", "for a crowd", &[OK], || {
            // SAFETY: A path.
            i64::from(unsafe { libc::open(c"/dev/mp_fabric".as_ptr(), flags) })
        });
        let Ok(fd) = opened else { return };
        let fd = fd as i32;
        self.caller.log.begin("crowd");
        let mut known = self.interfaces.clone();
        known.push(0);
        // Also objects of other contexts, and those that will be made next.
        let next = self.contexts.iter().flat_map(|context| &context.things);
        let next = next.map(|thing| thing.handle).max().unwrap_or(0);
        known.extend((1..16).map(|n| next.wrapping_add(n)));
        let is_privileged = self.powers.is_privileged;
        let threads: Vec<_> = (0..CROWD)
            .map(|number| {
                let mut random = Random::new(self.caller.random.next(), number);
                let known = known.clone();
                std::thread::spawn(move || of_crowd(fd, &mut random, &known, is_privileged))
            })
            .collect();
        if self.random().one_in(2) {
            // Calls that are under way go on, those that come find no file.
            std::thread::sleep(Duration::from_micros(self.caller.random.below(3000)));
            close_all(&[fd]);
        }
        let wrong: Vec<_> = threads
            .into_iter()
            .filter_map(|thread| thread.join().expect("it does not panic"))
            .collect();
        // A second time, that is nothing.
        close_all(&[fd]);
        if let Some(why) = wrong.first() {
            self.caller.fail(why);
        }
    }

    /// Fork; in the child, do as `f` does.
    fn fork(&mut self, f: impl FnOnce(&mut Worker)) -> i32 {
        // SAFETY: No arguments.
        let parent = unsafe { libc::getpid() };
        // SAFETY: There is one thread only, and the child uses what it has a copy of.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: No pointers; nobody is left behind by who is killed.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                // SAFETY: No arguments.
                if unsafe { libc::getppid() } != parent {
                    std::process::exit(0);
                }
                self.contexts
                    .iter_mut()
                    .for_each(|context| context.is_inherited = true);
                // Windows are not inherited.
                self.maps.clear();
                f(self);
                std::process::exit(0);
            }
            child => child,
        }
    }

    /// Wait for a child.
    fn reap(&self, child: i32) -> i32 {
        let mut status = 0;
        // SAFETY: A status is written.
        while unsafe { libc::waitpid(child, &mut status, 0) } == -1 && errno() == libc::EINTR {}
        status
    }

    /// A child that inherits contexts, which are useless to it, and uses one of its own.
    pub fn child(&mut self) {
        let child = self.fork(|worker| {
            worker.close_file();
            worker.contexts.truncate(CONTEXTS - 1);
            worker.open();
            for _ in 0..12 {
                match worker.random().below(14) {
                    0 => worker.open_session(),
                    1 => worker.signal(),
                    2 => worker.map(),
                    3 => worker.read(),
                    4 => worker.wait(),
                    5 => worker.close(),
                    6 => worker.describe(),
                    7 => worker.create_segment(),
                    8 => worker.connect(),
                    9 => worker.offer(),
                    10 => worker.send(),
                    11 => worker.receive(),
                    12 => worker.create_queue(),
                    _ => worker.info(),
                }
            }
        });
        if child > 0 && self.reap(child) != 0 {
            std::process::exit(1);
        }
    }

    /// A child that becomes another program, which has contexts of its parent, and one that it
    /// has opened itself: none is of any use to it.
    pub fn become_another(&mut self) {
        let child = self.fork(|worker| {
            worker.open();
            let at = worker.contexts.len() - 1;
            if !worker.contexts[at].is_inherited {
                worker.create_segment();
            }
            let fds: Vec<_> = worker
                .contexts
                .iter()
                .map(|context| context.fds[0])
                .collect();
            let mut words = vec![c"fabric_storm".to_owned(), c"--heir".to_owned()];
            for fd in &fds {
                // SAFETY: Descriptors of this process.
                unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) };
                words.extend(CString::new(fd.to_string()));
            }
            let mut words: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
            words.push(null());
            // SAFETY: Strings that live, and null behind them.
            unsafe { libc::execv(c"/proc/self/exe".as_ptr(), words.as_ptr()) };
            worker.caller.fail("it has not become another program");
        });
        if child > 0 && self.reap(child) != 0 {
            self.caller.fail("another program has used a context");
        }
    }

    /// Contexts go over a socket, in both directions: they are of no use to who gets them, also
    /// when their owner has ended. Some arrive nowhere.
    pub fn pass(&mut self) {
        let [here, there] = sockets();
        let child = self.fork(|worker| {
            close_all(&[here]);
            worker.contexts.clear();
            worker.open();
            worker.create_segment();
            let own = worker.contexts[0].fds[0];
            let was_sent = give(there, own);
            if worker.random().one_in(3) {
                // What the parent has sent is on its way for ever.
                return;
            }
            if let Some(why) = get(there).and_then(try_foreign) {
                worker.caller.fail(&why);
            }
            // The own one is as it was, for whoever else may have it.
            let is_open = map(own, 1 << 43, PAGE as usize) == -1 && errno() != EACCES;
            if !was_sent || !is_open {
                worker
                    .caller
                    .fail("a context that was passed on is not what it was");
            }
        });
        close_all(&[there]);
        if child <= 0 {
            return close_all(&[here]);
        }
        let (_, fd) = self.context();
        if !give(here, fd) {
            // The child is not to wait for it.
            // SAFETY: A socket of this process.
            unsafe { libc::shutdown(here, libc::SHUT_WR) };
        }
        self.caller.log.begin(&format!("pass fd {fd}"));
        // An end without a message: the child has left without a word.
        let got = match self.random().one_in(3) {
            true => None,
            false => get(here),
        };
        self.caller.expect("receive", OK, &[OK]);
        // While its owner lives, and when it has ended.
        for is_over in [false, true] {
            if is_over && self.reap(child) != 0 {
                std::process::exit(1);
            }
            if let Some(why) = got.and_then(try_foreign) {
                self.caller.fail(&why);
            }
        }
        close_all(&[here]);
        close_all(got.as_slice());
    }

    /// A child that waits for ever, with an object of its own, and is killed.
    pub fn victim(&mut self) {
        let child = self.fork(|worker| {
            worker.contexts.clear();
            worker.open();
            for _ in 0..4 {
                worker.open_session();
                worker.create_segment();
                worker.offer();
                worker.connect();
            }
            let context = &worker.contexts[0];
            let session = context.sessions.first().map(|session| {
                let mask = MP_EVENT_PAIRED | MP_EVENT_SIGNAL;
                (session.handle, mask)
            });
            let thing = context.things.last().map(|t| (t.handle, t.events()));
            let waits = [session, thing];
            let Some((target, mask)) = worker.random().pick(&waits) else {
                return;
            };
            let mut wait = mp_wait {
                size: size_of::<mp_wait>() as u32,
                target,
                mask,
                deadline: MP_DEADLINE_NEVER,
                ..Default::default()
            };
            let fd = worker.contexts[0].fds[0];
            // SAFETY: The structure that goes with the number.
            unsafe { libc::ioctl(fd, u64::from(MP_IOC_WAIT), &mut wait) };
        });
        if child > 0 {
            std::thread::sleep(Duration::from_micros(self.caller.random.below(4000)));
            // SAFETY: A child of this process that has not been waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            let status = self.reap(child);
            if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 0 {
                std::process::exit(1);
            }
        }
    }
}
