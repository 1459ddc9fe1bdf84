"""Sums of decimals that have more digits than their column: null, in reads, in files and in SQL alike."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.table.handle import Table

PRECISIONS = (4, 9, 18, 38)
GREATEST = {f"p{digits}": Decimal(10**digits - 1).scaleb(-2) for digits in PRECISIONS if digits < 28}
GREATEST["p38"] = Decimal("9" * 36 + ".99")


def commit(table: Table, values: dict[str, Decimal | int]) -> None:
    rows = {name: [value] for name, value in ({"k": 1} | values).items()}
    with table.writer() as writer:
        writer.write(pa.table(rows, schema=table.schema))
        writer.commit()


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_a_sum_beyond_the_precision_is_null_and_the_next_row_begins_a_new_one(format_: str, tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    table = catalog.create_table(
        "d.t",
        [("k", "INT NOT NULL"), *((f"p{digits}", f"DECIMAL({digits}, 2)") for digits in PRECISIONS)],
        primary_keys=["k"],
        options={"bucket": "1", "merge-engine": "aggregation", "file.format": format_}
        | {"fields.default-aggregate-function": "sum"},
    )
    commit(table, GREATEST)
    commit(table, dict.fromkeys(GREATEST, Decimal("0.01")))
    expected: list[dict[str, Decimal | int | None]] = [{"k": 1, **dict.fromkeys(GREATEST)}]
    assert table.scan().to_arrow().to_pylist() == expected
    assert penstock.sql("SELECT * FROM d.t", warehouse=str(tmp_path)).to_pylist() == expected
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == expected
    commit(table, dict.fromkeys(GREATEST, Decimal("-7.00")))
    assert table.scan().to_arrow().to_pylist() == [{"k": 1, **dict.fromkeys(GREATEST, Decimal("-7.00"))}]


@pytest.mark.parametrize("type_", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize(
    ("function", "values", "wanted"),
    [
        ("product", [3e38, 3e38, 1e300], "inf"),
        ("product", [float("inf"), 0.0], "nan"),
        ("sum", [float("inf"), float("-inf")], "nan"),
    ],
)
def test_a_result_that_no_number_is_warns_of_nothing(
    type_: str, function: str, values: list[float], wanted: str, tmp_path: Path
) -> None:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    table = catalog.create_table(
        "d.t",
        [("k", "INT NOT NULL"), ("v", type_)],
        primary_keys=["k"],
        options={"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": function},
    )
    with table.writer() as writer:
        writer.write(pa.table({"k": [1] * len(values), "v": values}).cast(table.schema))
        writer.commit()
    assert [str(row["v"]) for row in table.scan().to_arrow().to_pylist()] == [wanted]
