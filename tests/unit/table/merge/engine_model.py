"""The merge engines row by row in plain Python: what the vectorised ones are compared with.

A row is a dict of column to value; a record is (kind, row). Written from what the format says, not from the code.
"""

from __future__ import annotations

import functools
from typing import Any

from penstock.table.merge.aggregates.function import Aggregate
from penstock.table.merge.spec import MergeSpec

Row = dict[str, Any]
Record = tuple[int, Row]
RETRACTS = (1, 3)


def merge_key(spec: MergeSpec, records: list[Record], *, bypass: bool = True) -> Record | None:
    """The records of one key in order, merged; None where a read shows no row."""
    merged = records[0] if bypass and len(records) == 1 else _engine(spec, records)
    return None if merged[0] in RETRACTS else merged


def _engine(spec: MergeSpec, records: list[Record]) -> Record:
    match spec.engine.name:
        case "deduplicate":
            return records[-1]
        case "first-row":
            return records[0]
        case "aggregation":
            return _aggregate(spec, records)
        case "partial-update":
            return _partial_update(spec, records)
    raise AssertionError(spec.engine.name)


def _required(spec: MergeSpec) -> set[str]:
    return {field.name for field in spec.fields if not field.type.nullable}


def _aggregate(spec: MergeSpec, records: list[Record]) -> Record:
    states = {name: State(aggregate) for name, aggregate in spec.aggregates.items()}
    row: Row = {field.name: None for field in spec.fields}
    kind = 0
    for kind, values in records:
        if spec.remove_on_delete and kind == 3:
            row = {name: value if name in _required(spec) else None for name, value in values.items()}
            for name, state in states.items():
                state.value = row[name]
            continue
        for name, value in values.items():
            if name in states:
                row[name] = states[name].retract(value) if kind in RETRACTS else states[name].add(value)
            elif name in spec.sequence_fields:
                row[name] = None if kind in RETRACTS else value
            else:
                row[name] = value
    return (3 if spec.remove_on_delete and kind == 3 else 0), row


def _partial_update(spec: MergeSpec, records: list[Record]) -> Record:
    states = {name: State(aggregate) for name, aggregate in spec.aggregates.items()}
    row: Row = dict.fromkeys((field.name for field in spec.fields), None)
    added = removed = filled = False
    for kind, values in records:
        removed = False
        if kind in RETRACTS and not filled:
            _fill(spec, row, values)
            for name, state in states.items():
                state.value = row[name]
        filled = True
        if not spec.groups:
            if kind not in RETRACTS:
                row.update({name: value for name, value in values.items() if value is not None})
                added = True
            elif kind == 3:
                removed = True
                row = dict.fromkeys(row, None)
                _fill(spec, row, values)
            continue
        if kind in RETRACTS:
            if kind == 3 and any(g.removes and _moves(g.fields, values, row) for g in spec.groups):
                removed = True
                row = dict.fromkeys(row, None)
                _fill(spec, row, values)
                for name, state in states.items():
                    state.value = row[name]
                continue
        else:
            added = True
            grouped = {name for g in spec.groups for name in (*g.fields, *g.columns)}
            row.update({n: v for n, v in values.items() if n not in grouped and v is not None})
        for group in spec.groups:
            _move_group(group, kind, values, row, states)
    return (3 if removed or not added else 0), row


def _fill(spec: MergeSpec, row: Row, values: Row) -> None:
    row.update({name: values[name] for name in _required(spec)})


def _order(fields: tuple[str, ...], row: Row) -> tuple[Any, ...]:
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in fields)


def _moves(fields: tuple[str, ...], values: Row, row: Row) -> bool:
    return any(values[n] is not None for n in fields) and _order(fields, values) >= _order(fields, row)


