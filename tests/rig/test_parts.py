# SPDX-License-Identifier: GPL-2.0-only
"""Parts of the rig that need no guest."""

import subprocess

import pytest
from ntbrig import RigError, Settings, initramfs, reports
from ntbrig.settings import CHECKOUT, MIB


def test_the_ram_disk_is_an_archive_that_cpio_reads(tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"#!" + bytes(range(256)))
    archive = initramfs.pack(program)
    (tmp_path / "archive").write_bytes(archive)
    command = "cpio --quiet -id --no-absolute-filenames init proc < archive"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / "init").read_bytes() == program.read_bytes()
    assert (tmp_path / "proc").is_dir()


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: CPU: 0 PID: 1 at kernel/softirq.c:1",
        "BUG: KASAN: slab-out-of-bounds in f+0x1",
        "BUG: kernel NULL pointer dereference, address: 0",
        "kernel BUG at lib/list_debug.c:1!",
        "WARNING: possible circular locking dependency detected",
        "INFO: task insmod:12 blocked for more than 120 seconds.",
        "rcu: INFO: rcu_sched detected stalls on CPUs/tasks",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 26s!",
        "rust_kernel: panicked at rust/x.rs:1:2:",
        "BUG: sleeping function called from invalid context",
        "refcount_t: underflow; use-after-free.",
        "BUG: KCSAN: data-race in tick_nohz_handler / net_rx_action",
    ],
)
def test_a_kernel_complaint_is_recognised(line):
    assert reports.find(f"[    1.0] fine\n[    1.1] {line}\n") == [f"[    1.1] {line}"]


@pytest.mark.parametrize(
    "line",
    [
        "Kernel command line: debug",
        "kmemleak: Kernel memory leak detector initialized",
        "kmemleak: 3 new suspected memory leaks",
        "ntb0: warning threshold is 3",
        "DEBUG: nothing",
        "BUG: KCSAN: data-race in tick_nohz_handler / tick_nohz_idle_got_tick",
    ],
)
def test_an_ordinary_line_is_no_complaint(line):
    assert reports.find(f"[    1.0] {line}\n") == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": 1},
        {"hosts": 9},
        {"ram": 500 * MIB},
        {"area_size": 512 * MIB},
        {"accel": "magic"},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(RigError):
        Settings(**wrong)


def test_a_missing_kernel_says_how_to_get_one(tmp_path):
    with pytest.raises(RigError, match="make kernel"):
        Settings(kernel_dir=tmp_path)


@pytest.fixture
def kernel_tree(tmp_path):
    """A kernel build directory that could take the modules."""
    config = tmp_path / "include/config"
    config.mkdir(parents=True)
    names = ("MODULES", "RUST", "NTB", "NET", "INET", "PCI_MSI")
    (config / "auto.conf").write_text("".join(f"CONFIG_{name}=y\n" for name in names))
    (config / "kernel.release").write_text("7.3.4\n")
    return tmp_path


def kbuild(tree):
    command = [CHECKOUT / "scripts/kbuild.sh", tree, tree / "out"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def refusal(tree):
    result = kbuild(tree)
    assert result.returncode != 0
    return result.stderr


def test_no_kernel_tree_at_all_is_named(tmp_path):
    assert "no directory" in refusal(tmp_path / "nowhere")
    assert "not a built kernel" in refusal(tmp_path)


def test_missing_kernel_options_are_named(kernel_tree):
    auto = kernel_tree / "include/config/auto.conf"
    auto.write_text(auto.read_text().replace("CONFIG_RUST=y\n", "").replace("CONFIG_NTB=y\n", ""))
    assert "lacks CONFIG_RUST CONFIG_NTB" in refusal(kernel_tree)


def test_another_kernel_version_is_named(kernel_tree):
    (kernel_tree / "include/config/kernel.release").write_text("6.12.4-amd64\n")
    assert "is kernel 6.12.4-amd64; the modules need 7.2 or 7.3" in refusal(kernel_tree)


def test_another_rust_compiler_is_named(kernel_tree):
    auto = kernel_tree / "include/config/auto.conf"
    auto.write_text(auto.read_text() + 'CONFIG_RUSTC_VERSION_TEXT="rustc 1.80.0 (none)"\n')
    assert "built by another Rust compiler: rustc 1.80.0 (none)" in refusal(kernel_tree)
