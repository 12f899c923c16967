# SPDX-License-Identifier: GPL-2.0-only
"""Sessions with names, and servers that answer each request themselves, on both hosts of a
pair and within one host."""

import errno
import struct
from types import SimpleNamespace

import pytest
import sharing
from ntbrig import stack
from pximc import MODULES
from sharing import FOREVER, MP, PAST, fails
from shell import until

pytestmark = pytest.mark.everywhere

PAGE = 0x1000
# Bytes of `struct mp_session_open` in its first version.
FIRST_SIZE = 80
# Which host has the server: the two engines of a link differ.
PLACES = ("server at the root processor", "server at the endpoint", "one host")


@pytest.fixture(scope="module")
def fabric(boot):
    fabric = boot(hosts=2)
    stack.load(*fabric.hosts, modules=MODULES)
    return fabric


class Party:
    """A process with the interface to the other one."""

    def __init__(self, process, interface):
        self.process = process
        self.interface = interface
        process.wait_until_up(interface)
        self.room = process.allocate(4 * PAGE)

    def _open(self, role, name, data, flags, fields):
        for at, what in ((self.room, name), (self.room + PAGE, data)):
            if what:
                self.process.write(at, what)
        return {
            "interface": self.interface,
            "role": role,
            "location": MP.LOCATION_LOGICAL,
            "protocol": 7,
            "name": self.room,
            "name_size": len(name),
            "data": self.room + PAGE,
            "data_size": len(data),
            "flags": flags,
            **fields,
        }

    def open(self, role, name=b"", data=b"", flags=0, **fields):
        fields = self._open(role, name, data, flags, fields)
        return self.process.call("SESSION_OPEN", "mp_session_open", **fields).handle

    def open_each(self, role, names, flags, **fields):
        """As `open`, one session for each name; their handles."""
        step = max(map(len, names))
        at = self.process.allocate(step * len(names))
        self.process.write(at, b"".join(name.ljust(step, b"\0") for name in names))
        common = self._open(role, b"", b"", flags, fields)
        each = (
            common | {"name": at + n * step, "name_size": len(name)} for n, name in enumerate(names)
        )
        made = self.process.each("SESSION_OPEN", "mp_session_open", each)
        return [one.handle for one in made]

    def later(self, role, name=b"", data=b"", flags=0, **fields):
        """As `open`, in a thread."""
        fields = self._open(role, name, data, flags, fields)
        return self.process.later("SESSION_OPEN", "mp_session_open", **fields)

    def server(self, name=b"", data=b"", flags=MP.SESSION_DEFER, **fields):
        fields = {"local_min": PAGE, "local_max": PAGE, **fields}
        return self.open(MP.ROLE_SERVER, name, data, flags, **fields)

    def client(self, name=b"", data=b"", flags=MP.SESSION_NONBLOCK, **fields):
        fields = {"remote_max": PAGE, **fields}
        return self.open(MP.ROLE_CLIENT, name, data, flags, **fields)

    def peer(self, name, own=0, data=b""):
        sizes = {"local_max": PAGE, "remote_max": PAGE}
        return self.open(MP.ROLE_PEER, name, data, name_own=own, **sizes)

    def partner(self, handle):
        room = self.room + 2 * PAGE
        fields = {"handle": handle, "data": room, "data_size": 1024}
        found = self.process.call("SESSION_PARTNER", "mp_session_partner", **fields)
        found.bytes = self.process.read(room, found.data_size) if found.data_size else b""
        return found

    def request(self, handle):
        """The request at hand, as soon as there is one."""
        self.process.wait(handle, MP.EVENT_REQUEST)
        found = self.partner(handle)
        assert found.state == MP.PARTNER_REQUEST and found.request
        return found

    def _answer(self, handle, request, data, fields):
        if data:
            self.process.write(self.room + 3 * PAGE, data)
        room = {"data": self.room + 3 * PAGE, "data_size": len(data)}
        return {"handle": handle, "request": request, **room, **fields}

    def accept_each(self, handles):
        """Accept the request of each handle, as soon as there is one."""
        self.wait_each(handles, MP.EVENT_REQUEST)
        fields = ({"handle": handle} for handle in handles)
        found = self.process.each("SESSION_PARTNER", "mp_session_partner", fields)
        assert all(one.state == MP.PARTNER_REQUEST and one.request for one in found)
        common = {"flags": MP.ANSWER_ACCEPT, "deadline": FOREVER}
        answers = (
            self._answer(handle, one.request, b"", common) for handle, one in zip(handles, found)
        )
        self.process.each("SESSION_ANSWER", "mp_session_answer", answers)

    def accept(self, handle, request, data=b"", deadline=FOREVER):
        fields = {"flags": MP.ANSWER_ACCEPT, "deadline": deadline}
        fields = self._answer(handle, request, data, fields)
        self.process.call("SESSION_ANSWER", "mp_session_answer", **fields)

    def reject(self, handle, request, reason=0, data=b""):
        fields = {"flags": MP.ANSWER_REJECT, "reason": reason}
        fields = self._answer(handle, request, data, fields)
        self.process.call("SESSION_ANSWER", "mp_session_answer", **fields)

    def events(self, handle):
        return self.process.call("SESSION", "mp_session", handle=handle).events

    def wait(self, handle, mask):
        return self.process.wait(handle, mask)

    def wait_each(self, handles, mask):
        fields = ({"target": handle, "mask": mask, "deadline": FOREVER} for handle in handles)
        self.process.each("WAIT", "mp_wait", fields)


