"""The lookups of a streaming query: DuckDB joins a batch of changes with the rows of dimensions for its keys."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from threading import Event
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.table.lookup.dimension import Dimension
from penstock.table.lookup.lookup_keys import distinct_keys
from penstock.table.lookup.matches import LOOKUP, Matches, all_rows
from penstock.table.merge.key_groups import whole
from penstock.table.sql.queries.session import Session
from penstock.table.sql.streams.lookup_joins import LookupJoin
from penstock.table.sql.streams.stream_text import ROW
from penstock.table.values.arrow_types import to_arrow
from penstock.table.values.buffers import Flags, fixed_values

log = logging.getLogger(__name__)

# Distinct keys, one array for each column, and whether a new row has the key.
Keys: TypeAlias = tuple[list[pa.Array], Flags]


class StreamStopped(Exception):
    """The streams are stopped while one of them waits for rows of a dimension."""


class StreamLookups:
    """The dimensions of one SELECT. During a batch, which is a snapshot of the source, each is at one snapshot.

    Only rows that missed, and are asked for again, may come from a newer one. A batch that is run again uses the
    snapshots that it used last.
    """

    def __init__(self, session: Session, joins: Sequence[LookupJoin]) -> None:
        self._session = session
        self.opened = [(join, _opened(join)) for join in joins]
        self._batch: int | None = None
        self._used: dict[str, tuple[int, int]] = {}
        self._attempts: Counter[str] = Counter()

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties of the batch's commit: the snapshot of each dimension, or the first and last one."""
        return {
            f"{LOOKUP}{name}": f"{first}" if first == last else f"{first}-{last}"
            for name, (first, last) in self._used.items()
        }

    def begin(self, batch: int) -> None:
        """Begin a batch, or run it again."""
        if batch != self._batch:
            self._batch = batch
            self._attempts.clear()
            self._move()
        self._used.clear()
        for join, dimension in self.opened:
            self._note(join.source.name, dimension)

    def _move(self) -> None:
        newest: dict[str, int | None] = {}
        for join, dimension in self.opened:
            name = join.source.name
            if name not in newest:
                dimension.refresh()
                newest[name] = dimension.snapshot
            else:  # the table is joined twice
                dimension.move_to(newest[name])
                dimension.follow_schema()

    def _note(self, name: str, dimension: Dimension) -> None:
        now = dimension.snapshot or 0
        first, last = self._used.get(name, (now, now))
        self._used[name] = (min(first, now), max(last, now))

    def register_empty(self) -> None:
        """Register the columns of the dimensions without rows. ConfigError for keys that cannot be compared."""
        for join, dimension in self.opened:
            self._register_empty(join, dimension)

    def _register_empty(self, join: LookupJoin, dimension: Dimension) -> None:
        _, schema = self._session.columns_of(join.keys)
        self._register(join, [dimension.rows([pa.array([], field.type) for field in list(schema)[:-1]])])

    def register(self, changes: pa.Table, stop: Event) -> None:
        """Register the rows for these changes, which are registered. The keys of a join may come from those before."""
        for join, dimension in self.opened:
            keys, are_new = _own_keys(join, dimension, changes) or self._queried_keys(join)
            if len(are_new):
                self._register(join, self._found(join, dimension, keys, are_new, stop))
            else:
                self._register_empty(join, dimension)

    def _queried_keys(self, join: LookupJoin) -> Keys:
        batches = list(self._session.prepared_batches(join.keys))
        if not batches:
            return [], np.zeros(0, np.bool_)
        *keys, are_new = [column.combine_chunks() for column in pa.Table.from_batches(batches).columns]
        return keys, np.asarray(are_new.to_numpy(zero_copy_only=False), np.bool_)

    def _found(
        self, join: LookupJoin, dimension: Dimension, keys: list[pa.Array], are_new: Flags, stop: Event
    ) -> list[Matches]:
        """Return the rows of the keys; new rows that miss are asked for again as the hint of the join says."""
        name, retry = join.source.name, join.source.retry
        found = [dimension.rows(keys)]
        missing = found[0].missing
        missing = missing[are_new[missing]]
        while retry is not None and len(missing) and self._attempts[join.view] < retry.attempts:
            self._attempts[join.view] += 1
            text = "event=lookup_waits table=%s keys=%d attempt=%d seconds=%g"
            log.info(text, name, len(missing), self._attempts[join.view], retry.delay)
            if stop.wait(retry.delay):
                raise StreamStopped
            if dimension.refresh():
                self._note(name, dimension)
                keys = [key.take(pa.array(missing)) for key in keys]
                found.append(dimension.rows(keys))
                missing = found[-1].missing
        if len(missing):
            log.info("event=lookup_missed table=%s keys=%d snapshot=%d", name, len(missing), dimension.snapshot or 0)
        return found

    def _register(self, join: LookupJoin, matches: Sequence[Matches]) -> None:
        self._session.register(join.view, all_rows([part.rows for part in matches]))


def _own_keys(join: LookupJoin, dimension: Dimension, changes: pa.Table) -> Keys | None:
    """Return the keys that are columns of the changes; None if a query has to find them.

    DuckDB needs eight times as long for them, most of it to group its rows.
    """
    types = {field.name: field.type for field in dimension.fields}
    columns = {name: changes.column(name) for name in join.own if name in changes.column_names}
    if not join.own or len(columns) < len(set(join.own)):
        return None
    # In other types, DuckDB decides which values are equal.
    if any(columns[own].type != to_arrow(types[name]) for own, name in zip(join.own, join.by, strict=True)):
        return None
    keys, codes = distinct_keys([whole(columns[name]) for name in join.own], [types[name] for name in join.by])
    are_new = np.zeros(len(keys[0]), np.bool_)
    are_old = fixed_values(whole(changes.column(ROW)), np.int64).astype(np.int64) % 2 == 1
    are_new[codes[~are_old & (codes >= 0)]] = True
    return keys, are_new


def _opened(join: LookupJoin) -> Dimension:
    return Dimension.open(join.source.table.store, by=join.by, columns=join.columns, partitions=join.partitions)
