"""The merge engines by their names, and the merge options of a table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from penstock.errors import ConfigError
from penstock.table.merge.engines.aggregation import AGGREGATION
from penstock.table.merge.engines.column_options import named_columns
from penstock.table.merge.engines.deduplicate import DEDUPLICATE
from penstock.table.merge.engines.first_row import FIRST_ROW
from penstock.table.merge.engines.partial_update import PARTIAL_UPDATE
from penstock.table.merge.spec import MergeEngine, MergeSpec
from penstock.table.options.changelogs import CHANGELOG_PRODUCER, DELETION_VECTORS_ENABLED
from penstock.table.options.compaction import FORCE_LOOKUP
from penstock.table.options.merge_engines import (
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
)
from penstock.table.options.table_options import TableOptions
from penstock.table.schema.table_schema import TableSchema

ENGINES: Mapping[str, MergeEngine] = {
    engine.name: engine for engine in (DEDUPLICATE, PARTIAL_UPDATE, AGGREGATION, FIRST_ROW)
}


def merge_engine(options: TableOptions) -> MergeEngine:
    """Return the merge engine that a table's options name."""
    return ENGINES[options[MERGE_ENGINE]]


@lru_cache(256)
def merge_spec(schema: TableSchema) -> MergeSpec:
    """Return the merge options of a schema.

    Raise ConfigError when they contradict each other or the columns, as Paimon does when a writer opens the table.
    """
    if not schema.primary_keys:
        raise ConfigError(
            "a table without a primary key has no merge engine",
            hint="add a primary key, or leave merge-engine out",
        )
    options, engine = schema.typed, merge_engine(schema.typed)
    kind_field, producer = options[ROWKIND_FIELD], options[CHANGELOG_PRODUCER]
    # These two merge level 0 with the rows of upper levels as a lookup changelog does, without writing a changelog.
    forced = options[FORCE_LOOKUP] or options[DELETION_VECTORS_ENABLED]
    spec = MergeSpec(
        engine=engine,
        keys=schema.trimmed_primary_keys,
        fields=schema.fields,
        sequence_fields=named_columns(schema, SEQUENCE_FIELD.key, options[SEQUENCE_FIELD]),
        descending=options[SEQUENCE_FIELD_SORT_ORDER] == "descending",
        remove_on_delete=engine.removes_by is not None and options[engine.removes_by],
        ignore_delete=options[IGNORE_DELETE],
        ignore_update_before=options[IGNORE_UPDATE_BEFORE],
        rowkind_field=named_columns(schema, ROWKIND_FIELD.key, (kind_field,))[0] if kind_field else None,
        # Where full compactions make the changelog, no compaction looks up rows: those of upper levels are not merged.
        lookup=not engine.oldest_wins and (producer.by_lookup or (forced and not producer.by_full_compaction)),
    )
    return engine.configure(spec, schema)


def merges_in_part(spec: MergeSpec, options: TableOptions) -> bool:
    """Return whether Java Paimon would read rows of a table that are merged in part.

    With `force-lookup` it takes each key's row on the smallest upper level for the merged one, although with a
    changelog of full compactions no compaction merges the levels by lookup.
    """
    forced = options[FORCE_LOOKUP] and options[CHANGELOG_PRODUCER].by_full_compaction
    return forced and not spec.last_arrival_wins


def check_forced_lookup(spec: MergeSpec, options: TableOptions) -> None:
    """Raise ConfigError if Java Paimon would read rows of the table that are merged in part."""
    if merges_in_part(spec, options):
        raise ConfigError(
            "force-lookup cannot be used with changelog-producer = full-compaction in this table: Paimon would ignore "
            "older values of a key that are not merged yet",
            hint="remove force-lookup, or set changelog-producer = lookup",
        )
