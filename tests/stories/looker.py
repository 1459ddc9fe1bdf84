"""A process of a story that keeps a table open for lookups, and asks for rows by key after other steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.lookup.dimension import Dimension
from penstock.table.meta.store import TableMissing, TableStore
from tests.simulation.playing import PATH
from tests.simulation.store import Died, SimStore
from tests.stories.shelf import TableModel

ATTEMPTS = 8
KEYS, TEXTS = range(13), (*"abcxyz", "other")
PARTITIONS = ("a", "q/r", "%2e%2e", "it's", "none")
Found = Counter[tuple[int, tuple[Any, ...]]]


class Looker:
    """The process. It keeps its dimensions until it dies, and refreshes them before each look."""

    def __init__(self, new_process: Callable[[], SimStore], opened: Callable[[SimStore], TableStore]) -> None:
        self._new_process, self._opened = new_process, opened
        self._store = new_process()
        self._dimensions: dict[tuple[str, ...], Dimension] = {}

    def look(self, by: Sequence[str], model: TableModel) -> str | None:
        """Look up rows in the newest snapshot. Return what differs from the rows of the model."""
        probes = probes_of(by)
        last: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                dimension = self._refreshed(tuple(by), model)
                found = dimension.rows([pa.array(column) for column in probes])
            except Died as death:
                last, self._store = death, self._new_process()
                self._dimensions.clear()
            except (OSError, TableMissing) as failure:
                last = failure
            else:
                rows = zip(found.keys.tolist(), map(cells, found.rows.to_pylist()), strict=True)
                return difference(expected(by, probes, model, dimension.columns), Counter(rows))
        raise AssertionError(f"the lookup by {by} failed {ATTEMPTS} times: {last}") from last

    def _refreshed(self, by: tuple[str, ...], model: TableModel) -> Dimension:
        dimension = self._dimensions.get(by)
        if dimension is not None:
            try:
                dimension.refresh()
            except ConfigError:
                # A column that the lookup returns was dropped or renamed.
                if set(dimension.columns) <= set(model.names):
                    raise
            else:
                # Until the next snapshot, a lookup returns a column by the name that it had when it was opened.
                if set(dimension.columns) <= set(model.names):
                    return dimension
        opened = self._dimensions[by] = Dimension.open(self._opened(self._store), by=by)
        return opened


def probes_of(by: Sequence[str]) -> list[list[Any]]:
    """Return keys that the table may have, and some that it never has, as one list for each column."""
    values: Mapping[str, Sequence[Any]] = {"k": KEYS, "p": PARTITIONS, "v": TEXTS}
    keys: list[tuple[Any, ...]] = [()]
    for name in by:
        keys = [(*key, value) for key in keys for value in values[name]]
    return [list(column) for column in zip(*keys, strict=True)]


def expected(by: Sequence[str], probes: Sequence[Sequence[Any]], model: TableModel, columns: Sequence[str]) -> Found:
    numbers = {key: number for number, key in enumerate(zip(*probes, strict=True))}
    found: Found = Counter()
    for values in model.rows.values():
        row = dict(zip(model.names, values, strict=True))
        number = numbers.get(tuple(row[name] for name in by))
        if number is not None:
            found[number, cells({name: row[name] for name in columns})] += 1
    return found


def cells(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((name, hashable(value)) for name, value in row.items())


def hashable(value: Any) -> Any:
    """Return a value of a nested column without its order, which means nothing in maps and in merged arrays."""
    if isinstance(value, Mapping):
        return tuple((name, hashable(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        # The pairs of a map are tuples here, and lists in the model.
        return tuple(sorted(map(hashable, value), key=repr))
    return value


def difference(right: Found, found: Found) -> str | None:
    lost, extra = right - found, found - right
    return f"lost {list(lost)[:3]}, extra {list(extra)[:3]}" if lost or extra else None


def open_table(store: SimStore, environment: Any) -> TableStore:
    return TableStore.open(store, PATH, None, environment)
