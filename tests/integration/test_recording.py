"""A conversation recorded with a real server and replayed without it, line by line and in HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentbox_contracts.suites import recording

ID = recording.Mask(rb"\bid-([0-9a-z]+)\b")
LINES = ("GET plain", "PUT id-abc value", "BYTES", "PUT id-zz other", "GET id-abc")


@pytest.fixture(autouse=True)
async def nothing_stays_behind() -> AsyncIterator[None]:
    """No task and no descriptor outlives a test."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    async with asyncio.timeout(10):
        while len(os.listdir("/proc/self/fd")) > before:
            await asyncio.sleep(0.01)
    assert {task for task in asyncio.all_tasks() if "suites" in repr(task.get_coro())} == set()


async def serve_lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each line with its words in other order, and BYTES with what is no text."""
    while line := await reader.readline():
        verb, _, rest = line.decode().strip().partition(" ")
        writer.write(b"\xff\x00\xfe\n" if verb == "BYTES" else f"OK {rest} was {verb} ".encode())
        await asyncio.sleep(0)
        writer.write(b"" if verb == "BYTES" else b"at 2024-01-01T00:00:00Z\n")
        if verb == "QUIT":
            break
    writer.close()


async def serve_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers a JSON body with the id that it was given, twice as long a text, and a link to itself."""
    while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
        length = re.search(rb"Content-Length: (\d+)", head)
        assert length is not None
        body = json.loads(await reader.readexactly(int(length[1])))
        answer = json.dumps({"id": body["id"], "again": body["id"], "title": body["title"] * 2}).encode()
        host = re.search(rb"Host: ([^\r]*)", head)
        assert host is not None
        writer.write(
            b"HTTP/1.1 201 Created\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nLocation: http://%s/%s\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (host[1], body["id"].encode(), len(answer), answer)
        )
        if body.get("last"):
            break
    writer.close()


@asynccontextmanager
async def recorder(path: Path, handler: object = serve_lines, **fields: object) -> AsyncIterator[recording.Recorder]:
    async with await asyncio.start_server(handler, "127.0.0.1", 0) as server:  # type: ignore[arg-type]
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(30), recording.Recorder("127.0.0.1", port, path, **fields) as recorder:  # type: ignore[arg-type]
            yield recorder


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def talk(port: int, lines: Iterable[str], *, piece: int = 10_000) -> list[bytes]:
    """Say *lines*, each after the answer to the one before, at most *piece* bytes at a time."""
    answers = []
    async with connected(port) as (reader, writer):
        for line in lines:
            data = f"{line}\n".encode()
            for at in range(0, len(data), piece):
                writer.write(data[at : at + piece])
                await writer.drain()
                await asyncio.sleep(0)
            answers.append(await reader.readline())
    return answers


async def post(port: int, bodies: Iterable[dict[str, object]], *, agent: str = "one/1.0") -> list[tuple[bytes, bytes]]:
    """POST each of *bodies* on one connection; head and body of each answer."""
    answers = []
    async with connected(port) as (reader, writer):
        for body in bodies:
            data = json.dumps(body).encode()
            head = f"POST /things HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: {agent}\r\n"
            writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            head_bytes = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"Content-Length: (\d+)", head_bytes)
            assert length is not None
            answers.append((head_bytes, await reader.readexactly(int(length[1]))))
    return answers


async def recorded(path: Path, *conversations: Iterable[str]) -> list[list[bytes]]:
    async with recorder(path) as proxy:
        return [await talk(proxy.port, lines) for lines in conversations]


async def replayed(path: Path, *conversations: Iterable[str], trouble: Exception | None = None) -> None:
    async with recording.Replay(path, masks=[ID]) as replay:
        for lines in conversations:
            await talk(replay.port, lines)
        if trouble is not None:
            raise trouble


async def test_a_recording_replays_without_the_server(tmp_path: Path) -> None:
    answers = await recorded(tmp_path / "r", LINES, ["GET second"])
    async with recording.Replay(tmp_path / "r") as replay:
        again = [await talk(replay.port, LINES), await talk(replay.port, ["GET second"])]

    assert again == answers
    assert (replay.connections, replay.mismatch) == (2, None)


