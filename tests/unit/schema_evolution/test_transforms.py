"""Filters, projections and masks on batches: what becomes of updates that cross a filter or move a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.schema_evolution.masks import FORMS, MASKS, Mask
from penstock.schema_evolution.transforms import Transform, with_constants
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table_pattern import TablePattern

FIELDS = (SourceField("id", "bigint"), SourceField("name", "varchar(20)"), SourceField("q", "int"))


def batch(*rows: tuple[int, int, tuple[Any, ...]]) -> ChangeBatch:
    """Rows are (kind, pos, values), as texts."""
    columns = [
        pa.array([None if row[2][place] is None else str(row[2][place]) for row in rows], pa.string())
        for place in range(len(FIELDS))
    ]
    count = len(rows)
    return ChangeBatch(
        pa.RecordBatch.from_arrays(columns, names=[field.name for field in FIELDS]),
        np.array([row[0] for row in rows], np.int8),
        np.array([row[1] for row in rows], np.int64),
        np.arange(count, dtype=np.int32),
        SourceSchema("mysql", "shop", "orders", FIELDS, ("id",)),
        np.full(count, 5, np.int64),
    )


def rows_of(change: ChangeBatch, names: Sequence[str] = ("id",)) -> list[tuple[Any, ...]]:
    columns = [change.rows.column(name).to_pylist() for name in names]
    return list(zip(change.kinds.tolist(), *columns, strict=True))


def applied(transform: Transform, change: ChangeBatch) -> ChangeBatch:
    return transform.applied(change, TypeMapping(), 0)[0]


UPDATES = batch(
    (UPDATE_BEFORE, 1, (1, "a", 1)),
    (UPDATE_AFTER, 1, (1, "b", 1)),  # stays in
    (UPDATE_BEFORE, 2, (2, "a", 1)),
    (UPDATE_AFTER, 2, (2, "a", 0)),  # moves out
    (UPDATE_BEFORE, 3, (3, "a", 0)),
    (UPDATE_AFTER, 3, (3, "a", 9)),  # moves in
    (UPDATE_BEFORE, 4, (4, "a", 0)),
    (UPDATE_AFTER, 4, (4, "b", 0)),  # stays out
    (INSERT, 5, (5, "a", 0)),
    (DELETE, 6, (6, "a", 4)),
    (UPDATE_AFTER, 7, (7, "a", 0)),  # nobody knows where it was
    (UPDATE_AFTER, 8, (8, "a", None)),
    (UPDATE_AFTER, 9, (9, "a", 1)),
)


def test_an_update_that_leaves_the_filter_is_a_delete_and_one_that_enters_is_an_insert() -> None:
    assert rows_of(applied(Transform.of("shop.orders", filter_="q > 0"), UPDATES)) == [
        (UPDATE_BEFORE, "1"),
        (UPDATE_AFTER, "1"),
        (DELETE, "2"),
        (INSERT, "3"),
        (DELETE, "6"),
        (DELETE, "7"),
        (DELETE, "8"),
        (UPDATE_AFTER, "9"),
    ]


def test_a_projection_keeps_declared_types_and_infers_computed_ones() -> None:
    found = applied(Transform.of("shop.*", "id, upper(name) as name, q * 2 as twice, 'x' as x"), UPDATES)
    assert [(field.name, field.type) for field in found.schema.fields] == [
        ("id", "bigint"),
        ("name", "paimon:STRING"),
        ("twice", "paimon:BIGINT"),
        ("x", "paimon:STRING"),
    ]
    assert found.schema.primary_keys == ("id",)
    assert rows_of(found, ("name", "twice"))[0] == (UPDATE_BEFORE, "A", 2)


def test_a_projection_without_the_key_makes_an_append_table() -> None:
    assert applied(Transform.of("shop.*", "name"), UPDATES).schema.primary_keys == ()


def test_an_explicit_column_wins_over_a_star() -> None:
    found = applied(Transform.of("shop.*", "*, concat(name, '!') as name"), UPDATES)
    assert [field.name for field in found.schema.fields] == ["id", "q", "name"]
    assert found.rows.column("name")[0].as_py() == "a!"


def test_an_update_of_the_key_is_a_delete_and_an_insert() -> None:
    found = applied(Transform.of("shop.*", primary_keys=("id", "name")), UPDATES)
    assert rows_of(found, ("id", "name"))[:4] == [
        (DELETE, "1", "a"),
        (INSERT, "1", "b"),
        (UPDATE_BEFORE, "2", "a"),
        (UPDATE_AFTER, "2", "a"),
    ]
    assert found.schema.primary_keys == ("id", "name")


def test_a_value_that_no_expression_accepts_makes_its_message_bad() -> None:
    change = batch((INSERT, 1, (1, "7", 1)), (INSERT, 2, (2, "seven", 1)))
    found, bad = Transform.of("shop.*", "id, cast(name as int) as n").applied(change, TypeMapping(), 0)
    assert rows_of(found, ("n",)) == [(INSERT, 7)]
    assert [item.pos for item in bad] == [2]


@pytest.mark.parametrize(
    ("filter_", "projection", "deleted"),
    [
        ("q > 0", None, [1, 2]),  # of row 1 nobody knows whether it passed
        ("q > 0 or id < 0", None, [1, 2]),
        ("big", "*, q > 0 as big", [1, 2]),
        ("id > 1", None, [2, 3]),  # the key says it
        ("odd", "*, id > 1 as odd", [2, 3]),
        ("__table_name__ = 'items'", None, []),
    ],
)
def test_a_delete_that_has_only_the_key_passes_a_filter_by_other_columns(
    filter_: str, projection: str | None, deleted: list[int]
) -> None:
    deletes = batch((DELETE, 1, (1, None, None)), (DELETE, 2, (2, None, 4)), (DELETE, 3, (3, "a", 0)))
    found = applied(Transform.of("shop.orders", projection, filter_), deletes)
    assert rows_of(found) == [(DELETE, str(number)) for number in deleted]


def test_a_delete_without_a_known_key_must_pass_the_filter() -> None:
    change = batch((DELETE, 1, (1, None, None)))
    keyless = replace(change, schema=replace(change.schema, primary_keys=()))
    assert rows_of(applied(Transform.of("shop.orders", filter_="q > 0"), keyless)) == []


def test_a_filter_may_use_computed_columns_of_the_projection() -> None:
    change = batch((INSERT, 1, (1, "a", 1)), (INSERT, 2, (2, "b", 2)))
    named = Transform.of("shop.*", "id, upper(name) as letter, id as name", "letter = 'B' and name = 'b'")
    assert rows_of(applied(named, change), ("id", "letter")) == [(INSERT, "2", "B")]


def test_the_metadata_columns_of_flink_cdc_can_be_used() -> None:
    found = applied(Transform.of("shop.*", "id, op_ts, table_name || '@' || database_name as place"), UPDATES)
    assert rows_of(found, ("op_ts", "place"))[0] == (UPDATE_BEFORE, 5, "orders@shop")
    copied = replace(UPDATES, event_times=np.full(len(UPDATES), -1, np.int64))
    assert rows_of(applied(Transform.of("shop.*", "id, op_ts"), copied), ("op_ts",))[0] == (UPDATE_BEFORE, 0)


def test_the_origin_of_a_row_can_be_used() -> None:
    expression = "concat(__schema_name__, '.', __table_name__, __data_event_type__) as origin"
    found = applied(Transform.of("shop.*", f"id, {expression}"), UPDATES)
    assert found.rows.column("origin")[1].as_py() == "shop.orders+U"


@pytest.mark.parametrize(
    ("mask", "wanted"),
    [
        ("keep-last(2)", ["***lo", "*", None]),
        ("keep-first(2)", ["he***", "*", None]),
        ("keep-last(0)", ["*****", "*", None]),
        ("redact", ["***", "***", None]),
        ("replace(hidden)", ["hidden", "hidden", None]),
        ("null", [None, None, None]),
        ("md5", ["5d41402abc4b2a76b9719d911017c592", "9dd4e461268c8034f5c8564e155c67a6", None]),
        ("sha256", ["2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
                    "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", None]),
    ],
)  # fmt: skip
def test_a_mask_hides_its_part_of_the_text(mask: str, wanted: list[str | None]) -> None:
    assert Mask.of(mask).values(pa.array(["hello", "x", None])).to_pylist() == wanted


def test_each_mask_is_described() -> None:
    assert {form.partition("(")[0] for form, _ in FORMS} == set(MASKS)


def test_a_masked_column_is_text_without_its_values() -> None:
    found = applied(Transform.of("shop.*", masks={"q": "sha256", "name": "keep-last(1)"}), UPDATES)
    assert {field.name: field.type for field in found.schema.fields}["q"] == "paimon:STRING"
    assert len(found.rows.column("q")[0].as_py()) == 64


@pytest.mark.parametrize("mask", ["sha512", "keep-last", "keep-last(x)", "replace"])
def test_an_unknown_mask_is_refused(mask: str) -> None:
    with pytest.raises(ConfigError):
        Mask.of(mask)


@pytest.mark.parametrize("wrong", ["nobody > 1", "name", "q + 1"])
def test_a_filter_that_does_not_fit_the_table_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError):
        applied(Transform.of("shop.*", filter_=wrong), UPDATES)


def test_constants_are_columns_of_one_text() -> None:
    found = with_constants(UPDATES, (("_shard", "7"),))
    assert found.rows.column("_shard").unique().to_pylist() == ["7"]
    assert found.schema.fields[-1] == SourceField("_shard", "paimon:STRING")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("shop.orders", {"shop.orders"}),
        ("shop.*", {"shop.orders", "shop.tmp_a", "shop.tmp_b"}),
        ("shop.tmp_*", {"shop.tmp_a", "shop.tmp_b"}),
        ("crm_([0-9]+).customer", {"crm_1.customer", "crm_22.customer"}),
        ("crm_[0-9]*.customer", {"crm_1.customer", "crm_22.customer"}),
        ("shop.(orders|tmp_a)", {"shop.orders", "shop.tmp_a"}),
        (r"shop.\.*", {"shop.orders", "shop.tmp_a", "shop.tmp_b"}),
        (r"crm_\.*.\.*", {"crm_1.customer", "crm_22.customer"}),
        (r"shop\.orders", {"shop.orders"}),
        (r"shop\..*", {"shop.orders", "shop.tmp_a", "shop.tmp_b"}),
        (r"shop\..*_a", {"shop.tmp_a"}),
        (r"shop\.tmp_.+", {"shop.tmp_a", "shop.tmp_b"}),
        (r"crm_\d+\..*", {"crm_1.customer", "crm_22.customer"}),
        (r".*\..*_[ab]", {"shop.tmp_a", "shop.tmp_b"}),
        (r"sho\.*.*", {"shop.orders", "shop.tmp_a", "shop.tmp_b"}),
        (r"(a\.b|shop).*", {"shop.orders", "shop.tmp_a", "shop.tmp_b"}),
        (r"(crm_1\.c|sho).*", set()),
        (".*.customer", {"crm_1.customer", "crm_22.customer"}),
        (r"\.*.\.*", {"shop.orders", "shop.tmp_a", "shop.tmp_b", "crm_1.customer", "crm_22.customer"}),
        ("*.*", {"shop.orders", "shop.tmp_a", "shop.tmp_b", "crm_1.customer", "crm_22.customer"}),
    ],
)
def test_patterns_match_names_as_shells_as_regexes_and_as_flink_cdc(pattern: str, names: set[str]) -> None:
    all_names = {"shop.orders", "shop.tmp_a", "shop.tmp_b", "crm_1.customer", "crm_22.customer"}
    found = {name for name in all_names if TablePattern.of(pattern).match(*name.split("."))}
    assert found == names


@pytest.mark.parametrize(
    ("projection", "filter_", "columns", "lists", "unknown"),
    [
        (None, None, None, False, set()),
        (None, "a > 1", None, False, set()),
        ("*, a + 1 as b", None, {"id", "a"}, False, set()),
        ("*, b || 'x' as b", None, None, False, set()),
        ("a as v", None, {"id", "a"}, True, set()),
        ("a", "b = 'x' and v = 1 and __table_name__ = 't'", None, True, {"v"}),
        ("a as v", "v = 1 and hidden = 2", {"id", "a"}, True, {"hidden"}),
    ],
)
def test_the_columns_that_a_transform_needs(
    projection: str | None, filter_: str | None, columns: set[str] | None, lists: bool, unknown: set[str]
) -> None:
    fields = (SourceField("id", "int"), SourceField("a", "int"), SourceField("b", "varchar(9)"))
    schema = SourceSchema("mysql", "shop", "t", fields, ("id",))
    demand = Transform.of("*.*", projection, filter_).demand(schema, TypeMapping())
    assert demand.columns == (None if columns is None else frozenset(columns))
    assert (demand.lists_columns, demand.unknown) == (lists, unknown)


def test_columns_of_lookups_are_needed_and_those_that_they_add_are_known() -> None:
    fields = (SourceField("id", "int"), SourceField("user_id", "int"), SourceField("b", "int"))
    schema = SourceSchema("mysql", "shop", "t", fields, ("id",))
    transform = Transform.of("*.*", "id, city", "city = 'x'")
    demand = transform.demand(schema, TypeMapping(), frozenset({"user_id"}), frozenset({"city"}))
    assert demand.columns == frozenset({"id", "user_id"})
    assert demand.condition is None
    assert not demand.unknown


@pytest.mark.parametrize(
    ("filter_", "projection"), [("q > unix_timestamp()", None), ("q > t", "*, unix_timestamp() as t")]
)
def test_old_rows_and_deletes_pass_a_filter_by_the_time(filter_: str, projection: str | None) -> None:
    """The row passed the filter when it was written, which the time of its update or delete does not show."""
    transform = Transform.of("shop.orders", projection, filter_)
    assert rows_of(applied(transform, UPDATES)) == [
        (UPDATE_BEFORE, "1"),
        (UPDATE_AFTER, "1"),
        (DELETE, "2"),
        (UPDATE_BEFORE, "3"),
        (UPDATE_AFTER, "3"),
        (DELETE, "4"),
        (DELETE, "6"),
        (DELETE, "7"),
        (DELETE, "8"),
        (UPDATE_AFTER, "9"),
    ]
    later = transform.applied(UPDATES, TypeMapping(), 100_000)[0]
    assert rows_of(later) == [(DELETE, str(number)) for number in (1, 2, 3, 4, 6, 7, 8, 9)]


def test_a_filter_by_the_kind_of_a_change_decides_on_deletes() -> None:
    kinds = Transform.of("shop.orders", filter_="q > unix_timestamp() and __data_event_type__ <> '-D'")
    assert (DELETE, "6") not in rows_of(applied(kinds, UPDATES))
