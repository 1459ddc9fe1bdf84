"""Parses flags as Paimon's actions do: hyphens and underscores alike, values repeated, unknown names refused.

Each command has an example that its `--help` shows.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from penstock.errors import ConfigError, nearest
from penstock.ingest.sync_actions import Flag
from penstock.pipelines.config.flags import sync_action

Flags = dict[str, list[str]]

_SYNONYMS = {"execution.checkpointing.interval": "trigger"}  # of -Dkey=value
_INSTEAD = {"parallelism.default": "--parallelism", "execution.checkpointing.dir": "--checkpoint"}
_STREAMING = "execution.runtime-mode"  # in Paimon's commands this makes a compaction keep watching
_GONE = {"path": "use --warehouse, --database and --table instead"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"{self.prog} --help  lists the flags")


def _parser(command: str, description: str, usage: str | None = None) -> _Parser:
    example = example_of(command)
    return _Parser(
        prog=f"penstock {command}",
        usage=usage,
        description=description,
        epilog=f"example:  {example}" if example else None,
        allow_abbrev=False,
    )


def parse(command: str, flags: Sequence[Flag], words: Sequence[str], description: str = "") -> Flags:
    """Return the values by flag name with hyphens; flags that were not used are absent. --help prints and exits."""
    given = _parsed(_parser(command, description), flags, words)
    missing = [flag.name for flag in flags if flag.required and flag.name not in given]
    if missing:
        raise ConfigError(f"--{missing[0]} is required", hint=f"penstock {command} --help  lists the flags")
    return given


def parse_with_file(
    command: str,
    flags: Sequence[Flag],
    words: Sequence[str],
    description: str,
    help_text: str = "the pipeline, as YAML",
) -> tuple[str, Flags]:
    """Return the one FILE among the words, and the values of the flags."""
    parser = _parser(command, description)
    parser.add_argument("file", metavar="FILE", help=help_text)
    given = _parsed(parser, flags, words)
    return str(given.pop("file")), given


def parse_with_word(
    command: str, flags: Sequence[Flag], words: Sequence[str], description: str, word: str, help_text: str
) -> tuple[str | None, Flags]:
    """Return the one word that is not a flag, None without it, and the values of the flags."""
    parser = _parser(command, description)
    parser.add_argument("word", metavar=word, nargs="?", help=help_text)
    given = _parsed(parser, flags, words)
    found = given.pop("word", None)
    return (None if found is None else str(found)), given


def parse_with_words(
    command: str, flags: Sequence[Flag], words: Sequence[str], description: str, usage: str, help_text: str
) -> tuple[list[str], Flags]:
    """Return all words that are not flags, and the values of the flags."""
    parser = _parser(command, description, f"penstock {command} {usage} [--flag value ...]")
    parser.add_argument("words", metavar=usage, nargs="*", help=help_text)
    given = _parsed(parser, flags, words, intermixed=True)
    return list(given.pop("words", [])), given


def _parsed(
    parser: argparse.ArgumentParser, flags: Sequence[Flag], words: Sequence[str], *, intermixed: bool = False
) -> Flags:
    idle = [flag.name for flag in flags if not flag.has_effect]
    if idle:
        listed = (
            f"Accepted, as by Paimon's commands, but without effect here:  {', '.join(f'--{flag}' for flag in idle)}"
        )
        parser.description = f"{(parser.description or '').rstrip('.')}. {listed}."
    for flag in flags:
        shown = flag.help if flag.has_effect else argparse.SUPPRESS
        if flag.kind == "bool":
            parser.add_argument(f"--{flag.name}", nargs="?", const="true", action="append", metavar="BOOL", help=shown)
        else:
            parser.add_argument(f"--{flag.name}", action="append", metavar=flag.metavar or "TEXT", help=shown)
    parse_args = parser.parse_known_intermixed_args if intermixed else parser.parse_known_args
    watches = any(flag.name == "watch" for flag in flags)
    normal = _normal(words, watches=watches)
    known, rest = parse_args(_switched(normal, {f"--{f.name}" for f in flags if f.kind == "bool"}))
    if rest:
        raise _unknown(rest[0], flags, parser.prog)
    # argparse has replaced the hyphens of the names by underscores.
    given = {name.replace("_", "-"): values for name, values in vars(known).items() if values}
    for flag in flags:
        if not flag.is_repeated and flag.name in given:
            one_value(flag.name, given[flag.name])
    for name in idle:
        if name in given:
            print(f"warning: --{name} has no effect here", file=sys.stderr)
    return given


def one_value(flag: str, values: Sequence[str]) -> str:
    """Return the one value of a flag; ConfigError if it has two, as in Paimon's actions."""
    different = list(dict.fromkeys(values))
    if len(different) > 1:
        raise ConfigError(
            f"--{flag} has two values: {different[0]!r} and {different[1]!r}", hint="leave one of them out"
        )
    return different[0]


