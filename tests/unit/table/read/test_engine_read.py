"""DuckDB, Polars, DataFusion and Arrow's C stream read the rows of a scan, and open only the files they need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.handle import Table
from tests.unit.table.tables import new_table, rows

NAN = float("nan")
COLUMNS = [("id", "BIGINT"), ("price", "DOUBLE"), ("size", "INT"), ("name", "STRING")]
FILES = [[1.0, -1.0], [NAN, -2.0], [None, -3.0], [NAN, NAN], [-0.0, 0.0]]
CONDITIONS = [
    *(f"price {operator} {value}" for operator in ("<", "<=", "=", "<>", ">=", ">") for value in ("0", "1", "'nan'")),
    "NOT price > 0",
    "price IN (0, 1)",
    "price NOT IN (0, 1)",
    "size IN (1, 2)",
    "size NOT IN (1, 2)",
    "size NOT IN (1, NULL)",
    "NOT (size = 1 AND name = 'x')",
    "size IS DISTINCT FROM 1",
    "name IS NULL OR size > 2",
    "name LIKE 'x%'",
    "size + 1 > 2",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """An append table of five files, with NULL and NaN."""
    made = new_table(tmp_path_factory.mktemp("engines"), COLUMNS, keys=(), options={"bucket": "-1"})
    for number, prices in enumerate(FILES):
        with made.writer(commit_user="etl") as writer:
            writer.write(rows(made, (10 * number, prices[0], number, "x"), (10 * number + 1, prices[1], None, None)))
            writer.commit(identifier=number)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_duckdb_finds_the_rows_that_it_finds_in_a_copy(table: Table, condition: str) -> None:
    connection = table.scan().to_duckdb("lazy")
    connection.register("copied", table.scan().to_arrow())
    query = "SELECT id FROM {} WHERE " + condition + " ORDER BY id"
    assert connection.sql(query.format("lazy")).fetchall() == connection.sql(query.format("copied")).fetchall()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_datafusion_finds_the_rows_that_it_finds_in_a_copy_or_refuses_nan(table: Table, condition: str) -> None:
    context = datafusion.SessionContext()
    context.register_dataset("lazy", table.scan().to_dataset())
    context.from_arrow(table.scan(), name="streamed")
    context.register_record_batches("copied", [table.scan().to_arrow().to_batches()])

    def ids(name: str) -> list[object]:
        return sorted(row["id"] for row in context.sql(f"SELECT id FROM {name} WHERE {condition}").to_pylist())

    assert ids("streamed") == ids("copied")
    if "price" in condition:
        with pytest.raises(Exception, match="orders NaN in another way"):
            ids("lazy")
    else:
        assert ids("lazy") == ids("copied")


@pytest.mark.parametrize("condition", ["true", "size = 2", "name IS NULL", "id > 10"])
def test_rows_are_counted_where_no_column_is_read(table: Table, condition: str) -> None:
    context, dataset = datafusion.SessionContext(), table.scan().to_dataset()
    context.register_dataset("lazy", dataset)
    context.register_record_batches("copied", [table.scan().to_arrow().to_batches()])
    counts = [
        context.sql(f"SELECT count(*) AS n FROM {name} WHERE {condition}").to_pylist() for name in ("lazy", "copied")
    ]
    assert counts[0] == counts[1]
    assert dataset.scanner(columns=[]).to_table().num_rows == dataset.scanner().to_table().num_rows > 0


def polars_conditions() -> list[pl.Expr]:
    price, size, name = pl.col("price"), pl.col("size"), pl.col("name")
    return [
        price > 0,
        ~(price > 0),
        price < NAN,
        price >= NAN,
        price.is_nan(),
        price.is_in([0.0, 1.0]) | (size > 2),
        size.is_in([1, 2]),
        ~size.is_in([1, 2]),
        ~size.is_in([1, None]),
        size.is_in([1, 2]).is_null(),
        size.eq_missing(None),
        size != 1,
        (size > 1) & (name == "x"),
        name.is_null() | (size < 1),
        name.str.starts_with("x"),
    ]


@pytest.mark.parametrize("condition", polars_conditions(), ids=str)
def test_a_lazy_polars_frame_finds_the_rows_that_a_copy_has(table: Table, condition: pl.Expr) -> None:
    copied, lazy = table.scan().to_polars(), table.scan().to_polars(lazy=True)
    assert sorted(lazy.filter(condition).collect()["id"]) == sorted(copied.filter(condition)["id"])
    assert lazy.filter(condition).select("name").collect().height == copied.filter(condition).height


def duckdb_ids(table: Table) -> list[object]:
    found = table.scan().to_duckdb("orders").sql("SELECT id FROM orders WHERE size = 2")
    return [identifier for (identifier,) in found.fetchall()]


def polars_ids(table: Table) -> list[object]:
    return list(table.scan().to_polars(lazy=True).filter(pl.col("size") == 2).collect()["id"])


def datafusion_ids(table: Table) -> list[object]:
    context = datafusion.SessionContext()
    context.register_dataset("orders", table.scan().to_dataset())
    return [row["id"] for row in context.sql("SELECT id FROM orders WHERE size = 2").to_pylist()]


@pytest.mark.parametrize("ids", [duckdb_ids, polars_ids, datafusion_ids])
def test_files_that_cannot_contain_a_row_are_not_opened(tmp_path: Path, ids: Callable[[Table], list[object]]) -> None:
    table = new_table(tmp_path, COLUMNS, keys=(), options={"bucket": "-1"})
    for number in range(3):
        with table.writer(commit_user="etl") as writer:
            writer.write(rows(table, (number, 1.0, number, "x")))
            writer.commit(identifier=number)
    (needed,) = table.scan(where=pc.field("size") == 2).plan().splits
    names = {file.name for file in needed.files}
    for file in Path(table.path).glob("bucket-0/*.parquet"):
        if file.name not in names:
            file.unlink()
    assert ids(table) == [2]


def test_a_frame_keeps_its_snapshot_and_its_limit(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    for number in range(2):
        with table.writer(commit_user="etl") as writer:
            writer.write(rows(table, (number, "a", None)))
            writer.commit(identifier=number)
        if number == 0:
            frame, connection = table.scan().to_polars(lazy=True), table.scan().to_duckdb("orders")
    assert frame.collect().height == 1
    assert connection.sql("SELECT count(*) FROM orders").fetchall() == [(1,)]
    assert table.scan(limit=1).to_polars(lazy=True).filter(pl.col("id") >= 0).collect().height == 1
    assert frame.head(0).collect().height == 0


@pytest.mark.slow
def test_conditions_of_the_scan_and_of_the_engine_are_both_applied(table: Table) -> None:
    for where in (pc.field("size") > 0, "size > 0"):
        scan = table.scan(columns=["id", "size"], where=where)
        lazy = scan.to_polars(lazy=True).filter(pl.col("size") < 3).collect()
        assert sorted(lazy["id"]) == [10, 20]
        connection = scan.to_duckdb("orders")
        assert connection.sql("SELECT id FROM orders WHERE size < 3 ORDER BY id").fetchall() == [(10,), (20,)]


def test_changes_are_read_with_their_kinds(table: Table) -> None:
    scan = table.scan(options={"incremental-between": "1,3"})
    assert scan.to_polars(lazy=True).filter(pl.col("rowkind") == "+I").collect().height == 4
    assert scan.to_duckdb("changes").sql("SELECT count(*) FROM changes WHERE size = 2").fetchall() == [(1,)]


def test_libraries_read_a_scan_as_an_arrow_stream(table: Table) -> None:
    scan = table.scan(columns=["id"])
    assert pa.table(scan).num_rows == pl.DataFrame(scan).height == 10
    assert duckdb.sql("SELECT max(id) FROM scan").fetchall() == [(41,)]


def test_duckdb_gets_no_table_without_columns(tmp_path: Path) -> None:
    catalog = penstock.Catalog(tmp_path)
    catalog.create_database("d")
    scan = catalog.create_table("d.t", [("id", "INT")]).scan(columns=[])
    with pytest.raises(ConfigError, match="without columns"):
        scan.to_duckdb("t")
    assert scan.count() == scan.to_polars(lazy=True).collect().height == 0
