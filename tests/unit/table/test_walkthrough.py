"""The story Paimon's documentation tells of its files, step by step, with the directory after each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.table.handle import Table
from penstock.table.meta.entries import FileKind, ManifestEntry
from penstock.table.meta.live import all_manifests, delta_entries, live_entries
from penstock.table.meta.snapshot import CommitKind
from tests.invariants import check_invariants

COLUMNS = [("id", "BIGINT NOT NULL"), ("a", "INT"), ("b", "STRING"), ("dt", "STRING NOT NULL")]
DAYS = [f"202305{day:02}" for day in range(1, 11)]
KEPT = DAYS[:2]


class Folder:
    """Return the files in the folder of the table."""

    def __init__(self, root: str) -> None:
        self.root = Path(root)

    def data(self) -> dict[str, int]:
        """Data files by partition; a partition whose directory is empty or gone is left out."""
        return dict(Counter(path.parts[-3].removeprefix("dt=") for path in self.root.glob("dt=*/bucket-0/data-*")))

    def partitions(self) -> list[str]:
        return sorted(path.name.removeprefix("dt=") for path in self.root.glob("dt=*"))

    def names(self, folder: str) -> set[str]:
        return {path.name for path in (self.root / folder).iterdir()}

    def manifests(self) -> Counter[str]:
        """`manifest-list` and `manifest` files."""
        return Counter("list" if name.startswith("manifest-list-") else "manifest" for name in self.names("manifest"))


def insert(table: Table, *rows: tuple[int, str]) -> None:
    columns = {
        "id": [number for number, _ in rows],
        "a": pa.array([10_000 + number for number, _ in rows], pa.int32()),
        "b": [f"varchar{number:05}" for number, _ in rows],
        "dt": [day for _, day in rows],
    }
    with table.writer() as writer:
        writer.write(pa.table(columns))
        writer.commit()


def delta(table: Table, snapshot: int) -> list[ManifestEntry]:
    return delta_entries(table.store, table.store.snapshots.get(snapshot))


def kinds(entries: list[ManifestEntry]) -> Counter[FileKind]:
    return Counter(entry.kind for entry in entries)


@pytest.mark.slow
def test_the_files_of_a_table_from_its_first_row_to_its_first_expiry(tmp_path: Path) -> None:
    catalog = penstock.Catalog(str(tmp_path))
    catalog.create_database("default")

    # CREATE TABLE: a schema, and nothing else.
    table = catalog.create_table("default.T", COLUMNS, ["id", "dt"], ["dt"], {"bucket": "1"})
    folder = Folder(table.path)
    assert [path.relative_to(table.path).as_posix() for path in folder.root.rglob("*") if path.is_file()] == [
        "schema/schema-0"
    ]

    # INSERT one row: a data file in its partition, a manifest that names it, a base list (empty) and a delta list.
    insert(table, (1, DAYS[0]))
    assert folder.names("snapshot") == {"snapshot-1", "LATEST"}
    assert folder.data() == {DAYS[0]: 1}
    assert folder.manifests() == {"list": 2, "manifest": 1}
    assert kinds(delta(table, 1)) == {FileKind.ADD: 1}

    # INSERT a row into each of ten partitions: ten data files, one manifest with ten entries.
    insert(table, *enumerate(DAYS, 2))
    assert folder.names("snapshot") == {"snapshot-1", "snapshot-2", "LATEST"}
    assert folder.data() == {day: 2 if day == DAYS[0] else 1 for day in DAYS}
    assert folder.manifests() == {"list": 4, "manifest": 2}
    assert kinds(delta(table, 2)) == {FileKind.ADD: 10}

    # DELETE FROM T WHERE dt >= '20230503': eight more files, which hold the -D rows. Nothing is taken away yet.
    table.delete(pc.field("dt") >= DAYS[2])
    assert [snapshot.commit_kind for snapshot in table.snapshots] == [CommitKind.APPEND] * 3
    assert folder.data() == dict.fromkeys(DAYS, 2) | {DAYS[1]: 1}
    assert folder.manifests() == {"list": 6, "manifest": 3}
    assert kinds(delta(table, 3)) == {FileKind.ADD: 8}
    assert table.scan().to_arrow().num_rows == 3

    # Full compaction. Two files become one in the first partition; the file of the second only rises to the top level;
    # in the other eight a row and its deletion cancel. 19 DELETE and 2 ADD entries; a single new data file on the disk.
    [snapshot] = table.compact(full=True)
    entries = delta(table, 4)
    assert (snapshot.id, snapshot.commit_kind) == (4, CommitKind.COMPACT)
    assert len(entries) == 21
    assert kinds(entries) == {FileKind.DELETE: 19, FileKind.ADD: 2}
    assert {entry.file.level for entry in entries if entry.kind is FileKind.ADD} == {5}
    assert Counter(folder.data()) == Counter(dict.fromkeys(DAYS, 2)) + Counter({DAYS[0]: 1}) - Counter({DAYS[1]: 1})
    assert folder.manifests() == {"list": 8, "manifest": 4}
    assert [manifest.added_files for manifest in all_manifests(table.store, snapshot)] == [1, 10, 8, 2]
    assert len(live_entries(table.store, snapshot)) == 2
    assert table.scan().to_arrow().num_rows == 3

    # ALTER TABLE: a second schema, no snapshot. Files written before keep the schema they name.
    options = {
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        "snapshot.clean-empty-directories": "true",
    }
    catalog.alter_table("default.T", [penstock.SetOption(name, value) for name, value in options.items()])
    assert folder.names("schema") == {"schema-0", "schema-1"}
    assert len(table.snapshots) == 4

    # The next commit expires snapshots 1 to 4 with all that only they held.
    table = catalog.table("default.T")
    insert(table, (12, DAYS[1]))
    assert [snapshot.id for snapshot in table.snapshots] == [5]
    assert table.expire_snapshots().snapshots == 0
    assert folder.names("snapshot") == {"snapshot-5", "EARLIEST", "LATEST"}
    assert (folder.root / "snapshot/EARLIEST").read_text() == "5"
    assert table.latest_snapshot is not None
    assert table.latest_snapshot.schema_id == 1

    # The emptied partitions are gone as folders; what is left is what snapshot 5 names, and no orphan.
    assert folder.partitions() == KEPT
    assert folder.data() == {DAYS[0]: 1, DAYS[1]: 2}
    assert folder.manifests()["list"] == 2
    assert table.remove_orphan_files(dry_run=True, older_than=1 << 60) == []
    assert sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [1, 2, 3, 12]
    check_invariants(table)
