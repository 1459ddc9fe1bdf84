"""Checks of the places to which a pipeline writes (warehouse, tables, checkpoint) and of Java."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.errors import ConfigError, counted
from penstock.pipelines.api.findings import Finding
from penstock.pipelines.api.unverified_catalog import unverified_catalog
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.job.build import filled_tables, mapping_of
from penstock.pipelines.job.forced_snapshots import refuse_forced
from penstock.pipelines.job.source_request import connector
from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
from penstock.pipelines.ledger.holes import where_sources_go
from penstock.pipelines.mapping.target_tables import settings_of
from penstock.pipelines.monitor.sizes import Sizes
from penstock.pipelines.monitor.status import state_of
from penstock.pipelines.spark.java import java_home, java_version, pyspark_version
from penstock.pipelines.spark.named_programs import check_spark_home, check_worker_python
from penstock.pipelines.spark.versions import NEWEST, SUPPORTED, check_version, installed, lacking, text
from penstock.table.catalog.base import CatalogBackend
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.option_needs import table_options_without_effect
from penstock.table.options.checks import check_writable, without_effect

# A table is reported if it has as many files as this, and they are smaller than this on average.
_MANY_FILES, _SMALL_FILE = 500, 8 << 20


def check_warehouse(spec: PipelineSpec) -> Iterator[Finding]:
    """Check that the warehouse creates a file, refuses to create it again, and deletes it.

    Commits rely on the refusal.
    """
    catalog = spec.sink.catalog
    opened = settings_of(catalog).open()
    try:
        found = opened.backend.check()
    except OSError as error:
        reason = error.strerror or str(error)  # without the name of the file that was tried
        yield Finding(
            "warehouse", "error", f"{catalog.warehouse} is not writable: {reason}", "check its permissions", 2
        )
        return
    yield Finding("warehouse", "ok", f"{found}; {_tables(opened.backend)}")
    for warning in unverified_catalog(catalog):
        yield Finding("warehouse", warning.level, warning.message, warning.fix)


def _continuing(spec: PipelineSpec) -> str:
    """Return the flags with which a new checkpoint over tables of the pipeline can begin."""
    replays = "--accept-replay"
    return f"--resume-from-tables  or  {replays}" if connector(spec).capabilities.resumes_from_tables else replays


def _tables(catalog: CatalogBackend) -> str:
    counts = {database: len(catalog.tables(database)) for database in catalog.databases()}
    return f"{counted(sum(counts.values()), 'table')} in {counted(len(counts), 'database')}"


def check_tables(spec: PipelineSpec) -> Iterator[Finding]:
    """Check tables that already exist, created by this pipeline or by another writer."""
    catalog = spec.sink.catalog
    warehouse = settings_of(catalog)
    databases = warehouse.open().databases()
    state = state_of(spec.pipeline.name, spec.checkpoint, warehouse, databases)
    for broken in (table for table in state.tables if table.error):
        yield Finding(
            "tables", "error", f"{broken.table}: {broken.error}", "restore the file, or penstock rollback-to", 6
        )
    if state.tables and state.progress.done is None and not spec.pipeline.accept_replay:
        yield Finding(
            "tables",
            "error",
            f"{len(state.tables)} tables were written by this pipeline with another checkpoint",
            f"use the old checkpoint, or add  {_continuing(spec)}",
            9,
        )
    elif state.tables:
        yield Finding(
            "tables", "ok", f"{counted(len(state.tables), 'table')} of this pipeline, batch {state.progress.done}"
        )
        yield from parked_tables(spec, state.parked)
        yield from small_files(warehouse, [table.table for table in state.tables])
        yield from table_options(spec, warehouse, [table.table for table in state.tables if not table.error])
    else:
        yield Finding("tables", "ok", "none of this pipeline yet: tables that do not exist are created as they appear")
    if spec.freshness:
        filled = filled_tables(spec, warehouse)
        refuse_forced(spec, where_sources_go(filled, mapping_of(spec, warehouse)), warehouse)


def parked_tables(spec: PipelineSpec, parked: Mapping[str, Mapping[str, object]]) -> Iterator[Finding]:
    """Warn about tables that failed and get no rows until they are retried."""
    fix = "correct the cause, then  penstock run FILE --retry"
    if spec.pipeline.retry_parked:
        fix = "the next run retries it: correct the cause before"
    for table, why in sorted(parked.items()):
        cause = f"{why['hint']}; then  " if why.get("hint") else ""
        yield Finding(
            "tables", "warning", f"{table} is parked since batch {why['batch']}: {why['reason']}", cause + fix
        )


def table_options(spec: PipelineSpec, warehouse: CatalogSettings, tables: list[str]) -> Iterator[Finding]:
    """Check the options of the tables themselves: options that forbid writing, and options without effect."""
    for table in tables:
        schema = warehouse.store(table).schema()
        options = schema.options
        try:
            check_writable(options)
        except ConfigError as error:
            yield Finding("tables", "error", f"{table}: {error.message}", error.hint or "", error.exit_code)
        named = without_effect(spec.sink.options)
        for key, note in table_options_without_effect(schema).items():
            if key in named:
                continue  # the check of the pipeline's options reports it
            yield Finding("tables", "warning", f"{table}: {key} has no effect: {note}")


def small_files(warehouse: CatalogSettings, tables: list[str]) -> Iterator[Finding]:
    """Warn about tables with many small files: reading and committing them costs more than their rows do."""
    sizes = Sizes(warehouse).of(tables)
    small = {
        name: size
        for name, size in sizes.items()
        if size.files >= _MANY_FILES and size.bytes < size.files * _SMALL_FILE
    }
    for name, (files, size) in sorted(small.items(), key=lambda pair: -pair[1].files)[:5]:
        yield Finding(
            "tables",
            "warning",
            f"{name} is {files:,} files of {size / files / 1e6:.1f} MB",
            "use a longer trigger, fewer buckets or partitions, or  penstock compact --compact-strategy full",
        )


def check_checkpoint(spec: PipelineSpec) -> Iterator[Finding]:
    location = spec.checkpoint
    folder = CheckpointFolder(location, spec.sink.catalog.store_options)
    progress = folder.batches.progress()
    if folder.exists:
        folder.probe()
    elif (closed := _closed_above(location)) is not None:
        yield Finding(
            "checkpoint", "error", f"{location} cannot be created: {closed} is not writable", "check its permissions", 2
        )
        return
    done = "new" if progress.planned is None else f"batch {progress.done}"
    yield Finding("checkpoint", "ok", f"{location}: {done}")
    if folder.signals().paused:
        yield Finding(
            "checkpoint",
            "warning",
            "the pipeline is paused by a signal",
            f"penstock signal {spec.pipeline.name} resume",
        )


def _closed_above(location: str) -> Path | None:
    """Return the existing folder above a local path that does not exist, if this user may not create anything in it."""
    if "://" in location.removeprefix("file://"):
        return None
    above = Path(location.removeprefix("file://")).absolute().parents
    # The nearest existing folder decides; the root always exists.
    there = next(parent for parent in above if parent.exists())
    return None if os.access(there, os.W_OK | os.X_OK) else there


def check_spark(spec: PipelineSpec) -> Iterator[Finding]:
    """Check the version of Spark, and list the features that need a newer one. Pipelines need none of them."""
    check_version()
    check_spark_home()
    check_worker_python()
    yield Finding("spark", "ok", f"Spark {pyspark_version()} runs this pipeline")
    if lacks := lacking():
        names = "; ".join(f"{feature.title} (Spark {text(feature.since)})" for feature in lacks)
        yield Finding("spark", "ok", f"not with this Spark, but with a newer one: {names}")
    if installed() > NEWEST:
        yield Finding("spark", "warning", f"Penstock was tested with Spark {SUPPORTED}", f"install PySpark {SUPPORTED}")


def check_java(spec: PipelineSpec) -> Iterator[Finding]:
    try:
        home = java_home()
    except ConfigError as error:
        yield Finding("java", "error", f"{error.message} ({error.facts.get('looked_at')})", error.hint or "", 2)
        return
    yield Finding("java", "ok", f"Java {java_version(home)} at {home}")
