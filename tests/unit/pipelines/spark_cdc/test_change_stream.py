"""The stream of changes behind format("...-cdc"), read here without Spark."""

from __future__ import annotations

import datetime as dt
import json
import logging
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from penstock.errors import ConfigError, DecodeError, SchemaConflict, SourceError
from penstock.ingest.source import NO_LIMIT, Offsets
from penstock.pipelines.spark_cdc.change_stream import TableChangeStream
from penstock.pipelines.spark_cdc.declared_columns import declared_schema
from penstock.pipelines.spark_cdc.query_columns import QueryColumns
from penstock.pipelines.spark_cdc.read_options import CdcRead
from penstock.pipelines.spark_cdc.stream_reader import PlainErrors

Row = dict[str, Any]
SEQUENCE = StructType(
    [
        StructField("batch", LongType()),
        StructField("range", IntegerType()),
        StructField("position", LongType()),
        StructField("sub", IntegerType()),
    ]
)


def canal(kind: str, row: Row, old: Row | None = None, table: str = "orders", **types: str) -> str:
    kinds = {"id": "int", "status": "varchar(9)", "price": "decimal(9,2)"} | types
    texts = {name: None if value is None else str(value) for name, value in row.items()}
    message = {
        "type": kind,
        "database": "shop",
        "table": table,
        "pkNames": ["id"],
        "es": 1000,
        "ts": 1000,
        "mysqlType": {name: kinds[name] for name in row},
        "data": [texts],
        "old": None if old is None else [old],
    }
    return json.dumps(message)


class Folder:
    """A folder of messages, and streams of them."""

    def __init__(self, path: Path) -> None:
        self.path, self.state, self.number = path / "in", path / "state", 0
        self.path.mkdir()

    def add(self, *messages: str) -> None:
        self.number += 1
        (self.path / f"{self.number}.json").write_text("\n".join(messages) + "\n", encoding="utf-8")

    def read(self, **options: str) -> CdcRead:
        given = {"path": str(self.path), "value.format": "canal-json", "state": str(self.state), "order": "name"}
        return CdcRead.of("files", given | {name.replace("_", "-"): value for name, value in options.items()})

    def stream(self, schema: StructType | None = None, **options: str) -> TableChangeStream:
        read = self.read(**options)
        return TableChangeStream(QueryColumns.of(read, schema or declared_schema(read)), lambda: 5.0)


def taken(stream: TableChangeStream, start: Offsets) -> tuple[Offsets, list[Row]]:
    """The newest offsets, and the rows up to there in the order of the source."""
    end = stream.latest_offsets(start, NO_LIMIT, None)
    return end, rows(stream, start, end)


def rows(stream: TableChangeStream, start: Offsets, end: Offsets) -> list[Row]:
    found = [row for task in stream.inputs(start, end) for part in stream.read(task) for row in part.to_pylist()]
    return sorted(found, key=lambda row: tuple(row["_cdc_sequence"].values()))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.add(
        canal("INSERT", {"id": 1, "status": "new", "price": "1.50"}),
        canal("UPDATE", {"id": 1, "status": "paid", "price": "1.50"}, {"status": "new"}),
        canal("DELETE", {"id": 1, "status": "paid", "price": "1.50"}),
    )
    return made


def test_rows_have_kinds_types_and_places(folder: Folder) -> None:
    stream = folder.stream()
    end, found = taken(stream, stream.initial_offsets())
    assert [(row["rowkind"], row["id"], row["status"], row["price"]) for row in found] == [
        ("+I", 1, "new", Decimal("1.50")),
        ("-U", 1, "new", Decimal("1.50")),
        ("+U", 1, "paid", Decimal("1.50")),
        ("-D", 1, "paid", Decimal("1.50")),
    ]
    last = found[-1]
    assert (last["_cdc_database"], last["_cdc_table"]) == ("shop", "orders")
    assert last["_cdc_time"] == dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert last["_cdc_place"].endswith("1.json")
    assert last["_cdc_sequence"]["batch"] == end["now"] == 5000


