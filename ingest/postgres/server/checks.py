"""The checks of a server before a pipeline reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from penstock.errors import SourceError
from penstock.ingest.database.findings import (
    ConnectionLost,
    MissingGrant,
    ServerFinding,
    error_finding,
    warning_finding,
)
from penstock.ingest.postgres.errors import (
    BehindPooler,
    NoFreeSlot,
    PublicationMissing,
    SlotBusy,
    SlotLost,
    SlotMissing,
    TableNotPublished,
    WalLevelError,
)
from penstock.ingest.postgres.server.address import SESSION
from penstock.ingest.postgres.server.catalog import qualified, quoted
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.publication import Publication
from penstock.ingest.postgres.server.slot import PLUGIN, SlotFacts, slot_facts
from penstock.ingest.postgres.server.table_checks import check_tables, numbers_of

if TYPE_CHECKING:
    from penstock.ingest.postgres.server.catalog import PgTableFacts
    from penstock.ingest.postgres.server.connection import PgConnection


# As in server_version_num: 14.0 and 15.0.
OLDEST = 140_000
_PARTS_SINCE = 150_000
# Settings of a session whose text is the one that was asked for.
_PLAIN_SETTINGS = ("TimeZone", "IntervalStyle", "extra_float_digits", "bytea_output", "row_security", "jit")
NO_COLUMNS: Mapping[int, Sequence[str]] = {}


def check_server(
    connection: PgConnection,
    slot: str,
    publication: Publication,
    tables: Sequence[PgTableFacts],
    columns: Mapping[int, Sequence[str]] = NO_COLUMNS,
) -> list[ServerFinding]:
    """Return the problems that prevent or endanger capturing these tables.

    `columns` are the selected columns, by the number of the table.
    """
    session = list(_session(connection))
    return [
        *_settings(connection),
        *session,
        *(() if session else _replication(connection)),
        *_slot(connection, slot),
        *_rights(connection, tables, columns),
        *check_publication(connection, publication, tables),
        *check_tables(connection, tables),
    ]


def _settings(connection: PgConnection) -> Iterator[ServerFinding]:
    version, level, recovery, encoding, keep, standbys = connection.rows(
        "SELECT current_setting('server_version_num'), current_setting('wal_level'), pg_is_in_recovery(), "
        "current_setting('server_encoding'), current_setting('max_slot_wal_keep_size'), "
        "current_setting('synchronous_standby_names')"
    )[0]
    if int(str(version)) < OLDEST:
        message = "the server is too old"
        yield error_finding(SourceError, message, str(version), f"{OLDEST} (version 14) at least", "upgrade it")
    if level != "logical":
        fix = "ALTER SYSTEM SET wal_level = logical;  then restart the server"
        yield error_finding(WalLevelError, "the log contains no rows", f"wal_level = {level}", "logical", fix)
    if recovery == "t":
        message, fix = "the server is a standby", "use the address of the primary"
        yield error_finding(SourceError, message, "a standby", "a primary", fix)
    if encoding == "SQL_ASCII":
        message = "the texts of the database have no known encoding"
        yield error_finding(SourceError, message, "SQL_ASCII", "UTF8", "convert the database to UTF8")
    if keep != "-1":
        message = "the server removes WAL that the slot still needs beyond this size"
        fix = "ALTER SYSTEM SET max_slot_wal_keep_size = -1;  or more than a day of WAL"
        yield warning_finding(SlotLost, message, f"max_slot_wal_keep_size = {keep}", "-1", fix)
    if standbys:
        message = "commits that wait for a standby are logged before they are visible"
        fix = "GRANT pg_read_all_stats TO the user: then all sessions that wait for a standby are seen"
        yield warning_finding(SourceError, message, f"synchronous_standby_names = {standbys}", "''", fix)


def _session(connection: PgConnection) -> Iterator[ServerFinding]:
    """Yield a finding if a pooler between client and server has dropped the settings of the client."""
    found = connection.rows("SELECT " + ", ".join(f"current_setting('{name}')" for name in _PLAIN_SETTINGS))[0]
    other = {name: text for name, text in zip(_PLAIN_SETTINGS, found, strict=True) if text != SESSION[name]}
    if other:
        seen = ", ".join(f"{name} = {text}" for name, text in other.items())
        wanted = ", ".join(f"{name} = {SESSION[name]}" for name in other)
        message = "settings of the session do not reach the server, as behind a pooler that ignores them"
        yield error_finding(BehindPooler, message, seen, wanted, BehindPooler.way_out)


def _replication(connection: PgConnection) -> Iterator[ServerFinding]:
    """Yield a finding if no connection for replication can be had, as behind a pooler that does not pass them on.

    Otherwise the tables would be copied before the log turns out not to be readable.
    """
    if connection.value("SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user") != "t":
        return  # the check of the rights names that
    message, wanted = "the log cannot be read", "a connection for replication"
    try:
        with connected(connection.server, replication=True) as reader:
            reader.rows("IDENTIFY_SYSTEM")
    except BehindPooler as error:
        yield error_finding(BehindPooler, message, error.facts.get("reason"), wanted, BehindPooler.way_out)
    except ConnectionLost as error:  # there may be one by the time when the log is read
        yield warning_finding(ConnectionLost, message, error.facts.get("reason"), wanted, error.hint or "")


def _slot(connection: PgConnection, slot: str) -> Iterator[ServerFinding]:
    found = slot_facts(connection, slot)
    if found is not None:
        if found.is_active:
            fix = "set a different slot.name for each pipeline"
            yield warning_finding(SlotBusy, f"the slot {slot} is being read", "active", "inactive", fix)
        yield from _use_of(connection, found)
        return
    used, most = connection.rows(
        "SELECT (SELECT count(*) FROM pg_replication_slots), current_setting('max_replication_slots')"
    )[0]
    if int(str(used)) >= int(str(most)):
        fix = "drop slots that nobody reads, or ALTER SYSTEM SET max_replication_slots and restart the server"
        yield error_finding(NoFreeSlot, "no replication slot is free", f"{used} of {most} in use", "one", fix)


def _use_of(connection: PgConnection, slot: SlotFacts) -> Iterator[ServerFinding]:
    """Yield a finding if the slot exists for something else, from which no pipeline can read."""
    fix = "set a different slot.name: the pipeline creates its slot by itself"
    if slot.plugin != PLUGIN:
        seen = f"plugin {slot.plugin}" if slot.plugin else "a physical slot"
        yield error_finding(SlotMissing, f"the slot {slot.name} exists for something else", seen, PLUGIN, fix)
        return
    database = str(connection.value("SELECT current_database()"))
    if slot.database != database:
        message = f"the slot {slot.name} belongs to another database"
        yield error_finding(SlotMissing, message, slot.database, database, fix)


def _rights(
    connection: PgConnection, tables: Sequence[PgTableFacts], columns: Mapping[int, Sequence[str]]
) -> Iterator[ServerFinding]:
    user, replicates = connection.rows(
        "SELECT current_user, rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user"
    )[0]
    if replicates != "t":
        message, fix = "the user may not read the log", f"ALTER ROLE {quoted(str(user))} REPLICATION;"
        yield error_finding(MissingGrant, message, "no REPLICATION", "REPLICATION", fix)
    if not tables:
        return
    numbers = ", ".join(str(table.oid) for table in tables)
    denied = connection.rows(
        "SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE c.oid IN ({numbers}) AND NOT (has_table_privilege(c.oid, 'SELECT') AND "
        "has_schema_privilege(n.oid, 'USAGE'))"
    )
    for oid, schema, table in denied:
        name, who = (str(schema), str(table)), quoted(str(user))
        wanted = columns.get(int(str(oid)), ())
        lacking = _denied_columns(connection, int(str(oid)), wanted)
        if wanted and not lacking:
            continue
        # A user without a right to any column may not read the table at all.
        listed = f" ({', '.join(map(quoted, lacking))})" if len(lacking) < len(wanted) else ""
        fix = f"GRANT USAGE ON SCHEMA {quoted(name[0])} TO {who}; GRANT SELECT{listed} ON {qualified(name)} TO {who};"
        message = f"the user may not read {'columns of ' if listed else ''}{'.'.join(name)}"
        yield error_finding(MissingGrant, message, ", ".join(lacking) if listed else "no SELECT", "SELECT", fix)


def _denied_columns(connection: PgConnection, oid: int, columns: Sequence[str]) -> list[str]:
    """Return which of these columns the user may not read."""
    if not columns:
        return []
    names = ", ".join(connection.literal(name) for name in columns)
    found = connection.rows(
        "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE a.attrelid = "
        f"{oid} AND a.attname IN ({names}) AND NOT (has_column_privilege(c.oid, a.attnum, 'SELECT') AND "
        "has_schema_privilege(c.relnamespace, 'USAGE')) ORDER BY a.attnum"
    )
    return [str(name) for (name,) in found]


def check_publication(
    connection: PgConnection, publication: Publication, tables: Sequence[PgTableFacts]
) -> Iterator[ServerFinding]:
    """Yield the parts of these tables that the publication lacks."""
    found = publication.published(connection)
    names = [table.name for table in tables]
    missing = sorted(set(names) - (found or set()))
    changes = not missing or (
        publication.creates
        and publication.may_change(connection, [table.oid for table in tables if table.name in missing])
    )
    level: Literal["error", "warning"] = "warning" if changes else "error"
    # With the right to do it, the statement is for those who prefer to do it themselves.
    owner = "as the owner of the tables:  " if publication.creates and not changes else ""
    refused = ", and the user may not change that" if owner else ""
    if found is None:
        if names:
            message = f"the publication {publication.name} does not exist{' yet' if changes else refused}"
            fix = f"{owner}{publication.create_statement(names)};"
            yield ServerFinding(PublicationMissing, level, message, "none", publication.name, fix)
        return
    if missing:
        message = f"tables are not in the publication{refused}"
        fix = f"{owner}{publication.add_statement(missing)};"
        yield ServerFinding(TableNotPublished, level, message, ", ".join(map(".".join, missing)), "in it", fix)
    kinds = connection.rows(
        "SELECT pubinsert AND pubupdate AND pubdelete, pubviaroot FROM pg_publication "
        f"WHERE pubname = {connection.literal(publication.name)}"
    )[0]
    if kinds[0] != "t":
        fix = f"ALTER PUBLICATION {quoted(publication.name)} SET (publish = 'insert, update, delete, truncate');"
        message = "the publication leaves out changes"
        yield error_finding(PublicationMissing, message, "not all kinds", "insert, update, delete", fix)
    yield from _parts(connection, publication, tables)
    yield from _generated(connection, publication, tables)
    if kinds[1] != "t" and any(table.kind == "p" for table in tables):
        fix = f"ALTER PUBLICATION {quoted(publication.name)} SET (publish_via_partition_root = true);"
        message = "changes of partitions would come under the names of the partitions"
        yield error_finding(PublicationMissing, message, "publish_via_partition_root = false", "true", fix)


def _parts(
    connection: PgConnection, publication: Publication, tables: Sequence[PgTableFacts]
) -> Iterator[ServerFinding]:
    """Yield findings for tables whose columns or rows are not all in the publication (since version 15)."""
    if int(str(connection.value("SELECT current_setting('server_version_num')"))) < _PARTS_SINCE:
        return
    for table, columns, rows in connection.rows(
        "SELECT r.prrelid::regclass, r.prattrs IS NOT NULL, r.prqual IS NOT NULL FROM pg_publication_rel r "
        f"JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = {connection.literal(publication.name)} "
        f"AND r.prrelid IN ({numbers_of(tables)})"
    ):
        fix = f"ALTER PUBLICATION {quoted(publication.name)} SET TABLE ...  without the list or filter"
        if columns == "t":
            message = f"the publication lacks columns of {table}, which would become null"
            yield error_finding(PublicationMissing, message, "a column list", "all columns", fix)
        if rows == "t":
            message = f"the publication lacks rows of {table}, which the first snapshot reads"
            yield warning_finding(PublicationMissing, message, "a row filter", "all rows", fix)


def _generated(
    connection: PgConnection, publication: Publication, tables: Sequence[PgTableFacts]
) -> Iterator[ServerFinding]:
    """Yield a finding if the log has values of generated columns (since version 18): they are not captured."""
    rows = connection.rows(
        "SELECT DISTINCT a.attrelid::regclass FROM pg_attribute a CROSS JOIN pg_publication p WHERE p.pubname = "
        f"{connection.literal(publication.name)} AND to_jsonb(p) ->> 'pubgencols' = 's' AND a.attgenerated = 's' "
        f"AND a.attrelid IN ({numbers_of(tables)}) ORDER BY 1"
    )
    if rows:
        names = ", ".join(str(table) for (table,) in rows)
        fix = f"ALTER PUBLICATION {quoted(publication.name)} SET (publish_generated_columns = none);"
        message = f"the log has values of generated columns of {names}, which rows that are read from the table lack"
        yield warning_finding(PublicationMissing, message, "publish_generated_columns = stored", "none", fix)