@pytest.fixture(params=PLACES)
def ends(request, fabric):
    """A party that serves, and one that asks."""
    same = request.param == PLACES[2]
    hosts = [fabric.rp, fabric.rp if same else fabric.hosts[1]]
    if request.param == PLACES[1]:
        hosts.reverse()
    with sharing.Process(hosts[0]) as server, sharing.Process(hosts[1]) as client:
        parties = [Party(p, p.interface(loopback=same)) for p in (server, client)]
        yield SimpleNamespace(server=parties[0], client=parties[1])


def test_the_owner_sees_who_asks_and_the_client_what_it_is_answered(ends):
    handle = ends.server.server(b"name", b"posted")
    client = ends.client.client(b"name", b"asks")
    asks = ends.server.request(handle)
    assert asks.bytes == b"asks" and (asks.local_max, asks.remote_max) == (0, PAGE)
    assert not ends.client.events(client) & MP.EVENT_PAIRED
    with fails(errno.ENOTCONN):
        ends.client.partner(client)
    ends.server.accept(handle, asks.request, b"welcome")
    assert ends.client.wait(client, MP.EVENT_PAIRED | MP.EVENT_REFUSED) == MP.EVENT_PAIRED
    assert ends.server.events(handle) & (MP.EVENT_PAIRED | MP.EVENT_REQUEST) == MP.EVENT_PAIRED
    answer = ends.client.partner(client)
    assert (answer.state, answer.bytes) == (MP.PARTNER_PAIRED, b"welcome")
    assert (answer.local_min, answer.remote_max) == (PAGE, 0)
    assert ends.server.partner(handle).bytes == b"asks"
    # It is a pair as any other.
    there = ends.client.process.call("SESSION", "mp_session", handle=client)
    here = ends.server.process.call("SESSION", "mp_session", handle=handle)
    into = ends.client.process.map(there.remote_offset, there.remote_size)
    ends.client.process.write(into, b"through")
    ends.client.process.signal(client)
    ends.server.wait(handle, MP.EVENT_SIGNAL)
    window = ends.server.process.map(here.local_offset, here.local_size)
    assert ends.server.process.read(window, 7) == b"through"
    with fails(errno.ECONNRESET):
        ends.server.accept(handle, asks.request)


