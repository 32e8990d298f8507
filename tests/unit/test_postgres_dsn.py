"""A DSN is read as libpq reads it, or refused without a word of it."""

from __future__ import annotations

import pytest

from agentbox.adapters._postgres_dsn import Address
from agentbox_contracts.errors import AdapterUnavailable


@pytest.mark.parametrize(
    ("dsn", "members"),
    [
        (
            "postgresql://u:p%40%2f@h:1/db?sslmode=require",
            {"user": "u", "password": "p@/", "host": "h", "port": "1", "dbname": "db", "sslmode": "require"},
        ),
        ("postgres://h", {"host": "h"}),
        ("postgresql://u:p@s@h/db", {"user": "u", "password": "p@s", "host": "h", "dbname": "db"}),
        ("postgresql:///db?host=/run/pg&port=7", {"host": "/run/pg", "port": "7", "dbname": "db"}),
        ("postgresql://%2Frun%2Fpg/db", {"host": "/run/pg", "dbname": "db"}),
        ("postgresql://[::1]:7/db", {"host": "[::1]", "port": "7", "dbname": "db"}),
        ("postgresql://a,b:7/db", {"host": "a,b", "port": "5432,7", "dbname": "db"}),
        ("postgresql://h/?user=u&database=db", {"host": "h", "user": "u", "dbname": "db"}),
        ("host=h port=7 dbname=db user=u", {"host": "h", "port": "7", "dbname": "db", "user": "u"}),
        (r"host = '::1' password = 'it\'s \\ me' ", {"host": "[::1]", "password": r"it's \ me"}),
        (r"password=a\ b connect_timeout=3 keepalives_idle=9 dbname=''", {"password": "a b"}),
    ],
)
def test_it_is_taken_apart(dsn: str, members: dict[str, str]) -> None:
    assert Address.of(dsn).members == members


@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "hunter2",
        "mysql://u:hunter2@h/db",
        "postgresql://u:hunt/er2@h/db",
        "postgresql://u:hunt#er2@h/db",
        "postgresql://u:hunt?er2@h/db",
        "postgresql://h:hunter2/db",
        "postgresql://[hunter2/db",
        "postgresql://[::1]hunter2/db",
        "host=h password=hunter2 'x",
        "host=h port=hunter2",
        "password='hunter2",
    ],
)
def test_what_is_doubtful_is_refused_and_not_repeated(dsn: str) -> None:
    with pytest.raises(AdapterUnavailable) as caught:
        Address.of(dsn)
    assert "hunt" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_it_shows_where_and_not_who() -> None:
    address = Address.of("postgresql://u:hunter2@h:7/db?sslmode=require")
    assert address.where == "postgresql://h:7/db"
    assert "hunter2" not in repr(address)


def test_settings_go_before_the_dsn() -> None:
    address = Address.of("postgresql://h/db?sslmode=disable").having(sslmode="require", sslcert=None)
    assert address.uri == "postgresql://?host=h&dbname=db&sslmode=require"
