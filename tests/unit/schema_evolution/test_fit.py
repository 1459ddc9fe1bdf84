"""Change batches as rows of a table, and the drift when they do not fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import SchemaConflict
from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.schema_evolution.computed_columns import ComputedColumn
from penstock.schema_evolution.drift import ColumnRules, drift_of, fold
from penstock.schema_evolution.drift_policy import DeclaredColumn, Drift
from penstock.schema_evolution.fit import Fit
from penstock.schema_evolution.type_verdicts import Verdict, change_of
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.schema.changes import AddColumn, UpdateColumnType, apply_changes
from penstock.table.schema.new_schema import create_schema
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import read_type
from penstock.table.values.types import type_text


def source(*columns: tuple[str, str]) -> SourceSchema:
    return SourceSchema("mysql", "shop", "orders", tuple(SourceField(*column) for column in columns), ("id",))


def change(schema: SourceSchema, *rows: tuple[str | None, ...], pos: list[int] | None = None) -> ChangeBatch:
    names = [field.name for field in schema.fields]
    arrays = [pa.array(list(values), pa.string()) for values in zip(*rows, strict=True)]
    count = len(rows)
    return ChangeBatch(
        pa.RecordBatch.from_arrays(arrays, names=names),
        np.zeros(count, np.int8),
        np.array(pos or range(count), np.int64),
        np.arange(count, dtype=np.int32),
        schema,
        np.full(count, -1, np.int64),
    )


def table(*columns: tuple[str, str]) -> TableSchema:
    return create_schema(list(columns), ["id"], [], {"bucket": "1"}, now=0)


ORDERS = table(("id", "BIGINT"), ("name", "STRING"), ("day", "STRING"))


def test_columns_are_matched_by_name_and_missing_ones_are_null() -> None:
    fitted = Fit(ORDERS, ColumnRules()).rows(
        change(source(("name", "text"), ("id", "bigint")), ("a", "1"), (None, "2"))
    )
    assert fitted.batch.rows.to_pylist() == [{"id": 1, "name": "a", "day": None}, {"id": 2, "name": None, "day": None}]


def test_a_message_with_a_misfit_is_left_out_completely() -> None:
    batch = change(source(("id", "bigint")), ("1",), ("x",), ("2",), ("3",), pos=[10, 11, 11, 12])
    fitted = Fit(ORDERS, ColumnRules()).rows(batch)
    assert fitted.batch.rows.column("id").to_pylist() == [1, 3]
    assert [(item.pos, "'x'" in item.message) for item in fitted.bad] == [(11, True)]


def test_a_null_key_is_a_misfit() -> None:
    fitted = Fit(ORDERS, ColumnRules()).rows(change(source(("id", "bigint")), (None,), ("2",)))
    assert "non-null column(id)" in fitted.bad[0].message
    assert fitted.batch.rows.num_rows == 1


def test_computed_columns_are_computed_from_fitted_columns() -> None:
    computed = (ComputedColumn.of("day=substring(name,0,2)"),)
    fitted = Fit(ORDERS, ColumnRules(), computed=computed).rows(
        change(source(("id", "int"), ("name", "text")), ("1", "abc"))
    )
    assert fitted.batch.rows.column("day").to_pylist() == ["ab"]


def test_case_is_folded_if_the_catalog_folds_it() -> None:
    fitted = Fit(ORDERS, ColumnRules(case_sensitive=False)).rows(change(source(("ID", "int")), ("1",)))
    assert fitted.batch.rows.column("id").to_pylist() == [1]


def test_two_columns_that_become_one_are_refused() -> None:
    with pytest.raises(SchemaConflict, match="duplicate columns"):
        drift_of(source(("ID", "int"), ("id", "int")), "t", ORDERS, ColumnRules(case_sensitive=False))


def test_drifts_of_a_batch_become_one_version() -> None:
    rules = ColumnRules()
    held = table(("id", "BIGINT"), ("n", "INT"))
    drifts = [
        drift_of(source(("id", "bigint"), ("n", "bigint"), ("a", "int")), "t", held, rules),
        drift_of(source(("id", "bigint"), ("a", "bigint"), ("b", "text")), "t", held, rules),
    ]
    changes = fold(drifts, held, TypeMapping())
    assert [type(item) for item in changes] == [UpdateColumnType, AddColumn, AddColumn]
    after = apply_changes(held, changes, has_snapshots=True, now=1)
    assert [(item.name, item.type.root) for item in after.fields] == [
        ("id", "BIGINT"),
        ("n", "BIGINT"),
        ("a", "BIGINT"),
        ("b", "VARCHAR"),
    ]
    assert fold(drifts[::-1], after, TypeMapping()) == []


KINDS = (
    *(
        "BOOLEAN",
        "TINYINT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(10, 2)",
        "DECIMAL(12, 4)",
        "DATE",
        "TIME(0)",
        "TIME(3)",
    ),
    *("TIMESTAMP(3)", "TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "CHAR(3)", "VARCHAR(9)", "STRING"),
    *("BINARY(2)", "VARBINARY(9)", "BYTES", "ARRAY<INT>", "ARRAY<BIGINT>", "ARRAY<STRING>", "MAP<STRING, INT>"),
    *("MAP<STRING, BIGINT>", "ROW<a INT>", "ROW<a BIGINT>", "ROW<a INT, b STRING>", "ARRAY<ROW<a INT>>"),
    *("ARRAY<ROW<a INT, b ARRAY<INT>>>", "MAP<STRING, ROW<a INT>>", "MAP<STRING, ROW<a BIGINT, b INT>>"),
)


@pytest.mark.parametrize("option", ["to-nullable", "allow-non-string-to-string", "allow-lossless"])
def test_each_widening_is_a_change_that_tables_accept(option: str) -> None:
    mapping = TypeMapping.of([option])
    for kind in KINDS:
        held = table(("id", "BIGINT"), ("v", kind))
        for other in KINDS:
            new = read_type(other)
            change = change_of(held.field("v").type, new, mapping)
            if change.verdict is Verdict.WIDEN:
                changes = fold([Drift("t", widened=(DeclaredColumn("v", new),))], held, mapping)
                after = apply_changes(held, changes, has_snapshots=True, now=1)
                assert change_of(after.field("v").type, new, mapping).verdict in {Verdict.SAME, Verdict.KEEP}
                assert change_of(after.field("v").type, held.field("v").type, mapping).verdict is not Verdict.REFUSE


def test_the_order_of_reports_does_not_change_the_types() -> None:
    held = table(
        ("id", "BIGINT"),
    )
    drifts = [drift_of(source(("id", "bigint"), ("a", kind)), "t", held, ColumnRules()) for kind in ("int", "bigint")]
    for order in (drifts, drifts[::-1]):
        after = apply_changes(held, fold(order, held, TypeMapping()), has_snapshots=True, now=1)
        assert after.field("a").type.root == "BIGINT"


def test_types_without_a_common_type_are_a_conflict() -> None:
    with pytest.raises(SchemaConflict, match="Cannot convert field name from type STRING to INT"):
        drift_of(source(("id", "bigint"), ("name", "int")), "shop.orders", ORDERS, ColumnRules())


def test_the_type_of_a_wider_key_is_kept() -> None:
    held = table(
        ("id", "INT"),
    )
    assert drift_of(source(("id", "bigint")), "t", held, ColumnRules()).is_none


def test_the_type_of_a_wider_bucket_key_is_kept_unless_rows_stay_in_their_buckets() -> None:
    options = {"bucket": "4", "bucket-key": "id"}
    for type_, wider, more, kept in (
        ("INT", "bigint", {}, True),
        ("INT", "bigint", {"bucket-function.type": "mod"}, False),
        ("VARCHAR(3)", "varchar(9)", {}, False),
    ):
        held = create_schema([("id", type_), ("n", "INT")], [], [], options | more, now=1)
        assert drift_of(source(("id", wider), ("n", "int")), "t", held, ColumnRules()).is_none is kept, type_


def test_formats_without_types_drift_only_by_new_columns() -> None:
    plain = SourceSchema("text", None, None, (SourceField("id"), SourceField("extra")))
    drift = drift_of(plain, "t", ORDERS, ColumnRules())
    assert [item.name for item in drift.added] == ["extra"]
    assert drift.widened == ()


def test_long_texts_may_be_bytes() -> None:
    longtext = source(("id", "bigint"), ("text", "longtext"))
    rules = ColumnRules(TypeMapping.of(["longtext-to-bytes"]))
    held = table(*((item.name, type_text(item.type)) for item in rules.wanted(longtext)))
    fitted = Fit(held, rules).rows(change(longtext, ("1", "abcd"), ("2", "é😀"), ("3", None)))
    assert fitted.batch.rows.column("text").to_pylist() == [b"abcd", "é😀".encode(), None]


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("bit(9)", "0000000101000001"),
        ("blob", "\x01A"),
        ("varbinary(99999999999)", "\x01A"),
        ("bit(99999999999)", "\x01A"),
        ("decimal(5,9)", "\x01A"),
    ],
)
def test_bits_as_text_are_digits_and_other_bytes_are_characters(declared: str, text: str) -> None:
    schema = source(("id", "bigint"), ("b", declared))
    batch = change(schema, ("1", ""), ("2", ""))
    columns = [batch.rows.column(0), pa.array([b"\x01\x41", None], pa.binary())]
    batch = replace(batch, rows=pa.RecordBatch.from_arrays(columns, names=["id", "b"]))
    held = table(("id", "STRING"), ("b", "STRING"))
    fitted = Fit(held, ColumnRules(TypeMapping.of(["to-string"]))).rows(batch)
    assert fitted.batch.rows.column("b").to_pylist() == [text, None]


@pytest.mark.parametrize("dialect", ["debezium", "avro"])
def test_instants_that_came_as_text_are_cut_and_counted_or_kept_and_refused_in_a_key(dialect: str) -> None:
    declared = "string io.debezium.time.ZonedTimestamp"
    if dialect == "avro":
        declared = '{"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}'
    schema = replace(source(("id", declared), ("t", declared)), dialect=dialect)
    batch = change(
        schema,
        ("2024-02-29 12:34:56.000001", "2024-02-29 12:34:56.789012999"),
        ("2024-02-29 12:34:56.000001001", "2024-02-29 12:34:56.789012"),
    )
    found = {}
    for type_ in ("TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(9)", "STRING"):
        fitted = Fit(table(("id", type_), ("t", type_)), ColumnRules(), zone="Asia/Tokyo").rows(batch)
        found[type_] = [str(pc.cast(value, pa.string())) for value in fitted.batch.rows.column("t")], fitted.inexact
        assert [bad.pos for bad in fitted.bad] == ([1] if type_ == "TIMESTAMP(6)" else [])
    both = ["2024-02-29 12:34:56.789012999", "2024-02-29 12:34:56.789012000"]
    assert found["TIMESTAMP(6)"] == (["2024-02-29 12:34:56.789012"], 1)
    assert found["TIMESTAMP(9)"] == (both, 0)
    assert found["TIMESTAMP_LTZ(9)"] == ([f"{text}Z" for text in both], 0)
    assert found["STRING"] == (["2024-02-29 12:34:56.789012999", "2024-02-29 12:34:56.789012"], 0)