async def test_the_file_is_readable_and_merges_what_tcp_cut(tmp_path: Path) -> None:
    async with recorder(tmp_path / "r", meta={"slot": "beads", "contract": "1.0.0"}) as proxy:
        await talk(proxy.port, ["GET plain", "BYTES"], piece=1)
    header, *turns, closing = [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()]

    assert header == {
        "format": "agentbox-recording",
        "version": 1,
        "meta": {"slot": "beads", "contract": "1.0.0"},
    }
    assert [turn for turn in turns if not turn.get("end")] == [
        {"connection": 1, "direction": "up", "text": "GET plain\n"},
        {"connection": 1, "direction": "down", "text": "OK plain was GET at 2024-01-01T00:00:00Z\n"},
        {"connection": 1, "direction": "up", "text": "BYTES\n"},
        {"connection": 1, "direction": "down", "base64": "/wD+Cg=="},
    ]
    assert closing == {"lines": len(turns)}


async def test_connections_that_overlap_are_told_apart(tmp_path: Path) -> None:
    async def interleaved(port: int) -> list[bytes]:
        async with connected(port) as one, connected(port) as other:
            answers = []
            for peer, line in ((one, b"GET a\n"), (other, b"GET b\n"), (one, b"GET c\n"), (other, b"GET d\n")):
                peer[1].write(line)
                answers.append(await peer[0].readline())
            return answers

    async with recorder(tmp_path / "r") as proxy:
        answers = await interleaved(proxy.port)
    async with recording.Replay(tmp_path / "r") as replay:
        assert await interleaved(replay.port) == answers


@pytest.mark.parametrize("piece", [1, 3, 10_000])
async def test_how_tcp_cuts_what_is_said_means_nothing(tmp_path: Path, piece: int) -> None:
    await recorded(tmp_path / "r", LINES)
    lines = [line.replace("abc", "a-longer-one".replace("-", "")) for line in LINES]
    async with recording.Replay(tmp_path / "r", masks=[ID]) as replay:
        answers = await talk(replay.port, lines, piece=piece)

    assert answers[1] == b"OK id-alongerone value was PUT at 2024-01-01T00:00:00Z\n"


async def test_requests_sent_at_once_are_answered_in_order(tmp_path: Path) -> None:
    (answers,) = await recorded(tmp_path / "r", LINES)
    async with recording.Replay(tmp_path / "r") as replay, connected(replay.port) as (reader, writer):
        writer.write("".join(f"{line}\n" for line in LINES).encode())
        assert [await reader.readline() for _ in LINES] == answers


async def test_a_masked_value_may_differ_and_is_echoed(tmp_path: Path) -> None:
    await recorded(tmp_path / "r", LINES, ["GET id-zz"])
    async with recording.Replay(tmp_path / "r", masks=[ID]) as replay:
        first = await talk(replay.port, [line.replace("abc", "12345").replace("zz", "1") for line in LINES])
        (second,) = await talk(replay.port, ["GET id-1"])

    assert [answer.split()[1] for answer in (first[0], first[1], first[3], first[4], second)] == [
        b"plain",
        b"id-12345",
        b"id-1",
        b"id-12345",
        b"id-1",
    ]


async def test_the_difference_is_shown_with_its_place(tmp_path: Path) -> None:
    await recorded(tmp_path / "r", LINES)
    with pytest.raises(recording.Mismatch) as caught:
        async with recording.Replay(tmp_path / "r") as replay:
            answers = await talk(replay.port, ["GET plain", "PUT id-abd value"])

    assert replay.mismatch is caught.value
    assert answers == [b"OK plain was GET at 2024-01-01T00:00:00Z\n", b""]
    assert (caught.value.expected, caught.value.actual) == (b"PUT id-abc value\n", b"PUT id-abd value\n")
    assert str(caught.value) == (
        "connection 1, byte 19 (line 1 of its turn): the client said something else\n"
        "  expected: b'PUT id-abc value\\n'\n"
        "  actual:   b'PUT id-abd value\\n'"
    )


