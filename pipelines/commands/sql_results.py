"""Results of SQL statements on standard output: as tables, JSON, CSV or an Arrow stream."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.pipelines.commands.arguments import Flags
from penstock.pipelines.commands.output import answer, print_rows, print_text, shown
from penstock.pipelines.commands.sql_values import column_values
from penstock.pipelines.commands.target import number

if TYPE_CHECKING:
    import pyarrow as pa

OUTPUTS = ("table", "json", "csv", "arrow")
_QUOTED = re.compile('[",\r\n]')
_TEXTS = ("statement", "explain_value")  # of SHOW CREATE TABLE and EXPLAIN


class Results:
    """The results of the statements of a script.

    The rows of a stream come in several tables, which make up one result.
    """

    def __init__(self, output: str, flags: Flags) -> None:
        self._output, self._given = output, flags
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
            self._print_table(rows, 0 if is_stream else number(self._given, "limit", least=0))
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
            print_rows(first.column_names, _values(first), null="NULL")
        if first.num_rows < rows.num_rows:
            print(f"... {rows.num_rows - first.num_rows} more rows; show all with --limit 0")

    def _write_csv(self, rows: pa.Table, *, header: bool) -> None:
        lines = [_csv_line(rows.column_names)] if header else []
        text = "".join([*lines, *map(_csv_line, _values(rows))])
        # Standard output shows characters that its encoding lacks as escapes. Another program would take them for data.
        encoding = sys.stdout.encoding or "utf-8"
        try:
            text.encode(encoding)
        except UnicodeEncodeError as error:
            lacking = error.object[error.start]
            raise ConfigError(
                f"the result contains {lacking!a}, which the encoding {encoding} of standard output lacks",
                hint="set PYTHONIOENCODING=utf-8, or use --output json, which needs ASCII only",
            ) from error
        sys.stdout.write(text)

    def _write_arrow(self, rows: pa.Table) -> None:
        import pyarrow as pa

        if self._streamed is None:
            self._streamed = pa.ipc.new_stream(sys.stdout.buffer, rows.schema)
        self._streamed.write_table(rows)


def _values(rows: pa.Table) -> Sequence[Sequence[object]]:
    # Not by dictionaries: a join may have two columns of one name.
    return list(zip(*map(column_values, rows.columns), strict=True))


def _csv_line(values: Sequence[object]) -> str:
    # Programs leave out empty lines.
    return (",".join(map(_csv_cell, values)) or '""') + "\n"


def _csv_cell(value: object) -> str:
    """Return a cell: nothing for null, and an empty text in quotes, as PostgreSQL and DuckDB write and read them."""
    text = shown(value)
    if value == "" or _QUOTED.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text
