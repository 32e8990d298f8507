"""Writes what the pages say of the code from the code itself: `make docs`. A test compares."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin

import attrs

from agentbox_contracts import SLOTS, contract_of
from agentbox_contracts.contract import Method
from agentbox_contracts.errors import AgentboxError, error_classes
from agentbox_contracts.vocabulary import VOCABULARY, Fact

ERRORS = Path(__file__).with_name("errors.md")
FACTS = Path(__file__).with_name("events-vocabulary.md")
PORTS = Path(__file__).with_name("ports.md")
PORTS_HEAD = """\
# The ports

Every call of every slot, with what it promises, and the types that go in and come out. This page is written from
`agentbox_contracts` by `make docs`. What holds for all of them is in [concepts](concepts.md); errors are in
[errors](errors.md). Every call may also raise `InvalidInput` before anything is done, `AdapterTimeout`,
`AdapterUnavailable`, and `AdapterDisabled` where the slot is off.
"""
WIDE = 100
ALIAS = re.compile(r"typing\.Annotated\[(\w+), msgspec\.Meta\([^)]*\)\]")
LIMITS = {
    "min_length": "length at least",
    "max_length": "length at most",
    "ge": "at least",
    "gt": "more than",
    "le": "at most",
    "lt": "less than",
    "pattern": "matching",
}
FACTS_TABLE = re.compile(r"^\| type .*?\n(?=\n)", re.M | re.S)
TABLE = re.compile(r"^\| class .*?\n(?=\n)", re.M | re.S)


def errors_page(text: str) -> str:
    """The errors page with its table made from the tree of classes."""
    rows = ["| class | is a | code | status | retry | meaning |", "|---|---|---|---|---|---|"]
    rows += [_row(error) for error in error_classes()]
    return TABLE.sub(lambda _: "\n".join(rows) + "\n", text, count=1)


def _row(error: type[AgentboxError]) -> str:
    base = error.__base__
    parent = f"`{base.__name__}`" if base is not None and issubclass(base, AgentboxError) else ""
    meaning = " ".join((inspect.getdoc(error) or "").partition("\n\n")[0].split())
    retry = "yes" if error.retryable else "no"
    return f"| `{error.__name__}` | {parent} | `{error.code}` | {error.status} | {retry} | {meaning} |"


def vocabulary_page(text: str) -> str:
    """The page of agentbox's own events with its table made from their classes."""
    rows = ["| type | data | told when |", "|---|---|---|"]
    rows += [_fact_row(fact) for fact in VOCABULARY.values()]
    return FACTS_TABLE.sub(lambda _: "\n".join(rows) + "\n", text, count=1)


def _fact_row(fact: type[Fact]) -> str:
    members = " ".join(f"`{field.name}`" for field in attrs.fields(fact))
    return f"| `{fact.type}` | {members} | {' '.join((inspect.getdoc(fact) or '').split())} |"


def ports_page() -> str:
    """The reference of all ports, made from their docstrings and types."""
    parts = [PORTS_HEAD, *(_port(slot) for slot in SLOTS)]
    return "\n".join(parts)


def _port(slot: str) -> str:
    contract = contract_of(slot)
    module = import_module(f"agentbox_contracts.{slot}")
    lines = [f"## {slot}", "", _doc(contract.port), ""]
    for method in contract.methods.values():
        lines += [
            f"### {slot}.{method.name}",
            "",
            "```python",
            _signature(method),
            "```",
            "",
            _doc(method.function),
            "",
        ]
    named = (getattr(module, name) for name in module.__all__)
    kinds = [kind for kind in named if isinstance(kind, type) and attrs.has(kind)]
    for kind in kinds:
        lines += [f"### {kind.__name__}", "", _doc(kind), "", "| field | type | default |", "|---|---|---|"]
        lines += [f"| `{field.name}` | {_type(field)} | {_default(field)} |" for field in attrs.fields(kind)] + [""]
    return "\n".join([*lines, *_bounds(module)])


def _signature(method: Method) -> str:
    signature = inspect.signature(method.function)
    parts = [_parameter(parameter) for name, parameter in signature.parameters.items() if name != "self"]
    kinds = [parameter.kind for name, parameter in signature.parameters.items() if name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    head, tail = f"{'' if method.stream else 'await '}{method.name}(", f") -> {signature.return_annotation}"
    text = head + ", ".join(parts) + tail
    return text if len(text) <= WIDE else head + "\n" + "".join(f"    {part},\n" for part in parts) + tail


def _parameter(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{parameter.name}: {parameter.annotation}{default}"


def _bounds(module: ModuleType) -> list[str]:
    """A row for each type that is another one within bounds."""
    found = {name: kind for name, kind in sorted(vars(module).items()) if get_origin(kind) is Annotated}
    rows = [f"| `{name}` | {_bound(*get_args(kind))} |" for name, kind in found.items()]
    return ["### Bounds", "", "| type | is |", "|---|---|", *rows, ""] if rows else []


def _bound(kind: Any, meta: Any) -> str:
    limits = {word: value for name, word in LIMITS.items() if (value := getattr(meta, name, None)) is not None}
    told = [f"{word} {_shown(value)}" for word, value in limits.items()]
    base = ALIAS.sub(r"\1", str(kind)) if get_args(kind) else getattr(kind, "__name__", str(kind))
    return ", ".join([f"`{base}`".replace("|", "\\|"), *told])


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "`" + str(value).replace("|", "\\|") + "`"


def _doc(of: object) -> str:
    """A docstring as Markdown: what is indented under `Raises` becomes a list."""
    text = inspect.getdoc(of) or ""
    text = re.sub(r"^    (\w[\w, ]*):\s+(.*)$", r"- `\1`: \2", text, flags=re.M)
    text = re.sub(r"^ {8}", "  ", text, flags=re.M)
    return re.sub(r"^Raises:\n", "Raises:\n\n", text, flags=re.M)


def _type(field: Any) -> str:
    return "`" + str(field.type).replace("|", "\\|") + "`"


def _default(field: Any) -> str:
    if field.default is attrs.NOTHING:
        return "required"
    return "empty" if hasattr(field.default, "factory") else f"`{field.default!r}`"


if __name__ == "__main__":
    PORTS.write_text(ports_page(), "utf-8")
    ERRORS.write_text(errors_page(ERRORS.read_text("utf-8")), "utf-8")
    FACTS.write_text(vocabulary_page(FACTS.read_text("utf-8")), "utf-8")
