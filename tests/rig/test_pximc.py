# SPDX-License-Identifier: GPL-2.0-only
"""PXImc between processes of two hosts, while the link between them is up.

What happens when it is not is in test_pximc_links.py.
"""

import itertools
import random
import re
import struct
import time

import pytest
from ntbrig.settings import PATIENCE, programs32_dir

import pximc
import shell
from pximc import (
    ASSERTED,
    CLOSED,
    FOREVER,
    MAX,
    NULL,
    OK,
    PXIMC,
    STATE_CHANGE,
    UP,
    WINDOW_CHANGE,
    Process,
    Status,
    off_by,
)
from pximc_sessions import (
    ANY,
    KINDS,
    NONE,
    PAGE,
    PROMPT,
    PROTOCOL,
    SESSION_CALLS,
    UNKNOWN,
    UNTOUCHED_CONNECTION,
    USUAL,
    all_calls,
    client,
    close,
    opened,
    pair,
    peer,
    server,
    windows,
)
from shell import INTACT, until


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    pximc.load(*fabric.hosts)
    return fabric


@pytest.fixture(scope="module")
def spares(fabric):
    with pximc.Spares(*fabric.hosts) as spares:
        yield spares


@pytest.fixture
def systems(fabric, spares):
    """A process on each host; nothing is left of those of the test before."""
    processes = [spares.take(guest) for guest in fabric.hosts]
    try:
        for process in processes:
            process.wait_for_windows()
        yield tuple(processes)
    finally:
        shell.end(*processes)


def u32(system, window, attribute):
    return system.query_window_information(system.interface, window, attribute).u32


def u64(system, window, attribute):
    return system.query_window_information(system.interface, window, attribute).u64


def sizes(system, window):
    """All sizes of a window, as the system that looks at it is told."""
    return {
        name: u64(system, window, getattr(PXIMC, f"U64_WINDOW_{name}_SIZE"))
        for name in ("MIN_LOCAL", "MAX_LOCAL", "MIN_REMOTE", "MAX_REMOTE")
    }


# Of a request that nobody can meet: with what there is, or with what is posted.
REFUSED = (Status.SPACE_NOT_AVAILABLE, Status.NO_PAIRING)


# --- interfaces


def test_interfaces_are_listed_whatever_room_there_is(systems):
    """PXI-FI-1, PXI-FI-4, PXI-FI-6, PXI-FI-7, PXI-FI-10, PXI-FI-11: none is 0, and the
    number is told also if they do not fit."""
    for system in systems:
        status, actual, ids = system.find_interfaces(10)
        assert (status, actual, len(ids)) == (OK, 1, 1) and ids[0] != 0
        assert system.find_interfaces(1) == (OK, 1, ids)
        assert system.find_interfaces(0) == (Status.INSUFFICIENT_SPACE, 1, [])
        assert system.find_interfaces(0, ids=NULL) == (Status.INSUFFICIENT_SPACE, 1, [])


def test_an_unknown_interface_is_refused_by_all_functions(systems):
    """PXI-FI-4, PXI-FW-11, PXI-WIE-2, PXI-GEN-6, PXI-SES-3, PXI-REQLS-1, PXI-REQLC-1,
    PXI-REQLP-1, PXI-REQPS-1, PXI-REQPC-1: before anything else that is wrong, at once,
    and nothing is written."""
    refused = Status.INVALID_INTERFACE
    bad = (0, 1, 0, 1)
    for system, unknown in itertools.product(systems, (0, UNKNOWN)):
        assert system.query_interface_information(unknown, 0, 0) == (refused, None, b"")
        assert system.wait_for_interface_event(unknown) == (refused, None)
        assert system.find_windows(unknown, 0) == (refused, None, [])
        assert system.query_window_information(unknown, 0, 0, 0) == (refused, None, b"")
        for request in (
            system.request_window_logical_as_server,
            system.request_window_logical_as_client,
            system.request_window_logical_as_peer,
        ):
            assert request(unknown, PROTOCOL, *bad) == (refused, None)
        assert system.request_window_physical_as_server(unknown, PROTOCOL, 0, 0, 0) == (
            refused,
            None,
        )
        assert system.request_window_physical_as_client(unknown, PROTOCOL, 0, 1) == (
            refused,
            None,
        )


def test_required_attributes_of_interfaces(systems):
    """PXI-QI-3, PXI-QI-6, PXI-QI-10, PXI-QI-11, PXI-QI-12."""
    for system in systems:
        ask = lambda attribute: system.query_interface_information(system.interface, attribute).u32
        assert ask(PXIMC.U32_PROTOCOL_VERSION) == 0x00010000
        assert ask(PXIMC.U32_INTERFACE_STATE) == UP
        assert ask(PXIMC.U32_MANF_ID) <= 0xFFFF


def test_optional_attributes_of_interfaces_make_sense_or_are_not_there(systems):
    """PXI-QI-4, PXI-QI-5, PXI-QI-13, PXI-QI-14, PXI-QI-15, PXI-QI-16: text is printable
    and ends with a zero, which counts and has to fit."""
    sane = {
        "INTERFACE_BUS": range(256),
        "INTERFACE_DEV": range(32),
        "INTERFACE_FUNC": range(8),
        "INTERFACE_LOCAL": (PXIMC.LOCAL, PXIMC.REMOTE),
        "REMOTE_ENDIANNESS": (0x78563412,),
        "REMOTE_WORD_SIZE": (64,),
    }
    others = ("DEVICE_ID", "VENDOR_ID", "SS_ID", "SS_VENDOR_ID")
    sane |= {f"INTERFACE_{name}": range(1 << 16) for name in others}
    texts = "MANF_NAME", "MODEL_NAME", "SERIAL_NUM", "LOG_DATA", "INTERFACE_NAME", "REMOTE_OS"
    missing = (Status.NSUP_ATTRIBUTE, None, b"")
    for system in systems:
        ask = lambda attribute, size: system.query_interface_information(
            system.interface, attribute, size
        )
        for name, values in sane.items():
            answer = ask(getattr(PXIMC, f"U32_{name}"), 4)
            assert answer == missing or answer.u32 in values
        for name in texts:
            attribute = getattr(PXIMC, f"STR_{name}")
            answer = ask(attribute, 200)
            if answer == missing:
                continue
            assert answer.status == OK and answer.actual == len(answer.value) > 1
            assert re.fullmatch(rb"[ -~]+\0", answer.value)
            assert ask(attribute, answer.actual) == answer
            assert ask(attribute, answer.actual - 1) == (
                Status.INSUFFICIENT_SPACE,
                answer.actual,
                b"",
            )
        for unknown in (0, 0x12345678, PXIMC.U32_REMOTE_WORD_SIZE + 1, PXIMC.U8_WINDOW_DATA):
            assert ask(unknown, 200) == missing


def test_buffers_for_values_of_32_bits(systems):
    """PXI-QI-1, PXI-QI-2, PXI-QI-7, PXI-QI-8, PXI-QI-9: at least four bytes, of which no
    more are written, and aligned to four."""
    system, _ = systems
    ask = lambda size, value=pximc.OWN: system.query_interface_information(
        system.interface, PXIMC.U32_PROTOCOL_VERSION, size, value
    )
    whole = (OK, 4, struct.pack("=I", 0x10000))
    assert ask(4) == whole
    assert ask(16) == whole
    short = (Status.INSUFFICIENT_SPACE, 4, b"")
    assert ask(3) == short
    assert ask(0) == short
    assert ask(0, NULL) == short
    assert ask(3, off_by(1)) == short
    for offset in (1, 2, 3):
        assert ask(4, off_by(offset)) == (Status.ALIGNMENT_ERROR, None, b"")
    assert ask(8, off_by(4)) == whole


# --- interface events


def test_the_first_wait_of_a_process_returns_at_once_and_the_second_does_not(fabric):
    """PXI-WIE-2, PXI-WIE-4, PXI-WIE-9: with both events; a time that passes is never cut short,
    and nothing is written."""
    with Process(fabric.rp) as system:
        interface = system.interface
        both = STATE_CHANGE | WINDOW_CHANGE
        assert system.wait_for_interface_event(interface) == (OK, both)
        assert system.seconds < PROMPT
        assert system.wait_for_interface_event(interface, 0) == (Status.TIMEOUT, None)
        assert system.wait_for_interface_event(interface, 300) == (Status.TIMEOUT, None)
        assert 0.3 <= system.seconds < 0.3 + PROMPT


def test_changes_of_windows_reach_every_process_once(fabric, systems):
    """PXI-WIE-3, PXI-WIE-5, PXI-WIE-10: also those that did not wait when they happened,
    and however many they were."""
    s0, s1 = systems
    with Process(fabric.rp) as other:
        for process in (s0, other):
            assert process.wait_for_interface_event(process.interface).status == OK
        for _ in range(10):
            assert s1.close_window(opened(server(s1))) == OK
        session = opened(server(s1, uid=77))
        s0.wait_for_windows(77)
        until(lambda: s0.windows() == [77])
        time.sleep(0.2)
        for process in (s0, other):
            wait = process.wait_for_interface_event
            assert wait(process.interface, 0) == (OK, WINDOW_CHANGE)
            assert wait(process.interface, 0) == (Status.TIMEOUT, None)
        assert s1.close_window(session) == OK
        for process in (s0, other):
            wait = process.wait_for_interface_event
            assert wait(process.interface, 5000) == (OK, WINDOW_CHANGE)


