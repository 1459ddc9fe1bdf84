"""Quality rules: conditions for the new rows of a table, and the actions for rows that do not meet them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from penstock.errors import DecodeError
from penstock.formats.change import BadRecord, ChangeBatch, SourceSchema
from penstock.row_kinds import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from penstock.schema_evolution.expression_columns import check_columns, matching_rows
from penstock.schema_evolution.expressions.nodes import Node, columns_of
from penstock.schema_evolution.expressions.parse import parse_expression
from penstock.schema_evolution.fit import whole_messages
from penstock.schema_evolution.soft_deletes import deleted_rows
from penstock.schema_evolution.text_casts import Misfits
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.update_images import Flags, key_only_deletes, updates_in_place
from penstock.table_pattern import TablePattern

ExpectAction = Literal["warn", "drop", "dead-letter", "fail"]
EXPECT = "expect."  # prefix of the counts of expectations
UPDATES_DROPPED = "updates.dropped"  # counts updates that were dropped: the table keeps the row before the update


@dataclass(frozen=True, slots=True)
class Expectation:
    """A condition on the new rows of all source tables that match `tables`."""

    tables: TablePattern
    condition: str
    node: Node
    action: ExpectAction
    name: str

    @classmethod
    def of(cls, tables: str, condition: str, action: ExpectAction, name: str | None) -> Expectation:
        return cls(TablePattern.of(tables), condition, parse_expression(condition), action, name or condition)

    def check_columns(self, schema: SourceSchema) -> None:
        """Raise ConfigError if the condition uses a column that is not in this whole schema of a table."""
        check_columns(columns_of(self.node), schema, strictly=True)

    @property
    def counted_as(self) -> str:
        """The name of its count in metrics and status."""
        return f"{EXPECT}{self.action}.{self.name}"


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """The rows that remain, the messages refused, and how many rows did not meet each expectation.

    `never_added` counts the old rows among those that remain that a rule left out when they were new.
    """

    change: ChangeBatch
    bad: tuple[BadRecord, ...] = ()
    counts: Counter[str] | None = None
    never_added: int = 0


def checked(
    change: ChangeBatch,
    expectations: Sequence[Expectation],
    mapping: TypeMapping,
    now_millis: int,
    zone: str = "UTC",
    keys: Sequence[str] = (),
) -> CheckedRows:
    """Return the rows that meet the expectations, or whose expectation only warns.

    Old images and deletes are not checked: a row that does not meet a condition must be deletable. DecodeError for a
    row that must not be. `keys` are the columns of the target table's key.
    """
    marked = deleted_rows(change)
    before = updates_in_place(change, keys, (change.kinds == DELETE) | marked)
    is_update = change.kinds == UPDATE_AFTER
    is_update[before + 1] = True
    new = ((change.kinds == INSERT) | (change.kinds == UPDATE_AFTER)) & ~marked
    # For a delete with only its key, it is unknown whether the row met the conditions.
    old = ((change.kinds == UPDATE_BEFORE) | (change.kinds == DELETE)) & ~key_only_deletes(change)
    tally = _Tally(change, new, old, is_update, np.ones(len(change), np.bool_), np.zeros(len(change), np.bool_))
    for expectation in expectations:
        unread = Misfits()
        tally.judge(expectation, matching_rows(change, expectation.node, mapping, now_millis, zone, unread), unread)
    kept = tally.kept
    whole, bad = whole_messages(change, tally.misfits)
    if whole is not None:
        kept &= whole
    remaining = _without(change, kept, before)
    # The plus drops counts of zero.
    return CheckedRows(remaining, bad, +tally.counts, int(np.count_nonzero(tally.never_added & kept)))


@dataclass(slots=True)
class _Tally:
    """The rows of a change that have met the expectations so far, and the counts of others.

    `new` and `old` are the rows that are checked and their former images; `is_update` are the new rows of updates.
    """

    change: ChangeBatch
    new: Flags
    old: Flags
    is_update: Flags
    kept: Flags
    never_added: Flags
    misfits: Misfits = field(default_factory=Misfits)
    counts: Counter[str] = field(default_factory=Counter)

    def judge(self, expectation: Expectation, matching: Flags, unread: Misfits) -> None:
        """Apply an expectation that the rows `matching` meet. `unread` are rows with values that cannot be read."""
        if expectation.action in {"drop", "dead-letter"}:
            self.never_added |= self.old & ~matching
        failed = self.new & self.kept & ~matching
        # A value that cannot be read is reported as such, and not as one that does not meet the condition.
        for row, reason in unread.reasons.items():
            failed[row] = False
            self.misfits.add(np.array([row]), reason)
        if not failed.any():
            return
        self.counts[expectation.counted_as] += int(np.count_nonzero(failed))
        if expectation.action == "fail":
            raise _violation(self.change, expectation, int(np.argmax(failed)))
        if expectation.action == "drop":
            self.kept &= ~failed
            self.counts[UPDATES_DROPPED] += int(np.count_nonzero(self.is_update & failed))
        elif expectation.action == "dead-letter":
            self.misfits.add(
                np.flatnonzero(failed), f"the expectation {expectation.name} is not met: {expectation.condition}"
            )


def _without(change: ChangeBatch, kept: Flags, before: npt.NDArray[np.int64]) -> ChangeBatch:
    if kept.all():
        return change
    # The old image of an update is left out with the new one: the table keeps the row as it was. At another key the
    # new row would come beside it with its next change, so that the delete at the old key stays.
    kept[before[~kept[before + 1]]] = False
    return change.filter(kept)


def _violation(change: ChangeBatch, expectation: Expectation, row: int) -> DecodeError:
    schema = change.schema
    keys = [name for name in schema.primary_keys if name in change.rows.schema.names]
    key = ", ".join(f"{name}={change.rows.column(name)[row].as_py()}" for name in keys)
    return DecodeError(
        f"a row does not meet the expectation {expectation.name}, and nothing of the batch was committed",
        source=".".join(filter(None, (schema.database, schema.table))) or None,
        condition=expectation.condition,
        key=key or None,
        offset=int(change.positions[row]),
        hint="correct the row at the source, or choose the action drop or dead-letter for the expectation",
    )
