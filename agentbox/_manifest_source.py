"""Where a manifest comes from: its file, its text, what was laid over it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import tomli

from agentbox._manifest_problems import InvalidManifest, Report
from agentbox._toml_places import KeyPath

# No real manifest comes near this; without a bound a wrong file could take seconds to refuse.
MAX_BYTES = 256 * 1024


@attrs.frozen(kw_only=True)
class Source:
    """One manifest's text and surroundings, kept so that later checks can still say where a key stands."""

    path: Path | None
    text: str
    folder: Path
    working_folder: Path
    environ: Mapping[str, str]
    overridden: frozenset[KeyPath] = frozenset()
    written_tables: Mapping[KeyPath, KeyPath] = attrs.field(factory=dict)

    @classmethod
    def of(cls, text: str, *, path: Path | None, folder: Path | None, environ: Mapping[str, str]) -> Source:
        """The source *text*, read from *path* if there is one."""
        working = working_folder(folder)
        path = working / path if path else None
        return cls(
            path=path, text=text, folder=path.parent if path else working, working_folder=working, environ=environ
        )

    def report(self) -> Report:
        """An empty report on this manifest."""
        shown = shown_path(self.path, self.working_folder) if self.path else None
        return Report(path=shown, text=self.text, overridden=self.overridden)

    def written(self, slot: str, impl: str) -> KeyPath:
        """The path of `[<slot>.<impl>]` as the file writes it, which may be under an alias."""
        return self.written_tables.get((slot, impl), (slot, impl))

    def toml(self) -> dict[str, Any]:
        """The content. Raises InvalidManifest when the text is not TOML."""
        report = self.report()
        if len(self.text) > MAX_BYTES:
            report.add_at("E018", _TOO_LARGE, _IS_IT, line=None, column=None)
        elif self.text.startswith("\ufeff"):
            message = "the file starts with a byte order mark"
            report.add_at("E017", message, "save it as UTF-8 without one", line=1, column=1)
        else:
            try:
                return tomli.loads(self.text)
            except tomli.TOMLDecodeError as error:
                report.add_at("E017", _sentence(error.msg), _TOML, line=error.lineno, column=error.colno)
            except RecursionError:
                report.add_at("E017", "the values are nested too deeply", _TOML, line=None, column=None)
            except ValueError:
                report.add_at("E017", "a number has too many digits", _TOML, line=None, column=None)
        raise InvalidManifest(report.problems())


_TOO_LARGE = f"the file is larger than {MAX_BYTES // 1024} KiB"
_IS_IT = "is it the right file? A manifest is a few kilobytes of TOML"
_TOML = "a manifest is written in TOML; see https://toml.io"


def read_text(path: Path, folder: Path | None = None) -> str:
    """The text of the file *path*. Raises InvalidManifest when it cannot be had."""
    report = Report(path=shown_path(path, working_folder(folder)))
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            report.add_at("E018", _TOO_LARGE, _IS_IT, line=None, column=None)
        else:
            return data.decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        report.add_at("E018", "the file is not UTF-8 text", "save it as UTF-8", line=line, column=None)
    except FileNotFoundError:
        remedy = "check --manifest and AGENTBOX_MANIFEST, or leave them out for the defaults"
        report.add_at("E018", "there is no such file", remedy, line=None, column=None)
    except IsADirectoryError:
        report.add_at("E018", "this is a folder", "name the file inside it", line=None, column=None)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "this is no path"
        report.add_at("E018", f"the file cannot be read: {why}", "name a readable file", line=None, column=None)
    raise InvalidManifest(report.problems())


def merged(
    file: Mapping[str, Any], overrides: Mapping[str, Any], where: KeyPath = ()
) -> tuple[dict[str, Any], frozenset[KeyPath]]:
    """*file* with *overrides* laid over it, table by table, and the paths that come from *overrides*."""
    result = dict(file)
    overridden: frozenset[KeyPath] = frozenset()
    for key, value in ((str(key), value) for key, value in overrides.items()):
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key], deeper = merged(below, value, (*where, key))
            overridden |= deeper
        else:
            result[key] = value
            overridden |= {(*where, key)}
    return result, overridden


def working_folder(folder: Path | None) -> Path:
    """*folder*, else the one the process works in, absolute."""
    try:
        return (folder or Path.cwd()).absolute()
    except FileNotFoundError:
        report = Report(path="working folder")
        report.add_at("E018", "it was removed", "change to a folder that exists", line=None, column=None)
        raise InvalidManifest(report.problems()) from None


def shown_path(path: Path, working_folder: Path) -> str:
    """*path* as people want to read it: short when it is below the working folder."""
    return str(path.relative_to(working_folder) if path.is_relative_to(working_folder) else path)


def _sentence(complaint: str) -> str:
    """What the parser says, as the middle of a sentence."""
    return complaint[:1].lower() + complaint[1:]