def _normal(words: Sequence[str], *, watches: bool) -> list[str]:
    normal = []
    for word in words:
        # Command lines of Paimon's jobs contain settings of Flink. Those without a counterpart here are reported.
        if definition := re.fullmatch(r"-D([^=]+)=(.*)", word):
            if definition[1] in _SYNONYMS:
                normal.append(f"--{_SYNONYMS[definition[1]]}={definition[2]}")
            elif definition[1] == _STREAMING and watches and definition[2].lower() == "streaming":
                normal.append("--watch=true")
            elif word != f"-D{_STREAMING}=batch":
                instead = f": use {_INSTEAD[definition[1]]}" if definition[1] in _INSTEAD else ", as a setting of Flink"
                print(f"warning: -D{definition[1]} has no effect here{instead}", file=sys.stderr)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            normal.append(name.lower().replace("_", "-") + equals + value)
        else:
            normal.append(word)
    return normal


def _switched(words: Sequence[str], switches: set[str]) -> list[str]:
    """Return the words with `=true` added to switches, unless true or false follows: in `--json FILE` it does not."""
    followed = zip(words, [*words, ""][1:], strict=True)
    return [
        f"{word}=true" if word in switches and after.lower() not in {"true", "false"} else word
        for word, after in followed
    ]


def _unknown(word: str, flags: Sequence[Flag], command: str) -> ConfigError:
    name = word.lstrip("-").partition("=")[0]
    if name in _GONE:
        return ConfigError(f"--{name} was removed", hint=_GONE[name])
    if not word.startswith("-"):
        return ConfigError(f"unexpected argument {word!r}", hint=f"{command} --help  lists its arguments")
    near = nearest(name, [flag.name for flag in flags])
    hints = [f"did you mean --{near}?" if near else None, _as_option(name, flags)]
    hint = "  ".join(filter(None, hints)) or f"{command} --help  lists the flags"
    return ConfigError(f"unknown flag {word!r}", hint=hint)


def _as_option(name: str, flags: Sequence[Flag]) -> str | None:
    """Return how to set the table option of this name, which is not a flag of its own, or None for other names."""
    from penstock.table.options.catalog import find
    from penstock.table.options.declaration import Effect

    option = find(name)
    if option is None:
        return None
    there = {flag.name for flag in flags}
    takes = next((flag for flag in ("table-conf", "options") if flag in there), None)
    alter = f"penstock sql \"ALTER TABLE ... SET ('{name}' = '...')\""
    how = f"as an option of the table:  {alter if takes is None else f'--{takes} {name}=...'}"
    return how if option.effect is Effect.ACTS else f"{how};  but it has no effect here: {option.note}"


_TABLE = "--warehouse /lake --database ods --table orders"

