"""`penstock analyze`: the statistics of a table's columns, which planners of queries use."""

from __future__ import annotations

from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Flags, parse
from penstock.pipelines.commands.execution import EXECUTION, executor_of
from penstock.pipelines.commands.output import committed
from penstock.pipelines.commands.table_commands import TABLE_COMMANDS
from penstock.pipelines.commands.target import ON_TABLE, table_of, text

_FLAGS = (
    *ON_TABLE,
    Flag("columns", "columns to analyze, separated by commas (default: all)", metavar="A,B"),
    *EXECUTION,
)


def command(name: str, words: list[str]) -> int:
    flags: Flags = parse(name, _FLAGS, words, TABLE_COMMANDS[name][1])
    table = table_of(flags)
    columns = [part.strip() for part in (text(flags, "columns") or "").split(",") if part.strip()]
    with executor_of(flags, name) as executor:
        made = table.analyze(columns or None, executor)
    return committed(flags, [] if made is None else [made.id], "the table is empty")
