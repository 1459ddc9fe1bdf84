"""Compactions of tables whose keys move: the new row of a key and the delete of its old row appear together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.table.compaction.full_compaction import FullCompaction
from penstock.table.handle import Table
from penstock.table.maintenance.rollback import rollback_to
from penstock.table.meta.snapshot import CommitKind
from penstock.table.operations.compact import compact_table
from penstock.table.operations.selection import Selection
from tests.invariants import check_invariants
from tests.unit.table.dynamic_buckets.moving_keys import moving_table, write
from tests.unit.table.tables import content, rows


@pytest.mark.parametrize("option", ["changelog-producer", "deletion-vectors.enabled"])
def test_a_key_that_moves_is_never_in_two_partitions_with_gentle_lookups(tmp_path: Path, option: str) -> None:
    options = {"changelog-producer": "lookup", "lookup-compact": "gentle", "lookup-compact.max-interval": "3"}
    if option != "changelog-producer":
        options = {**options, "changelog-producer": "none", option: "true"}
    table = moving_table(tmp_path, **options)
    write(table, ("1", "a", 1), ("2", "b", 1))
    write(table, ("3", "b", 2))
    write(table, ("4", "b", 2))
    write(table, ("1", "b", 3))
    assert content(table) == [("1", "b", 3), ("2", "b", 1), ("3", "b", 2), ("4", "b", 2)]
    if option == "changelog-producer":
        newest = max(snapshot.id for snapshot in table.snapshots)
        changes = [(row["rowkind"], row["p"]) for row in table.changes(0, newest).to_pylist() if row["id"] == "1"]
        assert changes == [("+I", "a"), ("-D", "a"), ("+I", "b")]


def test_a_compaction_of_one_bucket_does_not_show_a_key_before_its_delete(tmp_path: Path) -> None:
    options = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "5"}
    options |= {"num-sorted-run.compaction-trigger": "3", "compaction.size-ratio": "100"}
    table = moving_table(tmp_path, **options)
    write(table, ("1", "a", 1), ("2", "b", 1))
    # The bucket of "b" has three runs after the second of these and is due for a compaction, that of "a" is not.
    for number, row in ((11, ("1", "b", 2)), (12, ("3", "b", 2))):
        with table.writer("job") as writer:
            writer.write(rows(table, row))
            writer.commit(number)
    table.compact()
    newest = max(snapshot.id for snapshot in table.snapshots)
    changes = [(row["rowkind"], row["p"]) for row in table.changes(0, newest).to_pylist() if row["id"] == "1"]
    assert changes == [("+I", "a"), ("-D", "a"), ("+I", "b")]


def test_a_full_compaction_makes_up_for_one_that_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = moving_table(tmp_path, **{"changelog-producer": "full-compaction"})
    write(table, ("1", "a", 1), ("2", "b", 1))
    with monkeypatch.context() as lost:
        lost.setattr(FullCompaction, "is_due", lambda *_: False)
        write(table, ("1", "b", 2))
    write(table, ("3", "b", 3))
    newest = max(snapshot.id for snapshot in table.snapshots)
    changes = [(row["rowkind"], row["p"]) for row in table.changes(0, newest).to_pylist() if row["id"] == "1"]
    assert changes == [("+I", "a"), ("-D", "a"), ("+I", "b")]


@pytest.mark.parametrize("options", [{"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}], ids=str)
def test_a_commit_makes_up_for_a_compaction_that_a_rollback_removed(tmp_path: Path, options: dict[str, str]) -> None:
    table = moving_table(tmp_path, **options)
    write(table, ("1", "a", 1), ("2", "a", 1))
    write(table, ("1", "b", 2), ("2", "c", 2))
    written = max(made.id for made in table.snapshots if made.commit_kind is CommitKind.APPEND)
    rollback_to(table.store, written)
    write(table, ("2", "b", 3))
    assert content(table) == [("1", "b", 2), ("2", "b", 3)]
    check_invariants(table)


def test_an_overwrite_does_not_replace_buckets_that_wait_for_a_lost_compaction(tmp_path: Path) -> None:
    table = moving_table(tmp_path, **{"changelog-producer": "lookup"})
    write(table, ("1", "a", 1), ("2", "a", 1))
    write(table, ("1", "b", 2), ("2", "c", 2))
    rollback_to(table.store, max(made.id for made in table.snapshots if made.commit_kind is CommitKind.APPEND))
    with table.overwrite({"p": "c"}) as writer:
        writer.write(rows(table, ("3", "c", 4)))
        writer.commit()
    assert content(table) == [("1", "b", 2), ("3", "c", 4)]


@pytest.mark.parametrize("between", ["overwrite", "compaction"])
@pytest.mark.parametrize("options", [{"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}], ids=str)
def test_a_commit_makes_up_for_a_removed_compaction_after_one_of_other_buckets(
    tmp_path: Path, options: dict[str, str], between: str
) -> None:
    table = moving_table(tmp_path, **options)
    write(table, ("1", "a", 1), ("2", "a", 1))
    write(table, ("1", "b", 2), ("2", "c", 2))
    rollback_to(table.store, max(made.id for made in table.snapshots if made.commit_kind is CommitKind.APPEND))
    if between == "compaction":
        table.compact(partitions=[{"p": "c"}])
    else:
        with table.overwrite({"p": "c"}) as writer:
            writer.write(rows(table, ("3", "c", 4)))
            writer.commit()
    write(table, ("1", "c", 9))
    assert content(table) == [("1", "c", 9), ("3", "c", 4) if between == "overwrite" else ("2", "c", 2)]
    check_invariants(table)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("options", [{"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}], ids=str)
@pytest.mark.parametrize("chosen", [{"partitions": [{"p": "c"}]}, {"only": Selection(where="p = 'c'")}], ids=str)
def test_a_compaction_of_one_partition_does_not_show_rows_before_the_deletes_in_others(
    tmp_path: Path, options: dict[str, str], full: bool, chosen: dict[str, Any]
) -> None:
    table = moving_table(tmp_path, **options)
    write(table, ("1", "a", 1), ("2", "a", 1))
    write(table, ("1", "b", 2), ("2", "c", 2))
    rollback_to(table.store, max(made.id for made in table.snapshots if made.commit_kind is CommitKind.APPEND))
    compact_table(table.store, full=full, **chosen)
    assert content(table) == [("1", "b", 2), ("2", "c", 2)]
    check_invariants(table)


def test_a_compaction_of_a_partition_without_waiting_rows_leaves_those_of_others(tmp_path: Path) -> None:
    table = moving_table(tmp_path, **{"changelog-producer": "lookup"})
    write(table, ("1", "a", 1), ("9", "d", 1))
    write(table, ("1", "b", 2))
    written = max(made.id for made in table.snapshots if made.commit_kind is CommitKind.APPEND)
    rollback_to(table.store, written)
    compact_table(table.store, full=False, partitions=[{"p": "d"}])
    assert max(made.id for made in table.snapshots) == written


def folded(table: Table) -> dict[str, int]:
    """Return the values by key after all changes of the changelog."""
    found: dict[str, int] = {}
    for row in table.changes(0, max(snapshot.id for snapshot in table.snapshots)).to_pylist():
        if row["rowkind"] in ("+I", "+U"):
            found[row["id"]] = row["v"]
        else:
            assert found.pop(row["id"]) == row["v"], "a delete comes before the new row of its key"
    return found


@pytest.mark.parametrize("levels", ["2", "3"])
def test_buckets_are_compacted_with_few_levels(tmp_path: Path, levels: str) -> None:
    options = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "50", "num-levels": levels}
    table = moving_table(tmp_path, **options, **{"num-sorted-run.compaction-trigger": "2"})
    for number in range(9):
        with table.writer("job") as writer:
            writer.write(rows(table, (str(number % 3), "ab"[number % 2], number)))
            writer.commit(number + 1)
    assert content(table) == [("0", "a", 6), ("1", "b", 7), ("2", "a", 8)]
    table.compact()
    assert folded(table) == {"0": 6, "1": 7, "2": 8}


def test_a_changelog_has_each_change_while_the_number_of_levels_rises(tmp_path: Path) -> None:
    """Also deletes, of rows that are on the former top level, or have been on none yet."""
    options = {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "50"}
    table = moving_table(tmp_path, **options, **{"num-sorted-run.compaction-trigger": "2"})
    changes = [("+I", "1", "a", 1), ("+I", "2", "a", 1), ("+I", "3", "b", 1), ("-D", "3", "b", 1), ("+I", "1", "b", 2)]
    changes += [("-D", "2", "a", 1), ("+I", "3", "a", 3), ("+I", "2", "b", 3)]
    changes += [("-D", key, partition, 4) for key, partition in zip("123", "bab", strict=True)]
    for number, (kind, *values) in enumerate(changes):
        with table.writer("job") as writer:
            writer.write(rows(table, values), [kind])
            writer.commit(number + 1)
        if number % 4 == 2:
            table.compact(options={"num-levels": str(4 + number)})
    table.compact(options={"num-levels": "20"})
    assert folded(table) == {}
    assert content(table) == []
