"""Events as changes of tables."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.byte_buffers import Int64s
from penstock.formats.change import ChangeBatch, ImagePolicy, ImageRule
from penstock.ingest.database.unordered_deletes import note_unordered
from penstock.ingest.mongodb.errors import PostImageMissing
from penstock.ingest.mongodb.log.events import ROWS, Events
from penstock.ingest.mongodb.rows import KEY, DocumentRows, with_keys
from penstock.ingest.mongodb.server.collections import TableName
from penstock.ingest.mongodb.spellings import by_spelling
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

log = logging.getLogger(__name__)

GONE = "updated-and-deleted"  # the document of an update was deleted before it was looked up
_INSERT, _UPDATE, _REPLACE, _DELETE = range(len(ROWS))
_REQUIRED = "set  full-document: required  (--mongodb-conf scan.full-changelog=true)"
_NOT_FOLLOWED = "the rows of the target table stay; read the collection again with  penstock signal PIPELINE snapshot"


@dataclass(slots=True)
class EventDecoder:
    """Decodes the events of one range. `number` is the number of the next event."""

    includes: Callable[[str, str], bool]
    documents: DocumentRows
    images: ImagePolicy
    has_before: bool
    oddities: Counter[str]
    number: int = 0

    def decode(self, events: Events) -> list[ChangeBatch]:
        """Return the changes of the captured collections."""
        numbers = np.arange(self.number, self.number + len(events), dtype=np.int64)
        self.number += len(events)
        for (operation, name), count in events.others().items():
            if not name[1] or self.includes(*name):
                self.oddities[operation] += count
                log.warning("event=%s_not_followed collection=%s.%s note=%s", operation, *name, _NOT_FOLLOWED)
        is_row, found = events.is_row(), []
        for table in np.unique(events.table[is_row]).tolist():
            name = events.tables[table]
            if self.includes(*name):
                chosen = np.flatnonzero(is_row & (events.table == table))
                found += by_spelling(self._table(events, chosen, numbers[chosen], name), self.documents)
        return [batch for batch in found if len(batch)]

    def _table(self, events: Events, chosen: Int64s, numbers: Int64s, name: TableName) -> ChangeBatch:
        rule = self.images.rule(*name, (KEY,))
        operation, after = events.operation[chosen], events.after[chosen]
        deletes = operation == _DELETE
        changed = (operation == _UPDATE) | (operation == _REPLACE)
        # The document was deleted before the server looked it up: its delete follows.
        gone = ~deletes & (after < 0)
        self.oddities[GONE] += int(np.count_nonzero(gone))
        new, removed = np.flatnonzero(~deletes & ~gone), np.flatnonzero(deletes)
        if _needs_old(rule):
            needed = changed & ~gone | deletes
        else:
            # Others need the key alone, and are deleted whatever values the old document has.
            present = (events.before[chosen] >= 0) & rule.keeps_deleted
            needed = deletes & (present | bool(_unordered(rule))) & self.has_before
        old = self._old(events, chosen, needed, name)
        at = np.concatenate([events.before[chosen[old]], after[new]])
        rows = self.documents.rows(events.block, at, name)
        # A delete whose old document is known has all its columns.
        removed = np.setdiff1d(removed, old)
        note_unordered(len(removed), ".".join(name), _unordered(rule), self.oddities, _REQUIRED)
        keys = self.documents.keys(events.block, events.key[chosen[removed]], name)
        event = np.concatenate([old, new, removed])
        subs = np.repeat(np.array([0, 1, 0], np.int32), [len(old), len(new), len(removed)])
        kinds = np.concatenate(
            [_old_kinds(deletes[old], rule), _new_kinds(changed[new], rule), np.full(len(removed), DELETE)]
        )
        order = np.lexsort((subs, event))
        merged = with_keys(rows, keys, order)
        event = event[order]
        return ChangeBatch(
            merged,
            kinds[order].astype(np.int8),
            numbers[event],
            subs[order],
            self.documents.schema(name, merged.schema.names),
            events.milliseconds[chosen[event]],
        )

    def _old(self, events: Events, chosen: Int64s, wanted: np.ndarray, name: TableName) -> Int64s:
        """Return the events whose old document becomes a row."""
        found = np.flatnonzero(wanted)
        if len(found) and (not self.has_before or (events.before[chosen[found]] < 0).any()):
            raise PostImageMissing(
                "changes in the stream lack the old document, which the target table needs",
                collection=".".join(name),
                hint=f"{_REQUIRED} after  "
                f'db.runCommand({{collMod: "{name[1]}", changeStreamPreAndPostImages: {{enabled: true}}}})',
            )
        return found


def _needs_old(rule: ImageRule) -> bool:
    # `_id` never changes, so only other columns can move a row.
    return rule.before_images == "all" or not {column.lower() for column in rule.watch} <= {KEY}


def _unordered(rule: ImageRule) -> list[str]:
    """Return the columns of the target table's sequence.field that a delete with only `_id` lacks."""
    return sorted(column for column in rule.sequence if column.lower() != KEY)


def _old_kinds(deletes: np.ndarray, rule: ImageRule) -> np.ndarray:
    moves = rule.before_images != "all" or not {column.lower() for column in rule.watch} <= {KEY}
    return np.where(deletes, DELETE, DELETE if moves else UPDATE_BEFORE)


def _new_kinds(changed: np.ndarray, rule: ImageRule) -> np.ndarray:
    moves = _needs_old(rule) and not {column.lower() for column in rule.watch} <= {KEY}
    return np.where(changed, INSERT if moves else UPDATE_AFTER, INSERT)