def test_a_client_that_is_not_pending_waits_as_long_as_it_takes(ends):
    handle = ends.server.server()
    fields = {"flags": 0, "remote_max": PAGE}
    waits = ends.client.later(MP.ROLE_CLIENT, **fields)
    request = ends.server.request(handle).request
    ends.client.process.until_asleep()
    assert not waits.returned()
    ends.server.accept(handle, request)
    assert ends.client.events(waits.result().handle) & MP.EVENT_PAIRED
    handle = ends.server.server()
    waits = ends.client.later(MP.ROLE_CLIENT, **fields)
    ends.server.reject(handle, ends.server.request(handle).request)
    with fails(errno.ECONNREFUSED):
        waits.result()


def test_a_client_that_is_pending_learns_its_identifier_with_its_partner(ends):
    handle = ends.server.server()
    uid_of = lambda party, h: party.process.call("SESSION", "mp_session", handle=h).uid
    server_uid = uid_of(ends.server, handle)
    assert server_uid
    client = ends.client.client(uid=server_uid)
    assert uid_of(ends.client, client) == 0
    ends.server.accept(handle, ends.server.request(handle).request)
    ends.client.wait(client, MP.EVENT_PAIRED)
    uid = uid_of(ends.client, client)
    assert uid
    # As others see it.
    at = {"interface": ends.server.interface, "id": uid}
    window = ends.server.process.call("WINDOW", "mp_window", **at)
    assert (window.role, window.paired) == (MP.ROLE_CLIENT, 1)


def test_a_rejection_has_a_reason_and_data(ends):
    handle = ends.server.server()
    client = ends.client.client()
    first = ends.server.request(handle).request
    data = bytes(n % 251 for n in range(1024))
    ends.server.reject(handle, first, 0xDEAD, data)
    ends.client.wait(client, MP.EVENT_REFUSED)
    refusal = ends.client.partner(client)
    assert (refusal.state, refusal.reason) == (MP.PARTNER_REJECTED, 0xDEAD)
    assert refusal.bytes == data
    # The server waits for the next one.
    next_one = ends.client.client()
    second = ends.server.request(handle).request
    assert second != first
    with fails(errno.ECONNRESET):
        ends.server.reject(handle, first)
    ends.server.accept(handle, second)
    ends.client.wait(next_one, MP.EVENT_PAIRED)


def test_requests_are_taken_in_order_and_one_at_a_time(ends):
    servers = [ends.server.server(b"fifo") for _ in range(2)]
    for n in range(2):
        ends.client.client(b"fifo", b"%d" % n)
    assert [ends.server.request(s).bytes for s in servers] == [b"0", b"1"]
    for flags in (0, MP.SESSION_NONBLOCK):
        with fails(errno.ECONNREFUSED):
            ends.client.client(b"fifo", flags=flags)


def test_a_request_can_be_withdrawn(ends):
    handle = ends.server.server()
    client = ends.client.client()
    request = ends.server.request(handle).request
    ends.client.process.close(client)
    until(lambda: not ends.server.events(handle) & MP.EVENT_REQUEST)
    with fails(errno.ECONNRESET):
        ends.server.accept(handle, request)
    with fails(errno.ENOTCONN):
        ends.server.partner(handle)
    ends.client.client()
    ends.server.accept(handle, ends.server.request(handle).request)


def test_what_was_accepted_in_vain_is_not_told(ends):
    """There is not the memory; then the server goes."""
    process = ends.server.process
    info = process.call("INTERFACE", "mp_interface", id=ends.server.interface)
    most = info.local_free
    handle = ends.server.server(b"large", local_min=most, local_max=most)
    client = ends.client.client(b"large", remote_max=most)
    request = ends.server.request(handle).request
    small = ends.server.server(b"small", flags=0)
    ends.client.client(b"small", flags=0)
    with fails(errno.ENOSPC):
        ends.server.accept(handle, request, b"in vain")
    assert ends.server.partner(handle).request == request
    process.close(handle)
    ends.client.wait(client, MP.EVENT_REFUSED)
    told = ends.client.partner(client)
    assert (told.state, told.bytes) == (MP.PARTNER_GONE, b"")
    process.close(small)


