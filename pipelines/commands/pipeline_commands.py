"""Commands on pipelines, by name: the module that answers, and what it does. Imports nothing: --help pays nothing."""

from __future__ import annotations

_HOME = "penstock.pipelines.commands."

PIPELINE_COMMANDS = {
    "init": (f"{_HOME}init", "examine a source and write a commented pipeline file for it"),
    "check": (
        f"{_HOME}check",
        "check file, source, warehouse and checkpoint, and report all problems; changes nothing",
    ),
    "plan": (f"{_HOME}plan", "show the tables that a pipeline would create or change, with the reason for each type"),
    "run": (f"{_HOME}run", "run a pipeline described by a YAML file"),
    "status": (f"{_HOME}status", "show the state of a pipeline: tables, freshness, lag, files"),
    "signal": (f"{_HOME}signal", "pause, resume or stop a running pipeline, or copy tables again"),
    "verify": (f"{_HOME}verify", "compare MySQL tables with their target tables, while both are in use"),
    "dlq": (f"{_HOME}dlq", "dead letters (records that could not be written): list, show, replay, drop"),
    "schema": (f"{_HOME}schema", "print the JSON Schema of pipeline files, for editors"),
}
