"""`penstock sql`: SQL on the tables of a warehouse, without Spark."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Given, parse_with_word
from penstock.pipelines.commands.output import answer, print_rows, shown, wants_json
from penstock.pipelines.commands.target import READING, catalog_of, number, text

if TYPE_CHECKING:
    import pyarrow as pa

_CREATE_CATALOG = re.compile(r"\bcreate\s+catalog\b", re.IGNORECASE)
_OUTPUTS = ("table", "json", "csv", "arrow")
_FLAGS = (
    *READING,
    Flag("database", "database of table names without a database", metavar="NAME"),
    Flag("file", "run the statements of this file; -f is the same", metavar="FILE"),
    Flag("output", f"{', '.join(_OUTPUTS)} (default: table; --json is the same as json)", metavar="FORMAT"),
    Flag("limit", "maximum number of rows to print as a table (default: 100; 0 for all)", metavar="N"),
)
_DOES = (
    "Query, create and change the tables of a warehouse with SQL: SELECT, INSERT, UPDATE, DELETE, MERGE INTO, CREATE, "
    "ALTER, DROP, SHOW, DESCRIBE, CALL. To read an older state of a table, add one of these after its "
    "name: FOR VERSION AS OF 3 (a snapshot or a tag), FOR TAG 'monday', FOR TIMESTAMP AS OF '2026-01-31 "
    "12:00:00', or /*+ OPTIONS('scan.snapshot-id'='3') */. System tables have names such as orders$snapshots."
)


def command(name: str, words: list[str]) -> int:
    words = ["--file" if word == "-f" else word for word in words]
    script, given = parse_with_word(name, _FLAGS, words, _DOES, "QUERY", "SQL statements, separated by semicolons")
    script = _script(script, given)
    output = "json" if wants_json(given) else (text(given, "output") or "table").lower()
    if output not in _OUTPUTS:
        raise ConfigError(f"--output {output} is unknown", hint=f"it can be {', '.join(_OUTPUTS)}")
    from penstock.table.sql.interpreter import Interpreter

    named = {"warehouse", "catalog-conf", "pipeline"} & given.keys()
    # A script that creates its catalog needs no warehouse among the flags.
    opens = not named and _CREATE_CATALOG.search(script) is not None
    with Interpreter(None if opens else catalog_of(given), text(given, "database")) as interpreter:
        rows = None
        for number_of_statement, rows in enumerate(interpreter.run(script)):
            if output != "arrow":  # a stream contains one table: that of the last statement
                _print(rows, output, given, blank_line=number_of_statement > 0)
    if rows is None:
        raise ConfigError("no statement is given", hint='penstock sql "select * from db.t" --warehouse PATH')
    if output == "arrow":
        _print_arrow(rows)
    return 0


def _script(script: str | None, given: Given) -> str:
    file = text(given, "file")
    if script is not None and file is not None:
        raise ConfigError("both a statement and --file are given", hint="leave one of them out")
    if file is not None:
        try:
            return Path(file).read_text(encoding="utf-8")
        except OSError as reason:
            raise ConfigError(f"--file {file} cannot be read: {reason.strerror}") from reason
    if script is None or not script.strip():
        raise ConfigError("no query is given", hint='penstock sql "select * from db.t" --warehouse PATH')
    return script


def _print(rows: pa.Table, output: str, given: Given, *, blank_line: bool) -> None:
    if output == "json":
        facts = {"columns": rows.column_names, "rows": [list(row) for row in _values(rows)]}
        answer({**given, "json": ["true"]}, facts)
    elif output == "csv":
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(rows.column_names)
        lines.writerows([shown(value) for value in row] for row in _values(rows))
    else:
        if blank_line:
            print()
        _print_table(rows, number(given, "limit"))


def _print_table(rows: pa.Table, limit: int | None) -> None:
    limit = 100 if limit is None else limit
    first = rows.slice(0, limit) if limit else rows
    print_rows(first.column_names, _values(first))
    if first.num_rows < rows.num_rows:
        print(f"... {rows.num_rows - first.num_rows} more rows; show all with --limit 0")


def _values(rows: pa.Table) -> Sequence[Sequence[object]]:
    # Not by dictionaries: a join may have two columns of one name.
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _print_arrow(rows: pa.Table) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(sys.stdout.buffer, rows.schema) as stream:
        stream.write_table(rows)
