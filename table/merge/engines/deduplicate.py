"""The merge engine `deduplicate`: the newest row of a key replaces all others."""

from __future__ import annotations

from penstock.row_kinds import RowKinds
from penstock.table.merge.key_groups import KeyGroups
from penstock.table.merge.outcome import Outcome
from penstock.table.merge.spec import MergeEngine, MergeSpec, MovedKey
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.buffers import Flags


def _merge(_spec: MergeSpec, groups: KeyGroups, _chosen: Flags) -> Outcome:
    distinct = len(groups.starts) == len(groups.order)
    return Outcome.of(groups, groups.order if distinct else groups.order[groups.ends - 1])


def _configure(spec: MergeSpec, _schema: TableSchema) -> MergeSpec:
    return spec  # the engine has no options of its own


def _check_retracts(_spec: MergeSpec, _kinds: RowKinds) -> None:
    """Accept all: a -U or -D row removes the row of its key."""


def _check_options(_options: TableOptions) -> None:
    """Accept all."""


DEDUPLICATE = MergeEngine(
    name="deduplicate",
    merge=_merge,
    configure=_configure,
    check_retracts=_check_retracts,
    check_options=_check_options,
    moved_key=MovedKey.MOVES,
    keeps_rows_whole=True,
    newest_wins=True,
    accepts_deletes=True,
    forgives_replay=True,
)