def test_a_missing_interface_is_told_first(ends):
    for fields in ({"reserved": 1}, {"flags": 0x80}, {"local_max": 0}):
        with fails(errno.ENODEV):
            ends.server.server(**{"interface": 0xFFFF, **fields})
    with fails(errno.EINVAL):
        ends.server.server(reserved=1)


def test_a_server_may_take_one_request_only(ends):
    flags = MP.SESSION_DEFER | MP.SESSION_ONCE
    for ends_by in ("rejection", "withdrawal"):
        handle = ends.server.server(flags=flags)
        client = ends.client.client()
        request = ends.server.request(handle).request
        if ends_by == "rejection":
            ends.server.reject(handle, request)
        else:
            ends.client.process.close(client)
        until(lambda: ends.server.events(handle) & MP.EVENT_CLOSED)
        with fails(errno.ECONNREFUSED):
            ends.client.client()


def test_a_client_that_dies_is_gone_and_a_server_that_dies_has_refused(ends, fabric):
    handle = ends.server.server()
    ends.client.client()
    request = ends.server.request(handle).request
    ends.client.process.end()
    until(lambda: not ends.server.events(handle) & MP.EVENT_REQUEST)
    with fails(errno.ECONNRESET):
        ends.server.accept(handle, request)
    with sharing.Process(ends.client.process.guest) as again:
        same = ends.server.process.guest is again.guest
        party = Party(again, again.interface(loopback=same))
        client = party.client()
        ends.server.request(handle)
        ends.server.process.end()
        party.wait(client, MP.EVENT_REFUSED)
        assert party.partner(client).state == MP.PARTNER_GONE
        with fails(errno.ECONNREFUSED):
            party.client()


def test_names_are_equal_in_length_and_in_bytes(ends):
    names = (b"", b"a", b"a\0", b"\0a", b"ab", bytes(64), bytes(63), bytes(range(64)))
    servers = {name: ends.server.server(name) for name in names[::2]}
    for name in names:
        if name in servers:
            ends.client.client(name, name)
            assert ends.server.request(servers[name]).bytes == name
        else:
            with fails(errno.ECONNREFUSED):
                ends.client.client(name)
    for party, bad in ((ends.server, {"name_size": 65}), (ends.client, {"name_own": 1})):
        with fails(errno.EINVAL):
            party.client(b"name", **bad)


def test_peers_meet_by_their_own_names_in_either_order(ends):
    for first, second in ((ends.server, ends.client), (ends.client, ends.server)):
        left = first.peer(b"left" + b"right", 4, b"l")
        for name, own in ((b"leftright", 0), (b"leftright", 4), (b"rightleft", 4)):
            other = second.peer(name, own)
            assert not second.events(other) & MP.EVENT_PAIRED
            second.process.close(other)
        right = second.peer(b"right" + b"left", 5, b"r")
        for party, handle, told in ((first, left, b"r"), (second, right, b"l")):
            party.wait(handle, MP.EVENT_PAIRED)
            assert party.partner(handle).bytes == told
        for party, handle in ((first, left), (second, right)):
            party.process.close(handle)


def test_a_session_without_windows_has_data_signals_and_an_end(ends):
    flags = MP.SESSION_DEFER | MP.SESSION_NO_WINDOWS
    handle = ends.server.open(MP.ROLE_SERVER, b"bare", flags=flags)
    with fails(errno.EINVAL):
        ends.client.open(MP.ROLE_CLIENT, b"bare")
    pending = MP.SESSION_NONBLOCK | MP.SESSION_NO_WINDOWS
    client = ends.client.open(MP.ROLE_CLIENT, b"bare", b"hi", pending)
    request = ends.server.request(handle)
    assert request.bytes == b"hi"
    ends.server.accept(handle, request.request)
    ends.client.wait(client, MP.EVENT_PAIRED)
    ends.client.process.signal(client)
    ends.server.wait(handle, MP.EVENT_SIGNAL)
    ends.client.process.close(client)
    ends.server.wait(handle, MP.EVENT_CLOSED)


