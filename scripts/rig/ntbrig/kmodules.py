# SPDX-License-Identifier: GPL-2.0-only
"""Modules that a guest needs before it sees any file: a distribution's kernel has the file systems of
the rig as modules, and NTB core is one beside it."""

import lzma

from .settings import RigError

# What the first process mounts, and what the project's modules are linked with; by the names of
# modules, without those that they need.
WANTED = ("9p", "9pnet_virtio", "overlay", "ntb")


def before_files(modules_dir):
    """The modules of a kernel that its guests load first, each behind those it needs: their names and
    what is in them. None where they are built in, or where the kernel's modules are not installed."""
    if not modules_dir:
        return []
    found = [path for release in modules_dir.iterdir() for path in _in_order(release)]
    return [(path.name.split(".")[0], _contents(path)) for path in found]


def _in_order(release):
    needs = {}
    for line in (release / "modules.dep").read_text().splitlines():
        path, _, needed = line.partition(":")
        needs[path] = needed.split()
    named = {_name(path): path for path in needs}
    order = []
    for name in WANTED:
        if path := named.get(name):
            # depmod lists first what is to be loaded last.
            for each in (*reversed(needs[path]), path):
                if each not in order:
                    order.append(each)
    return [release / path for path in order]


def _name(path):
    return path.rsplit("/", 1)[-1].split(".")[0].replace("-", "_")


def _contents(path):
    data = path.read_bytes()
    if path.suffix == ".ko":
        return data
    if path.suffix == ".xz":
        return lzma.decompress(data)
    raise RigError(f"{path} is compressed in a way that the rig does not know")
