"""Conditions mean what Arrow or SQL mean by them; what cannot be asked or taken is refused by name, before any work."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.handle import Table
from penstock.table.read.filter import RowFilter

F = pc.field
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("at", pa.timestamp("us")),
        pa.field("zoned", pa.timestamp("us", "UTC")),
        pa.field("name", pa.string()),
        pa.field("box", pa.struct([pa.field("x", pa.int32())])),
        pa.field("city", pa.string()),
    ]
)
ROWS = [
    {"id": n, "price": Decimal(n) / 2, "at": dt.datetime(2026, 1, n), "name": f"n{n}", "city": "ab"[n % 2]}
    | {"zoned": dt.datetime(2026, 1, n, tzinfo=dt.UTC), "box": {"x": n}}
    for n in range(1, 7)
]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("d")
    made = catalog.create_table(
        "d.t", SCHEMA, primary_keys=["id", "city"], partition_keys=["city"], options={"bucket": "2"}
    )
    with made.writer() as writer:
        writer.write(pa.Table.from_pylist(ROWS, SCHEMA))
        writer.commit()
    return made


HELD = {
    "a decimal": (F("price") > Decimal(2), "price > 2", [5, 6]),
    "a number with a fraction": (F("id") > 4.5, "id > 4.5", [5, 6]),
    "a moment": (F("at") >= dt.datetime(2026, 1, 5), "`at` >= timestamp '2026-01-05'", [5, 6]),
    "a partition": (F("city") == "a", "`city` = 'a'", [2, 4, 6]),
    "a member": (F("box", "x") > 4, "box.x > 4", [5, 6]),
    "beyond the type": (F("id") < 2**62, "id < 4611686018427387904", [1, 2, 3, 4, 5, 6]),
    "one of several": (F("id").isin([2, 3]), "ID in (2, 3)", [2, 3]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD)
def test_expressions_and_texts_keep_the_same_rows(table: Table, name: str) -> None:
    expression, text, wanted = HELD[name]
    for where in (expression, text):
        found = table.scan(columns=["id"], where=where).to_arrow()
        assert sorted(found["id"].to_pylist()) == wanted
        assert found.column_names == ["id"]


REFUSED = {
    "a decimal and an int": (F("price") > 2, "decimal.Decimal"),
    "a number and a text": (F("id") > "2", "of the same type"),
    "a partition and a number": (F("city") == 1, "of the same type"),
    "a moment without a zone and one with": (F("at") > dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "naive datetimes"),
    "a column that is not there": (F("pric") > Decimal(1), "did you mean price?"),
    "a member that is not there": (F("box", "y") > 1, "FieldRef.Name"),
    "no answer": (F("id"), "must evaluate to bool"),
    "a place": (pc.field(0) > 1, "not their positions"),
    "a pattern that is none": (pc.match_substring_regex(F("name"), "("), "regular expression"),
    "a division by nothing": (F("id") / 0 > 1, "divide by zero"),
    "a tuple": (("id", ">", 1), "not a tuple"),
    "text of an unknown column": ("pric > 1", "pric"),
    "text that is no condition": ("id +", "cannot be parsed"),
    "text without an answer": ("id + 1", "not a boolean expression"),
}


@pytest.mark.slow
def test_a_long_list_of_alternatives_becomes_one_lookup(table: Table) -> None:
    many = " or ".join(f"id = {number}" for number in range(-100, 4))
    texts = " OR ".join(f"`name` = 'x{number}'" for number in range(100))
    for text, wanted in (
        (many, [1, 2, 3]),
        (f"({many} or name = 'nobody' or id = 2.0) and id <> 2", [1, 3]),
        (f"not ({many}) and (id < 6 or {texts})", [4, 5]),
        (f"{many} or id = null", [1, 2, 3]),
    ):
        condition = RowFilter.of(text, table.schema, "t")
        assert str(condition.given).count("id = ") < 3
        assert " IN (" in str(condition.given)
        assert sorted(table.scan(columns=["id"], where=text).to_arrow()["id"].to_pylist()) == wanted
    short = "id = 1 or id = 2"
    assert RowFilter.of(short, table.schema, "t").given == short
    with pytest.raises(ConfigError, match="cannot be parsed"):
        RowFilter.of(f"{many} or", table.schema, "t")


@pytest.mark.slow
def test_a_column_with_a_quote_in_its_name_is_found_in_the_condition() -> None:
    batch = pa.RecordBatch.from_pydict({'a"b': [1, 2], "a`b": [3, 4], "c": [5, 6]})
    for text, name in (
        ('"a""b" = 1', 'a"b'),
        ('`A"B` = 1', 'a"b'),
        ("`a``b` = 3", "a`b"),
        ('"a""b" = 1 and c > 0', 'a"b'),
    ):
        condition = RowFilter.of(text, batch.schema, "t")
        assert name in condition.columns(batch.schema.names)
        assert condition.kept(batch.select(sorted(condition.columns(batch.schema.names)))).num_rows == 1
    assert RowFilter.of("c = 5", batch.schema, "t").columns(batch.schema.names) == {"c"}
    assert RowFilter.of(F('a"b') == 1, batch.schema, "t").columns(batch.schema.names) == {'a"b'}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_conditions_are_refused_with_the_reason(table: Table, name: str) -> None:
    where, reason = REFUSED[name]
    with pytest.raises(ConfigError, match=r"(?s).*" + reason.replace("?", r"\?")):
        table.scan(where=where).to_arrow()  # type: ignore[arg-type]


def test_an_empty_table_refuses_conditions_as_a_full_one_does(table: Table) -> None:
    table.truncate()
    with pytest.raises(ConfigError, match="did you mean name"):
        table.scan(where=F("nam") == "x").to_arrow()


@pytest.mark.slow
def test_system_tables_accept_and_refuse_the_same_conditions(table: Table, tmp_path: Path) -> None:
    snapshots = penstock.Catalog(str(tmp_path)).table("d.t$snapshots")
    assert snapshots.scan(where="snapshot_id = 1").to_arrow().num_rows == 1
    assert snapshots.scan(where=F("snapshot_id") == 2).to_arrow().num_rows == 0
    with pytest.raises(ConfigError, match="did you mean snapshot_id"):
        snapshots.scan(where=F("snapshot") == 2).to_arrow()
    with pytest.raises(ConfigError, match="no column 'x'"):
        snapshots.scan(columns=["x"]).to_arrow()


def test_a_condition_is_pickled() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1, 2]})
    for given in (F("id") > 1, "id > 1"):
        condition = RowFilter.of(given, batch.schema, "t")
        assert pickle.loads(pickle.dumps(condition)).kept(batch).to_pydict() == {"id": [2]}


WRONG: dict[str, tuple[Callable[[Table], object], str]] = {
    "columns as a text": (lambda t: t.scan(columns="id"), r"columns=\['id'\]"),
    "an unknown column": (lambda t: t.scan(columns=["nme"]).to_arrow(), "did you mean name"),
    "a snapshot by name": (lambda t: t.scan(snapshot="x"), "whole number"),  # type: ignore[arg-type]
    "a time as text": (lambda t: t.scan(timestamp="now"), "epoch milliseconds"),
    "an unknown option of a scan": (lambda t: t.scan(options={"scan.snapshot": "1"}), "did you mean scan.snapshot-id"),
    "an unknown option of a writer": (lambda t: t.writer(options={"write-buffer": "1"}), "is not a table option"),
    "following from a name": (lambda t: next(t.follow(from_snapshot="x")), "whole number"),  # type: ignore[arg-type]
    "an identifier of another kind": (lambda t: t.writer().commit(1.5), "whole number"),  # type: ignore[arg-type]
    "partitions that are no list": (lambda t: t.compact(partitions={"city": "a"}), "must be a list"),  # type: ignore[arg-type]
    "a partition that is no mapping": (lambda t: t.drop_partitions(["a"]), "not a mapping"),  # type: ignore[list-item]
    "an age as text": (lambda t: t.expire_snapshots(older_than="1 d"), "epoch milliseconds"),
    "a limit below zero": (lambda t: t.scan(limit=-1), "0 or more"),
    "a limit by name": (lambda t: t.head("all"), "whole number"),  # type: ignore[arg-type]
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_arguments_of_another_kind_are_refused_by_name(table: Table, name: str) -> None:
    verb, reason = WRONG[name]
    with pytest.raises(ConfigError, match=reason):
        verb(table)


def test_options_may_be_numbers_and_flags(table: Table) -> None:
    assert table.scan(options={"scan.snapshot-id": 1}).to_arrow().num_rows == 6
    with table.overwrite(options={"dynamic-partition-overwrite": False}) as writer:
        writer.write(pa.Table.from_pylist(ROWS[:1], SCHEMA))
        writer.commit()
    assert table.scan().to_arrow().num_rows == 1


ROWS_REFUSED = {
    "no rows at all": (None, None, "pyarrow Table or RecordBatch"),
    "a column the table has not": ({"id": [1], "city": ["a"], "nam": ["x"]}, None, "no column 'nam'"),
    "a text for a number": ({"id": ["x"], "city": ["a"]}, None, "column 'id' does not fit"),
    "no key": ({"id": pa.array([None], pa.int64()), "city": ["a"]}, None, "null"),
    "too great a decimal": ({"id": [1], "city": ["a"], "price": [Decimal("123456789.00")]}, None, "'price'"),
    "a member the type has not": ({"id": [1], "city": ["a"], "box": [{"x": 1, "y": 2}]}, None, "no member 'y'"),
    "more kinds than rows": ({"id": [1], "city": ["a"]}, ["+I", "-D"], "2 row kinds"),
    "a kind that is none": ({"id": [1], "city": ["a"]}, [0.5], "unknown row kind"),
    "no kind": ({"id": [1], "city": ["a"]}, [None], "unknown row kind"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS_REFUSED)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(table: Table, name: str) -> None:
    columns, kinds, reason = ROWS_REFUSED[name]
    with table.writer() as writer:
        with pytest.raises(ConfigError, match=reason):
            writer.write(None if columns is None else pa.table(columns), kinds)  # type: ignore[arg-type]
        writer.commit()
    assert table.latest_snapshot is not None
    assert table.scan().to_arrow().num_rows == 6


def test_few_and_many_rows_are_filtered_alike() -> None:
    for rows in (0, 1, 70_000):
        batch = pa.RecordBatch.from_pydict({"a": pa.array(range(rows), pa.int64()), "b": pa.nulls(rows, pa.string())})
        for where in (F("a") >= 40, F("b").is_valid(), F("a") + 1 < 9):
            kept = RowFilter.of(where, batch.schema, "t").kept(batch)
            assert kept.schema == batch.schema
            assert kept["a"].to_pylist() == pc.filter(batch["a"], RowFilter(where).mask(batch)).to_pylist()
