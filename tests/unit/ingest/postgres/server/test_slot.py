"""Slots as a server reports them: the log is read only from a slot that still has it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.errors import PositionLost
from penstock.ingest.postgres.errors import SlotAhead, SlotLost, SlotMissing
from penstock.ingest.postgres.server.connection import PgConnection
from penstock.ingest.postgres.server.slot import require_slot, slot_to_read


class Server:
    """A server with one slot; it notes the statements that change slots."""

    def __init__(self, status: str = "reserved", confirmed: str = "0/64", plugin: str = "pgoutput") -> None:
        self.slot: tuple[str, ...] | None = ("s", plugin, "d", "f", status, "0/32", confirmed)
        self.changes: list[str] = []

    def rows(self, statement: str) -> list[tuple[str, ...]]:
        if "pg_drop_replication_slot" in statement:
            self.changes.append("drop")
            self.slot = None
        elif "pg_create_logical_replication_slot" in statement:
            self.changes.append("create")
            self.slot = ("s", "pgoutput", "d", "f", "reserved", "0/C8", "0/C8")
        elif "FROM pg_replication_slots" in statement:
            return [] if self.slot is None else [self.slot]
        return []

    def value(self, statement: str) -> str:
        return "1GB"

    def literal(self, text: str) -> str:
        return f"'{text}'"

    @property
    def connection(self) -> PgConnection:
        return cast("Any", self)


def gone() -> Server:
    server = Server()
    server.slot = None
    return server


def test_a_slot_that_has_the_log_from_the_position_on_is_read() -> None:
    for start in (0x64, 0x70):
        assert require_slot(Server().connection, "s", start).confirmed == 0x64


@pytest.mark.parametrize(
    ("server", "error", "message"),
    [
        (gone(), SlotMissing, "does not exist any more"),
        (Server(plugin="wal2json"), SlotMissing, "something else"),
        (Server(status="lost"), SlotLost, "has removed the WAL"),
        (Server(confirmed="0/65"), SlotAhead, "read by something else"),
    ],
)
def test_a_slot_without_the_log_is_an_error(server: Server, error: type[PositionLost], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        require_slot(server.connection, "s", 0x64)
    assert caught.value.facts["slot"] == "s"
    assert server.changes == []


def test_a_lost_slot_is_replaced_only_if_the_tables_are_read_again() -> None:
    server = Server(status="lost")
    with pytest.raises(SlotLost):
        slot_to_read(server.connection, "s", failover=False, replaces_lost=False)
    assert server.changes == []
    assert slot_to_read(server.connection, "s", failover=False, replaces_lost=True).confirmed == 0xC8
    assert server.changes == ["drop", "create"]


def test_a_lost_slot_of_something_else_stays() -> None:
    server = Server(status="lost", plugin="wal2json")
    with pytest.raises(SlotMissing, match="something else"):
        slot_to_read(server.connection, "s", failover=False, replaces_lost=True)
    assert server.changes == []
