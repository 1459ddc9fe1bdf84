"""Row kinds of incoming rows: read from the rowkind field, ignored, or refused before rows are buffered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.row_kinds import DELETE, KIND_TEXTS, UPDATE_BEFORE, RowKinds, is_retract
from penstock.table.merge.aggregates.function import Aggregate
from penstock.table.merge.key_groups import whole
from penstock.table.merge.spec import MergeSpec
from penstock.table.values.buffers import fixed_values


class RetractRefused(ConfigError):
    """A -U or -D row for a table whose options do not define how to apply it."""


def row_kinds(spec: MergeSpec, rows: pa.Table, kinds: RowKinds) -> RowKinds:
    """Return the kinds that the table's rowkind field contains, or `kinds` if it has no such field."""
    if spec.rowkind_field is None:
        return kinds
    texts = rows.column(spec.rowkind_field)
    # The position of a text in KIND_TEXTS is the number of its kind.
    found = pc.fill_null(pc.index_in(texts, pa.array(KIND_TEXTS)), -1).cast(pa.int8())
    found = np.asarray(fixed_values(whole(found), np.int8), np.int8)
    if (found < 0).any():
        bad = texts[int(np.argmax(found < 0))].as_py()
        raise ConfigError(
            f"{bad!r} is not a row kind",
            column=spec.rowkind_field,
            hint="values of rowkind.field are +I, -U, +U and -D",
        )
    return found


def kept_rows(spec: MergeSpec, kinds: RowKinds) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return which rows remain after ignore-delete and ignore-update-before, or None if all remain."""
    if not (spec.ignore_delete or spec.ignore_update_before):
        return None
    dropped = kinds == UPDATE_BEFORE
    if spec.ignore_delete:
        dropped |= kinds == DELETE
    return ~dropped if dropped.any() else None


def check_retracts(spec: MergeSpec, kinds: RowKinds) -> None:
    """Raise RetractRefused for -U or -D rows on which a later merge of this table would fail.

    Java accepts them, and can then neither read nor compact the bucket.
    """
    if is_retract(kinds).any():
        spec.engine.check_retracts(spec, kinds)


def check_retractable(column: str, aggregate: Aggregate) -> None:
    """Raise RetractRefused if the column's function does not support retraction."""
    if not aggregate.retractable:
        raise RetractRefused(
            f"{aggregate.function.name} cannot retract a row",
            column=column,
            hint=f"set fields.{column}.ignore-retract = true, or ignore-delete = true",
        )
