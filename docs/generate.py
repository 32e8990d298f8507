"""Writes what the pages say of the code from the code itself: `make docs`. A test compares."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from agentbox_contracts.errors import AgentboxError, error_classes

ERRORS = Path(__file__).with_name("errors.md")
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


if __name__ == "__main__":
    ERRORS.write_text(errors_page(ERRORS.read_text("utf-8")), "utf-8")
