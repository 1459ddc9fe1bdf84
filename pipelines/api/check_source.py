"""Checks of the source: it answers, it has the required tables or topics, and its content can be read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from penstock.errors import PenstockError, PositionLost
from penstock.formats.change import SourceSchema
from penstock.ingest.decoded_source import DecodedSource
from penstock.ingest.mysql.definition import schema_of
from penstock.ingest.patience import patience
from penstock.ingest.source import Limit, Offsets
from penstock.pipelines.api.findings import Finding, of_error
from penstock.pipelines.api.plan import PlannedTable, planned
from penstock.pipelines.api.sample import sample
from penstock.pipelines.config import model
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.mysql_model import MySqlSource
from penstock.pipelines.job import build
from penstock.pipelines.job import mysql_setup as mysql
from penstock.pipelines.job.unmet_rules import NoSuchTable, unmet_rules
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.filled_tables import SourceName
from penstock.pipelines.ledger.holes import COPIES, READS_ON, Lacking, lacking_messages, refusal

_PROTECTION = {
    "disabled": "nothing is encrypted; only a hash of the password is sent",
    "preferred": "encrypted if the server offers it; the server's identity is not verified (use verify-identity)",
    "required": "encrypted; the server's identity is not verified (use verify-identity)",
    "verify-ca": "encrypted; the server's certificate is verified, its host name is not",
    "verify-identity": "encrypted; the server's certificate and host name are verified",
}
_LOOK = Limit(rows=200, bytes=8 << 20)


def check_source(spec: PipelineSpec) -> Iterator[Finding]:
    if isinstance(spec.source, MySqlSource):
        yield from _server(spec, spec.source)
        return
    source = build.source(spec)
    try:
        with patience(0.0):
            yield from _messages(spec, source)
    finally:
        source.close()


def _messages(spec: PipelineSpec, source: object) -> Iterator[Finding]:
    assert isinstance(source, DecodedSource)
    there = source.available()
    yield Finding("source", "ok", _described(spec, there))
    warehouse = build.job_warehouse(spec)
    if not spec.pipeline.accept_gap:
        lacking = lacking_messages(build.shape(spec, warehouse), build.filled_tables(spec, warehouse))
        yield from lacking_tables(lacking, READS_ON)
    position = CheckpointFolder(spec.checkpoint, spec.sink.catalog.options).progress().offsets
    if position is not None:
        lag = sum(source.lag(position).values())
        yield Finding("source", "ok", f"continues at its last position; {lag:,} to read")
        return
    yield from _readable(spec)


def _described(spec: PipelineSpec, there: dict[str, object]) -> str:
    match spec.source:
        case model.KafkaSource(properties=properties):
            offsets = there["offsets"]
            assert isinstance(offsets, dict)
            count = sum(len(partitions) for partitions in offsets.values())
            return f"Kafka at {properties['bootstrap.servers']}: {len(offsets)} topics, {count} partitions"
        case model.FilesSource(path=path):
            names = there["names"]
            assert isinstance(names, list)
            return f"{path}: {len(names)} files"
    raise AssertionError(spec.source.type)


def _server(spec: PipelineSpec, server: MySqlSource) -> Iterator[Finding]:
    warehouse = build.job_warehouse(spec)
    shape, filled = build.shape(spec, warehouse), build.filled_tables(spec, warehouse)
    tables, found = mysql.check(spec, server, must=filled.is_new)
    shown = ", ".join(table.qualified for table in tables[:5])
    yield Finding("source", "ok", f"{server.hostname}:{server.port}: {len(tables)} tables to capture: {shown}")
    yield Finding("source", "ok", f"ssl mode {server.ssl.mode}: {_PROTECTION[server.ssl.mode]}")
    for one in found:
        code = one.error.exit_code if one.level == "error" else 0
        yield Finding("source", one.level, f"{one.message}: {one.seen}, wanted {one.wanted}", one.fix, code)
    schemas = [schema_of(one) for one in tables]
    if tables:
        yield from _tables_planned(spec, schemas, filled.sources)
    reached = CheckpointFolder(spec.checkpoint, spec.sink.catalog.options).progress().offsets
    if reached is not None:
        yield from _goes_on(spec, server, reached)
    if not spec.pipeline.accept_gap:
        left_out = {one.table for one in _plans(spec, schemas) if one.action == "leave out"}
        lacking = mysql.check_lacking(spec, server, tables, shape, filled)
        yield from lacking_tables(lacking, COPIES, left_out)


def _tables_planned(
    spec: PipelineSpec, schemas: Sequence[SourceSchema], before: Collection[SourceName] = (), *, sampled: bool = False
) -> Iterator[Finding]:
    """Yield all problems with rules, names, keys and options that `run` would refuse.

    Of a message source only a sample is known: a rule for a table that is not in it is not an error.
    """
    warehouse = build.job_warehouse(spec)
    shape = build.shape(spec, warehouse)
    for error in unmet_rules(spec, shape, schemas, before):
        found = of_error("tables", error)
        passes = sampled and isinstance(error, NoSuchTable)
        yield replace(found, level="warning", code=0) if passes else found
    for table in _plans(spec, schemas):
        for warning in table.warnings:
            yield Finding("tables", "warning", f"{table.table}: {warning}", "penstock plan FILE  shows the columns")
        if table.action == "leave out":
            yield Finding("tables", "warning", f"{table.table} is excluded", table.problem or "")
        if table.action == "refuse":
            yield Finding("tables", "error", f"{table.table}: {table.problem}", "see  penstock plan FILE", 5)


def _plans(spec: PipelineSpec, schemas: Sequence[SourceSchema]) -> list[PlannedTable]:
    """Return the planned tables, or an empty list if a rule cannot be applied, which was already reported."""
    warehouse = build.job_warehouse(spec)
    shape = build.shape(spec, warehouse)
    try:
        shaped = [shape.shaped(one) for one in schemas]
    except PenstockError:
        return []
    return planned(shape, shaped, now=warehouse.now_millis())


def _goes_on(spec: PipelineSpec, server: MySqlSource, reached: Offsets) -> Iterator[Finding]:
    try:
        position = mysql.check_reached(spec, server, reached)
    except PositionLost as error:
        yield of_error("source", error)
        return
    if position is not None:
        yield Finding("source", "ok", f"its binlog still contains the position to continue at: {position}")


def lacking_tables(lacking: Lacking, hint: str, left_out: Collection[str] = ()) -> Iterator[Finding]:
    """Yield findings for tables that lack rows which the checkpoint counts as read.

    Tables that cannot be created are skipped, since they were already reported.
    """
    for one in (one for one in lacking.again if one.table not in left_out):
        fix = "the next run empties the table and copies its source tables again"
        yield Finding("tables", "warning", f"{one.table}: {one.reason}", fix)
    for one in lacking.passed:
        fix = f"copy it with  --reset {one.table} ; or leave it out with  newly-added-tables: false"
        yield Finding("tables", "warning", f"{one.table}: {one.reason}", fix)
    for one in lacking.refused:
        error = refusal([one], hint)
        yield Finding("tables", "error", f"{one.table}: {one.reason}", error.hint or "", error.exit_code)


def _readable(spec: PipelineSpec) -> Iterator[Finding]:
    """Decode the first messages: a wrong format is reported now, not by the first batch."""
    seen = sample(spec, _LOOK)
    if not seen.messages:
        yield Finding(
            "source", "warning", "the source is empty so far", "tables are created when the first record arrives"
        )
        return
    if seen.bad:
        first = seen.bad[0]
        level = "error" if len(seen.bad) == seen.messages or spec.errors.bad_record == "fail" else "warning"
        yield Finding(
            "source",
            "error" if level == "error" else "warning",
            f"{len(seen.bad)} of the first {seen.messages} messages cannot be read: {first.message}",
            "check value.format; set  errors: {bad-record: dead-letter}  to keep such messages in a table",
            8 if level == "error" else 0,
        )
        return
    yield from _tables_planned(spec, seen.given, sampled=True)
    tables = sorted({f"{one.database}.{one.table}" for one in seen.schemas if one.table})
    of = f" of {', '.join(tables[:5])}" if tables else ""
    yield Finding("source", "ok", f"the first {seen.messages} messages can be read{of}")
