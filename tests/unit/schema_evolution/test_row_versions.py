"""The columns of history tables."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER
from penstock.schema_evolution.row_versions import as_history, check_history, ended, stream_of, with_versions
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema


def changes(kinds: list[int], times: list[int], name: str = "id") -> ChangeBatch:
    count = len(kinds)
    return ChangeBatch(
        pa.RecordBatch.from_pydict({name: list(range(count))}),
        np.array(kinds, np.int8),
        np.arange(count),
        np.ones(count, np.int32),
        SourceSchema("mysql", "shop", "t", (SourceField(name, "int"),), ("id",)),
        np.array(times, np.int64),
    )


def made(keys: tuple[str, ...] = ("id",), partitions: tuple[str, ...] = (), **options: str) -> TableSchema:
    names = ("valid_from", "valid_to", "is_current", "_operation", "_position", "_end_position")
    columns = [("id", "INT"), ("dt", "STRING"), *((name, "STRING") for name in names)]
    texts = {name.replace("_", "-"): value for name, value in options.items()}
    return create_schema(columns, keys, partitions, texts, now=0)


def test_changes_get_the_columns_of_current_versions() -> None:
    found = with_versions(changes([INSERT, UPDATE_AFTER, DELETE], [1000, 2000, -1]), 7000, "log.1")
    rows = found.rows.to_pylist()
    assert [row["_operation"] for row in rows] == ["+I", "+U", "-D"]
    assert [row["valid_from"] for row in rows] == [
        dt.datetime(1970, 1, 1, 0, 0, second, tzinfo=dt.UTC) for second in (1, 2, 7)
    ]
    assert {(row["valid_to"], row["is_current"], row["_end_position"]) for row in rows} == {(None, True, "")}
    assert rows[2]["_position"] == "log.1:00000000000000000002.000001"
    assert [field.name for field in found.schema.fields] == found.rows.schema.names


def test_a_column_of_the_source_with_the_name_of_such_a_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="valid_from"):
        with_versions(changes([INSERT], [1], "VALID_FROM"), 0, "log.1")


def test_only_numbers_of_the_source_continue_in_the_next_range() -> None:
    assert stream_of("orders/3", 1, 99, numbered=True) == "orders/3"
    assert stream_of("log.1:4500", 1, 99, numbered=False) == "log.1"
    assert stream_of("shop.t/3", 1, 99, numbered=False) == "shop.t/3@99.1"


def test_the_key_of_a_history_table_is_that_of_the_source_and_the_end() -> None:
    found = as_history("ods.t", made(("dt", "id"), ("dt",), bucket="2"))
    assert found.primary_keys == ("dt", "id", "_end_position")
    assert found.options["bucket-key"] == "id"
    assert not found.field("_end_position").type.nullable
    assert "bucket-key" not in as_history("ods.t", made()).options


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (made(()), "no primary key"),
        (made(("id",), ("dt",)), "partition column"),
        (made(("id", "_end_position"), bucket="2"), "bucket-key"),
        (made(("id", "_end_position"), bucket="2", bucket_key="id,_end_position"), "bucket-key"),
    ],
)
def test_tables_in_which_versions_of_a_row_have_several_places_are_refused(schema: TableSchema, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_history("ods.t", schema if "_end_position" in schema.primary_keys else as_history("ods.t", schema))


def test_versions_of_an_emptied_table_do_not_end_before_they_began() -> None:
    schema = pa.schema([("valid_from", pa.timestamp("ms", "UTC")), ("valid_to", pa.timestamp("ms", "UTC"))])
    rows = pa.RecordBatch.from_pylist([{"valid_from": second} for second in (1000, 9000)], schema)
    rows = rows.append_column("is_current", pa.array([True, True]))
    found = ended(rows, 5000).to_pydict()
    assert [time.second for time in found["valid_to"]] == [5, 9]
    assert found["is_current"] == [False, False]
