"""Options that no change, and no single read or write, may give another value."""

from __future__ import annotations

import contextlib
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.options.catalog import OPTIONS
from penstock.table.options.declaration import Effect, TableOption
from penstock.table.schema.changes import ResetOption, SetOption, apply_changes
from penstock.table.schema.new_schema import create_schema
from penstock.table.values.arrow_types import arrow_schema
from tests.unit.table.tables import content, new_table

BASE = create_schema([("k", "INT"), ("v", "INT")], ["k"], [], {"bucket": "2"}, now=1)


@pytest.mark.parametrize("change", [SetOption("path", "/elsewhere"), ResetOption("path")])
def test_the_folder_of_a_table_cannot_change(change: SetOption | ResetOption) -> None:
    with pytest.raises(ConfigError, match="folder of a table cannot change"):
        apply_changes(BASE, [change], has_snapshots=False, now=9)


def test_resetting_a_name_that_is_no_option_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'snapshot.time-retain' is not a table option") as refused:
        apply_changes(BASE, [ResetOption("snapshot.time-retain")], has_snapshots=True, now=9)
    assert refused.value.hint == "did you mean snapshot.time-retained?"
    assert apply_changes(BASE, [ResetOption("snapshot.time-retained")], has_snapshots=True, now=9).options == {
        "bucket": "2"
    }


def test_resetting_a_name_that_is_no_option_changes_nothing_if_it_need_not_exist() -> None:
    changes = [ResetOption("snapshot.time-retain", if_exists=True), ResetOption("bucket", if_exists=True)]
    assert apply_changes(BASE, changes, has_snapshots=False, now=9).options == {}


def test_one_read_or_write_cannot_interpret_rows_by_another_rule(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    with table.writer() as writer:
        writer.write(pa.table({"id": [1, 1], "name": ["a", "b"]}))
        writer.commit()
    for options in (
        {"merge-engine": "first-row"},
        {"bucket": "4"},
        {"bucket-key": "name"},
        {"primary-key": "name"},
        {"ignore-delete": "true"},
        {"partition.default-name": "none"},
        {"partition.legacy-name": "false"},
        {"path": "/elsewhere"},
        {"deletion-vectors.enabled": "true"},
    ):
        for use in (table.scan, table.writer, table.overwrite, table.compact):
            with pytest.raises(ConfigError, match="cannot be set for one read or write"):
                use(options=options)
    same = {"merge-engine": "deduplicate", "bucket": "2", "primary-key": "id", "ignore-delete": "false"}
    assert table.scan(options=same).to_arrow()["name"].to_pylist() == ["b"]
    table.compact(options={"target-file-size": "1 mb"})
    assert content(table) == [(1, "b", None)]


# Each option has one or two of these texts as values.
TEXTS = ("false", "true", "7", "1 h", "1 mb", "x")
# Options that are to show other rows, or to drop some.
OF_OTHER_ROWS = ("scan.", "incremental-", "record-level.", "partition.expiration")


def changed(catalog: Catalog, name: str, option: TableOption[object]) -> bool:
    """Set the option to a value other than its default; return False if it can have none."""
    for text in (*TEXTS, *option.kind.choices):
        if text != option.default:
            try:
                catalog.alter_table(name, [SetOption(option.key, text)])
            except ConfigError:
                continue
            return True
    return False


# Values whose folders depend on options: a null, a date, and a time without seconds.
ROW = {"id": 0, "p": None, "d": date(2024, 2, 29), "h": datetime(2024, 2, 29, 1)}
COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING"), ("d", "DATE"), ("h", "TIMESTAMP(6)")]


def add_row(table: Table) -> None:
    with table.writer() as writer:
        writer.write(pa.Table.from_pylist([ROW], arrow_schema(table.definition.fields)))
        writer.commit()


@pytest.mark.slow
def test_no_option_that_can_change_makes_rows_unreadable(tmp_path: Path) -> None:
    """Neither those that were written before the change, nor those that were written with it."""
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    tried = 0
    for option in OPTIONS:
        if option.key.startswith(OF_OTHER_ROWS) or "<" in option.key or option.effect is not Effect.ACTS:
            continue
        name = f"d.t{tried}"
        add_row(catalog.create_table(name, COLUMNS, [], ["p", "d", "h"]))
        if not changed(catalog, name, option):
            catalog.drop_table(name)
            continue
        tried += 1
        rows = 1
        assert catalog.table(name).scan().to_arrow().num_rows == rows, option.key
        # Of some values only the writer knows that they cannot be.
        with contextlib.suppress(ConfigError):
            add_row(catalog.table(name))
            rows = 2
        catalog.alter_table(name, [ResetOption(option.key)])
        assert catalog.table(name).scan().to_arrow().num_rows == rows, option.key
        assert not catalog.table(name).remove_orphan_files(older_than=1 << 42, dry_run=True), option.key
    assert tried > 50
