"""Warnings about names in the section `naming` that have no effect.

The source has no such table or database, or other rules name the targets of its tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from penstock.errors import did_you_mean
from penstock.formats.change import SourceSchema
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.ledger.filled_tables import SourceName
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping

_MOST_SHOWN = 12


def unmet_names(
    spec: PipelineSpec,
    mapping: PipelineMapping,
    schemas: Sequence[SourceSchema],
    before: Collection[SourceName] = (),
) -> Iterator[tuple[str, str]]:
    """Yield a message and a hint for each rule of `naming` that fits no source table.

    `before` are tables read in the past: rules for those may stay.
    """
    naming = spec.sink.naming
    source_names = [(schema.database or "", schema.table or "") for schema in schemas]
    captured = {*before, *(name for name in source_names if mapping.target(*name) is not None)}
    # A route names its tables, and a table that has a mapping gets no prefix and no suffix.
    named = {name for name in captured if name in before or _is_named(mapping, *name)}
    mapped = {name.lower() for name in naming.table_mapping}
    affixed = {name[0] for name in named if name in before or _source(spec, *name).lower() not in mapped}
    tables, mappable = ({_source(spec, *name) for name in names} for names in (captured, named))
    databases = {database for database, _ in captured}
    for rule, names, kind, known, used in (
        ("table-mapping", naming.table_mapping, "table", tables, mappable),
        ("table-prefix-db", naming.table_prefix_db, "database", databases, affixed),
        ("table-suffix-db", naming.table_suffix_db, "database", databases, affixed),
    ):
        there, effective = ({name.lower() for name in names} for names in (known, used))
        for name in names:
            if name.lower() not in there:
                yield f"{rule} is for the {kind} {name}, which is not captured", _nearest(name, sorted(known - {""}))
            elif name.lower() not in effective:
                other = "a route or sink.table" if kind == "table" else "a table-mapping, a route or sink.table"
                subject = "whose target" if kind == "table" else "and the target of each of its tables"
                yield f"{rule} is for the {kind} {name}, {subject} is named by {other}", f"remove it from {rule}"


def _is_named(mapping: PipelineMapping, database: str, table: str) -> bool:
    """Return whether `naming` names the target of the source table."""
    return mapping.table is None and mapping.table_rules.target(database, table) is None


def _source(spec: PipelineSpec, database: str, table: str) -> str:
    """Return the name by which mappings know a source table."""
    return table if spec.sink.naming.merge_shards or not database else f"{database}_{table}"


def _nearest(name: str, known: Sequence[str]) -> str:
    more = f" and {len(known) - _MOST_SHOWN} more" if len(known) > _MOST_SHOWN else ""
    shown = ", ".join(known[:_MOST_SHOWN]) + more
    return did_you_mean(name, known, f"there are {shown}" if known else "the source shows none", cutoff=0.5)
