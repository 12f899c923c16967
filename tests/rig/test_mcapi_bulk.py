# SPDX-License-Identifier: GPL-2.0-only
"""Messages of priority 0 beside bulk that saturates the way to another node: in what order they get
there, whoever is scheduled when."""

import pytest
from mcapi import BUFFERS, all_nodes, nodes, pair, stopped
from ntbrig.settings import PATIENCE
from outages import fabric
from shell import until

# Bytes of a frame's data, so that each message of bulk takes a slot.
FRAME = 4096
# Endpoints that bulk goes to, all of whose buffers are more than the ring and its slots hold.
ENDPOINTS = 4
BULK, URGENT = 7, 0
# Messages of priority 0: one takes a slot, the others lines of the ring.
MESSAGES = [bytes(FRAME), b"1", b"2", b"3"]


def flood(sender, own, ends):
    """As much bulk as the endpoints have buffers for; none of it waits for its receiver."""
    at, size = sender.passed(bytes(FRAME))
    sender.set_attribute(own, "num_send_buffers", ENDPOINTS * BUFFERS)
    words = [(end, at, size, BULK, "cell=0") for end in ends for _ in range(BUFFERS)]
    return [sender.call("msg_send_i", own, *each).status for each in words]


def test_what_is_urgent_is_not_behind_bulk(pair):
    """MC-MSG-2, MC-MSG-13, MC-GEN-5: it is in the other node's memory, complete, while bulk that was sent
    before waits for room on the link; only what had been sent by then is ahead of it."""
    one, other = pair
    own, bulk, urgent = one.endpoint(), one.endpoint(), other.endpoint()
    ends = [other.endpoint() for _ in range(ENDPOINTS)]
    for end in (urgent, *ends):
        one.send(own, end, b"known", URGENT)
        assert other.receive(end) == b"known"
    with stopped(other):
        sent = flood(one, bulk, ends)
        assert set(sent) == {"SUCCESS", "PENDING"}
        ahead = sent.count("SUCCESS")
        for data in MESSAGES:
            assert one.send_i(own, urgent, data, URGENT).status == "SUCCESS"
        with stopped(one):
            other.guest.run(f"kill -CONT {other.pid}")
            until(lambda: other.available(urgent) == len(MESSAGES))
            came = sum(other.available(end) for end in ends)
    print(f"{ahead} of {len(sent)} messages of bulk are ahead of what is urgent")
    assert came <= ahead < len(sent) / 2
    assert [other.receive(urgent, FRAME) for _ in MESSAGES] == MESSAGES
    until(lambda: sum(other.available(end) for end in ends) == len(sent), 60 * PATIENCE)
