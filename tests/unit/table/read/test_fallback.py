"""Which branch is read and written, and partitions that come from the fallback branch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.handle import Table
from penstock.table.sql.interpreter import Interpreter
from penstock.table.sql.queries.session import Session

FALLBACK = "scan.fallback-branch"
COLUMNS = [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "STRING")]


@pytest.fixture
def catalog(tmp_path: Path) -> penstock.Catalog:
    made = penstock.Catalog(tmp_path)
    made.create_database("d")
    return made


@pytest.fixture
def table(catalog: penstock.Catalog) -> Table:
    """Main has 1, the branch b also 2."""
    made = catalog.create_table("d.t", [("id", "INT NOT NULL"), ("v", "INT")], ["id"], options={"bucket": "1"})
    write(made, id=1, v=1)
    made.create_tag("x")
    write(made.create_branch("b", "x"), id=2, v=2)
    return made


def write(table: Table, **row: object) -> None:
    with table.writer() as writer:
        writer.write(pa.Table.from_pylist([row], table.schema))
        writer.commit()


def ids(table: Table, **options: object) -> list[int]:
    return sorted(table.scan(**options).to_arrow()["id"].to_pylist())  # type: ignore[arg-type]


ON_BRANCH = {"branch": "b"}
ROW = {"id": [9], "v": [9]}


def written(table: Table) -> None:
    with table.writer(options=ON_BRANCH) as writer:
        writer.write(pa.table(ROW, table.schema))
        writer.commit()


def overwritten(table: Table) -> None:
    with table.overwrite(options=ON_BRANCH) as writer:
        writer.write(pa.table(ROW, table.schema))


WRITES: dict[str, tuple[Callable[[Table], object], list[int]]] = {
    "writer": (written, [1, 2, 9]),
    "overwrite": (overwritten, [9]),
    "compact": (lambda table: table.compact(options=ON_BRANCH), [1, 2]),
    "expire": (lambda table: table.expire_snapshots(retain_max=1, older_than=1 << 60, options=ON_BRANCH), [1, 2]),
    "compact manifests": (lambda table: table.compact_manifests(options=ON_BRANCH), [1, 2]),
}


@pytest.mark.parametrize("name", WRITES)
def test_the_option_branch_names_what_is_written(table: Table, name: str) -> None:
    verb, expected = WRITES[name]
    before = table.snapshots
    verb(table)
    assert table.snapshots == before
    assert ids(table) == [1]
    assert ids(table.branch("b")) == expected


@pytest.mark.slow
def test_the_option_branch_names_what_is_read(table: Table, catalog: penstock.Catalog) -> None:
    assert ids(table, options=ON_BRANCH) == ids(table, branch="b") == [1, 2]
    assert ids(table.branch("b"), options={"branch": "main"}) == ids(table.branch("b"), branch="main") == [1]
    with pytest.raises(ConfigError, match="both branch 'b' and branch 'main'"):
        ids(table, branch="b", options={"branch": "main"})
    with pytest.raises(ConfigError, match="no branch 'nosuch'"):
        ids(table, options={"branch": "nosuch"})
    with Session(catalog) as session:
        rows = session.query("SELECT id FROM d.t /*+ OPTIONS('branch'='b') */ ORDER BY id")
    assert rows["id"].to_pylist() == [1, 2]


def fallen_back(catalog: penstock.Catalog, keys: list[str], branch_keys: list[str]) -> Table:
    """Main has partition a, the branch partitions a and b in other buckets, and a schema of its own count."""
    catalog.create_table("d.f", COLUMNS, keys, ["dt"], {"bucket": "1" if keys else "-1"})
    table = catalog.table("d.f")
    table.create_branch("stream")
    changes = [penstock.SetOption("bucket", "3" if branch_keys else "-1")]
    if keys != branch_keys:
        schema = table.branch("stream").definition
        store = table.store.on_branch("stream")
        from dataclasses import replace

        changed = replace(schema, id=1, primary_keys=tuple(branch_keys), options={"bucket": "3"})
        assert store.schemas.create(changed)
    else:
        catalog.alter_table("d.f$branch_stream", changes)
    catalog.alter_table("d.f", [penstock.SetOption(FALLBACK, "stream")])
    table = catalog.table("d.f")
    write(table, dt="a", id=1, v="main")
    for number in range(4):
        write(table.branch("stream"), dt="a", id=number, v="hidden")
        write(table.branch("stream"), dt="b", id=number, v="stream")
    return table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "branch_keys"), [(["dt", "id"], ["dt", "id"]), ([], ["dt", "id"]), ([], [])], ids=["keys", "mixed", "none"]
)
def test_partitions_missing_in_main_are_read_from_the_fallback_branch(
    catalog: penstock.Catalog, keys: list[str], branch_keys: list[str]
) -> None:
    table = fallen_back(catalog, keys, branch_keys)
    rows = table.scan().to_arrow()
    assert rows.schema == table.schema
    found = sorted((row["dt"], row["id"], row["v"]) for row in rows.to_pylist())
    assert found == [("a", 1, "main"), *(("b", number, "stream") for number in range(4))]
    assert ids(table, columns=["id"], where=pc.field("dt") == "b") == [0, 1, 2, 3]
    assert ids(table, where="dt = 'a'") == [1]
    assert ids(table, where="dt = 'a' AND id = 2") == []  # the partition is main's, the row is not
    assert ids(table, options={FALLBACK: ""}) == [1]
    assert len(ids(table.branch("stream"))) == 8
    write(table, dt="b", id=7, v="main")
    assert ids(table) == [1, 7]


@pytest.mark.slow
def test_time_travel_reads_the_fallback_branch_of_that_time(catalog: penstock.Catalog) -> None:
    table = fallen_back(catalog, ["dt", "id"], ["dt", "id"])
    write(table, dt="c", id=1, v="main")
    write(table.branch("stream"), dt="d", id=9, v="later")
    newest = table.snapshots[-1].id
    assert ids(table) == [0, 1, 1, 1, 2, 3, 9]
    assert ids(table, snapshot=newest) == [0, 1, 1, 1, 2, 3]
    assert ids(table, snapshot=1) == [1]


@pytest.mark.slow
def test_a_fallback_branch_with_a_different_schema_is_refused(catalog: penstock.Catalog) -> None:
    table = fallen_back(catalog, ["dt", "id"], ["dt", "id"])
    catalog.alter_table("d.f", [penstock.AddColumn("new", "INT")])
    with pytest.raises(ConfigError, match="different columns"):
        table.scan().to_arrow()


@pytest.mark.slow
def test_rows_of_the_fallback_branch_are_not_deleted_through_main(catalog: penstock.Catalog) -> None:
    table = fallen_back(catalog, ["dt", "id"], ["dt", "id"])
    table.delete("id >= 1")
    assert ids(table) == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("system", ["ro", "read_optimized", "audit_log", "binlog"])
def test_system_tables_with_rows_read_partitions_of_the_fallback_branch(catalog: penstock.Catalog, system: str) -> None:
    main = catalog.create_table("d.u", COLUMNS, [], ["dt"])
    write(main, dt="a", id=1, v="main")
    branch = main.create_branch("b")
    catalog.alter_table("d.u$branch_b", [penstock.SetOption("primary-key", "dt,id"), penstock.SetOption("bucket", "1")])
    branch = catalog.table("d.u$branch_b")
    write(branch, dt="a", id=1, v="hidden")
    write(branch, dt="b", id=2, v="branch")
    branch.compact(full=True)
    write(branch, dt="c", id=3, v="not compacted")
    catalog.alter_table("d.u", [penstock.SetOption(FALLBACK, "b")])
    found = [row["v"] for row in catalog.table("d.u").system(system).to_pylist()]
    top = system in {"ro", "read_optimized"}
    expected = ["main", "branch"] if top else ["main", "branch", "not compacted"]
    assert sorted(str(value) for value in found) == sorted(
        str([value] if system == "binlog" else value) for value in expected
    )
    # At main's first snapshot, the branch had no rows yet.
    write(main, dt="a", id=4, v="later")
    assert catalog.table(f"d.u${system}").scan(options={"scan.snapshot-id": "1"}).to_arrow().num_rows == 1


@pytest.mark.slow
def test_files_of_the_fallback_branch_are_listed(catalog: penstock.Catalog) -> None:
    table = fallen_back(catalog, ["dt", "id"], ["dt", "id"])
    listed = table.system("files").to_pylist()
    assert {row["partition"]: row["record_count"] for row in listed if row["partition"] == "{a}"} == {"{a}": 1}
    of_branch = [row for row in listed if row["partition"] == "{b}"]
    assert sum(row["record_count"] for row in of_branch) == 4
    assert all(Path(row["file_path"]).is_file() for row in listed)
    kept = {(row["partition"], row["bucket"]) for row in listed}
    assert {(row["partition"], row["bucket"]) for row in table.system("buckets").to_pylist()} == kept
    # Without the option, and in the branch itself, the files are those of one branch.
    run(catalog, f"ALTER TABLE f RESET ('{FALLBACK}')")
    assert [row["partition"] for row in catalog.table("d.f").system("files").to_pylist()] == ["{a}"]


@pytest.mark.slow
def test_partitions_of_the_fallback_branch_are_listed(catalog: penstock.Catalog) -> None:
    table = fallen_back(catalog, ["dt", "id"], ["dt", "id"])
    assert column(run(catalog, "SHOW PARTITIONS f")) == ["dt=a", "dt=b"]
    assert column(run(catalog, "SHOW PARTITIONS f PARTITION (dt = 'b')")) == ["dt=b"]
    listed = {row["partition"]: row["record_count"] for row in table.system("partitions").to_pylist()}
    assert listed == {"{a}": 1, "{b}": 4}
    # At main's first snapshot, the branch had no rows yet.
    write(table, dt="c", id=1, v="main")
    old = catalog.table("d.f$partitions").scan(options={"scan.snapshot-id": "1"}).to_arrow()
    assert column(old) == ["{a}"]
    run(catalog, f"ALTER TABLE f RESET ('{FALLBACK}')")
    assert column(run(catalog, "SHOW PARTITIONS f")) == ["dt=a", "dt=c"]


@pytest.mark.slow
@pytest.mark.parametrize("exists", ["", "IF EXISTS "])
def test_partitions_of_the_fallback_branch_are_dropped_in_the_branch(catalog: penstock.Catalog, exists: str) -> None:
    table = fallen_back(catalog, ["dt", "id"], ["dt", "id"])
    with pytest.raises(ConfigError, match="the partition dt=b is read from the branch stream") as refused:
        run(catalog, f"ALTER TABLE f DROP {exists}PARTITION (dt = 'b')")
    assert "`t$branch_stream`" in str(refused.value.hint)
    run(catalog, f"ALTER TABLE `f$branch_stream` DROP {exists}PARTITION (dt = 'b')")
    assert ids(table) == [1]


def run(catalog: penstock.Catalog, statement: str) -> pa.Table:
    with Interpreter(catalog, "d") as interpreter:
        return list(interpreter.run(statement))[-1]


def column(rows: pa.Table) -> list[str]:
    return sorted(rows.column(0).to_pylist())
