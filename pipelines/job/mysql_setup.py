"""Prepares the source of a MySQL pipeline: checks the server and creates target tables before the first batch."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, SchemaConflict, SourceError, did_you_mean
from penstock.formats.change import SourceSchema
from penstock.ingest.mysql.binlog.resume import resume
from penstock.ingest.mysql.checkpoint_state import MySqlState
from penstock.ingest.mysql.definition import TableDefinition, schema_of
from penstock.ingest.mysql.errors import MissingGrant, NoUsableKey
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.planner import Planner
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.address import Secret, ServerAddress, Tls
from penstock.ingest.mysql.server.catalog import SYSTEM_VERSIONED, TableName, definitions, list_tables, qualified
from penstock.ingest.mysql.server.checks import check_retention, check_source
from penstock.ingest.mysql.server.connection import ask, connected, server_facts
from penstock.ingest.mysql.server.findings import Finding, Wanted, require_ready
from penstock.ingest.mysql.settings import Barriers, CapturedTables, FollowSettings, SnapshotMode, Startup
from penstock.ingest.mysql.snapshot.chunks import ChunkOptions
from penstock.ingest.mysql.source import MySqlSource
from penstock.ingest.mysql.values.rules import ValueRules
from penstock.ingest.source import Offsets
from penstock.pipelines.config import mysql_model as model
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.sink import Sink
from penstock.pipelines.driver.replay import LEFT_OUT_HINT
from penstock.pipelines.errors import not_created
from penstock.pipelines.job.unmet_rules import check_rules
from penstock.pipelines.ledger.batch_identity import shows_replay
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.filled_tables import FilledTables
from penstock.pipelines.ledger.holes import COPIES, Lacking, lacking_rows, tell_of_adoption
from penstock.pipelines.mapping.pipeline_mapping import PipelineMapping
from penstock.pipelines.mapping.routes import NO_RULES
from penstock.schema_evolution.drift import drift_of
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.meta.store import TableMissing
from penstock.table.schema.changes import SetOption
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.validation import UnusableName
from penstock.table.usable import check_usable
from penstock.table.values.types import type_json
from penstock.table_pattern import TablePattern

if TYPE_CHECKING:
    from penstock.ingest.mysql.server.connection import Connection

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 60.0  # how long a running pipeline waits for an unreachable server
_READERS = 256  # server ids, if none are configured
_LEFT_OUT = "event=table_left_out table=%s source=%s reason=%s hint=%s"
_NEVER_SET = {"bucket", "bucket-key", "merge-engine", "primary-key", "partition", "rowkind.field", "sequence.field"}


def source(spec: PipelineSpec, mysql: model.MySqlSource) -> MySqlSource:
    """Return the source as described, without connecting to its server."""
    return MySqlSource(settings_of(spec, mysql))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source that is ready to be captured.

    `reset` are the target tables that are emptied and copied again; `goes_to` maps each captured source table to its
    target table, or to None if it is no longer captured; `left_out` maps tables that cannot be created to the reason.
    """

    source: MySqlSource
    reset: tuple[str, ...]
    goes_to: Mapping[TableName, str | None]
    left_out: Mapping[str, str]


def prepared(
    spec: PipelineSpec,
    mysql: model.MySqlSource,
    shape: PipelineMapping,
    warehouse: CatalogSettings,
    filled: FilledTables,
) -> Prepared:
    """Return the source, after checking its server and creating target tables for its tables."""
    settings = settings_of(spec, mysql)
    with connected(replace(settings.server, patience=0.0)) as connection:
        require_ready(_told(findings(connection, settings)))
        found = captured(connection, settings, must=filled.is_new)
        if found:
            check_rules(spec, shape, [schema_of(one) for one in found], filled.sources)
        lacking = lacking_rows(spec, settings, found, shape, filled)
        lacking.check(filled, COPIES, accept=spec.pipeline.accept_gap)
        tell_of_adoption(filled)
        checks = not _has_renames_ahead(spec, mysql, warehouse)
        made = made_tables(found, spec.sink, shape, warehouse, checks=checks, isolate=spec.errors.isolate)
    left_out = made.left_out
    reset = tuple(dict.fromkeys([*spec.pipeline.reset, *lacking.tables_to_copy(left_out)]))
    settings = replace(
        settings,
        snapshot=snapshot_mode(mysql, made.tables),
        tables=replace(settings.tables, left_out=left_out),
        reset=_sources_of(reset, found, shape),
        resnapshot=settings.resnapshot or (secrets.token_hex(4) if reset else ""),
    )
    goes_to: dict[TableName, str | None] = {one.name: shape.target(*one.name) for one in found}
    goes_to |= {name: None for name in (*filled.sources, *left_out) if not settings.tables.takes(*name)}
    return Prepared(MySqlSource(settings), reset, goes_to, made.reasons)


