"""Idle connections to servers of names, with connections that only know whether they are closed."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from penstock.errors import StoreError
from penstock.table.catalog import jdbc_database
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.jdbc_database import DuplicateRow, JdbcDatabase
from penstock.table.catalog.kept_connections import KeptConnections


@dataclass(eq=False)
class Connection:
    closed: bool = False

    def close(self) -> None:
        self.closed = True


def take(kept: KeptConnections, place: str = "a", answers: bool = True) -> object:
    return kept.take(place, lambda _: answers)


def test_a_connection_is_kept_for_one_user_at_a_time() -> None:
    kept, connection, other = KeptConnections(), Connection(), Connection()
    kept.keep("a", connection)
    kept.keep("a", other)
    assert other.closed
    assert take(kept, "b") is None
    assert take(kept) is connection
    assert take(kept) is None
    assert not connection.closed


def test_a_connection_without_an_answer_is_closed() -> None:
    kept, connection = KeptConnections(), Connection()
    kept.keep("a", connection)
    assert take(kept, answers=False) is None
    assert connection.closed


def test_a_connection_that_was_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, connection, now = KeptConnections(), Connection(), time.monotonic()
    kept.keep("a", connection)
    monkeypatch.setattr(time, "monotonic", lambda: now + 60)
    assert kept.take("a", lambda _: pytest.fail("it was asked")) is None
    assert connection.closed


def test_another_process_has_connections_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, connection, own, real = KeptConnections(), Connection(), Connection(), os.getpid()
    kept.keep("a", connection)
    monkeypatch.setattr(os, "getpid", lambda: real + 1)
    assert take(kept) is None
    kept.keep("a", own)
    kept.close()
    assert (connection.closed, own.closed) == (False, True)
    monkeypatch.setattr(os, "getpid", lambda: real)
    assert take(kept) is connection


@dataclass
class Server:
    """A database in a file that is used like one of a server, and counts the connections to it."""

    place: JdbcDatabase
    opened: list[object] = field(default_factory=list)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server(JdbcDatabase.of(f"jdbc:sqlite:{tmp_path}/names.db", {}))
    driver = jdbc_database._DRIVERS["sqlite"]
    monkeypatch.setattr(jdbc_database, "KEPT", KeptConnections())

    def connect(*given: object) -> object:
        made.opened.append(driver.connect(*given))  # type: ignore[arg-type]
        return made.opened[-1]

    monkeypatch.setitem(jdbc_database._DRIVERS, "sqlite", replace(driver, connect=connect, probe=lambda _: "SELECT 1"))
    return made


def test_statements_of_a_catalog_use_one_connection(server: Server, tmp_path: Path) -> None:
    catalog = Catalog(f"{tmp_path}/lake", {"metastore": "jdbc", "uri": str(server.place), "local.sync": "false"})
    catalog.create_database("d")
    catalog.create_table("d.t", [("id", "INT")])
    for _ in range(3):
        assert catalog.tables("d") == ["t"]
        assert catalog.table("d.t").name == "d.t"
    assert len(server.opened) == 1


def test_a_session_that_failed_is_not_used_again(server: Server) -> None:
    with server.place.session() as session:
        session.create_table("names", "name VARCHAR(20) PRIMARY KEY")
    with pytest.raises(StoreError), server.place.session() as session:
        session.rows("SELECT * FROM nowhere")
    for _ in range(2):
        with server.place.session() as session:
            session.execute("DELETE FROM names")
            session.execute("INSERT INTO names VALUES (?)", "a")
        with pytest.raises(DuplicateRow), server.place.session() as session:
            session.execute("INSERT INTO names VALUES (?)", "a")
    assert len(server.opened) == 2


def test_a_connection_is_used_by_those_with_its_secrets(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    database = replace(server.place, properties=(("password", "${PASSWORD_OF_THE_TEST}"),))
    for password in ("a", "a", "b"):
        monkeypatch.setenv("PASSWORD_OF_THE_TEST", password)
        with database.session() as session:
            assert session.rows("SELECT 1") == [(1,)]
    assert len(server.opened) == 2


def test_a_connection_that_the_server_has_ended_is_replaced(server: Server) -> None:
    with server.place.session() as session:
        session.create_table("names", "name VARCHAR(20) PRIMARY KEY")
        session.connection.close()
    with server.place.session() as session:
        assert session.rows("SELECT * FROM names") == []
    assert len(server.opened) == 2
