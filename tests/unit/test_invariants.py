"""The checker of invariants finds each harm done to a table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.storage.local import LocalStorage
from penstock.table.handle import Table
from penstock.table.meta.store import TableStore
from tests.golden.cases import Case
from tests.invariants import Broken, check_invariants


def opened(path: Path) -> Table:
    return Table(TableStore.open(LocalStorage(sync=False), str(path)))


def newest(table: Path) -> Path:
    return max(table.glob("snapshot/snapshot-*"), key=lambda path: int(path.name.partition("-")[2]))


def edit(path: Path, **fields: object) -> dict[str, object]:
    node = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps(node))
    return node


def lose_a_snapshot(table: Path) -> None:
    (table / "snapshot" / "snapshot-2").unlink()


def point_beyond(table: Path) -> None:
    (table / "snapshot" / "EARLIEST").write_text("99")


def lose_a_data_file(table: Path) -> None:
    next(table.glob("bucket-0/data-*")).unlink()


def lose_a_manifest(table: Path) -> None:
    (table / "manifest" / json.loads(newest(table).read_text())["deltaManifestList"]).unlink()


def cut_a_changelog_file(table: Path) -> None:
    file = next(table.glob("bucket-0/changelog-*"))
    file.write_bytes(file.read_bytes()[:-1])


def commit_twice(table: Path) -> None:
    last = newest(table)
    number = int(last.name.partition("-")[2]) + 1
    again = table / "snapshot" / f"snapshot-{number}"
    shutil.copy(table / "snapshot" / "snapshot-1", again)
    edit(again, id=number)
    (table / "snapshot" / "LATEST").write_text(str(number))


def forget_a_changelog(table: Path) -> None:
    for snapshot in table.glob("snapshot/snapshot-*"):
        if json.loads(snapshot.read_text())["commitKind"] == "COMPACT":
            edit(snapshot, changelogManifestList=None)


def count_wrongly(table: Path) -> None:
    edit(newest(table), totalRecordCount=7)


def need_another_schema(table: Path) -> None:
    edit(newest(table), schemaId=5)


@pytest.mark.parametrize(
    ("harm", "number"),
    [
        (lose_a_snapshot, "I1"),
        (point_beyond, "I1"),
        (lose_a_data_file, "I2"),
        (lose_a_manifest, "I2"),
        (cut_a_changelog_file, "I2"),
        (forget_a_changelog, "I4"),
        (commit_twice, "I5"),
        (count_wrongly, "I10"),
        (need_another_schema, "I2"),
    ],
)
def test_damage_is_found_by_its_invariant(harm: Callable[[Path], None], number: str, tmp_path: Path) -> None:
    table = Case("changelog_lookup").copy_to(tmp_path)
    check_invariants(opened(table))
    harm(table)
    with pytest.raises(Broken, match=rf"\n{number} "):
        check_invariants(opened(table))


def test_rows_that_differ_from_the_model_are_found() -> None:
    case = Case("merge_dedup")
    rows = case.latest
    with pytest.raises(Broken, match=r"\nI3 snapshot \d+: 1 of model's"):
        check_invariants(
            opened(case.table), model={max(case.snapshots): rows.with_rows([*rows.rows, rows.rows[0]], None)}
        )
