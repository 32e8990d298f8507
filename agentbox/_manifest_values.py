"""Tables of TOML values into typed settings, with every problem noted rather than the first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import msgspec

from agentbox._manifest_problems import Report, header, label, short, suggestion
from agentbox._manifest_secrets import secret
from agentbox._toml_places import KeyPath
from agentbox_contracts.contract import Secret

T = TypeVar("T")

_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
_MISFIT = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_BOUND = re.compile(r"^Expected `([^`]+)`")


class Refused(Exception):
    """One value is not acceptable; the key it belongs to is known to the caller."""

    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy


@attrs.frozen
class Reader:
    """Reads tables of one manifest: *folder* is the manifest's, *environ* where `env:` and `~` look."""

    report: Report
    folder: Path
    environ: Mapping[str, str]

    def table(
        self, cls: type[T], table: object, where: KeyPath, inherited: Mapping[str, Any] | None = None
    ) -> T | None:
        """
        *table* as the attrs class *cls*, with *inherited* for keys that it leaves out.

        Keys with a problem are left at their default. None when that leaves nothing to build.
        """
        if not isinstance(table, Mapping):
            self.report.add("E019", where, f"{header(where)} must be a table, not {kind_of(table)}")
            return None
        fields = attrs.fields_dict(cls)  # type: ignore[arg-type]
        self.report.unknown_keys(table, fields, where)
        given = {name: table[name] for name in fields if name in table}
        values = {name: value for name, value in (inherited or {}).items() if name in fields and name not in given}
        values |= self._values(cls, given, where)
        needed = [name for name, field in fields.items() if field.default is attrs.NOTHING and name not in values]
        for name in needed:
            if name not in given:
                self.report.add("E028", (*where, name), f"{label((*where, name))} is missing", _expectation(cls, name))
        return None if needed else self._build(cls, values, where)

    def value(self, hint: Any, value: object, where: KeyPath) -> Any:
        """*value* as the type *hint*. A problem is noted at *where* and gives None."""
        try:
            _refuse_infinite(value)
            converted = msgspec.convert(value, hint, dec_hook=self._special)
            self._strays(value, converted, where)
            return converted
        except Refused as refused:
            self.report.add(refused.code, where, f"{label(where)}: {refused.message}", refused.remedy)
        except msgspec.ValidationError as error:
            self._misfit(hint, value, where, str(error))
        return None

    def _values(self, cls: type, given: Mapping[str, Any], where: KeyPath) -> dict[str, Any]:
        hints = get_type_hints(cls, include_extras=True)
        values = {}
        for name, raw in given.items():
            path = (*where, name)
            if attrs.has(hints_class := plain_type(hints[name])):
                value = self.table(hints_class, raw, path)
            else:
                value = self.value(hints[name], self._known_keys(hints[name], raw, path), path)
            if value is not None:
                values[name] = value
        return values

    def _build(self, cls: type[T], values: Mapping[str, Any], where: KeyPath) -> T | None:
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            self.report.add("E020", where, f"{header(where)}: {error}")
            return None

    def _known_keys(self, hint: Any, raw: Any, where: KeyPath) -> Any:
        """*raw* without the keys that a mapping with a fixed set of keys does not know."""
        keys = literal_keys(hint)
        if not keys or not isinstance(raw, Mapping):
            return raw
        self.report.unknown_keys(raw, keys, where)
        return {key: value for key, value in raw.items() if key in keys}

    def _strays(self, raw: Any, value: Any, where: KeyPath) -> None:
        """Note the unknown keys of tables inside a value, which the conversion passes over in silence."""
        if isinstance(raw, Mapping) and attrs.has(type(value)):
            fields = attrs.fields_dict(type(value))
            self.report.unknown_keys(raw, fields, where)
            pairs = [(name, raw[name], getattr(value, name)) for name in fields if name in raw]
        elif isinstance(raw, Mapping) and isinstance(value, Mapping):
            pairs = [(name, raw[name], value[name]) for name in raw if name in value]
        elif isinstance(raw, (list, tuple)) and isinstance(value, (list, tuple)):
            pairs = [(str(index), *pair) for index, pair in enumerate(zip(raw, value, strict=False))]
        else:
            return
        for name, inner, converted in pairs:
            self._strays(inner, converted, (*where, name))

    def _misfit(self, hint: Any, value: object, where: KeyPath, complaint: str) -> None:
        if match := _MISFIT.match(complaint):
            expected, got = (_in_words(names) for names in match.groups())
            self.report.add("E019", where, f"{label(where)}: expected {expected}, got {got}{_inside(complaint)}")
        elif choices := sorted(_choices(hint)):
            wrong = next(item for item in _flat(value) if item not in choices)
            self.report.add(
                "E020", where, f"{label(where)}: {short(str(wrong))} is not allowed", suggestion(str(wrong), choices)
            )
        else:
            self.report.add("E020", where, f"{label(where)}: {_BOUND.sub(_bound, complaint)}")

    def _special(self, kind: type, value: Any) -> Any:
        """Values of the types that TOML does not have."""
        if isinstance(value, kind):
            return value
        if not isinstance(value, str):
            raise Refused("E019", f"expected text, got {kind_of(value)}")
        if kind is Secret:
            return secret_or_refused(value, self.folder, self.environ)
        if issubclass(kind, Path):
            return kind(path_or_refused(value, self.environ))
        raise NotImplementedError(f"settings cannot have the type {kind.__name__}")


