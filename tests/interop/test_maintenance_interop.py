"""Maintenance: after ours Java reads and writes on, and an expiry of Java's leaves the same files as one of ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.storage.local import LocalStorage
from penstock.table.maintenance.branches import create_branch, fast_forward
from penstock.table.maintenance.orphans import find_orphans
from penstock.table.maintenance.partition_expiry import expire_partitions
from penstock.table.maintenance.rollback import rollback_to
from penstock.table.maintenance.snapshot_expiry import expire_snapshots
from penstock.table.maintenance.tag_deletion import delete_tag
from penstock.table.maintenance.tags import create_tag
from penstock.table.meta.store import TableStore
from penstock.table.operations.repair import compact_manifests, remove_unexisting_files
from tests.golden.relations import Relation, difference
from tests.interop.oracle.client import Oracle

COLUMNS = [("k", "INT NOT NULL"), ("p", "STRING NOT NULL"), ("v", "STRING")]
LATE = 1 << 60
KINDS = {
    "plain": {"bucket": "2"},
    "lookup": {"bucket": "2", "changelog-producer": "lookup"},
    "input": {"bucket": "1", "changelog-producer": "input"},
    "deletion vectors": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "dynamic": {"bucket": "-1"},
}


@pytest.fixture(params=KINDS, ids=str)
def table(oracle: Oracle, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Six commits by Java, compacted as they come, two partitions, tags on the second and the fourth snapshot."""
    options = {**KINDS[request.param], "num-sorted-run.compaction-trigger": "3", "write-only": "false"}
    keep = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
    keys = {"primary_keys": ["k", "p"], "partition_keys": ["p"]}
    path = oracle.create(tmp_path, "shop.t", COLUMNS, options={**options, **keep}, **keys)
    for turn in range(6):
        rows = [("+I", key, "ab"[key % 2], f"{turn}-{key}") for key in range(turn, turn + 4)]
        oracle.write(path, [*rows, ("-D", turn, "ab"[turn % 2], None)], user="u", identifier=turn + 1, compact="auto")
    for snapshot in (2, 4):
        oracle.tag(path, f"t{snapshot}", snapshot)
    return path


def opened(path: Path) -> TableStore:
    return TableStore.open(LocalStorage(sync=False), str(path))


