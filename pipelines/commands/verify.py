"""`penstock verify FILE`, or `penstock verify mysql-sync-... FLAGS`: compares every table with its source."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, SourceError
from penstock.ingest.sync_actions import Flag
from penstock.ingest.sync_actions import words as words_of
from penstock.pipelines.commands.arguments import Flags, parse_with_file
from penstock.pipelines.commands.output import answer, shown, wants_json
from penstock.pipelines.commands.pipeline_choice import FILE_OR_ACTION, action_of, spec_of_flags
from penstock.pipelines.commands.target import JSON, number, text

if TYPE_CHECKING:
    from penstock.pipelines.api.verify import TableVerdict, Verification
    from penstock.pipelines.config.model import PipelineSpec

DIFFERENT = 1  # the exit code where tables differ; errors have others
FLAGS = (
    Flag("tables", "only these tables of the warehouse; may be repeated or separated by commas", "list", "A,B"),
    Flag("ignore-columns", "columns to skip in the comparison", "list", "A,B"),
    Flag("limit", "maximum number of different ranges and keys to list per table (default: 20)", metavar="N"),
    Flag(
        "wait",
        "how long to wait for tables whose snapshot is still being read: 90s, 5min, or seconds (default: 60)",
        metavar="TIME",
    ),
    JSON,
)
_DOES = (
    "Compare tables with their sources by checksums of key ranges, at one position of the log, while the "
    "pipeline runs. Exit code 0: equal, 1: different, or a table was dropped. Tables that cannot be compared are "
    "listed; it is an error if none can be."
)


def command(name: str, words: list[str]) -> int:
    spec, flags = _described(name, words)
    verdicts = _patiently(spec, flags)
    none = all(verdict.not_compared for verdict in verdicts)
    equal = not (none or any(verdict.differs for verdict in verdicts))
    if wants_json(flags):
        facts = [asdict(verdict) | {"equal": verdict.is_equal} for verdict in verdicts]
        answer(flags, {"pipeline": spec.pipeline.name, "equal": equal, "tables": facts})
    else:
        for verdict in verdicts:
            print("\n".join(_lines(verdict)))
    if none and not any(verdict.is_early for verdict in verdicts):
        raise ConfigError("no table was compared", hint="run the pipeline first, or name other tables in --tables")
    if not (none or equal):
        return DIFFERENT
    return SourceError.exit_code if any(verdict.is_early for verdict in verdicts) else 0


def _described(name: str, words: list[str]) -> tuple[PipelineSpec, Flags]:
    if action_of(words) is not None:
        return spec_of_flags(name, words, FLAGS, _DOES)
    file, flags = parse_with_file(name, FLAGS, words, _DOES, FILE_OR_ACTION)
    from penstock.pipelines.config import yaml_file

    return yaml_file.load(Path(file)), flags


def _waited(flags: Flags) -> float:
    from penstock.settings import seconds

    written = text(flags, "wait") or "60"
    try:
        return seconds(written)
    except ValueError as reason:
        raise ConfigError(f"--wait {written!r} is not a duration", hint="write it as 90s or 5min") from reason


def _patiently(spec: PipelineSpec, flags: Flags) -> list[TableVerdict]:
    """Return the verdicts. Tables that cannot be compared yet are tried again until the time of --wait is over."""
    until = time.monotonic() + _waited(flags)
    done: dict[str, TableVerdict] = {}
    wanted = words_of(flags.get("tables", ()))
    while True:
        verification = _verification(spec, flags)
        try:
            done |= {verdict.table: verdict for verdict in verification.verdicts(wanted)}
            early = tuple(table for table, verdict in done.items() if verdict.is_early)
            if not early or time.monotonic() >= until:
                return list(done.values())
            wanted = early
        except SourceError as error:
            if not error.retryable or (time.monotonic() >= until and not done):
                raise
            if time.monotonic() >= until:
                return list(done.values())
        time.sleep(1)


def _verification(spec: PipelineSpec, flags: Flags) -> Verification:
    """Return a verification at the position that the pipeline, which may be running, has reached now."""
    from penstock.pipelines.api.verify import Verification
    from penstock.pipelines.job import build
    from penstock.pipelines.job.source_request import connector, request_of
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
    from penstock.pipelines.mapping.target_tables import settings_of

    catalog = spec.sink.catalog
    mapping = build.mapping_of(spec, settings_of(catalog))
    source = connector(spec).comparable(spec.source, request_of(spec))
    if source is None:
        hint = "servers whose tables can be read, such as MySQL and PostgreSQL, and Paimon tables can be compared"
        raise ConfigError(f"a source of type {spec.source.type} has no rows to compare with", hint=hint)
    checkpoint = CheckpointFolder(spec.checkpoint, catalog.store_options)
    return Verification(
        spec.pipeline.name,
        source,
        mapping,
        checkpoint.batches.progress().offsets,
        number(flags, "limit", least=1) or 20,
        frozenset(words_of(flags.get("ignore-columns", ()))),
        {table: str(parked["reason"]) for table, parked in checkpoint.parked().items()},
        spec.sink.ignore_incompatible,
        frozenset((checkpoint.filled_tables() or {}).get("tables", ())),
    )


def _lines(verdict: TableVerdict) -> list[str]:
    from penstock.pipelines.api.compared_columns import HASH_RANGE

    if verdict.is_missing:
        return [f"missing  {verdict.table}: the pipeline has filled the table, and it does not exist any more"]
    if verdict.not_compared:
        return [f"skipped  {verdict.table}: {verdict.not_compared}"]
    at = f"at {verdict.position}"
    if verdict.unfit:
        at = f"{at}; {verdict.unfit:,} more are bad records, which are not written to tables"
    if verdict.lossy:
        lost = ", ".join(f"{count:,} {how}" for how, count in verdict.lossy.items())
        at = f"{at}; values that differ because of type rules: {lost}"
    if verdict.is_equal:
        return [f"equal    {verdict.table}: {verdict.source_rows:,} rows {at}"]
    counts = ", ".join(f"{count:,} {how}" for how, count in verdict.counts.items())
    rows = f"{verdict.source_rows:,} rows at the source, {verdict.table_rows:,} in the table"
    keys = (
        f"  {key.how}  {', '.join(f'{name}={shown(value)}' for name, value in key.key.items())}" for key in verdict.keys
    )
    # A range of hashes names no rows to look at: the keys below do.
    ranges = (f"  range  {range_}" for range_ in verdict.ranges if not range_.startswith(HASH_RANGE))
    return [f"differs  {verdict.table}: {counts}; {rows} {at}", *ranges, *keys]
