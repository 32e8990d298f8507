"""Tokens: who may call a host, and which slots. Kept as digests, compared in constant time."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from agentbox_contracts import SLOTS
from agentbox_contracts.errors import BootError, Conflict, InvalidInput, NotFound
from agentbox_contracts.wire import decode, encode

__all__ = ["LOCAL", "SCOPES", "Token", "Tokens"]

EVERYTHING = "*"
SCOPES = (EVERYTHING, *(f"{what}:{how}" for what in (*SLOTS, "host") for how in ("read", "write")))
LOCAL = "host.token"
"""The file with the token that was made at the first start, which local clients find in the state folder."""

LOOK_SECONDS = 0.05

_NAME = re.compile(r"[\w .@-]{1,100}")


@attrs.frozen(kw_only=True)
class Token:
    """What is known of a token: everything but the token itself."""

    id: str
    name: str
    digest: str
    scopes: tuple[str, ...]
    created_at: float

    def allows(self, scope: str) -> bool:
        """Whether it covers *scope*. Who may write may read."""
        what, _, how = scope.partition(":")
        return bool({EVERYTHING, scope, f"{what}:write" if how == "read" else scope}.intersection(self.scopes))


class Tokens:
    """The tokens of one state folder, seen as they are: what another process changes holds here 50 ms later."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._path = folder / "tokens.json"
        self._clock = clock
        self._seen: tuple[int, int] | None = None
        self._look_again = 0.0
        self._tokens: tuple[Token, ...] = ()

    def find(self, presented: str) -> Token | None:
        """The token that was presented, None for a stranger's. Takes as long whichever it is, and if it is none."""
        digest = _digest(presented)
        found = None
        now = time.monotonic()
        if now >= self._look_again:  # not for each request: a look at the disk lets other threads go first
            self.all()
            self._look_again = now + LOOK_SECONDS
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def all(self) -> tuple[Token, ...]:
        """All tokens, the oldest first."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._tokens = None, ()
            return ()
        if self._seen != (stat.st_mtime_ns, stat.st_ino):
            self._tokens = self._read()
            self._seen = (stat.st_mtime_ns, stat.st_ino)
        return self._tokens

    def new(self, name: str, scopes: tuple[str, ...] = (EVERYTHING,)) -> tuple[Token, str]:
        """
        Make a token. Its text is returned this once and kept nowhere.

        Raises:
            InvalidInput: The name or a scope cannot be one.
            Conflict: A token of that name is there.
        """
        if not _NAME.fullmatch(name):
            raise InvalidInput("a token's name has 1 to 100 letters, digits, spaces and . @ _ -")
        strangers = [scope for scope in scopes if scope not in SCOPES]
        if strangers or not scopes:
            raise InvalidInput(f"no such scope: {', '.join(strangers) or 'none'}; there are {', '.join(SCOPES)}")
        text = f"abx_{secrets.token_urlsafe(32)}"
        with self._changing() as tokens:
            if any(token.name == name for token in tokens):
                raise Conflict(f"there is a token called {name!r}; revoke it first", resource="token", id=name)
            token = Token(
                id=f"tk-{secrets.token_hex(4)}",
                name=name,
                digest=_digest(text),
                scopes=scopes,
                created_at=self._clock(),
            )
            tokens.append(token)
        return token, text

    def revoke(self, name: str) -> Token:
        """Take back the token with that name or id. Raises NotFound."""
        with self._changing() as tokens:
            token = next((token for token in tokens if name in (token.name, token.id)), None)
            if token is None:
                raise NotFound(f"there is no token {name!r}", resource="token", id=name)
            tokens.remove(token)
        if token.name == "local":
            (self._folder / LOCAL).unlink(missing_ok=True)
        return token

    def ensure_local(self) -> Path:
        """The file with the token for clients on this machine, made at the first start."""
        path = self._folder / LOCAL
        if not path.exists():
            if any(token.name == "local" for token in self.all()):
                self.revoke("local")
            _, text = self.new("local")
            _write(path, text.encode())
        return path

    def _read(self) -> tuple[Token, ...]:
        try:
            return decode(self._path.read_bytes(), tuple[Token, ...])
        except InvalidInput as error:
            raise BootError(f"{self._path} is not a list of tokens: {error.message}; move it away") from error

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens for changing, alone among all processes; written when the block ends well."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / "tokens.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._seen = None
            tokens = list(self.all())
            yield tokens
            _write(self._path, encode(tokens))
            self._seen = None
        finally:
            os.close(lock)


def _digest(text: str) -> str:
    # The text has 256 random bits: there is nothing to guess, so a slow hash would protect nothing.
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _write(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