def test_a_wait_without_end_returns_with_the_change(systems):
    """PXI-WIE-7, PXI-WIE-8, PXI-WIE-9, PXI-WFC-12, PXI-WFC-13: however long that takes."""
    s0, s1 = systems
    assert s0.wait_for_interface_event(s0.interface).status == OK
    posted = opened(server(s1, uid=2))
    s0.wait_for_windows(2)
    s0.wait_for_interface_event(s0.interface, 300)
    waiting = s0.later.wait_for_interface_event(s0.interface)
    connecting = s1.later.wait_for_connection(posted)
    time.sleep(2)
    assert not waiting.returned() and not connecting.returned()
    opened(client(s0, uid=2))
    assert waiting.result() == (OK, WINDOW_CHANGE)
    assert connecting.result().status == OK


def test_of_two_threads_that_wait_one_gets_the_event(systems):
    """PXI-WIE-6, PXI-WIE-7: and the other one waits for as long as it has said."""
    s0, s1 = systems
    assert s0.wait_for_interface_event(s0.interface).status == OK
    waiting = [s0.later.wait_for_interface_event(s0.interface, 1500) for _ in range(2)]
    time.sleep(0.3)
    opened(server(s1))
    answers = sorted(call.result() for call in waiting)
    assert answers == [(OK, WINDOW_CHANGE), (Status.TIMEOUT, None)]
    assert max(call.seconds for call in waiting) >= 1.5


def test_signals_do_not_end_a_wait(systems):
    """PXI-WIE-7, PXI-WFC-12: no status is for that; the time goes on."""
    s0, _ = systems
    session = opened(server(s0))
    waiting = s0.later.wait_for_connection(session, 1500)
    for _ in range(3):
        time.sleep(0.2)
        s0.interrupt()
    assert waiting.result() == (Status.TIMEOUT, *UNTOUCHED_CONNECTION)
    assert waiting.seconds >= 1.5


# --- windows of the other system


def test_windows_are_listed_whatever_room_there_is(systems):
    """PXI-FW-1, PXI-FW-2, PXI-FW-3, PXI-FW-5, PXI-FW-6, PXI-FW-8, PXI-FW-10,
    PXI-REQLS-9, PXI-REQLS-15, PXI-REQLP-14: all of the other system, by ids that are
    unique and not 0, and none of the own."""
    s0, s1 = systems
    assert s0.find_windows(s0.interface) == (OK, 0, [])
    assert s0.find_windows(s0.interface, 0, NULL) == (OK, 0, [])
    opened(server(s1, uid=1587))
    opened(peer(s1, uid=0xFFFFFFFE))
    opened(server(s1))
    opened(peer(s1, protocol=1))
    listed = s0.windows()
    assert len(listed) == len(set(listed)) == 4
    assert {1587, 0xFFFFFFFE} <= set(listed) and 0 not in listed
    assert s0.find_windows(s0.interface, 4) == (OK, 4, listed)
    for room, ids in ((3, pximc.OWN), (0, pximc.OWN), (0, NULL)):
        assert s0.find_windows(s0.interface, room, ids) == (Status.INSUFFICIENT_SPACE, 4, [])
    assert s1.windows() == []


def test_a_window_that_is_closed_vanishes(systems):
    """PXI-FW-4, PXI-FW-9, PXI-QW-17, PXI-CW-7: whoever still names it is refused."""
    s0, s1 = systems
    session = opened(server(s1, uid=9))
    assert s0.windows() == [9]
    assert s1.close_window(session) == OK
    s0.wait_for_windows()
    gone = (Status.INVALID_WINDOW, None, b"")
    for window in (9, 0, UNKNOWN):
        for attribute in (PXIMC.U32_WINDOW_PAIRING_STATE, PXIMC.U8_WINDOW_DATA):
            assert s0.query_window_information(s0.interface, window, attribute) == gone
    assert client(s0, uid=9) == (Status.NO_PAIRING, None)
    assert client(s0) == (Status.NO_PAIRING, None)


@pytest.mark.parametrize("kind, connection", [("server", 1), ("peer", 3)])
@pytest.mark.parametrize(
    "data", [b"", b"\0", b"System 1\0Process", bytes(range(128)) * 8], ids=len
)
def test_attributes_of_a_window_are_what_was_asked_for(systems, kind, connection, data):
    """PXI-QW-1, PXI-QW-5, PXI-QW-6, PXI-QW-9, PXI-QW-16, PXI-REQLS-9, PXI-REQLS-14,
    PXI-REQLP-15: as the other system passed them, to the last bit."""
    s0, s1 = systems
    protocol, local, remote = 0xF10E5123, (MAX, 0x12345), (0x7000, 0)
    opened(KINDS[kind](s1, local, remote, uid=0xC0FFEE, data=data, protocol=protocol))
    window = 0xC0FFEE
    assert s0.query_window_information(s0.interface, window, PXIMC.U8_WINDOW_DATA, 1024) == (
        OK,
        len(data),
        data,
    )
    assert u32(s0, window, PXIMC.U32_WINDOW_CONNECTION_TYPE) == connection
    assert u32(s0, window, PXIMC.U32_WINDOW_LOCATION_TYPE) == PXIMC.LOCATION_LOGICAL
    assert u32(s0, window, PXIMC.U32_WINDOW_PROTOCOL_NUMBER) == protocol
    assert u32(s0, window, PXIMC.U32_WINDOW_PAIRING_STATE) == PXIMC.WINDOW_UNPAIRED
    assert sizes(s0, window) == {
        "MIN_LOCAL": 0x12345,
        "MAX_LOCAL": MAX,
        "MIN_REMOTE": 0,
        "MAX_REMOTE": 0x7000,
    }
    status = s0.query_window_information(s0.interface, window, PXIMC.U32_SESSION_EVENT_STATUS)
    assert status == (Status.NSUP_ATTRIBUTE, None, b"")


def test_buffers_for_attributes_of_windows(systems):
    """PXI-QW-2, PXI-QW-3, PXI-QW-5, PXI-QW-7, PXI-QW-8, PXI-QW-10, PXI-QW-11: too small
    comes first, then not aligned; no more is written than the value has."""
    s0, s1 = systems
    opened(server(s1, uid=5, data=b"0123456789"))
    ask = lambda *arguments: s0.query_window_information(s0.interface, 5, *arguments)
    for attribute, whole in (
        (PXIMC.U8_WINDOW_DATA, b"0123456789"),
        (PXIMC.U32_WINDOW_PROTOCOL_NUMBER, struct.pack("=I", PROTOCOL)),
        (PXIMC.U64_WINDOW_MAX_LOCAL_SIZE, struct.pack("=Q", USUAL[0])),
    ):
        length = len(whole)
        # The zeros of a small number were not there before.
        assert ask(attribute, length) == (OK, length, whole)
        assert ask(attribute, 1024) == (OK, length, whole)
        short = (Status.INSUFFICIENT_SPACE, length, b"")
        for arguments in ((length - 1,), (0,), (0, NULL), (length - 1, off_by(1))):
            assert ask(attribute, *arguments) == short
    askew = (Status.ALIGNMENT_ERROR, None, b"")
    assert ask(PXIMC.U8_WINDOW_DATA, 10, off_by(1)) == (OK, 10, b"0123456789")
    for offset in (1, 2, 3):
        assert ask(PXIMC.U32_WINDOW_PROTOCOL_NUMBER, 4, off_by(offset)) == askew
    for offset in (1, 2, 4):
        assert ask(PXIMC.U64_WINDOW_MAX_LOCAL_SIZE, 8, off_by(offset)) == askew
    for unknown in (0, PXIMC.U64_WINDOW_MAX_LOCAL_SIZE + 1, PXIMC.STR_MANF_NAME):
        assert ask(unknown, 64) == (Status.NSUP_ATTRIBUTE, None, b"")


def test_both_windows_of_a_pair_are_listed_as_paired_with_their_sizes(systems):
    """PXI-FW-1, PXI-QW-12, PXI-QW-13, PXI-QW-15, PXI-REQLC-7: the client's as well."""
    s0, s1 = systems
    opened(server(s1, (0x3000, 0), (MAX, 0x100), uid=11))
    assert u32(s0, 11, PXIMC.U32_WINDOW_PAIRING_STATE) == PXIMC.WINDOW_UNPAIRED
    opened(client(s0, (0x5000, 0x1001), (0x2800, 1)))
    paired = {"MIN_LOCAL": 0x2800, "MAX_LOCAL": 0x2800, "MIN_REMOTE": 0x5000, "MAX_REMOTE": 0x5000}
    assert s0.windows() == [11]
    assert u32(s0, 11, PXIMC.U32_WINDOW_PAIRING_STATE) == PXIMC.WINDOW_PAIRED
    assert sizes(s0, 11) == paired
    (ours,) = until(s1.windows)
    assert ours != 0
    assert u32(s1, ours, PXIMC.U32_WINDOW_CONNECTION_TYPE) == PXIMC.CONNECTION_CLIENT
    assert u32(s1, ours, PXIMC.U32_WINDOW_PAIRING_STATE) == PXIMC.WINDOW_PAIRED
    assert sizes(s1, ours) == {
        "MIN_LOCAL": 0x5000,
        "MAX_LOCAL": 0x5000,
        "MIN_REMOTE": 0x2800,
        "MAX_REMOTE": 0x2800,
    }


