# SPDX-License-Identifier: GPL-2.0-only
"""Which tests are repeated, by runs of tests whose guests there are not; and which guests are lost."""

import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from types import SimpleNamespace

import conftest
import pytest
from ntbrig import qemu
from ntbrig.guest import BootFailed, Guest
from ntbrig.run import Run
from ntbrig.settings import CHECKOUT

CONFTEST = f"""
import sys

sys.path.insert(0, {str(CHECKOUT / "tests")!r})

import pytest
import repeat


def pytest_configure(config):
    config.pluginmanager.register(repeat)


class Booter:
    number = 0

    def __init__(self):
        Booter.number += 1
        self.lost, self.complaints, self.leaks = [], [], []

    def losses(self):
        return self.lost

    def keep_consoles(self, directory):
        (directory / "rp.console").write_text("the last words")


@pytest.fixture(scope="module")
def boot(request):
    booter = Booter()
    repeat.watch(request, booter)
    yield booter
    if booter.leaks:
        pytest.fail("lost memory")
"""
TESTS = """
import pytest
from ntbrig import CommandFailed, GuestGone


def first_time(path):
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    return path.read_text() == "x"


@pytest.fixture
def once(request, tmp_path_factory):
    return first_time(tmp_path_factory.getbasetemp().parent / request.node.name)


@pytest.fixture(scope="module")
def guest(boot):
    yield boot.number
    if boot.lost:
        raise GuestGone("rp is not running")


def test_it(boot, guest, once):
    first = boot.number
    {body}


def test_after(boot):
    assert not boot.lost
"""
LOSE = "if once: boot.lost.append('QEMU of rp ended with -9'); "
GONE = LOSE + "raise GuestGone('the guest ended')"


@pytest.fixture
def run(tmp_path):
    """Run one test with this body, and one more; the output, and what is kept of repetitions."""

    def tested(body, *arguments, tests=TESTS):
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_those.py").write_text(tests.replace("{body}", body))
        command = [
            sys.executable, "-m", "pytest", "-q", "-rA", "--basetemp", tmp_path / "base" / "of",
            "-p", "no:cacheprovider", "--junitxml", tmp_path / "report.xml", *arguments, tmp_path,
        ]  # fmt: skip
        (tmp_path / "base").mkdir(exist_ok=True)
        rig = {"PYTHONPATH": str(CHECKOUT / "scripts/rig"), "PATH": "/usr/bin:/bin"}
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=rig)
        kept = sorted((tmp_path / "report.repeated").glob("*"))
        return SimpleNamespace(out=result.stdout + result.stderr, rc=result.returncode, kept=kept)

    return tested


@pytest.mark.parametrize("arguments", ((), ("-n", "2")), ids=("here", "xdist"))
def test_a_test_whose_guest_is_lost_is_repeated_with_another_one(run, arguments):
    body = "if once:\n        " + GONE.removeprefix("if once: ") + "\n    assert guest == first"
    result = run(body, *arguments)
    assert result.rc == 0 and "2 passed" in result.out, result.out
    (kept,) = result.kept
    assert {path.name for path in kept.iterdir()} == {"text", "rp.console"}
    first, reason, *rest = (kept / "text").read_text().splitlines()
    assert first.startswith("repeated: ") and first.endswith("test_those.py::test_it")
    assert reason == "QEMU of rp ended with -9"
    assert "E           ntbrig.agent.GuestGone: the guest ended" in rest
    # It is named at the end.
    assert "test_those.py::test_it -" in result.out.replace("\n", " ")


@pytest.mark.parametrize(
    "body",
    (
        "assert not once",
        "if once: raise OSError('no such file')",
        "if once: raise CommandFailed('it ended with 1')",
        "if once: raise GuestGone('no answer in 50 s')",
        "if once: pytest.fail('Timeout >600.0s')",
        LOSE + "pytest.fail('Timeout >600.0s')",
        LOSE + "boot.complaints.append('BUG'); raise GuestGone('the guest ended')",
        LOSE + "boot.leaks.append('64 bytes'); raise GuestGone('the guest ended')",
    ),
    ids=(
        "data", "system", "command", "no answer", "time", "time, lost", "complaint", "leak",
    ),
)  # fmt: skip
def test_nothing_else_is_forgiven(run, body):
    """Each of these passes at a second try."""
    result = run(body)
    assert result.rc == 1 and re.search(r"^FAILED .*::test_it", result.out, re.M), result.out


def test_a_test_is_repeated_once(run):
    result = run(GONE.replace("if once: ", ""))
    assert result.rc == 1 and re.findall(r"^FAILED .*::(\w+)", result.out, re.M) == ["test_it"]
    # The one behind it is repeated as well: it finds no guest.
    repeated = re.findall(r"repeated: .*::(\w+)", result.out)
    assert repeated == ["test_it", "test_after"], result.out


