"""agentbox for code without an event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import agentbox.sync
from agentbox.context import bound
from agentbox.sync import SyncApp
from agentbox_contracts.errors import (
    AdapterDisabled,
    AdapterUnavailable,
    AlreadyClaimed,
    NotFound,
    OrchestratorRequired,
)
from agentbox_contracts.orchestrator import AgentSpec


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AGENTBOX_MANIFEST", "AGENTBOX_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def app(folder: Path) -> Iterator[SyncApp]:
    with agentbox.sync.open_app() as opened:
        yield opened


def agent(code: str) -> AgentSpec:
    return AgentSpec(command=sys.executable, args=("-c", code))


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "agentbox-sync"]


def test_calls_block_and_return_the_value(app: SyncApp) -> None:
    epic = app.adapters.beads.create_epic(title="Ship it")
    assert app.adapters.beads.claim(epic.id, actor="ada").fence == 1
    assert app.adapters.beads.show(epic.id).holder == "ada"


def test_errors_are_those_of_the_contract(app: SyncApp) -> None:
    with pytest.raises(NotFound) as caught:
        app.adapters.beads.show("bd-none")
    assert (caught.value.slot, caught.value.method) == ("beads", "show")
    with pytest.raises(AdapterDisabled):
        app.adapters.pods.read("key")


def test_what_is_not_a_call_passes_through(app: SyncApp) -> None:
    assert app.adapters.beads.impl == "local-sqlite"
    assert app.adapters.beads.enabled is True
    assert app.meta()["slots"]["pods"]["canonical"] == "off"
    assert app.health().state == "healthy"


def test_a_plain_thread_can_open_and_use_it(folder: Path) -> None:
    def work() -> str:
        with agentbox.sync.open_app() as opened:
            title: str = opened.adapters.beads.create_epic(title="From a thread").title
            return title

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result(timeout=30) == "From a thread"


def test_of_two_threads_one_wins_each_claim(app: SyncApp) -> None:
    epics = [app.adapters.beads.create_epic(title=f"Epic {number}").id for number in range(50)]
    together = threading.Barrier(2)

    def race(actor: str) -> set[str]:
        together.wait(timeout=30)
        won = set()
        for bead_id in epics:
            try:
                app.adapters.beads.claim(bead_id, actor=actor)
                won.add(bead_id)
            except AlreadyClaimed:
                pass
        return won

    with ThreadPoolExecutor(2) as pool:
        ada, grace = pool.map(race, ["ada", "grace"])
    assert ada | grace == set(epics)
    assert not ada & grace


def test_a_stream_is_an_iterator(app: SyncApp) -> None:
    started = app.adapters.orchestrator.spawn(agent("for n in range(3): print(n)"))
    events = list(app.adapters.orchestrator.stream(started.id))
    assert [event.text for event in events if event.type == "stdout"] == ["0\n", "1\n", "2\n"]
    assert events[-1].type == "exited"


def test_a_stream_can_be_left_early(app: SyncApp) -> None:
    started = app.adapters.orchestrator.spawn(agent("import time; print('here', flush=True); time.sleep(600)"))
    for event in app.adapters.orchestrator.stream(started.id):
        if event.type == "stdout":
            break
    assert app.adapters.orchestrator.terminate(started.id, grace_seconds=1).status == "exited"


def test_the_ids_of_the_calling_thread_are_carried_over(app: SyncApp) -> None:
    with bound(session="s-1", execution="x-1"):
        started = app.adapters.orchestrator.spawn(agent(""))
    assert (started.session_id, started.execution_id) == ("s-1", "x-1")


def test_attach_gives_the_host_the_adapters(app: SyncApp) -> None:
    class HostApp:
        adapters: agentbox.sync.SyncAdapters

    host_app = HostApp()
    app.attach(host_app)
    assert host_app.adapters is app.adapters


async def test_a_thread_whose_loop_runs_cannot_open_it() -> None:
    with pytest.raises(RuntimeError, match=r"use agentbox\.open_app there"), agentbox.sync.open_app():
        pass
    assert not loop_threads()


def test_a_thread_whose_loop_runs_cannot_call_it(app: SyncApp) -> None:
    async def call() -> None:
        app.adapters.beads.get_ready()

    async def iterate() -> None:
        list(app.adapters.orchestrator.stream("ag-none"))

    with pytest.raises(RuntimeError, match="would block the event loop"):
        asyncio.run(call())
    with pytest.raises(RuntimeError, match="would block the event loop"):
        asyncio.run(iterate())


def test_a_closed_app_says_so(folder: Path) -> None:
    with agentbox.sync.open_app() as opened:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        opened.adapters.beads.get_ready()
    assert not loop_threads()


def test_a_call_under_way_ends_when_the_app_closes(folder: Path) -> None:
    waiting = threading.Event()

    def follow(opened: SyncApp, agent_id: str) -> None:
        for event in opened.adapters.orchestrator.stream(agent_id):
            if event.type == "started":
                waiting.set()

    with ThreadPoolExecutor(1) as pool:
        with agentbox.sync.open_app() as opened:
            started = opened.adapters.orchestrator.spawn(agent("import time; time.sleep(600)"))
            following = pool.submit(follow, opened, started.id)
            assert waiting.wait(timeout=30)
        with pytest.raises((AdapterUnavailable, RuntimeError)):  # told by the adapter, or cut off by the closing loop
            following.result(timeout=30)
    with agentbox.sync.open_app() as opened:
        opened.adapters.orchestrator.terminate(started.id, grace_seconds=0)


def test_a_call_that_hangs_ends_when_the_app_closes(folder: Path) -> None:
    hanging = threading.Event()

    async def hang(bead_id: str) -> None:
        hanging.set()
        await asyncio.sleep(600)

    with ThreadPoolExecutor(1) as pool:
        with agentbox.sync.open_app() as opened:
            opened.adapters.beads._adapter.adapter.show = hang
            opened.adapters.beads._adapter.swap(opened.adapters.beads._adapter.adapter)
            calling = pool.submit(opened.adapters.beads.show, "bd-1")
            assert hanging.wait(timeout=30)
        with pytest.raises(RuntimeError, match="the app was closed during the call"):
            calling.result(timeout=30)
    assert not loop_threads()


def test_a_failed_start_leaves_no_thread(folder: Path) -> None:
    with pytest.raises(OrchestratorRequired), agentbox.sync.open_app(overrides={"adapters": {"orchestrator": "off"}}):
        pass
    assert not loop_threads()


def test_an_error_in_the_body_closes_the_app_and_goes_on(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), agentbox.sync.open_app():
        _ = 1 / 0
    assert not loop_threads()
