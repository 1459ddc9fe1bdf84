"""`penstock check FILE`: all that stands in the way of a pipeline, in one report. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.commands.arguments import Given
from penstock.pipelines.commands.findings import Finding, exit_code, of_error
from penstock.pipelines.commands.flags_given import action_of, spec_of_flags
from penstock.pipelines.commands.of_pipeline import file_given
from penstock.pipelines.commands.printing import answer, wants_json
from penstock.pipelines.commands.target import JSON
from penstock.pipelines.spec.actions import Flag
from penstock.pipelines.spec.pairs import pairs

if TYPE_CHECKING:
    from penstock.pipelines.spec.model import PipelineSpec

_DOES = "Look at the file, the source, the warehouse, the checkpoint and Java; tell all that is wrong. Changes nothing."


FLAGS = (Flag("spark-conf", "setting of the Spark session that the run is given; repeat", "pairs", "K=V"), JSON)


def command(name: str, words: list[str]) -> int:
    if (action := action_of(words)) is not None:
        spec, given = spec_of_flags(name, words, (JSON,), _DOES)
        findings, then = list(checked_spec(spec, _jars(given))), f"{action} ..."
    else:
        path, given = file_given(name, FLAGS, words, _DOES)
        findings, then = list(checked(path, _jars(given))), f"run {path}"
    code = exit_code(findings)
    if wants_json(given):
        answer(given, {"ok": code == 0, "findings": [finding.facts() for finding in findings]})
        return code
    for finding in findings:
        print("\n".join(finding.lines()))
    errors = sum(finding.level == "error" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    told = counted(warnings, "warning") if warnings else ""
    if errors:
        print(f"\n{counted(errors, 'error')}{', ' if told else ''}{told}")
    else:
        print(f"\nready: penstock {then}{f'   ({told})' if told else ''}")
    return code


def _jars(given: Given) -> str:
    settings = pairs(given.get("spark-conf", ()))
    return settings.get("spark.jars.packages", "") + settings.get("spark.jars", "")


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def checked(path: Path, jars: str = "") -> Iterator[Finding]:
    """What is wrong with the file is told at once and ends the check: nothing else can be asked then."""
    from penstock.pipelines.spec.yaml_file import examine

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        yield Finding("file", "error", f"{path} cannot be read: {error.strerror}", "is the path right?", 2)
        return
    except UnicodeDecodeError:
        yield Finding("file", "error", f"{path} is not UTF-8", "save it so", 2)
        return
    found = examine(text, str(path))
    if isinstance(found, list):
        yield from (of_error("file", error) for error in found)
        return
    yield Finding("file", "ok", f"{path} describes pipeline {found.pipeline.name}")
    yield from checked_spec(found, jars)


def checked_spec(spec: PipelineSpec, jars: str = "") -> Iterator[Finding]:
    """All but the file itself. `jars` are those that the run is given by settings of Spark."""
    for about, check in _checks(jars):
        try:
            yield from check(spec)
        except PenstockError as error:
            yield of_error(about, error)
        except OSError as error:
            yield Finding(about, "error", str(error), "its address, keys and rights, the disk, the network", 12)


def _checks(jars: str) -> list[tuple[str, Callable[[PipelineSpec], Iterator[Finding]]]]:
    from penstock.pipelines.commands.check_places import check_checkpoint, check_java, check_tables, check_warehouse
    from penstock.pipelines.commands.check_source import check_source

    return [
        ("options", _options),
        ("source", check_source),
        ("warehouse", check_warehouse),
        ("tables", check_tables),
        ("checkpoint", partial(check_checkpoint, jars=jars)),
        ("java", check_java),
    ]


def _options(spec: PipelineSpec) -> Iterator[Finding]:
    """Everything a job is made of, made: expressions, patterns, names of metadata columns."""
    from penstock.pipelines.run.build import job
    from penstock.table.schema.option_checks import check_given, without_effect

    options = spec.sink.options
    wrong = 0
    for name, value in options.items():
        try:
            check_given({name: value})
        except ConfigError as error:
            wrong += 1
            yield of_error("options", error)
    job(spec)
    if not wrong:
        yield Finding("options", "ok", f"{len(options)} table options, all known")
    for name, note in without_effect(options).items():
        yield Finding("options", "warning", f"{name} has no effect: {note}")