def _sources_of(
    wanted: Sequence[str], found: Sequence[TableDefinition], shape: PipelineMapping
) -> tuple[TableName, ...]:
    """Return all source tables of these target tables.

    A target table with several sources is emptied and read again as a whole.
    """
    targets = {one.name: shape.target(one.database, one.table) for one in found}
    for table in wanted:
        if table not in targets.values():
            raise ConfigError(
                f"no table of the source goes to {table}",
                hint=did_you_mean(
                    table, filter(None, targets.values()), "reset takes tables of the warehouse: ods.orders"
                ),
            )
    return tuple(name for name, target in targets.items() if target in wanted)


def _has_renames_ahead(spec: PipelineSpec, mysql: model.MySqlSource, warehouse: CatalogSettings) -> bool:
    """Return whether target tables may legitimately differ from their sources' current columns.

    Renames still ahead in the binlog are applied at their position, and a change that fits nowhere stops the job there.
    """
    follows = mysql.ddl.rename_column == "rename"
    return follows and not CheckpointFolder(spec.checkpoint, warehouse.store_options).is_new


def check(
    spec: PipelineSpec, mysql: model.MySqlSource, *, must: bool = True
) -> tuple[list[TableDefinition], list[Finding]]:
    """Return the tables to capture; errors that prevent capturing this server, plus warnings. Read-only."""
    settings = settings_of(spec, mysql)
    with connected(replace(settings.server, patience=0.0)) as connection:
        found = findings(connection, settings)
        try:
            return captured(connection, settings, must=must), found
        except ConfigError as error:
            # Tables that the user may not read are invisible. If grants are missing, their findings explain why no
            # table was found.
            if not any(one.error is MissingGrant for one in found):
                raise
            return [], [*found, Finding(SourceError, "error", error.message, "none", "one at least", error.hint or "")]


def check_reached(spec: PipelineSpec, mysql: model.MySqlSource, reached: Offsets) -> LogPosition | None:
    """Return the binlog position from which the pipeline resumes, or None if it reads its tables again.

    Raise PositionLost when the server has purged what comes next.
    """
    pipeline = spec.pipeline
    accepted = pipeline.accept_gap or pipeline.resnapshot or spec.errors.position_lost == "resnapshot"
    if "server" not in reached or accepted:
        return None
    progress = Progress.from_json(reached)
    with connected(replace(address(mysql), patience=0.0)) as connection:
        return resume(connection, server_facts(connection), progress.log, progress.server).start


def check_lacking(
    spec: PipelineSpec,
    mysql: model.MySqlSource,
    found: Sequence[TableDefinition],
    shape: PipelineMapping,
    filled: FilledTables,
) -> Lacking:
    """Return the tables that lack rows which the checkpoint counts as read. Read-only."""
    return lacking_rows(spec, settings_of(spec, mysql), found, shape, filled)


def warnings(mysql: model.MySqlSource) -> list[str]:
    """Return conditions that may later stop a pipeline that runs well."""
    with connected(replace(address(mysql), patience=0.0)) as connection:
        found = check_retention(connection)
    return [f"{one.message}: {one.seen}, wanted {one.wanted}" for one in found]


def estimates(spec: PipelineSpec, mysql: model.MySqlSource) -> dict[TableName, int]:
    """Return the server's estimate of each table's row count, which is easily off by a tenth."""
    settings = settings_of(spec, mysql)
    with connected(replace(settings.server, patience=0.0)) as connection:
        return {table.name: table.rows for table in Planner(settings).captured(connection)}


