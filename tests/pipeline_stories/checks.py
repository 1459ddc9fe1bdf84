"""Compares the tables and the counts of a pipeline with those of the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.pipelines.tasks.batch_report import BatchReport
from penstock.row_kinds import KIND_TEXTS
from penstock.table.buckets.layout import BucketMode
from penstock.table.handle import Table
from tests.pipeline_stories.model import Cells, Model, Target, cells

LETTERS = "__penstock_dead_letters"
KIND = "rowkind"
# When a row came and where it stood in the log: the model knows no clock.
UNCOMPARED = {"_deleted_at", "valid_from", "valid_to", "_position", "_end_position"}


def check_tables(model: Model, found: Mapping[str, Table]) -> None:
    for name in sorted(model.targets.keys() | found.keys() - {LETTERS}):
        rows = found[name].scan().to_arrow().to_pylist() if name in found else []
        target = model.targets.get(name)
        expected = target.expected(typed=model.typed) if target else Counter[Cells]()
        _compare(f"rows of {name}", Counter(map(_cells, rows)), expected)
        if target is not None and name in found:
            _check_input(name, found[name], target, typed=model.typed)
    letters = found[LETTERS].scan().to_arrow().to_pylist() if LETTERS in found else []
    positions = Counter(row["source_position"] for row in letters)
    if model.sections["errors"].get("isolate"):
        # A table that was parked late has written its letters, and writes them again with the batch.
        positions = Counter(set(positions))
    _compare("dead letters", positions, Counter(list(model.letters)))


def _check_input(name: str, table: Table, target: Target, *, typed: bool) -> None:
    """Check that the changelog has each row of the input with its kind. The model knows it for plain tables."""
    if table.options.get("changelog-producer") != "input" or target.deletes != "hard" or target.engine != "deduplicate":
        return
    if table.bucket_mode == BucketMode.CROSS_PARTITION:
        return  # the index of keys adds deletes to it
    snapshots = table.snapshots
    if not snapshots or snapshots[0].id != 1 or target.has_lost_rows:
        return
    changes = table.changes(0, snapshots[-1].id, "changelog").to_pylist()
    found = Counter((row[KIND], _cells({key: row[key] for key in row.keys() - {KIND}})) for row in changes)
    expected = Counter((kind, cells(target.shown(row, typed=typed))) for kind, row in target.images)
    _compare(f"input of {name}", found, expected)


def check_counts(model: Model, reports: Iterable[BatchReport]) -> None:
    """Check that each message and each row is written or counted as left out."""
    found = Counter[str]()
    for report in reports:
        found["messages"] += report.messages
        found["bad"] += report.bad_count
        found["left out"] += report.passed_over["rows.left.out"]
        for name, of_table in report.tables:
            if name != f"ods.{LETTERS}":
                found["written"] += sum(of_table.kinds[KIND_TEXTS.index(kind)] for kind in ("+I", "+U"))
    expected = model.counts.copy()
    if all(target.deletes == "hard" for target in model.targets.values()):
        expected["written"] = sum(
            kind in {"+I", "+U"} for target in model.targets.values() for kind, _ in target.images
        )
    else:
        del found["written"]
    _compare("counts", found, expected)


def _cells(row: Mapping[str, Any]) -> Cells:
    return cells({key: row[key] for key in row.keys() - UNCOMPARED})


def _compare(what: str, found: Counter[Any], expected: Counter[Any]) -> None:
    lost, extra = expected - found, found - expected
    if lost or extra:
        some = [
            sorted(map(str, counts.elements()))[:3] if what != "counts" else sorted(counts.items())
            for counts in (lost, extra)
        ]
        raise AssertionError(f"{what}: lost {some[0]}, extra {some[1]}")
