"""
One schema of a Postgres database: a bounded pool of connections, migrations, and errors in the contract's words.

The pool is our own because of what happens when a call is cancelled or the network is silent: the connection is given
up at once, so that the caller never waits for it, and whatever it had begun is finished or rolled back by the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import asyncpg
import attrs
from msgspec import Meta

from agentbox.adapters._postgres_dsn import Address
from agentbox_contracts.contract import Secret, Settings
from agentbox_contracts.errors import AdapterFailed, AdapterTimeout, AdapterUnavailable, AgentboxError, ManifestError

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

__all__ = ["Postgres", "PostgresSettings", "transaction"]

T = TypeVar("T")

OLDEST = 13
ATTEMPTS = 5
IDLE_SECONDS = 300.0
GRACE_SECONDS = 5.0
CONNECT_SECONDS = 10.0

Seconds = Annotated[float, Meta(gt=0, le=3600)]

# Classes of SQLSTATE, and single ones, that mean: not now, or not with this server. The rest is a fault of ours.
_UNAVAILABLE = ("08", "28", "3D", "53", "55", "57", "58", "25006", "25P03", "42501")
# The driver calls it an internal error when the server said goodbye on a connection that was idle.
_LOST = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresConnectionError)
_AGAIN = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)


@attrs.frozen(kw_only=True)
class PostgresSettings(Settings):
    """
    Where the database is and how it is used.

    `dsn` is a URI, or keywords and values; `schema` is created when it is not there. At most `pool_max` connections are
    open, and `pool_min` stay open when idle; a call waits `pool_timeout_seconds` for a free one. The server ends a
    statement after `statement_timeout_seconds`. What is said here about TLS goes before what the DSN says, in libpq's
    words; without either, TLS is used when the server offers it and no certificate is checked.
    """

    dsn: Secret
    schema: Annotated[str, Meta(pattern="^(?!pg_)[a-z_][a-z0-9_]*$", max_length=63)]
    pool_min: Annotated[int, Meta(ge=0, le=1000)] = 1
    pool_max: Annotated[int, Meta(ge=1, le=1000)] = 8
    pool_timeout_seconds: Seconds = 10.0
    statement_timeout_seconds: Seconds = 20.0
    sslmode: Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] | None = None
    sslrootcert: Path | None = None
    sslcert: Path | None = None
    sslkey: Path | None = None

    def __attrs_post_init__(self) -> None:
        if self.pool_min > self.pool_max:
            raise ValueError(f"pool_min {self.pool_min} is greater than pool_max {self.pool_max}")


@asynccontextmanager
async def transaction(db: Connection, *first: str) -> AsyncIterator[None]:
    """
    A transaction that begins with the statements *first*, in the same round trip.

    An error rolls it back. One that was cancelled, or heard nothing any more, is left as it is: the pool gives the
    connection up, which rolls it back too.
    """
    await db.execute("; ".join(("BEGIN", *first)))
    try:
        yield
    except TimeoutError:
        raise
    except Exception:
        if not db.is_closed():
            await db.execute("ROLLBACK")
        raise
    await db.execute("COMMIT")


class Postgres:
    """An open schema. Work is a coroutine function of a connection that is its own until it returns."""

    def __init__(
        self,
        config: PostgresSettings,
        *,
        migrations: tuple[str, ...],
        logger: logging.Logger,
        session: Mapping[str, str] | None = None,
        prepare: Callable[[Connection], Awaitable[None]] | None = None,
    ) -> None:
        """
        *migrations* are scripts, each of one version. *session* are settings that every connection has.

        *prepare* is done each time before the schema is looked at: it sees to what the migrations need.
        """
        self.is_durable = True
        self._config = config
        self._session = session or {}
        self._prepare = prepare
        self._migrations = migrations
        self._logger = logger
        self._free: deque[tuple[Connection, float]] = deque()
        self._busy: set[Connection] = set()
        self._room = asyncio.Semaphore(config.pool_max)
        self._pruning: asyncio.TimerHandle | None = None
        self._is_open = False

    @property
    def where(self) -> str:
        """Host, port, database and schema, without secrets."""
        try:
            return f"{self._address().where}?schema={self._config.schema}"
        except AdapterUnavailable:
            return f"postgresql:///?schema={self._config.schema}"

    async def open(self) -> None:
        """Connect, create or upgrade the schema, and fill the pool. Raises AdapterUnavailable."""
        self._is_open = True
        self._room = asyncio.Semaphore(self._config.pool_max)
        await self.write(self._inspect)
        if self._prepare is not None:
            await self.write(self._prepare)
        await self.migrate()
        while len(self._free) < self._config.pool_min:
            self._free.append((await self._connect(), self._now()))

    async def close(self) -> None:
        """Let what was begun end, and close every connection. A second time does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        if self._pruning is not None:
            self._pruning.cancel()
            self._pruning = None
        try:
            async with asyncio.timeout(self._config.statement_timeout_seconds + GRACE_SECONDS):
                for _ in range(self._config.pool_max):
                    await self._room.acquire()
        except TimeoutError:
            self._logger.warning("postgres calls cut off", extra={"calls": len(self._busy)})
        finally:
            for db in self._busy:
                db.terminate()
            free, self._free = self._free, deque()
            await asyncio.gather(*(_closed(db) for db, _ in free))

    def read(self, work: Callable[[Connection], Awaitable[T]]) -> Awaitable[T]:
        """Run *work*, which only reads; when its connection is lost, once more on another."""
        return self._run(work, again=True)

    def write(self, work: Callable[[Connection], Awaitable[T]], *, again: bool = False) -> Awaitable[T]:
        """
        Run *work*, which is one statement or one transaction.

        Lost with its connection, nobody knows whether it happened: AdapterUnavailable, unless it can be done *again*
        without happening twice. What the server rolled back because of others' writes is tried anew.
        """
        return self._run(work, again=again)

    async def migrate(self) -> None:
        """Create or upgrade the schema; one process does it, and others wait. Raises AdapterUnavailable for a newer."""
        if await self.read(self._version) != len(self._migrations):
            await self.write(self._upgrade)

    async def _version(self, db: Connection) -> int:
        """The version of the schema, 0 when there is none. Raises AdapterUnavailable when it is from the future."""
        schema = self._config.schema
        # Not to_regclass: within a transaction it goes on not finding what another process has made meanwhile.
        look = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'version')"
        if not await db.fetchval(look, schema):
            return 0
        have: int = await db.fetchval(f'SELECT coalesce(max(version), 0) FROM "{schema}".version')
        if have > len(self._migrations):
            raise AdapterUnavailable(
                f"{self.where} has version {have}, and this agentbox knows up to {len(self._migrations)};"
                " use a newer agentbox"
            )
        return have

    async def _upgrade(self, db: Connection) -> None:
        schema = self._config.schema
        lock = f"SELECT pg_advisory_xact_lock(hashtextextended('agentbox migration {schema}', 0))"
        async with transaction(db, "SET LOCAL statement_timeout = 0", lock):
            have = await self._version(db)
            if have == 0:
                await db.execute(
                    f'CREATE SCHEMA IF NOT EXISTS "{schema}"; CREATE TABLE IF NOT EXISTS "{schema}".version'
                    " (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
                )
            for number, script in enumerate(self._migrations[have:], start=have + 1):
                await db.execute(script)
                await db.execute(f'INSERT INTO "{schema}".version VALUES ($1)', number)

    async def _inspect(self, db: Connection) -> None:
        """Refuse a server on which the promises cannot be kept."""
        path, encoding, fsync = await db.fetchrow(  # type: ignore[misc]
            "SELECT current_setting('search_path'), current_setting('server_encoding'), current_setting('fsync')"
        )
        have = db.get_server_version().major
        if have < OLDEST:
            raise AdapterUnavailable(f"{self.where} is Postgres {have}, and {OLDEST} is the oldest that will do")
        if encoding != "UTF8":
            raise AdapterUnavailable(f"{self.where} is encoded as {encoding}; make a database with ENCODING 'UTF8'")
        if path != f'"{self._config.schema}"':
            raise AdapterUnavailable(f"{self.where} does not keep our search_path; connect without such a pooler")
        self.is_durable = fsync == "on"

    async def _run(self, work: Callable[[Connection], Awaitable[T]], *, again: bool) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            db = await self._acquire()
            try:
                return await work(db)
            except AgentboxError:
                raise
            except _AGAIN as error:
                if attempt == ATTEMPTS:
                    raise AdapterUnavailable(f"{self.where}: {_words(error)}") from error
            except Exception as error:
                db.terminate()
                failure = self._translated(error)
                if not (again and attempt == 1 and isinstance(failure, AdapterUnavailable)):
                    raise failure from error
                # Whatever took this connection has probably taken the idle ones too.
                self._give_up_idle()
            except BaseException:
                db.terminate()
                raise
            finally:
                self._release(db)
        raise AssertionError("the last attempt returns or raises")

    async def _acquire(self) -> Connection:
        if not self._is_open:
            raise self._not_open()
        if self._room.locked():
            await self._wait_for_room()
        else:
            await self._room.acquire()
        try:
            if not self._is_open:
                raise self._not_open()
            db = self._idle() or await self._connect()
        except BaseException:
            self._room.release()
            raise
        self._busy.add(db)
        return db

    def _idle(self) -> Connection | None:
        """The connection that was used last, if it still stands."""
        while self._free:
            db, _ = self._free.pop()
            if not db.is_closed():
                return db
        return None

    def _not_open(self) -> AdapterUnavailable:
        return AdapterUnavailable(f"{self.where} is not open")

    async def _wait_for_room(self) -> None:
        try:
            async with asyncio.timeout(self._config.pool_timeout_seconds):
                await self._room.acquire()
        except TimeoutError as error:
            busy = f"all {self._config.pool_max} connections were busy for {self._config.pool_timeout_seconds:g} s"
            raise AdapterUnavailable(f"{self.where}: {busy}; nothing was done") from error

    def _release(self, db: Connection) -> None:
        self._busy.discard(db)
        if not db.is_closed() and db.is_in_transaction():
            db.terminate()
        if not db.is_closed():
            self._free.append((db, self._now()))
            self._plan_pruning()
        self._room.release()

    def _plan_pruning(self) -> None:
        if self._pruning is None and len(self._free) > self._config.pool_min:
            self._pruning = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._prune)

    def _prune(self) -> None:
        """Give up what has been idle for long; the longest idle is at the left."""
        self._pruning = None
        long_ago = self._now() - IDLE_SECONDS
        while len(self._free) > self._config.pool_min and self._free[0][1] <= long_ago:
            self._free.popleft()[0].terminate()
        self._plan_pruning()

    def _give_up_idle(self) -> None:
        while self._free:
            self._free.pop()[0].terminate()

    async def _connect(self) -> Connection:
        config = self._config
        address = self._address().having(
            sslmode=config.sslmode,
            sslrootcert=_file("sslrootcert", config.sslrootcert),
            sslcert=_file("sslcert", config.sslcert),
            sslkey=_file("sslkey", config.sslkey),
        )
        try:
            db: Connection = await asyncpg.connect(
                address.uri,
                timeout=config.connect_timeout_seconds or CONNECT_SECONDS,
                # The server ends a statement; this is for a server that cannot be heard any more.
                command_timeout=config.statement_timeout_seconds + GRACE_SECONDS,
                server_settings={
                    "application_name": address.members.get("application_name", "agentbox"),
                    "search_path": f'"{config.schema}"',
                    "statement_timeout": _milliseconds(config.statement_timeout_seconds),
                    # And this is for us, should we not be heard any more: others wait for what we have locked.
                    "idle_in_transaction_session_timeout": _milliseconds(
                        config.statement_timeout_seconds + GRACE_SECONDS
                    ),
                    "synchronous_commit": "on",
                    **self._session,
                },
            )
        except TimeoutError as error:
            raise AdapterUnavailable(f"{self.where} did not answer in time") from error
        except Exception as error:
            raise AdapterUnavailable(f"{self.where}: {_words(error)}") from error
        return db

    def _address(self) -> Address:
        """Read anew each time, so that a rotated password is seen."""
        try:
            return Address.of(self._config.dsn.reveal())
        except ManifestError as error:
            raise AdapterUnavailable(error.message) from error

    def _translated(self, error: Exception) -> AgentboxError:
        """*error* as one of the contract's."""
        text = f"{self.where}: {_words(error)}"
        if isinstance(error, (asyncpg.QueryCanceledError, TimeoutError)):
            return AdapterTimeout(text)
        # A value that the driver cannot send is an interface error too, and no loss.
        if isinstance(error, _LOST) and not isinstance(error, ValueError):
            return AdapterUnavailable(f"{self.where}: the connection was lost ({_words(error)})")
        code: Any = getattr(error, "sqlstate", None) or ""
        if isinstance(error, asyncpg.PostgresError) and code.startswith(_UNAVAILABLE):
            return AdapterUnavailable(text)
        return AdapterFailed(text)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _closed(db: Connection) -> None:
    try:
        await db.close(timeout=GRACE_SECONDS)
    except Exception:
        db.terminate()


def _file(name: str, path: Path | None) -> str | None:
    # The driver's own complaint does not say which file it is.
    if path is not None and not path.is_file():
        raise AdapterUnavailable(f"{name}: there is no file {path}")
    return None if path is None else str(path)


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))


def _words(error: Exception) -> str:
    return f"{error}".strip() or type(error).__name__
