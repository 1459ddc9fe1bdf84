"""Patterns of `source: {tables: ...}` that no table of the server has: their tables may be missing by mistake."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator

from penstock.ingest.connector_requests import TableName
from penstock.ingest.database.connector import DatabaseConfig
from penstock.pipelines.config.model import PipelineSpec
from penstock.table_pattern import TablePattern

log = logging.getLogger(__name__)

_LATER = "tables that appear later are captured; correct the pattern if it should match one now"
_ONE_CHARACTER = "[a|b] is one character in a regular expression; write (a|b) for either word"


def unmet_patterns(spec: PipelineSpec, names: Collection[TableName]) -> Iterator[tuple[str, str]]:
    """Yield a message and a hint for each pattern that matches none of the selected tables."""
    if not isinstance(spec.source, DatabaseConfig):
        return
    for text in spec.source.tables:
        pattern = TablePattern.of(text)
        if not any(pattern.match(*name) for name in names):
            yield f"{text} matches no captured table", _ONE_CHARACTER if "|" in text and "[" in text else _LATER


def warn_of_unmet_patterns(
    spec: PipelineSpec, captured: Collection[TableName], left_out: Callable[[], Collection[TableName]]
) -> None:
    """Log each pattern that matches none of the tables with which a new pipeline begins.

    Tables that are left out are asked for only if a pattern matches no captured one.
    """
    for message, hint in unmet_patterns(spec, {*captured, *left_out()}) if any(unmet_patterns(spec, captured)) else ():
        log.warning("event=pattern_without_table note=%s hint=%s", message, hint)
