"""`penstock signal PIPELINE pause|resume|stop|snapshot TABLE...`: files in the checkpoint, obeyed by the driver."""

from __future__ import annotations

import sys
import time

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Flags, parse_with_words
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.pipeline_choice import WHERE, NamedPipeline, named
from penstock.pipelines.commands.target import text

_DOES = "Pause, resume or stop a running pipeline after its batch, or copy tables of a database again."
_USAGE = "FILE (pause | resume | stop | snapshot TABLE ...)"
_FLAGS = (
    *WHERE,
    Flag(
        "where",
        "snapshot: copy only the rows that meet this condition, such as \"region = 'EU'\" (MySQL, MariaDB, PostgreSQL)",
        metavar="CONDITION",
    ),
)
_MOST_NAMED = 20
_SIGNALS = ("pause", "resume", "stop", "snapshot")
_SAID = {
    "pause": "{name} pauses after the current batch, until  {resume}",
    "resume": "{name} continues",
    "stop": "{name} stops after the current batch, with exit code 0",
    "snapshot": "{name} copies {tables} again while it continues",
}


def command(name: str, words: list[str]) -> int:
    found, flags = parse_with_words(name, _FLAGS, words, _DOES, _USAGE, "FILE is the pipeline's file, or its name")
    if len(found) < 2 or found[1] not in _SIGNALS:
        hint = "penstock signal pipeline.yaml pause | resume | stop | snapshot TABLE ..."
        raise ConfigError(f"there is no signal {found[1]!r}" if len(found) > 1 else "no signal is given", hint=hint)
    word, signal, *tables = found
    if bool(tables) != (signal == "snapshot"):
        wanted = (
            "penstock signal PIPELINE snapshot TABLE ..."
            if signal == "snapshot"
            else f"the signal {signal} has no arguments"
        )
        raise ConfigError("wrong arguments of a signal", hint=wanted)
    where = _condition(flags, signal)
    pipeline = named(word, flags, name)
    heard = _send(pipeline, signal, tables, where)
    facts = {"pipeline": pipeline.name, "signal": signal, "tables": tables, "driver": heard}
    facts |= {"where": where} if where else {}
    wanted = ", ".join(tables) + (f" where {where}" if where else "")
    said = _SAID[signal].format(name=pipeline.name, resume=pipeline.command(name, "resume"), tables=wanted)
    return answer(
        flags,
        facts,
        said
        if heard in {"running", "pausing", "paused"}
        else f"{said} -- as soon as it runs: no driver is running now",
    )


def _condition(flags: Flags, signal: str) -> str:
    """Return the condition of --where, empty without one. ConfigError names the position of a syntax error."""
    from penstock.schema_evolution.row_conditions import parse_condition

    where = (text(flags, "where") or "").strip()
    if "where" in flags and signal != "snapshot":
        raise ConfigError(
            f"--where has no meaning for the signal {signal}", hint="penstock signal PIPELINE snapshot TABLE"
        )
    if "where" in flags and not where:
        raise ConfigError("the condition of --where is empty", hint="leave --where out to copy whole tables")
    if where:
        parse_condition(where)
    return where


def _send(pipeline: NamedPipeline, signal: str, tables: list[str], where: str) -> str:
    """Write the signal, and return the state of the driver that will read it."""
    from penstock.pipelines.ledger.checkpoint_folder import PAUSED, SNAPSHOT_REQUEST, STOP, CheckpointFolder
    from penstock.pipelines.monitor.status import state_of

    folder = CheckpointFolder(pipeline.checkpoint, pipeline.warehouse.store_options)
    state = state_of(pipeline.name, pipeline.checkpoint, pipeline.warehouse, ()).state
    if state == "new":
        raise ConfigError(
            "this pipeline has never run",
            checkpoint=pipeline.checkpoint,
            hint="check --checkpoint or --warehouse",
        )
    match signal:
        case "pause":
            folder.signal(PAUSED)
        case "resume":
            folder.clear_signal(PAUSED)
        case "stop":
            if state not in {"running", "pausing", "paused"}:
                raise ConfigError(
                    "no driver of this pipeline runs",
                    state=state,
                    checkpoint=pipeline.checkpoint,
                    hint="there is nothing to stop; if it runs, name its checkpoint with --checkpoint",
                )
            folder.signal(STOP)
        case "snapshot":
            _check_copies(pipeline, with_condition=bool(where))
            read = [(database, table) for database, table, _ in (folder.filled_tables() or {}).get("sources", ())]
            _check_targets(pipeline, tables, read)
            _warn_of_unread(tables, read)
            # A name for each request, so that a second one does not replace the first before it is obeyed.
            folder.signal(f"{SNAPSHOT_REQUEST}{time.time_ns() // 1_000_000}.json", tables, where)
    return state


def _warn_of_unread(tables: list[str], read: list[tuple[str, str]]) -> None:
    """Print the existing source tables on stderr if one of these was never read: the driver would leave it out.

    The user may have written the name of the target table.
    """
    known = {word for database, table in read for word in (table, f"{database}.{table}")}
    unread = [name for name in tables if name not in known]
    if read and unread:
        there = ", ".join(sorted(".".join(name) for name in read)[:_MOST_NAMED])
        print(
            f"warning: {', '.join(unread)} was not read so far, and is left out unless it is captured: the source"
            f" tables are {there}",
            file=sys.stderr,
        )


def _check_copies(pipeline: NamedPipeline, *, with_condition: bool) -> None:
    from penstock.ingest.connectors import connector_of, only_types

    if pipeline.spec is None:
        return
    capabilities = connector_of(pipeline.spec.source).capabilities
    if not capabilities.rereads_tables:
        raise ConfigError(
            f"a source of type {pipeline.spec.source.type} does not support copying tables again",
            hint=(
                f"{only_types('rereads_tables')}; for other sources, start with a new --checkpoint and --accept-replay"
            ),
        )
    if capabilities.rereads_at_start:
        raise ConfigError(
            f"a source of type {pipeline.spec.source.type} reads tables again only when a run begins",
            hint=f"stop the pipeline, then  {pipeline.command('run')} --reset TARGET_TABLE",
        )
    if with_condition and not capabilities.rereads_parts:
        raise ConfigError(
            f"a source of type {pipeline.spec.source.type} cannot copy a part of a table by a condition",
            hint=f"{only_types('rereads_parts')}; without --where the whole table is copied again",
        )


def _check_targets(pipeline: NamedPipeline, tables: list[str], read: list[tuple[str, str]]) -> None:
    """Raise ConfigError if a target table would have the rows of a copy twice.

    A name without a database means all source tables of this name that were `read`. A pipeline that is named without
    its file does not show which target tables these are.
    """
    from penstock.pipelines.job.build import mapping_of
    from penstock.pipelines.ledger.batch_identity import adds_repeated_rows

    if pipeline.spec is None:
        return
    catalog, mapping = pipeline.warehouse.open(), mapping_of(pipeline.spec, pipeline.warehouse)
    sources = {name.partition(".")[::2] for name in tables if "." in name}
    sources |= {source for source in read if source[1] in tables}
    for database, table in sorted(sources):
        target = mapping.target(database, table)
        if target is not None and catalog.table_exists(target) and adds_repeated_rows(catalog.table(target).definition):
            raise ConfigError(
                "the target table would have the copied rows twice: it aggregates rows, or has no primary key",
                source=f"{database}.{table}",
                table=target,
                hint=f"empty it and read it again: stop the pipeline, then  {pipeline.command('run')} --reset {target}",
            )
