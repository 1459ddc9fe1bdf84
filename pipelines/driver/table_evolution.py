"""Changes target tables: to fit the schemas that a batch contains, and as the source changed whole tables.

Changes of whole tables (truncate, drop, rename) are applied between batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from penstock.errors import ConfigError, PenstockError, SchemaConflict
from penstock.ingest.source import SILENT_VALUES, Barrier
from penstock.pipelines.driver.emptied_tables import end_versions, mark_rows
from penstock.pipelines.driver.unlogged_values import fill_added_columns
from penstock.pipelines.errors import KeylessTable, not_created
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.mapping.described_tables import LEFT_OUT_HINT
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks.read import BatchReader
from penstock.table.commit.committer import Committer
from penstock.table.meta.store import TableStore
from penstock.table.schema.changes import RenameColumn, SchemaChange, SetOption
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.validation import UnusableName
from penstock.table.usable import check_usable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableEvolution:
    """Creates and alters target tables so that they can store the source schemas that a batch contains."""

    reader: BatchReader
    targets: Targets
    parks: Callable[[str, PenstockError], bool]  # whether the batch may continue without the table

    def evolve(self, drifts: Mapping[str, list[SeenSchema]]) -> None:
        """Alter each table so that it can store the schemas seen.

        New tables that cannot be created are left out if other tables exist. With `ignore_incompatible`, tables that
        cannot store a schema are left out too.
        """
        schemas, unmade = {}, dict[str, PenstockError]()
        for table, seen in drifts.items():
            current = self.reader.warehouse.store(table).schema() if table in self.targets.schemas else None
            try:
                # Before the columns are added: after a crash in between, they would not be new any more.
                if current is not None:
                    fill_added_columns(self.reader, current, seen)
                schema = self.reader.mapping.evolved(table, current, seen)
            except (SchemaConflict, ConfigError) as error:
                if current is None:
                    unmade[table] = error
                else:
                    self._leave_out_or_raise(table, seen, error)
                continue
            if current is None or current.id != schema.id:  # a rename may have made that version already
                before = "none" if current is None else current.id
                log.info("event=schema_evolved table=%s from=%s to=%d", table, before, schema.id)
            schemas[table] = schema.id
        # Before any error is raised: tables that could be altered keep their new versions, and are not altered a
        # second time.
        self.targets.put(schemas)
        self._leave_out_unmade(unmade, drifts)

    def _leave_out_unmade(
        self, unmade: Mapping[str, PenstockError], drifts: Mapping[str, Sequence[SeenSchema]]
    ) -> None:
        """Continue without new tables that cannot be created, or raise one error for all that must not be left out."""
        # The only table is not left out: the settings may ask for something that no table can have, which the user must
        # see.
        leaves_out = self.reader.errors.leaves_out and bool(
            self.targets.schemas.keys() - self.reader.errors.on_bad.letters
        )
        refused: dict[str, PenstockError] = {}
        for table, why in unmade.items():
            odd = isinstance(why, UnusableName) or (isinstance(why, ConfigError) and not self.reader.errors.isolates)
            if isinstance(why, KeylessTable) or (leaves_out and odd):
                self._leave_out(table, drifts[table], why)
            else:
                try:
                    self._leave_out_or_raise(table, drifts[table], why)
                except PenstockError as error:
                    refused[table] = error
        if refused:
            raise not_created(refused)

    def comment(self, seen: Mapping[str, Sequence[SeenSchema]], excluded: Collection[str]) -> None:
        """Set the newest comments of the source's columns."""
        for table, schemas in seen.items():
            schema = None if table in excluded else self.reader.mapping.commented(table, schemas)
            if schema is not None:
                log.info("event=comments_changed table=%s to=%d", table, schema.id)
                self.targets.put({table: schema.id})

    def _leave_out_or_raise(self, table: str, seen: Sequence[SeenSchema], error: PenstockError) -> None:
        """Continue without the table, or raise. A table that received rows in this run is never left out midway."""
        if self.parks(table, error):
            return
        ignored = self.reader.errors.ignore_incompatible and isinstance(error, SchemaConflict)
        if not ignored or table in self.targets.received:
            raise error
        self._leave_out(table, seen, error)

    def _leave_out(self, table: str, found: Sequence[SeenSchema], error: PenstockError) -> None:
        sources = ", ".join(sorted({f"{seen.schema.database}.{seen.schema.table}" for seen in found}))
        hint = error.hint if isinstance(error, KeylessTable) else LEFT_OUT_HINT
        if error.hint and not isinstance(error, KeylessTable | UnusableName):
            hint = f"{error.hint}; {hint}"
        log.warning("event=table_left_out table=%s source=%s reason=%s hint=%s", table, sources, error.message, hint)
        self.targets.leave_out([table], f"{error.message} (source {sources})")


_EMPTYING = frozenset({"truncate", "drop"})
NO_SOURCES: Mapping[tuple[str, str], str] = MappingProxyType({})
_SHARED = (
    "event=%s_not_followed table=%s source=%s.%s others=%s note=the table has rows of other source tables, and stays "
    "as it is; --reset %s empties it and reads all of them again"
)
TRADED = "penstock.columns-traded-by"  # the batch whose barrier let columns of the table swap their names


