# SPDX-License-Identifier: GPL-2.0-only
"""Guests boot, run commands, end and come back."""

import threading
import time

import pytest
from ntbrig import CommandFailed, GuestGone


@pytest.fixture(scope="module")
def fabric(boot):
    return boot(hosts=2)


def test_hosts_have_their_names(fabric):
    assert [guest.run("hostname").out.strip() for guest in fabric.hosts] == ["rp", "ep1"]
    assert fabric.rp is fabric["rp"] and fabric.eps == [fabric["ep1"]]


def test_each_guest_sees_its_peer_and_its_doorbell(fabric):
    listing = "cd /sys/bus/pci/devices; grep -l 0x1110 */device | cut -d / -f 1"
    assert fabric.rp.run(listing).out.split() == ["0000:00:11.0", "0000:00:1c.0"]
    assert fabric["ep1"].run(listing).out.split() == ["0000:00:10.0", "0000:00:1c.0"]


def test_windows_have_the_size_of_the_peers_ram(fabric):
    start, end, _ = fabric.rp.read("/sys/bus/pci/devices/0000:00:11.0/resource").split("\n")[2].split()
    assert int(end, 16) - int(start, 16) + 1 == fabric.settings.ram
    assert int(start, 16) != 0


def test_the_area_for_windows_is_reserved(fabric):
    assert "cma: Reserved 64 MiB at 0x0000000010000000" in fabric.rp.run("dmesg").out


def test_status_and_both_outputs_come_back(fabric):
    result = fabric.rp.run("echo out; echo err >&2; exit 7", check=False)
    assert (result.rc, result.out, result.err) == (7, "out\n", "err\n")


def test_a_failing_command_raises_and_says_what_it_printed(fabric):
    with pytest.raises(CommandFailed, match="no such thing"):
        fabric.rp.run("echo no such thing >&2; false")


def test_a_missing_program_is_a_failure_not_a_hang(fabric):
    with pytest.raises(CommandFailed, match="os error 2"):
        fabric.rp.run(["/no/such/program"])


def test_a_command_out_of_time_is_killed_with_its_children(fabric):
    start = time.monotonic()
    result = fabric.rp.run("sleep 4711 & sleep 4711", timeout=1, check=False)
    assert result.timed_out and result.rc == -9
    assert time.monotonic() - start < 10
    assert fabric.rp.run("pgrep -f 'sleep 471[1]'", check=False).rc == 1


def test_commands_run_side_by_side(fabric):
    waiting = fabric.rp.spawn("read line; echo got $line", stdin=True)
    assert fabric.rp.run("echo quick").out == "quick\n"
    waiting.write(b"it\n")
    assert waiting.wait(20).out == "got it\n"


def test_a_spawned_command_can_be_killed(fabric):
    process = fabric.rp.spawn("sleep 600")
    process.kill()
    assert process.wait(20).rc == -9


def test_a_child_that_stays_does_not_hold_the_command_up(fabric):
    start = time.monotonic()
    fabric.rp.run("sleep 30 & echo done")
    assert time.monotonic() - start < 15
    fabric.rp.run("pkill -x sleep")


def test_large_and_binary_output_arrives_whole(fabric):
    result = fabric.rp.run("head -c 3000000 /dev/zero | tr '\\0' x; printf '\\377\\n'")
    assert result.out == "x" * 3000000 + "\ufffd\n"


def test_the_agent_survives_garbage(fabric):
    agent = fabric.rp._connection()
    for garbage in (b"\0\xff\xfe\n", b"{}\n", b'{"op":"exec","id":-1}\n', b"[" * 100000 + b"\n"):
        agent._socket.sendall(garbage)
    assert fabric.rp.run("echo alive").out == "alive\n"


def test_the_agent_comes_back_when_it_dies(fabric):
    agents = lambda: fabric.rp.run("pgrep -f 'exe agen[t]'").out.split()
    before = agents()
    process = fabric.rp.spawn("pkill -KILL -f 'exe agen[t]'; sleep 60", timeout=60)
    # Its end is told to nobody, but that of the agent is.
    with pytest.raises(GuestGone, match="has begun again"):
        process.wait(20)
    assert fabric.rp.run("echo alive").out == "alive\n"
    after = agents()
    assert (len(before), len(after)) == (1, 1) and before != after


def test_writes_in_a_guest_stay_there(fabric, tmp_path):
    victim = tmp_path / "file"
    victim.write_text("host's\n")
    fabric.rp.run(f"mkdir -p {tmp_path}; echo guest\\'s > /etc/hostname")
    assert victim.read_text() == "host's\n"
    assert "guest" not in open("/etc/hostname").read()


def test_a_file_is_read(fabric):
    assert fabric.rp.read("/proc/version").startswith("Linux version 7.")
    with pytest.raises(CommandFailed, match="no/such/file"):
        fabric.rp.read("/no/such/file")


def test_kernel_complaints_are_found(fabric):
    fabric.rp.run("echo 'BUG: a test says so' > /dev/kmsg; echo 'BUGS are fine' > /dev/kmsg")
    reports = fabric.rp.kernel_reports()
    fabric.rp.forget_reports()
    assert len(reports) == 1 and reports[0].endswith("BUG: a test says so")
    assert fabric.rp.kernel_reports() == []


def test_a_killed_guest_fails_its_commands_and_boots_again(fabric):
    guest = fabric["ep1"]
    process = guest.spawn("sleep 600")
    guest.kill()
    with pytest.raises(GuestGone):
        process.wait(10)
    with pytest.raises(GuestGone):
        guest.run("true")
    assert not guest.is_running()
    guest.boot()
    assert guest.run("hostname").out == "ep1\n"


def test_a_guest_reboots_by_its_own_doing(fabric):
    guest = fabric["ep1"]
    guest.run("touch /tmp/before")
    guest.reboot()
    assert guest.run("test -e /tmp/before", check=False).rc == 1


def test_a_guest_powers_off_by_its_own_doing(fabric):
    guest = fabric["ep1"]
    guest.poweroff()
    assert not guest.is_running()
    guest.boot()


def test_a_panic_ends_the_guest(fabric):
    guest = fabric["ep1"]
    with pytest.raises(GuestGone):
        guest.run("echo c > /proc/sysrq-trigger", timeout=20)
    assert any("Kernel panic" in line for line in guest.kernel_reports())
    guest.forget_reports()
    guest.boot()


def test_clocks_of_guests_go_as_fast_as_that_of_their_host(fabric):
    for guest in fabric.hosts:
        uptime = lambda: float(guest.read("/proc/uptime").split()[0])
        begin, first = time.monotonic(), uptime()
        time.sleep(2)
        last, end = uptime(), time.monotonic()
        assert 1.0 < last - first < 2 * (end - begin), guest


def test_a_frozen_guest_stands_still_until_it_is_thawed(fabric):
    guest = fabric["ep1"]
    guest.freeze()
    process = guest.spawn("echo moved")
    time.sleep(1)
    assert not process.ended()
    guest.thaw()
    assert process.wait(20).out == "moved\n"


def test_a_frozen_guest_stands_still_when_the_call_has_returned(fabric):
    guest = fabric["ep1"]
    for _ in range(10):
        guest.freeze()
        stands_still = guest.stands_still()
        guest.thaw()
        assert stands_still
        assert guest.run("echo moved").out == "moved\n"


def test_threads_may_use_guests_at_once(fabric):
    results = []

    def work(guest):
        results.extend(guest.run("echo x").out for _ in range(5))

    threads = [threading.Thread(target=work, args=(guest,)) for guest in fabric.hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == ["x\n"] * 10
