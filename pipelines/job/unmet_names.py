"""Names of `naming` that no table and no database of the source has: such a rule does nothing, which is no error."""

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
    shape: PipelineMapping,
    schemas: Sequence[SourceSchema],
    before: Collection[SourceName] = (),
) -> Iterator[tuple[str, str]]:
    """Yield a message and a hint for each rule of `naming` that is for none of the source tables.

    `before` are tables read in the past: rules for those may stay.
    """
    naming = spec.sink.naming
    given = [(schema.database or "", schema.table or "") for schema in schemas]
    captured = {*before, *(name for name in given if shape.target(*name) is not None)}
    tables = {table if naming.merge_shards or not database else f"{database}_{table}" for database, table in captured}
    databases = {database for database, _ in captured}
    for rule, names, kind, known in (
        ("table-mapping", naming.table_mapping, "table", tables),
        ("table-prefix-db", naming.table_prefix_db, "database", databases),
        ("table-suffix-db", naming.table_suffix_db, "database", databases),
    ):
        there = {name.lower() for name in known}
        for name in names:
            if name.lower() not in there:
                yield f"{rule} is for the {kind} {name}, which is not captured", _nearest(name, sorted(known - {""}))


def _nearest(name: str, known: Sequence[str]) -> str:
    more = f" and {len(known) - _MOST_SHOWN} more" if len(known) > _MOST_SHOWN else ""
    shown = ", ".join(known[:_MOST_SHOWN]) + more
    return did_you_mean(name, known, f"there are {shown}" if known else "the source shows none", cutoff=0.5)
