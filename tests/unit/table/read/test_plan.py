"""A scan skips files, buckets and partitions without matching rows, and columns that are not requested."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import TableCorrupt
from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from penstock.table.read.filter import RowFilter
from penstock.table.schema.changes import UpdateColumnType
from penstock.table.schema.schema_files import schema_json
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.queries.session import Session
from penstock.table.values.types import AtomicType
from tests.unit.table.tables import content, new_table, rows

F = pc.field
COLUMNS = [("id", "BIGINT NOT NULL"), ("city", "STRING NOT NULL"), ("note", "STRING")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two partitions of four buckets, six commits; each of 200 ids of its own."""
    made = new_table(
        tmp_path,
        COLUMNS,
        keys=("id", "city"),
        partitions=("city",),
        options={"bucket": "4", "write-only": "true"},
    )
    for commit in range(6):
        with made.writer() as writer:
            ids = range(commit * 200, commit * 200 + 200)
            writer.write(rows(made, *((n, "ab"[commit % 2], f"note {commit}") for n in ids)))
            writer.commit()
    return made


def files(table: Table, where: pc.Expression | None = None) -> int:
    return table.scan(where=where).plan().files


@pytest.mark.parametrize(
    ("old", "values", "new", "where", "expected"),
    [
        ("VARCHAR(10)", ["abcdef", "zzz"], "VARCHAR(3)", F("c") == "abc", ["abc"]),
        ("DECIMAL(18, 4)", [Decimal("1.2350"), None], "DECIMAL(18, 2)", F("c") == Decimal("1.24"), [Decimal("1.24")]),
        ("DECIMAL(18, 2)", [Decimal("123456.50")], "DECIMAL(5, 2)", F("c").is_null(), [None]),
        ("DECIMAL(18, 2)", [Decimal("1.50")], "DECIMAL(5, 2)", F("c") > Decimal("1.00"), [Decimal("1.50")]),
        (
            "TIMESTAMP(6)",
            [datetime(2026, 1, 1, 0, 0, 0, 900_000)],
            "TIMESTAMP(0)",
            F("c") <= datetime(2026, 1, 1),
            [datetime(2026, 1, 1)],
        ),
        ("VARCHAR(3)", ["abc"], "VARCHAR(10)", F("c") == "abcdef", []),
    ],
)
def test_files_whose_values_a_narrower_type_changes_are_not_skipped(
    tmp_path: Path, old: str, values: list[object], new: str, where: pc.Expression, expected: list[object]
) -> None:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    table = catalog.create_table("d.t", [("c", old)])
    for value in values:
        with table.writer() as writer:
            writer.write(rows(table, (value,)))
            writer.commit()
    catalog.alter_table("d.t", [UpdateColumnType("c", new)])
    assert catalog.table("d.t").scan(where=where).to_arrow()["c"].to_pylist() == expected
    # A wider type changes no value, so that statistics still rule files out.
    assert files(catalog.table("d.t"), where) == (0 if expected == [] else len(values))


PRUNED = {
    "the value of a partition": (F("city") == "a", 12),
    "a partition there is not": (F("city") == "c", 0),
    "a key's bucket": (F("id") == 7, 1),
    "a range of keys": (F("id") < 150, 4),
    "keys beyond all files": (F("id") > 10**9, 0),
    "a partition and a key": ((F("city") == "b") & (F("id") == 7), 0),
    "either of two": ((F("city") == "a") | (F("id") >= 1000), 16),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRUNED)
def test_a_condition_skips_files_without_matching_rows(table: Table, name: str) -> None:
    where, wanted = PRUNED[name]
    assert files(table) == 24
    assert files(table, where) == wanted
    every = table.scan().to_arrow().filter(where).sort_by("id")
    assert table.scan(where=where).to_arrow().sort_by("id").equals(every)


@pytest.mark.slow
def test_conditions_on_values_skip_files_only_if_no_newer_row_is_missed(table: Table) -> None:
    assert files(table, F("note") == "note 5") == 24  # an older file may hold what a newer one replaced
    table.compact()
    assert files(table, F("note") == "note 5") < files(table)
    assert files(table, F("note") == "z") == 0


def test_a_number_beyond_the_type_of_the_key_is_compared_with_another_column(tmp_path: Path) -> None:
    columns = [("id", "INT NOT NULL"), ("big", "BIGINT")]
    table = new_table(tmp_path, columns, keys=("id",), options={"bucket": "4"})
    with table.writer() as writer:
        writer.write(rows(table, (1, 2**40), (2, 2**40)))
        writer.commit()
    where = (F("id") == 2) & (F("big") == 2**40)
    assert files(table, where) == 1
    assert table.scan(where=where).to_arrow().num_rows == 1


def test_a_condition_on_an_old_value_does_not_return_a_replaced_row(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "write-only": "true"})
    for name in ("old", "new"):
        with table.writer() as writer:
            writer.write(rows(table, (1, name, None)))
            writer.commit()
    assert table.scan(where=F("name") == "old").to_arrow().num_rows == 0


