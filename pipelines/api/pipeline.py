"""A pipeline in Python: the same object that a file or a sync action becomes, with check, plan and run as methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipelines.api.check import checked_spec
from penstock.pipelines.api.findings import Finding
from penstock.pipelines.api.run import run_here
from penstock.pipelines.config import yaml_file
from penstock.table.values.html import rows_html

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.pipelines.api.plan import PlannedTable
    from penstock.pipelines.config.model import PipelineSpec


class Pipeline:
    """A pipeline. `described` is a file, or its keys as a mapping: `{"source": {...}, "sink": {...}}`.

    Nothing is connected to until a method needs it. Errors in the description raise ConfigError here.
    """

    def __init__(self, described: str | Path | Mapping[str, Any]) -> None:
        if isinstance(described, Mapping):
            self.spec: PipelineSpec = yaml_file.of_mapping(described)
        else:
            self.spec = yaml_file.load(Path(described))

    @property
    def name(self) -> str:
        return self.spec.pipeline.name

    @property
    def checkpoint(self) -> str:
        return self.spec.checkpoint

    def __repr__(self) -> str:
        return f"Pipeline({self.name}: {self.spec.source.type} into {self.spec.sink.catalog.warehouse})"

    def check(self) -> Findings:
        """Return the findings about everything that could prevent a run. Changes nothing."""
        return Findings(tuple(checked_spec(self.spec)))

    def plan(self, sample: int = 1000) -> PipelinePlan:
        """Return the tables that a run would create or alter; for message sources based on the first `sample` messages.

        Changes nothing.
        """
        # it imports PySpark, which the pipeline's name does not need
        from penstock.pipelines.api.sample import tables_planned

        looked, tables = tables_planned(self.spec, sample)
        return PipelinePlan(looked, tuple(tables))

    def run(
        self,
        *,
        until_caught_up: bool | None = None,
        session: SparkSession | None = None,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> dict[str, object]:
        """Run until caught up with the source, or interrupted. Return the same summary that `run --json` prints.

        A run that is interrupted before it has caught up raises StoppedEarly if it should have ended by itself.

        Runs in `session`, in the active session, or in a new one, which it ends. Called again, it resumes from the
        checkpoint; dies half way: the same. Raises the errors that the command line would print.
        """
        spec = self.spec
        if until_caught_up is not None:
            until = "caught-up" if until_caught_up else "forever"
            spec = spec.model_copy(update={"pipeline": spec.pipeline.model_copy(update={"until": until})})
        return run_here(spec, session=session, master=master, settings=settings)


@dataclass(frozen=True, slots=True)
class Findings(Sequence[Finding]):
    """The findings of `check`; true if there is no error among them."""

    all: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return all(finding.level != "error" for finding in self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, place: Any) -> Any:
        return self.all[place]

    def __repr__(self) -> str:
        return "\n".join(line for finding in self.all for line in finding.lines())

    def _repr_html_(self) -> str:
        return rows_html(("", "about", "found", "to repair"), [(f.level, f.about, f.message, f.fix) for f in self.all])


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """A plan. `looked` describes the tables or messages that it is based on."""

    looked: str
    tables: tuple[PlannedTable, ...]

    def __repr__(self) -> str:
        lines = [f"  {table.heading}  {_keys(table)}  {_columns(table)}" for table in self.tables]
        return "\n".join([f"PipelinePlan({self.looked})", *lines])

    def _repr_html_(self) -> str:
        names = ("table", "column", "type", "source", "why", "change")
        rows = [
            (table.heading, column.name, column.type, column.source, column.reason, column.change)
            for table in self.tables
            for column in table.columns
        ]
        refused = [(table.heading, "", "", "", table.problem, "") for table in self.tables if table.problem]
        return f"<b>{escape(self.looked)}</b>{rows_html(names, rows + refused)}"


def _keys(table: PlannedTable) -> str:
    return f"key {', '.join(table.primary_keys)}" if table.primary_keys else "no key"


def _columns(table: PlannedTable) -> str:
    if table.problem is not None:
        return table.problem
    return ", ".join(f"{column.name} {column.type}" for column in table.columns)
