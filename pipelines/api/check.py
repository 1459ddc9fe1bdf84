"""Checks everything that could prevent a pipeline from running.

It looks at the file, the options, the source, the warehouse, the tables, the checkpoint, and Java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, PenstockError, counted
from penstock.pipelines.api.findings import Finding, of_error

if TYPE_CHECKING:
    from penstock.pipelines.config.model import BadRecordLimits, Errors, PipelineSpec


def checked(path: Path) -> Iterator[Finding]:
    """Yield the findings of all checks.

    If the file itself is wrong, that ends the check, since nothing else can be checked.
    """
    from penstock.pipelines.config.yaml_file import examine

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        yield Finding("file", "error", f"{path} cannot be read: {error.strerror}", "check the path", 2)
        return
    except UnicodeDecodeError:
        yield Finding("file", "error", f"{path} is not UTF-8 text", "save the file as UTF-8", 2)
        return
    found = examine(text, str(path))
    if isinstance(found, list):
        yield from (of_error("file", error) for error in found)
        return
    yield Finding("file", "ok", f"{path} describes pipeline {found.pipeline.name}")
    yield from checked_spec(found)


def checked_spec(spec: PipelineSpec) -> Iterator[Finding]:
    """Yield the findings of all checks except the check of the file."""
    for about, check in _checks():
        try:
            yield from check(spec)
        except PenstockError as error:
            yield of_error(about, error)
        except OSError as error:
            said = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
            yield Finding(about, "error", said, "check its address, keys and permissions, the disk and the network", 12)


def _checks() -> list[tuple[str, Callable[[PipelineSpec], Iterator[Finding]]]]:
    # Imported here, so that errors of the file are shown without loading Spark and Arrow.
    from penstock.pipelines.api.check_places import (
        check_checkpoint,
        check_java,
        check_spark,
        check_tables,
        check_warehouse,
    )
    from penstock.pipelines.api.check_source import check_source

    return [
        ("options", _options),
        ("source", check_source),
        ("warehouse", check_warehouse),
        ("tables", check_tables),
        ("checkpoint", check_checkpoint),
        ("observe", _observers),
        ("spark", check_spark),
        ("java", check_java),
    ]


def _options(spec: PipelineSpec) -> Iterator[Finding]:
    """Build everything that a job consists of: expressions, patterns, names of metadata columns."""
    from penstock.pipelines.job.build import job, mapping_of
    from penstock.pipelines.mapping.target_tables import settings_of
    from penstock.table.options.checks import check_given, without_effect

    options = spec.sink.options
    wrong = 0
    for name, value in options.items():
        try:
            check_given({name: value})
        except ConfigError as error:
            wrong += 1
            yield of_error("options", error)
    job(spec).check_start()
    if not wrong:
        yield Finding("options", "ok", f"{counted(len(options), 'table option')}, all known")
    for name, note in without_effect(options).items():
        yield Finding("options", "warning", f"{name} has no effect: {note}")
    for name in _idle_limits(spec.errors):
        yield Finding(
            "options",
            "warning",
            f"errors: {{{name}: ...}} has no effect with bad-record: {spec.errors.bad_record}",
            f"set  bad-record: {name} , or remove it",
        )
    for transform in mapping_of(spec, settings_of(spec.sink.catalog)).table_rules.transforms:
        for name, columns in transform.clear_uses.items():
            yield Finding(
                "options",
                "warning",
                f"{name} of {transform.tables.text} is computed from {', '.join(columns)} without the mask",
                f"add a mask for {name}, unless it may be read",
            )


def _observers(spec: PipelineSpec) -> Iterator[Finding]:
    """Check the packages of observers. Their port may be in use by the pipeline itself."""
    if spec.observe.metrics is not None:
        from penstock.pipelines.monitor.metrics import prometheus_client

        prometheus_client()
    if spec.observe.open_telemetry is not None:
        from penstock.pipelines.monitor.tracing import check_packages

        check_packages()
    yield from ()


def _idle_limits(errors: Errors) -> list[str]:
    """Return the sections `skip` and `dead-letter` that are set although the policy for bad records is another one.

    Flags write the same limits into both sections, because the policy has a flag of its own. A section that equals the
    one in use is therefore not returned.
    """
    sections: dict[str, BadRecordLimits] = {"skip": errors.skip, "dead-letter": errors.dead_letter}
    used = sections.get(errors.bad_record)
    alike = None if used is None else (used.max_per_batch, used.max_share)
    return [
        name
        for name, section in sections.items()
        if section is not used
        and section.model_fields_set
        and ("table" in section.model_fields_set or (section.max_per_batch, section.max_share) != alike)
    ]
