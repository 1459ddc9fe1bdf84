"""The sync actions, by Paimon's names and flags: each describes a pipeline by flags alone, and runs it."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import pairs
from penstock.pipelines.api.early_stop import Asked, noted_sigterm
from penstock.pipelines.commands.arguments import Flags, parse
from penstock.pipelines.commands.target import yes
from penstock.pipelines.config.flags import sync_action
from penstock.pipelines.spark import first_jvm
from penstock.pipelines.spark.start_mark import StartMark


def command(name: str, words: list[str]) -> int:
    with noted_sigterm() as asked:
        return _command(name, words, asked)


def _command(name: str, words: list[str], asked: Asked) -> int:
    action = sync_action(name)
    assert action is not None, "the program sends only names of actions here"
    description = action.description
    flags = parse(action.name, action.flags, words, f"{description[0].upper()}{description[1:]}.")
    _check_mode(flags)
    master, settings = flags.get("master", [None])[-1], pairs(flags.get("spark-conf", ()))
    mark = StartMark.of([name, *words])
    # Other runs first look whether they need Spark.
    if mark.expects_spark:
        first_jvm.start(master, settings)
    from penstock.pipelines.api.run import run_command
    from penstock.pipelines.config.sync_pipeline import action_pipeline

    spec = action_pipeline(action, flags)
    if "from" in flags:
        from penstock.pipelines.commands.run import started_at

        spec = started_at(spec, flags["from"][-1])
    return run_command(spec, master=master, settings=settings, as_json=yes(flags, "json"), mark=mark, asked=asked)


def _check_mode(flags: Flags) -> None:
    mode = flags.get("mode", ["combined"])[-1].lower()
    if mode not in {"divided", "combined"}:
        raise ConfigError(f"--mode cannot be {mode!r}", hint="divided or combined; both have the same effect")
