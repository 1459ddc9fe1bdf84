"""Iceberg metadata of ours and of Java Paimon, each continued by the other, read by pyiceberg and DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.table.handle import Table
from tests.iceberg import AT_TABLE, VECTORS, iceberg_rows, opened, ordered
from tests.interop.duckdb_iceberg.client import DuckDBIceberg
from tests.interop.oracle.client import Oracle


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBIceberg]:
    with DuckDBIceberg.started(tmp_path_factory.mktemp("duckdb")) as running:
        yield running


def folder_of(table: Table) -> Path:
    """The metadata folder, wherever the options put it."""
    root = Path(table.path)
    inside, outside = root / "metadata", root.parents[1] / "iceberg" / root.parent.stem / root.name / "metadata"
    return inside if inside.exists() else outside


def assert_read(table: Table, duckdb: DuckDBIceberg, expected: pa.Table | None = None, at: int | None = None) -> None:
    """Both readers return these rows, those of the table unless they are given."""
    rows = table.scan(snapshot=at).to_arrow() if expected is None else expected
    folder = folder_of(table)
    assert ordered(iceberg_rows(folder, at)) == ordered(rows)
    assert ordered(duckdb.rows(str(folder), at)) == ordered(rows)


def column(values: list[Any], type_: pa.DataType) -> pa.Array:
    return pa.array(values).cast(type_) if isinstance(values[0], str) else pa.array(values, type_)


EVERY_TYPE = [
    ("c_boolean", "BOOLEAN", True),
    ("c_tinyint", "TINYINT", -7),
    ("c_smallint", "SMALLINT", 300),
    ("c_int", "INT", -70_000),
    ("c_bigint", "BIGINT", 2**40),
    ("c_float", "FLOAT", 0.5),
    ("c_double", "DOUBLE", -0.25),
    ("c_date", "DATE", "2024-02-29"),
    ("c_char", "CHAR(3)", "abc"),
    ("c_string", "STRING", "naïve"),
    ("c_bytes", "BYTES", b"\x00\x01"),
    ("c_decimal", "DECIMAL(20, 3)", "-12345.678"),
    ("c_decimal38", "DECIMAL(38, 10)", "1.5"),
    ("c_timestamp", "TIMESTAMP(6)", "2024-01-01 10:00:00.123456"),
    ("c_local", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "2024-01-01 10:00:00.123456Z"),
    ("c_array", "ARRAY<INT>", [1, None, 3]),
    ("c_map", "MAP<STRING, BIGINT>", [("a", 1), ("b", None)]),
    ("c_row", "ROW<x INT, y ARRAY<STRING>>", {"x": 1, "y": ["a"]}),
    ("c_nested", "ARRAY<MAP<STRING, INT>>", [[("k", 1)]]),
]


@pytest.mark.parametrize("keyed", [False, True])
def test_every_type_is_read(tmp_path: Path, duckdb: DuckDBIceberg, keyed: bool) -> None:
    columns = [("id", "INT"), *((name, type_) for name, type_, _ in EVERY_TYPE)]
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    keys = ["id"] if keyed else []
    table = catalog.create_table(
        "shop.t", columns, primary_keys=keys, options={**AT_TABLE, **({"bucket": "1"} if keyed else {})}
    )
    fields = list(table.schema)[1:]
    values = [column([value, None], field.type) for field, (_, _, value) in zip(fields, EVERY_TYPE, strict=True)]
    with table.writer() as writer:
        writer.write(pa.table([pa.array([1, 2], pa.int32()), *values], schema=table.schema))
        writer.commit()
    table.compact()
    assert_read(table, duckdb)


PARTITION_TYPES = [
    ("BOOLEAN", True, False),
    ("TINYINT", 1, -1),
    ("SMALLINT", 1, -1),
    ("INT", 1, -1),
    ("BIGINT", 2**40, -1),
    ("DATE", "2024-02-29", "1969-12-31"),
    ("STRING", "é/1", "b"),
    ("CHAR(2)", "ab", "cd"),
    ("TIMESTAMP(6)", "2024-01-01 10:00:00.123456", "1969-01-01 00:00:00"),
    ("DOUBLE", 0.5, -1.5),
]


@pytest.mark.parametrize(("type_", "first", "second"), PARTITION_TYPES, ids=str)
def test_partitions_of_every_type_are_read_and_dropped(
    tmp_path: Path, duckdb: DuckDBIceberg, type_: str, first: Any, second: Any
) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("shop")
    table = catalog.create_table("shop.t", [("id", "INT"), ("p", type_)], partition_keys=["p"], options=AT_TABLE)
    kind = table.schema.field("p").type
    for number in range(2):
        values = column([first, second, None], kind)
        with table.writer() as writer:
            writer.write(
                pa.table([pa.array([number, number + 10, number + 20], pa.int32()), values], schema=table.schema)
            )
            writer.commit()
    assert_read(table, duckdb)
    table.delete("id IN (0, 11)")
    assert_read(table, duckdb)


ROWS = [("id", "INT NOT NULL"), ("v", "STRING"), ("p", "STRING")]
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "append": ((), (), {"bucket": "-1"}),
    "append partitioned": ((), ("p",), {"bucket": "-1"}),
    "append buckets": ((), (), {"bucket": "2", "bucket-key": "id"}),
    "append vectors": ((), (), {"bucket": "-1", **VECTORS}),
    "keys": (("id",), (), {"bucket": "2"}),
    "keys partitioned": (("id", "p"), ("p",), {"bucket": "1"}),
    "keys vectors": (("id",), (), {"bucket": "1", **VECTORS}),
    "keys dynamic": (("id",), (), {"bucket": "-1"}),
}


class Model:
    """A table under random operations, and the rows that Iceberg should show of it."""

    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self.random = random.Random(seed)
        keys, partitions, options = KINDS[kind]
        self.keyed, self.vectors = bool(keys), "deletion-vectors.enabled" in options
        self.catalog = penstock.Catalog(str(folder))
        self.catalog.create_database("shop")
        storage = self.random.choice(["table-location", "hadoop-catalog"])
        more = {"metadata.iceberg.storage": storage, "metadata.iceberg.compaction.max.file-num": "12"}
        self.table = self.catalog.create_table(
            "shop.t", ROWS, primary_keys=keys, partition_keys=partitions, options={**options, **more}
        )
        self.shown: dict[int, pa.Table] = {}

    def step(self) -> None:
        chosen = self.random.choices(
            [self.write, self.delete, self.compact, self.change, self.expire, self.tag, self.overwrite, self.rollback],
            [10, 3, 3, 1, 1, 1, 1, 1],
        )[0]
        chosen()
        self.table = self.table.refresh()

    def _rows(self, count: int) -> pa.Table:
        data: dict[str, list[Any]] = {}
        for field in self.table.schema:
            if field.name == "p":
                data["p"] = [self.random.choice(["x", "y", "z"]) for _ in range(count)]
            elif pa.types.is_integer(field.type):
                data[field.name] = [self.random.randrange(40) for _ in range(count)]
            else:
                data[field.name] = [self.random.choice(["a", "b", None]) for _ in range(count)]
        return pa.table(data, self.table.schema)

    def write(self) -> None:
        with self.table.writer() as writer:
            writer.write(self._rows(self.random.randrange(1, 6)))
            writer.commit()

    def delete(self) -> None:
        name = self.table.schema.names[0]
        self.table.delete(f"{name} % {self.random.randrange(2, 9)} = 0")

    def compact(self) -> None:
        self.table.compact(full=self.random.random() < 0.7)

    def change(self) -> None:
        names = [name for name in self.table.schema.names if name.startswith("extra")]
        changes: list[penstock.SchemaChange] = [penstock.AddColumn(f"extra{self.random.randrange(10**6)}", "STRING")]
        if names:
            changes.append(
                self.random.choice([penstock.DropColumn(names[0]), penstock.RenameColumn(names[0], names[0] + "_r")])
            )
        self.catalog.alter_table("shop.t", changes)

    def expire(self) -> None:
        if self.table.snapshots:
            self.table.expire_snapshots(retain_max=3, retain_min=1)

    def tag(self) -> None:
        if self.table.snapshots:
            self.table.create_tag(f"t{self.random.randrange(10**6)}")

    def overwrite(self) -> None:
        with self.table.overwrite() as writer:
            writer.write(self._rows(3))
            writer.commit()

    def rollback(self) -> None:
        ids = [snapshot.id for snapshot in self.table.snapshots]
        if len(ids) > 1:
            self.table.rollback_to(self.random.choice(ids[-3:]))

    def expected(self) -> pa.Table:
        """The rows that readers of Iceberg should see: with keys and without vectors, those of the top level alone."""
        if not self.keyed or self.vectors:
            return self.table.scan().to_arrow()
        return self.table.system("ro")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_histories_are_read(tmp_path: Path, duckdb: DuckDBIceberg, kind: str) -> None:
    model = Model(tmp_path, kind, seed=len(kind))
    for number in range(20):
        model.step()
        if not model.table.snapshots:
            continue
        rows = model.expected()
        if number % 2:
            assert ordered(iceberg_rows(folder_of(model.table))) == ordered(rows), number
        if number % 7 == 0 or number == 19:
            assert ordered(duckdb.rows(str(folder_of(model.table)))) == ordered(rows), number


JAVA_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "append": ((), ("p",), {"bucket": "-1"}),
    "keys": (("id",), (), {"bucket": "1"}),
    "keys vectors": (("id",), (), {"bucket": "1", **VECTORS}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", JAVA_KINDS)
@pytest.mark.parametrize("java_creates", [True, False])
def test_java_and_we_publish_in_turn(
    tmp_path: Path, duckdb: DuckDBIceberg, oracle: Oracle, kind: str, java_creates: bool
) -> None:
    keys, partitions, more = JAVA_KINDS[kind]
    options = {**more, "metadata.iceberg.storage": "hadoop-catalog"}
    catalog = penstock.Catalog(str(tmp_path))
    if java_creates:
        oracle.create(tmp_path, "shop.t", ROWS, primary_keys=keys, partition_keys=partitions, options=options)
    else:
        catalog.create_database("shop")
        catalog.create_table("shop.t", ROWS, primary_keys=keys, partition_keys=partitions, options=options)
    table, uuids = catalog.table("shop.t"), set()
    for number in range(6):
        if number % 2 == (0 if java_creates else 1):
            rows = [("+I", number, "java", "x"), ("+I", 100, f"java{number}", "y")]
            oracle.write(Path(table.path), rows, compact="full" if keys and number % 3 else "none")
        else:
            table = table.refresh()
            with table.writer() as writer:
                columns = [[number, 100], ["ours", f"ours{number}"], ["x", "y"]]
                writer.write(pa.table(columns, schema=table.schema))
                writer.commit()
            if number % 3:
                table.compact()
        if kind == "keys" and java_creates and number == 0:
            continue  # the first time, Java shows a single file of level 0 too
        expected = table.scan().to_arrow() if kind != "keys" else table.system("ro")
        folder = folder_of(table)
        assert ordered(duckdb.rows(str(folder))) == ordered(expected), number
        if kind != "keys vectors":  # Java refers to its index files, which are not Puffin files to pyiceberg
            assert ordered(iceberg_rows(folder)) == ordered(expected), number
        uuids.add(opened(folder).metadata.table_uuid)
    assert len(uuids) == 1  # nobody made the metadata again
    catalog.alter_table("shop.t", [penstock.AddColumn("more", "INT")])
    oracle.write(Path(table.path), [("+I", 7, "java", "x", 1)], compact="full" if keys else "none")
    table = table.refresh()
    assert ordered(duckdb.rows(str(folder_of(table)))) == ordered(table.scan().to_arrow())
    for snapshot in opened(folder_of(table)).metadata.snapshots[-3:]:
        duckdb.rows(str(folder_of(table)), snapshot.snapshot_id)
