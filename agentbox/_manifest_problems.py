"""What can be wrong with a manifest, and how it is told."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import attrs

from agentbox._toml_places import KeyPath, Place, find, scan
from agentbox_contracts.errors import ManifestError

CODES = {
    "E001": 'An `external` adapter needs `federation.mode = "client"` and a URL.',
    "E002": "`external-pg` finds no DSN anywhere.",
    "E003": "`stdio-bridge` finds no bridge command.",
    "E004": "All four slots besides the orchestrator are off: an error unless it is said explicitly, then a warning.",
    "E005": "`external` events find no URL.",
    "W012": "Client mode with a local adapter: its state stays on this machine (a warning).",
    "E013": "Two listeners would use the same port.",
    "E016": "A section or key that the manifest does not know.",
    "E017": "The file is not valid TOML.",
    "E018": "The file cannot be read, or is no manifest at all.",
    "E019": "A value has the wrong type.",
    "E020": "A value is out of range or not one of the allowed ones.",
    "E021": "No adapter of that name is built in or installed.",
    "E022": "A secret is written as a value, or its reference is malformed.",
    "E023": "A range of contract versions cannot be understood.",
    "E024": "A URL is not an http or https one with a host.",
    "E025": "A path cannot be used.",
    "E026": "One adapter's table is written twice, under its name and under its alias.",
    "E027": "The environment of a target is unknown or not supported yet.",
    "E028": "A setting that the adapter cannot do without is missing.",
    "W029": "The chosen adapter cannot be loaded here, so the app will not open (a warning of `agentbox validate`).",
    "W030": "The orchestrator is off, and the app does not open without one (a warning: a single slot can be used).",
}
"""Each code and what it means, in one sentence."""

Severity = Literal["error", "warning"]

_SUGGESTED = 100
_SHOWN = 100


@attrs.frozen
class Problem:
    """One thing that is wrong, where, and what would be right. *path* is a file, `overrides`, or a variable's name."""

    code: str
    message: str
    remedy: str
    path: str | None
    line: int | None
    column: int | None
    severity: Severity = "error"

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path or "manifest", self.line, self.column) if part is not None)
        mark = "warning " if self.severity == "warning" else ""
        return f"{place}: {mark}{self.code} {self.message}" + (f"; {self.remedy}" if self.remedy else "")


class InvalidManifest(ManifestError):
    """The manifest cannot be read or breaks rules. `problems` has them all, in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        lines = [str(problem) for problem in problems[:_SHOWN]]
        if len(problems) > _SHOWN:
            lines.append(f"… and {len(problems) - _SHOWN} more problems")
        super().__init__("\n".join(lines))
        self.problems = tuple(problems)


class Report:
    """The problems found so far in one manifest, and the means to say where they are."""

    def __init__(self, *, path: str | None, text: str = "", overridden: Collection[KeyPath] = ()) -> None:
        self._path = path
        self._text = text
        self._overridden = overridden
        self._places: dict[KeyPath, Place] | None = None
        self._found: list[tuple[KeyPath, Problem]] = []

    def add(
        self,
        code: str,
        where: KeyPath,
        message: str,
        remedy: str = "",
        *,
        severity: Severity = "error",
        source: str | None = None,
    ) -> None:
        """Note a problem with the key *where*, or with what *source* names instead of the file."""
        path, line, column = (source, None, None) if source else self._place(where)
        self._found.append((where, Problem(code, message, remedy, path, line, column, severity)))

    def add_at(self, code: str, message: str, remedy: str = "", *, line: int | None, column: int | None) -> None:
        """Note a problem with a place of the file, where there is no key to name."""
        self._found.append(((), Problem(code, message, remedy, self._path, line, column)))

    def unknown_keys(self, keys: Iterable[str], known: Iterable[str], where: KeyPath) -> None:
        """Note every one of *keys* that is not *known* in the table *where*."""
        names = sorted(known)
        for key in keys:
            if key not in names:
                # A file of nonsense has thousands of these; looking for likenesses takes time.
                remedy = suggestion(key, names) if len(self._found) < _SUGGESTED else ""
                what = f"unknown key {short(key)} in {header(where)}" if where else f"unknown section [{key[:60]}]"
                self.add("E016", (*where, key), what, remedy)

    def has_error(self, where: KeyPath) -> bool:
        """Whether something is already known to be wrong at *where*, below it, or with a table around it."""
        return any(
            problem.severity == "error" and path and path[: len(where)] == where[: len(path)]
            for path, problem in self._found
        )

    def problems(self, severity: Severity | None = None) -> tuple[Problem, ...]:
        """What was found, in the order of the file."""
        found = (problem for _, problem in self._found if severity in (None, problem.severity))
        return tuple(sorted(found, key=lambda problem: (problem.line or 0, problem.column or 0)))

    def refuse_errors(self) -> None:
        """Raise InvalidManifest with everything found, if any of it is an error."""
        if self.problems("error"):
            raise InvalidManifest(self.problems())

    def _place(self, where: KeyPath) -> tuple[str | None, int | None, int | None]:
        if any(where[:length] in self._overridden for length in range(1, len(where) + 1)):
            return "overrides", None, None
        if self._places is None:
            self._places = scan(self._text)
        place = find(self._places, where)
        return (self._path, place.line, place.column) if place else (self._path, None, None)


def suggestion(name: str, known: Sequence[str]) -> str:
    """A remedy for the misspelt *name*: the nearest of *known*, and all of them."""
    # 'sqlite' for 'local-sqlite' is a common slip, so parts count as well as whole names.
    forms = {part: whole for whole in known for part in whole.split("-")} | {whole: whole for whole in known}
    near = difflib.get_close_matches(name, forms, n=1) if len(name) <= 60 else []
    listing = f"known: {', '.join(known)}"
    return f"did you mean {forms[near[0]]!r}? {listing}" if near else listing


def header(where: KeyPath) -> str:
    """The table *where* as the manifest writes it: `[beads.local-sqlite]`."""
    return f"[{'.'.join(str(part) for part in where)}]"


def label(where: KeyPath) -> str:
    """The key *where* in words: `path in [beads.local-sqlite]`."""
    return f"{where[-1]} in {header(where[:-1])}" if len(where) > 1 else header(where)


def short(value: str) -> str:
    """*value* in quotes, cut when long."""
    return repr(value if len(value) <= 60 else value[:59] + "…")