def test_splits_follow_the_target_size(tmp_path: Path) -> None:
    table = new_table(tmp_path, keys=(), options={"bucket": "-1", "bucket-key": "", "write-only": "true"})
    for commit in range(8):
        with table.writer() as writer:
            writer.write(rows(table, (commit, "x", None)))
            writer.commit()
    cost = {"source.split.open-file-cost": "1 kb"}
    assert len(table.scan(options=cost).plan().splits) == 1
    assert len(table.scan(options={**cost, "source.split.target-size": "1 b"}).plan().splits) == 8
    two = table.scan(options={"source.split.open-file-cost": "4 mb", "source.split.target-size": "8 mb"})
    assert [split.rows for split in two.plan().splits] == [2, 2, 2, 2]
    assert sum(batch.num_rows for split in two.plan().splits for batch in two.read(split)) == 8


def test_sections_of_keys_are_split_but_never_divided(tmp_path: Path) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "write-only": "true"})
    for start in (0, 0, 100, 100, 200):  # keys 0.., 100.. and 200..: three sections, the first two of two runs
        with table.writer() as writer:
            writer.write(rows(table, *((n, f"{start}", None) for n in range(start, start + 50))))
            writer.commit()
    scan = table.scan(options={"source.split.target-size": "1 b"})
    splits = scan.plan().splits
    assert [(len(split.files), split.raw) for split in splits] == [(2, False), (2, False), (1, True)]
    found = pa.Table.from_batches(batch for split in splits for batch in scan.read(split))
    assert sorted(found["id"].to_pylist()) == [n for start in (0, 100, 200) for n in range(start, start + 50)]


@pytest.mark.parametrize("option", [("merge-engine", "first-row"), ("deletion-vectors.enabled", "true")])
def test_rows_on_level_0_are_invisible_if_compactions_decide_what_is_read(
    tmp_path: Path, option: tuple[str, str]
) -> None:
    table = new_table(tmp_path, options=dict([option, ("bucket", "1"), ("write-only", "true")]))
    with table.writer() as writer:
        writer.write(rows(table, (1, "a", None)))
        writer.commit()
    assert content(table) == []
    table.compact()
    assert content(table) == [(1, "a", None)]


@pytest.mark.slow
def test_only_requested_columns_are_returned_in_the_requested_order(table: Table) -> None:
    found = table.scan(columns=["note", "id"], where=F("city") == "a").to_arrow()
    assert found.column_names == ["note", "id"]
    assert table.scan(columns=[]).to_arrow().num_rows == 1200


@pytest.fixture
def partitioned(tmp_path: Path) -> Table:
    """Three partitions of one file each, with ids 10 to 13, 20 to 23 and 30 to 33."""
    columns = [("dt", "STRING"), ("id", "INT"), ("price", "DECIMAL(10, 2)"), ("x", "DOUBLE")]
    table = new_table(tmp_path, columns, keys=[], partitions=["dt"], options={"bucket": "-1"})
    for day in (1, 2, 3):
        with table.writer() as writer:
            ids = range(10 * day, 10 * day + 4)
            data = {"dt": [str(day)] * 4, "id": list(ids), "price": [Decimal(day)] * 4, "x": [float("nan"), 1, 2, 3]}
            writer.write(pa.table(data, table.schema))
            writer.commit()
    return table


TEXTS = {
    "dt = '1'": 1,
    "DT = '1' AND upper(dt) = '1'": 1,
    "`dt` IN ('1', '3')": 2,
    "dt IN ('2')": 1,
    "NOT dt = '2' AND id < 25": 2,  # as of Arrow's expressions
    "dt = '1' OR id > 25": 2,
    "id BETWEEN 21 AND 22": 1,
    "id = 12": 1,
    "id + 1 = 13": 1,
    "price >= 2.5": 1,
    "dt IS NULL": 0,
    "x > 100": 3,  # NaN is greater than all to SQL, and in no file's statistics
    "id IN (SELECT 12)": 3,
    "id IN (SELECT id FROM rows)": 3,
    "length(dt) = 1": 3,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
def test_a_condition_in_sql_skips_files(partitioned: Table, text: str) -> None:
    scan = partitioned.scan(where=text)
    assert scan.plan().files == TEXTS[text]
    (rows,) = partitioned.scan().to_arrow().combine_chunks().to_batches()
    everything = RowFilter.of(text, partitioned.schema, "t").kept(rows)
    assert sorted(scan.to_arrow()["id"].to_pylist()) == sorted(everything["id"].to_pylist())


@pytest.mark.slow
def test_a_delete_by_sql_keeps_other_partitions(partitioned: Table, opened: list[str]) -> None:
    partitioned.delete("dt = '2' AND id = 21")
    assert {path.split("/dt=")[1][0] for path in opened} == {"2"}
    assert partitioned.scan().to_arrow().num_rows == 11


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "partitions"),
    [
        ("SELECT count(*) FROM shop.orders WHERE dt = '3'", {"3"}),
        ("SELECT * FROM shop.orders AS o WHERE o.id > 22 AND o.id < 30", {"2"}),
        ("SELECT * FROM shop.orders /*+ OPTIONS('scan.snapshot-id'='3') */ AS o WHERE id = 11", {"1"}),
    ],
)
def test_a_query_reads_only_files_that_match_its_condition(
    partitioned: Table, opened: list[str], query: str, partitions: set[str]
) -> None:
    with Session(penstock.Catalog(partitioned.path.partition("/shop.db")[0])) as session:
        assert session.query(query).num_rows
    assert {path.split("/dt=")[1][0] for path in opened} == partitions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "partitions"),
    [
        ("UPDATE shop.orders SET note = 'x' WHERE city = 'a' AND id = 7", {"a"}),
        ("DELETE FROM shop.orders AS o WHERE o.city IN ('b', 'c') AND o.id = 207", {"b"}),
        (
            "MERGE INTO shop.orders AS o USING (SELECT 7 AS id) AS s ON o.id = s.id AND o.city = 'a' "
            "WHEN MATCHED THEN UPDATE SET note = 'y'",
            {"a"},
        ),
    ],
)
def test_an_update_reads_only_files_that_match_its_condition(
    table: Table, opened: list[str], statement: str, partitions: set[str]
) -> None:
    with Interpreter(penstock.Catalog(table.path.partition("/shop.db")[0])) as interpreter:
        [result] = interpreter.run(statement)
    assert result["snapshot"][0].as_py() is not None
    assert {path.split("/city=")[1][0] for path in opened} == partitions