def _move_group(group: Any, kind: int, values: Row, row: Row, states: dict[str, State]) -> None:
    if all(values[name] is None for name in group.fields):
        return
    moves = _moves(group.fields, values, row)
    for name in group.columns:
        state = states.get(name)
        if state is not None:
            if kind in RETRACTS:
                row[name] = state.retract(values[name])
            else:
                row[name] = state.add(values[name]) if moves else state.add_late(values[name])
        elif moves:
            row[name] = None if kind in RETRACTS else values[name]
    if moves:
        row.update({name: values[name] for name in group.fields})


class State:
    """One aggregate's accumulator."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.aggregate = aggregate
        self.value: Any = None
        self.first = False

    def add(self, value: Any) -> Any:
        self.value = self._agg(self.value, value)
        return self.value

    def add_late(self, value: Any) -> Any:
        if self.aggregate.function.name == "collect" and not self.aggregate.ignore_retract:
            return self.add(value)
        self.value = self._agg(value, self.value)
        return self.value

    def _agg(self, old: Any, new: Any) -> Any:
        match self.aggregate.function.name:
            case "last_value":
                return new
            case "last_non_null_value":
                return old if new is None else new
            case "first_value":
                if not self.first:
                    self.first = True
                    return new
                return old
            case "first_non_null_value":
                if not self.first and new is not None:
                    self.first = True
                    return new
                return old
            case "collect" if self.aggregate.distinct:
                if old is None and new is None:
                    return None
                return list(dict.fromkeys([*(old or []), *(new or [])]))
        if old is None or new is None:
            return old if new is None else new
        return self._combine(old, new)

    def _combine(self, old: Any, new: Any) -> Any:
        match self.aggregate.function.name:
            case "sum":
                return old + new
            case "product":
                return old * new
            case "max":
                return max(old, new)
            case "min":
                return min(old, new)
            case "bool_and":
                return old and new
            case "bool_or":
                return old or new
            case "listagg":
                return old + self.aggregate.delimiter + new
            case "collect":
                return [*old, *new]
            case "merge_map":
                return list({**dict(old), **dict(new)}.items())
            case "nested_update":
                return self._nested(old, new)
        raise AssertionError(self.aggregate.function)

    def _nested(self, old: list[Row], new: list[Row]) -> list[Row]:
        limit = self.aggregate.count_limit
        if limit is not None and len(old) >= limit:
            return old
        rows = [r for r in old if r is not None] + [r for r in new if r is not None][
            : None if limit is None else limit - len(old)
        ]
        if not self.aggregate.nested_key:
            return rows
        return list({tuple(r[k] for k in self.aggregate.nested_key): r for r in rows}.values())

    def retract(self, value: Any) -> Any:
        if not self.aggregate.ignore_retract:
            self.value = self._retract(self.value, value)
        return self.value

    def _retract(self, old: Any, value: Any) -> Any:
        match self.aggregate.function.name:
            case "sum":
                return old if value is None else -value if old is None else old - value
            case "product":
                if old is None or value is None:
                    return old
                return _java_division(old, value)
            case "last_value":
                return None
            case "last_non_null_value":
                return old if value is None else None
            case "collect":
                if old is None or not value:
                    return old
                gone = list(value)
                return [x for x in old if not (x in gone and (gone.remove(x) or True))]
            case "merge_map":
                return old if old is None or value is None else [p for p in old if p[0] not in dict(value)]
            case "nested_update":
                if old is None or value is None:
                    return old
                key = functools.partial(_nested_identity, self.aggregate.nested_key)
                gone = [key(r) for r in value if r is not None]
                return [r for r in old if r is not None and key(r) not in gone]
        raise AssertionError(self.aggregate.function)


def _nested_identity(key: tuple[str, ...], row: Row) -> tuple[Any, ...]:
    return tuple(row[k] for k in (key or row))


def _java_division(old: Any, value: Any) -> Any:
    if isinstance(old, int):
        quotient = abs(old) // abs(value)
        return quotient if (old < 0) == (value < 0) else -quotient
    return old / value
