"""Random Arrow expressions: scans, datasets and counts have the rows that Arrow selects among all rows."""

from __future__ import annotations

import operator
import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.table.handle import Table
from tests.unit.table.tables import new_table

NAN, INFINITY = float("nan"), float("inf")
VALUES: dict[str, tuple[Any, ...]] = {
    "BOOLEAN": (True, False),
    "TINYINT": (-128, 127, 0, 1),
    "INT": (-(2**31), 2**31 - 1, 0, 1, 2, 3),
    "BIGINT": (-(2**63), 2**63 - 1, 0, 1, 2),
    "FLOAT": (NAN, INFINITY, 0.0, -0.0, 1.0, 2.5),
    "DOUBLE": (NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, 2.5),
    "STRING": ("", "a", "ab", "a" * 16, "a" * 17, "a" * 16 + "b", "\U0010ffff" * 17, "é"),
    "BYTES": (b"", b"a", b"\xff" * 17, b"\x00"),
    "DATE": (date(1, 1, 1), date(1969, 12, 31), date(2024, 1, 1)),
    "DECIMAL(9, 2)": tuple(map(Decimal, ("1.28", "-1.28", "0.00", "9999999.99"))),
    "TIMESTAMP(6)": (datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 58), datetime(2024, 1, 1, 0, 0, 0, 1)),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": (datetime(1969, 12, 31, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)),
}
PARTITIONS = ("STRING", "INT", "DATE", "BOOLEAN", "DOUBLE", "FLOAT", "DECIMAL(9, 2)")
COMPARE = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
QUICK, NIGHT = 6, 1000


class RandomTable:
    """A table with a key or without one, in several commits, and expressions about its columns."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.keyed, partitioned = draw.random() < 0.4, draw.random() < 0.5
        self.types = {"k": draw.choice(("INT", "DOUBLE")) if self.keyed else "INT", "p": draw.choice(PARTITIONS)}
        self.types |= {f"c{number}": draw.choice(list(VALUES)) for number in range(3)}
        options = {"bucket": draw.choice("12") if self.keyed else "-1"}
        options["file.format"] = draw.choice(("parquet", "parquet", "orc", "avro"))
        if draw.random() < 0.2:
            options["metadata.stats-mode"] = draw.choice(("full", "counts", "none", "truncate(2)"))
        keys = [] if not self.keyed else ["p", "k"] if partitioned else ["k"]
        columns = [(name, f"{text} NOT NULL" if name in keys else text) for name, text in self.types.items()]
        self.table = new_table(folder, columns, keys=keys, partitions=["p"] if partitioned else [], options=options)
        for _ in range(draw.randint(1, 4)):
            self._commit(draw.randint(1, 6), keys)
        if draw.random() < 0.3:
            self.table.compact(full=True)
        self.table = self.table.refresh()

    def _commit(self, count: int, keys: list[str]) -> None:
        cells = {
            name: pa.array([self._value(name, name in keys) for _ in range(count)], field.type)
            for name, field in zip(self.types, self.table.schema, strict=True)
        }
        with self.table.writer() as writer:
            writer.write(pa.table(cells, schema=self.table.schema))
            writer.commit()

    def _value(self, name: str, required: bool) -> Any:
        return None if not required and self.draw.random() < 0.25 else self.draw.choice(VALUES[self.types[name]])

    def condition(self, depth: int = 0) -> pc.Expression:
        draw = self.draw
        if depth < 2 and draw.random() < 0.35:
            first, other = self.condition(depth + 1), self.condition(depth + 1)
            return first & other if draw.random() < 0.5 else first | other
        if draw.random() < 0.2:
            return ~self.condition(depth + 1)
        name = draw.choice(list(self.types))
        column, type_ = pc.field(name), self.table.schema.field(name).type
        match draw.randrange(6):
            case 0:
                return column.is_null(nan_is_null=draw.random() < 0.5)
            case 1:
                return column.is_nan() if pa.types.is_floating(type_) else column.is_valid()
            case 2:
                return column.isin(pa.array([self._value(name, False) for _ in range(draw.randrange(4))], type_))
            case 3 if pa.types.is_string(type_):
                return pc.starts_with(column, draw.choice(("a", "a" * 17, "é")))
        return draw.choice(COMPARE)(column, pa.scalar(self._value(name, True), type_))


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(repr(list(row.values())) for row in rows.to_pylist())


def check(table: Table, where: pc.Expression) -> None:
    expected = table.scan().to_arrow().filter(where)
    assert counted(table.scan(where=where).to_arrow()) == counted(expected), where
    assert counted(table.scan().to_dataset().to_table(filter=where)) == counted(expected), where
    assert table.count(where) == expected.num_rows, where


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("group", range(4))
def test_a_scan_returns_the_rows_that_arrow_selects(tmp_path: Path, group: int, night: bool) -> None:
    for seed in range(group, 4 * (NIGHT if night else QUICK), 4):
        made = RandomTable(tmp_path / str(seed), seed)
        for _ in range(20):
            where = made.condition()
            try:
                check(made.table, where)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {where}") from error


@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.parametrize("where", [pc.field("x") == 0.0, pc.field("x") > 0.0, ~(pc.field("x") <= 1.0)], ids=str)
def test_a_key_or_partition_with_nan_hides_no_other_row(
    tmp_path: Path, where: pc.Expression, partitioned: bool
) -> None:
    columns = [("k", "INT NOT NULL"), ("x", "DOUBLE NOT NULL")]
    keys, partitions = (("x", "k"), ["x"]) if partitioned else (("x",), [])
    table = new_table(tmp_path, columns, keys=keys, partitions=partitions)
    with table.writer() as writer:
        writer.write(pa.table({"k": pa.array(range(3), pa.int32()), "x": [0.0, 1.0, NAN]}, schema=table.schema))
        writer.commit()
    check(table.refresh(), where)


def test_rows_with_nan_are_found_as_null_if_requested(tmp_path: Path) -> None:
    table = new_table(tmp_path, [("k", "INT NOT NULL"), ("x", "DOUBLE")], keys=("k",))
    with table.writer() as writer:
        writer.write(pa.table({"k": pa.array(range(2), pa.int32()), "x": [1.0, NAN]}, schema=table.schema))
        writer.commit()
    check(table.refresh(), pc.field("x").is_null(nan_is_null=True))
