"""How the model merges the rows of a key, for the engines and functions that only some stories have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Aggregate = Callable[[Any, Any], Any]


def aggregate_of(options: Mapping[str, str], name: str) -> Aggregate:
    """Return the function of a column: the merged value of the one so far and the one of a later row."""
    function = options.get(f"fields.{name}.aggregate-function") or options.get("fields.default-aggregate-function")
    match function or "last_non_null_value":
        case "last_value":
            return lambda _, new: new
        case "first_value":
            return lambda held, _: held
        case "first_non_null_value":
            return _skipping_null(lambda held, _: held)
        case "last_non_null_value":
            return _skipping_null(lambda _, new: new)
        case "sum":
            return _skipping_null(lambda held, new: held + new)
        case "product":
            return _skipping_null(lambda held, new: _as_int(held * new))
        case "max" | "bool_or":
            return _skipping_null(max)
        case "min" | "bool_and":
            return _skipping_null(min)
        case "listagg":
            delimiter = options.get(f"fields.{name}.list-agg-delimiter", ",")
            return _skipping_null(lambda held, new: held + delimiter + new)
        case "merge_map":
            return _skipping_null(lambda held, new: [list(pair) for pair in {**dict(held), **dict(new)}.items()])
        case "collect":
            return _collect(options.get(f"fields.{name}.distinct") == "true")
    limit = options.get(f"fields.{name}.count-limit")
    return _skipping_null(_nested(options.get(f"fields.{name}.nested-key"), None if limit is None else int(limit)))


def _skipping_null(aggregate: Aggregate) -> Aggregate:
    return lambda held, new: held if new is None else new if held is None else aggregate(held, new)


def _as_int(number: int) -> int:
    """Return what is left of a product in 32 bits, as in Java."""
    return (number + 2**31) % 2**32 - 2**31


def _collect(distinct: bool) -> Aggregate:
    if not distinct:
        return _skipping_null(lambda held, new: [*held, *new])

    def unite(held: Any, new: Any) -> Any:
        return None if held is None and new is None else list(dict.fromkeys([*(held or ()), *(new or ())]))

    return unite


def _nested(key: str | None, limit: int | None) -> Aggregate:
    def unite(held: list[Any], new: list[Any]) -> list[Any]:
        if limit is not None:
            new = new[: max(0, limit - len(held))]
        both = [*held, *new]
        return both if key is None else list({row[key]: row for row in both}.values())

    return unite


@dataclass(frozen=True, slots=True)
class Group:
    """A sequence group of partial-update: `columns` follow the row whose `fields` are highest."""

    fields: tuple[str, ...]
    columns: tuple[str, ...]
    removes: bool

    def counts(self, row: Mapping[str, Any]) -> bool:
        return any(row[name] is not None for name in self.fields)

    def moves(self, row: Mapping[str, Any], held: Mapping[str, Any]) -> bool:
        return self.counts(row) and order(self.fields, row) >= order(self.fields, held)


def order(names: Sequence[str], row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what the rows of a key are ordered by. A null is lower than any value."""
    return tuple((row[name] is not None, row[name] or 0) for name in names)


def groups_of(options: Mapping[str, str]) -> list[Group]:
    removing = set(options.get("partial-update.remove-record-on-sequence-group", "").split(","))
    found = []
    for key, columns in options.items():
        if key.endswith(".sequence-group"):
            fields = tuple(key.split(".")[1].split(","))
            found.append(Group(fields, tuple(columns.split(",")), bool(removing & set(fields))))
    return found


def merge_groups(
    options: Mapping[str, str], groups: Sequence[Group], kind: str, row: Mapping[str, Any], held: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the row of a key after another row of it; None if that row removes it."""
    removes = kind == "-D" and any(group.removes and group.moves(row, held) for group in groups)
    if removes:
        return None
    merged, retracts = dict(held), kind in {"-U", "-D"}
    if not retracts:
        grouped = {name for group in groups for name in (*group.fields, *group.columns)}
        merged |= {name: value for name, value in row.items() if name not in grouped and value is not None}
    for group in groups:
        if group.counts(row):
            merged |= _moved(options, group, row, held, retracts=retracts)
    return merged


def _moved(
    options: Mapping[str, str], group: Group, row: Mapping[str, Any], held: Mapping[str, Any], *, retracts: bool
) -> dict[str, Any]:
    moves, made = group.moves(row, held), {}
    for name in group.columns:
        if f"fields.{name}.aggregate-function" in options:
            pair = (held[name], row[name]) if moves else (row[name], held[name])
            made[name] = aggregate_of(options, name)(*pair)
        elif moves:
            made[name] = None if retracts else row[name]
    return made | ({name: row[name] for name in group.fields} if moves else {})
