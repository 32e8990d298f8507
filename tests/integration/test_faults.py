"""The proxy that does harm, between real sockets: each harm comes at its byte, and nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentbox_contracts.suites import faults

BLOB = bytes(range(256)) * 16384  # 4 MiB: more than the kernel keeps for one connection

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True)
async def nothing_stays_behind() -> AsyncIterator[None]:
    """No task and no descriptor outlives a test."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    async with asyncio.timeout(10):
        while len(os.listdir("/proc/self/fd")) > before:
            await asyncio.sleep(0.01)
    assert {task for task in asyncio.all_tasks() if "suites" in repr(task.get_coro())} == set()


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[int]:
    """A server that treats each connection as *handler* says and closes it; its port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except OSError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(BLOB)
    await writer.drain()
    await reader.read()


@asynccontextmanager
async def echoing(script: str | list[faults.After] = "") -> AsyncIterator[faults.Proxy]:
    async with served(echo) as port, asyncio.timeout(30), faults.Proxy("127.0.0.1", port, script) as proxy:
        yield proxy


@asynccontextmanager
async def connected(proxy: faults.Proxy) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def heard_of(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """Everything until the end, and how it ended."""
    heard = b""
    try:
        while data := await reader.read(65536):
            heard += data
    except ConnectionResetError:
        return heard, "reset"
    return heard, "end"


async def exchange(proxy: faults.Proxy, data: bytes) -> tuple[bytes, str]:
    async with connected(proxy) as (reader, writer):
        writer.write(data)
        return await heard_of(reader)


async def said(peer: Peer, data: bytes) -> bytes:
    reader, writer = peer
    writer.write(data)
    return await reader.readexactly(len(data))


def linger_not(writer: asyncio.StreamWriter) -> None:
    """Have its close be a reset."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def test_without_a_script_everything_passes_and_is_counted() -> None:
    async with echoing() as proxy, connected(proxy) as (reader, writer):
        writer.write(BLOB)
        writer.write_eof()
        assert await heard_of(reader) == (BLOB, "end")
        assert (proxy.connections, proxy.up_bytes, proxy.down_bytes) == (1, len(BLOB), len(BLOB))
        assert proxy.address == f"127.0.0.1:{proxy.port}"


@pytest.mark.parametrize("count", [0, 1, 10, 100])
@pytest.mark.parametrize(("harm", "ending"), [(faults.cut(), "end"), (faults.reset(), "reset")])
async def test_harm_comes_after_exactly_the_byte_it_names(count: int, harm: faults.Harm, ending: str) -> None:
    async with echoing([faults.After(bytes=count, direction="down", do=harm)]) as proxy:
        assert await exchange(proxy, b"x" * 100) == (b"x" * count, ending)
        assert proxy.down_bytes == count


@pytest.mark.parametrize("harm", ["cut", "reset"])
async def test_a_slow_reader_still_gets_what_passed_before_the_harm(harm: str) -> None:
    size = 3_000_001
    async with served(flood) as port, faults.Proxy("127.0.0.1", port, f"down after {size}: {harm}") as proxy:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(30):
            await loop.sock_connect(client, (proxy.host, proxy.port))
            heard = 0
            try:
                while data := await loop.sock_recv(client, 65536):
                    heard += len(data)
                    await asyncio.sleep(0.001)
                ending = "cut"
            except ConnectionResetError:
                ending = "reset"
        client.close()
        assert (heard, ending) == (size, harm)


async def test_a_request_can_be_cut_short_on_its_way_up() -> None:
    got: list[tuple[bytes, str]] = []
    done = asyncio.Event()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await heard_of(reader))
        done.set()

    async with served(keep) as port, faults.Proxy("127.0.0.1", port, [faults.truncate(7, "up")]) as proxy:
        assert await exchange(proxy, b"GET / HTTP/1.1\r\n\r\n") == (b"", "end")
        async with asyncio.timeout(10):
            await done.wait()

    assert got == [(b"GET / H", "end")]
    assert proxy.up_bytes == 7


async def test_a_step_can_name_its_connection() -> None:
    async with echoing("connection 2 up after 0: reset") as proxy:
        async with connected(proxy) as first:
            assert await said(first, b"one") == b"one"
            assert await exchange(proxy, b"two") == (b"", "reset")
            async with connected(proxy) as third:
                assert await said(third, b"three") == b"three"
        assert proxy.connections == 3


async def test_a_connection_follows_the_script_it_came_under() -> None:
    async with echoing() as proxy, connected(proxy) as old:
        await said(old, b"before")
        proxy.follow("up after 0: cut")
        assert await exchange(proxy, b"x") == (b"", "end")
        assert await said(old, b"still") == b"still"