def test_a_repeated_batch_has_the_same_rows_and_a_later_one_sorts_behind_it(folder: Folder) -> None:
    stream = folder.stream()
    start = stream.initial_offsets()
    middle, first = taken(stream, start)
    folder.add(canal("INSERT", {"id": 2, "status": "new", "price": None}))
    end, second = taken(stream, middle)
    # As after a restart: another process, whose clock says the same.
    again = folder.stream()
    assert rows(again, start, middle) == first
    assert rows(again, middle, end) == second
    assert tuple(second[0]["_cdc_sequence"].values()) > tuple(first[-1]["_cdc_sequence"].values())
    assert taken(stream, end) == (end, []), "nothing new is no batch"


def test_it_pickles_as_spark_sends_it_to_tasks(folder: Folder) -> None:
    stream = folder.stream()
    start = stream.initial_offsets()
    end = stream.latest_offsets(start, NO_LIMIT, None)
    sent = pickle.loads(pickle.dumps(TableChangeStream(stream.columns)))
    assert len(rows(sent, start, end)) == 4


def test_one_table_of_several(folder: Folder) -> None:
    folder.add(canal("INSERT", {"id": 7, "name": "x"}, table="customers", name="text"))
    stream = folder.stream(table="shop.customers")
    _, found = taken(stream, stream.initial_offsets())
    assert [row["name"] for row in found] == ["x"]
    both = folder.stream(state=f"{folder.state}-2")
    assert len(taken(both, both.initial_offsets())[1]) == 5


def test_a_given_schema_chooses_columns_and_types(folder: Folder) -> None:
    schema = StructType([StructField("id", LongType()), StructField("_cdc_sequence", SEQUENCE)])
    stream = folder.stream(schema)
    assert [row["id"] for row in taken(stream, stream.initial_offsets())[1]] == [1, 1, 1, 1]
    refused = folder.stream(schema, new_columns="fail", state=f"{folder.state}-2")
    with pytest.raises(SchemaConflict, match="columns that the query does not have") as conflict:
        taken(refused, refused.initial_offsets())
    assert "status" in str(conflict.value)
    assert "new-columns=ignore" in str(conflict.value)


def test_a_given_type_of_another_kind_is_refused_in_words_of_the_query(folder: Folder) -> None:
    schema = StructType([StructField("status", IntegerType()), StructField("_cdc_sequence", SEQUENCE)])
    stream = folder.stream(schema)
    with pytest.raises(SchemaConflict, match="column 'status' of the query has another kind of type") as conflict:
        taken(stream, stream.initial_offsets())
    text = str(conflict.value)
    assert "in the query: INT" in text
    assert "in the source: VARCHAR(9)" in text
    assert "--" not in text


def test_drift_stops_the_query_and_a_new_one_has_the_columns(folder: Folder) -> None:
    stream = folder.stream()
    middle, _ = taken(stream, stream.initial_offsets())
    folder.add(canal("INSERT", {"id": 2, "status": "new", "price": None, "more": "m"}, more="text"))
    with pytest.raises(SchemaConflict, match="restart the query"):
        taken(stream, middle)
    _, found = taken(folder.stream(), middle)
    assert found[0]["more"] == "m"


def test_a_wider_type_stops_the_query(folder: Folder) -> None:
    stream = folder.stream()
    middle, _ = taken(stream, stream.initial_offsets())
    folder.add(canal("INSERT", {"id": 3}, id="bigint"))
    with pytest.raises(SchemaConflict, match="other types") as conflict:
        taken(stream, middle)
    assert "id BIGINT" in str(conflict.value)


