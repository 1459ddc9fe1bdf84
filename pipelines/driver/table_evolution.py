"""Alters the tables that a batch does not fit, because their source schemas changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.errors import ConfigError, PenstockError, SchemaConflict
from penstock.pipelines.errors import KeylessTable, not_created
from penstock.pipelines.mapping.described_tables import LEFT_OUT_HINT
from penstock.pipelines.mapping.table_mapping import SeenSchema
from penstock.pipelines.mapping.target_tables import Targets
from penstock.pipelines.tasks.read import BatchReader
from penstock.table.schema.validation import UnusableName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableEvolution:
    """Creates and alters target tables so that they can store the source schemas that a batch contains."""

    reader: BatchReader
    targets: Targets
    parks: Callable[[str, PenstockError], bool]  # whether the batch may continue without the table

    def evolve(self, drifts: Mapping[str, list[SeenSchema]]) -> None:
        """Alter each table so that it can store the schemas seen.

        New tables that cannot be created are left out if other tables exist; with `ignore_incompatible`, so are tables
        that cannot store a schema.
        """
        schemas, unmade = {}, dict[str, PenstockError]()
        for table, found in drifts.items():
            current = self.reader.warehouse.store(table).schema() if table in self.targets.schemas else None
            try:
                schema = self.reader.mapping.evolved(table, current, found)
            except (SchemaConflict, ConfigError) as error:
                if current is None:
                    unmade[table] = error
                else:
                    self._give_up(table, found, error)
                continue
            if current is None or current.id != schema.id:  # a rename may have made that version already
                before = "none" if current is None else current.id
                log.info("event=schema_evolved table=%s from=%s to=%d", table, before, schema.id)
            schemas[table] = schema.id
        self.targets.put(schemas)
        # The only table is not left out: the settings may ask for something that no table can have, which the user must
        # see.
        leaves_out = self.reader.leaves_out and bool(self.targets.schemas.keys() - self.reader.on_bad.letters)
        refused: dict[str, PenstockError] = {}
        for table, why in unmade.items():
            odd = isinstance(why, UnusableName) or (isinstance(why, ConfigError) and not self.reader.isolates)
            if isinstance(why, KeylessTable) or (leaves_out and odd):
                self._leave_out(table, drifts[table], why)
            else:
                try:
                    self._give_up(table, drifts[table], why)
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

    def _give_up(self, table: str, found: Sequence[SeenSchema], error: PenstockError) -> None:
        """Continue without the table, or raise. A table that received rows in this run is never left out midway."""
        if self.parks(table, error):
            return
        ignored = self.reader.ignore_incompatible and isinstance(error, SchemaConflict)
        if not ignored or table in self.targets.taken:
            raise error
        self._leave_out(table, found, error)

    def _leave_out(self, table: str, found: Sequence[SeenSchema], error: PenstockError) -> None:
        sources = ", ".join(sorted({f"{one.schema.database}.{one.schema.table}" for one in found}))
        hint = error.hint if isinstance(error, KeylessTable) else LEFT_OUT_HINT
        log.warning("event=table_left_out table=%s source=%s reason=%s hint=%s", table, sources, error.message, hint)
        self.targets.leave_out([table], f"{error.message} (source {sources})")
