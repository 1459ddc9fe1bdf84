"""`penstock run FILE`: a pipeline described in YAML."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag, pairs
from penstock.ingest.sync_actions import words as words_of
from penstock.pipelines.api.early_stop import Asked, noted_sigterm
from penstock.pipelines.commands.arguments import Flags, parse_with_file
from penstock.pipelines.commands.target import yes
from penstock.pipelines.spark import first_jvm
from penstock.pipelines.spark.start_mark import StartMark

if TYPE_CHECKING:
    from penstock.ingest.connector import StartPlace
    from penstock.pipelines.config.model import PipelineSpec

_START_HINT = "earliest, latest, or a time such as 2026-01-31T12:00:00Z (in UTC if it has no offset) or 1769860800000"
FLAGS = (
    Flag("until-caught-up", "read what the source contains now, commit, exit with code 0", "bool"),
    Flag("accept-replay", "continue with a new checkpoint, although rows may be written twice", "bool"),
    Flag("resume-from-tables", "start a new checkpoint at the position of the tables", "bool"),
    Flag("accept-gap", "continue where the source has deleted records, with a gap", "bool"),
    Flag("retry", "let parked tables apply the batches they missed first", "bool"),
    Flag(
        "resnapshot", "empty the tables and read them from the source again, if its log is lost or unreliable", "bool"
    ),
    Flag(
        "reset",
        "empty these tables and read their source tables again, while the others continue; may be repeated",
        "list",
        "TABLE",
    ),
    Flag("checkpoint", "folder of the checkpoint", metavar="PATH"),
    Flag("master", "Spark master (default: this machine, all cores)", metavar="URL"),
    Flag("spark-conf", "setting of the Spark session; may be repeated", "pairs", "K=V"),
    Flag(
        "from",
        "start position of a new checkpoint: earliest, latest, or a time such as 2026-01-31T12:00:00Z, in UTC if it has"
        " no offset",
        metavar="PLACE",
    ),
    Flag("json", "print the result as JSON", "bool"),
)


def command(name: str, words: list[str]) -> int:
    with noted_sigterm() as asked:
        return _command(name, words, asked)


def _command(name: str, words: list[str], asked: Asked) -> int:
    path, flags = parse_with_file(name, FLAGS, words, "Run the pipeline that a YAML file describes.")
    master, settings = flags.get("master", [None])[-1], pairs(flags.get("spark-conf", ()))
    mark = StartMark.of([name, *words])
    # Other runs first look whether they need Spark.
    if mark.expects_spark and Path(path).is_file():
        first_jvm.start(master, settings)
    from penstock.pipelines.api.run import run_command
    from penstock.pipelines.config import yaml_file

    spec = yaml_file.load(Path(path))
    changes: dict[str, object] = {}
    if _is_given(flags, "until-caught-up"):
        changes["until"] = "caught-up"
    for flag in ("accept-replay", "resume-from-tables", "accept-gap", "resnapshot"):
        if flag in flags:
            changes[flag.replace("-", "_")] = yes(flags, flag)
    if "retry" in flags:
        changes["retry_parked"] = yes(flags, "retry")
    if "reset" in flags:
        changes["reset"] = tables_given(flags, spec)
    if "checkpoint" in flags:
        changes["checkpoint"] = flags["checkpoint"][-1]
    # `model_copy` does not validate. `tables_given` has refused the values that the model would refuse.
    spec = spec.model_copy(update={"pipeline": spec.pipeline.model_copy(update=changes)})
    if "from" in flags:
        spec = begun(spec, flags["from"][-1])
    return run_command(spec, master=master, settings=settings, as_json=yes(flags, "json"), mark=mark, asked=asked)


def _is_given(flags: Flags, flag: str) -> bool:
    return flags.get(flag, ["false"])[-1] == "true"


def tables_given(flags: Flags, spec: PipelineSpec) -> tuple[str, ...]:
    from penstock.ingest.connectors import connector_of, only_types

    if not connector_of(spec.source).capabilities.rereads_tables:
        message = f"a source of type {spec.source.type} does not support reading tables again"
        raise ConfigError(message, hint=only_types("rereads_tables"))
    if spec.pipeline.resnapshot:
        raise ConfigError("resnapshot reads all tables again", hint="remove --reset")
    return words_of(flags["reset"])


def begun(spec: PipelineSpec, place: str) -> PipelineSpec:
    """Return the pipeline with `place` as its start. ConfigError if its checkpoint has a position already."""
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder

    if CheckpointFolder(spec.checkpoint, spec.sink.catalog.store_options).batches.progress().planned is not None:
        raise ConfigError(
            "the checkpoint has a position already; --from is for new checkpoints",
            checkpoint=spec.checkpoint,
            hint=(
                "start there with  --checkpoint NEW --accept-replay ; rows in between may be missing or written twice"
            ),
        )

    return started_at(spec, place)


def started_at(spec: PipelineSpec, place: str) -> PipelineSpec:
    """Return the pipeline with this start, which applies only to a new checkpoint.

    Places have the same spelling for all sources.
    """
    from penstock.ingest.connectors import connector_of

    word = place.strip().lower().removesuffix("-offset")
    at: StartPlace = "earliest" if word == "earliest" else "latest" if word == "latest" else _millis(place)
    source = connector_of(spec.source).starting_at(spec.source, at)
    return spec.model_copy(update={"source": source})


def _millis(place: str) -> int:
    if place.isdecimal():
        return int(place)
    try:
        moment = datetime.fromisoformat(place)
    except ValueError as reason:
        raise ConfigError(f"--from {place!r} is not a start position", hint=_START_HINT) from reason
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
