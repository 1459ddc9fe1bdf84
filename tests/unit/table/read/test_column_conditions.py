"""Conditions on columns that follow from a filter: never too narrow, and few rows are decoded for a point query."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.table.files.conditions import ColumnCondition
from penstock.table.files.parquet import reader, row_ranges
from penstock.table.handle import Table
from penstock.table.read.column_conditions import column_conditions, required_values
from penstock.table.values.arrow_types import arrow_schema
from penstock.table.values.types import Field, parse_type
from tests.unit.table.tables import new_table

FIELDS = (Field(0, "id", parse_type("BIGINT")), Field(1, "name", parse_type("STRING")))
ID, NAME = pc.field("id"), pc.field("name")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (ID == 7, [("id", "in", (7,))]),
        (ID.isin([3, 9]), [("id", "in", (3, 9))]),
        ((ID > 3) & (ID <= 9), [("id", ">=", (3,)), ("id", "<=", (9,))]),
        (ID > 3, [("id", ">=", (3,))]),
        ((ID == 7) & (NAME == "a"), [("id", "in", (7,)), ("name", "in", ("a",))]),
        ((ID == 7) | (NAME == "a"), []),
        ((ID == 7) | ID.is_null(), []),
        (~(ID == 7), []),
        (NAME >= "b", [("name", ">=", ("b",))]),
    ],
    ids=str,
)
def test_conditions_are_the_values_or_the_ends_of_a_column(where: pc.Expression, expected: list[Any]) -> None:
    found = column_conditions(FIELDS, arrow_schema(FIELDS), where)
    assert found == [ColumnCondition(*condition) for condition in expected]
    values = required_values(FIELDS[0], arrow_schema(FIELDS), where)
    assert values == next((condition[2] for condition in expected if condition[:2] == ("id", "in")), None) or list(
        values or ()
    ) == list(next(condition[2] for condition in expected if condition[:2] == ("id", "in")))


def filled(folder: Path, rows: int, turns: int = 1, file_format: str = "parquet") -> Table:
    options = {"bucket": "1", "write-only": "true", "file.format": file_format}
    table = new_table(folder, [("id", "BIGINT NOT NULL"), ("name", "STRING"), ("n", "INT")], options=options)
    chance = random.Random(7)
    for turn in range(turns):
        ids = sorted(chance.sample(range(2 * rows), rows))
        names = [None if condition % 11 == 0 else f"n{condition % 97}" for condition in ids]
        numbers = pa.array([condition % 13 + turn for condition in ids], pa.int32())
        with table.writer() as writer:
            writer.write(pa.table({"id": pa.array(ids, pa.int64()), "name": names, "n": numbers}))
            writer.commit()
    return table


@pytest.mark.slow
@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_filtered_scans_return_what_a_filter_of_all_rows_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int, file_format: str
) -> None:
    monkeypatch.setattr("penstock.table.files.file_writer.GROUP_ROWS", 1_024)
    monkeypatch.setattr(row_ranges, "_FEW_ROWS", 16)
    table = filled(tmp_path, 4_000, turns, file_format)
    chance = random.Random(turns)
    leaves: list[Callable[[], pc.Expression]] = [
        lambda: chance.randrange(8_000) == ID,
        lambda: (chance.randrange(8_000) < ID) & (chance.randrange(8_000) >= ID),
        lambda: ID.isin([chance.randrange(8_000) for _ in range(3)]),
        lambda: f"n{chance.randrange(97)}" == NAME,
        NAME.is_null,
        lambda: pc.field("n") == chance.randrange(16),
    ]
    all_rows = table.scan().to_arrow()
    for _ in range(60):
        left, right = chance.choice(leaves)(), chance.choice(leaves)()
        where = chance.choice([left, left & right, left | right])
        assert table.scan(where=where).to_arrow().sort_by("id") == all_rows.filter(where).sort_by("id"), str(where)
        assert table.scan(columns=["n"], where=where).to_arrow().num_rows == all_rows.filter(where).num_rows


@pytest.mark.slow
def test_a_point_query_decodes_few_rows_of_the_other_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(tmp_path, 60_000)
    ids = table.scan(columns=["id"]).to_arrow()["id"].to_pylist()
    decoded = []
    read = reader.read

    def counted(*given: Any, **named: Any) -> Any:
        for first_row, batch in read(*given, **named):
            decoded.append(batch.num_rows)
            yield first_row, batch

    monkeypatch.setitem(__import__("penstock.table.files.file_reader", fromlist=["x"])._READERS, "parquet", counted)
    for condition in (ids[0], ids[30_000], ids[-1]):
        decoded.clear()
        assert table.scan(where=condition == ID).to_arrow().num_rows == 1
        assert sum(decoded) <= 4_096
    decoded.clear()
    assert table.scan(where=pc.field("n") == 1_000).to_arrow().num_rows == 0
    assert decoded == []
