"""The merge engine `first-row`: the oldest row of a key stays, all others are dropped."""

from __future__ import annotations

import numpy as np

from penstock.errors import ConfigError
from penstock.row_kinds import RowKinds, is_retract
from penstock.table.merge.incoming_kinds import RetractRefused
from penstock.table.merge.key_groups import KeyGroups
from penstock.table.merge.outcome import Outcome
from penstock.table.merge.spec import MergeEngine, MergeSpec, MovedKey
from penstock.table.options.changelogs import CHANGELOG_PRODUCER, DELETION_VECTORS_ENABLED
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.buffers import Flags, Ints


def first_rows(groups: KeyGroups, chosen: Flags) -> Ints:
    """Return the first row of each key. RetractRefused when a chosen key has a -U or -D row."""
    # Only keys that are merged are checked. The only row of a key may bypass the engine, in Java too.
    retracts = is_retract(groups.kinds[groups.order])
    if (retracts & np.repeat(chosen, groups.counts)).any():
        raise _retract_refused()
    return groups.order[groups.starts]


def _merge(_spec: MergeSpec, groups: KeyGroups, chosen: Flags) -> Outcome:
    return Outcome.of(groups, first_rows(groups, chosen))


def _configure(spec: MergeSpec, _schema: TableSchema) -> MergeSpec:
    if spec.sequence_fields:
        raise ConfigError(
            "merge-engine = first-row does not support sequence.field",
            hint="remove sequence.field: the row that arrives first is kept",
        )
    return spec


def _check_retracts(_spec: MergeSpec, _kinds: RowKinds) -> None:
    raise _retract_refused()


def _retract_refused() -> RetractRefused:
    return RetractRefused(
        "a table with merge-engine = first-row cannot store -U and -D rows", hint="set ignore-delete = true"
    )


def _check_options(options: TableOptions) -> None:
    producer = options[CHANGELOG_PRODUCER]
    if producer.writes_changelog and not producer.by_lookup:
        raise ConfigError(
            f"merge-engine = first-row cannot have changelog-producer = {producer}", hint="use lookup or none"
        )
    if options[DELETION_VECTORS_ENABLED]:
        raise ConfigError(
            "merge-engine = first-row cannot have deletion vectors: it never replaces a row",
            hint="remove deletion-vectors.enabled",
        )


FIRST_ROW = MergeEngine(
    name="first-row",
    merge=_merge,
    configure=_configure,
    check_retracts=_check_retracts,
    check_options=_check_options,
    moved_key=MovedKey.IS_DROPPED,
    keeps_rows_whole=True,
    oldest_wins=True,
    needs_changelog_as="First row",
)
