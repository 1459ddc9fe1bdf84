"""Changes of the schemas of tables, as a run reports them."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.pipelines.monitor.facts import BatchFacts, SchemaChanged
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.schema.table_schema import TableSchema


@dataclass(slots=True)
class SeenSchemas:
    """The schema that each table had after its last batch."""

    warehouse: CatalogSettings
    _seen: dict[str, int] = field(default_factory=dict)

    def changes(self, facts: BatchFacts) -> list[SchemaChanged]:
        """Return which tables of a batch have another schema than after the batch before.

        If one of them cannot be read, none is noted: the next batch that has rows of them reports the changes.
        """
        found, seen = [], {}
        for table in facts.rows:
            schemas = self.warehouse.store(table).schemas
            schema = self.warehouse.store(table).schema().id
            # The first schema that is seen of a table is the one to compare with: it is no change.
            known = self._seen.get(table, schema)
            if known != schema:
                kinds = kinds_of_change(schemas.get(known), schemas.get(schema))
                found.append(SchemaChanged(table, schema, facts.millis, kinds))
            seen[table] = schema
        self._seen |= seen
        return found


def kinds_of_change(old: TableSchema, new: TableSchema) -> list[str]:
    """Return the changes by the names that policies have for them. Columns are compared by id."""
    before, after = ({field.id: field for field in schema.fields} for schema in (old, new))
    common = [(before[number], after[number]) for number in before.keys() & after.keys()]
    return [
        *["add.column" for _ in after.keys() - before.keys()],
        *["drop.column" for _ in before.keys() - after.keys()],
        *["rename.column" for was, now in common if was.name != now.name],
        *["alter.column.type" for was, now in common if was.type != now.type],
    ] or ["other"]
