# SPDX-License-Identifier: GPL-2.0-only
"""The last release, for hosts that are not up to date."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from .settings import CHECKOUT, PRINT_DIR_TIMEOUT, RigError


@dataclass(frozen=True)
class Release:
    """Where `scripts/release.sh` has put what it has built."""

    directory: Path

    @property
    def modules(self):
        return self.directory / "modules"

    @property
    def programs(self):
        return self.directory / "programs"


def last(kernel_dir):
    """The last release, built for a kernel."""
    command = [CHECKOUT / "scripts/release.sh", "--print-dir", kernel_dir]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=PRINT_DIR_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", None) or error
        raise RigError(f"no release to mix with: {str(detail).strip()}") from error
    return Release(Path(found.stdout.strip()))
