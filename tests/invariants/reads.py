"""Invariants of what readers see: the rows of snapshots, and the changelog between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache

import pyarrow as pa

from penstock.table.compaction.changelog import ChangelogSpec
from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import CommitKind, Snapshot
from penstock.table.values.types import type_json
from tests.golden.relations import Relation, canonical_of, difference, relation_of
from tests.invariants.metadata import may_be_of_a_tag
from tests.invariants.view import Reads

Row = tuple[Hashable, ...]
KIND_COLUMN = "rowkind"
FOLDABLE = {"input", "lookup", "full-compaction"}


Scan = Callable[[int], pa.Table]


def broken(table: Table, model: Mapping[int, Relation], reads: Reads) -> Iterator[str]:
    # Both rules need the rows of most snapshots.
    scan: Scan = cache(lambda snapshot_id: reads.of_scan(table.scan(snapshot=snapshot_id)))
    yield from rows_are_those_of_the_model(table, model, scan)
    yield from changelog_folds_to_the_table(table, scan)


def rows_are_those_of_the_model(table: Table, model: Mapping[int, Relation], scan: Scan) -> Iterator[str]:
    """I3: the rows of a snapshot are the model's."""
    live = {snapshot.id for snapshot in table.snapshots}
    for snapshot_id, rows in model.items():
        if snapshot_id in live and (wrong := difference(rows, scan(snapshot_id))) is not None:
            yield f"I3 snapshot {snapshot_id}: {wrong}".replace("Java", "model")


def changelog_folds_to_the_table(table: Table, scan: Scan) -> Iterator[str]:
    """I4: the folded changelog equals the table."""
    producer = table.options.get("changelog-producer", "none")
    if producer not in FOLDABLE or not table.primary_keys or not foldable(table, producer):
        return
    snapshots = [snapshot for snapshot in table.snapshots if snapshot.schema_id == table.schema_id]
    if not snapshots or snapshots != table.snapshots[-len(snapshots) :]:
        return
    known = snapshots[0].id == 1 and not may_be_of_a_tag(table.store, snapshots[0])
    state: dict[Row, Row] | None = {} if known else None
    for snapshot in snapshots:
        if snapshot.commit_kind is CommitKind.OVERWRITE:
            state = None
        if state is not None:
            changes = table.changes(snapshot.id - 1, snapshot.id, "changelog")
            yield from fold(state, table, changes, snapshot, strict=producer != "input")
        if not is_settled(table, snapshot, producer):
            continue
        rows = {key: row for _, key, row in keyed(table, scan(snapshot.id))}
        if state is not None and state != rows:
            wrong = [key for key in state.keys() | rows.keys() if state.get(key) != rows.get(key)]
            yield f"I4 snapshot {snapshot.id}: folded {state.get(wrong[0])}, read {rows.get(wrong[0])}, key {wrong[0]}"
        state = rows


def foldable(table: Table, producer: str) -> bool:
    """Return whether the changelog folds to the table. Raw input does only if the last row of a key wins unchanged."""
    if producer != "input":
        return True
    plain = table.options.get("merge-engine", "deduplicate") == "deduplicate"
    return plain and not {"sequence.field", "ignore-delete", "ignore-update-before"} & table.options.keys()


def is_settled(table: Table, snapshot: Snapshot, producer: str) -> bool:
    """Return whether the changelog contains all changes up to this snapshot."""
    if producer == "input":
        return True
    entries = live_entries(table.store, snapshot)
    if producer == "lookup":
        return all(entry.file.level > 0 for entry in entries)
    # Other compactions than those of all files of a bucket write no changelog.
    levels = {(entry.partition, entry.bucket, entry.file.level) for entry in entries}
    is_single = len(levels) == len({place[:2] for place in levels})
    return is_single and all(bucket >= 0 and level > 0 for _, bucket, level in levels)


def fold(state: dict[Row, Row], table: Table, changes: pa.Table, snapshot: Snapshot, *, strict: bool) -> Iterator[str]:
    half: tuple[Row, Row] | None = None  # a -U whose +U has not come yet
    keeps_first = table.options.get("merge-engine") == "first-row"
    for kind, key, row in keyed(table, changes):
        if keeps_first and kind == "+U":
            kind = "+I"  # a first row has the kind with which it arrived, as in Paimon
        place = f"I4 snapshot {snapshot.id}: {kind} {row}"
        if strict and kind == "+I" and key in state:
            yield f"{place} of a key that is there"
        if strict and kind in {"-D", "-U"} and state.get(key) != row:
            yield f"{place}, the row before was {state.get(key)}"
        if strict and (kind == "+U", key) != (half is not None, half[0] if half else key):
            yield f"{place} after {half and half[1]}: -U and +U stand together"
        half = (key, row) if kind == "-U" else None
        if kind in {"+I", "+U"}:
            state[key] = row
        else:
            state.pop(key, None)
    if strict and half is not None:
        yield f"I4 snapshot {snapshot.id}: -U {half[1]} without its +U"


def left_out(table: Table) -> frozenset[str]:
    """Return the columns whose changes alone are not in the changelog."""
    spec = ChangelogSpec.of(table.definition.typed)
    return frozenset(spec.ignored) if spec.producer.by_compaction and spec.deduplicate else frozenset()


def keyed(table: Table, rows: pa.Table) -> Iterator[tuple[str, Row, Row]]:
    """Yield kind, primary key and row with canonical values; null where the changelog leaves changes out."""
    types = {field.name: type_json(field.type) for field in table.definition.fields}
    kind_column = KIND_COLUMN if KIND_COLUMN in rows.column_names else None
    found = relation_of(rows, types, kind_column=kind_column)
    canon = [canonical_of(kind) for kind in found.types]
    places = [found.columns.index(name) for name in table.primary_keys]
    ignored = left_out(table) - {*table.primary_keys}
    kept = [name not in ignored for name in found.columns]
    for kind, row in zip(found.kinds or ["+I"] * len(found), found.rows, strict=True):
        cells = tuple(
            canonical(value) if keep else None for canonical, value, keep in zip(canon, row, kept, strict=True)
        )
        yield kind, tuple(cells[place] for place in places), cells