async def test_a_mismatch_explains_the_trouble_it_caused(tmp_path: Path) -> None:
    await recorded(tmp_path / "r", LINES)
    with pytest.raises(recording.Mismatch, match="said something else") as caught:
        await replayed(tmp_path / "r", ["HELLO"], trouble=ConnectionError("what a client makes of it"))
    assert isinstance(caught.value.__cause__, ConnectionError)


async def test_trouble_without_a_mismatch_stays_what_it_is(tmp_path: Path) -> None:
    await recorded(tmp_path / "r", LINES)
    with pytest.raises(ZeroDivisionError):
        async with recording.Replay(tmp_path / "r"):
            raise ZeroDivisionError


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (["GET plain", "PUT abc value"], r"byte 14 .*said something else"),
        (["GET plain", "PUT id- value"], r"byte 14 .*said something else"),
        (["GET plain", "PUT id-abc values"], r"said something else"),
        (LINES[:2], r"the client never said what was recorded\n  expected: b'BYTES\\n'\n  actual:   b''"),
        ([*LINES, "GET more"], r"byte 60: the client said more than was recorded\n  expected: b''\n.*GET more"),
        ([], r"the client never said what was recorded\n  expected: b'GET plain\\n'"),
    ],
    ids=["unmasked", "mask does not match", "longer", "too little", "too much", "nothing"],
)
async def test_every_kind_of_difference_is_seen(tmp_path: Path, said: list[str], message: str) -> None:
    await recorded(tmp_path / "r", LINES)
    with pytest.raises(recording.Mismatch, match=message):
        await replayed(tmp_path / "r", said)


async def test_a_connection_too_many_or_too_few_is_seen(tmp_path: Path) -> None:
    await recorded(tmp_path / "r", ["GET a"], ["GET b"])
    with pytest.raises(recording.Mismatch, match="connection 2: the client never said"):
        await replayed(tmp_path / "r", ["GET a"])
    with pytest.raises(recording.Mismatch, match="connection 3, byte 0: the client said more"):
        await replayed(tmp_path / "r", ["GET a"], ["GET b"], ["GET c"])


async def say_half(path: Path, *, wait: bool) -> None:
    replay = recording.Replay(path, silence_seconds=0.1 if wait else 600)
    async with replay, connected(replay.port) as (reader, writer):
        writer.write(b"GET pl")
        if wait:
            assert await reader.read() == b""


@pytest.mark.parametrize("wait", [True, False], ids=["and waits", "and leaves"])
async def test_a_client_that_stops_in_the_middle_is_seen(tmp_path: Path, wait: bool) -> None:
    await recorded(tmp_path / "r", LINES)
    with pytest.raises(recording.Mismatch, match=r"stopped in the middle\n  expected: b'GET plain\\n'"):
        await say_half(tmp_path / "r", wait=wait)


async def test_what_was_said_just_before_the_end_is_compared(tmp_path: Path) -> None:
    async def say_and_leave(line: bytes) -> None:
        async with recording.Replay(tmp_path / "r") as replay:
            _, writer = await asyncio.open_connection("127.0.0.1", replay.port)
            writer.write(line)
            writer.transport.abort()

    await recorded(tmp_path / "r", ["GET a"])
    await say_and_leave(b"GET a\n")
    with pytest.raises(recording.Mismatch, match="said something else"):
        await say_and_leave(b"GET b\n")
    with pytest.raises(recording.Mismatch, match="said more"):
        await say_and_leave(b"GET a\nGET a\n")


async def test_an_answer_to_a_client_that_has_said_all_waits_for_its_end(tmp_path: Path) -> None:
    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"%d bytes" % len(await reader.read()))
        writer.close()

    async def ask(port: int) -> bytes:
        async with connected(port) as (reader, writer):
            writer.write(b"all that I have to say")
            writer.write_eof()
            return await reader.read()

    async with recorder(tmp_path / "r", count) as proxy:
        assert await ask(proxy.port) == b"22 bytes"
    async with recording.Replay(tmp_path / "r") as replay:
        assert await ask(replay.port) == b"22 bytes"


