"""Soft deletes from sources whose deletes contain only the key: the other values of a deleted row become null."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from penstock.formats.change import SourceSchema
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job.source_request import connector, request_of
from penstock.pipelines.mapping.described_tables import name_of
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.table.merge.engines.registry import merge_engine
from penstock.table.meta.store import TableMissing
from penstock.table.options.table_options import TableOptions

log = logging.getLogger(__name__)

_SHOWN = 8


def emptied_deletes(
    spec: PipelineSpec, mapping: PipelineMapping, schemas: Sequence[SourceSchema]
) -> Iterator[tuple[str, str]]:
    """Yield a message and a hint for the tables whose deleted rows stay with nothing but their key."""
    marked = [name_of(schema) for schema in schemas if _loses_values(mapping, schema)]
    found = connector(spec).key_only_deletes(spec.source, request_of(spec), marked) if marked else {}
    for fix in dict.fromkeys(found.values()):
        names = [".".join(name) for name in found if found[name] == fix]
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        yield f"deletes: soft: deletes of {shown} contain only the key, so deleted rows get null in other columns", fix


def warn_of_emptied_deletes(spec: PipelineSpec, mapping: PipelineMapping, schemas: Sequence[SourceSchema]) -> None:
    for message, hint in emptied_deletes(spec, mapping, schemas):
        log.warning("event=deletes_without_values note=%s hint=%s", message, hint)


def _loses_values(mapping: PipelineMapping, schema: SourceSchema) -> bool:
    """Return whether deleted rows of a table are marked, and a null in their delete overwrites a value."""
    target = mapping.target(schema.database, schema.table)
    if target is None or not mapping.marks_deletes(schema.database, schema.table):
        return False
    try:
        options = mapping.warehouse.store(target).schema().typed
    except TableMissing:
        options = TableOptions(dict(mapping.table_rules.new_tables(mapping.new_tables, target, [schema]).options))
    return not merge_engine(options).null_means_unchanged
