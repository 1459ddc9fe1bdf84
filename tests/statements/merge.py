"""MERGE INTO on a table of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.statements.model import Outcome, Step, inputs, lost
from tests.statements.model_table import Cell, ModelTable, Row, columns_of, holds


def merge(table: ModelTable, step: Step) -> Outcome:
    """Run MERGE: the first clause that applies to a row is run."""
    columns = list(table.columns)
    if step["columns"] != columns or step["types"] != list(table.columns.values()):
        return Outcome.SKIPPED
    if any(not _known(table, clause) for clause in step["clauses"]):
        return Outcome.SKIPPED
    if _deletes(step) and not table.deletable:
        return Outcome.REFUSED
    source = [dict(zip(columns, cells, strict=True)) for cells in step["rows"]]
    types = {f"{alias}.{name}": type_ for alias in "ts" for name, type_ in table.columns.items()}
    on = step["on"]
    changed: list[tuple[Row, Row]] = []
    left: list[Row] = []
    deleted: list[Row] = []
    for row in table.rows:
        matches = [
            candidate
            for candidate in source
            if all(candidate[name] == row[name] and row[name] is not None for name in on)
        ]
        if len(matches) > 1 and any(clause["when"] == "matched" for clause in step["clauses"]):
            # Spark refuses several matches, DuckDB's side only those that would change the row.
            changing = [candidate for candidate in matches if _first(step, "matched", _pair(row, candidate), types)]
            return Outcome.REFUSED if len(changing) > 1 else Outcome.SKIPPED
        when, match = ("matched", matches[0]) if matches else ("by source", None)
        clause = _first(step, when, _pair(row, match), types)
        if clause is None:
            left.append(row)
        elif clause["then"] == "delete":
            deleted.append(row)
        else:
            new = _assigned(row, clause, _pair(row, match))
            changed.append((row, new))
            left.append(table.filled(new))
    taken = {tuple(row[name] for name in on) for row in table.rows}
    inserted = []
    for candidate in source:
        if tuple(candidate[name] for name in on) in taken:
            continue
        clause = _first(step, "not matched", _pair(None, candidate), types)
        if clause is not None:
            names = clause["columns"] or columns
            inserted.append({name: candidate[name] if name in names else None for name in columns})
    keys = [table.key_of(row) for row in inserted]
    # Two new rows with one key are refused by DuckDB's side, and in Spark one replaces the other.
    if table.keys and (len(set(keys)) < len(keys) or table.unsure(inserted)):
        return Outcome.SKIPPED
    if table.engine == "partial-update" and lost(table, changed):
        return Outcome.REFUSED
    sequence = table.options.get("sequence.field")
    if sequence is not None and lost(table, changed):
        return Outcome.SKIPPED
    table.rows = left
    table.bury(deleted)
    table.put(inserted)
    return Outcome.DONE


def _known(table: ModelTable, clause: Mapping[str, Any]) -> bool:
    named = columns_of(clause["and"]) if clause["and"] else set()
    named |= {f"t.{name}" for name, _ in clause["set"] or ()} | inputs(clause["set"] or ())
    named |= {f"t.{name}" for name in clause["columns"] or ()}
    return all(name[2:] in table.columns for name in named) and not {
        name for name, _ in clause["set"] or () if name not in table.free
    }


def _deletes(step: Step) -> bool:
    return any(clause["then"] == "delete" for clause in step["clauses"])


def _pair(row: Row | None, match: Row | None) -> dict[str, Cell]:
    return {
        **{f"t.{name}": cell for name, cell in (row or {}).items()},
        **{f"s.{name}": cell for name, cell in (match or {}).items()},
    }


def _first(step: Step, when: str, pair: dict[str, Cell], types: Mapping[str, str]) -> Mapping[str, Any] | None:
    for clause in step["clauses"]:
        if clause["when"] == when and (not clause["and"] or holds(clause["and"], pair, types)):
            return clause  # type: ignore[no-any-return]  # steps are plain data
    return None


def _assigned(row: Row, clause: Mapping[str, Any], pair: dict[str, Cell]) -> Row:
    if clause["set"] is None:
        return {name: pair[f"s.{name}"] for name in row}
    new = dict(row)
    for name, value in clause["set"]:
        new[name] = value[1] if value[0] in {"value", "default"} else pair[value[1]]
    return new