def test_the_state_is_seen_without_a_call(ends):
    process = ends.server.process
    info = process.call("INFO", "mp_info")
    words = process.map(info.status_offset, info.status_length, "read")
    handle = ends.server.server()
    at = process.call("SESSION", "mp_session", handle=handle).status
    word = lambda: struct.unpack("=Q", process.read(words + at, 8))[0]
    assert word() == 0
    client = ends.client.client()
    request = ends.server.request(handle).request
    assert word() == MP.EVENT_REQUEST
    ends.server.accept(handle, request)
    assert word() == MP.EVENT_PAIRED
    ends.client.process.close(client)
    ends.server.wait(handle, MP.EVENT_CLOSED)
    assert word() == MP.EVENT_PAIRED | MP.EVENT_CLOSED


def test_programs_of_before_do_as_before(ends):
    fields = {"size": FIRST_SIZE, "local_min": PAGE, "local_max": PAGE}
    handle = ends.server.open(MP.ROLE_SERVER, **fields)
    fields = {"size": FIRST_SIZE, "remote_max": PAGE}
    client = ends.client.open(MP.ROLE_CLIENT, **fields)
    assert ends.client.events(client) & MP.EVENT_PAIRED
    ends.server.wait(handle, MP.EVENT_PAIRED)
    with fails(errno.EINVAL):
        ends.server.reject(handle, 1)


def test_a_process_has_as_many_sessions_as_it_may(ends):
    """All of them without windows, with the server at the root processor; in the other places half as
    many, for which there are windows as well. Within one host both processes are of one user."""
    info = ends.server.process.call("INFO", "mp_info")
    assert (info.sessions_max, info.user_sessions_max) == (1024, 1024)
    server, client = (of.process.guest.name for of in (ends.server, ends.client))
    is_bare = server == "rp" != client
    flags = MP.SESSION_NO_WINDOWS if is_bare else 0
    one = {} if is_bare else {"local_min": 1, "local_max": 1}
    other = {} if is_bare else {"remote_max": 1}
    hold, pending = MP.SESSION_DEFER | flags, MP.SESSION_NONBLOCK | flags
    names = [b"%d" % n for n in range(1024 if is_bare else 512)]
    servers = ends.server.open_each(MP.ROLE_SERVER, names, hold, **one)
    clients = ends.client.open_each(MP.ROLE_CLIENT, names, pending, **other)
    if is_bare:
        for party, role in ((ends.server, MP.ROLE_SERVER), (ends.client, MP.ROLE_CLIENT)):
            with fails(errno.EDQUOT):
                party.open(role, b"more", flags=MP.SESSION_NO_WINDOWS)
    ends.server.accept_each(servers)
    ends.client.wait_each(clients, MP.EVENT_PAIRED)


def test_beyond_a_link_that_is_lost_nobody_waits(fabric):
    guest = fabric.hosts[1]
    with sharing.Process(fabric.rp) as near, sharing.Process(guest) as far:
        here, there = Party(near, near.interface()), Party(far, far.interface())
        mine, theirs = here.server(b"mine"), there.server(b"theirs")
        once = here.server(b"once", flags=MP.SESSION_DEFER | MP.SESSION_ONCE)
        client = here.client(b"theirs")
        waits = there.later(MP.ROLE_CLIENT, b"mine", remote_max=PAGE)
        request = here.request(mine).request
        there.client(b"once")
        here.request(once)
        there.request(theirs)
        fabric.unplug(guest)
        assert here.wait(client, MP.EVENT_REFUSED) == MP.EVENT_REFUSED
        assert here.partner(client).state == MP.PARTNER_GONE
        with fails(errno.ENETDOWN):
            waits.result()
        assert here.events(once) & MP.EVENT_CLOSED
        with fails(errno.ENETDOWN):
            here.accept(mine, request, deadline=PAST)
        fabric.plug(guest)
        near.wait_until_up(here.interface)
        far.wait_until_up(there.interface)
        # What was posted is posted again.
        client = there.client(b"mine")
        here.accept(mine, here.request(mine).request)
        there.wait(client, MP.EVENT_PAIRED)
        with fails(errno.ECONNREFUSED):
            there.client(b"once")


