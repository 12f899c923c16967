# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's own NTB clients in guests, and a way from one guest to another.

`driver` loads our hardware driver and takes it away again, `client` does so for
one of the kernel's clients; `Tool` speaks to `ntb_tool`; `RemoteShell` is an
`ssh` for scripts in Bash that expect one.
"""

import base64
import contextlib
import itertools
import threading
import time

from ntbrig import CommandFailed, stack

DEVICE = "0000:00:1c.0"
DEBUGFS = "/sys/kernel/debug"
DRIVER = ("mp_kernel", "ntb_hw_ivshmem")


@contextlib.contextmanager
def driver(*guests, parameters=""):
    """The hardware driver in all these guests."""
    stack.load(*guests, modules=DRIVER, parameters={"ntb_hw_ivshmem": parameters})
    try:
        yield
    finally:
        running = [guest for guest in guests if guest.is_running()]
        stack.everywhere(running, "rmmod ntb_hw_ivshmem && rmmod mp_kernel")


@contextlib.contextmanager
def client(*guests, module, parameters=""):
    """One of the kernel's clients in all these guests, with all that it needs."""
    stack.everywhere(guests, f"modprobe {module} {parameters}")
    try:
        yield
    finally:
        running = [guest for guest in guests if guest.is_running()]
        if module == "ntb_netdev":
            stack.unload_mainline_network(*running)
        else:
            stack.everywhere(running, f"modprobe -r {module}")


def eventually(condition, timeout=10.0):
    """Whether the condition comes true in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Tool:
    """`ntb_tool` in one guest."""

    def __init__(self, guest):
        self.guest = guest
        self.path = f"{DEBUGFS}/ntb_tool/{DEVICE}"

    def read(self, name):
        return self.guest.read(f"{self.path}/{name}").strip()

    def number(self, name):
        return int(self.read(name), 0)

    def write(self, name, text):
        self.guest.run(f"echo '{text}' > {self.path}/{name}")

    def link(self, pidx):
        """Whether the link to a peer is up."""
        return self.read(f"peer{pidx}/link") == "Y"

    def enable(self):
        """Let the links come up. Some parts report an error at one side; `wait_link` says
        whether they do."""
        self.guest.run(f"echo Y > {self.path}/link", check=False)

    def wait_link(self, pidx, up, timeout=10.0):
        wanted = "Y" if up else "N"
        self.guest.run(f"echo {wanted} > {self.path}/peer{pidx}/link_event", timeout=timeout)

    def expose(self, pidx, widx, size):
        """Set an inbound window up; return its address and size."""
        self.write(f"peer{pidx}/mw_trans{widx}", size)
        fields = {}
        for line in self.read(f"peer{pidx}/mw_trans{widx}").splitlines():
            key, _, value = line.partition("\t")
            fields[key.strip()] = value.strip().removesuffix("[p]")
        return int(fields["DMA Address"], 16), int(fields["Window Size"], 16)

    def withdraw(self, pidx, widx):
        self.write(f"peer{pidx}/mw_trans{widx}", 0)

    def reach(self, pidx, widx, address, size):
        """Map an outbound window; a size of zero unmaps it."""
        self.write(f"peer{pidx}/peer_mw_trans{widx}", f"{address}:{size}")


@contextlib.contextmanager
def tools(guests):
    """`ntb_tool` on hosts, with all links up."""
    with client(*guests, module="ntb_tool"):
        everyone = [Tool(guest) for guest in guests]
        for tool in everyone:
            tool.enable()
        for tool, pidx in itertools.product(everyone, range(len(guests) - 1)):
            tool.wait_link(pidx, up=True)
        yield everyone


# One request at a time: the words behind the host name are the command. A function, and few
# processes, because each takes long to start under emulation.
_SSH = r"""
ssh() {{
	local status length text
	shift
	printf '%s\36' "$*" >> {directory}/request
	{{
		read -r status length
		if [ "$length" -gt 256 ]; then
			head -c "$length"
		else
			IFS= read -r -N "$length" text
			printf '%s' "$text"
		fi
	}} < {directory}/reply
	return "$status"
}}
"""


# Runs one command after the other, and answers with its status and its output, which
# may be any bytes where the rig passes text only.
_REMOTE = r"""
while IFS= read -r -d $'\36' command; do
	out=$({ eval "$command"; } < /dev/null | base64 -w0; exit "${PIPESTATUS[0]}")
	printf '%s %s\n' "$?" "$out"
done
"""


def _pieces(process, end):
    """What a process says, piece by piece, as long as it runs."""
    start = 0
    while True:
        try:
            process.wait_for_output(end, 3600, start)
        except CommandFailed:
            return
        piece = process.said(start).partition(end)[0]
        start += len(piece) + len(end)
        yield piece


class RemoteShell:
    """A function `ssh` of Bash in guest `local` that runs commands in guest `remote`.

    The way is through this process: a pipe in `local` carries requests out and
    replies in. A script that calls it has `definition` for its BASH_ENV, which includes `start`.
    Commands, which are ASCII, run in children of one shell, with `start` for its BASH_ENV.
    """

    directory = "/run/remote-shell"
    definition = f"{directory}/ssh.bash"

    def __init__(self, local, remote, start):
        self._local = local
        self._remote = remote
        self._start = start

    def __enter__(self):
        script = _SSH.format(directory=self.directory)
        self._local.run(
            f"mkdir -p {self.directory} && cd {self.directory} && rm -f request reply"
            f" && mkfifo request reply && cat > {self.definition} <<'END'\n. {self._start}\n{script}\nEND"
        )
        # Open in both directions, the pipes outlive the programs at their ends.
        self._requests = self._local.spawn(f"exec cat <> {self.directory}/request")
        self._replies = self._local.spawn(f"exec cat 1<> {self.directory}/reply", stdin=True)
        env = {"BASH_ENV": self._start}
        self._shell = self._remote.spawn(["bash", "-c", _REMOTE], env=env, stdin=True)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        # With them the thread ends.
        for process in (self._requests, self._replies, self._shell):
            process.kill()
        self._thread.join(60)

    def _serve(self):
        answers = _pieces(self._shell, "\n")
        for command in _pieces(self._requests, "\36"):
            self._shell.write(f"{command}\36".encode())
            if not (answer := next(answers, None)):
                return
            status, _, out = answer.partition(" ")
            out = base64.b64decode(out)
            self._replies.write(f"{status} {len(out)}\n".encode() + out)