def findings(connection: Connection, settings: FollowSettings) -> list[Finding]:
    tables = [table.name for table in Planner(settings).captured(connection)]
    first, last = settings.server_ids
    reads = settings.startup.reads_tables
    wanted = Wanted(tables=tables, server_ids=range(first, last + 1), snapshot=reads)
    return [*check_source(connection, wanted), *_versioned(connection, settings)]


def _versioned(connection: Connection, settings: FollowSettings) -> Iterator[Finding]:
    """Yield findings for MariaDB's system-versioned tables.

    Their binlog shows rows of the past as if they were current.
    """
    for table in list_tables(connection, [SYSTEM_VERSIONED]):
        if settings.tables.takes(*table.name):
            fix = f"ALTER TABLE {qualified(table.name)} DROP SYSTEM VERSIONING;  -- or leave it out by name"
            message = f"{'.'.join(table.name)} keeps the rows of its past, and is left out"
            yield Finding(SourceError, "warning", message, table.kind.lower(), "a table of present rows", fix)


def _told(found: Sequence[Finding]) -> Sequence[Finding]:
    for one in found:
        if one.level == "warning":
            log.warning("event=check %s", " ".join(str(one).split()))
    return found


def settings_of(spec: PipelineSpec, mysql: model.MySqlSource) -> FollowSettings:
    mapping, selection, sink = TypeMapping.of(spec.sink.type_mapping), spec.selection, spec.sink
    first = secrets.randbelow(1 << 30) + 10_000
    startup, snapshot, ddl = mysql.startup, mysql.snapshot, mysql.ddl
    _check_shared(mysql, sink)
    checkpoint = CheckpointFolder(spec.checkpoint, sink.catalog.options)
    return FollowSettings(
        server=address(mysql),
        tables=CapturedTables(
            mysql.database_name,
            mysql.table_name,
            selection.including_tables,
            selection.excluding_tables,
            selection.including_dbs,
            selection.excluding_dbs,
            names=_pattern(mysql.tables),
            excluding_names=_pattern(mysql.tables_exclude),
        ),
        state=MySqlState(checkpoint.source_state("mysql"), checkpoint.snapshot_requests),
        server_ids=mysql.server_ids or (first, first + _READERS - 1),
        startup=Startup(
            startup.mode, startup.file or "", startup.pos, startup.gtid_set or "", startup.timestamp_millis or 0
        ),
        chunks=ChunkOptions(snapshot.chunk_rows, snapshot.chunk_bytes, snapshot.even_from, snapshot.even_to),
        rules=_value_rules(mapping),
        barriers=Barriers(ddl.truncate != "ignore", ddl.drop != "ignore", ddl.rename_column == "rename"),
        zone=_zone(spec, mysql),
        comments=mysql.schema_comments,
        keyless=spec.keyless == "append" or _is_keyed_by_flags(sink),
        keyless_stops=spec.keyless == "fail",
        new_tables=mysql.reads_new_tables,
        first=tuple(TablePattern.of("*.*" if one == "*" else one).regex.pattern for one in snapshot.order),
        resnapshot=secrets.token_hex(4) if spec.pipeline.resnapshot or spec.pipeline.reset else "",
        accept_gap=spec.pipeline.accept_gap,
        resnapshot_when_lost=spec.errors.position_lost == "resnapshot",
    )


def _zone(spec: PipelineSpec, mysql: model.MySqlSource) -> str:
    """Return the zone in which TIMESTAMP values are shown: the configured one, or with `auto` the server's."""
    said = mysql.server_time_zone or spec.pipeline.local_time_zone
    zone = said if said != "auto" else _zone_of_server(mysql)
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("s", zone)))
    except pa.ArrowInvalid as reason:
        whose = "server's time zone" if said == "auto" else "time zone"
        raise ConfigError(
            f"the {whose} {zone!r} has no entry in the zone database",
            hint="name the zone by  server-time-zone: Europe/Berlin  or  '+08:00'",
        ) from reason
    return zone


def _zone_of_server(mysql: model.MySqlSource) -> str:
    with connected(replace(address(mysql), patience=0.0)) as connection:
        zone, system = (str(one) for one in ask(connection, "SELECT @@GLOBAL.time_zone, @@GLOBAL.system_time_zone")[0])
    return system if zone == "SYSTEM" else zone