def test_a_set_that_does_not_boot_is_another_one_the_second_time(run):
    """The fixture that boots has failed, not the test."""
    tests = TESTS.replace("yield boot.number", "", 1).replace(
        "    if boot.lost:\n        raise",
        "    if boot.number == 1:\n        boot.lost.append('rp ended at boot')\n        raise",
    )
    result = run("assert boot.number == 2", tests=tests)
    assert result.rc == 0 and len(result.kept) == 1, result.out


def test_a_test_without_guests_is_not_repeated(run):
    """Whatever was lost before."""
    tests = TESTS.replace("def test_after(boot):", "def test_after(once):").replace(
        "assert not boot.lost", "assert not once"
    )
    result = run("boot.lost.append('QEMU of rp ended with -9')", tests=tests)
    assert result.rc == 1 and "FAILED" in result.out and not result.kept, result.out


def test_more_than_three_repetitions_fail_a_run():
    text = (CHECKOUT / "scripts/test.sh").read_text()
    parts = re.findall(r"^most_repeated=\d+$|^(?:count|finish)\(\) {$.*?^}$", text, re.M | re.S)
    assert len(parts) == 3
    for repeated, status in ((0, 0), (3, 0), (4, 1)):
        counts = f"passed=9 failed=0 skipped=0 repeated={repeated}; phase() {{ :; }}"
        script = "\n".join([*parts, counts, "finish"])
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=20)
        assert result.returncode == status, result
        assert result.stdout.strip().startswith(f"9 passed, {status} failed"), result


# --- guests


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """Begin a guest whose QEMU is a command of a shell."""
    run = Run(0)
    guest = Guest(None, run, 0, "rp", tmp_path)

    def start(command):
        monkeypatch.setattr(qemu, "command", lambda *_: ["bash", "-c", command])
        guest.start()
        return guest

    yield start
    guest.expect_end()
    run.close()


def ended(guest):
    assert guest._run.wait(guest._pid, 20)
    return guest.lost_status()


def test_what_its_own_kernel_ends_is_not_lost(guest):
    assert ended(guest("exit 0")) is None


@pytest.mark.parametrize("command, status", (("exit 3", 3), ("kill -SEGV $$", -11)))
def test_what_ends_by_itself_is_lost(guest, command, status):
    lost = guest(command)
    assert ended(lost) == status
    # It stays so when it is started again, or taken away.
    guest("sleep 60")
    assert lost.lost_status() == status
    lost.kill()
    assert lost.lost_status() == status


def test_what_is_ended_is_not_lost(guest):
    killed = guest("sleep 60")
    assert killed.lost_status() is None
    killed.kill()
    assert killed.lost_status() is None
    # The next start may be lost.
    guest("sleep 60")
    killed._run.signal(killed._pid, signal.SIGKILL)
    assert ended(killed) == -signal.SIGKILL


class Set:
    """Of one guest, that ends as it is told, at boot or later."""

    def __init__(self, hosts, logs, boots=True, status=None, said=""):
        logs.mkdir(parents=True)
        (logs / "rp.console").write_text(said)
        reports = lambda: [said] if "BUG" in said else []
        self.boots = boots
        self.hosts = [
            SimpleNamespace(
                name="rp", lost_status=lambda: status, kernel_reports=reports,
                forget_reports=lambda: None,
            )
        ]  # fmt: skip

    def __enter__(self):
        if not self.boots:
            raise BootFailed("rp was not ready in 60 s at boot")

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize(
    ("settings", "losses"),
    (
        ({}, []),
        ({"status": -9}, ["QEMU of rp ended with -9"]),
        ({"boots": False}, ["rp was not ready in 60 s at boot"]),
        ({"boots": False, "said": "BUG: at boot"}, []),
        ({"status": 1, "said": "BUG: not the machine's"}, []),
    ),
)
def test_sets_are_asked_what_was_lost(tmp_path, monkeypatch, settings, losses):
    monkeypatch.setattr(conftest, "Fabric", Set)
    with ExitStack() as stack:
        booter = conftest.Booter(stack, tmp_path / "logs")
        booter()
        if settings.get("boots", True):
            booter(**settings)
        else:
            with pytest.raises(BootFailed):
                booter(**settings)
        assert booter.losses() == losses
        assert booter.losses() == losses
        (tmp_path / "kept").mkdir()
        booter.keep_consoles(tmp_path / "kept")
    kept = {str(path.relative_to(tmp_path / "kept")) for path in tmp_path.glob("kept/*/*")}
    assert kept == {"0/rp.console", "1/rp.console"}
