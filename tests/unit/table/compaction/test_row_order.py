"""Sort compaction, and compactions of a part of a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import CommitConflict, ConfigError
from penstock.table.buckets.layout import Layout
from penstock.table.compaction import append_compactor as compacting
from penstock.table.compaction.row_order import ordered_rows
from penstock.table.handle import Table
from penstock.table.meta.entries import ManifestEntry
from penstock.table.meta.live import delta_entries, live_entries
from penstock.table.meta.snapshot import CommitKind
from penstock.table.operations.compact import sort_table
from penstock.table.operations.selection import Selection, parse_buckets
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

COLUMNS = [("dt", "STRING NOT NULL"), ("x", "INT"), ("y", "DOUBLE")]


def filled(folder: Path, commits: int = 4, each: int = 500, **options: str) -> Table:
    """Rows of two days in any order, in a file for each commit and day; some values are null."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    table = new_table(folder, COLUMNS, keys=(), partitions=("dt",), options={"bucket": "-1", **named})
    rng = np.random.default_rng(7)
    for _ in range(commits):
        for day in "ab":
            xs, ys = rng.integers(-50, 50, each), rng.normal(size=each)
            missing = rng.random(each) < 0.05
            data = {"dt": [day] * each, "x": pa.array(xs, pa.int32(), mask=missing), "y": pa.array(ys, mask=missing)}
            with table.writer() as writer:
                writer.write(pa.table(data))
                writer.commit()
    return table


def live(table: Table) -> list[ManifestEntry]:
    assert table.latest_snapshot is not None
    return live_entries(table.store, table.latest_snapshot)


def parts(table: Table) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    for row in table.scan().to_arrow().to_pylist():
        found.setdefault(str(row["dt"]), []).append(row)
    return found


def order_key(row: dict[str, object]) -> tuple[object, ...]:
    return tuple((value is not None, value) for value in (row["x"], row["y"]))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["order", "zorder", "hilbert"])
@pytest.mark.parametrize("buffer", ["64 mb", "24 kb"])
def test_a_sort_keeps_all_rows(tmp_path: Path, strategy: str, buffer: str) -> None:
    table = filled(tmp_path)
    before = content(table)
    (made,) = table.sort(["x", "y"], strategy, options={"write-buffer-size": buffer})
    assert made.commit_kind is CommitKind.COMPACT
    assert content(table) == before
    assert len(live(table)) == 2
    check_invariants(table)
    if strategy == "order":
        for found in parts(table).values():
            assert found == sorted(found, key=order_key)


@pytest.mark.slow
def test_files_are_ranges_of_the_order(tmp_path: Path) -> None:
    table = filled(tmp_path, commits=2, each=20_000, target_file_size="64 kb")
    table.sort(["x", "y"], "zorder", options={"write-buffer-size": "400 kb"})
    few = table.scan(where=(pc.field("x") > 45) & (pc.field("y") > 2)).plan().splits
    assert sum(len(split.files) for split in few) * 2 < len(live(table))


@pytest.mark.slow
def test_a_sort_conflicts_with_deletes_and_not_with_new_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(tmp_path)
    plain, others = ordered_rows, 0

    def beside(*arguments: object) -> object:
        nonlocal others
        others += 1
        with table.writer() as writer:
            writer.write(rows(table, ("a", 999, 0.0)))
            writer.commit()
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compacting, "ordered_rows", beside)
    count = len(content(table))
    assert len(sort_table(table.store, "order", ["x"])) == 1
    assert others == 2
    assert len(content(table)) == count + 2

    def against(*arguments: object) -> object:
        table.delete("y > 0")
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compacting, "ordered_rows", against)
    left = len(content(table))
    sort_table(table.store, "order", ["x"])  # the second try stands on the delete
    assert 0 < len(content(table)) < left
    check_invariants(table)


def test_a_sort_that_always_conflicts_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(tmp_path, commits=1)
    plain = ordered_rows

    def against(*arguments: object) -> object:
        with table.overwrite(partition={"dt": "b"}) as writer:
            writer.write(rows(table, ("b", 1, 0.0)))
            writer.commit()
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(compacting, "ordered_rows", against)
    with pytest.raises(CommitConflict):
        sort_table(table.store, "order", ["x"])
    check_invariants(table)
    assert table.remove_orphan_files(dry_run=True, older_than=1 << 60) == []


@pytest.mark.parametrize(
    ("columns", "strategy", "message"),
    [
        (["z"], "order", "no column 'z'"),
        ([], "order", "no columns to order"),
        (["x"], "hilbert", "at least two"),
        (["x"], "spiral", "cannot be ordered by 'spiral'"),
    ],
)
def test_columns_that_cannot_be_sorted_are_refused(
    tmp_path: Path, columns: list[str], strategy: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        filled(tmp_path, commits=1, each=3).sort(columns, strategy)


def test_tables_with_buckets_are_refused_with_the_error_text_of_paimon(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Sort Compact only supports bucket=-1 yet\."):
        new_table(tmp_path).sort(["id"])


# a part of a table

KEYED = [("dt", "STRING NOT NULL"), ("hour", "INT NOT NULL"), ("id", "INT NOT NULL")]


def keyed(folder: Path) -> Table:
    table = new_table(
        folder,
        KEYED,
        keys=("dt", "hour", "id"),
        partitions=("dt", "hour"),
        options={"bucket": "2", "write-only": "true"},
    )
    for _ in range(2):
        with table.writer() as writer:
            writer.write(rows(table, *((day, hour, number) for day in "ab" for hour in (1, 2) for number in range(6))))
            writer.commit()
    return table


def touched(table: Table, only: Selection) -> set[tuple[object, ...]]:
    made = table.compact(only=only)
    layout = Layout.of(table.definition)
    return {
        (*layout.partition_values(entry.partition), entry.bucket)
        for snapshot in made
        for entry in delta_entries(table.store, snapshot)
    }


def test_a_condition_chooses_partitions(tmp_path: Path) -> None:
    assert touched(keyed(tmp_path), Selection(where="dt = 'a' and hour > 1")) == {("a", 2, 0), ("a", 2, 1)}


def test_a_condition_over_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be parsed") as caught:
        keyed(tmp_path).compact(only=Selection(where="id > 3"))
    assert caught.value.hint == "the condition may use dt, hour only; texts are written in single quotes"


def test_buckets_are_chosen_by_number(tmp_path: Path) -> None:
    chosen = Selection([{"dt": "b"}], buckets=parse_buckets("1, 1-1"))
    assert touched(keyed(tmp_path), chosen) == {("b", 1, 1), ("b", 2, 1)}
    with pytest.raises(ConfigError, match="not a list of buckets"):
        parse_buckets("1-x")


def test_idle_partitions_are_chosen(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    now = max(entry.file.creation_millis or 0 for entry in live(table))
    later = replace(table.store, ambient=replace(table.store.ambient, now_millis=lambda: now + 1000))
    assert ("b", 2, 1) not in touched(Table(later), Selection(idle_millis=1001))
    assert ("b", 2, 1) in touched(Table(later), Selection(idle_millis=1000))
