"""The section that `penstock init` writes for an address of a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.errors import ConfigError
from penstock.ingest.postgres.config import PostgresConfig
from penstock.ingest.postgres.connector import CONNECTOR, _protection
from penstock.ingest.postgres.server import catalog, connection
from penstock.ingest.postgres.server.address import PgAddress
from penstock.ingest.postgres.server.catalog import PgTableFacts
from penstock.ingest.source_draft import DraftOptions


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[PgTableFacts]:
    """Replace the server by one with these tables."""
    found: list[PgTableFacts] = []

    @contextmanager
    def connected(address: PgAddress) -> Iterator[None]:
        assert (address.where, address.user, address.password) == ("h:5432/shop", "a@b", "p/w")
        yield None

    monkeypatch.setattr(connection, "connected", connected)
    monkeypatch.setattr(catalog, "list_tables", lambda _connection: found)
    return found


def test_draft_counts_tables_of_the_schema_public(tables: list[PgTableFacts]) -> None:
    tables += [
        PgTableFacts(1, "public", "orders", True, "d", 1200),
        PgTableFacts(2, "public", "log", False, "d", 5),
        PgTableFacts(3, "public", "scratch", True, "d", 7, persistence="u"),
        PgTableFacts(4, "sales", "other", True, "d", 9),
    ]
    draft = CONNECTOR.draft("postgres://a%40b:p%2Fw@h/shop", DraftOptions())
    assert "2 tables in the schema public of shop, about 1,205 rows, 1 of them without a primary key" in draft.found
    assert (draft.name, draft.environment) == ("shop", ("POSTGRES_PASSWORD",))


def test_database_without_tables_in_public_is_refused_with_its_schemas(tables: list[PgTableFacts]) -> None:
    tables.append(PgTableFacts(4, "sales", "other", True, "d", 9))
    with pytest.raises(ConfigError, match="no tables in the schema public") as caught:
        CONNECTOR.draft("postgres://a%40b:p%2Fw@h/shop", DraftOptions())
    assert caught.value.facts["schemas"] == "sales"


def test_slot_has_a_name_that_the_server_accepts() -> None:
    long = "Shop-EU" + "x" * 80
    draft = CONNECTOR.draft(f"postgresql://u@h/{long}", DraftOptions(offline=True))
    assert f"slot.name: {('penstock_shop_eu' + 'x' * 80)[:63]} " in draft.section


@pytest.mark.parametrize(
    ("mode", "host", "kerberos", "level"),
    [
        ("prefer", "db", "prefer", "warning"),
        ("prefer", "db", "require", "ok"),
        ("verify-full", "db", "", "ok"),
        ("disable", "localhost", "", "ok"),
    ],
)
def test_a_server_that_nothing_verifies_is_a_warning(
    mode: str, host: str, kerberos: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGGSSENCMODE", kerberos)
    given = {"hostname": host, "username": "u", "database-name": "d", "slot.name": "s", "ssl": {"mode": mode}}
    (finding,) = _protection(PostgresConfig.model_validate({"type": "postgres", **given}))
    assert finding.level == level