def test_a_bad_record_stops_the_query_or_is_skipped_and_logged(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.add("{", canal("INSERT", {"id": 2, "status": "new", "price": "dear"}))
    stream = folder.stream()
    with pytest.raises(DecodeError, match="bad-records=skip") as refused:
        taken(stream, stream.initial_offsets())
    assert "2.json" in str(refused.value)
    skipping = folder.stream(bad_records="skip", state=f"{folder.state}-2")
    with caplog.at_level(logging.WARNING):
        _, found = taken(skipping, skipping.initial_offsets())
    assert len(found) == 4
    assert "event=bad_records_skipped" in caplog.text
    assert "count=2" in caplog.text


def test_names_that_clash_are_refused_and_can_be_chosen(folder: Folder) -> None:
    folder.add(canal("INSERT", {"id": 1, "rowkind": "x", "_cdc_time": "y"}, rowkind="text", _cdc_time="text"))
    with pytest.raises(ConfigError, match="rowkind-column"):
        folder.stream()
    with pytest.raises(ConfigError, match="metadata-prefix"):
        folder.stream(rowkind_column="kind")
    read = folder.read(rowkind_column="kind", metadata_prefix="of_")
    names = declared_schema(read).names
    assert {"kind", "rowkind", "_cdc_time", "of_time", "of_sequence"} <= set(names)


def test_no_messages_are_no_columns(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"\.schema\(\.\.\.\)"):
        Folder(tmp_path).stream()


def test_hints_with_flags_of_pipelines_show_what_a_query_has() -> None:
    with pytest.raises(SourceError) as refused, PlainErrors().carrying():
        raise SourceError("the slot is gone", hint="start with --resnapshot")
    assert "start it with a new checkpoint" in str(refused.value)
    with pytest.raises(SourceError) as other, PlainErrors().carrying():
        raise SourceError("the server is away", hint="start it")
    assert "checkpoint" not in str(other.value)


def test_a_table_without_messages_shows_the_tables_that_have_some_and_what_is_bad(folder: Folder) -> None:
    with pytest.raises(SourceError, match="no message shows the columns") as refused:
        folder.stream(table="shop.oders")
    assert "tables of messages: shop.orders" in str(refused.value)
    assert "did you mean shop.orders?" in str(refused.value)
    with pytest.raises(SourceError, match="no message shows the columns") as wrong:
        folder.stream(**{"value.format": "maxwell-json"})
    assert "first reason: " in str(wrong.value)


def test_a_state_folder_belongs_to_one_checkpoint(folder: Folder) -> None:
    start = folder.stream().initial_offsets()
    # As after a crash before the first batch: nothing says yet that the folder is used.
    start = folder.stream().initial_offsets()
    end, found = taken(folder.stream(), start)
    assert len(found) == 4
    other = folder.stream()
    with pytest.raises(ConfigError, match="belongs to a query with another checkpoint") as refused:
        taken(other, other.initial_offsets())
    assert "a new, empty  state" in str(refused.value)
    folder.add(canal("INSERT", {"id": 2, "status": "new", "price": None}))
    further, found = taken(folder.stream(), end)
    assert (len(found), further["query"]) == (1, start["query"])


def test_a_first_batch_that_failed_is_repeated(folder: Folder) -> None:
    """Spark plans it from the initial offsets, which it asks for again, to the end that its checkpoint has."""
    end, found = taken(folder.stream(), folder.stream().initial_offsets())
    again = folder.stream()
    assert rows(again, again.initial_offsets(), end) == found
    folder.add(canal("INSERT", {"id": 2, "status": "new", "price": None}))
    assert len(taken(again, end)[1]) == 1


def test_the_initial_offsets_are_the_same_whenever_spark_asks_for_them(folder: Folder) -> None:
    stream = folder.stream()
    stream.available()
    start = stream.initial_offsets()
    source = stream.source
    assert stream.initial_offsets() == start
    assert stream.source is source, "what was prepared for a new query is not prepared again"


def test_of_two_queries_that_begin_at_once_with_one_state_folder_one_is_refused(folder: Folder) -> None:
    first, other = folder.stream(), folder.stream()
    starts = first.initial_offsets(), other.initial_offsets()
    assert len(taken(first, starts[0])[1]) == 4
    with pytest.raises(ConfigError, match="another query with another checkpoint uses the folder"):
        taken(other, starts[1])


def test_a_checkpoint_of_an_older_version_keeps_its_folder(folder: Folder) -> None:
    start = {name: value for name, value in folder.stream().initial_offsets().items() if name != "query"}
    end, found = taken(folder.stream(), start)
    assert len(found) == 4
    assert taken(folder.stream(), end) == (end, [])
    other = folder.stream()
    with pytest.raises(ConfigError, match="belongs to a query with another checkpoint"):
        taken(other, other.initial_offsets())


def test_a_state_folder_that_cannot_be_written_is_refused(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    for place in ("/proc/x", str(tmp_path / "file" / "state")):
        stream = folder.stream(state=place)
        with pytest.raises(ConfigError, match="files cannot be written to") as refused:
            stream.initial_offsets()
        assert "option: state" in str(refused.value)
