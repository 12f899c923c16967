# SPDX-License-Identifier: GPL-2.0-only
"""The phases of conformance of the guide: what each asks for, run by programs in C, and which one
is attained. RDMA read and Reliable Reception are in no phase; interfaces tell of them by
attributes."""

from typing import NamedTuple

from ntbrig import CommandFailed
from vipl import RD, RECV, RETURNED, RR, SEND, UD, Segment, ViplError, ask, fails, says

WRITE, READ, IMMEDIATE = 1, 2, 4


class Phase(NamedTuple):
    """A phase: the functions that it adds, and what has to work, each by its name."""

    name: str
    calls: tuple
    needs: dict


class Row(NamedTuple):
    """What was found of a phase."""

    name: str
    # Functions that have succeeded, of how many.
    called: int
    calls: int
    # What has not worked.
    missing: tuple

    @property
    def holds(self):
        return self.called == self.calls and not self.missing


def attained(rows):
    """The highest phase that holds with all lower ones; None if the first one does not."""
    best = None
    for row in rows:
        if not row.holds:
            break
        best = row.name
    return best


def table(rows, beside):
    """What a person reads."""
    lines = [f"{row.name:16} {row.called:2}/{row.calls} calls  {', '.join(row.missing)}" for row in rows]
    return "\n".join([*lines, f"in no phase: {', '.join(beside) or 'nothing'}"])


def examine(phases, make):
    """Run all phases with sides that `make` connects; a row for each."""
    rows = []
    for phase in phases:
        missing = tuple(name for name, works in phase.needs.items() if not _works(works, make))
        called = sum("SUCCESS" in RETURNED[f"Vip{call}"] for call in phase.calls)
        rows.append(Row(phase.name, called, len(phase.calls), missing))
    return rows


def beside(make):
    """What works that is in no phase."""
    return [name for name, works in BESIDE.items() if _works(works, make)]


def _works(run, make):
    try:
        run(make)
    except (AssertionError, CommandFailed, ViplError):
        return False
    return True


def _until(act):
    """What an act returns that is not done at first."""
    while True:
        try:
            return act()
        except ViplError as error:
            if error.name != "NOT_DONE":
                raise


# --- what has to work


def _messages(level):
    def run(make):
        server, client = make(level)
        says(client, server, b"there")
        says(server, client, b"and back")
        server.receive()
        client.send(b"looked for")
        for side, queue in ((client, SEND), (server, RECV)):
            _until(lambda: side.done(queue))

    return run


def _writes(make):
    server, client = make(RD)
    client.post(SEND, [client.part(0, 8)], control=WRITE, remote=server.part(0x1000, 0))
    assert client.wait(SEND).errors == set()


def _reads(make):
    server, client = make(RD)
    client.post(SEND, [client.part(0, 8)], control=READ, remote=server.part(0x1000, 0))
    assert client.wait(SEND).errors == set()


def _life(make):
    """Everything is asked about, and ended."""
    server, client = make(RD)
    program = client.program
    assert program.nic_attributes(client.nic).thread_safe == 1
    assert client.state() == "CONNECTED"
    at = program.passed(bytes(16))
    program.call("VipQueryMem", client.nic, client.base, client.memory, at)
    found, asking = ask(server, client.another(), b"rejected")
    server.program.reject(found.conn)
    with fails("REJECT"):
        asking.result()
    for side in (server, client):
        side.end_connection()
        side.program.destroy_vi(side.vi)
        side.program.deregister(side.nic, side.base, side.memory)
        side.program.close_nic(side.nic)


def _peers(make):
    one, other = (side.another() for side in make(RD))
    for side, there in ((one, other), (other, one)):
        side.program.peer_request(side.vi, (side.host, b""), (there.host, b"phase"))
    one.program.peer_wait(one.vi)
    _until(lambda: other.program.peer_done(other.vi))
    says(one, other, b"peers")