def test_an_id_from_the_list_names_that_window_and_no_other(systems):
    """PXI-FW-7, PXI-QW-14, PXI-REQLC-13, PXI-PAIR-9, PXI-PAIR-15: chosen or assigned; the
    sizes are those that were read, with local and remote exchanged."""
    s0, s1 = systems
    sessions = {}
    for data, uid in ((b"first", 0), (b"second", 4711), (b"third", 0)):
        sessions[data] = opened(server(s1, (0x2000, 0x400), (0x6000, 0x1000), uid, data))
    for wanted in (b"third", b"second", b"first"):
        data = lambda window: s0.query_window_information(
            s0.interface, window, PXIMC.U8_WINDOW_DATA, 64
        ).value
        (window,) = (window for window in s0.windows() if data(window) == wanted)
        asked = sizes(s0, window)
        local = asked["MAX_REMOTE"], asked["MIN_REMOTE"]
        remote = asked["MAX_LOCAL"], asked["MIN_LOCAL"]
        opened(client(s0, local, remote, uid=window))
        assert s1.wait_for_connection(sessions.pop(wanted), 5000).status == OK
        for other in sessions.values():
            assert s1.wait_for_connection(other, 0).status == Status.TIMEOUT


# --- requests that cannot be

BAD_SIZES = [
    pytest.param((0, 0), (0, 0), id="both maxima are 0"),
    pytest.param((PAGE, PAGE + 1), (PAGE, 0), id="local maximum below minimum"),
    pytest.param((PAGE, 0), (PAGE, PAGE + 1), id="remote maximum below minimum"),
    pytest.param((0, 1), (PAGE, 0), id="local minimum without a maximum"),
    pytest.param((0, 1), (0, 1), id="all of it"),
    pytest.param((MAX - 1, MAX), (1, 0), id="the largest sizes that there are"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("local, remote", BAD_SIZES)
def test_sizes_that_make_no_sense_are_refused(systems, kind, local, remote):
    """PXI-REQLS-2, PXI-REQLS-3, PXI-REQLS-4, PXI-REQLC-2, PXI-REQLC-3, PXI-REQLC-4,
    PXI-REQLP-2, PXI-REQLP-3, PXI-REQLP-4, PXI-SES-3: nothing is posted or written."""
    s0, s1 = systems
    assert KINDS[kind](s0, local, remote) == (Status.INVALID_ARGUMENT, None)
    assert s1.windows() == []


@pytest.mark.parametrize("kind", ["server", "peer"])
def test_window_data_has_1024_bytes_at_most(systems, kind):
    """PXI-REQLS-5, PXI-REQLP-5, PXI-REQLS-14, PXI-REQPS-2: more is refused before
    resources and ids are looked at, no data is no error, and NULL is none."""
    s0, s1 = systems
    request = getattr(s0, f"request_window_logical_as_{kind}")
    arguments = (s0.interface, PROTOCOL, *USUAL, *USUAL)
    invalid = (Status.INVALID_ARGUMENT, None)
    assert request(*arguments, 7, bytes(1025)) == invalid
    assert request(*arguments, 7, bytes(8), 0xFFFFFFFF) == invalid
    assert request(s0.interface, PROTOCOL, MAX, MAX, MAX, MAX, 7, bytes(1025)) == invalid
    assert request(*arguments, 7, None, 1) == invalid
    physical = s0.request_window_physical_as_server
    assert physical(s0.interface, PROTOCOL, PAGE, 0, 0xF0000000, bytes(1025)) == invalid
    opened(request(*arguments, 7, bytes(1024)))
    assert request(*arguments, 7, bytes(1025)) == invalid
    opened(request(*arguments, 8, None, 0))
    assert sorted(s1.windows()) == [7, 8]


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_place_for_its_number_no_session_is_opened(systems, kind):
    """PXI-GEN-7, PXI-SES-1."""
    s0, s1 = systems
    session = opened(server(s1, uid=6))
    request = getattr(s0, f"request_window_logical_as_{kind}")
    answer = request(s0.interface, PROTOCOL, *USUAL, *USUAL, session=NULL)
    assert answer == (Status.INVALID_ARGUMENT, None)
    assert s1.windows() == []
    assert s1.wait_for_connection(session, 0).status == Status.TIMEOUT


def test_places_for_answers_are_needed(systems):
    """PXI-GEN-7, PXI-WFC-1: without them functions refuse, before they wait."""
    s0, s1 = systems
    sessions = pair(s0, s1)
    invalid = Status.INVALID_ARGUMENT
    assert s0.find_interfaces(1, actual=NULL).status == invalid
    assert s0.find_windows(s0.interface, 1, actual=NULL).status == invalid
    assert s0.find_windows(s0.interface, 1, NULL).status == invalid
    attribute = PXIMC.U32_PROTOCOL_VERSION
    ask = s0.query_interface_information
    assert ask(s0.interface, attribute, 4, actual=NULL).status == invalid
    assert ask(s0.interface, attribute, 4, NULL).status == invalid
    assert s0.wait_for_interface_event(s0.interface, reason=NULL).status == invalid
    assert s0.wait_for_session_event(sessions[0], reason=NULL).status == invalid
    assert s0.get_physical_address(sessions[0], NULL).status == invalid
    for place in range(4):
        pointers = [NULL if at == place else pximc.OWN for at in range(4)]
        assert s0.wait_for_connection(sessions[0], FOREVER, pointers) == (
            invalid,
            *UNTOUCHED_CONNECTION,
        )


@pytest.mark.parametrize("kind", KINDS)
def test_minima_that_nobody_has_are_not_available(systems, kind):
    """PXI-REQLS-6, PXI-REQLC-5, PXI-REQLP-6: local, remote, and both; the id is looked at
    later."""
    s0, s1 = systems
    opened(server(s0, uid=3))
    refused = (Status.SPACE_NOT_AVAILABLE, None)
    huge = (MAX, 1 << 40)
    for local, remote in ((huge, USUAL), (USUAL, huge), (huge, huge), ((MAX, MAX), NONE)):
        assert KINDS[kind](s0, local, remote, uid=3) == refused
    assert s1.windows() == [3]


def test_arguments_of_physical_servers(systems):
    """PXI-REQPS-2, PXI-REQPS-3, PXI-REQPS-4, PXI-REQPS-5, PXI-REQPS-12: no size, no
    address, and addresses beyond the last one are refused; as is every address where
    the bridge has no windows besides its first two."""
    s0, s1 = systems
    request = s0.request_window_physical_as_server
    invalid = (Status.INVALID_ARGUMENT, None)
    assert request(s0.interface, PROTOCOL, 0, 0, 0xF0000000) == invalid
    assert request(s0.interface, PROTOCOL, PAGE, 0, 0) == invalid
    assert request(s0.interface, PROTOCOL, 2 * PAGE, 0, (1 << 64) - PAGE) == invalid
    refused = (Status.SPACE_NOT_AVAILABLE, None)
    assert request(s0.interface, PROTOCOL, PAGE, 0, 0xF0000000) == refused
    assert s1.windows() == []


def test_arguments_of_physical_clients(systems):
    """PXI-REQPC-2, PXI-REQPC-3, PXI-REQPC-4: this bridge has no windows to physical
    addresses, whatever is posted."""
    s0, s1 = systems
    request = s0.request_window_physical_as_client
    for most, least in ((0, 0), (PAGE, 0), (0, PAGE), (PAGE, PAGE + 1)):
        assert request(s0.interface, PROTOCOL, most, least) == (Status.INVALID_ARGUMENT, None)
    opened(server(s1, (PAGE, 0), NONE))
    opened(peer(s1, (PAGE, 0), NONE))
    assert request(s0.interface, PROTOCOL, PAGE, 1) == (Status.SPACE_NOT_AVAILABLE, None)


# --- unique identifiers


def test_an_identifier_is_used_once_on_a_system(fabric, systems):
    """PXI-REQLS-7, PXI-REQLP-13, PXI-REQLS-8, PXI-GEN-11: by whatever process, until its
    session is closed; the other system has its own. Nothing is posted in vain."""
    s0, s1 = systems
    conflict = (Status.UID_CONFLICT, None)
    with Process(fabric.rp) as other:
        session = opened(server(s0, uid=40))
        opened(peer(s0, uid=41, protocol=1))
        for process, kind, uid in itertools.product((s0, other), (server, peer), (40, 41)):
            assert kind(process, uid=uid, protocol=2) == conflict
        assert sorted(s1.windows()) == [40, 41]
        opened(server(s1, uid=40))
        opened(peer(s1, uid=41, protocol=3))
        assert s0.close_window(session) == OK
        # The other system hears of it a little later.
        until(lambda: server(other, uid=40).status == OK)


def test_identifiers_that_are_assigned_are_free_ones(systems):
    """PXI-REQLS-8, PXI-REQLP-14, PXI-FW-3: neither 0 nor one that is taken."""
    s0, s1 = systems
    chosen = {1, 2, 3, 0x80000000, 0xFFFFFFFF}
    for uid in chosen:
        opened(server(s0, uid=uid))
    for kind in (server, peer, server, peer):
        opened(kind(s0, protocol=9))
    listed = s1.windows()
    assert len(set(listed)) == len(listed) == len(chosen) + 4
    assert chosen < set(listed) and 0 not in listed


def test_a_peer_that_finds_a_partner_needs_no_identifier_of_its_own(systems):
    """PXI-REQLP-12: one that is in use here names the partner there."""
    s0, s1 = systems
    opened(server(s0, uid=50))
    there = opened(peer(s1, uid=50))
    here = opened(peer(s0, uid=50))
    windows(systems, (here, there))


def test_an_identifier_stays_in_use_until_both_sides_have_closed(systems):
    """PXI-REQLS-7, PXI-CW-8: as everything else of a connection."""
    s0, s1 = systems
    there = opened(server(s1, uid=60))
    here = opened(client(s0, uid=60))
    assert s1.close_window(there) == OK
    assert server(s1, uid=60) == (Status.UID_CONFLICT, None)
    assert s0.close_window(here) == OK
    session = until(lambda: server(s1, uid=60).session)
    assert s1.close_window(session) == OK


# --- who is paired with whom


@pytest.mark.parametrize("here", KINDS)
@pytest.mark.parametrize("there", ["server", "peer"])
def test_servers_meet_clients_and_peers_meet_peers(systems, here, there):
    """PXI-PAIR-1, PXI-PAIR-3, PXI-REQLP-7, PXI-REQLC-6, PXI-REQLS-16: nobody else meets."""
    s0, s1 = systems
    posted = opened(KINDS[there](s1))
    answer = KINDS[here](s0)
    meet = (here, there) in (("client", "server"), ("peer", "peer"))
    if here == "client" and not meet:
        assert answer == (Status.NO_PAIRING, None)
    elif meet:
        windows(systems, (opened(answer), posted))
    else:
        assert s0.wait_for_connection(opened(answer), 200).status == Status.TIMEOUT
    if not meet:
        assert s1.wait_for_connection(posted, 0).status == Status.TIMEOUT


@pytest.mark.parametrize("bit", [0, 17, 31])
def test_protocols_have_to_be_equal(systems, bit):
    """PXI-PAIR-8, PXI-PRO-1, PXI-PRO-3, PXI-PRO-5: in every bit, and any will do."""
    s0, s1 = systems
    there = opened(server(s1, protocol=0xF0F0F0F0))
    assert client(s0, protocol=0xF0F0F0F0 ^ 1 << bit) == (Status.NO_PAIRING, None)
    here = opened(client(s0, protocol=0xF0F0F0F0))
    windows(systems, (here, there))


@pytest.mark.parametrize("protocol", [0, 1, 0xFFFFFFFF])
def test_any_protocol_will_do(systems, protocol):
    """PXI-PAIR-8, PXI-PRO-3."""
    windows(systems, pair(*systems, protocol=protocol))


@pytest.mark.parametrize(
    "kind, other", [("client", "server"), ("peer", "peer")], ids=["client", "peer"]
)
def test_an_identifier_that_is_named_has_to_be_the_one(systems, kind, other):
    """PXI-PAIR-9, PXI-PAIR-10, PXI-REQLC-13: and without one, any will do."""
    s0, s1 = systems
    named = opened(KINDS[other](s1, uid=70))
    assert s1.windows() == []
    if kind == "client":
        assert client(s0, uid=71) == (Status.NO_PAIRING, None)
    else:
        wrong = opened(peer(s0, uid=71))
        assert s0.wait_for_connection(wrong, 200).status == Status.TIMEOUT
        assert s0.close_window(wrong) == OK
    assert s1.wait_for_connection(named, 0).status == Status.TIMEOUT
    windows(systems, (opened(KINDS[kind](s0, uid=70)), named))
    any_other = opened(KINDS[other](s1, uid=72, protocol=5))
    windows(systems, (opened(KINDS[kind](s0, protocol=5)), any_other))


# The requests of both sides, as (max, min); the sizes of the first one's windows.
NEGOTIATIONS = [
    (USUAL, USUAL, USUAL, USUAL, (0x1000, 0x1000)),
    (USUAL, NONE, NONE, USUAL, (0x1000, 0)),
    (ANY, NONE, NONE, (0x2000, 0), (0x2000, 0)),
    ((0x4000, 0x2000), NONE, NONE, (0x1000, 0), None),
    ((0x1000, 0), NONE, (0x1000, 0), NONE, None),
    ((0x1000, 0), (0x1000, 0), (0x1000, 0), (0x1000, 0), (0x1000, 0x1000)),
    # Exactly one byte in common, and one too few, for each window.
    ((5000, 3000), NONE, NONE, (3000, 0), (3000, 0)),
    ((5000, 3000), NONE, NONE, (2999, 0), None),
    (NONE, (5000, 3000), (9000, 5000), NONE, (0, 5000)),
    (NONE, (5000, 3000), (9000, 5001), NONE, None),
    # One window that fits does not make up for one that does not.
    (USUAL, (0x2000, 0x1001), USUAL, USUAL, None),
    # No window is no window, whatever the other side would take.
    (NONE, (0x800, 1), (MAX, 0), (MAX, 0), (0, 0x800)),
    (NONE, (0x800, 1), (MAX, 0), (MAX, 1), None),
    ((1, 1), (1, 1), ANY, ANY, (1, 1)),
    ((MAX, 0x1235), (0xFFF, 0), (0x3001, 0), (0x1236, 0), (0x1236, 0xFFF)),
]


@pytest.mark.parametrize("roles", [("client", "server"), ("peer", "peer")], ids="-".join)
@pytest.mark.parametrize("local, remote, their_local, their_remote, expected", NEGOTIATIONS)
def test_sizes_are_negotiated(systems, roles, local, remote, their_local, their_remote, expected):
    """PXI-PAIR-4, PXI-PAIR-5, PXI-PAIR-12, PXI-PAIR-17, PXI-WFC-2, PXI-WFC-3, PXI-WFC-4,
    PXI-WFC-5, PXI-WFC-10, PXI-WFC-11, PXI-REQLS-12, PXI-REQLS-17, PXI-REQLC-11,
    PXI-REQLP-18: the largest that both sides take, or no pair; windows of no size are not
    there."""
    s0, s1 = systems
    kind, other = roles
    there = opened(KINDS[other](s1, their_local, their_remote))
    answer = KINDS[kind](s0, local, remote)
    if expected is None:
        if kind == "client":
            assert answer == (Status.NO_PAIRING, None)
        else:
            assert s0.wait_for_connection(opened(answer), 200).status == Status.TIMEOUT
        assert s1.wait_for_connection(there, 0).status == Status.TIMEOUT
        return
    ours = s0.wait_for_connection(opened(answer), 0)
    theirs = s1.wait_for_connection(there, 5000)
    assert (ours.status, theirs.status) == (OK, OK)
    assert (ours.local_size, ours.remote_size) == expected
    assert (theirs.remote_size, theirs.local_size) == expected
    for connection in (ours, theirs):
        assert bool(connection.local) == (connection.local_size > 0)
        assert bool(connection.remote) == (connection.remote_size > 0)


def test_sizes_of_pairs_are_within_all_limits(systems):
    """PXI-PAIR-1, PXI-PAIR-4, PXI-PAIR-5, PXI-PAIR-17: whatever the requests are."""
    s0, s1 = systems
    rng = random.Random(1)

    def limits():
        most = rng.choice((0, 1, rng.randrange(1, 20000), rng.randrange(1, 20000), MAX))
        return most, rng.randrange(0, min(most, 12000) + 1)

    met = 0
    for _ in range(30):
        ours, theirs = (limits(), limits()), (limits(), limits())
        if ours[0][0] == ours[1][0] == 0 or theirs[0][0] == theirs[1][0] == 0:
            continue
        there = opened(server(s1, *theirs))
        answer = client(s0, *ours)
        # Window by window: ours and theirs.
        nets = [
            (max(a[1], b[1]), min(a[0], b[0])) for a, b in zip(ours, (theirs[1], theirs[0]))
        ]
        fits = all(low <= high for low, high in nets) and any(high for _, high in nets)
        if not fits:
            assert answer == (Status.NO_PAIRING, None)
        else:
            met += 1
            near = s0.wait_for_connection(opened(answer), 0)
            far = s1.wait_for_connection(there, 5000)
            assert (near.local_size, near.remote_size) == (far.remote_size, far.local_size)
            for size, (low, high) in zip((near.local_size, near.remote_size), nets):
                assert low <= size <= high and (size == high or high == MAX)
            assert s0.close_window(answer.session) == OK
        assert s1.close_window(there) == OK
        s0.wait_for_windows()
        s1.wait_for_windows()
    assert met > 5


def test_of_two_clients_one_gets_the_server(fabric, systems):
    """PXI-PAIR-11, PXI-PAIR-18, PXI-REQLC-6: and the other one is told so at once."""
    s0, s1 = systems
    with Process(fabric.rp) as rival:
        for _ in range(10):
            there = opened(server(s1))
            arguments = (s0.interface, PROTOCOL, *USUAL, *USUAL)
            calls = [
                process.later.request_window_logical_as_client(*arguments)
                for process in (s0, rival)
            ]
            answers = [call.result() for call in calls]
            assert sorted(answer.status for answer in answers) == [Status.NO_PAIRING, OK]
            assert all(call.seconds < PROMPT for call in calls)
            for process, answer in zip((s0, rival), answers):
                if answer.status == OK:
                    windows((process, s1), (answer.session, there))
                    close((process, s1), (answer.session, there))


def test_a_session_is_paired_once_and_never_again(systems):
    """PXI-PAIR-11: also when its partner has gone."""
    s0, s1 = systems
    here, there = pair(s0, s1)
    assert client(s0) == (Status.NO_PAIRING, None)
    assert s0.close_window(here) == OK
    assert client(s0) == (Status.NO_PAIRING, None)
    assert s1.wait_for_connection(there, 5000).status == Status.SESSION_CLOSED
    both = [opened(peer(system)) for system in systems]
    windows(systems, both)
    assert s0.close_window(both[0]) == OK
    lonely = opened(peer(s0))
    assert s0.wait_for_connection(lonely, 200).status == Status.TIMEOUT


def test_several_that_fit_are_taken_one_by_one(systems):
    """PXI-PAIR-15, PXI-PAIR-16, PXI-PAIR-1: whatever their data say, until none is left."""
    s0, s1 = systems
    there = [opened(server(s1, data=bytes([number]))) for number in range(5)]
    paired = lambda: [s1.wait_for_connection(session, 0).status for session in there].count(OK)
    for count in range(5):
        assert paired() == count
        opened(client(s0))
        until(lambda: paired() == count + 1)
    assert client(s0) == (Status.NO_PAIRING, None)


# --- the scenarios of the specification


@pytest.mark.parametrize("serving", ["rp", "ep1"])
@pytest.mark.parametrize("waits", ["before", "after"])
def test_a_process_finds_a_process(fabric, systems, serving, waits):
    """PXI-REQLS-11, PXI-REQLS-16, PXI-REQLC-7, PXI-REQLC-10, PXI-PAIR-14, PXI-WFC-12,
    PXI-WFC-14, PXI-WFC-15, PXI-WFC-17, PXI-GEN-9, PXI-SES-5: a client of a server that it
    has found in the list, with the server waiting for it or not yet."""
    s0, s1 = systems if serving == "ep1" else systems[::-1]
    there = opened(server(s1, uid=1587, data=b"System 1 Server Process"))
    waiting = s1.later.wait_for_connection(there) if waits == "before" else None
    assert s0.find_windows(s0.interface, 100) == (OK, 1, [1587])
    assert s0.query_window_information(s0.interface, 1587, PXIMC.U8_WINDOW_DATA, 1024) == (
        OK,
        23,
        b"System 1 Server Process",
    )
    assert u32(s0, 1587, PXIMC.U32_WINDOW_CONNECTION_TYPE) == PXIMC.CONNECTION_SERVER
    assert u32(s0, 1587, PXIMC.U32_WINDOW_PAIRING_STATE) == PXIMC.WINDOW_UNPAIRED
    if waiting:
        assert not waiting.returned()
    here = opened(client(s0, uid=1587))
    ours = s0.wait_for_connection(here, 0)
    assert ours.status == OK and s0.seconds < PROMPT
    theirs = (waiting or s1.later.wait_for_connection(there)).result()
    for connection in (ours, theirs):
        assert connection.status == OK and connection.remote and connection.local
        assert (connection.remote_size, connection.local_size) == (0x1000, 0x1000)
    for (source, out), (sink, into) in (
        ((s0, ours.remote), (s1, theirs.local)),
        ((s1, theirs.remote), (s0, ours.local)),
    ):
        for offset in (0, 1, 0x123, 0xFF8):
            data = struct.pack("=Q", 0x0123456789ABCDEF + offset)
            source.write(out + offset, data)
            until(lambda: sink.read(into + offset, 8) == data)
    # As often as one likes, with the same answer.
    assert s0.wait_for_connection(here) == ours
    assert s1.wait_for_connection(there, 0) == theirs


@pytest.mark.skipif(
    not (programs32_dir() / "pximc_shell").exists(), reason="there is no compiler for 32 bits"
)
@pytest.mark.parametrize("bits", [(32, 64), (64, 32), (32, 32)], ids=str)
def test_processes_of_32_bits_share_windows(fabric, bits):
    """PXI-INSL-8, PXI-GEN-10, PXI-WFC-12, PXI-AE-1: with processes of either kind, by the
    Dispatcher and the library for theirs."""
    with Process(fabric.rp, bits=bits[0]) as s0, Process(fabric.eps[0], bits=bits[1]) as s1:
        both = s0, s1
        for system in both:
            system.wait_for_windows()
        sessions = pair(*both)
        (out, into), (back_out, back_into) = windows(both, sessions)
        for source, sink in ((out, back_into), (back_out, into)):
            source.fill(1)
            until(lambda: sink.check(1) == INTACT)
        for here, there in (both, both[::-1]):
            number = dict(zip(both, sessions))
            assert here.assert_event(number[here]) == OK
            assert there.wait_for_session_event(number[there]).status == OK
        close(both, sessions)


@pytest.mark.parametrize("order", ["rp first", "ep1 first", "both at once"])
def test_two_peers_meet_in_any_order(systems, order):
    """PXI-REQLP-7, PXI-REQLP-8, PXI-REQLP-9, PXI-REQLP-17, PXI-REQLP-20, PXI-PAIR-1,
    PXI-PAIR-18: again and again."""
    first, second = systems[::-1] if order == "ep1 first" else systems
    for _ in range(10 if order == "both at once" else 2):
        if order == "both at once":
            calls = [
                system.later.request_window_logical_as_peer(
                    system.interface, PROTOCOL, *USUAL, *USUAL
                )
                for system in systems
            ]
            sessions = [opened(call.result()) for call in calls]
        else:
            posted = opened(peer(first))
            assert first.wait_for_connection(posted, 0).status == Status.TIMEOUT
            sessions = [posted, opened(peer(second))]
            assert second.wait_for_connection(sessions[1], 0).status == OK
        connections = [s.wait_for_connection(n, 10000) for s, n in zip((first, second), sessions)]
        assert [connection.status for connection in connections] == [OK, OK]
        close((first, second), sessions)
        first.wait_for_windows()
        second.wait_for_windows()


def test_events_go_both_ways(systems):
    """PXI-AE-1, PXI-AE-3, PXI-AE-5, PXI-WSE-6, PXI-WSE-7, PXI-WSE-10, PXI-WSE-12: to one
    that waits, with all data before them, and to one that will wait."""
    s0, s1 = systems
    here, there = pair(s0, s1)
    (out, _), (_, into) = windows(systems, (here, there))
    waiting = s1.later.wait_for_session_event(there)
    time.sleep(0.5)
    assert not waiting.returned()
    out.fill(1)
    assert s0.assert_event(here) == OK
    assert waiting.result() == (OK, ASSERTED)
    assert into.check(1) == INTACT
    waiting = s0.later.wait_for_session_event(here)
    assert s1.assert_event(there) == OK
    assert waiting.result() == (OK, ASSERTED)
    assert s1.assert_event(there) == OK
    assert s0.wait_for_session_event(here, 5000) == (OK, ASSERTED)
    assert s0.seconds < PROMPT


def test_events_that_nobody_has_taken_are_one(systems):
    """PXI-AE-4, PXI-WSE-1, PXI-WSE-5, PXI-WSE-8, PXI-WSE-9, PXI-PRO-6: and the next wait
    finds none; times that pass are not cut short."""
    s0, s1 = systems
    here, there = pair(s0, s1)
    none = (Status.TIMEOUT, None)
    assert s1.wait_for_session_event(there, 0) == none
    for _ in range(3):
        assert s0.assert_event(here) == OK
    assert s1.wait_for_session_event(there, 5000) == (OK, ASSERTED)
    time.sleep(0.2)
    # The later two may have arrived meanwhile, as one.
    s1.wait_for_session_event(there, 0)
    assert s1.wait_for_session_event(there, 0) == none
    assert s1.wait_for_session_event(there, 300) == none
    assert s1.seconds >= 0.3


def test_of_two_threads_that_wait_for_a_session_one_gets_the_event(systems):
    """PXI-WSE-11."""
    s0, s1 = systems
    here, there = pair(s0, s1)
    waiting = [s1.later.wait_for_session_event(there, 1500) for _ in range(2)]
    time.sleep(0.3)
    assert s0.assert_event(here) == OK
    answers = sorted(call.result() for call in waiting)
    assert answers == [(OK, ASSERTED), (Status.TIMEOUT, None)]


@pytest.mark.parametrize("size, rounds", [(8, 400), (PAGE, 200), (100_001, 20)])
def test_data_are_there_when_the_event_is(systems, size, rounds):
    """PXI-AE-1, PXI-AE-2, PXI-AE-5, PXI-AE-7, PXI-PRO-6: in every round, in both directions at
    a time; and it does not wait for a timer."""
    s0, s1 = systems
    sessions = [pair(s0, s1, (size, size), (size, size), protocol=n) for n in (1, 2)]
    (out, _), (_, into) = windows(systems, sessions[0])
    (_, back_into), (back_out, _) = windows(systems, sessions[1])
    calls = [
        s0.later.produce(sessions[0][0], out.address, size, rounds),
        s1.later.consume(sessions[0][1], into.address, size, rounds),
        s1.later.produce(sessions[1][1], back_out.address, size, rounds),
        s0.later.consume(sessions[1][0], back_into.address, size, rounds),
    ]
    assert [call.result(60) for call in calls] == [(rounds, 0)] * 4
    if size == 8:
        assert all(call.seconds / rounds < 0.02 * PATIENCE for call in calls)


# --- what a session can do in each state


def test_a_session_without_a_partner(systems):
    """PXI-SES-7, PXI-WFC-1, PXI-WFC-12, PXI-WFC-14, PXI-GPA-2, PXI-EDA-5, PXI-AE-6,
    PXI-WSE-5, PXI-WSE-13, PXI-CW-5: has nothing yet, and says so at once."""
    s0, _ = systems
    for session in (opened(server(s0)), opened(peer(s0))):
        assert all_calls(s0, session) == dict.fromkeys(SESSION_CALLS, Status.NO_PAIRING) | {
            "waitForConnection": Status.TIMEOUT
        }
        assert s0.wait_for_connection(session, 0) == (Status.TIMEOUT, *UNTOUCHED_CONNECTION)
        assert s0.seconds < PROMPT
        assert s0.wait_for_connection(session, 300) == (Status.TIMEOUT, *UNTOUCHED_CONNECTION)
        assert s0.seconds >= 0.3
        assert s0.wait_for_session_event(session) == (Status.NO_PAIRING, None)
        assert s0.seconds < PROMPT
        assert s0.get_physical_address(session) == (Status.NO_PAIRING, None)
        assert s0.close_window(session) == OK


def test_a_session_whose_partner_has_closed(systems):
    """PXI-WFC-1, PXI-WFC-6, PXI-WFC-18, PXI-GPA-2, PXI-EDA-5, PXI-AE-6, PXI-WSE-2,
    PXI-CW-3, PXI-CW-5: says so, every time, until it is closed as well."""
    s0, s1 = systems
    here, there = pair(s0, s1)
    assert s0.close_window(here) == OK
    assert s1.wait_for_session_event(there, 5000) == (OK, CLOSED)
    for _ in range(2):
        assert all_calls(s1, there) == dict.fromkeys(SESSION_CALLS, Status.SESSION_CLOSED) | {
            "waitForSessionEvent": OK
        }
        assert s1.wait_for_session_event(there) == (OK, CLOSED)
        assert s1.wait_for_connection(there) == (Status.SESSION_CLOSED, *UNTOUCHED_CONNECTION)
        assert s1.seconds < PROMPT
    assert s1.close_window(there) == OK
    assert s1.close_window(there) == Status.INVALID_SESSION


def test_a_session_that_is_not_there(systems):
    """PXI-SES-5, PXI-SES-6, PXI-WSE-5, PXI-WFC-1, PXI-WFC-6, PXI-CW-5: 0, never opened, or
    closed, is refused at once, before any other argument is looked at."""
    s0, s1 = systems
    closed = opened(server(s0))
    assert s0.close_window(closed) == OK
    elsewhere = opened(server(s1))
    for session in {0, closed, elsewhere, UNKNOWN, 0xFFFFFFFF}:
        assert all_calls(s0, session) == dict.fromkeys(SESSION_CALLS, Status.INVALID_SESSION)
        assert s0.wait_for_connection(session, FOREVER, [NULL] * 4).status == (
            Status.INVALID_SESSION
        )
        assert s0.seconds < PROMPT
        assert s0.wait_for_session_event(session) == (Status.INVALID_SESSION, None)
        assert s0.enable_device_access(session, 4, 256) == Status.INVALID_SESSION
        assert s0.close_window(session) == Status.INVALID_SESSION
    assert s1.close_window(elsewhere) == OK


def test_a_session_without_a_remote_window_has_no_address(systems):
    """PXI-GPA-2, PXI-EDA-5."""
    s0, s1 = systems
    here, there = pair(s0, s1, USUAL, NONE)
    assert s0.get_physical_address(here) == (Status.NO_WINDOW, None)
    assert s0.enable_device_access(here, PXIMC.DEVICE_ACCESS_READ) == Status.NO_WINDOW
    # The other side has one, where the bridge lets devices reach it.
    status, address = s1.get_physical_address(there)
    assert (status, address) == (Status.PHY_RESOURCE_NOT_AVAILABLE, None) or (
        status == OK and address % PAGE == 0 and address
    )


@pytest.mark.parametrize("mode", [0, 4, 0x40000000, 0x80000001, 0x80000003, 0xFFFFFFFF])
def test_accesses_that_there_are_not(systems, mode):
    """PXI-EDA-2, PXI-EDA-4: are refused, whether or not there is a partner."""
    s0, s1 = systems
    posted = opened(server(s0, protocol=1))
    for session in (posted, pair(s0, s1)[0]):
        assert s0.enable_device_access(session, mode) == Status.INVALID_ARGUMENT


@pytest.mark.parametrize("place", [(256, 0, 0), (0, 32, 0), (0, 0, 8), (MAX >> 32, 0, 0)])
def test_devices_that_cannot_be(systems, place):
    """PXI-EDA-4: beyond the numbers of PCI; those at its limits are not refused for that."""
    s0, s1 = systems
    here, _ = pair(s0, s1)
    mode = PXIMC.DEVICE_ACCESS_READ | PXIMC.DEVICE_ACCESS_WRITE
    assert s0.enable_device_access(here, mode, *place) == Status.INVALID_ARGUMENT
    assert s0.enable_device_access(here, mode, 255, 31, 7) != Status.INVALID_ARGUMENT


@pytest.mark.parametrize("local, remote", [(USUAL, NONE), (NONE, USUAL)], ids=["local", "remote"])
def test_places_for_a_window_that_was_not_asked_for_may_be_missing(systems, local, remote):
    """PXI-WFC-10, PXI-WFC-11, PXI-WFC-16, PXI-REQLS-12, PXI-REQLC-11: and if they are
    there, NULL and 0 are written."""
    s0, s1 = systems
    here, there = pair(s0, s1, local, remote)
    no_remote, no_local = (NULL, NULL, pximc.OWN, pximc.OWN), (pximc.OWN, pximc.OWN, NULL, NULL)
    for system, session, ours in ((s0, here, local), (s1, there, remote)):
        whole = system.wait_for_connection(session, 5000)
        needed, missing = (no_remote, "remote") if ours is USUAL else (no_local, "local")
        assert whole.status == OK
        assert (getattr(whole, missing), getattr(whole, f"{missing}_size")) == (0, 0)
        answer = system.wait_for_connection(session, 0, needed)
        assert answer == whole._replace(**{missing: None, f"{missing}_size": None})


# --- the end of a session


def test_a_side_that_closes_waits_for_nobody(systems):
    """PXI-CW-3, PXI-CW-4, PXI-CW-6, PXI-CW-9, PXI-WSE-2, PXI-WSE-4, PXI-WSE-14, PXI-AE-6: the
    other side gets one event, that the connection is closed, whatever it had not taken yet."""
    s0, s1 = systems
    here, there = pair(s0, s1)
    waiting = s1.later.wait_for_session_event(there)
    assert s0.close_window(here) == OK
    assert s0.seconds < PROMPT
    assert waiting.result() == (OK, CLOSED)
    assert s1.assert_event(there) == Status.SESSION_CLOSED
    assert s1.close_window(there) == OK

    here, there = pair(s0, s1)
    assert s0.assert_event(here) == OK
    assert s0.close_window(here) == OK
    until(lambda: s1.assert_event(there) == Status.SESSION_CLOSED)
    for _ in range(3):
        assert s1.wait_for_session_event(there) == (OK, CLOSED)
    assert s1.close_window(there) == OK


@pytest.mark.parametrize("first", ["client", "server"])
def test_either_side_may_close_first(systems, first):
    """PXI-CW-5, PXI-CW-6, PXI-WSE-2."""
    s0, s1 = systems
    ends = list(zip(systems, pair(s0, s1)))
    if first == "server":
        ends.reverse()
    (one, session), (other, other_session) = ends
    assert one.close_window(session) == OK
    assert other.wait_for_session_event(other_session, 5000) == (OK, CLOSED)
    assert other.close_window(other_session) == OK
    s0.wait_for_windows()
    s1.wait_for_windows()


@pytest.mark.parametrize("how", ["close", "cleanup"])
def test_threads_that_wait_for_a_session_that_is_closed_return(systems, how):
    """PXI-GEN-3, PXI-CL-1, PXI-CW-4: at once, and it is no session any more."""
    s0, s1 = systems
    here, _ = pair(s0, s1)
    posted = opened(server(s0, protocol=1))
    calls = [s0.later.wait_for_session_event(here) for _ in range(2)]
    calls.append(s0.later.wait_for_connection(posted))
    time.sleep(0.3)
    if how == "close":
        assert [s0.close_window(session) for session in (here, posted)] == [OK, OK]
    else:
        assert s0.cleanup() == OK
    assert {call.result().status for call in calls} == {Status.INVALID_SESSION}


def test_windows_stay_until_the_own_side_closes(systems):
    """PXI-CW-1, PXI-CW-3, PXI-CW-9: the remote one reads as ones when the partner has gone,
    and may be written to; the local one keeps what it has. Afterwards there is nothing."""
    s0, s1 = systems
    here, there = pair(s0, s1)
    (out, into), _ = windows(systems, (here, there))
    for system in systems:
        assert "mp_fabric" in system.guest.run(f"cat /proc/{system.pid}/maps").out
    out.fill(1)
    assert s1.close_window(there) == OK
    assert s0.wait_for_session_event(here, 5000) == (OK, CLOSED)
    assert until(lambda: out.same(0xFF) == INTACT)
    assert into.same(0) == INTACT
    out.fill(2)
    into.fill(3)
    assert into.check(3) == INTACT
    assert s0.close_window(here) == OK
    for system in systems:
        assert "mp_fabric" not in system.guest.run(f"cat /proc/{system.pid}/maps").out


def largest(s0, s1, ours=client, theirs=server):
    """Open a pair as large as can be; the sessions and the two sizes of the first side."""
    there = opened(theirs(s1, (MAX, 0), (MAX, 0), protocol=0x1A26E57))
    answer = ours(s0, (MAX, 0), (MAX, 0), protocol=0x1A26E57)
    if answer.status != OK:
        assert answer.status == Status.NO_PAIRING
        assert s1.close_window(there) == OK
        return None, (0, 0)
    connection = s0.wait_for_connection(answer.session, 0)
    return (answer.session, there), (connection.local_size, connection.remote_size)


def all_there_is(s0, s1):
    """The sizes of the largest pair, which is closed again."""
    sessions, found = largest(s0, s1)
    if sessions:
        close((s0, s1), sessions)
        s0.wait_for_windows()
        s1.wait_for_windows()
    return found


@pytest.mark.parametrize("kinds", [(client, server), (peer, peer)], ids=["client", "peer"])
def test_memory_is_reserved_until_both_sides_have_closed(systems, kinds):
    """PXI-CW-8, PXI-CW-9, PXI-CW-11, PXI-REQLC-8, PXI-REQLP-10, PXI-PAIR-12, PXI-PAIR-13:
    then it can be had again, all of it, and without what was in it."""
    s0, s1 = systems
    whole = all_there_is(s0, s1)
    assert min(whole) >= 1 << 20
    sessions, found = largest(s0, s1, *kinds)
    assert found == whole
    for window in itertools.chain(*windows(systems, sessions)):
        window.fill(7)
    for system, session in ((s0, sessions[0]), (s1, sessions[1])):
        # The pair may have left pieces: memory need not be in one.
        rest, found = largest(s0, s1)
        assert max(found) < min(whole) // 2
        if rest:
            close(systems, rest)
        assert system.close_window(session) == OK
    until(lambda: all_there_is(s0, s1) == whole)
    sessions, again = largest(s0, s1)
    assert again == whole
    for window in itertools.chain(*windows(systems, sessions)):
        assert window.same(0) == INTACT


def test_large_windows_carry_data_both_ways_to_the_last_byte(systems):
    """PXI-GEN-9, PXI-PRO-8, PXI-PAIR-12, PXI-PAIR-17: all bytes of all that can be had."""
    sessions, found = largest(*systems)
    assert min(found) >= 1 << 20
    (out, into), (back, there) = windows(systems, sessions)
    out.fill(0xA11CE)
    back.fill(0xB0B)
    for system, session in zip(systems, sessions):
        assert system.assert_event(session) == OK
    for system, session in zip(systems, sessions):
        assert system.wait_for_session_event(session, 5000) == (OK, ASSERTED)
    assert there.check(0xA11CE) == INTACT
    assert into.check(0xB0B) == INTACT


def test_what_is_left_is_shared_until_nothing_is(systems):
    """PXI-PAIR-6, PXI-PAIR-7, PXI-PAIR-12, PXI-PAIR-13, PXI-REQLC-8: sums never exceed what
    there is, and pairs without any memory are none."""
    s0, s1 = systems
    whole = all_there_is(s0, s1)
    half = [size // 2 & -PAGE for size in whole]
    first = pair(s0, s1, (half[0], half[0]), (half[1], half[1]))
    second, rest = largest(s0, s1)
    assert all(0 < size <= all_ - used for size, all_, used in zip(rest, whole, half))
    held = [first, second]
    taken = [used + size for used, size in zip(half, rest)]
    while (more := largest(s0, s1))[0]:
        held.append(more[0])
        taken = [used + size for used, size in zip(taken, more[1])]
        assert more[1] != (0, 0)
    assert all(used <= all_ for used, all_ in zip(taken, whole))
    # Nothing is left that both sides would share.
    there = opened(server(s1, (MAX, 0), (MAX, 0)))
    assert client(s0, (MAX, 0), (MAX, 0)) == (Status.NO_PAIRING, None)
    assert client(s0, (MAX, PAGE), (MAX, 0)).status in REFUSED
    assert s1.close_window(there) == OK
    for sessions in held:
        close(systems, sessions)
    until(lambda: all_there_is(s0, s1) == whole)


@pytest.mark.parametrize("exhausted", ["local", "remote"])
def test_a_pair_needs_memory_for_one_of_its_windows(systems, exhausted):
    """PXI-PAIR-6, PXI-PAIR-7, PXI-PAIR-12, PXI-WFC-10, PXI-WFC-11: the other one may end up
    with none."""
    s0, s1 = systems
    limits = ((MAX, 1), NONE) if exhausted == "local" else (NONE, (MAX, 1))
    while server_and_client(s0, s1, *limits):
        pass
    here = server_and_client(s0, s1, ANY, ANY)
    connection = s0.wait_for_connection(here, 0)
    sizes = {"local": connection.local_size, "remote": connection.remote_size}
    assert sizes.pop(exhausted) == 0
    assert sum(sizes.values()) >= 1 << 20
    # One that has to have both is none.
    assert server_and_client(s0, s1, (MAX, 1), (MAX, 1)) is None


def server_and_client(s0, s1, local, remote):
    """Open a pair, if it can be had; the client's session."""
    there = server(s1, (MAX, 0), (MAX, 0), protocol=0x0E3417)
    answer = client(s0, local, remote, protocol=0x0E3417)
    if answer.status == OK:
        return answer.session
    assert answer.status in REFUSED
    assert s1.close_window(opened(there)) == OK
    return None


def test_more_than_is_free_is_not_available(systems):
    """PXI-REQLS-6, PXI-REQLC-5, PXI-REQLP-6, PXI-PAIR-6, PXI-CW-11: and what is, is."""
    s0, s1 = systems
    local, remote = all_there_is(s0, s1)
    for kind in KINDS.values():
        assert kind(s0, (MAX, local + 1), NONE) == (Status.SPACE_NOT_AVAILABLE, None)
        assert kind(s0, NONE, (MAX, remote + 1)) == (Status.SPACE_NOT_AVAILABLE, None)
    windows(systems, pair(s0, s1, (local, local), (remote, remote)))


def test_many_sessions_at_once_have_windows_of_their_own(systems):
    """PXI-SES-4, PXI-GEN-11, PXI-PAIR-13, PXI-GPA-4, PXI-REQLS-10, PXI-REQLC-9,
    PXI-REQLP-11: in no window is what belongs into another one, not even of what a process
    writes behind its window's last byte, as far as it has a page there."""
    s0, s1 = systems
    size, pages = 5000, 2 * PAGE
    sessions = [pair(s0, s1, (size, size), (size, size)) for _ in range(32)]
    for numbers in zip(*sessions):
        assert len(set(numbers)) == 32
    ends = [windows(systems, both) for both in sessions]
    for number, ((out, _), (back, _)) in enumerate(ends):
        for window, seed in ((out, 1000 * number), (back, 1000 * number + 500)):
            assert window.size == size
            window.process.fill(window.address, pages, seed)
    for numbers in sessions:
        for system, session in zip(systems, numbers):
            assert system.assert_event(session) == OK
    for number, (numbers, ((_, into), (_, there))) in enumerate(zip(sessions, ends)):
        for system, session in zip(systems, numbers):
            assert system.wait_for_session_event(session, 5000) == (OK, ASSERTED)
        for window, seed in ((there, 1000 * number), (into, 1000 * number + 500)):
            assert window.process.check(window.address, pages, seed) == INTACT


def test_what_cannot_be_counted_any_more_is_refused(systems):
    """PXI-REQLS-6, PXI-SES-3: sessions are not without limit, and room that is made can be
    used."""
    s0, s1 = systems
    sessions = []
    while (answer := server(s0)).status == OK:
        sessions.append(answer.session)
        assert len(sessions) < 2000
    assert answer == (Status.SPACE_NOT_AVAILABLE, None)
    assert len(sessions) >= 32
    listed = s1.find_windows(s1.interface, 2000)
    assert listed.actual == len(set(listed.ids)) == len(sessions)
    assert s0.close_window(sessions.pop()) == OK
    opened(server(s0))


# --- processes


def test_a_session_is_of_no_use_to_other_processes(fabric, systems):
    """PXI-SES-2, PXI-CL-1: their numbers may be known, and their owner does not notice."""
    s0, s1 = systems
    here, there = pair(s0, s1)
    with Process(fabric.rp) as other:
        assert other.windows() != []
        assert all_calls(other, here) == dict.fromkeys(SESSION_CALLS, Status.INVALID_SESSION)
        assert other.close_window(here) == Status.INVALID_SESSION
        assert other.cleanup() == OK
        own = opened(server(other, protocol=3))
        assert own != here
    assert s0.assert_event(here) == OK
    assert s1.wait_for_session_event(there, 5000) == (OK, ASSERTED)


def test_a_session_is_of_no_use_to_children(systems):
    """PXI-SES-2, PXI-WFC-15, PXI-CL-1: neither its number nor its windows; but a child may
    begin for itself, and cannot spoil what its parent has."""
    s0, s1 = systems
    here, there = pair(s0, s1)
    (out, into), (_, theirs) = windows(systems, (here, there))
    listed = until(s1.windows)
    assert all_calls(s0.child, here) == dict.fromkeys(SESSION_CALLS, Status.INVALID_SESSION)
    assert s0.child.close_window(here) == Status.INVALID_SESSION
    assert s0.child.cleanup() == OK
    for window in (out, into):
        assert s0.child.touch(window.address, 8) != 0
    assert s0.child.find_interfaces() == (OK, 1, [s0.interface])
    assert s0.child.request_window_logical_as_server(
        s0.interface, PROTOCOL, *USUAL, *USUAL
    ).status == OK
    out.fill(5)
    assert s0.assert_event(here) == OK
    assert s1.wait_for_session_event(there, 5000) == (OK, ASSERTED)
    assert theirs.check(5) == INTACT
    # The child's own window went with it.
    s1.wait_for_windows(*listed)


WAYS_TO_GO = ["die", "exit", "leave"]


@pytest.mark.parametrize("way", WAYS_TO_GO)
def test_a_process_that_ends_leaves_nothing(fabric, systems, way):
    """PXI-CW-6, PXI-CW-7, PXI-CW-10, PXI-CW-13, PXI-WSE-2: not even if it is killed while
    threads of it wait in the kernel. Its partner keeps what it has until it closes."""
    s0, s1 = systems
    whole = all_there_is(s0, s1)
    with Process(fabric.rp) as victim:
        here, there = pair(victim, s1, (0x20000, 1), (0x20000, 1))
        posted = opened(server(victim, uid=80, protocol=1))
        opened(peer(victim, uid=81, protocol=2))
        (out, _), (back, into) = windows((victim, s1), (here, there))
        out.fill(3)
        assert victim.assert_event(here) == OK
        assert s1.wait_for_session_event(there, 5000) == (OK, ASSERTED)
        victim.later.wait_for_session_event(here)
        victim.later.wait_for_connection(posted)
        assert victim.wait_for_interface_event(victim.interface).status == OK
        victim.later.wait_for_interface_event(victim.interface)
        waiting = s1.later.wait_for_session_event(there)
        time.sleep(0.3)
        getattr(victim, way)()
    assert waiting.result() == (OK, CLOSED)
    assert all_calls(s1, there)["assertEvent"] == Status.SESSION_CLOSED
    s1.wait_for_windows()
    assert into.check(3) == INTACT
    back.fill(4)
    assert s1.close_window(there) == OK
    until(lambda: all_there_is(s0, s1) == whole)
    opened(server(s0, uid=80))


@pytest.mark.parametrize("shared", (False, True), ids=("inherits", "shares"))
def test_a_child_that_stays_does_not_keep_its_parents_sessions(fabric, systems, shared):
    """PXI-CW-10, PXI-SES-2: although it has inherited everything that was open, or has
    the very same descriptors, which nobody closes then."""
    _, s1 = systems
    with Process(fabric.rp) as parent:
        here, there = pair(parent, s1)
        opened(server(parent, uid=90, protocol=1))
        child = parent.linger(shared)
        try:
            waiting = s1.later.wait_for_session_event(there)
            parent.die()
            assert waiting.result() == (OK, CLOSED)
            s1.wait_for_windows()
        finally:
            fabric.rp.run(f"kill -9 {child}")


def test_the_end_of_a_thread_with_descriptors_of_its_own_ends_no_session(systems):
    """PXI-CW-10: it closes its copies; the process still has its own."""
    here, there = pair(*systems)
    windows(systems, (here, there))
    systems[0].later.part().result()
    # The thread ends behind its answer.
    for _ in range(5):
        time.sleep(0.05)
        assert systems[0].assert_event(here) == OK
        assert systems[1].wait_for_session_event(there, 5000) == (OK, ASSERTED)


def test_two_processes_do_not_notice_each_other(fabric, systems):
    """PXI-GEN-11, PXI-CL-1, PXI-WIE-3: whatever one does, the other's sessions go on."""
    s0, s1 = systems
    with Process(fabric.rp) as neighbour:
        kept = pair(s0, s1, protocol=1)
        lost = pair(neighbour, s1, protocol=2)
        (out, _), (_, into) = windows(systems, kept)
        (noise, _), _ = windows((neighbour, s1), lost)
        out.fill(1)
        noise.fill(2)
        assert neighbour.cleanup() == OK
        assert s1.wait_for_session_event(lost[1], 5000) == (OK, CLOSED)
        assert s1.wait_for_session_event(kept[1], 0).status == Status.TIMEOUT
        assert s0.assert_event(kept[0]) == OK
        assert s1.wait_for_session_event(kept[1], 5000) == (OK, ASSERTED)
        assert into.check(1) == INTACT


def test_cleanup_closes_everything_and_allows_a_new_start(systems):
    """PXI-CL-1, PXI-CL-2, PXI-CL-3, PXI-CL-4, PXI-CL-5, PXI-CL-6, PXI-FI-11: with nothing
    open, twice, and again and again without losing a descriptor or a mapping."""
    s0, s1 = systems
    assert s1.cleanup() == OK
    assert s1.cleanup() == OK

    def belongings():
        return s0.guest.run(f"ls /proc/{s0.pid}/fd | wc -l; wc -l < /proc/{s0.pid}/maps").out

    seen = []
    for _ in range(4):
        for _ in range(3):
            here, there = pair(s0, s1)
            posted = opened(server(s0, uid=33, protocol=1))
            windows(systems, (here, there))
            assert s0.cleanup() == OK
            assert s0.seconds < PROMPT
            for session in (here, posted):
                assert s0.close_window(session) == Status.INVALID_SESSION
            assert s1.wait_for_session_event(there, 5000) == (OK, CLOSED)
            s1.wait_for_windows()
            assert s1.close_window(there) == OK
            assert s0.find_interfaces(4) == (OK, 1, [s0.interface])
        seen.append(belongings())
    # The first turn may have loaded something.
    assert len(set(seen[1:])) == 1


# --- much at a time


@pytest.mark.long
def test_both_sides_agree_whatever_is_asked_for_at_once(fabric, systems):
    """PXI-PAIR-1, PXI-PAIR-11, PXI-PAIR-18, PXI-SES-4, PXI-GEN-3, PXI-GEN-11: requests of
    four processes, from both sides at a time, and closes between them."""
    rng = random.Random(2)
    with Process(fabric.rp) as third, Process(fabric.eps[0]) as fourth:
        sides = ((systems[0], third), (systems[1], fourth))
        for turn in range(60):
            calls = []
            for side, processes in enumerate(sides):
                for process in processes:
                    for _ in range(rng.randrange(1, 4)):
                        arguments = (process.interface, turn, *USUAL, *USUAL)
                        request = process.later.request_window_logical_as_peer
                        calls.append((side, process, request(*arguments)))
            sessions = [(side, process, opened(call.result())) for side, process, call in calls]
            both = [sum(side == wanted for side, _, _ in sessions) for wanted in (0, 1)]
            # As many as there are partners for, on each side.
            statuses = lambda: [
                (side, process.wait_for_connection(session, 0).status)
                for side, process, session in sessions
            ]
            until(lambda: all(statuses().count((side, OK)) == min(both) for side in (0, 1)))
            rng.shuffle(sessions)
            for _, process, session in sessions:
                assert process.close_window(session) == OK
            for side in sides:
                side[0].wait_for_windows()


@pytest.mark.long
@pytest.mark.parametrize("size, rounds", [(64, 20000), (PAGE, 5000), (1 << 20, 100)])
def test_data_are_there_when_the_event_is_for_long(systems, size, rounds):
    """PXI-AE-1, PXI-AE-5."""
    s0, s1 = systems
    here, there = pair(s0, s1, (size, size), (size, size))
    (out, _), (_, into) = windows(systems, (here, there))
    calls = [
        s0.later.produce(here, out.address, size, rounds),
        s1.later.consume(there, into.address, size, rounds),
    ]
    assert [call.result(300) for call in calls] == [(rounds, 0)] * 2


@pytest.mark.long
def test_processes_are_killed_at_any_time(fabric, systems):
    """PXI-CW-10, PXI-PAIR-18: nothing is left of any of them, on either side."""
    s0, s1 = systems
    whole = all_there_is(s0, s1)
    rng = random.Random(3)
    for _ in range(20):
        with Process(fabric.rp) as one, Process(fabric.eps[0]) as other:
            for process in (one, other):
                for protocol in range(8):
                    process.later.request_window_logical_as_peer(
                        process.interface, protocol, *USUAL, *USUAL
                    )
            time.sleep(rng.random() / 10)
            for process in (one, other):
                process.die()
        s0.wait_for_windows()
        s1.wait_for_windows()
    until(lambda: all_there_is(s0, s1) == whole)
