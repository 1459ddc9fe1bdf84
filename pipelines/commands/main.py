"""The command line: finds the command, imports its module, and prints errors for people or as JSON."""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import sys
from collections.abc import Sequence

from penstock import late_pandas
from penstock.errors import ConfigError, PenstockError, did_you_mean, label, without_bare_logins
from penstock.pipelines.api import early_stop
from penstock.pipelines.commands.table_commands import REFUSED, TABLE_COMMANDS, refusal
from penstock.pipelines.config.flags import all_actions, built_in_actions, sync_action
from penstock.pipelines.monitor.unexpected_error import unexpected
from penstock.pipelines.spark import first_jvm

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
    "verify": (f"{_HOME}verify", "compare source tables with their target tables, while both are in use"),
    "dlq": (f"{_HOME}dlq", "dead letters (records that could not be written): list, show, replay, drop"),
    "schema": (f"{_HOME}schema", "print the JSON Schema of pipeline files, for editors"),
}
_SYNC = f"{_HOME}sync"
# command -> (module, help). A module is loaded when its command is called, so that --help is fast.
COMMANDS = {
    **PIPELINE_COMMANDS,
    "demo": ("penstock.pipelines.commands.demo", "run a small shop's changes through a pipeline, on this machine only"),
    "warm": ("penstock.pipelines.commands.warm", "halve the start time of Spark; run once per machine"),
    "spark-jar": (
        "penstock.pipelines.commands.spark_jar",
        "write the jar of the Spark catalog, for spark-sql and servers",
    ),
    **{name: (_SYNC, action.description) for name, action in built_in_actions().items()},
    **TABLE_COMMANDS,
}
NOT_OURS = 12  # the exit code for an error of the disk, the network or a store
_OBJECTS_PER_SEARCH = (50_000, 10, 10)  # for garbage: imports create half a million objects, and none of it is garbage
CLOSED = 141  # as a shell counts SIGPIPE
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    if arguments is None:
        late_pandas.defer()
        gc.set_threshold(*_OBJECTS_PER_SEARCH)
        first_jvm.allow()
        if words[:1] == ["run"] or sync_action(_name(words)) is not None:
            early_stop.note_from_now_on()
        _escape_unknown_characters()
    try:
        return _run([word for word in words if word != "--debug"])
    except KeyboardInterrupt:
        # As a shell counts SIGINT: 128 plus 2.
        return 130
    except BrokenPipeError:  # the reader closed the pipe: `penstock ... | head`
        # Python flushes standard output when it ends, and that would fail again on the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED
    except Exception as error:  # noqa: BLE001 -- the last place: each becomes a message and an exit code
        if debug:
            import traceback  # not for every command: help must be quick

            print(without_bare_logins(traceback.format_exc()), end="", file=sys.stderr)
        known = error if isinstance(error, PenstockError) else unexpected(error)
        if not debug or "--json" in words:
            print(as_json(known) if "--json" in words else shown(known), file=sys.stderr)
        return NOT_OURS if isinstance(error, OSError) else known.exit_code
    finally:
        first_jvm.end()
        if arguments is None and "_duckdb" not in sys.modules:
            # Python searches all objects for garbage as it ends, several times; frozen ones it leaves alone. DuckDB
            # expects the search: it prints a list of its objects that are left.
            gc.freeze()


