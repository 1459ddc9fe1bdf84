"""The properties of a merge engine, and the merge options of a table: how the rows of a key become one row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

from penstock.row_kinds import RowKinds
from penstock.table.merge.aggregates.function import Aggregate
from penstock.table.merge.key_groups import KeyGroups
from penstock.table.merge.outcome import Outcome
from penstock.table.options.declaration import TableOption
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema
from penstock.table.values.buffers import Flags
from penstock.table.values.types import DataType, Field


class MovedKey(Enum):
    """The place of a row whose key the table already has in another partition."""

    MOVES = "the old row is deleted, and the row is written to its own partition"
    STAYS = "the row is written to the partition that has the key"
    IS_DROPPED = "the row is dropped"


@dataclass(frozen=True, slots=True)
class MergeEngine:
    """A merge engine. All other code asks these properties and never compares engines.

    `merge` gets the rows grouped by key, and which keys to merge; the only row of each other key remains as it is.
    `configure` adds the engine's own options to the spec of a table, and `check_options` refuses options that the
    engine cannot have; both raise ConfigError. `check_retracts` raises RetractRefused for -U and -D rows that a later
    merge could not apply.
    """

    name: str  # in the option merge-engine
    merge: Callable[[MergeSpec, KeyGroups, Flags], Outcome]
    configure: Callable[[MergeSpec, TableSchema], MergeSpec]
    check_retracts: Callable[[MergeSpec, RowKinds], None]
    check_options: Callable[[TableOptions], None]
    moved_key: MovedKey
    keeps_rows_whole: bool = False  # the result is one of the rows of the key, and not made of several
    newest_wins: bool = False  # that row is the newest one
    oldest_wins: bool = False  # that row is the oldest one
    accepts_deletes: bool = False  # -D rows delete, whatever the table's options are
    removes_by: TableOption[bool] | None = None  # the option that makes -D rows delete
    forgives_replay: bool = False  # rows that are written twice have the same effect as once
    needs_before_images: bool = False  # -U rows change the result
    null_means_unchanged: bool = False  # a null does not overwrite a value
    own_options: tuple[TableOption[object], ...] = ()  # options that have an effect only with this engine, or with some
    needs_changelog_as: str = ""  # Paimon's name of an engine whose stream needs a changelog; empty: it needs none


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """A group whose `columns` are updated together unless `fields` decrease.

    `removes`: a -D row here removes the whole key.
    """

    fields: tuple[str, ...]
    columns: tuple[str, ...]
    removes: bool = False


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """The merge options of a table with a primary key."""

    engine: MergeEngine
    keys: tuple[str, ...]  # trimmed primary key
    fields: tuple[Field, ...]  # all columns of the table
    sequence_fields: tuple[str, ...] = ()
    descending: bool = False  # the smallest user sequence wins; Java 1.3.1 ignores this within one flush
    groups: tuple[SequenceGroup, ...] = ()
    aggregates: dict[str, Aggregate] = field(default_factory=dict)  # columns that are neither keys nor sequence fields
    remove_on_delete: bool = False
    ignore_delete: bool = False
    ignore_update_before: bool = False
    rowkind_field: str | None = None
    lookup: bool = False  # upper levels contain merged rows: only the row on the smallest level counts

    @property
    def combines_columns(self) -> bool:
        """Return whether a merged row is made of several rows, column by column."""
        return not self.engine.keeps_rows_whole

    @property
    def last_arrival_wins(self) -> bool:
        """Return whether the row that arrived last always replaces all others."""
        return self.engine.newest_wins and not self.sequence_fields

    @property
    def needs_upper_levels(self) -> bool:
        """Return whether compaction merges rows of level 0 with the rows of their keys on upper levels."""
        return self.lookup or self.engine.oldest_wins

    @property
    def accepts_deletes(self) -> bool:
        """Return whether a -D row deletes the row of its key."""
        return self.engine.accepts_deletes or self.remove_on_delete or any(group.removes for group in self.groups)

    @property
    def delete_removes_key(self) -> bool:
        """Return whether each -D row removes its key, although the engine combines rows.

        With a sequence field or a sequence group, a -D row with a smaller sequence than its key's row removes nothing.
        """
        return self.remove_on_delete and not self.sequence_fields

    def type_of(self, column: str) -> DataType:
        """Return the type of a column."""
        return next(field.type for field in self.fields if field.name == column)

    def key_types(self) -> list[DataType]:
        """Return the types of the key columns."""
        return [self.type_of(key) for key in self.keys]


def required_columns(spec: MergeSpec, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the table columns that a merge must read for `wanted` to be correct, in the table's order."""
    wanted = set(wanted)
    needed = wanted | set(spec.keys) | set(spec.sequence_fields)
    for group in spec.groups:
        # A -D row that a removing group accepts deletes the whole key, so its sequence decides about columns
        # outside of the group too.
        if group.removes or wanted & {*group.fields, *group.columns}:
            needed.update(group.fields)
    return tuple(column.name for column in spec.fields if column.name in needed)
