# SPDX-License-Identifier: GPL-2.0-only
"""Which modules of a kernel guests load before they see any file, and in which order."""

import lzma

import pytest
from ntbrig.kmodules import WANTED, before_files
from ntbrig.settings import RigError


@pytest.fixture
def installed(tmp_path):
    """Lay out modules of a kernel; each is named with those that it needs."""

    def lay_out(needs):
        release = tmp_path / "7.3.0"
        for path in needs:
            (release / path).parent.mkdir(parents=True, exist_ok=True)
            text = path.encode()
            (release / path).write_bytes(lzma.compress(text) if path.endswith(".xz") else text)
        lines = [f"{path}: {' '.join(needed)}".rstrip() for path, needed in needs.items()]
        (release / "modules.dep").write_text("\n".join(lines) + "\n")
        return tmp_path

    return lay_out


def test_a_kernel_without_modules_has_none():
    assert before_files(None) == []


def test_a_module_comes_behind_those_it_needs(installed):
    """depmod names first what is loaded last."""
    place = installed({
        "kernel/9p.ko": ["kernel/9pnet.ko", "kernel/netfs.ko"],
        "kernel/9pnet.ko": [],
        "kernel/netfs.ko": [],
        "kernel/other.ko": [],
    })  # fmt: skip
    assert [name for name, _ in before_files(place)] == ["netfs", "9pnet", "9p"]


def test_each_is_loaded_once_and_in_the_order_that_is_wanted(installed):
    place = installed({
        "updates/ntb.ko": [],
        "kernel/overlay.ko": [],
        "kernel/9pnet_virtio.ko": ["kernel/9pnet.ko"],
        "kernel/9p.ko": ["kernel/9pnet.ko"],
        "kernel/9pnet.ko": [],
    })  # fmt: skip
    names = [name for name, _ in before_files(place)]
    assert names == ["9pnet", "9p", "9pnet_virtio", "overlay", "ntb"]
    assert [name for name in names if name in WANTED] == list(WANTED)


def test_dashes_of_a_files_name_are_the_modules_underscores(installed):
    place = installed({"kernel/9pnet-virtio.ko": []})
    assert len(before_files(place)) == 1


def test_a_module_is_decompressed(installed):
    place = installed({"kernel/overlay.ko.xz": [], "updates/ntb.ko": []})
    assert before_files(place) == [("overlay", b"kernel/overlay.ko.xz"), ("ntb", b"updates/ntb.ko")]


def test_another_compression_is_named(installed):
    place = installed({"kernel/overlay.ko.zst": []})
    with pytest.raises(RigError, match="overlay.ko.zst is compressed in a way"):
        before_files(place)
