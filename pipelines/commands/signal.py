"""`penstock signal PIPELINE pause|resume|stop|snapshot TABLE...`: files in the checkpoint, obeyed by the driver."""

from __future__ import annotations

import time

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import parse_with_words
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.pipeline_choice import WHERE, NamedPipeline, named

_DOES = "Pause, resume or stop a running pipeline after its batch, or copy tables again (MySQL)."
_USAGE = "FILE (pause | resume | stop | snapshot TABLE ...)"
_SIGNALS = ("pause", "resume", "stop", "snapshot")
_SAID = {
    "pause": "{name} pauses after the current batch, until  {resume}",
    "resume": "{name} continues",
    "stop": "{name} stops after the current batch, with exit code 0",
    "snapshot": "{name} copies {tables} again while it continues",
}


def command(name: str, words: list[str]) -> int:
    found, given = parse_with_words(name, WHERE, words, _DOES, _USAGE, "FILE is the pipeline's file, or its name")
    if len(found) < 2 or found[1] not in _SIGNALS:
        raise ConfigError(
            "no signal is given", hint="penstock signal pipeline.yaml pause | resume | stop | snapshot TABLE ..."
        )
    word, signal, *tables = found
    if bool(tables) != (signal == "snapshot"):
        wanted = (
            "penstock signal PIPELINE snapshot TABLE ..."
            if signal == "snapshot"
            else f"the signal {signal} has no arguments"
        )
        raise ConfigError("wrong arguments of a signal", hint=wanted)
    pipeline = named(word, given, name)
    heard = _send(pipeline, signal, tables)
    facts = {"pipeline": pipeline.name, "signal": signal, "tables": tables, "driver": heard}
    said = _SAID[signal].format(name=pipeline.name, resume=pipeline.command(name, "resume"), tables=", ".join(tables))
    return answer(
        given,
        facts,
        said
        if heard in {"running", "pausing", "paused"}
        else f"{said} -- as soon as it runs: no driver is running now",
    )


def _send(pipeline: NamedPipeline, signal: str, tables: list[str]) -> str:
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
                raise ConfigError("no driver of this pipeline runs", state=state, checkpoint=pipeline.checkpoint)
            folder.signal(STOP)
        case "snapshot":
            _check_copies(pipeline)
            # A name for each request, so that a second one does not replace the first before it is obeyed.
            folder.signal(f"{SNAPSHOT_REQUEST}{time.time_ns() // 1_000_000}.json", tables)
    return state


def _check_copies(pipeline: NamedPipeline) -> None:
    from penstock.ingest.connectors import connector_of, only_types

    if pipeline.spec is not None and not connector_of(pipeline.spec.source).capabilities.rereads_tables:
        raise ConfigError(
            f"a source of type {pipeline.spec.source.type} does not support copying tables again",
            hint=(
                f"{only_types('rereads_tables')}; for other sources, start with a new --checkpoint and --accept-replay"
            ),
        )