async def test_a_server_that_closed_closes_again(tmp_path: Path) -> None:
    await recorded(tmp_path / "r", ["QUIT now"])
    async with recording.Replay(tmp_path / "r") as replay, connected(replay.port) as (reader, writer):
        writer.write(b"QUIT now\n")
        assert await reader.read() == b"OK now was QUIT at 2024-01-01T00:00:00Z\n"


async def test_http_replays_with_other_ids_lengths_and_ports(tmp_path: Path) -> None:
    def bodies(one: str, other: str) -> list[dict[str, object]]:
        return [{"id": one, "title": "x"}, {"id": other, "title": "y"}, {"id": one, "title": "z", "last": True}]

    async with recorder(tmp_path / "r", serve_http) as proxy:
        await post(proxy.port, bodies("id-abc", "id-d"))
    async with recording.Replay(tmp_path / "r", masks=(*recording.HTTP, ID)) as replay:
        answers = await post(replay.port, bodies("id-ab", "id-longer"), agent="two/2.0")

    assert [json.loads(body)["again"] for _, body in answers] == ["id-ab", "id-longer", "id-ab"]
    assert f"Location: http://127.0.0.1:{replay.port}/id-longer\r\n".encode() in answers[1][0]
    assert b"Date: Mon, 01 Jan 2024" in answers[0][0]


async def test_http_still_compares_what_no_mask_covers(tmp_path: Path) -> None:
    async with recorder(tmp_path / "r", serve_http) as proxy:
        await post(proxy.port, [{"id": "id-abc", "title": "x"}])
    with pytest.raises(recording.Mismatch) as caught:
        async with recording.Replay(tmp_path / "r", masks=(*recording.HTTP, ID)) as replay:
            await post(replay.port, [{"id": "id-abc", "title": "changed"}])
    assert (caught.value.expected, caught.value.actual) == (
        b'{"id": "id-abc", "title": "x"}',
        b'{"id": "id-abc", "title": "changed"}',
    )


def test_the_masks_that_come_with_it_match_what_they_are_for() -> None:
    for mask, text in (
        (recording.UUID, b"0190a6b2-7c1e-7d3a-9f00-0123456789ab"),
        (recording.TIMESTAMP, b"2024-01-01T00:00:00.123456+00:00"),
        (recording.TIMESTAMP, b"2024-01-01 00:00:00Z"),
        (recording.ADDRESS, b"127.0.0.1:7070"),
    ):
        assert re.fullmatch(mask.pattern, text), text


async def fail_to_record(path: Path) -> None:
    async with recorder(path) as proxy:
        await talk(proxy.port, ["GET a"])
        raise ZeroDivisionError


async def test_a_failed_block_leaves_no_recording(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        await fail_to_record(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
async def test_a_truncated_file_is_refused(tmp_path: Path, share: float) -> None:
    await recorded(tmp_path / "r", LINES)
    whole = (tmp_path / "r").read_bytes()
    (tmp_path / "r").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(recording.BadRecording, match=r"r(:\d+)?: it is (truncated|not a recording)"):
        recording.Replay(tmp_path / "r")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "hello\n", r"r:1: it is not a recording"),
        (lambda text: '{"format":"har","version":1}\n', r"r:1: it is not a recording"),
        (lambda text: text.replace('"version":1', '"version":2'), r"version 2, and this agentbox reads up to 1"),
        (lambda text: text.replace('"up"', '"sideways"', 1), r"r:2: it is not a turn"),
        (lambda text: text.replace("/wD+Cg==", "/wD+C!=="), r"r:\d+: base64: "),
        (lambda text: re.sub(r'{"connection":1,"direction":"up".*\n', "", text, count=1), r"its closing line says"),
        (lambda text: "", r"r:1: it is not a recording"),
    ],
    ids=["text", "json of another kind", "newer", "no turn", "no base64", "a line is gone", "empty"],
)
async def test_a_foreign_file_is_refused(tmp_path: Path, change: object, message: str) -> None:
    await recorded(tmp_path / "r", LINES)
    (tmp_path / "r").write_text(change((tmp_path / "r").read_text()))  # type: ignore[operator]
    with pytest.raises(recording.BadRecording, match=message):
        recording.Replay(tmp_path / "r")
