"""The transforms, routes and options of a pipeline per source table, as its table mapping applies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.formats.change import BadRecord, ChangeBatch, SourceSchema
from penstock.formats.demand import EVERYTHING, Demand
from penstock.pipelines.mapping.lookup_run import LookupRun
from penstock.pipelines.mapping.lookups import LookupStep
from penstock.pipelines.mapping.new_tables import NewTables
from penstock.pipelines.mapping.routes import Route
from penstock.schema_evolution.expectations import Expectation
from penstock.schema_evolution.expression_columns import check_columns
from penstock.schema_evolution.row_versions import with_versions
from penstock.schema_evolution.soft_deletes import with_marks
from penstock.schema_evolution.transforms import Transform, with_constants
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.catalog.settings import CatalogSettings

if TYPE_CHECKING:
    from penstock.pipelines.config import rules as spec


@dataclass(frozen=True, slots=True)
class TableRules:
    """All transforms and routes of a pipeline; the first transform and the first route that match a table apply."""

    transforms: tuple[Transform, ...] = ()
    routes: tuple[Route, ...] = ()
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by target table
    deletes: spec.Deletes = "hard"  # unless a route says something else
    lookups: tuple[tuple[LookupStep, ...], ...] = ()  # of each transform
    expectations: tuple[Expectation, ...] = ()

    @classmethod
    def of(
        cls,
        transforms: Sequence[spec.TransformConfig],
        routes: Sequence[spec.RouteConfig],
        options: Mapping[str, Mapping[str, str]],
        catalog: CatalogSettings,
        deletes: spec.Deletes = "hard",
        expectations: Sequence[spec.ExpectConfig] = (),
    ) -> TableRules:
        """Build from the sections of a pipeline file. Dimensions are tables of the catalog."""
        lookups = tuple(tuple(LookupStep.of(step, catalog) for step in transform.lookup) for transform in transforms)
        return cls(
            tuple(_transform_of(transform) for transform in transforms),
            tuple(Route.of(route) for route in routes),
            options,
            deletes,
            lookups,
            tuple(
                Expectation.of(expectation.source_table, expectation.condition, expectation.action, expectation.name)
                for expectation in expectations
            ),
        )

    def __bool__(self) -> bool:
        return bool(self.transforms or self.routes or self.options) or self.deletes != "hard"

    def transform(self, database: str | None, table: str | None) -> Transform | None:
        return next((transform for transform in self.transforms if transform.tables.match(database, table)), None)

    def route(self, database: str | None, table: str | None) -> Route | None:
        if table is None:
            return None
        return next((route for route in self.routes if route.tables.match(database, table)), None)

    def target(self, database: str | None, table: str) -> str | None:
        route = self.route(database, table)
        return None if route is None else route.target(database, table)

    def marks_deletes(self, database: str | None, table: str | None) -> bool:
        """Return whether deleted rows of a source table stay in the target table, marked as deleted."""
        return self._deletes(database, table) == "soft"

    def keeps_versions(self, database: str | None, table: str | None) -> bool:
        """Return whether the target table of a source table has every version of its rows."""
        return self._deletes(database, table) == "history"

    @property
    def keep_versions(self) -> bool:
        """True if the target tables of any source tables have every version of their rows."""
        return "history" in {self.deletes, *(route.deletes for route in self.routes)}

    def _deletes(self, database: str | None, table: str | None) -> spec.Deletes:
        route = self.route(database, table)
        return self.deletes if route is None or route.deletes is None else route.deletes

    @property
    def dimensions(self) -> frozenset[str]:
        """The tables of all lookups."""
        return frozenset(step.table for steps in self.lookups for step in steps)

    def lookups_of(self, transform: Transform) -> tuple[LookupStep, ...]:
        """Return the lookups of one of the transforms."""
        return self.lookups[self.transforms.index(transform)] if transform.looks_up else ()

    def applied(
        self,
        change: ChangeBatch,
        mapping: TypeMapping,
        now_millis: int,
        zone: str = "UTC",
        lookups: LookupRun | None = None,
        stream: str = "",
    ) -> tuple[ChangeBatch, list[BadRecord]]:
        """Return the transformed batch, with the constant columns of its route, and rows whose expressions failed.

        Without `lookups`, dimensions are looked up as they are now. `stream` names the stream of positions.
        """
        schema, bad = change.schema, list[BadRecord]()
        transform = self.transform(schema.database, schema.table)
        if transform is not None:
            for step in self.lookups_of(transform):
                change = step.joined(change, mapping, zone, lookups or LookupRun())
            change, bad = transform.applied(change, mapping, now_millis, zone)
        route = self.route(schema.database, schema.table)
        if route is not None and schema.table is not None:
            # After the transform, whose projection would drop the constant columns.
            change = with_constants(change, route.constants(schema.database, schema.table))
        if self.marks_deletes(schema.database, schema.table):
            change = with_marks(change, now_millis)
        if self.keeps_versions(schema.database, schema.table):
            change = with_versions(change, now_millis, stream)
        return change, bad

    def check_columns(self, schema: SourceSchema, mapping: TypeMapping) -> None:
        """Raise ConfigError if the transform of a table uses a column that the whole table does not have."""
        transform = self.transform(schema.database, schema.table)
        for step in self.lookups_of(transform) if transform is not None and not schema.is_partial else ():
            step.check_keys([field.name for field in schema.fields], f"{schema.database}.{schema.table}")
        check_columns(sorted(self.demand(schema, mapping).unknown), schema, strictly=True)

    def demand(self, schema: SourceSchema, mapping: TypeMapping) -> Demand:
        """Return the part of a source table that is needed to write its rows."""
        transform = self.transform(schema.database, schema.table)
        if transform is None:
            return EVERYTHING
        steps = self.lookups_of(transform)
        keys = frozenset(name for step in steps for name, _ in step.on)
        added = frozenset(name for step in steps for name, _ in step.columns)
        return transform.demand(schema, mapping, keys, added)

    def expected(self, database: str | None, table: str | None) -> tuple[Expectation, ...]:
        """Return the expectations of a source table."""
        return tuple(expectation for expectation in self.expectations if expectation.tables.match(database, table))

    def new_tables(self, general: NewTables, target: str, sources: Sequence[SourceSchema]) -> NewTables:
        """Return the rules for creating one table.

        The general rules are overridden by its transform, then by its own options.
        """
        # Options and keys of a new table follow the first of its source tables; the others may have other rules.
        first = sources[0]
        transform = self.transform(first.database, first.table)
        keys, options = general.keys, dict(general.options)
        if transform is not None:
            options |= dict(transform.options)
            if transform.primary_keys:
                keys = replace(keys, primary=transform.primary_keys)
            if transform.partition_keys:
                keys = replace(keys, partition=transform.partition_keys, partitions_of={})
        options |= dict(self.options.get(target, {}))
        return replace(general, keys=keys, options=tuple(options.items()))


@dataclass(frozen=True, slots=True)
class PipelineDemand:
    """A `DemandPolicy` by the transforms of a pipeline."""

    rules: TableRules
    mapping: TypeMapping

    def of(self, schema: SourceSchema) -> Demand:
        return self.rules.demand(schema, self.mapping)


def _transform_of(section: spec.TransformConfig) -> Transform:
    transform = Transform.of(
        section.source_table,
        section.projection,
        section.filter,
        section.mask,
        section.primary_keys,
        section.partition_keys,
        section.table_options,
        section.dialect,
    )
    added = frozenset(text.split()[-1] for step in section.lookup for text in step.columns)
    drops = any(step.join == "inner" for step in section.lookup)
    return replace(transform, looked_up=added, drops_misses=drops)


NO_RULES = TableRules()
