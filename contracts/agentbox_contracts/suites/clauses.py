"""What a suite is made of: clauses with ids, and exemptions that say why, who and until when."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import Callable, Iterable
from datetime import date
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

import attrs
import pytest

__all__ = ["Clause", "Exemption", "clause", "clause_of", "clauses_of"]

F = TypeVar("F", bound=Callable[..., Any])

LIMIT_SECONDS = 120.0

_ID = re.compile(r"[a-z]+(\.[a-z0-9]+(-[a-z0-9]+)*){2}")


@attrs.frozen
class Clause:
    """One promise of a contract, and what an adapter must declare for it to apply."""

    id: str
    promise: str
    needs: frozenset[str] = frozenset()


@attrs.frozen(kw_only=True)
class Exemption:
    """Clauses that an adapter does not keep yet. It is printed with every run, and fails once it has expired."""

    clauses: str
    """An id, or a pattern of ids: `beads.sync.*`."""
    reason: str
    owner: str
    expires: date

    def covers(self, clause: Clause) -> bool:
        """Whether *clause* is meant."""
        return fnmatchcase(clause.id, self.clauses)

    def __str__(self) -> str:
        return f"{self.clauses}: {self.reason} (owner {self.owner}, until {self.expires})"


def clause(id: str, *, needs: Iterable[str] = ()) -> Callable[[F], F]:
    """Make a test method the clause *id* (`slot.topic.promise`). Its docstring is the promise, in one sentence."""
    if not _ID.fullmatch(id):
        raise ValueError(f"{id!r} is not a clause id like 'beads.claim.one-winner'")

    def mark(function: F) -> F:
        promise = " ".join((inspect.getdoc(function) or "").split())
        if not promise.endswith("."):
            raise ValueError(f"{id}: the docstring must be the promise, a sentence")
        limited: Any = pytest.mark.asyncio(_limited(id, function))
        limited.__clause__ = Clause(id, promise, frozenset(needs))
        return cast("F", limited)

    return mark


def _limited(id: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """*function*, ended when it hangs: a suite must come to an end whatever the adapter does."""

    @functools.wraps(function)
    async def limited(*args: Any, **kwargs: Any) -> None:
        scope = asyncio.timeout(LIMIT_SECONDS)
        try:
            async with scope:
                await function(*args, **kwargs)
        except TimeoutError:
            if scope.expired():
                pytest.fail(f"{id} did not end within {LIMIT_SECONDS:g} s", pytrace=False)
            raise

    return limited


def clause_of(function: object) -> Clause | None:
    """The clause that a test function checks, None when it is no clause."""
    found = getattr(function, "__clause__", None)
    return found if isinstance(found, Clause) else None


def clauses_of(suite: type) -> dict[str, Clause]:
    """The clauses of a suite by id, in the order they were written, the inherited ones first."""
    found: dict[str, Clause] = {}
    for cls in reversed(suite.__mro__):
        for member in vars(cls).values():
            if (known := clause_of(member)) is not None:
                found[known.id] = known
    return found
