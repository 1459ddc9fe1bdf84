"""Results of SQL statements on standard output: as tables, JSON, CSV or an Arrow stream."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import Given
from penstock.pipelines.commands.output import answer, print_rows, print_text, shown
from penstock.pipelines.commands.target import number

if TYPE_CHECKING:
    import pyarrow as pa

OUTPUTS = ("table", "json", "csv", "arrow")
_TEXTS = ("statement", "explain_value")  # of SHOW CREATE TABLE and EXPLAIN


class Results:
    """The results of the statements of a script.

    The rows of a stream come in several tables, which make up one result.
    """

    def __init__(self, output: str, given: Given) -> None:
        self._output, self._given = output, given
        self._last: pa.Table | None = None
        self._last_is_stream = False
        self._streamed: pa.ipc.RecordBatchStreamWriter | None = None

    def show(self, rows: pa.Table, *, is_stream: bool) -> None:
        """Show the rows of a statement, or further rows of a stream."""
        last, self._last = self._last, rows
        continues = is_stream and self._last_is_stream and last is not None and last.schema.equals(rows.schema)
        self._last_is_stream = is_stream
        if self._output == "json":
            facts = {"columns": rows.column_names, "rows": [list(row) for row in _values(rows)]}
            answer({**self._given, "json": ["true"]}, facts)
        elif self._output == "csv":
            self._write_csv(rows, header=not continues)
        elif self._output == "table":
            if last is not None:
                print()
            self._print_table(rows, 0 if is_stream else number(self._given, "limit"))
        elif is_stream:
            self._write_arrow(rows)
        if is_stream:
            sys.stdout.flush()

    def end(self) -> None:
        """End the output. ConfigError if there was no result."""
        if self._last is None:
            raise ConfigError("no statement is given", hint='penstock sql "select * from db.t" --warehouse PATH')
        if self._output == "arrow":
            # An Arrow stream contains one table: the result of a stream, or of the last statement.
            if self._streamed is None:
                self._write_arrow(self._last)
            if self._streamed is not None:
                self._streamed.close()

    def _print_table(self, rows: pa.Table, limit: int | None) -> None:
        limit = 100 if limit is None else limit
        first = rows.slice(0, limit) if limit else rows
        if rows.num_rows == 1 and rows.column_names[-1] in _TEXTS:
            print_text(str(rows.column(rows.num_columns - 1)[0].as_py()))
        else:
            print_rows(first.column_names, _values(first))
        if first.num_rows < rows.num_rows:
            print(f"... {rows.num_rows - first.num_rows} more rows; show all with --limit 0")

    def _write_csv(self, rows: pa.Table, *, header: bool) -> None:
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        if header:
            lines.writerow(rows.column_names)
        lines.writerows([shown(value) for value in row] for row in _values(rows))
        # Standard output shows characters that its encoding lacks as escapes. Another program would take them for data.
        encoding = sys.stdout.encoding or "utf-8"
        try:
            text.getvalue().encode(encoding)
        except UnicodeEncodeError as error:
            lacking = error.object[error.start]
            raise ConfigError(
                f"the result contains {lacking!a}, which the encoding {encoding} of standard output lacks",
                hint="set PYTHONIOENCODING=utf-8, or use --output json, which needs ASCII only",
            ) from error
        sys.stdout.write(text.getvalue())

    def _write_arrow(self, rows: pa.Table) -> None:
        import pyarrow as pa

        if self._streamed is None:
            self._streamed = pa.ipc.new_stream(sys.stdout.buffer, rows.schema)
        self._streamed.write_table(rows)


def _values(rows: pa.Table) -> Sequence[Sequence[object]]:
    # Not by dictionaries: a join may have two columns of one name.
    return list(zip(*map(_column_values, rows.columns), strict=True))


def _column_values(column: pa.ChunkedArray) -> Sequence[object]:
    import pyarrow as pa

    values: list[object] = column.to_pylist()
    if column.type == pa.month_day_nano_interval():
        return [value if value is None else _interval(*value) for value in values]  # type: ignore[misc]
    return values


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval as DuckDB writes it: `1 year 2 months 3 days 04:00:00`."""
    years, months = (months // 12, months % 12) if months >= 0 else (-(-months // 12), -(-months % 12))
    counts = [(years, "year"), (months, "month"), (days, "day")]
    parts = [f"{count} {unit}{'' if abs(count) == 1 else 's'}" for count, unit in counts if count]
    if nanoseconds or not parts:
        seconds, fraction = divmod(abs(nanoseconds) // 1000, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(("-" if nanoseconds < 0 else "") + clock + (f".{fraction:06}".rstrip("0") if fraction else ""))
    return " ".join(parts)
