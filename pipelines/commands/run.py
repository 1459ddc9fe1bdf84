"""`penstock run FILE`: a pipeline described in YAML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.pipelines.api.run import run_command
from penstock.pipelines.commands.arguments import Given, parse_with_file
from penstock.pipelines.commands.target import yes
from penstock.pipelines.config.actions import Flag
from penstock.pipelines.config.pairs import pairs
from penstock.pipelines.config.pairs import words as words_of

if TYPE_CHECKING:
    from penstock.pipelines.config.model import PipelineSpec

FLAGS = (
    Flag("until-caught-up", "take what is there now, commit, exit 0", "bool"),
    Flag("accept-replay", "go on with a new checkpoint though rows may come twice", "bool"),
    Flag("resume-from-tables", "start a new checkpoint where the tables are", "bool"),
    Flag("accept-gap", "go on where records are gone at the source, with a hole", "bool"),
    Flag("retry", "have parked tables take first what went by without them", "bool"),
    Flag("resnapshot", "empty MySQL's tables and read them again, where the log is gone or in doubt", "bool"),
    Flag("reset", "empty these tables and read their MySQL tables again, beside the others; repeat", "list", "TABLE"),
    Flag("checkpoint", "folder of the checkpoint", metavar="PATH"),
    Flag("master", "Spark's master (this machine, all cores)", metavar="URL"),
    Flag("spark-conf", "setting of the Spark session; repeat", "pairs", "K=V"),
    Flag(
        "from",
        "where a new checkpoint begins: earliest, latest, or a time such as 2026-01-31T12:00:00Z",
        metavar="PLACE",
    ),
    Flag("json", "say at the end, as JSON, what was done", "bool"),
)


def command(name: str, words: list[str]) -> int:
    path, given = parse_with_file(name, FLAGS, words, "Run the pipeline that a YAML file describes.")
    from penstock.pipelines.config import yaml_file

    spec = yaml_file.load(Path(path))
    changes: dict[str, object] = {}
    if given.get("until-caught-up", ["false"])[-1] == "true":
        changes["until"] = "caught-up"
    for flag in ("accept-replay", "resume-from-tables", "accept-gap", "resnapshot"):
        if flag in given:
            changes[flag.replace("-", "_")] = yes(given, flag)
    if "retry" in given:
        changes["retry_parked"] = yes(given, "retry")
    if "reset" in given:
        changes["reset"] = tables_given(given, spec)
    if "checkpoint" in given:
        changes["checkpoint"] = given["checkpoint"][-1]
    spec = spec.model_copy(update={"pipeline": spec.pipeline.model_copy(update=changes)})
    if "from" in given:
        spec = begun(spec, given["from"][-1])
    settings = pairs(given.get("spark-conf", ()))
    return run_command(spec, master=given.get("master", [None])[-1], settings=settings, as_json=yes(given, "json"))


def tables_given(given: Given, spec: PipelineSpec) -> tuple[str, ...]:
    if spec.source.type != "mysql":
        raise ConfigError(f"a source of type {spec.source.type} has no tables to read again", hint="only MySQL has")
    if spec.pipeline.resnapshot:
        raise ConfigError("resnapshot reads all tables again", hint="leave out --reset")
    return words_of(given["reset"])


def begun(spec: PipelineSpec, place: str) -> PipelineSpec:
    """The pipeline as it begins at `place`. A checkpoint that has begun already knows better, so that is refused."""
    from penstock.pipelines.ledger.checkpoint_folder import CheckpointFolder

    if CheckpointFolder(spec.checkpoint, spec.sink.catalog.options).progress().planned is not None:
        raise ConfigError(
            "the checkpoint says already where to go on; --from is for a new one",
            checkpoint=spec.checkpoint,
            hint="--checkpoint NEW --accept-replay  begins again there: rows between may be missing or come twice",
        )
    from penstock.pipelines.config.startup_modes import started_at

    return started_at(spec, place)