def _pattern(tables: Sequence[str]) -> str | None:
    """Return one regular expression that matches `database.table` for all of the tables."""
    return "|".join(f"(?:{TablePattern.of(one).regex.pattern})" for one in tables) or None


def address(mysql: model.MySqlSource) -> ServerAddress:
    given = mysql.ssl
    tls = Tls(
        given.mode,
        given.ca,
        given.cert,
        given.key,
        public_key=given.public_key,
        public_key_retrieval=given.allow_public_key_retrieval,
        cleartext_password=given.allow_cleartext_password,
    )
    return ServerAddress(
        mysql.hostname,
        mysql.port,
        mysql.username,
        Secret(mysql.password),
        tls,
        connect_timeout=mysql.connect_timeout,
        patience=PATIENCE_SECONDS,
    )


def _is_keyed_by_flags(sink: Sink) -> bool:
    """Return whether flags decide the key.

    A table sync captures tables without a key if flags define one, or want none.
    """
    return sink.table is not None and (bool(sink.primary_keys) or not sink.sync_primary_keys_from_source_schema)


def _is_one_name(patterns: set[str]) -> bool:
    return len(patterns) == 1 and patterns.pop().replace("_", "").replace("-", "").isalnum()


def _check_shared(mysql: model.MySqlSource, sink: Sink) -> None:
    """Raise ConfigError when a table with several sources should follow DDL of only one of them."""
    parts = [one.partition(".") for one in mysql.tables] or [(mysql.database_name, ".", mysql.table_name)]
    literal = _is_one_name({database for database, _, _ in parts})
    if sink.table is not None:
        literal = literal and _is_one_name({table for _, _, table in parts})
    shared = not literal and (sink.table is not None or sink.naming.merge_shards)
    hint = "name one database (and one table), or --merge-shards false (naming: {merge-shards: false}), or leave out "
    if shared and (mysql.ddl.truncate, mysql.ddl.drop) != ("ignore", "ignore"):
        raise ConfigError(
            "a table that several source tables may go to cannot be emptied with one of them",
            hint=hint + "--on-truncate and --on-drop",
        )
    if shared and mysql.ddl.rename_column != "add":
        raise ConfigError(
            "the columns of a table that several source tables may go to cannot be renamed with those of one of them",
            hint=hint + "--on-rename-column",
        )


def _value_rules(mapping: TypeMapping) -> ValueRules:
    odd: Literal["error", "null"] = "error" if mapping.zero_date_error else "null"
    return ValueRules(
        zero_date="text" if mapping.to_string else odd,
        time="text" if mapping.to_string or mapping.time_to_string else odd,
    )


def captured(connection: Connection, settings: FollowSettings, *, must: bool = True) -> list[TableDefinition]:
    """Return the definitions of the tables to capture, in catalog order.

    With `must`, no captured table is a ConfigError. A resumed pipeline passes must=False: the binlog may still explain
    why its tables are gone.
    """
    _check_letters(connection, settings.tables)
    names = [table.name for table in Planner(settings).captured(connection)]
    keyless = [table.name for table in Planner(replace(settings, keyless=True)).captured(connection)]
    left = [".".join(name) for name in keyless if name not in names]
    if left and settings.keyless_stops:
        raise NoUsableKey(
            "tables that are to be taken have no primary key",
            tables=", ".join(left),
            hint="ALTER TABLE ... ADD PRIMARY KEY, leave them out of the tables, or  no-primary-key: append",
        )
    if left:
        log.warning("event=tables_without_key left_out=%s", ",".join(left))
    if not names and not must:
        log.warning("event=no_tables_there databases=%s tables=%s", settings.tables.databases, settings.tables.tables)
    if not names and must:
        raise ConfigError(
            "no table of the server is to be taken" if not left else "no table that is to be taken has a primary key",
            databases=settings.tables.databases,
            tables=settings.tables.names or settings.tables.tables,
            without_key=", ".join(left) or None,
            seen=_seen(connection),
            hint="names are regular expressions that match the whole; tables that the user may not SELECT are not seen;"
            " one without key needs --primary-keys or --include-keyless append",
        )
    found = definitions(connection, names)
    return [found[name] for name in names if name in found]


