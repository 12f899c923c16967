# SPDX-License-Identifier: GPL-2.0-only
"""What the set-up scripts say when something is missing."""

import os
import subprocess

import conftest
import pytest
from ntbrig import RigError, settings
from ntbrig.settings import CHECKOUT

SCRIPTS = CHECKOUT / "scripts"


def run(tmp_path, script, *arguments, path=None, **env):
    """Run a script with a cache of its own."""
    env = os.environ | {"PXIMC_CACHE": str(tmp_path / "cache"), "KERNEL_SERIES": ""} | env
    if path:
        env["PATH"] = path
    command = ["/bin/bash", SCRIPTS / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)


def refusal(*arguments, **settings):
    result = run(*arguments, **settings)
    assert result.returncode != 0, result.stdout
    return result.stderr


@pytest.fixture
def programs(tmp_path):
    """Make a directory with programs that do as told, in front of the path."""
    directory = tmp_path / "bin"
    directory.mkdir()

    def make(**scripts):
        for name, text in scripts.items():
            program = directory / name.replace("_", "-")
            program.write_text(f"#!/bin/bash\n{text}\n")
            program.chmod(0o755)
        return f"{directory}:/usr/sbin:/usr/bin:/sbin:/bin"

    return make


@pytest.mark.parametrize("options", [(), ("--debug",)])
def test_an_empty_cache_says_how_to_fill_it(tmp_path, options):
    assert "run: make kernel" in refusal(tmp_path, "kernel.sh", "--print-dir", *options)


def test_an_unknown_option_is_named(tmp_path):
    assert "unknown option --fast" in refusal(tmp_path, "kernel.sh", "--fast")


def test_an_unsupported_series_is_named(tmp_path):
    said = refusal(tmp_path, "kernel.sh", "--print-dir", KERNEL_SERIES="6.1")
    assert "KERNEL_SERIES=6.1 is not supported" in said


def test_missing_suites_are_named(tmp_path, programs):
    mirror = "echo 'http://mirror.invalid/debian Debian'"
    path = programs(apt_get=f'[ "$1" != indextargets ] || {mirror}', apt_cache="true")
    said = refusal(tmp_path, "kernel.sh", path=path)
    assert "looked for linux-source-7.3 linux-source-7.2" in said
    assert "in trixie-backports forky sid of http://mirror.invalid/debian" in said
    assert "name newer ones" in said


def test_a_failing_download_is_named(tmp_path, programs):
    path = programs(
        apt_get='case $1 in indextargets) echo "http://mirror.invalid/debian Debian" ;;'
        ' download) echo "E: no network" >&2; exit 100 ;; esac',
        apt_cache="echo 'linux-source-7.3 | 7.3.9-1 | http://mirror.invalid/debian sid'",
    )
    said = refusal(tmp_path, "kernel.sh", path=path)
    assert "the download of linux-source-7.3 7.3.9-1 failed" in said
    assert "E: no network" in said
    assert not list((tmp_path / "cache/sources").glob("linux-source-*"))


def test_a_missing_cargo_is_named(tmp_path, programs):
    path = programs().split(":", 1)[1]
    assert "cargo is missing" in refusal(tmp_path, "setup.sh", path=path)


def test_an_old_cargo_is_named(tmp_path, programs):
    path = programs(cargo="echo 'cargo 1.63.0 (none)'")
    assert "cargo 1.63.0 is too old" in refusal(tmp_path, "setup.sh", path=path)


def test_a_package_that_apt_does_not_know_is_named(tmp_path, programs):
    path = programs(
        cargo="echo 'cargo 1.99.0 (none)'",
        dpkg_query="exit 1",
        apt_get='[ "$1" != install ] || { echo "E: Unable to locate package clang-19"; exit 100; }',
    )
    said = refusal(tmp_path, "setup.sh", path=path)
    assert "apt knows no package named: clang-19" in said


def test_an_unreachable_mirror_is_named(tmp_path, programs):
    path = programs(
        cargo="echo 'cargo 1.99.0 (none)'",
        dpkg_query="exit 1",
        apt_get='[ "$1" != install ] || { echo "E: Could not connect to mirror"; exit 100; }',
    )
    assert "the package mirror is out of reach" in refusal(tmp_path, "setup.sh", path=path)


