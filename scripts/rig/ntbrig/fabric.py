# SPDX-License-Identifier: GPL-2.0-only
"""A set of guests and the ivshmem servers between them, one for each NTB."""

import contextlib
import dataclasses
import signal
import socket
import sys
import time
from pathlib import Path

from . import initramfs, kmodules, qemu
from .guest import Guest
from .run import Run
from .settings import MIB, RigError, Settings, host_names

_SERVER_TIMEOUT = 10.0
_TRIAL_TIMEOUT = 10.0
_POLL = 0.005


class Fabric:
    """A context manager: inside, all guests have booted and take commands.

    `hosts` is a guest count or a whole `Settings`; further keywords override
    settings. Consoles go to the directory `logs`, by default the run's own,
    which does not outlive it.
    """

    def __init__(self, hosts=3, logs=None, **overrides):
        base = hosts if isinstance(hosts, Settings) else Settings(hosts=hosts, **overrides)
        self.settings = dataclasses.replace(base, **overrides)
        self._logs = Path(logs) if logs else None
        self._run = None
        self._servers = []
        self.hosts = []

    @property
    def rp(self):
        """The root processor: the guest with port 0."""
        return self.hosts[0]

    @property
    def eps(self):
        return self.hosts[1:]

    @property
    def directory(self):
        """Directory of the run: sockets, RAM files."""
        return self._run.directory

    def __getitem__(self, name):
        """The host with this name."""
        for guest in self.hosts:
            if guest.name == name:
                return guest
        raise KeyError(f"no host {name}; there are {', '.join(g.name for g in self.hosts)}")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.close()

    @contextlib.contextmanager
    def server_frozen(self):
        """Inside, hosts come to no end that they have not announced themselves."""
        for server in self._servers:
            self._run.signal(server, signal.SIGSTOP)
        try:
            yield
        finally:
            for server in self._servers:
                self._run.signal(server, signal.SIGCONT)

    def unplug(self, guest):
        """Take out the cables of a host: its links are down."""
        self._order("unplug", guest)

    def plug(self, guest):
        """Put them in again."""
        self._order("plug", guest)

    def _order(self, order, guest):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control:
            for board in self.settings.boards:
                if guest.port in board.hosts:
                    directory = qemu.board_directory(self._run.directory, board)
                    words = f"{order} {board.port(guest.port)}"
                    control.sendto(words.encode(), str(directory / "control.sock"))

    def start(self):
        """Boot all guests at once."""
        of_each = self.settings.ram + self.settings.instrument
        self._run = Run(self.settings.hosts * of_each + 16 * MIB)
        try:
            self._prepare()
            for guest in self.hosts:
                guest.start()
            for guest in self.hosts:
                guest.wait_ready()
        except BaseException:
            self.close()
            raise

    def close(self):
        """End everything; harmless when there is nothing."""
        run, self._run = self._run, None
        if run:
            run.close()

    def _prepare(self):
        directory = self._run.directory
        logs = self._logs or directory
        logs.mkdir(parents=True, exist_ok=True)
        if self.settings.accel == "kvm":
            self._try_acceleration(logs / "trial.log")
        modules = kmodules.before_files(self.settings.modules_dir)
        archive = initramfs.pack(self.settings.guest_init, modules)
        (directory / "initramfs").write_bytes(archive)
        for board in self.settings.boards:
            self._start_server(board, logs / f"server{board.number}.log")
        names = host_names(self.settings.hosts)
        for port, name in enumerate(names):
            with open(qemu.ram_file(directory, port), "wb") as ram:
                ram.truncate(self.settings.ram)
            if self.settings.instrument:
                with open(qemu.instrument_file(directory, port), "wb") as memory:
                    memory.truncate(self.settings.instrument)
            guest = Guest(self.settings, self._run, port, name, logs)
            guest.console_path.unlink(missing_ok=True)
            self.hosts.append(guest)

    def _try_acceleration(self, log):
        """Fall back to emulation unless a kernel boots to its end with KVM.

        `/dev/kvm` may exist and yet hang at boot, on nested virtual machines.
        """
        pid = self._run.spawn(qemu.trial_command(self.settings), log)
        ended = self._run.wait(pid, _TRIAL_TIMEOUT)
        if ended and self._run.status(pid) == 0:
            return
        self._run.signal(pid, signal.SIGKILL)
        how = "failed" if ended else f"did not end in {_TRIAL_TIMEOUT:.0f} s"
        print(f"rig: a trial boot with KVM {how}; emulating instead ({log})", file=sys.stderr)
        self.settings = dataclasses.replace(self.settings, accel="tcg")

    def _start_server(self, board, log):
        log.unlink(missing_ok=True)
        s = self.settings
        directory = qemu.board_directory(self._run.directory, board)
        directory.mkdir()
        pid = self._run.spawn(
            [
                s.server, "--dir", directory,
                "--ports", len(board.hosts), "--vectors", s.vectors, "--ram-size", s.ram,
                "--area-base", board.area_base, "--area-size", board.area_size,
                "--plain-slot-base", board.plain_slot_base,
            ],  # fmt: skip
            log,
        )
        self._servers.append(pid)
        deadline = time.monotonic() + _SERVER_TIMEOUT
        while "ready" not in log.read_text():
            if self._run.has_ended(pid) or time.monotonic() > deadline:
                raise RigError(f"the ivshmem server did not start: {log.read_text().strip()}")
            time.sleep(_POLL)
