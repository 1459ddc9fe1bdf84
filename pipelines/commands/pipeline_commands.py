"""Commands on pipelines, by name: the module that answers, and what it does. Imports nothing: --help pays nothing."""

from __future__ import annotations

_HOME = "penstock.pipelines.commands."

PIPELINE_COMMANDS = {
    "init": (f"{_HOME}init", "look at a source and write a pipeline file for it, with comments"),
    "check": (
        f"{_HOME}check",
        "look at file, source, warehouse and checkpoint; tell all that is wrong; change nothing",
    ),
    "plan": (f"{_HOME}plan", "the tables a pipeline would make or change, with the reason of each type"),
    "run": (f"{_HOME}run", "run a pipeline described by a YAML file"),
    "status": (f"{_HOME}status", "how a pipeline stands: tables, freshness, lag, files"),
    "signal": (f"{_HOME}signal", "pause, resume or stop a running pipeline, or have tables copied again"),
    "verify": (f"{_HOME}verify", "compare MySQL tables with the tables made of them, while both go on"),
    "dlq": (f"{_HOME}dlq", "records that could not be taken: list, show, replay, drop"),
    "schema": (f"{_HOME}schema", "the JSON Schema of pipeline files, for editors"),
}