@pytest.mark.parametrize(
    ("download", "why"),
    (
        ("echo 'E: no network' >&2; exit 100", "Debian's bindgen cannot be had"),
        ("touch bindgen_9.deb libc6_9.deb", "Debian's bindgen is not 0.72.1, or does not run here"),
    ),
)
def test_a_bindgen_is_built_if_the_package_is_of_no_use(tmp_path, programs, download, why):
    """The package that is downloaded here has no program in it."""
    path = programs(
        cargo='[ "$1" != install ] && echo "cargo 1.99.0 (none)" || echo "$@" >"$PXIMC_CACHE/told"',
        dpkg_query="printf installed",
        dpkg="true",
        apt_get='case $1 in indextargets) echo "http://mirror.invalid/debian Debian" ;;'
        f" download) {download} ;; esac",
    )
    done = run(tmp_path, "setup.sh", path=path)
    assert done.returncode == 0, done.stderr
    assert why in done.stderr
    assert "bindgen-cli --version 0.73.2 --locked" in (tmp_path / "cache/told").read_text()


@pytest.mark.parametrize("version", ("0.72.1", "0.73.2"))
def test_a_bindgen_that_is_there_is_used(tmp_path, programs, version):
    """Whether it is of the package or was built."""
    there = tmp_path / "cache/tools/bin/bindgen"
    there.parent.mkdir(parents=True)
    there.write_text(f"#!/bin/sh\necho bindgen {version}\n")
    there.chmod(0o755)
    path = programs(cargo="echo 'cargo 1.99.0 (none)'", dpkg_query="printf installed", apt_get="exit 1")
    done = run(tmp_path, "setup.sh", path=path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "setup.sh: everything needed is installed\n"


def test_modules_that_come_first_are_there():
    for name in conftest.LONGEST:
        assert (CHECKOUT / f"tests/rig/test_{name}.py").exists()


def test_what_guests_do_not_see_is_refused(monkeypatch):
    monkeypatch.setenv("RIG_PROGRAMS", "/tmp/programs")
    with pytest.raises(RigError, match="guests have a /tmp of their own: /tmp/programs"):
        settings.programs_dir()
    monkeypatch.setenv("RIG_PROGRAMS", "/var/tmp/programs")
    assert str(settings.programs_dir()) == "/var/tmp/programs"


@pytest.mark.parametrize("other", ["DEBUG=1", "RACES=1", "KDIR=/usr/src/linux", "KERNEL_SERIES=7.2"])
def test_debians_kernel_is_not_combined_with_another(other):
    """Nothing is built then, and the sentence names what to leave out."""
    command = ["make", "-C", CHECKOUT, "KERNEL=stock", other, "help"]
    env = {"PATH": os.environ["PATH"]}
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert made.returncode != 0
    assert "leave out" in made.stderr and f"{other.split('=')[0]}=" in made.stderr
    assert subprocess.run(command[:-2] + ["help"], env=env, timeout=60).returncode == 0


@pytest.fixture
def bare_headers(tmp_path):
    """Headers of a kernel without the metadata of Rust."""
    config = tmp_path / "headers/include/config"
    config.mkdir(parents=True)
    (config / "kernel.release").write_text("7.3.4+deb13-amd64\n")
    return tmp_path / "headers"


def test_dkms_names_the_packaged_source_that_fits_the_headers(tmp_path, programs, bare_headers):
    headers = 'case "$*" in *linux-headers-7.3.4+deb13-amd64) printf 7.3.4-1;; *) {};; esac'
    for source in ("exit 1", "printf 7.3.4-2"):
        path = programs(dpkg_query=headers.format(source))
        said = refusal(tmp_path, "dkms.sh", bare_headers, path=path)
        assert "apt-get install linux-source-7.3=7.3.4-1" in said


def test_dkms_says_that_a_kernel_of_no_package_needs_rust(tmp_path, programs, bare_headers):
    said = refusal(tmp_path, "dkms.sh", bare_headers, path=programs(dpkg_query="exit 1"))
    assert "has no metadata of Rust" in said


@pytest.mark.parametrize("quote", ["", '"'])
def test_the_compiler_of_a_kernel_is_called_by_its_name(tmp_path, programs, quote):
    """Kernels write it with and without quotes; where it is not installed, any compiler is tried."""
    config = tmp_path / "include/config/auto.conf"
    config.parent.mkdir(parents=True)
    config.write_text(f"CONFIG_CC_VERSION_TEXT={quote}some-gcc-14 (Debian 14.2.0-19) 14.2.0{quote}\n")
    line = f". {SCRIPTS}/common.sh; kernel_compiler {tmp_path}"
    for path, name in ((programs(some_gcc_14=""), "some-gcc-14"), ("/usr/bin:/bin", "cc")):
        command = ["/bin/bash", "-c", line]
        told = subprocess.run(command, capture_output=True, text=True, env={"PATH": path}, timeout=60)
        assert told.stdout == name