def _seen(connection: Connection) -> str:
    """Return the tables that the server shows to this user, as text for an error."""
    names = [".".join(table.name) for table in list_tables(connection)]
    return f"{', '.join(names[:8])}{f' and {len(names) - 8} more' if len(names) > 8 else ''}" or "no table at all"


def _check_letters(connection: Connection, tables: CapturedTables) -> None:
    """Raise ConfigError when an expression has capital letters but the server keeps names in lower case.

    It would match nothing, and tables that it should exclude would be captured.
    """
    if str(ask(connection, "SELECT @@GLOBAL.lower_case_table_names")[0][0]) != "1":
        return
    for part in fields(tables):
        pattern = getattr(tables, part.name)
        letters = re.sub(r"\\.", "", pattern) if isinstance(pattern, str) else ""
        if letters != letters.lower():
            raise ConfigError(
                "this server keeps names of databases and tables in lower case (lower_case_table_names = 1)",
                expression=pattern,
                hint="write the names of databases and tables in lower case",
            )


@dataclass(frozen=True, slots=True)
class Made:
    """The target tables that exist now, the sources to leave out, and why tables cannot be created."""

    tables: list[TableSchema]
    left_out: frozenset[TableName]
    reasons: Mapping[str, str]


def made_tables(
    found: Sequence[TableDefinition],
    sink: Sink,
    shape: PipelineMapping,
    warehouse: CatalogSettings,
    *,
    checks: bool,
    isolate: bool,
) -> Made:
    """Create missing target tables; with `checks`, compare existing ones with their sources.

    All tables are planned before the first is created, and all that cannot be created are reported at once.
    """
    sources: dict[str, list[TableDefinition]] = {}
    for definition in found:
        target = shape.target(definition.database, definition.table)
        if target is not None:
            sources.setdefault(target, []).append(definition)
    left_out: set[TableName] = set()
    plans: dict[str, TableSchema] = {}
    refused: dict[str, ConfigError] = {}
    reasons: dict[str, str] = {}
    for target, merged in sources.items():
        names = [definition.name for definition in merged]
        try:
            plans[target] = _planned_table(target, merged, sink, shape, warehouse, checks=checks)
        except ConfigError as error:
            refused[target] = error
        except SchemaConflict as error:
            if isolate:  # its first batch fails with the same error and parks it
                continue
            if not sink.ignore_incompatible:
                raise
            log.warning("event=table_incompatible table=%s reason=%s", target, error.message)
            left_out.update(names)
    leaves_out = sink.table is None and len(refused) < len(sources)
    if refused and not (leaves_out and all(isinstance(one, UnusableName) for one in refused.values())):
        raise not_created(refused)
    for target, reason in refused.items():
        names = [definition.name for definition in sources[target]]
        told = ", ".join(map(".".join, names))
        log.warning(_LEFT_OUT, target, told, reason.message, LEFT_OUT_HINT)
        reasons[target] = f"{reason.message} (source {told})"
        left_out.update(names)
    targets = [_made_table(target, schema, sink, warehouse) for target, schema in plans.items()]
    return Made(targets, frozenset(left_out), reasons)


def _planned_table(
    target: str,
    merged: Sequence[TableDefinition],
    sink: Sink,
    shape: PipelineMapping,
    warehouse: CatalogSettings,
    *,
    checks: bool,
) -> TableSchema:
    schemas = [shape.shaped(schema_of(definition)) for definition in merged]
    try:
        store = warehouse.store(target)
    except TableMissing:
        _check_shared_key(target, sink, merged)
        try:
            schema = shape.planned(target, _with_common_key(schemas), warehouse.now_millis())
            check_usable(schema)
        except ConfigError as error:
            error.facts = {"table": target, "source": ", ".join(one.qualified for one in merged), **error.facts}
            error.hint = error.hint or _cure(target, schemas, shape, warehouse)
            raise
        if not schema.primary_keys and not _may_be_keyless(sink, merged):
            raise _no_key(target, merged) from None
        return replace(schema, comment=merged[0].comment)
    current = store.schema()
    for one in schemas if checks else ():
        _check_compatible(target, one, current, shape)
    return current


