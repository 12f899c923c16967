// SPDX-License-Identifier: GPL-2.0-only
//! One running program: its output, its input, its time limit, its end.
//!
//! Each program leads a process group of its own, so that killing it takes its
//! children along. A program on a terminal leads a session (`setsid --ctty`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender as Channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{kill_process, kill_process_group, pidfd_open, Pid, PidfdFlags, Signal};
use rustix::pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags};
use rustix::termios::{tcsetwinsize, Winsize};

use crate::agent::Table;
use crate::port::Sender;
use crate::protocol::{Bytes, Event, Exec, Terminal};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const CHUNK: usize = 48 << 10;
/// After a program's end, a child that it left behind may hold its output open.
const OUTPUT_GRACE: Duration = Duration::from_millis(300);

/// What can be done to a running program.
pub struct Control {
    group: Pid,
    input: Option<Channel<Vec<u8>>>,
    terminal: Option<OwnedFd>,
}

impl Control {
    pub fn kill(&self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such signal"))?;
        kill_group(self.group, signal)
    }

    pub fn input(&self, data: Vec<u8>) -> io::Result<()> {
        // A program that has closed its input does not want more of it.
        if let Some(input) = &self.input {
            let _ = input.send(data);
        }
        Ok(())
    }

    pub fn resize(&self, terminal: Terminal) -> io::Result<()> {
        match &self.terminal {
            Some(master) => set_size(master, terminal),
            None => Ok(()),
        }
    }
}

/// A program in its first moments may not lead its group yet.
fn kill_group(group: Pid, signal: Signal) -> io::Result<()> {
    match kill_process_group(group, signal).or_else(|_| kill_process(group, signal)) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn set_size(master: impl AsFd, terminal: Terminal) -> io::Result<()> {
    let size = Winsize {
        ws_row: terminal.rows,
        ws_col: terminal.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(master, size)?)
}

/// Start the program and the threads that look after it.
///
/// # Errors
/// When the program cannot be started, or has no name.
pub fn start(exec: Exec, sender: Sender, table: Table) -> io::Result<Control> {
    let running = match exec.terminal {
        Some(terminal) => start_on_terminal(&exec, terminal)?,
        None => start_on_pipes(&exec)?,
    };
    let pid = running.child.id();
    let group = Pid::from_child(&running.child);
    sender.send(&Event::Started { id: exec.id, pid });
    let control = Control {
        group,
        input: running.input.map(feed),
        terminal: running.terminal,
    };
    let deadline = exec
        .timeout_ms
        .map(|limit| Instant::now() + Duration::from_millis(limit));
    let (done, outputs_done) = mpsc::channel();
    for (is_error, output) in running.outputs {
        let (sender, done, id) = (sender.clone(), done.clone(), exec.id);
        thread::spawn(move || {
            relay(id, is_error, output, &sender);
            let _ = done.send(());
        });
    }
    drop(done);
    thread::spawn(move || {
        attend(
            exec.id,
            running.child,
            deadline,
            &outputs_done,
            &sender,
            &table,
        )
    });
    Ok(control)
}

struct Running {
    child: Child,
    input: Option<File>,
    /// Whether it is standard error, and where to read it.
    outputs: Vec<(bool, File)>,
    terminal: Option<OwnedFd>,
}

fn program(argv: &[String], exec: &Exec) -> io::Result<Command> {
    let (name, arguments) = argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "empty command"))?;
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", "/root")
        .env("LANG", "C.UTF-8")
        .envs(&exec.env)
        .current_dir("/");
    Ok(command)
}

fn start_on_pipes(exec: &Exec) -> io::Result<Running> {
    let mut command = program(&exec.argv, exec)?;
    command
        .process_group(0)
        .stdin(if exec.input {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdout = child.stdout.take().map(|out| (false, OwnedFd::from(out)));
    let stderr = child.stderr.take().map(|err| (true, OwnedFd::from(err)));
    let outputs = stdout.into_iter().chain(stderr);
    Ok(Running {
        input: child
            .stdin
            .take()
            .map(|input| File::from(OwnedFd::from(input))),
        outputs: outputs
            .map(|(is_error, fd)| (is_error, File::from(fd)))
            .collect(),
        child,
        terminal: None,
    })
}

fn start_on_terminal(exec: &Exec, terminal: Terminal) -> io::Result<Running> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    set_size(&master, terminal)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = File::options()
        .read(true)
        .write(true)
        .open(name.to_string_lossy().as_ref())?;
    let mut argv = vec!["setsid".to_owned(), "--ctty".to_owned(), "--".to_owned()];
    argv.extend(exec.argv.iter().cloned());
    let mut command = program(&argv, exec)?;
    command
        .stdin(slave.try_clone()?)
        .stdout(slave.try_clone()?)
        .stderr(slave);
    let child = command.spawn()?;
    Ok(Running {
        child,
        input: Some(File::from(master.try_clone()?)),
        outputs: vec![(false, File::from(master.try_clone()?))],
        terminal: Some(master),
    })
}

/// Write input at the program's own pace; empty input closes it.
fn feed(mut input: File) -> Channel<Vec<u8>> {
    let (channel, incoming) = mpsc::channel::<Vec<u8>>();
    thread::spawn(move || {
        for data in incoming {
            if data.is_empty() || input.write_all(&data).is_err() {
                return;
            }
        }
    });
    channel
}

fn relay(id: u64, is_error: bool, mut output: File, sender: &Sender) {
    let mut chunk = vec![0; CHUNK];
    loop {
        match output.read(&mut chunk) {
            // A terminal whose program has gone reports an error.
            Ok(0) => return,
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
            Err(_) => {}
            Ok(length) => {
                let data = Bytes(chunk.iter().take(length).copied().collect());
                sender.send(&if is_error {
                    Event::Err { id, data }
                } else {
                    Event::Out { id, data }
                });
            }
        }
    }
}

/// Wait for the program's end, by force if its time is up, and report it.
fn attend(
    id: u64,
    mut child: Child,
    deadline: Option<Instant>,
    outputs_done: &Receiver<()>,
    sender: &Sender,
    table: &Table,
) {
    let timed_out = deadline.is_some_and(|deadline| !ends_before(&child, deadline));
    if timed_out {
        // It may just have ended by itself, which is as good.
        let _ = kill_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait();
    let grace = Instant::now() + OUTPUT_GRACE;
    while outputs_done
        .recv_timeout(grace.saturating_duration_since(Instant::now()))
        .is_ok()
    {}
    table.remove(id);
    sender.send(&match status {
        Ok(status) => exit(id, status, timed_out),
        Err(error) => Event::Failed {
            id: Some(id),
            message: error.to_string(),
        },
    });
}

fn exit(id: u64, status: ExitStatus, timed_out: bool) -> Event {
    Event::Exit {
        id,
        code: status.code(),
        signal: status.signal(),
        timed_out,
    }
}

fn ends_before(child: &Child, deadline: Instant) -> bool {
    let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return true;
    };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else {
            return true;
        };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return false,
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(_) => return true,
        }
    }
}
