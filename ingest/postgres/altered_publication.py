"""A publication that was altered between two plans: the log may lack changes of its tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.ingest.database.findings import ServerFinding, log_warnings, require_ready
from penstock.ingest.postgres.altered_tables import with_altered
from penstock.ingest.postgres.captured_tables import chosen
from penstock.ingest.postgres.errors import TableNotPublished
from penstock.ingest.postgres.offsets import AlteredKind, PgProgress
from penstock.ingest.postgres.server.catalog import PgTableFacts, TableName
from penstock.ingest.postgres.server.checks import check_publication

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.connection import PgConnection
    from penstock.ingest.postgres.settings import PgSettings

log = logging.getLogger(__name__)
_NOTE = (
    "the publication, or what it has of these tables, was altered since the last batch, so that the log may lack "
    "changes of them, even if it was altered back; `penstock check` shows what it leaves out, and --reset TABLE "
    "reads a table again"
)


def publication_noted(connection: PgConnection, settings: PgSettings, progress: PgProgress) -> PgProgress:
    """Return the state with the numbers of known tables in the publication; log a warning if these have changed.

    For tables that are still to be read as a whole, that reading also returns the changes that the log lacks.
    """
    numbers = settings.publication.marks(connection, [version.oid for version in progress.versions.values()])
    now = {name: numbers.get(version.oid, version.published) for name, version in progress.versions.items()}
    altered = [
        name
        for name, version in progress.versions.items()
        if version.published not in {0, now[name]} and name not in progress.waiting
    ]
    if any(version.published != now[name] for name, version in progress.versions.items()):
        versions = {name: replace(version, published=now[name]) for name, version in progress.versions.items()}
        progress = replace(progress, versions=versions)
    if not altered:
        return progress
    names = ",".join(".".join(name) for name in altered)
    log.warning("event=publication_altered publication=%s tables=%s note=%s", settings.publication.name, names, _NOTE)
    found: Mapping[TableName, tuple[AlteredKind, tuple[str, ...]]] = dict.fromkeys(altered, ("unpublished", ()))
    return with_altered(connection, progress, found)


def require_published(
    connection: PgConnection, settings: PgSettings, progress: PgProgress, tables: Sequence[PgTableFacts]
) -> None:
    """Raise an error if the publication leaves out changes of known tables from now on. `tables` are all that exist.

    What the start refuses is refused later too: rows that are left out would be missing without a word.
    """
    versions = progress.versions
    known = [
        table for table in chosen(tables, settings) if table.name in versions and versions[table.name].oid == table.oid
    ]
    found = list(check_publication(connection, settings.publication, known))
    log_warnings(found)
    # A new table is added to the publication, but one that was in it has been removed by somebody.
    require_ready([_as_error(finding) if finding.error is TableNotPublished else finding for finding in found])


def _as_error(finding: ServerFinding) -> ServerFinding:
    return replace(finding, level="error", fix=f"{finding.fix}  and start with --reset TABLE, or exclude the tables")
