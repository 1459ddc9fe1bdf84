"""Conditions of users on the rows of a source table."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.formats.demand import EVERYTHING, ConditionMisfit, Demand, NarrowedDemand
from penstock.schema_evolution.filter_language import FilterLanguage
from penstock.schema_evolution.row_conditions import parse_condition
from penstock.schema_evolution.types.mapping import TypeMapping

LANGUAGE = FilterLanguage(TypeMapping())
SCHEMA = SourceSchema(
    dialect="mysql",
    database="shop",
    table="orders",
    fields=(SourceField("id", "int"), SourceField("name", "varchar(20)"), SourceField("n", "int")),
    primary_keys=("id",),
)


def rows(*names: str | None) -> ChangeBatch:
    columns = {"id": pa.array(range(len(names)), pa.int32()), "name": pa.array(names, pa.string())}
    return ChangeBatch.inserts(SCHEMA, pa.RecordBatch.from_pydict(columns | {"n": pa.nulls(len(names), pa.int32())}))


def test_part_of_a_table_has_the_columns_of_the_condition_and_the_key() -> None:
    found = pickle.loads(pickle.dumps(LANGUAGE)).part("name = 'a' and length(name) > 0", SCHEMA)
    assert found.columns == {"id", "name"}
    # A function is not evaluated by the server, so the rows are chosen again after they were read.
    assert str(found.condition) == "name = 'a'"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("region = 'x' and id > 0", "region is not a column of it; its columns are id, name, n"),
        ("name", "a condition must be true or false"),
        ("length(name, 3) = 1", "length"),
        ("__table_name__ = 'orders'", "__table_name__ is not a column of it"),
    ],
)
def test_condition_that_does_not_fit_the_table_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(ConditionMisfit, match=reason):
        LANGUAGE.part(text, SCHEMA)
    with pytest.raises(ConditionMisfit, match=reason):
        LANGUAGE.met(text, rows("a"))


@pytest.mark.parametrize("text", ["n > now()", "op_ts > '2026-01-01'", "id = unix_timestamp()"])
def test_condition_that_depends_on_the_time_of_reading_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="depends on the time"):
        parse_condition(text)


def test_syntax_errors_name_their_position() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_condition("id = 5 oops")
    assert raised.value.facts["at"] == 7


def test_only_rows_that_meet_the_condition_are_left() -> None:
    met, unreadable = LANGUAGE.met("name = 'a' or name is null", rows("a", "A", None, "b"))
    assert (met.rows["id"].to_pylist(), unreadable) == ([0, 2], 0)
    # A null is not true, and a value that a cast cannot read is counted.
    met, unreadable = LANGUAGE.met("cast(name as int) > 0", rows("5", "x", None, "-1"))
    assert (met.rows["id"].to_pylist(), unreadable) == ([0], 1)
    met, _ = LANGUAGE.met("not (cast(name as int) > 0)", rows("5", "x", None, "-1"))
    assert met.rows["id"].to_pylist() == [3]


class Policy:
    """A policy that needs the name of some rows."""

    def of(self, schema: SourceSchema) -> Demand:
        return Demand(frozenset({"id", "name"}), LANGUAGE.part("id > 5", schema).condition, lists_columns=True)


def test_both_conditions_and_the_columns_of_both_are_needed() -> None:
    found = NarrowedDemand(Policy(), LANGUAGE, "n = 1").of(SCHEMA)
    assert (found.columns, str(found.condition), found.lists_columns) == ({"id", "name", "n"}, "id > 5 and n = 1", True)
    alone = NarrowedDemand(None, LANGUAGE, "n = 1").of(SCHEMA)
    assert (alone.columns, str(alone.condition)) == (EVERYTHING.columns, "n = 1")
