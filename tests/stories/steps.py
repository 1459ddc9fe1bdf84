"""What the steps of a story do to the model, and the columns and rows that fit the table at a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.table.handle import Table
from penstock.table.meta.live import live_entries
from penstock.table.meta.snapshot import Snapshot
from penstock.table.meta.store import TableStore
from tests.simulation.playing import is_visible
from tests.simulation.story import Step
from tests.stories.shelf import REMOVING, TableModel
from tests.stories.statements import apply_statement


def bare(step: Step) -> Step:
    """Return the step with the keys that `Ours` knows."""
    if step["op"] == "delete_tag":
        return {"op": "delete_tag", "name": step["tag"]}
    return {key: value for key, value in step.items() if key not in {"columns", "which", "resident"}}


def fitted(step: Step, model: TableModel) -> Step:
    """Return a write with its rows arranged by the columns that the branch has now."""
    given = step["columns"]
    rows = []
    for kind, *cells in step["rows"]:
        row = dict(zip(given, cells, strict=True))
        rows.append([kind, *(row.get(name) for name in model.names)])
    return {**step, "columns": list(model.names), "rows": with_rows_to_retract(rows, model)}


def with_rows_to_retract(rows: list[list[Any]], model: TableModel) -> list[list[Any]]:
    """Return the rows with +I in place of a retract whose key is not in a table that merges its columns.

    Such a row is invisible until another one follows, unless a compaction has dropped it by then.
    """
    if model.removes:
        # A commit has one row of a key: of a delete and a later row, only the row.
        last = {model.key_of(cells): [kind, *cells] for kind, *cells in reversed(rows)}
        return [[kind if key in model.rows else "+I", *cells] for key, (kind, *cells) in last.items()][::-1]
    if model.options.get("merge-engine") not in REMOVING or "ignore-delete" in model.options:
        return rows
    keys, fitting = set(model.rows), []
    for kind, *cells in rows:
        key = model.key_of(cells)
        fitting.append([kind if key in keys else "+I", *cells])
        keys.add(key)
    return fitting


def has_buckets(store: TableStore, snapshot: Snapshot, options: Mapping[str, str]) -> bool:
    """Return whether all files of a snapshot have the number of buckets that the options set."""
    buckets = int(options.get("bucket", "-1"))
    return buckets < 1 or all(entry.total_buckets == buckets for entry in live_entries(store, snapshot))


def shown(table: Table, snapshot: Snapshot) -> bool:
    """Return whether readers see everything written.

    Postponed rows, and on some tables level 0, wait for compaction.
    """
    if not is_visible(table, snapshot):
        return False
    return all(entry.bucket >= 0 for entry in live_entries(table.store, snapshot))


def is_altered(change: Mapping[str, Any], names: Sequence[str]) -> bool:
    match change["kind"]:
        case "add":
            return change["name"] in names
        case "drop":
            return change["name"] not in names
        case "type":  # it can be repeated
            return False
    return change["to"] in names


def same_columns(model: TableModel, now: TableModel) -> bool:
    """Return whether the table has only gained columns since."""
    return now.names[: len(model.names)] == model.names


def widened(model: TableModel, now: TableModel) -> TableModel:
    made = model.copy()
    for name, kind in now.columns[len(model.columns) :]:
        made.add_column(name, kind)
    made.columns = list(now.columns)  # with the types that columns got since
    return made


def apply(step: Step, model: TableModel) -> None:
    """Apply the step to the rows of the model."""
    match step["op"]:
        case "write" if "overwrite" in step:
            model.overwrite(step["rows"], step["overwrite"])
        case "write":
            model.apply(step["rows"])
        case "delete":
            below = step["below"]
            model.remove(lambda row: row["k"] < below)
        case "sql":
            apply_statement(step, model)
        case "truncate":
            model.remove(lambda _: True)
        case "drop_partition":
            gone = step["partition"]["p"]
            model.remove(lambda row: row["p"] == gone)
        case "alter":
            for change in step["changes"]:
                alter(change, model)


def alter(change: Mapping[str, Any], model: TableModel) -> None:
    match change["kind"]:
        case "add":
            model.add_column(change["name"], change["type"])
        case "drop":
            model.drop_column(change["name"])
        case "rename":
            model.rename_column(change["name"], change["to"])
        case "type":
            model.widen_column(change["name"], change["type"])
