"""The format of the log: asked for once, and again after a change of columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.ingest.postgres import log_format
from penstock.ingest.postgres.log_format import LogFormat
from penstock.ingest.postgres.server.catalog import PgTableFacts

ORDERS = PgTableFacts(7, "public", "orders", True, "d", 100, columns=2, marks=5)
USERS = replace(ORDERS, oid=8, table="users")


@dataclass
class Server:
    """A server with tables. Some have a column that is read as text. `asked` are the tables asked for."""

    texts: set[int] = field(default_factory=set)
    asked: list[list[int]] = field(default_factory=list)

    def relations(self, _: object, oids: Collection[int]) -> dict[int, Any]:
        self.asked.append(list(oids))
        return {oid: SimpleNamespace(is_binary=oid not in self.texts) for oid in oids if oid != USERS.oid}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    @contextmanager
    def connected(_: object) -> Iterator[Server]:
        yield found

    monkeypatch.setattr(log_format, "kept_connected", connected)
    monkeypatch.setattr(log_format, "relations", found.relations)
    monkeypatch.setattr(log_format, "captured", lambda *_: [ORDERS])
    return found


@pytest.fixture
def format_(server: Server) -> LogFormat:
    settings: Any = SimpleNamespace(server=None)
    return LogFormat(settings)


def test_tables_that_stay_as_they_are_are_described_once(format_: LogFormat, server: Server) -> None:
    for rows in range(3):
        format_.planned([replace(ORDERS, rows=rows)])
        assert format_.is_binary()
    assert server.asked == [[7]]


@pytest.mark.parametrize("change", [{"columns": 3}, {"marks": 6}, {"oid": 9}])
def test_a_changed_table_is_described_again(format_: LogFormat, server: Server, change: dict[str, int]) -> None:
    format_.planned([ORDERS])
    assert format_.is_binary()
    changed = replace(ORDERS, **change)
    server.texts.add(changed.oid)
    format_.planned([changed])
    assert not format_.is_binary()


def test_a_new_table_with_another_column_decides_for_all(format_: LogFormat, server: Server) -> None:
    format_.planned([ORDERS])
    assert format_.is_binary()
    server.texts.add(9)
    format_.planned([ORDERS, replace(ORDERS, oid=9)])
    assert not format_.is_binary()


def test_without_a_plan_the_tables_of_now_are_described_each_time(format_: LogFormat, server: Server) -> None:
    assert format_.is_binary()
    server.texts.add(7)
    assert not format_.is_binary()


def test_a_dropped_table_decides_nothing(format_: LogFormat) -> None:
    format_.planned([ORDERS, USERS])
    assert format_.is_binary()
