"""The section that `penstock init` writes for a connection string."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.ingest.mongodb.connector import CONNECTOR
from penstock.ingest.mongodb.server import connection
from penstock.ingest.mongodb.server.address import MongoAddress
from penstock.ingest.source_draft import DraftOptions

EXAMINED, OFFLINE = DraftOptions(), DraftOptions(offline=True)


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[MongoAddress]:
    """Replace the server by one with a collection of 1200 documents and a view, and return the addresses in use."""
    found: list[MongoAddress] = []
    listed = [{"name": "orders"}, {"name": "open_orders", "type": "view"}]
    database = SimpleNamespace(list_collections=lambda session: listed)

    def command(_database: str, given: dict[str, Any]) -> dict[str, Any]:
        assert given == {"count": "orders"}
        return {"n": 1200}

    @contextmanager
    def connected(address: MongoAddress) -> Iterator[SimpleNamespace]:
        found.append(address)
        yield SimpleNamespace(
            client={"shop": database, "empty": SimpleNamespace(list_collections=list)}, command=command, session=None
        )

    monkeypatch.setattr(connection, "connected", connected)
    return found


def test_draft_counts_the_collections_that_can_be_captured(addresses: list[MongoAddress]) -> None:
    draft = CONNECTOR.draft("mongodb://a%40b:p%2Fw@h1:27017,h2/shop?replicaSet=rs0", EXAMINED)
    assert draft.found == "The server has 1 collection in shop, about 1,200 documents."
    (address,) = addresses
    assert (address.hosts, address.user, address.password) == ("h1:27017,h2", "a@b", "p/w")
    assert address.options == "replicaSet=rs0"
    assert (draft.name, draft.environment) == ("shop", ("MONGODB_PASSWORD",))


def test_draft_without_a_login_needs_no_variable(addresses: list[MongoAddress]) -> None:
    assert CONNECTOR.draft("mongodb://h/shop", OFFLINE).environment == ()
    assert addresses == []
    draft = CONNECTOR.draft("mongodb://h/shop", EXAMINED)
    assert draft.found == "The server has 1 collection in shop, about 1,200 documents."
    (address,) = addresses
    assert address.uri == "mongodb://h/?"


@pytest.mark.parametrize("option", ["tlsCertificateKeyFilePassword=x", "authMechanismProperties=AWS_SESSION_TOKEN:x"])
def test_secrets_among_the_options_are_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="contains a secret"):
        CONNECTOR.draft(f"mongodb://h/shop?{option}", OFFLINE)