def secret_or_refused(value: str, folder: Path, environ: Mapping[str, str]) -> Secret:
    """The secret that the reference *value* names. The refusal does not repeat *value*: it may be the secret itself."""
    found = secret(value, folder, environ)
    if found is None:
        raise Refused("E022", "a secret is a reference, never the value itself", "write env:NAME or file:PATH")
    return found


def path_or_refused(value: str, environ: Mapping[str, str]) -> Path:
    """The path *value*, with a leading `~` for the home folder."""
    if not value or "\0" in value:
        raise Refused("E025", "this is no path", "name a file or folder")
    if value != "~" and not value.startswith("~/"):
        return Path(value)
    if not environ.get("HOME"):
        raise Refused("E025", "'~' means nothing because HOME is not set", "write the path in full")
    return Path(environ["HOME"], value[2:])


def literal_keys(hint: Any) -> tuple[str, ...]:
    """The keys of a mapping type whose keys are a fixed set; empty for any other type."""
    plain = plain_type(hint)
    if get_origin(plain) not in (dict, Mapping):
        return ()
    key = get_args(plain)[0]
    return get_args(key) if get_origin(key) is Literal else ()


def plain_type(hint: Any) -> Any:
    """*hint* without its annotations."""
    return hint.__origin__ if hasattr(hint, "__metadata__") else hint


def _choices(hint: Any) -> set[str]:
    """The texts that a Literal somewhere in *hint* allows."""
    plain = plain_type(hint)
    if get_origin(plain) is Literal:
        return {item for item in get_args(plain) if isinstance(item, str)}
    return set().union(*(_choices(part) for part in get_args(plain)))


def _flat(value: object) -> Iterable[object]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _refuse_infinite(value: object) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused("E020", f"{value} is not a number one can use")


def _expectation(cls: type, name: str) -> str:
    meta = getattr(get_type_hints(cls, include_extras=True)[name], "__metadata__", ())
    return next((item.description for item in meta if getattr(item, "description", None)), "")


def _in_words(names: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in names.split(" | ") if name != "null" or names == "null")


def _bound(match: re.Match[str]) -> str:
    return f"expected {_in_words(match[1])}"


def _inside(complaint: str) -> str:
    """Where within the value the complaint is, when it is not the value itself."""
    _, _, place = complaint.partition(" - at `$")
    return f" (at {place.rstrip('`')})" if place else ""


def kind_of(value: object) -> str:
    if isinstance(value, (date, time)):
        return "a date or time"
    names = ((bool, "bool"), (int, "int"), (float, "float"), (str, "str"), (list, "array"), (Mapping, "object"))
    return next((_WORDS[name] for kind, name in names if isinstance(value, kind)), type(value).__name__)
