"""What the keeper says to clients that do not listen just now, or any more."""

from __future__ import annotations

import json
import socket

from agentbox.adapters.orchestrator._lines import Lines

MANY = 5000


def test_who_is_behind_with_its_answers_gets_them_all() -> None:
    ours, theirs = socket.socketpair()
    behind: set[Lines] = set()
    client = Lines(ours, behind)
    for number in range(MANY):
        client.answer({"n": number}, ok=True)
    assert behind == {client}
    heard = b""
    theirs.setblocking(False)
    while client.has_unsent:
        client.flush()
        heard += theirs.recv(1 << 20)
    assert client.is_open
    assert [json.loads(line)["n"] for line in heard.splitlines()] == list(range(MANY))
    client.close()
    theirs.close()


def test_who_has_left_is_told_of() -> None:
    ours, theirs = socket.socketpair()
    behind: set[Lines] = set()
    client = Lines(ours, behind)
    theirs.close()
    client.answer({"n": 1}, ok=True)
    assert (client.is_open, behind) == (False, {client})
    assert client.read() == []
