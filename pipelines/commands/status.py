"""`penstock status PIPELINE`: its state, from its checkpoint and its tables."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Flags, parse_with_word
from penstock.pipelines.commands.output import answer, print_rows, wants_json
from penstock.pipelines.commands.pipeline_choice import (
    WHERE,
    NamedPipeline,
    action_of,
    named,
    of_spec,
    spec_of_flags,
)
from penstock.pipelines.commands.target import REQUEST_PRICES, text, yes

if TYPE_CHECKING:
    from penstock.pipelines.monitor.owed_partitions import OwedPartitions
    from penstock.pipelines.monitor.pipeline_state import PipelineState
    from penstock.pipelines.monitor.store_cost import StoreCost

_DOES = "Show the state of a pipeline; works without a running driver."
_PIPELINE = "pipeline file, or pipeline name; or a sync action such as mysql-sync-database, whose flags follow it"
_OF_STATE = (
    Flag("watch", "refresh the output periodically until interrupted", "bool"),
    Flag("every", "refresh interval of --watch (default: 2s)", metavar="TIME"),
    Flag("offline", "do not ask the source for the lag", "bool"),
    REQUEST_PRICES,
)
FLAGS = (*WHERE, *_OF_STATE)

_NOT_WELL = 1  # exit code where the driver failed or died


def command(name: str, words: list[str]) -> int:
    pipeline, flags = _described(name, words)
    # Imported here, because the help of the command needs neither.
    from penstock.pipelines.monitor.owed_partitions import OwedPartitions
    from penstock.settings import seconds

    partitions = OwedPartitions()
    while True:
        state = _show(pipeline, flags, partitions)
        if not yes(flags, "watch"):
            return _NOT_WELL if state in {"failed", "dead"} else 0
        time.sleep(seconds(text(flags, "every") or "2s"))
        if not wants_json(flags) and sys.stdout.isatty():
            # Clear the terminal, and go to its first line.
            print("\033[2J\033[H", end="")


def _described(name: str, words: list[str]) -> tuple[NamedPipeline, Flags]:
    if action_of(words) is not None:
        spec, flags = spec_of_flags(name, words, _OF_STATE, _DOES)
        return of_spec(spec), flags
    word, flags = parse_with_word(name, FLAGS, words, _DOES, "PIPELINE", _PIPELINE)
    return named(word, flags, name), flags


def _show(pipeline: NamedPipeline, flags: Flags, partitions: OwedPartitions) -> str:
    """Print the status and return the state of the driver."""
    from dataclasses import replace

    from penstock.pipelines.monitor.status import position_of, state_of
    from penstock.pipelines.monitor.status_text import as_facts, as_lines

    state = state_of(pipeline.name, pipeline.checkpoint, pipeline.warehouse, pipeline.databases)
    position = position_of(state, pipeline.warehouse)
    if not yes(flags, "offline") and pipeline.spec is not None and position is not None:
        state = _with_lag(state, pipeline, dict(position))
    state = _with_differences(state, pipeline)
    state = replace(state, warnings=(*state.warnings, *partitions.of(state, pipeline.warehouse)))
    cost = _store_cost(state, pipeline, text(flags, "request-prices"))
    facts = {**as_facts(state, position), "store_cost": cost and cost.facts}
    if wants_json(flags):
        answer(flags, facts)
        sys.stdout.flush()  # who reads a watch from a pipe waits for each look
        return state.state
    head, names, rows, foot = as_lines(state, facts, pipeline.command)
    print("\n".join(head))
    if rows:
        print()
        print_rows(names, rows)
    foot += [str(cost)] if cost is not None else []
    if foot:
        print("\n" + "\n".join(foot))
    sys.stdout.flush()
    return state.state


def _store_cost(state: PipelineState, pipeline: NamedPipeline, prices: str | None) -> StoreCost | None:
    """Return the estimate of the requests; None if the interval of the batches is not known."""
    from penstock.pipelines.monitor.store_cost import RequestPrices, StoreCost
    from penstock.storage.open import is_object_store

    parsed = RequestPrices.parse(prices)
    trigger = (state.driver or {}).get("trigger_seconds")
    if trigger is None and pipeline.spec is not None:
        trigger = pipeline.spec.pipeline.trigger
    if trigger is None or not is_object_store(pipeline.warehouse.warehouse):
        return None
    # A table with an error may not exist, or be unreadable.
    names = [table.table for table in state.tables if table.error is None and table.table not in state.parked]
    schemas = {name: pipeline.warehouse.store(name).schema_last_read() for name in names}
    tables = [
        (schema.options, bool(schema.primary_keys), state.deferred.intervals.get(name, 0) / 1000)
        for name, schema in schemas.items()
    ]
    return StoreCost.of(pipeline.warehouse.warehouse, tables, float(trigger), parsed)


def _with_differences(state: PipelineState, pipeline: NamedPipeline) -> PipelineState:
    """Return a warning for each table that lacks rows which the checkpoint counts as read."""
    from dataclasses import replace

    from penstock.pipelines.job.build import mapping_of
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder
    from penstock.pipelines.ledger.filled_tables import FilledTables
    from penstock.pipelines.ledger.holes import where_sources_go

    checkpoint = CheckpointFolder(pipeline.checkpoint, pipeline.warehouse.store_options)
    filled = FilledTables.of(checkpoint, pipeline.warehouse)
    goes_to: dict[tuple[str, str], str | None] = dict(filled.sources)
    if pipeline.spec is not None:
        goes_to = where_sources_go(filled, mapping_of(pipeline.spec, pipeline.warehouse))
    goes_to = {source: target for source, target in goes_to.items() if target not in state.parked}
    found = filled.differences(goes_to)
    check = f"  ->  {pipeline.command('check')}" if pipeline.file else ""
    warned = [f"{difference.table} is missing rows: {difference.reason}{check}" for difference in found]
    return replace(state, warnings=(*state.warnings, *warned))


def _with_lag(state: PipelineState, pipeline: NamedPipeline, position: dict[str, Any]) -> PipelineState:
    """Return the state with the lag of the source, or with a warning if the source cannot be reached."""
    from dataclasses import replace

    from penstock.ingest.patience import patience
    from penstock.pipelines.job.source_request import connector, open_source

    assert pipeline.spec is not None
    kind = connector(pipeline.spec)
    try:
        with patience(0.0), closing(open_source(pipeline.spec)) as opened:
            state = replace(
                state,
                lag=opened.lag(position),
                lag_unit=kind.capabilities.lag_unit,
                deferred=state.deferred.counted(opened, position),
            )
            warned = kind.warnings(pipeline.spec.source)
        return replace(state, warnings=(*state.warnings, *warned))
    except PenstockError as error:
        return replace(state, warnings=(*state.warnings, f"the source cannot be reached: {error.message}"))
