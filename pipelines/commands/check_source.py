"""Checks of where changes come from: it answers, it has what is wanted, what it has can be read."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.ingest.decoding import DecodedSource
from penstock.ingest.kafka_client import patience
from penstock.ingest.ranges import Limit
from penstock.pipelines.commands.findings import Finding
from penstock.pipelines.observe.checkpoint import CheckpointFolder
from penstock.pipelines.run import build, mysql
from penstock.pipelines.run.sampling import sample
from penstock.pipelines.spec import model
from penstock.pipelines.spec.model import PipelineSpec
from penstock.pipelines.spec.mysql_model import MySqlSource

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
    position = CheckpointFolder(spec.checkpoint, spec.sink.catalog.options).progress().offsets
    if position is not None:
        lag = sum(source.lag(position).values())
        yield Finding("source", "ok", f"goes on where it stopped; {lag:,} more there")
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
    tables, found = mysql.check(spec, server)
    shown = ", ".join(table.qualified for table in tables[:5])
    yield Finding("source", "ok", f"{server.hostname}:{server.port}: {len(tables)} tables to take: {shown}")
    for one in found:
        code = one.error.exit_code if one.level == "error" else 0
        yield Finding("source", one.level, f"{one.message}: {one.seen}, wanted {one.wanted}", one.fix, code)


def _readable(spec: PipelineSpec) -> Iterator[Finding]:
    """The first messages, decoded: a wrong format is told now, not by the first batch."""
    seen = sample(spec, _LOOK)
    if not seen.messages:
        yield Finding(
            "source", "warning", "nothing to read is there yet", "tables are made when the first record comes"
        )
        return
    if seen.bad:
        first = seen.bad[0]
        level = "error" if len(seen.bad) == seen.messages or spec.errors.bad_record == "fail" else "warning"
        yield Finding(
            "source",
            "error" if level == "error" else "warning",
            f"{len(seen.bad)} of the first {seen.messages} messages cannot be read: {first.message}",
            "is value.format right?  errors: {bad-record: dead-letter}  keeps such messages in a table",
            8 if level == "error" else 0,
        )
        return
    tables = sorted({f"{one.database}.{one.table}" for one in seen.schemas if one.table})
    of = f" of {', '.join(tables[:5])}" if tables else ""
    yield Finding("source", "ok", f"the first {seen.messages} messages can be read{of}")
