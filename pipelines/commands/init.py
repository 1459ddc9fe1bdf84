"""`penstock init SOURCE WAREHOUSE`: look at a source and write a pipeline file for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Flags, parse_with_words
from penstock.pipelines.commands.output import answer
from penstock.pipelines.commands.pipeline_choice import action_of, file_of, values_of_flags
from penstock.pipelines.commands.target import JSON, text, yes

_HEAD = """# yaml-language-server: $schema=./penstock.schema.json
#   ^ keys completed and checked by editors, after:  penstock schema --output penstock.schema.json
version: 1

pipeline:
  name: {name}                    # commit user, metric label, checkpoint folder
  # checkpoint: {warehouse}/_penstock/{name}   # the default; keep this folder: a pipeline resumes from it
  trigger: 30s                    # time between batches
  # until: caught-up              # read what the source contains now, commit, exit with code 0
"""
_SINK = """
sink:
  type: paimon
  catalog:
    warehouse: {warehouse}
  database: {database}
  # table-options:                # options of new tables; any table option of Paimon
  #   bucket: "4"
  #   changelog-producer: input

errors:
  bad-record: fail                # fail | dead-letter | skip
"""
_SOURCES = (
    "a URL such as mysql://user@host:3306/database, postgres://..., mongodb://..., kafka://host:9092/topic or "
    "pulsar://..., or a folder of messages"
)
FLAGS = (
    Flag("output", "the file to write (default: pipeline.yaml)", metavar="FILE"),
    Flag("name", "name of the pipeline (default: the name of the database, topic or folder)", metavar="NAME"),
    Flag("database", "database of the warehouse (default: ods)", metavar="NAME"),
    Flag("format", "format of the messages (default: detected from the first messages)", metavar="FORMAT"),
    Flag("offline", "do not connect to the source", "bool"),
    Flag("force", "overwrite an existing file", "bool"),
    JSON,
)
_DOES = (
    f"Write a pipeline file with comments. SOURCE is {_SOURCES}. penstock init mysql-sync-database FLAGS (or "
    "another sync action) writes the file that is equivalent to the flags, with the same name and checkpoint."
)
_OF_FLAGS = tuple(flag for flag in FLAGS if flag.name in {"output", "force", "json"})


def command(name: str, words: list[str]) -> int:
    if action_of(words) is not None:
        return _of_flags(name, words)
    places, flags = parse_with_words(
        name, FLAGS, words, _DOES, "SOURCE WAREHOUSE", "the source to read, and the warehouse to write to"
    )
    if len(places) != 2:
        raise ConfigError(
            "source and warehouse are missing", hint=f"penstock init SOURCE WAREHOUSE; SOURCE is {_SOURCES}"
        )
    if places[1].endswith((".yaml", ".yml")):
        raise ConfigError(
            f"the warehouse is a folder or a URL, and {places[1]} is the name of a pipeline file",
            hint=f"penstock init SOURCE WAREHOUSE --output {places[1]}",
        )
    target = _target(flags)
    from penstock.ingest.connectors import connector_of_url
    from penstock.ingest.source_draft import DraftOptions

    connector = connector_of_url(places[0])
    draft = connector.draft(places[0], DraftOptions(yes(flags, "offline"), text(flags, "format")))
    pipeline, database = text(flags, "name") or draft.name, text(flags, "database") or "ods"
    sink = _SINK.format(warehouse=places[1], database=database)
    target.write_text(_HEAD.format(name=pipeline, warehouse=places[1]) + draft.section + sink, encoding="utf-8")
    facts = {"file": str(target), "source": connector.name, "found": draft.found}
    steps = [f"  penstock {verb} {target}" for verb in ("check", "plan", "run")]
    written = [f"{target} written. {draft.found}", "next:", *_exports(draft.environment), *steps]
    return answer(flags, facts, "\n".join(written))


def _exports(variables: Sequence[str]) -> list[str]:
    return [f"  export {variable}=..." for variable in variables]


def _target(flags: Flags) -> Path:
    target = Path(text(flags, "output") or "pipeline.yaml")
    if target.exists() and not yes(flags, "force"):
        raise ConfigError(
            f"{target} exists already", hint="choose another file with --output, or overwrite it with --force"
        )
    return target


def _of_flags(name: str, words: list[str]) -> int:
    """Return a file with the same effect as the flags of a sync action: it continues their checkpoint and tables."""
    from penstock.pipelines.config.load import parsed

    values, flags = values_of_flags(name, words, _OF_FLAGS, _DOES)
    spec, target = parsed(values), _target(flags)
    values["pipeline"]["name"] = spec.pipeline.name
    content, variables = file_of(values, spec)
    target.write_text(content, encoding="utf-8")
    facts = {"file": str(target), "pipeline": spec.pipeline.name, "environment": list(variables)}
    steps = [f"  penstock check {target}", f"  penstock run {target}"]
    return answer(
        flags,
        facts,
        "\n".join([f"{target} written: pipeline {spec.pipeline.name}", "next:", *_exports(variables), *steps]),
    )
