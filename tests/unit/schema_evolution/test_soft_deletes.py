"""Deletes as marks on rows."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.schema_evolution.soft_deletes import check_marks, marked, with_marks
from penstock.table.schema.new_schema import create_schema


def changes(kinds: list[int], times: list[int], name: str = "id") -> ChangeBatch:
    count = len(kinds)
    return ChangeBatch(
        pa.RecordBatch.from_pydict({name: list(range(count))}),
        np.array(kinds, np.int8),
        np.arange(count),
        np.zeros(count, np.int32),
        SourceSchema("mysql", "shop", "t", (SourceField(name, "int"),), ("id",)),
        np.array(times, np.int64),
    )


def test_a_delete_becomes_an_update_with_the_time_of_the_source() -> None:
    found = with_marks(
        changes([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE, DELETE], [1000, 1000, 1000, 2000, -1]), 7000
    )
    assert found.kinds.tolist() == [INSERT, UPDATE_BEFORE, UPDATE_AFTER, UPDATE_AFTER, UPDATE_AFTER]
    assert found.rows.column("_deleted").to_pylist() == [False, False, False, True, True]
    at = found.rows.column("_deleted_at").to_pylist()
    assert at[:3] == [None, None, None]
    assert at[3:] == [dt.datetime(1970, 1, 1, 0, 0, second, tzinfo=dt.UTC) for second in (2, 7)]
    assert [field.name for field in found.schema.fields] == found.rows.schema.names


def test_a_column_of_the_source_with_the_name_of_a_mark_is_refused() -> None:
    with pytest.raises(ConfigError, match="_deleted"):
        with_marks(changes([INSERT], [1], "_DELETED"), 0)


def test_rows_of_a_table_are_marked_in_its_types() -> None:
    schema = pa.schema([("id", pa.int32()), ("_deleted", pa.bool_()), ("_deleted_at", pa.timestamp("ms", "UTC"))])
    rows = marked(pa.RecordBatch.from_pylist([{"id": 1, "_deleted": False}, {"id": 2}], schema), 3000)
    assert rows.schema == schema
    at = dt.datetime(1970, 1, 1, 0, 0, 3, tzinfo=dt.UTC)
    assert rows.to_pylist() == [{"id": number, "_deleted": True, "_deleted_at": at} for number in (1, 2)]


@pytest.mark.parametrize(
    ("keys", "options", "words"),
    [
        ((), {}, "no primary key"),
        (("id",), {"merge-engine": "first-row"}, "merge-engine=first-row"),
        (("id",), {"merge-engine": "aggregation"}, "merge-engine=aggregation"),
        (("id",), {"ignore-delete": "true"}, "ignore-delete"),
        (("id",), {"rowkind.field": "kind"}, "rowkind.field=kind"),
    ],
)
def test_tables_that_cannot_show_marks_are_refused(keys: tuple[str, ...], options: dict[str, str], words: str) -> None:
    schema = create_schema([("id", "INT"), ("kind", "STRING")], keys, (), options, now=0)
    with pytest.raises(ConfigError, match=words) as refused:
        check_marks("ods.t", schema)
    assert "deletes: hard" in str(refused.value)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_tables_that_can(engine: str) -> None:
    check_marks("ods.t", create_schema([("id", "INT")], ["id"], (), {"merge-engine": engine}, now=0))