@pytest.mark.parametrize(("harm", "ending"), [("cut", "end"), ("reset", "reset")])
async def test_every_open_connection_is_harmed_now_and_new_ones_are_not(harm: str, ending: str) -> None:
    async with echoing() as proxy, connected(proxy) as one, connected(proxy) as other:
        await said(one, b"hello")
        await getattr(proxy, harm)()
        assert [await heard_of(peer[0]) for peer in (one, other)] == [(b"", ending)] * 2
        async with connected(proxy) as fresh:
            assert await said(fresh, b"again") == b"again"


async def test_a_connection_that_the_loop_had_no_turn_to_accept_counts() -> None:
    async with echoing() as proxy:
        with socket.create_connection((proxy.host, proxy.port)) as client:
            await proxy.refuse()  # it is open, and lives on
            client.setblocking(False)
            client.sendall(b"here")
            assert await asyncio.get_running_loop().sock_recv(client, 4) == b"here"
        await proxy.heal()
        with socket.create_connection((proxy.host, proxy.port)) as client:
            await proxy.reset()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert proxy.connections == 2


async def test_one_direction_ends_and_the_other_lives_on() -> None:
    got = asyncio.get_running_loop().create_future()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"dropped")
        got.set_result(await reader.read())

    script = "down after 0: half-close"
    async with served(keep) as port, faults.Proxy("127.0.0.1", port, script) as proxy, connected(proxy) as peer:
        assert await heard_of(peer[0]) == (b"", "end")
        peer[1].write(b"still sent")
        peer[1].write_eof()
        assert await asyncio.wait_for(got, 10) == b"still sent"
    assert proxy.down_bytes == 0


async def test_a_live_connection_is_closed_by_halves() -> None:
    async with echoing() as proxy, connected(proxy) as peer:
        await said(peer, b"hello")
        await proxy.half_close("up")  # the echo hears the end, and ends
        assert await heard_of(peer[0]) == (b"", "end")


async def test_a_live_connection_is_truncated_from_here_on() -> None:
    async with echoing() as proxy, connected(proxy) as peer:
        await said(peer, b"hello")
        await proxy.truncate(3)
        peer[1].write(b"world")
        assert await heard_of(peer[0]) == (b"wor", "end")


async def test_a_live_connection_is_cut_before_the_next_byte() -> None:
    async with echoing() as proxy, connected(proxy) as peer:
        await said(peer, b"hello")
        await proxy.truncate(0)
        peer[1].write(b"world")
        assert await heard_of(peer[0]) == (b"", "end")
        assert (proxy.up_bytes, proxy.down_bytes) == (10, 5)


async def test_nonsense_comes_in_place_of_the_answer() -> None:
    async with echoing("down after 2: nonsense 1000000") as proxy:
        heard, ending = await exchange(proxy, b"hello")
        assert (heard[:2], len(heard), ending) == (b"he", 1_000_002, "end")
        await proxy.heal()
        async with connected(proxy) as peer:
            await said(peer, b"hello")
            await proxy.nonsense(100)
            peer[1].write(b"world")
            assert await heard_of(peer[0]) == (heard[2:102], "end")


async def test_what_hangs_is_delivered_when_healed() -> None:
    async with echoing() as proxy, connected(proxy) as peer:
        await proxy.hang()
        peer[1].write(b"late")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer[0].read(1), 0.1)
        assert (proxy.up_bytes, proxy.down_bytes) == (0, 0)
        await proxy.heal()
        assert await peer[0].readexactly(4) == b"late"


