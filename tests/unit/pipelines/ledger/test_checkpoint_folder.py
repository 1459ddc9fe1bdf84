"""Checkpoints keep their layout: `recorded_checkpoint.json` was written before the folder had one owner.

Since then the complete entries of the source of files got sizes, which the version before ignores.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import CheckpointDamaged
from penstock.ingest.database.settings import RereadRequests
from penstock.ingest.files.ledger import FoundFile, Ledger
from penstock.ingest.mysql.ddl.history import DefinitionVersion
from penstock.ingest.mysql.definition import MySqlColumn, TableDefinition, parse_type
from penstock.ingest.mysql.recorded_history import DefinitionStore
from penstock.pipelines.errors import CheckpointMismatch
from penstock.pipelines.ledger import parked_tables
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.ledger.batch_logs import CheckpointProgress
from penstock.pipelines.ledger.checkpoint_folder import PAUSED, STOP, CheckpointFolder
from penstock.pipelines.ledger.filled_tables import FilledTables
from penstock.pipelines.ledger.parked_tables import MissedBatch, ParkedTable, ParkedTables
from penstock.pipelines.ledger.table_marks import Mark
from penstock.storage.environment import Environment
from penstock.table.catalog.settings import CatalogSettings

RECORDED = json.loads(Path(__file__).with_name("recorded_checkpoint.json").read_text())
OF_SPARK = ("offsets/", "commits/", "metadata")
MILLIS = 1763800000000
ID = MySqlColumn("id", parse_type("int unsigned"), comment="first\u2028second é")
VERSIONS = [
    DefinitionVersion(("shop", "t"), "x.000001", 10, TableDefinition("shop", "t", (ID,), ("id",))),
    DefinitionVersion(("shop", "u"), "x.000001", 10, None, left_out="no key"),
    DefinitionVersion(("shop", "t"), "x.000002", 99, None),
]
PARKED = ParkedTable("ods.orders", 1, MILLIS, "CheckpointMismatch", "a column does not fit é")
SOURCES = {("shop", "users"): "ods.users", ("", ""): "ods.all"}
MARKS = {"ods.users": Mark(5, 7, "shop-5d0c", 1), "ods.all": Mark(6)}


def put_recorded(folder: Path, names: tuple[str, ...] = ("",)) -> None:
    for name, content in RECORDED.items():
        if name.startswith(names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode())


def content_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_bytes().decode() for path in folder.rglob("*") if path.is_file()}


def mysql_history(checkpoint: CheckpointFolder) -> DefinitionStore:
    return DefinitionStore(checkpoint.source_state("mysql"))


def files_of(batch: int) -> list[FoundFile]:
    return [FoundFile(f"in/{batch}é.json", 10 + batch, 1763800000123456789 + batch)]


def test_a_recorded_checkpoint_is_read(tmp_path: Path) -> None:
    put_recorded(tmp_path)
    checkpoint = CheckpointFolder(str(tmp_path))
    assert checkpoint.batches.progress() == CheckpointProgress(2, 1, {"batch": 2})
    assert not checkpoint.batches.is_new
    assert checkpoint.status() == {"state": "running", "pid": 4711, "host": "h"}
    signals = checkpoint.signals()
    assert (signals.paused, signals.stop) == (True, True)
    assert signals.snapshots == (("snapshot-1763800000001.json", ("shop.orders", "users"), ""),)
    assert checkpoint.follows() == {"shop-a", "shop-b"}
    parking = ParkedTables.of(checkpoint)
    assert parking.tables == {"ods.orders": PARKED}
    assert parking.missed("ods.orders") == [
        MissedBatch(1, "5d0c", {"batch": 1}, {"batch": 2}),
        MissedBatch(2, "5d0c", {"batch": 2}, {"batch": 3}),
    ]
    filled = FilledTables.of(checkpoint, CatalogSettings.of(f"{tmp_path}/warehouse", {}))
    assert (filled.planned, filled.is_adopted) == (2, False)
    assert (filled.sources, filled.left, filled.marks) == (SOURCES, {("shop", "old"): "ods.old"}, MARKS)


def test_requests_of_users_are_detected(tmp_path: Path) -> None:
    checkpoint = CheckpointFolder(str(tmp_path))
    for name, is_request in ((STOP, False), (PAUSED, True), ("snapshot-1.json", True)):
        checkpoint.signal(name)
        assert checkpoint.has_requests == is_request
        checkpoint.clear_signal(name)


def test_a_recorded_checkpoint_is_read_by_sources(tmp_path: Path) -> None:
    put_recorded(tmp_path)
    checkpoint = CheckpointFolder(str(tmp_path))
    ledger = Ledger(checkpoint.source_state("files"))
    assert ledger.entry(52) == files_of(52)
    assert ledger.entry(53) is None
    assert ledger.captured_before(53) == {f"in/{batch}é.json": 10 + batch for batch in range(49, 53)}
    assert [(record.server, record.version) for record in mysql_history(checkpoint).records()] == [
        ("uuid-1", version) for version in VERSIONS
    ]
    requests = RereadRequests(checkpoint.snapshot_requests)
    [request] = requests.pending(())
    assert (request.name, request.tables) == ("snapshot-1763800000001.json", ("shop.orders", "users"))
    assert requests.pending([request.name]) == []
    assert checkpoint.signals().snapshots == ()
    assert checkpoint.signals().paused


def test_the_same_checkpoint_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte, so that the version before can continue as well."""
    monkeypatch.setattr(parked_tables, "Environment", lambda: Environment(now_millis=lambda: MILLIS))
    put_recorded(tmp_path, OF_SPARK)
    checkpoint = CheckpointFolder(str(tmp_path))
    checkpoint.put_status({"state": "running", "pid": 4711, "host": "h"})
    checkpoint.signal(PAUSED)
    checkpoint.signal(STOP)
    checkpoint.signal("snapshot-1763800000001.json", ["shop.orders", "users"])
    checkpoint.follow(["shop-b", "shop-a"])
    parking = ParkedTables.of(checkpoint, isolates=True)
    parking.park("ods.orders", 1, CheckpointMismatch("a column does not fit é"))
    parking.note(BatchIdentity("shop", "5d0c", 1, {"batch": 1}, {"batch": 2}))
    parking.note(BatchIdentity("shop", "5d0c", 2, {"batch": 2}, {"batch": 3}))
    filled = FilledTables.of(checkpoint, CatalogSettings.of(f"{tmp_path}/warehouse", {}))
    filled.sources, filled.left, filled.marks = SOURCES, {("shop", "old"): "ods.old"}, MARKS
    filled._save()
    ledger = Ledger(checkpoint.source_state("files"))
    for batch in range(1, 49):
        ledger.write(batch, [])
    for batch in range(49, 53):
        ledger.write(batch, files_of(batch))
    for batch in range(1, 49):  # which are not recorded
        (tmp_path / f"files/{batch}.json").unlink()
    mysql_history(checkpoint).add("uuid-1", VERSIONS[:2])
    mysql_history(checkpoint).add("uuid-1", VERSIONS[2:])
    assert content_of(tmp_path) == RECORDED