def files(path: Path) -> set[str]:
    found = (file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    return {name for name in found if not name.endswith(".crc")}


def rows(oracle: Oracle, path: Path) -> tuple[Relation, Relation]:
    return oracle.read(path), oracle.read(path, tag="t2")


def same(item: Relation, other: Relation) -> bool:
    return difference(item, other) is None


def test_expiry_keeps_the_files_that_java_keeps(oracle: Oracle, table: Path) -> None:
    javas = Path(shutil.copytree(table, table.with_name("javas")))
    latest, tagged = rows(oracle, table)
    expire_snapshots(opened(table), retain_max=3, retain_min=3, protect_users=0)
    oracle.expire(javas, retain=3)
    assert files(table) == files(javas)
    assert same(oracle.read(table), latest)
    assert same(oracle.read(table, tag="t2"), tagged)
    assert find_orphans(opened(table), LATE) == []
    oracle.write(table, [("+I", 99, "a", "new")], user="u", identifier=99, compact="full")
    assert len(oracle.read(table).rows) == len(latest.rows) + 1
    oracle.expire(table, retain=1)
    assert find_orphans(opened(table), LATE) == []


def test_expired_tags_equal_those_of_java(oracle: Oracle, table: Path) -> None:
    expire_snapshots(opened(table), retain_max=1, retain_min=1, protect_users=0)
    javas = Path(shutil.copytree(table, table.with_name("javas")))
    for name in ("t2", "t4"):
        delete_tag(opened(table), name)
        oracle.delete_tag(javas, name)
        assert files(table) == files(javas)
    assert same(oracle.read(table), oracle.read(javas))


def test_java_reads_our_tags(oracle: Oracle, table: Path) -> None:
    create_tag(opened(table), "ours", 3, retain_millis=86_400_000)
    assert oracle.info(table)["tags"]["ours"] == 3
    assert same(oracle.read(table, tag="ours"), oracle.read(table, snapshot=3))
    described = oracle.system(table, "tags").rows
    assert next(row[-1] for row in described if row[0] == "ours") == "PT24H"


@pytest.mark.parametrize("target", [4, "t4"])
def test_java_continues_after_a_rollback(oracle: Oracle, table: Path, target: int | str) -> None:
    wanted = oracle.read(table, snapshot=4)
    rollback_to(opened(table), target)
    assert same(oracle.read(table), wanted)
    assert oracle.write(table, [("+I", 99, "a", "new")], user="v", identifier=1) in {5, 6}  # 6 where it compacts
    assert len(oracle.read(table).rows) == len(wanted.rows) + 1


def test_an_expired_snapshot_with_a_tag_is_tagged_and_restored_as_in_java(oracle: Oracle, table: Path) -> None:
    expire_snapshots(opened(table), retain_max=1, retain_min=1, protect_users=0)
    javas = Path(shutil.copytree(table, table.with_name("javas")))
    oracle.tag(javas, "again", 2)
    create_tag(opened(table), "again", 2)
    oracle.rollback(javas, snapshot=2)
    rollback_to(opened(table), 2)
    infos = [oracle.info(path) for path in (javas, table)]
    assert infos[0]["tags"] == infos[1]["tags"] == {"again": 2, "t2": 2}
    assert files(table) == files(javas)
    assert same(oracle.read(table), oracle.read(javas))


DAYS = {
    "yyyyMMdd": ["20240101", "202411", "2024111", "20240231", "20241301", "99991231"],
    "yyyy-MM-dd": ["2024-01-01", "2024-1-2", "2024-02-31", "9999-01-01"],
    "yyyy-M-d": ["2024-1-1", "2024-01-02", "9999-1-1"],
    "yyMMdd": ["240101", "991231"],
    "yyyyMMddHH": ["2024010107", "2024010124", "2024010125", "9999010101"],
    "yyyy-MM-dd[ HH:mm]": ["2024-01-01", "2024-01-01 07:30", "9999-01-01"],
    None: ["2024-01-01", "2024-1-2", "2024-01-32", "2024-13-01", "2024-01-01 01:02:03.5", "2024-01-01 01:02", "x"],
}


@pytest.mark.parametrize("formatter", DAYS)
def test_the_same_partitions_expire_as_in_java(oracle: Oracle, tmp_path: Path, formatter: str | None) -> None:
    rule = {"partition.expiration-time": "1 d", "partition.expiration-check-interval": "0 s"}
    rule |= {"partition.timestamp-formatter": formatter} if formatter else {}
    keys = {"primary_keys": ["k", "p"], "partition_keys": ["p"]}
    paths = [
        oracle.create(tmp_path, f"shop.{name}", COLUMNS, options={"bucket": "1", **more}, **keys)
        for name, more in (("javas", rule), ("ours", {}))
    ]
    for path in paths:
        oracle.write(path, [("+I", 1, day, "v") for day in DAYS[formatter]], user="u", identifier=1)
    expire_partitions(opened(paths[1]), rule)
    assert same(*map(oracle.read, paths))


def test_java_uses_our_branches(oracle: Oracle, table: Path) -> None:
    tagged = oracle.read(table, tag="t2")
    create_branch(opened(table), "dev", "t2")
    assert same(oracle.read(table, branch="dev"), tagged)
    oracle.write(table, [("+I", 99, "a", "new")], user="v", identifier=1, branch="dev")
    fast_forward(opened(table), "dev")
    assert len(oracle.read(table).rows) == len(tagged.rows) + 1
    oracle.write(table, [("+I", 100, "a", "newer")], user="v", identifier=2)
    assert len(oracle.read(table).rows) == len(tagged.rows) + 2


def test_decoupled_changelogs_are_read_by_java(oracle: Oracle, tmp_path: Path) -> None:
    keep = {"changelog.num-retained.min": "20", "changelog.num-retained.max": "50"}
    options = {"bucket": "1", "changelog-producer": "input", **keep}
    path = oracle.create(tmp_path, "shop.t", COLUMNS, primary_keys=["k"], options=options)
    for turn in range(4):
        oracle.write(path, [("+I", turn, "a", f"{turn}")], user="u", identifier=turn + 1)
    before = [(part.snapshot, part.rows.rows) for part in oracle.stream(path, 1, 4)]
    expire_snapshots(opened(path), retain_max=1, retain_min=1, protect_users=0)
    assert opened(path).snapshots.ids() == [4]
    assert [(part.snapshot, part.rows.rows) for part in oracle.stream(path, 1, 4)] == before


def test_java_continues_after_a_merge_of_manifests(oracle: Oracle, table: Path) -> None:
    wanted, tagged = rows(oracle, table)
    done = compact_manifests(opened(table))
    assert done.snapshot is not None
    assert same(oracle.read(table), wanted)
    assert same(oracle.read(table, tag="t2"), tagged)
    oracle.write(table, [("+I", 99, "a", "new")], user="u", identifier=99, compact="full")
    assert len(oracle.read(table).rows) == len(wanted.rows) + 1
    oracle.compact_manifests(table)
    assert compact_manifests(opened(table)).snapshot is None
    assert find_orphans(opened(table), LATE) == []


def test_java_reads_a_table_repaired_without_lost_files(oracle: Oracle, tmp_path: Path) -> None:
    path = oracle.create(tmp_path, "shop.t", COLUMNS, primary_keys=["k"], options={"bucket": "1"})
    for turn in range(3):
        oracle.write(path, [("+I", turn, "a", f"{turn}")], user="u", identifier=turn + 1)
    next(path.glob("bucket-0/data-*")).unlink()
    remove_unexisting_files(opened(path))
    assert len(oracle.read(path).rows) == 2
    oracle.write(path, [("+I", 9, "a", "9")], user="u", identifier=9, compact="full")
    assert len(oracle.read(path).rows) == 3


def test_tags_create_success_files_as_in_java(oracle: Oracle, tmp_path: Path) -> None:
    options = {"bucket": "1", "tag.create-success-file": "true"}
    path = oracle.create(tmp_path, "shop.t", COLUMNS, primary_keys=["k"], options=options)
    oracle.write(path, [("+I", 1, "a", "1")])
    oracle.tag(path, "javas")
    create_tag(opened(path), "ours")
    contents = {name: (path / f"tag/tag-success-file/{name}_SUCCESS").read_text() for name in ("javas", "ours")}
    shapes = [[type(value) for value in json.loads(text).values()] for text in contents.values()]
    assert shapes[0] == shapes[1]
    assert [list(json.loads(text)) for text in contents.values()] == [["creationTime", "modificationTime"]] * 2
    assert sorted(oracle.info(path)["tags"]) == ["javas", "ours"]
    delete_tag(opened(path), "javas")
    oracle.delete_tag(path, "ours")
    assert [file.name for file in (path / "tag/tag-success-file").iterdir() if file.suffix != ".crc"] == []


def test_java_reads_the_same_partitions_from_the_fallback_branch(oracle: Oracle, tmp_path: Path) -> None:
    path = oracle.create(
        tmp_path,
        "shop.f",
        [("dt", "STRING NOT NULL"), ("id", "INT NOT NULL"), ("v", "STRING")],
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={"bucket": "1"},
    )
    catalog = penstock.Catalog(str(tmp_path))
    catalog.table("shop.f").create_branch("stream")
    catalog.alter_table("shop.f", [penstock.SetOption("scan.fallback-branch", "stream")])
    oracle.write(path, [("+I", "a", 1, "main")])
    oracle.write(path, [("+I", "a", 2, "hidden"), ("+I", "b", 2, "stream")], branch="stream")
    table = catalog.table("shop.f")
    with table.writer(options={"branch": "stream"}) as writer:
        writer.write(pa.table({"dt": ["c"], "id": [3], "v": ["ours"]}, table.schema))
        writer.commit()
    rows = table.scan().to_arrow()
    assert difference(oracle.read(path), rows) is None
    assert sorted(rows["v"].to_pylist()) == ["main", "ours", "stream"]
    assert difference(oracle.read(path, branch="stream"), table.scan(options={"branch": "stream"}).to_arrow()) is None


def test_java_continues_after_a_fast_forward_over_a_gap(oracle: Oracle, tmp_path: Path) -> None:
    """The branch's first snapshots have expired, and a snapshot came back without its changelog."""
    options = {"bucket": "1", "changelog-producer": "input", "write-only": "true"}
    path = oracle.create(
        tmp_path, "shop.g", [("id", "INT NOT NULL"), ("v", "STRING")], primary_keys=["id"], options=options
    )
    table = penstock.Catalog(str(tmp_path)).table("shop.g")
    oracle.write(path, [("+I", 1, "shared")])
    table.create_tag("x")
    for number in range(3):
        oracle.write(path, [("+I", 10 + number, "main")])
    table.expire_snapshots(retain_max=1, retain_min=1, older_than=1 << 60)
    branch = table.create_branch("b", "x")
    # After main's snapshot 4, a gap must be left: the branch is refused until it has 6.
    for number in range(5):
        oracle.write(path, [("+I", 2 + number, "branch")], branch="b")
    assert branch.expire_snapshots(retain_max=2, retain_min=1, older_than=1 << 60).snapshots
    table.fast_forward("b")
    oracle.write(path, [("+I", 9, "java")])
    assert difference(oracle.read(path), table.scan().to_arrow()) is None
    assert table.scan().to_arrow().num_rows == 7
    table.rollback_to("x")
    oracle.write(path, [("+I", 3, "again")])
    assert difference(oracle.read(path), table.scan().to_arrow()) is None
    oracle.expire(path, retain=1)
    assert [snapshot.id for snapshot in table.snapshots] == [2]
    assert difference(oracle.read(path), table.scan().to_arrow()) is None
