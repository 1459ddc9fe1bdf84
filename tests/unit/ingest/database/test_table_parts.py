"""Parts of tables that are read again."""

from __future__ import annotations

import logging
from collections import Counter

import pyarrow as pa
import pytest

from penstock.errors import ConfigError, SourceError
from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.ingest.database.table_parts import (
    MISFIT,
    UNREADABLE,
    PartRead,
    TablePart,
    accepted_parts,
    check_key,
    parts_besides,
    parts_from,
    unfinished_parts,
)
from penstock.schema_evolution.filter_language import FilterLanguage
from penstock.schema_evolution.types.mapping import TypeMapping

SCHEMA = SourceSchema(
    dialect="mysql", database="shop", table="t", fields=(SourceField("id", "int"),), primary_keys=("id",)
)
LANGUAGE = FilterLanguage(TypeMapping())
PART, OTHER = TablePart(("shop", "t"), "id > 1"), TablePart(("shop", "t"), "id < 0")


def batch(*ids: int) -> ChangeBatch:
    return ChangeBatch.inserts(SCHEMA, pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int32())}))


def read(where: str, *batches: ChangeBatch) -> tuple[list[list[int]], Counter[str]]:
    oddities: Counter[str] = Counter()
    found = [batch.rows["id"].to_pylist() for batch in PartRead(LANGUAGE, where).rows(batches, oddities)]
    return found, oddities


def test_part_is_the_same_after_a_checkpoint() -> None:
    assert parts_from([PART.to_json()]) == (PART,)
    assert str(PART) == "shop.t where id > 1"


def test_each_part_is_read_once_and_none_of_a_table_that_is_read_as_a_whole() -> None:
    assert parts_besides([PART, OTHER, PART], []) == (PART, OTHER)
    assert parts_besides([PART, OTHER, TablePart(("shop", "u"), "id > 1")], [("shop", "t")]) == (
        TablePart(("shop", "u"), "id > 1"),
    )


def test_unfinished_parts_are_those_that_wait_or_are_being_cut() -> None:
    whole, cut = {"database": "shop", "table": "w"}, {"database": "shop", "table": "c", "where": "n = 1"}
    assert unfinished_parts({"cursors": [whole, cut], "parts": [PART.to_json()]}) == [
        "shop.c where n = 1",
        "shop.t where id > 1",
    ]
    assert unfinished_parts({"rest": [7], "rest_part": PART.to_json()}) == [str(PART)]
    assert unfinished_parts({"log": "16/0", "rest": [7]}) == []


def test_chunk_without_a_condition_is_read_whole() -> None:
    assert read("", batch(1, 2)) == ([[1, 2]], Counter())
    assert PartRead(None, "").demand(None) is None


def test_chunk_with_a_condition_has_only_rows_that_meet_it() -> None:
    assert read("id > 1", batch(1, 2), batch(0), batch(3)) == ([[2], [3]], Counter())
    assert read("cast(concat('x', id) as int) = 1", batch(1, 2)) == ([], Counter({UNREADABLE: 2}))


def test_part_whose_column_was_dropped_is_left_out_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert read("gone = 1", batch(1)) == ([], Counter({MISFIT: 1}))
    assert "event=part_not_read" in caplog.text


def test_condition_needs_the_language_of_a_pipeline() -> None:
    with pytest.raises(ConfigError, match="needs a pipeline"):
        PartRead(None, "id > 1").demand(None)


def test_wrong_conditions_are_refused_and_lost_connections_are_not(caplog: pytest.LogCaptureFixture) -> None:
    def check(part: TablePart) -> None:
        if part == OTHER:
            raise ConfigError("wrong column", table="shop.t", hint="correct it")

    why = "wrong column; table: shop.t; to repair: correct it"
    assert accepted_parts([PART, OTHER], check) == ((PART,), (f"shop.t where id < 0: {why}",))
    assert f"event=signal_refused table=shop.t where=id < 0 reason={why}" in caplog.messages, "one line"

    def lost(part: TablePart) -> None:
        raise SourceError("the connection was lost", retryable=True)

    with pytest.raises(SourceError):
        accepted_parts([PART], lost)


def test_table_without_a_key_is_refused() -> None:
    assert check_key(SCHEMA, PART) is SCHEMA
    with pytest.raises(ConfigError, match="no primary key"):
        check_key(SourceSchema(dialect="mysql", database="shop", table="t", fields=SCHEMA.fields), PART)
    with pytest.raises(ConfigError, match="does not exist any more"):
        check_key(None, PART)
