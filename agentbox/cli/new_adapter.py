"""`agentbox new-adapter`: a package for an adapter to be written, whose suite says what is to do."""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path

from agentbox import __version__
from agentbox.cli import _output
from agentbox.cli._failure import complain
from agentbox_contracts import contract_of
from agentbox_contracts.contract import Contract, Method
from agentbox_contracts.suites import SUITES

__all__ = ["configure", "run"]

SHARED = ("Durability", "Instant", "JsonObject", "Key", "Page")
WIDTH = 88
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def configure(parser: argparse.ArgumentParser) -> None:
    """Options of `new-adapter`."""
    parser.add_argument("slot", metavar="SLOT", choices=tuple(SUITES), help=", ".join(SUITES))
    parser.add_argument("name", metavar="NAME", help="what the manifest will call it, such as external-memcached")
    parser.add_argument("--into", metavar="DIR", type=Path, default=Path(), help="where the package's folder is made")


def run(arguments: argparse.Namespace) -> int:
    """Write the package and say what to do next. 2 when the name cannot be one, 1 when the folder is there already."""
    slot, name = arguments.slot, arguments.name
    if not NAME.fullmatch(name):
        complain(f"{name!r} cannot be an adapter's name; use small letters, digits and dashes: external-memcached")
        return 2
    folder: Path = arguments.into / f"agentbox-{slot}-{name}"
    if folder.exists():
        complain(f"{folder} is there already; choose another name or --into another folder")
        return 1
    for path, text in files(slot, name).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        _output.print_line(str(target))
    _output.print_line("")
    _output.print_line("Next:", "bold")
    _output.print_line(f"  pip install -e '{folder}[dev]'")
    _output.print_line(
        f"  agentbox contract {slot} --impl {name}" if slot in SUITES else f"  write the methods of {slot}"
    )
    return 0


def files(slot: str, name: str) -> dict[str, str]:
    """The files of the package by path."""
    package = f"agentbox_{slot}_{name.replace('-', '_')}"
    words = {
        "slot": slot,
        "name": name,
        "package": package,
        "title": "".join(word.title() for word in name.split("-")),
        "version": __version__,
        "suite": f"{slot.title()}Suite",
    }
    return {
        "pyproject.toml": PYPROJECT.format(**words),
        "README.md": README.format(**words),
        f"{package}/__init__.py": f'"""The {slot} slot of agentbox on {name}."""\n',
        f"{package}/adapter.py": _adapter(contract_of(slot), words),
        f"{package}/py.typed": "",
        "tests/test_contract.py": TEST.format(**words),
    }


def _adapter(contract: Contract, words: dict[str, str]) -> str:
    port = contract.port.__name__
    methods = "\n".join(_method(method) for method in contract.methods.values())
    names = sorted({"CONTRACT", port, *_names_of(contract)})
    shared = [name for name in SHARED if re.search(rf"\b{name}\b", methods)]
    own = _imported(contract.port.__module__, [name for name in names if name not in shared])
    base = _imported("agentbox_contracts.contract", ["BaseAdapter", "Durability", "Health", "Settings", *shared])
    return ADAPTER.format(
        **words,
        port=port,
        imports="\n".join(sorted((own, base))),
        standard=_standard_imports(methods),
        methods=methods,
        capabilities=", ".join(sorted(contract.capabilities)) or "none yet",
    )


def _imported(module: str, names: list[str]) -> str:
    ordered = sorted(set(names), key=lambda name: (not name.isupper(), name))
    line = f"from {module} import {', '.join(ordered)}"
    return line if len(line) <= WIDTH else f"from {module} import (\n" + "".join(f"    {n},\n" for n in ordered) + ")"


def _standard_imports(methods: str) -> str:
    lines = ["from collections.abc import AsyncIterator\n"] if "AsyncIterator[" in methods else []
    lines += ["from typing import Literal\n"] if "Literal[" in methods else []
    return "".join(lines) + "\n" if lines else ""