EXAMPLES = {
    "init": "penstock init mysql://cdc@db:3306/shop /lake --output shop.yaml",
    "check": "penstock check shop.yaml",
    "plan": "penstock plan shop.yaml",
    "run": "penstock run shop.yaml --until-caught-up",
    "status": "penstock status shop.yaml",
    "signal": "penstock signal shop.yaml snapshot shop.orders --where \"region = 'EU'\"",
    "verify": "penstock verify shop.yaml --tables ods.orders --wait 5min",
    "dlq": "penstock dlq shop.yaml show --limit 5",
    "schema": "penstock schema > penstock.schema.json",
    "demo": "penstock demo",
    "warm": "penstock warm",
    "spark-jar": "penstock spark-jar penstock-spark.jar",
    "tables": "penstock tables /lake",
    "show": "penstock show ods.orders --warehouse /lake",
    "sql": 'penstock sql "select * from ods.orders for version as of 3" --warehouse /lake',
    "compact": f"penstock compact {_TABLE} --compact-strategy full",
    "compact-database": "penstock compact-database --warehouse /lake --including-databases ods --mode combined --watch",
    "compact-manifest": f"penstock compact-manifest {_TABLE} --dry-run",
    "analyze": f"penstock analyze {_TABLE} --columns id,status",
    "rescale": f"penstock rescale {_TABLE} --bucket-num 8 --partition dt=2026-01-31",
    "clone": "penstock clone --warehouse /lake --database ods --target-warehouse s3://lake --target-database copy",
    "copy-files": "penstock copy-files --warehouse /lake --database ods --target-warehouse s3://lake",
    "expire-changelogs": f"penstock expire-changelogs {_TABLE} --retain-max 100",
    "create-tag-from-timestamp": f"penstock create-tag-from-timestamp {_TABLE} --tag monday --timestamp '2026-01-31"
    " 12:00:00'",
    "create-tag-from-watermark": f"penstock create-tag-from-watermark {_TABLE} --tag monday --watermark 1769860800000",
    "replace-tag": f"penstock replace-tag {_TABLE} --tag-name monday --snapshot 13",
    "rename-tag": f"penstock rename-tag {_TABLE} --tag-name monday --target-tag-name week-5",
    "delete-tag": f"penstock delete-tag {_TABLE} --tag-name monday,tuesday",
    "expire-tags": f"penstock expire-tags {_TABLE}",
    "create-branch": f"penstock create-branch {_TABLE} --branch-name trial --tag-name monday",
    "delete-branch": f"penstock delete-branch {_TABLE} --branch-name trial",
    "fast-forward": f"penstock fast-forward {_TABLE} --branch-name trial",
    "rollback-to-timestamp": f"penstock rollback-to-timestamp {_TABLE} --timestamp '2026-01-31 12:00:00'",
    "reset-consumer": f"penstock reset-consumer {_TABLE} --consumer-id reports --next-snapshot 12",
    "clear-consumers": f"penstock clear-consumers {_TABLE} --including-consumers 'test_.*'",
    "merge-into": f"penstock merge-into {_TABLE} --source-table changes --on 'orders.id = changes.id' --merge-actions"
    " matched-upsert,not-matched-insert --matched-upsert-set '*' --not-matched-insert-values '*'",
    "expire-partitions": f"penstock expire-partitions {_TABLE} --expiration-time '30 d' --timestamp-formatter yyyyMMdd",
    "mark-partition-done": f"penstock mark-partition-done {_TABLE} --partition dt=2026-01-31",
    "remove-unexisting-files": f"penstock remove-unexisting-files {_TABLE} --dry-run",
    "remove-unexisting-manifests": f"penstock remove-unexisting-manifests {_TABLE} --dry-run",
    "repair": "penstock repair --warehouse /data/warehouse --catalog-conf metastore=hive --catalog-conf uri=thrift://hms:9083"
    " --identifier shop.orders",
    "publish-iceberg": f"penstock publish-iceberg {_TABLE}",
    "expire-snapshots": f"penstock expire-snapshots {_TABLE} --retain-max 10",
    "create-tag": f"penstock create-tag {_TABLE} --tag-name monday --snapshot 12",
    "rollback-to": f"penstock rollback-to {_TABLE} --version 12",
    "remove-orphan-files": f"penstock remove-orphan-files {_TABLE} --dry-run",
    "delete": f'penstock delete {_TABLE} --where "id = 7"',
    "drop-partition": f"penstock drop-partition {_TABLE} --partition dt=2026-01-31",
}


def example_of(command: str) -> str | None:
    """Return a command line that shows the command with typical flags."""
    action = sync_action(command)
    return EXAMPLES.get(command) if action is None else action.example
