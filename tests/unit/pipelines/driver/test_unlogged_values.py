"""Columns added at the source whose older rows have values: which tables are read again."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.formats.change import SourceField, SourceSchema
from penstock.ingest.source import Barrier
from penstock.pipelines.driver.unlogged_values import fill_added_columns, fill_logged_columns
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.tasks.read import BatchReader
from tests.unit.table.tables import new_table

SEEN = SeenSchema("ods.t", SourceSchema("mysql", "shop", "t", (SourceField("ID"), SourceField("Added"))), (0, 0))


@dataclass
class Server:
    """A database whose column `Added` has a default."""

    requested: list[tuple[str, str]] = field(default_factory=list)

    def filled_columns(self, table: tuple[str, str], columns: set[str]) -> list[str]:
        assert table == ("shop", "t")
        return [name for name in ("ID", "Added") if name in columns]

    def read_again(self, table: tuple[str, str]) -> None:
        self.requested.append(table)


def filled(tmp_path: Path, columns: Any, source: object, keys: tuple[str, ...] = ("id",), **options: str) -> None:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    bucket = {"bucket": "1"} if keys else {"bucket": "-1"}
    table = new_table(tmp_path, columns, keys=keys, options={**bucket, **named})
    reader = SimpleNamespace(source=source, mapping=SimpleNamespace(column=str.lower))
    fill_added_columns(cast("BatchReader", reader), table.store.schema(), [SEEN, SEEN])


def test_a_table_is_read_again_for_a_new_column_with_values(tmp_path: Path) -> None:
    server = Server()
    filled(tmp_path, [("id", "INT NOT NULL")], server, merge_engine="partial-update")
    assert server.requested == [("shop", "t")]


def test_a_table_is_read_again_for_a_column_that_its_source_has_found(tmp_path: Path) -> None:
    server, table = Server(), new_table(tmp_path, [("id", "INT NOT NULL")], keys=("id",), options={"bucket": "1"})
    mapping = SimpleNamespace(target=lambda database, name: f"ods.{name}")
    reader = SimpleNamespace(
        source=server, mapping=mapping, warehouse=SimpleNamespace(store={"ods.t": table.store}.__getitem__)
    )
    barriers = [
        Barrier("truncate", "shop", "t"),
        Barrier("added-columns", "shop", "t", (("a", "a"),)),
        Barrier("added-columns", "shop", "unknown", (("a", "a"),)),
    ]
    fill_logged_columns(cast("BatchReader", reader), barriers, {"ods.t"})
    assert server.requested == [("shop", "t")]


def test_a_known_column_needs_no_reading(tmp_path: Path) -> None:
    server = Server()
    filled(tmp_path, [("id", "INT NOT NULL"), ("added", "INT")], server)
    assert server.requested == []


def test_sources_of_messages_are_left_alone(tmp_path: Path) -> None:
    filled(tmp_path, [("id", "INT NOT NULL")], object())


@pytest.mark.parametrize(
    ("keys", "options", "reason"),
    [
        ((), {}, "the table has no primary key"),
        (("id",), {"merge_engine": "aggregation"}, "merge-engine=aggregation"),
        (("id",), {"changelog_producer": "input"}, "changelog-producer=input"),
    ],
)
def test_rows_that_would_count_twice_are_not_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, keys: tuple[str, ...], options: dict[str, str], reason: str
) -> None:
    server = Server()
    with caplog.at_level(logging.WARNING):
        filled(tmp_path, [("id", "INT NOT NULL")], server, keys, **options)
    assert server.requested == []
    assert f"source=shop.t columns=Added reason={reason}" in caplog.text


@pytest.mark.parametrize(("column", "reads"), [("a", True), ("ID", False)])
def test_a_table_is_read_again_for_values_that_a_statement_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: str, reads: bool
) -> None:
    server, columns = Server(), [("id", "INT NOT NULL"), ("a", "INT")]
    table = new_table(tmp_path, columns, keys=("id",), options={"bucket": "1"})
    mapping = SimpleNamespace(target=lambda database, name: f"ods.{name}", column=str.lower)
    reader = SimpleNamespace(source=server, mapping=mapping, warehouse=SimpleNamespace(store=lambda _: table.store))
    with caplog.at_level(logging.WARNING):
        barriers = [Barrier("changed-values", "shop", "t", ((column, column),))]
        fill_logged_columns(cast("BatchReader", reader), barriers, {"ods.t"})
    assert server.requested == ([("shop", "t")] if reads else [])
    # Rows with other keys would come beside those that are there.
    assert ("event=changed_values_not_read table=ods.t source=shop.t" in caplog.text) is not reads