@pytest.mark.slow
def test_a_statement_sees_one_snapshot_and_the_newest_columns(partitioned: Table) -> None:
    catalog = penstock.Catalog(partitioned.path.partition("/shop.db")[0])
    with Session(catalog) as session:
        catalog.alter_table("shop.orders", [penstock.AddColumn("new", "INT")])
        assert session.query("SELECT count(*) AS n FROM shop.orders WHERE new IS NULL")["n"].to_pylist() == [12]
        partitioned.delete("dt = '1'")
        assert session.query("SELECT count(*) AS n FROM shop.orders")["n"].to_pylist() == [12]


@pytest.mark.slow
def test_a_damaged_file_keeps_its_error_in_sql(partitioned: Table) -> None:
    for path in Path(partitioned.path).rglob("*.parquet"):
        path.write_bytes(b"PAR1")
    with Session(penstock.Catalog(partitioned.path.partition("/shop.db")[0])) as session, pytest.raises(TableCorrupt):
        session.query("SELECT sum(id) FROM shop.orders")


@pytest.mark.slow
def test_a_limit_ends_the_reading(partitioned: Table, opened: list[str]) -> None:
    assert partitioned.scan(limit=3).to_arrow().num_rows == 3
    assert len(opened) == 1
    assert [partitioned.scan(limit=count).to_arrow().num_rows for count in (0, 4, 5, 12, 99)] == [0, 4, 5, 12, 12]
    assert partitioned.head().num_rows == 10
    assert partitioned.scan(columns=["id"], where="id > 30").head(2).to_pydict() == {"id": [31, 32]}


def test_rows_are_counted_by_a_condition_and_a_limit(partitioned: Table) -> None:
    assert (partitioned.count(), partitioned.count("dt = '1'"), partitioned.scan(limit=5).count()) == (12, 4, 5)


@pytest.mark.slow
def test_rows_with_keys_are_counted(table: Table) -> None:
    assert table.count() == 1200
    assert table.scan(snapshot=2).count() == 400
    changes = table.scan(options={"incremental-between": "1,2"})
    assert changes.count() == 200


def test_a_time_may_be_text(partitioned: Table) -> None:
    at = datetime.fromtimestamp(partitioned.snapshots[0].time_millis / 1000).isoformat(sep=" ")
    assert partitioned.scan(timestamp=at).count() == 4


def test_a_missing_warehouse_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    catalog = penstock.Catalog(tmp_path / "nowhere")
    assert (catalog.databases(), catalog.databases()) == ([], [])
    assert caplog.text.count("warehouse_missing") == 1


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that are opened."""
    paths: list[str] = []
    open_input = LocalStorage.open_input

    def noted(self: LocalStorage, path: str) -> object:
        paths.append(path)
        return open_input(self, path)

    monkeypatch.setattr(LocalStorage, "open_input", noted)
    return paths


def test_rows_are_found_after_a_bucket_key_has_become_another_type(tmp_path: Path) -> None:
    """Java lets it: older rows stay in the buckets of the former type, also when they are compacted."""
    columns = [("id", "INT"), ("v", "INT")]
    table = new_table(tmp_path, columns, keys=(), options={"bucket": "4", "bucket-key": "id", "write-only": "true"})
    for number in range(2):
        with table.writer() as writer:
            writer.write(rows(table, *((n, number) for n in range(-20, 20))))
            writer.commit()
    first = table.definition
    fields = (replace(first.fields[0], type=AtomicType("BIGINT")), *first.fields[1:])
    changed = replace(first, id=1, fields=fields)
    (Path(table.path) / "schema" / "schema-1").write_bytes(schema_json(changed))
    for act in ("read", "compact"):
        table = table.refresh()
        if act == "compact":
            table.compact(full=True)
        found = [table.scan(where=F("id") == n).to_arrow().num_rows for n in range(-20, 20)]
        assert found == [2] * 40, act
