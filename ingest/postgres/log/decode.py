"""Decoding of log messages to change batches: whole columns of all rows of a table at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.byte_buffers import ranges
from penstock.formats.change import ChangeBatch, ImagePolicy, ImageRule, Truncation
from penstock.ingest.database.cells import Cells
from penstock.ingest.postgres.errors import UnexpectedMessage
from penstock.ingest.postgres.log import messages as log_messages
from penstock.ingest.postgres.log.messages import (
    EPOCH_MS,
    KEY,
    NEW,
    OLD,
    MessageBlock,
    RowImages,
    check_markers,
    images_of,
    joined,
    parse_relation,
    parse_truncate,
)
from penstock.ingest.postgres.log.replica_identity import check_identity, note_unordered_deletes
from penstock.ingest.postgres.values.columns import value_column
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from penstock.byte_buffers import Bools, Bytes, Int64s
    from penstock.ingest.postgres.relation import LoggedRelation, Relation

_ROWS = np.zeros(256, np.bool_)
_ROWS[[log_messages.INSERT, log_messages.UPDATE, log_messages.DELETE]] = True

Unchanged = dict[str, "Bools"]  # column -> rows whose value the log does not contain


@dataclass(frozen=True, slots=True)
class LoggedRows:
    """Rows of one table. Values in `unchanged` are null until they are looked up."""

    batch: ChangeBatch
    relation: Relation
    unchanged: Unchanged


class LogDecoder:
    """A decoder of consecutive blocks of one range of the log.

    `describe` returns the table of a Relation message, None if the table is not captured. Rows are numbered from the
    start of the range, so that reading the range again numbers them in the same way.
    """

    def __init__(
        self, describe: Callable[[LoggedRelation], Relation | None], images: ImagePolicy, oddities: Counter[str]
    ) -> None:
        self._describe = describe
        self._images = images
        self._oddities = oddities
        self._relations: dict[int, Relation | None] = {}
        self._logged: dict[int, LoggedRelation] = {}
        self.rows = 0  # of all tables so far
        self._commit_ms = -1

    def decode(self, block: MessageBlock) -> tuple[list[LoggedRows], list[Truncation]]:
        """Return the changes of a block."""
        rows = np.flatnonzero(_ROWS[block.tag])
        number = np.cumsum(_ROWS[block.tag]) + (self.rows - 1)
        self.rows += len(rows)
        times = self._commit_times(block)
        oids = block.unsigned(rows, 1)
        found: list[LoggedRows] = []
        truncations: list[Truncation] = []
        first = 0
        # Between two messages of these kinds, all tables have the same columns.
        rare = (block.tag == log_messages.RELATION) | (block.tag == log_messages.TRUNCATE)
        for edge in [*np.flatnonzero(rare).tolist(), len(block)]:
            if edge < len(block) and not self._changes(block, edge, truncations, number):
                continue
            part = (rows >= first) & (rows < edge)
            for oid in np.unique(oids[part]).tolist():
                relation = self._relation(oid)
                if relation is not None:
                    found.append(self._table(block, rows[part & (oids == oid)], relation, number, times))
            first = edge
            if edge < len(block):
                self._remember(block, edge)
        return found, truncations

    def _changes(self, block: MessageBlock, edge: int, truncations: list[Truncation], number: Int64s) -> bool:
        """Return whether a message gives a table new columns; add the tables that it empties."""
        body = block.body(edge)
        if block.tag[edge] == log_messages.TRUNCATE:
            for oid in parse_truncate(body):
                relation = self._relation(oid)
                if relation is not None:
                    truncations.append(Truncation(int(number[edge]) + 1, relation.schema, relation.table))
            return False
        logged = parse_relation(body)
        if logged.oid not in self._logged:
            self._add(logged)
            return False
        return self._logged[logged.oid] != logged

    def _remember(self, block: MessageBlock, edge: int) -> None:
        self._add(parse_relation(block.body(edge)))

    def _add(self, logged: LoggedRelation) -> None:
        self._logged[logged.oid] = logged
        self._relations.pop(logged.oid, None)

    def _relation(self, oid: int) -> Relation | None:
        # A table is looked up when its first row comes. A partition is not: its rows come under the name of its table.
        if oid not in self._relations:
            if oid not in self._logged:
                raise UnexpectedMessage("the log contains a row of a table that it has not described", oid=oid)
            self._relations[oid] = self._describe(self._logged[oid])
        return self._relations[oid]

    def _commit_times(self, block: MessageBlock) -> Int64s:
        """Return the time of the transaction of each message, in milliseconds since 1970."""
        begins = np.flatnonzero(block.tag == log_messages.BEGIN)
        # Number 0 is the transaction that was open at the end of the block before, n the one of the n-th BEGIN of
        # this block.
        times = np.concatenate([[self._commit_ms], block.longs(begins, 9) // 1000 + EPOCH_MS])
        self._commit_ms = int(times[-1])
        found: Int64s = times[np.cumsum(block.tag == log_messages.BEGIN)]
        return found

    def _table(
        self, block: MessageBlock, rows: Int64s, relation: Relation, number: Int64s, times: Int64s
    ) -> LoggedRows:
        rule = self._images.rule(relation.schema, relation.table, relation.key)
        # A row message has its kind and the table's oid, then K (key), O (old row) or N (new row) before each
        # image.
        tag, marker = block.tag[rows], block.data[block.start[rows] + 5]
        check_identity(relation, tag, marker, rule)
        note_unordered_deletes(relation, tag, marker, rule, self._oddities)
        has_old, has_new, end = marker != NEW, tag != log_messages.DELETE, block.end[rows]
        old = images_of(block.data, block.start[rows[has_old]] + 6, end[has_old], relation)
        new_at = block.start[rows] + 6
        # The new image follows the old one and its own marker.
        new_at[has_old] = old.end + 1
        new = images_of(block.data, new_at[has_new], end[has_new], relation)
        check_markers(block.data[new_at[has_new] - 1], tag, marker, relation)
        of_old, of_new = np.flatnonzero(has_old), np.flatnonzero(has_new)
        moved = _moved(old, new, np.flatnonzero(has_new & (marker == OLD)), of_old, of_new, relation, rule)
        if rule.before_images != "all" and len(moved):
            # The old image of an update that moves nothing is of no more use.
            kept_old = ~((tag[of_old] == log_messages.UPDATE) & (marker[of_old] == OLD)) | moved[of_old]
            old, of_old = old.chosen(kept_old), of_old[kept_old]
        # Old and new images in the order of their messages, the old one first.
        message = np.concatenate([of_old, of_new])
        is_new = np.repeat([False, True], [len(old), len(new)])
        # Images of one kind are in order.
        order = np.lexsort((is_new, message)) if len(old) and len(new) else np.arange(len(message))
        images, message, is_new = joined(old, new, order), message[order], is_new[order]
        kinds = _kinds(tag[message], marker[message], is_new, moved[message] if len(moved) else None)
        arrays = [
            value_column(cells, relation, column, self._oddities, binary=images.binary)
            for column, cells in zip(relation.columns, images.cells, strict=True)
        ]
        batch = ChangeBatch(
            pa.RecordBatch.from_arrays(arrays, names=[column.name for column in relation.columns]),
            kinds,
            number[rows[message]],
            is_new.astype(np.int32),
            relation.source_schema,
            times[rows[message]],
        )
        unchanged = {
            column.name: mask for column, mask in zip(relation.columns, images.unchanged, strict=True) if mask.any()
        }
        return LoggedRows(batch, relation, unchanged)


def _moved(
    old: RowImages, new: RowImages, whole: Int64s, of_old: Int64s, of_new: Int64s, relation: Relation, rule: ImageRule
) -> Bools:
    """Return which messages are updates that change a watched column; empty if no update has its whole old row.

    `whole` are the messages that have; `of_old` and `of_new` are the messages of the images. Unchanged values of new
    images are taken from the old ones.
    """
    if not len(whole):
        return np.zeros(0, np.bool_)
    before, after = np.searchsorted(of_old, whole), np.searchsorted(of_new, whole)
    _copy_unchanged(new, after, old, before)
    moved = np.zeros(max(int(of_old[-1]), int(of_new[-1])) + 1, np.bool_)
    for place, column in enumerate(relation.columns):
        if rule.watches(column.name):
            moved[whole] |= _differ(old.cells[place], before, new.cells[place], after)
    return moved


def _copy_unchanged(images: RowImages, new: Int64s, before: RowImages, old: Int64s) -> None:
    """Take unchanged values of new images from the whole old images of the same rows."""
    images.binary |= before.binary
    for place, unchanged in enumerate(images.unchanged):
        some = unchanged[new]
        if some.any():
            cells, source, to, at = images.cells[place], before.cells[place], new[some], old[some]
            start, length, null = cells.start.copy(), cells.length.copy(), cells.null.copy()
            start[to], length[to], null[to] = source.start[at], source.length[at], source.null[at]
            # The first bytes that were fetched are those of the cells before.
            images.cells[place] = Cells(cells.data, start, length, null)
            unchanged[to] = before.unchanged[place][at]


def _kinds(tag: Bytes, marker: Bytes, is_new: Bools, moved: Bools | None) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    """Return the kinds of the rows that images become, by the kinds and markers of their messages."""
    kinds = np.where(tag == log_messages.DELETE, DELETE, INSERT).astype(np.int8)
    update = tag == log_messages.UPDATE
    kinds[update & (marker == NEW)] = UPDATE_AFTER
    # A key that changed: the old row goes, the new one comes.
    kinds[update & (marker == KEY) & ~is_new] = DELETE
    if moved is not None:
        whole = update & (marker == OLD)
        kinds[whole & ~is_new] = np.where(moved, DELETE, UPDATE_BEFORE)[whole & ~is_new]
        kinds[whole & is_new] = np.where(moved, INSERT, UPDATE_AFTER)[whole & is_new]
    return kinds


def _differ(one: Cells, before: Int64s, other: Cells, after: Int64s) -> Bools:
    """Return whether the bytes of these pairs of cells of one buffer differ."""
    null = one.null[before]
    differ: Bools = (null != other.null[after]) | (one.length[before] != other.length[after]) & ~null
    same_size = np.flatnonzero(~differ & ~null & (one.length[before] > 0))
    if len(same_size):
        size = one.length[before[same_size]]
        old, offsets = ranges(one.data, one.start[before[same_size]], size)
        new, _ = ranges(other.data, other.start[after[same_size]], size)
        # Counts the unequal bytes of each pair. `reduceat` would return a byte of the next pair for an empty one,
        # so those are left out above.
        differ[same_size] = np.add.reduceat(old != new, offsets[:-1], dtype=np.int64) > 0
    return differ