def _method(method: Method) -> str:
    """The method's own signature and promise, and a body that refuses."""
    signature = inspect.signature(method.function)
    parts = ["self"]
    for parameter in list(signature.parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        default = "" if parameter.default is parameter.empty else f" = {_quoted(parameter.default)}"
        parts.append(f"{parameter.name}: {parameter.annotation}{default}".replace("'", '"'))
    head, tail = f"    async def {method.name}(", f") -> {signature.return_annotation}:"
    line = head + ", ".join(parts) + tail
    if len(line) > WIDTH:
        noted = {part: "  # noqa: B006 - never mutated" if part.endswith("= {}") else "" for part in parts}
        line = head + "\n" + "".join(f"        {part},{noted[part]}\n" for part in parts) + "    " + tail
    body = _promise(method) + f'        raise NotImplementedError("{method.name} is to be written")\n'
    return f"{line}\n{body}" + ("        yield\n" if method.stream else "")


def _promise(method: Method) -> str:
    """The port's docstring, whole: its list of errors is what one needs most."""
    first, *rest = method.doc.splitlines()
    if not rest:
        return f'        """{first}"""\n'
    lines = "".join(f"        {line}\n" if line else "\n" for line in (first, *rest))
    return f'        """\n{lines}        """\n'


def _quoted(value: object) -> str:
    return repr(value).replace("'", '"')


def _names_of(contract: Contract) -> set[str]:
    """What the port's signatures name out of its own module."""
    module = inspect.getmodule(contract.port)
    texts = [
        str(text) for method in contract.methods.values() for text in _annotations(inspect.signature(method.function))
    ]
    used = {word for text in texts for word in re.findall(r"[A-Za-z_]+", text)}
    return {name for name in used if hasattr(module, name) and name not in ("AsyncIterator", "Literal")}


def _annotations(signature: inspect.Signature) -> list[object]:
    return [signature.return_annotation, *(p.annotation for p in list(signature.parameters.values())[1:])]


PYPROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "agentbox-{slot}-{name}"
version = "0.1.0"
description = "The {slot} slot of agentbox on {name}."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["agentbox>={version}"]

[project.optional-dependencies]
dev = ["agentbox[suite]"]

[project.entry-points."agentbox.{slot}"]
{name} = "{package}.adapter:Adapter"

[tool.hatch.build.targets.wheel]
packages = ["{package}"]

[tool.pytest.ini_options]
asyncio_mode = "auto"
asyncio_default_fixture_loop_scope = "function"
"""

README = """# agentbox-{slot}-{name}

The {slot} slot of agentbox on {name}.

```toml
[adapters]
{slot} = "{name}"
```

`agentbox contract {slot} --impl {name}` grades it against the suite of its slot.
"""

TEST = '''"""The {slot} contract on {name}."""

import pytest
from agentbox_contracts.suites.{slot} import {suite}


class Test{title}({suite}):
    @pytest.fixture
    def manifest(self) -> str:
        return '[adapters]\\n{slot} = "{name}"\\n'
'''

ADAPTER = '''"""The {slot} slot on {name}."""

from __future__ import annotations

{standard}import attrs
{imports}

__all__ = ["Adapter", "{title}", "{title}Settings"]


@attrs.frozen(kw_only=True)
class {title}Settings(Settings):
    """
    What `[{slot}.{name}]` may say.

    A relative `Path` is inside the state folder, a `Secret` is written as a reference.
    """


class {title}(BaseAdapter, {port}):
    """Say here what stands behind it, who may share it, and what it costs."""

    settings_class = {title}Settings
    contract_version = CONTRACT.version
    # Of {capabilities}. What is not declared is refused with AdapterDisabled.
    capabilities = frozenset()
    # What a returned write has reached: none memory os fsync spooled quorum.
    durability: Durability = "none"
    config: {title}Settings

    async def connect(self) -> None:
        """Open what it needs. Raises AdapterUnavailable."""

    async def disconnect(self) -> None:
        """Close everything. A second time does nothing."""

    async def health(self) -> Health:
        """A real look at what stands behind it; does not raise."""
        return Health("healthy")

{methods}

Adapter = {title}
'''
