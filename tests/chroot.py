# SPDX-License-Identifier: GPL-2.0-only
"""A root file system of Debian that tests install packages in: what changes is kept beside the one that it
is made of, which stays as it was."""

import subprocess
from pathlib import Path

_ENTER = """
lower=$1 work=$2 shared=$3
shift 3
mkdir -p "$work"/upper "$work"/work "$work"/root
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount -t proc proc "$work/root/proc"
mkdir -p "$work/root/shared"
mount --bind "$shared" "$work/root/shared"
exec chroot "$work/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \\
    DEBIAN_FRONTEND=noninteractive "$@"
"""


class Root:
    """One that is made of `lower`. `shared` is at /shared in it."""

    def __init__(self, lower, work, shared):
        self._places = (str(lower), str(work), str(shared))
        self.changed = Path(work) / "upper"

    def run(self, *command, timeout=600, check=True):
        """Run a command in it."""
        enter = ("unshare", "--mount", "--propagation", "private", "bash", "-euc", _ENTER, "enter")
        result = subprocess.run(
            [*enter, *self._places, *map(str, command)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
        )  # fmt: skip
        if check:
            assert result.returncode == 0, result.stdout[-6000:]
        return result

    def shell(self, line, **settings):
        """Run a line of a shell in it; what it says."""
        return self.run("sh", "-euc", line, **settings).stdout

    def apt(self, *words, **settings):
        """Run apt-get, with the packages that are named only."""
        return self.run("apt-get", "-y", "--no-install-recommends", *words, **settings).stdout