async def test_a_scripted_hang_accepts_and_never_answers() -> None:
    async with echoing("down after 2: hang") as proxy, connected(proxy) as (reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(2) == b"he"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        assert (proxy.up_bytes, proxy.down_bytes) == (5, 2)


async def test_refused_until_healed_on_the_same_port() -> None:
    async with echoing() as proxy, connected(proxy) as old:
        await said(old, b"hello")
        port = proxy.port
        for _ in range(3):
            await proxy.refuse()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(proxy.host, proxy.port)
            assert await said(old, b"those that are open live on") == b"those that are open live on"
            await proxy.heal()
            async with connected(proxy) as fresh:
                assert await said(fresh, b"back") == b"back"
        assert proxy.port == port


async def test_a_target_can_go_away_in_the_middle_of_an_answer() -> None:
    async with echoing("down after 3: refuse\ndown after 3: cut") as proxy:
        assert await exchange(proxy, b"hello") == (b"hel", "end")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(proxy.host, proxy.port)
        await proxy.heal()
        async with connected(proxy) as fresh:
            assert await said(fresh, b"whole again") == b"whole again"


async def test_every_chunk_is_delayed_or_only_the_next() -> None:
    async def seconds(peer: Peer) -> float:
        began = time.monotonic()
        await said(peer, b"x")
        return time.monotonic() - began

    async with echoing("down after 1: delay 0.2 once") as proxy, connected(proxy) as peer:
        took = [await seconds(peer) for _ in range(3)]
        assert took[1] >= 0.2 > max(took[0], took[2])
        await proxy.delay(0.1)  # both ways
        assert min([await seconds(peer) for _ in range(2)]) >= 0.2
        await proxy.heal()
        assert await seconds(peer) < 0.1


async def test_the_rate_is_held() -> None:
    async with echoing("down after 0: throttle 10000") as proxy, connected(proxy) as (reader, writer):
        began = time.monotonic()
        writer.write(b"x" * 4000)
        first = len(await reader.read(65536))
        await reader.readexactly(4000 - first)
        assert 0.4 <= time.monotonic() - began < 2
        assert first <= 500  # in small pieces, as a slow line would


async def test_a_target_that_is_not_there_is_a_reset() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        async with faults.Proxy("127.0.0.1", nobody.getsockname()[1]) as proxy:
            assert await exchange(proxy, b"x") == (b"", "reset")


@pytest.mark.parametrize("harm", ["", "down after 10: hang", "up after 0: delay 0.001", "down after 100: reset"])
async def test_five_hundred_clients_may_vanish_at_any_time(harm: str) -> None:
    async def come_and_go(proxy: faults.Proxy, number: int) -> None:
        async with connected(proxy) as (reader, writer):
            writer.write(b"x" * (number * 37 % 4000))
            if number % 3 == 0:
                await writer.drain()
            if number % 3 == 1:
                await reader.read(1 + number % 7)
            if number % 5 == 0:
                linger_not(writer)

    async with echoing(harm) as proxy:
        for first in range(1, 501, 50):
            async with asyncio.TaskGroup() as tasks:
                for number in range(first, first + 50):
                    tasks.create_task(come_and_go(proxy, number))
        assert proxy.connections == 500
        await proxy.heal()
        async with connected(proxy) as fresh:
            assert await said(fresh, b"still here") == b"still here"


async def test_targets_may_vanish_at_any_time() -> None:
    async def vanish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(await reader.read(10)) % 2:
            writer.write(b"half an ans")
            await writer.drain()
        linger_not(writer)
        writer.transport.abort()

    async with served(vanish) as port, asyncio.timeout(30), faults.Proxy("127.0.0.1", port) as proxy:
        heard = {await exchange(proxy, b"x" * (1 + n % 2)) for n in range(50)}
        assert heard == {(b"half an ans", "reset"), (b"", "reset")}


async def test_leaving_closes_what_is_open() -> None:
    async with served(echo) as port:
        async with faults.Proxy("127.0.0.1", port) as proxy:
            reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
            await proxy.hang()
        assert await heard_of(reader) == (b"", "end")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(proxy.host, proxy.port)
        writer.close()


def test_text_and_steps_are_the_same_script(tmp_path: Path) -> None:
    steps = (
        faults.After(bytes=100, direction="down", do=faults.reset()),
        faults.After(connection=2, direction="up", do=faults.hang()),
        faults.After(bytes=1, direction="up", do=faults.delay(0.5, once=True)),
        faults.After(do=faults.delay(2)),
        faults.After(do=faults.throttle(1000)),
        faults.After(do=faults.half_close()),
        faults.After(do=faults.refuse()),
        faults.After(bytes=3, do=faults.nonsense(50)),
        faults.truncate(9, "up"),
    )
    text = "# kept in a file\n\n" + "\n".join(f"  {step}  # why" for step in steps)
    (tmp_path / "script").write_text(text)

    assert faults.parse((tmp_path / "script").read_text()) == steps
    assert str(steps[0]) == "down after 100: reset"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reset", r"line 2: 'reset': a step is .* for example 'down after 100: reset'"),
        (
            "down after 100: rest",
            r"no harm called 'rest'; known: cut, delay, half-close, hang, nonsense, refuse, reset, throttle",
        ),
        ("left after 100: reset", r"no direction 'left'; known: down, up"),
        ("down after ten: reset", r"'ten' is not a number of bytes"),
        ("down after -1: reset", r"-1 bytes can never have passed"),
        ("down after 1: delay", r"it is 'delay <seconds> \[once\]'"),
        ("down after 1: delay soon", r"'soon' is not seconds"),
        ("down after 1: delay -2", r"over before it begins"),
        ("down after 1: throttle 0", r"at least one byte a second"),
        ("down after 1: nonsense 0", r"at least one byte"),
        ("down after 1: cut 5", r"cut takes nothing more"),
    ],
)
def test_a_bad_line_says_what_would_be_right(line: str, message: str) -> None:
    with pytest.raises(faults.BadScript, match=message):
        faults.parse(f"up after 1: cut\n{line}\n")