def test_a_folder_that_does_not_exist_reads_as_empty(tmp_path: Path) -> None:
    checkpoint = CheckpointFolder(f"{tmp_path}/none")
    assert not checkpoint.exists
    assert checkpoint.batches.is_new
    assert checkpoint.batches.progress() == CheckpointProgress()
    assert checkpoint.status() is None
    assert not checkpoint.signals().paused
    assert checkpoint.parked() == {}
    assert not checkpoint.clear_signal(STOP)
    assert not (tmp_path / "none").exists()


def test_other_sources_keep_their_state_away_from_sparks_files(tmp_path: Path) -> None:
    checkpoint = CheckpointFolder(str(tmp_path))
    checkpoint.source_state("offsets").write("1", b"x")
    assert checkpoint.batches.is_new
    assert (tmp_path / "sources" / "offsets" / "1").read_bytes() == b"x"


KEPT = sorted(name for name in RECORDED if not name.startswith(OF_SPARK) and "signals/" not in name)


def all_read(folder: Path) -> None:
    """Read everything that a checkpoint contains but for the files that Spark writes too."""
    checkpoint = CheckpointFolder(str(folder))
    checkpoint.status()
    checkpoint.signals()
    checkpoint.follows()
    parking = ParkedTables.of(checkpoint)
    for table in parking.tables:
        parking.missed(table)
    FilledTables.of(checkpoint, CatalogSettings.of(f"{folder}/warehouse", {}))
    ledger = Ledger(checkpoint.source_state("files"))
    for batch in range(49, 53):
        ledger.entry(batch)
    mysql_history(checkpoint).records()
    RereadRequests(checkpoint.snapshot_requests).pending(())


@pytest.mark.parametrize("name", [*KEPT, "signals/snapshot-1763800000001.json"])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: content[: len(content) // 2], id="cut"),
        pytest.param(lambda content: bytes(len(content)), id="zeros"),
        pytest.param(lambda content: b"\xff" + content, id="another-byte"),
        pytest.param(lambda content: b"7", id="another-kind"),
    ],
)
def test_a_damaged_file_is_named(name: str, damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    put_recorded(tmp_path)
    all_read(tmp_path)
    path = tmp_path / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointDamaged) as caught:
        all_read(tmp_path)
    assert caught.value.facts["file"] == str(path)
    assert caught.value.hint
