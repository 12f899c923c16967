# SPDX-License-Identifier: GPL-2.0-only
"""A cpio archive ("newc" format) with one program in it, and the modules that it loads first."""

_REGULAR = 0o100755
_DIRECTORY = 0o040755
_CHARACTER_DEVICE = 0o020600


def _pad(data):
    return data + bytes(-len(data) % 4)


def _entry(inode, name, mode, data=b"", device=(0, 0)):
    encoded = name.encode() + b"\0"
    fields = [inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0]
    header = b"070701" + b"".join(b"%08X" % value for value in fields)
    return _pad(header + encoded) + _pad(data)


def pack(init, modules=()):
    """The bytes of a RAM disk whose `/init` is the file at the path `init`; with names and contents of
    modules, which `/modules` has under names in that order."""
    entries = [
        _entry(1, "dev", _DIRECTORY),
        _entry(2, "dev/console", _CHARACTER_DEVICE, device=(5, 1)),
        _entry(3, "proc", _DIRECTORY),
        _entry(4, "init", _REGULAR, init.read_bytes()),
        _entry(5, "modules", _DIRECTORY),
    ]
    for number, (name, contents) in enumerate(modules):
        path = f"modules/{number:02}-{name}.ko"
        entries.append(_entry(6 + number, path, _REGULAR, contents))
    entries.append(_entry(0, "TRAILER!!!", 0))
    return b"".join(entries)
