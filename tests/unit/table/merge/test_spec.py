"""The merge specification from the options of a table, and refused options."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.errors import ConfigError
from penstock.table.merge.engines.registry import merge_spec
from penstock.table.merge.incoming_kinds import RetractRefused, check_retracts, kept_rows, row_kinds
from penstock.table.merge.spec import SequenceGroup, required_columns
from tests.unit.table.merge.tables import rows_table, schema_of, spec_of

COLUMNS = {"k": "INT NOT NULL", "a": "INT", "b": "BIGINT", "s": "STRING", "g": "INT", "h": "INT"}
PARTIAL = {"merge-engine": "partial-update"}
AGGREGATION = {"merge-engine": "aggregation"}


def test_spec_without_options_deduplicates() -> None:
    assert spec_of(COLUMNS).engine.name == "deduplicate"


def test_spec_is_pickled() -> None:
    spec = spec_of(COLUMNS, {**PARTIAL, "fields.g,h.sequence-group": "a,b"})
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_keys_are_the_primary_key_without_the_partition() -> None:
    schema = schema_of({"dt": "STRING NOT NULL", **COLUMNS}, ("dt", "k"))
    assert merge_spec(replace(schema, partition_keys=("dt",))).keys == ("k",)


def test_sequence_group_of_two_fields() -> None:
    spec = spec_of(COLUMNS, {**PARTIAL, "fields.g,h.sequence-group": "a,b"})
    assert spec.groups == (SequenceGroup(("g", "h"), ("a", "b")),)


def test_columns_without_a_function_use_the_default_one() -> None:
    spec = spec_of(COLUMNS, {**AGGREGATION, "fields.default-aggregate-function": "max", "sequence.field": "g"})
    assert {name: aggregate.function.name for name, aggregate in spec.aggregates.items()} == dict.fromkeys(
        "absh", "max"
    )


def test_columns_without_any_function_keep_the_last_value_that_is_not_null() -> None:
    assert spec_of(COLUMNS, AGGREGATION).aggregates["s"].function.name == "last_non_null_value"


def test_first_not_null_value_is_another_name() -> None:
    spec = spec_of(COLUMNS, {**AGGREGATION, "fields.a.aggregate-function": "first_not_null_value"})
    assert spec.aggregates["a"].function.name == "first_non_null_value"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "dedupe"}, "not a choice"),
        ({"sequence.field": "z"}, "not a column"),
        ({"rowkind.field": "z"}, "not a column"),
        ({"merge-engine": "first-row", "sequence.field": "a"}, "does not support sequence.field"),
        ({**PARTIAL, "fields.g.sequence-group": "a,z"}, "not a column"),
        ({**PARTIAL, "fields.g.sequence-group": "a", "fields.h.sequence-group": "a"}, "two sequence groups"),
        ({**PARTIAL, "fields.g.sequence-group": "k"}, "primary key"),
        ({**PARTIAL, "fields.a.aggregate-function": "sum"}, "Must use sequence group"),
        ({**PARTIAL, "fields.g.sequence-group": "a", "partial-update.remove-record-on-delete": "true"}, "contradicts"),
        ({**PARTIAL, "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"}, "contradicts"),
        (
            {
                **PARTIAL,
                "ignore-delete": "true",
                "fields.g.sequence-group": "a",
                "partial-update.remove-record-on-sequence-group": "g",
            },
            "contradicts",
        ),
        ({**PARTIAL, "partial-update.remove-record-on-sequence-group": "g"}, "not the sequence field of a group"),
        ({**AGGREGATION, "fields.a.aggregate-function": "summ"}, "not an aggregate function"),
        ({**AGGREGATION, "fields.s.aggregate-function": "sum"}, "does not support"),
        ({**AGGREGATION, "fields.s.aggregate-function": "hll_sketch"}, "does not support"),
        ({**AGGREGATION, "fields.a.aggregate-function": "max", "sequence.field": "a"}, "sequence field"),
        (
            {
                **AGGREGATION,
                "fields.a.aggregate-function": "max",
                "fields.a.ignore-retract": "true",
                "aggregation.remove-record-on-delete": "true",
            },
            "ignore-retract contradicts",
        ),
    ],
)
def test_contradicting_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spec_of(COLUMNS, options)


def test_refusal_names_the_nearest_column() -> None:
    with pytest.raises(ConfigError, match="did you mean amount"):
        spec_of({"k": "INT NOT NULL", "amount": "INT"}, {"sequence.field": "amont"})


def test_table_without_primary_key_has_no_engine() -> None:
    with pytest.raises(ConfigError, match="primary key"):
        merge_spec(schema_of(COLUMNS, ()))


@pytest.mark.parametrize(
    ("options", "lookup"),
    [
        ({"changelog-producer": "lookup"}, True),
        ({"deletion-vectors.enabled": "true"}, True),
        ({"force-lookup": "true"}, True),
        ({"changelog-producer": "full-compaction"}, False),
        ({"changelog-producer": "full-compaction", "force-lookup": "true"}, False),
        ({"merge-engine": "first-row", "changelog-producer": "lookup"}, False),
    ],
)
def test_upper_levels_contain_merged_rows_with_lookup_compaction(options: dict[str, str], lookup: bool) -> None:
    assert spec_of(COLUMNS, options).lookup is lookup


def test_a_requested_column_adds_the_key_and_its_sequence() -> None:
    grouped = spec_of(COLUMNS, {**PARTIAL, "fields.g.sequence-group": "a", "fields.h.sequence-group": "s"})
    assert required_columns(grouped, ["a"]) == ("k", "a", "g")
    assert required_columns(grouped, ["b"]) == ("k", "b")
    assert required_columns(spec_of(COLUMNS, {"sequence.field": "g"}), []) == ("k", "g")


def test_a_group_that_removes_rows_is_read_for_every_column() -> None:
    options = {**PARTIAL, "fields.g.sequence-group": "a", "partial-update.remove-record-on-sequence-group": "g"}
    assert required_columns(spec_of(COLUMNS, options), ["b"]) == ("k", "b", "g")


def kinds(*numbers: int) -> np.ndarray[Any, np.dtype[np.int8]]:
    return np.array(numbers, np.int8)


def test_ignored_kinds_are_dropped_before_rows_are_numbered() -> None:
    assert kept_rows(spec_of(COLUMNS), kinds(0, 1, 2, 3)) is None
    ignores_delete = kept_rows(spec_of(COLUMNS, {"ignore-delete": "true"}), kinds(0, 1, 2, 3))
    assert ignores_delete is not None
    assert ignores_delete.tolist() == [True, False, True, False]
    ignores_before = kept_rows(spec_of(COLUMNS, {"ignore-update-before": "true"}), kinds(0, 1, 2, 3))
    assert ignores_before is not None
    assert ignores_before.tolist() == [True, False, True, True]
    assert kept_rows(spec_of(COLUMNS, {"ignore-delete": "true"}), kinds(0, 2)) is None


def test_row_kinds_come_from_the_rowkind_field() -> None:
    spec = spec_of(COLUMNS, {"rowkind.field": "s"})
    rows = rows_table(spec, [(0, 0, {"k": 1, "s": "+U"}), (1, 0, {"k": 2, "s": "-D"})])
    assert row_kinds(spec, rows, kinds(0, 0)).tolist() == [2, 3]
    with pytest.raises(ConfigError, match="not a row kind"):
        row_kinds(spec, rows_table(spec, [(0, 0, {"k": 1, "s": "U"})]), kinds(0))


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ({"merge-engine": "first-row"}, 3),
        (PARTIAL, 3),
        ({**AGGREGATION, "fields.a.aggregate-function": "max"}, 3),
        (
            {
                **AGGREGATION,
                "fields.a.aggregate-function": "max",
                "aggregation.remove-record-on-delete": "true",
            },
            1,
        ),
    ],
)
def test_retracts_that_would_poison_the_table_are_refused(options: dict[str, str], number: int) -> None:
    with pytest.raises(RetractRefused):
        check_retracts(spec_of(COLUMNS, options), kinds(0, number))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {**PARTIAL, "fields.g.sequence-group": "a"},
        {**PARTIAL, "partial-update.remove-record-on-delete": "true"},
        {**AGGREGATION, "fields.a.aggregate-function": "max", "fields.a.ignore-retract": "true"},
        {**AGGREGATION, "fields.a.aggregate-function": "max", "aggregation.remove-record-on-delete": "true"},
    ],
)
def test_retracts_that_the_options_allow_are_accepted(options: dict[str, str]) -> None:
    check_retracts(spec_of(COLUMNS, options), kinds(0, 3))