def apply_barriers(
    barriers: Sequence[Barrier],
    identity: BatchIdentity,
    reader: BatchReader,
    targets: Targets,
    parks: Callable[[str, PenstockError], bool],
    sources: Mapping[tuple[str, str], str],
) -> None:
    """Apply barriers in order. `sources` are the source tables read so far, each with its target table.

    If several source tables write to one target table, a change of one of them neither empties the target nor renames
    its columns. Routes decide which tables these are, so the settings alone do not show it. If all of them change alike
    in one batch, the change is applied.

    A repeated call for the same batch changes nothing more, even if the first call ended half way: an emptied table
    carries the batch's identity, a renamed column is found under its new name, and a schema in which columns swapped
    names records the batch that did it.
    """
    for barrier in barriers:
        table = reader.mapping.target(barrier.database, barrier.table)
        # Tables to read again are requested once the batch has created and altered its tables.
        if barrier.kind in SILENT_VALUES:
            continue
        if table is None or table not in targets.schemas or table in targets.left_out:
            continue
        if others := _others_in(table, barrier, barriers, sources):
            log.warning(_SHARED, barrier.kind.replace("-", "_"), table, barrier.database, barrier.table, others, table)
            continue
        try:
            _apply(barrier, table, identity, reader, targets)
        except PenstockError as error:
            if not parks(table, error):
                raise


def _others_in(
    table: str, barrier: Barrier, barriers: Sequence[Barrier], sources: Mapping[tuple[str, str], str]
) -> str:
    """Return the other source tables with rows in the table, except tables with the same change in this batch."""
    if barrier.kind == "read-again":
        return ""
    alike = {(other.database, other.table) for other in barriers if _are_alike(other, barrier)}
    found = [source for source, target in sources.items() if target == table]
    return ",".join(".".join(source) for source in found if source not in alike)


def _are_alike(barrier: Barrier, other: Barrier) -> bool:
    return barrier.columns == other.columns and (barrier.kind == other.kind or {barrier.kind, other.kind} <= _EMPTYING)


def _apply(barrier: Barrier, table: str, identity: BatchIdentity, reader: BatchReader, targets: Targets) -> None:
    store = reader.warehouse.store(table)
    if barrier.kind == "rename-columns":
        pairs = [(reader.mapping.column(old), reader.mapping.column(new)) for old, new in barrier.columns]
        # Two names that differ only in case are one column in a catalog that folds case.
        targets.put({table: _rename(store, [pair for pair in pairs if pair[0] != pair[1]], identity)})
    elif reader.mapping.marks_deletes(barrier.database, barrier.table):
        mark_rows(store, identity)
    elif reader.mapping.keeps_versions(barrier.database, barrier.table):
        end_versions(store, identity)
    else:
        _empty(store, identity)


def _empty(store: TableStore, identity: BatchIdentity) -> None:
    # The table is emptied by an overwrite of every partition with no files, in one snapshot.
    committer = Committer(store, identity.user)
    if identity.is_in(committer.committed(identity.number), store.name):
        return
    committer.overwrite([], lambda partition: True, identity.number, properties=identity.properties)
    log.info("event=table_emptied table=%s batch=%d", store.name, identity.number)


def _written(pairs: Sequence[tuple[str, str]]) -> str:
    return ",".join(f"{old}->{new}" for old, new in pairs)


def _rename(store: TableStore, pairs: Sequence[tuple[str, str]], identity: BatchIdentity) -> int:
    """Rename columns and return the schema's id afterwards."""
    schema = store.schema()
    # Columns that swap names cannot be recognized by their names when the batch is repeated: both names exist
    # before and after the change.
    trade = bool({old for old, _ in pairs} & {new for _, new in pairs})
    # The batch is repeated, and its swap was done before.
    if trade and schema.options.get(TRADED) == _mark(identity):
        return schema.id
    changes = _traded(schema, pairs, identity) if trade else _renamed(schema, pairs)
    # Paimon does not allow renaming partition columns.
    if changes is None or {old for old, _ in pairs} & set(schema.partition_keys):
        log.warning("event=columns_not_renamed table=%s columns=%s", store.name, _written(pairs))
        return schema.id
    if not changes:
        return schema.id
    renamed = store.evolve(changes, check_usable)
    log.info("event=columns_renamed table=%s columns=%s schema=%d", store.name, _written(pairs), renamed.id)
    return renamed.id


def _mark(identity: BatchIdentity) -> str:
    return f"{identity.user}#{identity.number}"


def _renamed(schema: TableSchema, pairs: Sequence[tuple[str, str]]) -> list[SchemaChange] | None:
    """Return the renames still to do, or None if a new name is already in use."""
    present = [(old, new) for old, new in pairs if old in schema.names]
    return None if any(new in schema.names for _, new in present) else [RenameColumn(old, new) for old, new in present]


def _traded(
    schema: TableSchema, pairs: Sequence[tuple[str, str]], identity: BatchIdentity
) -> list[SchemaChange] | None:
    """Return the changes that let columns swap names, or None if they cannot.

    They go through temporary names in a single schema change. The change records its batch, because the names alone do
    not show whether the swap was done.
    """
    olds, news = [old for old, _ in pairs], [new for _, new in pairs]
    names = set(schema.names)
    if not names.issuperset(olds) or (names - set(olds)).intersection(news):
        return None
    between = [f"{old} {number} {identity.number}" for number, old in enumerate(olds)]
    away: list[SchemaChange] = [RenameColumn(old, name) for old, name in zip(olds, between, strict=True)]
    back: list[SchemaChange] = [RenameColumn(name, new) for name, new in zip(between, news, strict=True)]
    return [*away, *back, SetOption(TRADED, _mark(identity))]
