"""The output of a batch's tasks as the driver receives it: commit messages, reports, errors and statistics."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.pipelines.tasks.range_report import RangeReport, TableFailed
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE
from penstock.pipelines.tasks.task_stats import TaskStats
from penstock.table.meta.entries import CommitMessage

COLUMNS = "table string, body binary"
SCHEMA = pa.schema([("table", pa.string()), ("body", pa.binary())])

TaskOutput: TypeAlias = bytes | CommitMessage | PenstockError | TaskStats


def as_row(table: str, content: TaskOutput) -> pa.RecordBatch:
    """Return a task's output for a table as a row. Bytes are a report, which the read task pickled."""
    body = content if isinstance(content, bytes) else pickle.dumps(content)
    return pa.RecordBatch.from_arrays([pa.array([table], pa.string()), pa.array([body], pa.binary())], schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The output of a batch's tasks.

    It has the commit messages by table, the reports of the ranges in order, and errors, either of the whole batch or of
    single tables.
    """

    messages: dict[str, list[CommitMessage]] = field(default_factory=dict)
    reports: list[RangeReport] = field(default_factory=list)
    failures: list[PenstockError] = field(default_factory=list)
    failed: dict[str, PenstockError] = field(default_factory=dict)
    stats: TaskStats = field(default_factory=TaskStats)

    @classmethod
    def of(cls, rows: pa.Table) -> BatchResult:
        """Return the output of tasks by their rows."""
        return cls.collected(zip(rows.column("table").to_pylist(), rows.column("body").to_pylist(), strict=True))

    @classmethod
    def collected(cls, outputs: Iterable[tuple[str, TaskOutput]]) -> BatchResult:
        """Return the output of tasks by table. Bytes are an output that was pickled."""
        result = cls()
        # Write tasks pass on what read tasks report, so there are all kinds of output.
        for table, content in outputs:
            match pickle.loads(content) if isinstance(content, bytes) else content:  # noqa: S301  made by our own tasks
                case PenstockError() as failure if table == NO_TABLE:
                    result.failures.append(failure)
                case PenstockError() as failure:
                    result.failed.setdefault(table, failure)
                case TableFailed(failed, failure):
                    result.failed.setdefault(failed, failure)
                case RangeReport() as report:
                    result.reports.append(report)
                    errors = {name: of_table.error for name, of_table in report.tables.items()}
                    result.failed.update({name: error for name, error in errors.items() if error is not None})
                    result.stats.spend(report.seconds)
                case TaskStats() as stats:
                    result.stats.add(stats)
                case CommitMessage() as message:
                    result.messages.setdefault(table, []).append(message)
        # Tasks end in any order, but schemas and comments of the source are applied in its order.
        result.reports.sort(key=lambda report: report.range.number)
        return result

    def replace(self, again: BatchResult, replayed: Collection[str]) -> None:
        """Replace the reports and files of these tables by the result of a replay."""
        found = {report.range.number: report for report in again.reports}
        for report in self.reports:
            # Ranges that are read for other tables are not read again.
            if report.range.number in found:
                for table in replayed:
                    report.replace(table, found[report.range.number])
        self.messages.update(again.messages)
        self.stats.add(again.stats)
        self.stats.replays += len(replayed)