def test_whoever_asks_beyond_a_link_that_is_lost_hears_of_both_at_once(fabric):
    """That there will be no partner, and that the link is down: each waits for either."""
    guest = fabric.hosts[1]
    either = MP.EVENT_REFUSED | MP.EVENT_DOWN
    with sharing.Process(fabric.rp) as near, sharing.Process(guest) as far:
        here, there = Party(near, near.interface()), Party(far, far.interface())
        for turn in range(6):
            names = [b"%d.%d" % (turn, n) for n in range(32)]
            servers = [there.server(name) for name in names]
            clients = [here.client(name) for name in names]
            for server in servers:
                there.request(server)
            fields = {"mask": either, "deadline": FOREVER}
            told = [near.later("WAIT", "mp_wait", target=client, **fields) for client in clients]
            fabric.unplug(guest)
            assert [wait.result().events for wait in told] == [either] * len(names)
            fabric.plug(guest)
            near.wait_until_up(here.interface)
            far.wait_until_up(there.interface)
            for client in clients:
                near.close(client)
            for server in servers:
                far.close(server)


def test_memory_of_a_pair_that_was_lost_joins_posted_peers(fabric):
    """It comes back when the process closes its session, long after the other host has let go."""
    guest = fabric.hosts[1]
    with sharing.Process(fabric.rp) as near, sharing.Process(guest) as far:
        here, there = Party(near, near.interface()), Party(far, far.interface())
        most = near.call("INTERFACE", "mp_interface", id=here.interface).local_free
        whole = here.server(flags=0, local_min=most, local_max=most)
        there.client(flags=0, remote_max=most)
        here.wait(whole, MP.EVENT_PAIRED)
        fabric.unplug(guest)
        here.wait(whole, MP.EVENT_DOWN)
        fabric.plug(guest)
        near.wait_until_up(here.interface)
        far.wait_until_up(there.interface)
        left = here.open(MP.ROLE_PEER, local_max=PAGE)
        right = there.open(MP.ROLE_PEER, remote_max=PAGE)
        assert not here.events(left) & MP.EVENT_PAIRED
        near.close(whole)
        here.wait(left, MP.EVENT_PAIRED)
        there.wait(right, MP.EVENT_PAIRED)


def test_what_is_not_confirmed_in_time_is_refused(fabric):
    """The server's host does not wait at all, and the other one has to answer first."""
    with sharing.Process(fabric.rp) as near, sharing.Process(fabric.hosts[1]) as far:
        here, there = Party(near, near.interface()), Party(far, far.interface())
        late = 0
        for n in range(20):
            name = b"%d" % n
            mine, client = here.server(name), there.client(name)
            request = here.request(mine).request
            try:
                here.accept(mine, request, deadline=PAST)
            except OSError as error:
                assert error.errno == errno.ETIMEDOUT
                late += 1
                here.wait(mine, MP.EVENT_CLOSED | MP.EVENT_REQUEST)
                assert here.events(mine) & MP.EVENT_CLOSED
                events = there.wait(client, MP.EVENT_REFUSED | MP.EVENT_PAIRED)
                if events & MP.EVENT_PAIRED:
                    # The confirmation has crossed the refusal.
                    there.wait(client, MP.EVENT_CLOSED)
            else:
                there.wait(client, MP.EVENT_PAIRED)
        assert late, "every answer came at once"