def _queues(make):
    server, client = make(RD, server={"recv_cq": 8})
    cq = server.cqs["recv_cq"]
    for waits in (True, False):
        server.receive()
        client.send(b"entry")
        assert client.wait(SEND).errors == set()
        if waits:
            assert server.program.cq_entry(cq) == (server.vi, RECV)
        else:
            assert _until(lambda: server.program.cq_done(cq)) == (server.vi, RECV)
        assert server.done(RECV).errors == set()
    server.program.call("VipResizeCQ", cq, 16)
    server.end_connection()
    server.program.destroy_vi(server.vi)
    server.program.call("VipDestroyCQ", cq)


def _tags(make):
    """Memory with another tag is not sent from."""
    server, client = make(RD)
    program = client.program
    tag = program.ptag(client.nic)
    address = program.allocate(0x1000)
    memory = program.register(client.nic, address, 0x1000, tag)
    server.receive()
    client.post(SEND, [Segment(address, memory, 8)])
    assert client.wait(SEND).errors == {"PROTECTION"}
    program.deregister(client.nic, address, memory)
    program.call("VipDestroyPtag", client.nic, tag)


def _names(make):
    _, client = make(RD)
    program = client.program
    program.call("VipNSInit", client.nic, 0)
    at = program.address(bytes(4))
    program.call("VipNSGetHostByName", client.nic, f"text={client.program.guest.name}", at, 0)
    assert program.read(at + 4, 4) == client.host.to_bytes(4, "big")
    name = program.passed(bytes(64))
    length = program.passed((64).to_bytes(8, "little"))
    program.call("VipNSGetHostByAddr", client.nic, at, name, length)
    assert program.read(name, 64).split(b"\0")[0].decode() == program.guest.name
    program.call("VipNSShutdown", client.nic)


def _errors(make):
    server, client = make(RD)
    client.disconnect()
    assert server.told(1) == ["CONN_LOST"]


def _handlers(make):
    server, client = make(RD, server={"recv_cq": 8})
    program = client.program
    handlers = [side.program.handler("queue") for side in (client, client)]
    entry = server.program.handler("cq")
    client.receive()
    program.notify("VipRecvNotify", client.vi, handlers[0])
    server.program.notify("VipCQNotify", server.cqs["recv_cq"], entry)
    server.receive()
    client.send(b"noticed")
    program.notify("VipSendNotify", client.vi, handlers[1])
    server.send(b"noticed")
    for handler in (*handlers, entry):
        handler.wait(1)
    assert server.done(RECV).errors == set()


def _attributes(make):
    server, client = make(RD)
    program = client.program
    other = client.another()
    program.set_vi(other.vi, other.attributes._replace(size=100))
    assert program.query(other.vi).attributes.size == 100
    program.set_memory(client.nic, client.base, client.memory, client.ptag, 0, 1)
    assert program.neighbours(client.nic) == {server.host}


# --- the phases

_EARLY = """OpenNic CloseNic CreateVi DestroyVi ConnectWait ConnectAccept ConnectReject ConnectRequest
    Disconnect QueryNic QueryVi QueryMem PostSend SendDone SendWait PostRecv RecvDone RecvWait
    RegisterMem DeregisterMem"""
_FUNCTIONAL = """ConnectPeerRequest ConnectPeerDone ConnectPeerWait CQDone CQWait CreateCQ DestroyCQ
    ResizeCQ CreatePtag DestroyPtag NSInit NSGetHostByName NSGetHostByAddr NSShutdown ErrorCallback"""
_FULL = """SendNotify RecvNotify CQNotify SetViAttributes SetMemAttributes
    QuerySystemManagementInfo"""

PHASES = (
    Phase(
        "Early Adopter",
        tuple(_EARLY.split()),
        {"Reliable Delivery": _messages(RD), "RDMA write": _writes, "the life of objects": _life},
    ),
    Phase(
        "Functional",
        tuple(_FUNCTIONAL.split()),
        {
            "peers": _peers,
            "completion queues": _queues,
            "protection tags": _tags,
            "names": _names,
            "asynchronous errors": _errors,
        },
    ),
    Phase(
        "Full",
        tuple(_FULL.split()),
        {
            "Unreliable Delivery": _messages(UD),
            "handlers": _handlers,
            "attributes": _attributes,
        },
    ),
)
BESIDE = {"RDMA read": _reads, "Reliable Reception": _messages(RR)}
