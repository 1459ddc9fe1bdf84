"""The captured tables and parts of tables that requests to read again name."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.ingest.connector_requests import TableName
from penstock.ingest.database.settings import RereadRequest
from penstock.ingest.database.table_parts import REFUSAL_LENGTH, REFUSALS, TablePart

log = logging.getLogger(__name__)


def requested_tables(requests: Sequence[RereadRequest], captured: Sequence[TableName]) -> list[TableName]:
    """Return the captured tables that the requests name without a condition."""
    named = _names_of(captured)
    gone = {table for request in requests if request.is_own for table in request.tables} - named
    if gone:
        log.info("event=tables_not_read_again tables=%s note=they do not exist any more", ",".join(sorted(gone)))
    names = [name for name in captured if any(request.names(name) for request in requests if not request.where)]
    if names:
        log_reread(names)
    return names


def emptied_by(requests: Sequence[RereadRequest], captured: Sequence[TableName]) -> list[TableName]:
    """Return the captured tables whose targets the requests empty first."""
    return [name for name in captured if any(request.empties and request.names(name) for request in requests)]


def with_refused_names(
    requests: Sequence[RereadRequest], captured: Sequence[TableName], refused: Sequence[str]
) -> tuple[str, ...]:
    """Return the refusals: first requested names that no captured table has, then refused parts."""
    asked = {table for request in requests if not request.is_own for table in request.tables}
    unknown = sorted(asked - _names_of(captured))
    if unknown:
        log.warning("event=signal_unknown tables=%s note=no such table is captured", ",".join(unknown))
    names = (f"{name}: no such table is captured"[:REFUSAL_LENGTH] for name in unknown)
    return (*names, *refused)[:REFUSALS]


def _names_of(captured: Sequence[TableName]) -> set[str]:
    return {word for name in captured for word in (name[1], ".".join(name))}


def requested_parts(requests: Sequence[RereadRequest], captured: Sequence[TableName]) -> list[TablePart]:
    """Return the parts of captured tables that the requests name with a condition."""
    return [
        TablePart(name, request.where)
        for request in requests
        if request.where
        for name in captured
        if request.names(name)
    ]


def log_reread(names: Sequence[TableName]) -> None:
    log.info("event=tables_read_again tables=%s", ",".join(map(".".join, names)))
