"""The connector of Paimon tables: a pipeline reads their rows, then their changes, snapshot by snapshot."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.connector import ROWS, Capabilities, Connector, StartPlace
from penstock.ingest.connector_answers import SourceCheck, SourceFinding, TableCapture
from penstock.ingest.connector_requests import KeylessRule, Preparation, SourceRequest, TableName
from penstock.ingest.database.settings import RereadRequests
from penstock.ingest.source import Limit, Offsets
from penstock.pipelines.table_source.config import TableSourceConfig

if TYPE_CHECKING:
    from penstock.formats.change import SourceSchema
    from penstock.pipelines.table_source.comparable_tables import TableComparison
    from penstock.pipelines.table_source.source import TableSource
    from penstock.table.schema.table_schema import TableSchema

_PRODUCER = "set  changelog-producer  of the source table to lookup or full-compaction"
_NO_CONSUMER = (
    "without a consumer, a source table may expire snapshots that this pipeline has not read while it is stopped"
)
_ONE = Limit(rows=1)


class TableConnector(Connector[TableSourceConfig]):
    """Tables of a catalog, by default of the catalog that the pipeline writes to."""

    name = "table"
    config = TableSourceConfig
    capabilities = Capabilities(
        describes_tables=True,
        rereads_tables=True,
        rereads_at_start=True,
        names_rows=True,
        passes_places=True,
        lag_unit=ROWS,
    )

    def open(self, config: TableSourceConfig, request: SourceRequest) -> TableSource:
        from penstock.pipelines.mapping.target_tables import settings_of
        from penstock.pipelines.table_source.source import TableSource, TableSourceSettings
        from penstock.table.catalog.settings import CatalogSettings

        catalog = CatalogSettings(request.sink_warehouse, request.sink_options)
        if config.catalog is not None:
            catalog = settings_of(config.catalog)
        options = tuple(sorted(config.options.items()))
        return TableSource(TableSourceSettings(catalog, config.tables, config.consumer_id, options))

    def check(self, config: TableSourceConfig, request: SourceRequest, *, must: bool = True) -> SourceCheck:
        source = self.open(config, request)
        findings = [] if config.consumer_id else [SourceFinding("warning", _NO_CONSUMER, "source: {consumer-id: NAME}")]
        tables = []
        for name in config.tables:
            table = source.upstream(name)
            schema = table.store.schema()
            tables.append(table.described(schema))
            refusal = unreadable_changes(name, schema)
            if refusal is not None:
                findings.append(SourceFinding("error", refusal.message, refusal.hint or "", refusal.exit_code))
            elif schema.primary_keys and not _has_changelog(schema):
                message = f"{name} has no changelog: its changes are read as +U and -D rows, without old rows"
                findings.append(SourceFinding("ok", message))
        place = f"{source.settings.catalog.warehouse}: {', '.join(config.tables)}"
        return SourceCheck(place, findings, tables)

    def tables(self, config: TableSourceConfig, request: SourceRequest, *, must: bool = True) -> list[SourceSchema]:
        source, found = self.open(config, request), []
        for name in config.tables:
            table = source.upstream(name)
            schema = table.store.schema()
            refusal = unreadable_changes(name, schema)
            if refusal is not None:
                raise refusal
            found.append(table.described(schema))
        return found

    def capture(self, config: TableSourceConfig, request: SourceRequest) -> TableCapture:
        names = {_name(table) for table in config.tables}
        # A table that is added to the list is read from its rows on, but a target table is never emptied for it.
        return TableCapture(
            reads_rows=False,
            reads_new_tables=True,
            renames_columns=False,
            includes=lambda name, left_out: name in names and name not in left_out,
            captured_before=lambda _reached: (),
        )

    def check_preparation(self, config: TableSourceConfig, request: SourceRequest, preparation: Preparation) -> None:
        """Raise ConfigError if old rows of updates are needed, and a table does not log them."""
        source = self.open(config, request)
        for name in config.tables:
            schema = source.upstream(name).store.schema()
            if _name(name) in preparation.before_images and schema.primary_keys and not _has_changelog(schema):
                raise ConfigError(
                    "a target table needs the old rows of updates, and the source table has no changelog",
                    source_table=name,
                    hint=_PRODUCER,
                )

    def prepare(self, config: TableSourceConfig, request: SourceRequest, preparation: Preparation) -> TableSource:
        self.check_preparation(config, request, preparation)
        source = self.open(config, request)
        reset = tuple(".".join(name) for name in preparation.reread)
        rereads = secrets.token_hex(4) if request.rereads or reset else ""
        settings = replace(
            source.settings,
            rereads=rereads,
            reset=reset,
            rereads_when_lost=request.rereads_when_lost,
            requests=RereadRequests(request.snapshot_requests),
        )
        return replace(source, settings=settings)

    def comparable(self, config: TableSourceConfig, request: SourceRequest) -> TableComparison:
        from penstock.pipelines.table_source.comparable_tables import TableComparison

        return TableComparison(self.open(config, request))

    def resume_point(self, config: TableSourceConfig, request: SourceRequest, reached: Offsets) -> str | None:
        source = self.open(config, request)
        # Raises PositionLost if a snapshot that is next has expired.
        ends = source.latest_offsets(reached, _ONE, source.available())
        places = [f"{name} at snapshot {progress['next_before']}" for name, progress in ends.get("tables", {}).items()]
        return ", ".join(places) or None

    def warnings(self, config: TableSourceConfig) -> list[str]:
        return [] if config.consumer_id else [_NO_CONSUMER]

    def keyless(self, config: TableSourceConfig) -> KeylessRule:
        return "append"

    def starting_at(self, config: TableSourceConfig, place: StartPlace) -> TableSourceConfig:
        from penstock.table.options.scans import CONSUMER_IGNORE_PROGRESS, SCAN_MODE, SCAN_TIMESTAMP_MILLIS

        start = {SCAN_MODE.key: "latest"} if place == "latest" else {SCAN_MODE.key: "latest-full"}
        if isinstance(place, int):
            start = {SCAN_TIMESTAMP_MILLIS.key: str(place)}
        options = {key: value for key, value in config.options.items() if not key.startswith("scan.")}
        ignores = {CONSUMER_IGNORE_PROGRESS.key: "true"}
        return config.model_copy(update={"options": {**options, **start, **ignores}})


def _name(table: str) -> TableName:
    database, _, name = table.partition(".")
    return database, name


def _has_changelog(schema: TableSchema) -> bool:
    from penstock.table.options.changelogs import CHANGELOG_PRODUCER

    return schema.typed[CHANGELOG_PRODUCER].writes_changelog


def unreadable_changes(name: str, schema: TableSchema) -> ConfigError | None:
    """Return the error for a table whose written rows are not the rows that its readers see."""
    from penstock.table.merge.engines.registry import merge_spec

    if not schema.primary_keys or _has_changelog(schema):
        return None
    spec = merge_spec(schema)
    if spec.last_arrival_wins:
        return None
    why = f"sequence.field = {', '.join(spec.sequence_fields)}" if spec.engine.newest_wins else spec.engine.name
    return ConfigError(
        f"{name} has no changelog, and with {why} the rows that are written are not those that readers see",
        source_table=name,
        hint=_PRODUCER,
    )


CONNECTOR = TableConnector()
