"""Secrets that a manifest names by reference."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from agentbox._manifest_sections import SECRET_PATTERN
from agentbox_contracts.contract import Secret
from agentbox_contracts.errors import ManifestError

_REFERENCE = re.compile(SECRET_PATTERN)
_PASSWORD = re.compile(r"://[^@]*:[^@]*@|password\s*=", re.IGNORECASE)
_DSN = re.compile(r"://|=")


def secret(reference: str, folder: Path, environ: Mapping[str, str]) -> Secret | None:
    """
    The secret behind `env:NAME` or `file:PATH`, read anew whenever it is revealed; None when that is not its form.

    A relative PATH is inside *folder*. Revealing a reference that leads nowhere raises ManifestError, which names it.
    """
    if not _REFERENCE.fullmatch(reference) or "\0" in reference:
        return None
    scheme, _, name = reference.partition(":")
    if scheme == "env":
        return Secret(reference, lambda: _variable(reference, name, environ))
    return Secret(reference, lambda: _file(reference, folder / _home(name, environ)))


def open_dsn(value: str, key: str) -> Secret | None:
    """A DSN written out in the manifest as the value of *key*; None when it holds a password or is no DSN."""
    if _PASSWORD.search(value) or not _DSN.search(value):
        return None
    return Secret(key, lambda: value)


def has_password(url: str) -> bool:
    """Whether *url* or DSN carries a password."""
    return _PASSWORD.search(url) is not None


def _variable(reference: str, name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name)
    if not value:
        state = "not set" if value is None else "empty"
        raise ManifestError(f"{reference}: the variable is {state}; set {name} in the environment")
    return value


def _file(reference: str, path: Path) -> str:
    try:
        value = path.read_bytes().decode()
    except UnicodeDecodeError:
        # The error's own text would show bytes of the secret, so it is not kept as the cause either.
        raise ManifestError(f"{reference}: the file is not UTF-8 text") from None
    except OSError as error:
        raise ManifestError(f"{reference}: {error.strerror or 'cannot be read'}; name a readable file") from error
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise ManifestError(f"{reference}: the file is empty")
    return value


def _home(name: str, environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME", "~"), name[2:]) if name.startswith("~/") else Path(name)
