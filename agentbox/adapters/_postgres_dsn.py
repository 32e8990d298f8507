"""
The address of a Postgres database, in either of its two forms, without ever repeating the secret in it.

The driver reads a DSN by its own rules, and its complaints quote what they could not read: a piece of a password, when
that held a character which should have been encoded. So the DSN is taken apart here, and what is doubtful is refused.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import attrs

from agentbox_contracts.errors import AdapterUnavailable

__all__ = ["Address"]

SCHEMES = ("postgresql", "postgres")
DEFAULT_PORT = "5432"
# What libpq's clients decide for themselves. The driver would send these to the server, which does not know them.
CLIENT_SIDE = re.compile(
    "connect_timeout|client_encoding|fallback_application_name|channel_binding|gssencmode|keepalives.*|tcp_user_timeout"
)

_PAIR = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?=\s|$)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PORTS = re.compile(r"[0-9]{1,5}(,[0-9]{1,5})*")


@attrs.frozen
class Address:
    """The members of a DSN under the names that libpq gives them: `host`, `port`, `user`, `dbname`, `sslmode`…"""

    members: dict[str, str] = attrs.field(repr=False)

    @classmethod
    def of(cls, dsn: str) -> Address:
        """
        Read a URI or keywords and values.

        Raises:
            AdapterUnavailable: It is neither. The message shows nothing of it.
        """
        try:
            found = _of_uri(dsn) if "://" in dsn else _of_pairs(dsn)
            if found.get("port") and not _PORTS.fullmatch(found["port"]):
                raise ValueError
        except ValueError:
            raise AdapterUnavailable(
                "the DSN cannot be read: write postgresql://user:password@host:port/database, with what is special in"
                " the password as %XX, or host=… dbname=… user=…"
            ) from None
        return cls({name: value for name, value in found.items() if value and not CLIENT_SIDE.fullmatch(name)})

    def having(self, **members: str | None) -> Address:
        """The same with *members* in place of its own; None leaves a member as it is."""
        return Address(self.members | {name: value for name, value in members.items() if value is not None})

    @property
    def uri(self) -> str:
        """All of it, secret included, in a form that cannot be misread."""
        return "postgresql://?" + urlencode(self.members)

    @property
    def where(self) -> str:
        """Host, port and database, for people."""
        host, port = self.members.get("host", ""), self.members.get("port", "")
        database = self.members.get("dbname", "")
        return f"postgresql://{host}{':' if port else ''}{port}/{database}"


def _of_uri(dsn: str) -> dict[str, str]:
    parts = urlsplit(dsn)
    identity, at, hosts = parts.netloc.rpartition("@")
    # An unencoded / or # in the password ends the part before it, and the @ is found further on.
    if parts.scheme not in SCHEMES or parts.fragment or "@" in parts.path or (not at and "@" in parts.query):
        raise ValueError
    user, _, password = identity.partition(":")
    host, port = _hosts(hosts)
    found = {
        "user": unquote(user),
        "password": unquote(password),
        "host": host,
        "port": port,
        "dbname": unquote(parts.path.removeprefix("/")),
    }
    query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    if "database" in query:
        query["dbname"] = query.pop("database")
    return found | query


def _hosts(text: str) -> tuple[str, str]:
    """The hosts and the ports of a list of both, each separated by commas."""
    pairs = [_host_and_port(item) for item in text.split(",")]
    ports = ",".join(port or DEFAULT_PORT for _, port in pairs) if any(port for _, port in pairs) else ""
    return ",".join(unquote(host) for host, _ in pairs), ports


def _host_and_port(item: str) -> tuple[str, str]:
    if item.startswith("["):
        host, bracket, rest = item[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError
        return f"[{host}]", rest.removeprefix(":")
    host, _, port = item.partition(":")
    return host, port


def _of_pairs(dsn: str) -> dict[str, str]:
    found: dict[str, str] = {}
    end = 0
    while end < len(dsn.rstrip()):
        match = _PAIR.match(dsn, end)
        if match is None:
            raise ValueError
        name, value = match.groups()
        found[name] = _ESCAPED.sub(r"\1", value[1:-1] if value.startswith("'") else value)
        end = match.end()
    if not found:
        raise ValueError
    hosts = found.get("host", "").split(",")
    found["host"] = ",".join(f"[{host}]" if ":" in host and host[0] not in "[/" else host for host in hosts)
    return found