def _made_table(target: str, planned: TableSchema, sink: Sink, warehouse: CatalogSettings) -> TableSchema:
    """Return the table's schema, after creating the table or setting options of an existing one."""
    try:
        current = warehouse.store(target).schema()
    except TableMissing:
        return warehouse.created(target, planned)
    return _with_options(target, current, sink.options | sink.per_table.get(target, {}), warehouse)


def _cure(target: str, schemas: Sequence[SourceSchema], shape: PipelineMapping, warehouse: CatalogSettings) -> str:
    """Return the hint for a table that cannot be created.

    Creating it without options shows whether they or the table itself are the cause.
    """
    bare = replace(shape, new_tables=replace(shape.new_tables, options=()), table_rules=NO_RULES)
    try:
        check_usable(bare.planned(target, _with_common_key(schemas), warehouse.now_millis()))
    except ConfigError:
        return "leave the table out with --excluding-tables, in a file  tables-exclude"
    return "put the table option right: --table-conf, in a file  sink: {table-options: ...}"


def _check_shared_key(target: str, sink: Sink, merged: Sequence[TableDefinition]) -> None:
    """Raise ConfigError when the key should come from source tables that have different keys."""
    differ = len({one.primary_key for one in merged}) > 1
    if differ and not sink.primary_keys and sink.sync_primary_keys_from_source_schema:
        raise _no_key(target, merged)


def _no_key(target: str, merged: Sequence[TableDefinition]) -> ConfigError:
    return ConfigError(
        f"Failed to set specified primary keys for sink table {target}. Also, can't infer primary keys from "
        "source table schemas because source tables have no primary keys or have different primary keys.",
        table=target,
        keys="; ".join(f"{one.qualified}: {', '.join(one.primary_key) or 'none'}" for one in merged[:8]),
        hint="name the key with --primary-keys",
    )


def _with_common_key(schemas: Sequence[SourceSchema]) -> list[SourceSchema]:
    """Return the schemas with their common key; shards with different keys have none."""
    keys = {schema.primary_keys for schema in schemas}
    return list(schemas) if len(keys) == 1 else [replace(schema, primary_keys=()) for schema in schemas]


def _may_be_keyless(sink: Sink, merged: Sequence[TableDefinition]) -> bool:
    return not sink.sync_primary_keys_from_source_schema or not any(one.primary_key for one in merged)


def _check_compatible(target: str, source: SourceSchema, current: TableSchema, shape: PipelineMapping) -> None:
    try:
        drift_of(source, target, current, shape.rules)
    except SchemaConflict as error:
        columns = ", ".join(f"{one.name} {one.type}" for one in source.fields)
        raise SchemaConflict(
            "Paimon schema and source table schema are not compatible.",
            table=target,
            source=f"{source.database}.{source.table}",
            reason=error.message,
            paimon_fields=", ".join(f"{one.name} {type_json(one.type)}" for one in current.fields),
            source_table_fields=columns,
            hint=error.hint,
        ) from error


def _with_options(
    target: str, current: TableSchema, wanted: Mapping[str, str], warehouse: CatalogSettings
) -> TableSchema:
    """Set configured options that differ from the table's, except options that determine the layout of its rows."""
    changes = []
    for key, value in wanted.items():
        has = current.options.get(key)
        if has != value and key in _NEVER_SET:
            log.warning("event=option_kept table=%s option=%s has=%s given=%s", target, key, has, value)
        elif has != value:
            changes.append(SetOption(key, value))
    if not changes:
        return current
    return warehouse.store(target).evolve(changes, check_usable)


def snapshot_mode(mysql: model.MySqlSource, targets: Sequence[TableSchema]) -> SnapshotMode:
    """Return the snapshot mode: with `auto`, exact if a change that is applied twice would be visible in a table."""
    if mysql.snapshot.mode != "auto":
        return mysql.snapshot.mode
    exact = any(map(shows_replay, targets))
    if exact:
        log.info("event=snapshot_mode mode=exact reason=a change that comes twice would show in a table")
    return "exact" if exact else "watermark"