def _escape_unknown_characters() -> None:
    """Print characters that the terminal's encoding lacks as escapes: by default, Python would end with an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
            stream.reconfigure(errors="backslashreplace")


def _run(words: Sequence[str]) -> int:
    if not words or words[0] in {"-h", "--help", "help"}:
        print(overview())
        return 0
    if words[0] in {"-V", "--version"}:
        import penstock

        print(penstock.__version__)
        return 0
    _check_dashes(words)
    name = _name(words)
    if name in REFUSED:
        raise refusal(name)
    if name not in COMMANDS and sync_action(name) is None:
        raise _unknown(words[0], name)
    # Actions that packages add are not in the table.
    place, _ = COMMANDS.get(name, (_SYNC, ""))
    module = importlib.import_module(place)
    code: int = module.command(name, list(words[1:]))
    return code


def _name(words: Sequence[str]) -> str:
    """Return the command, as the tables of commands spell it."""
    return words[0].lower().replace("_", "-") if words else ""


def _unknown(written: str, name: str) -> ConfigError:
    """Return the error for a command that does not exist; some actions of Paimon are procedures only."""
    from penstock.table.sql.procedures.procedure_calls import PROCEDURES, REFUSED_PROCEDURES

    procedure = name.replace("-", "_")
    hint = did_you_mean(name, COMMANDS, "penstock --help  lists them")
    if procedure in PROCEDURES:
        hint = f'it is a procedure:  penstock sql "{PROCEDURES[procedure].usage(procedure)}"'
    elif procedure in REFUSED_PROCEDURES:
        return ConfigError(f"{name} is not supported", hint=REFUSED_PROCEDURES[procedure])
    return ConfigError(f"unknown command {written!r}", hint=hint)


def _check_dashes(words: Sequence[str]) -> None:
    for word in words:
        if word[:1] and word[0] in DASHES:
            raise ConfigError(
                f"{word!r} begins with a typographic dash instead of a hyphen, as web pages print it",
                hint=f"write --{word.lstrip(DASHES + '-')}",
            )


_BY_FLAGS = "pipelines by flags only, with the flags of Paimon's actions"
_GROUPS = {
    "pipelines": (*PIPELINE_COMMANDS,),
    _BY_FLAGS: (),  # filled when it is shown: packages add actions
    "this machine": ("demo", "warm", "spark-jar"),
    "inspect tables": ("tables", "show", "sql", "analyze"),
    "change rows": ("delete", "merge-into", "drop-partition", "expire-partitions", "mark-partition-done"),
    "compact and rewrite": ("compact", "compact-database", "compact-manifest", "rescale", "clone", "copy-files"),
    "snapshots, tags, branches": (
        *("expire-snapshots", "expire-changelogs", "create-tag", "create-tag-from-timestamp"),
        *("create-tag-from-watermark", "replace-tag", "rename-tag", "delete-tag", "expire-tags", "create-branch"),
        *("delete-branch", "fast-forward", "rollback-to", "rollback-to-timestamp", "reset-consumer", "clear-consumers"),
    ),
    "repair": (
        "repair",
        "publish-iceberg",
        "remove-orphan-files",
        "remove-unexisting-files",
        "remove-unexisting-manifests",
    ),
}


def overview() -> str:
    actions = {name: action.description for name, action in all_actions().items()}
    descriptions = {name: text for name, (_, text) in COMMANDS.items()} | actions
    width = max(map(len, descriptions))
    lines = [
        line
        for title, names in (_GROUPS | {_BY_FLAGS: tuple(actions)}).items()
        for line in ("", f"{title}:", *(f"  {name:<{width}}  {descriptions[name]}" for name in names))
    ]
    return "\n".join(
        [
            "usage: penstock COMMAND [--flag value ...]",
            "",
            "Write change streams to Apache Paimon tables, on PySpark.",
            *lines,
            "",
            "penstock COMMAND --help  shows a command's flags and an example;  --debug  shows tracebacks.",
        ]
    )


def shown(error: PenstockError) -> str:
    """Return the error with one line per fact, and the repair last."""
    from penstock.pipelines.commands.output import harmless

    facts = {label(name): harmless(str(value)) for name, value in error.facts.items()}
    if error.hint:
        facts["to repair"] = error.hint
    width = max(map(len, facts), default=0)
    message = "\n".join(map(harmless, error.message.splitlines()))
    return "\n".join([f"error: {message}", *(f"  {name:<{width}}  {text}" for name, text in facts.items())])


def as_json(error: PenstockError) -> str:
    facts = {name: str(value) for name, value in error.facts.items()}
    return json.dumps({"error": type(error).__name__, "message": error.message, "facts": facts, "hint": error.hint})


if __name__ == "__main__":
    sys.exit(main())
