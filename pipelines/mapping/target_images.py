"""The image policy of a pipeline: the target table decides which row images of an update are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.formats.change import ImageRule
from penstock.pipelines.mapping.new_tables import NewTables
from penstock.pipelines.mapping.routes import TableRules
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.schema.table_schema import TableSchema


@dataclass(frozen=True, slots=True)
class TargetImages:
    """An `ImagePolicy`. `known` are the schemas of the target tables that exist.

    Images that no target table needs are dropped while messages are decoded, before anything is done with them.
    """

    target: Callable[[str | None, str | None], str | None]
    needs_names: bool  # rows of source tables without a name are not written to any table
    table_rules: TableRules
    new_tables: NewTables
    known: Mapping[str, TableSchema]

    def rule(self, database: str | None, table: str | None, primary_keys: tuple[str, ...]) -> ImageRule:
        """Return the image rule of a source table with these primary keys."""
        transform = self.table_rules.transform(database, table)
        if transform is not None and transform.needs_before:
            return ImageRule("all", frozenset(primary_keys))
        nameless = self.needs_names and (database is None or table is None)
        name = None if nameless else self.target(database, table)
        schema = self.known.get(name) if name else None
        if schema is None:
            return ImageRule("key-changes", frozenset(primary_keys))
        keys = self.new_tables.sources_of({*schema.primary_keys, *schema.partition_keys})
        # A source may spell column names with other case than a catalog that folds case.
        watch = frozenset({*keys, *map(str.upper, keys), *primary_keys})
        return ImageRule("all" if _needs_before(schema) else "key-changes", watch)


def _needs_before(schema: TableSchema) -> bool:
    return schema.typed[CHANGELOG_PRODUCER].copies_input or merge_engine(schema.typed).needs_before_images
