"""`penstock plan FILE`: the tables that a pipeline would create or change. Changes nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from penstock.errors import ConfigError, did_you_mean
from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import Flags
from penstock.pipelines.commands.output import answer, print_rows, wants_json
from penstock.pipelines.commands.pipeline_choice import action_of, file_given, spec_of_flags
from penstock.pipelines.commands.target import JSON, REQUEST_PRICES, number, text, yes

if TYPE_CHECKING:
    from penstock.pipelines.api.plan import PlannedTable
    from penstock.pipelines.config.model import PipelineSpec

FLAGS = (
    Flag("explain", "show only this table, with the reason for each column's type", metavar="TABLE"),
    Flag("diff", "show only differences from the existing tables", "bool"),
    Flag("sample", "number of messages to examine at the start of the source (default: 1000)", metavar="N"),
    REQUEST_PRICES,
    JSON,
)


_DOES = "Show the tables that a pipeline would create or change, and why. Changes nothing."


def command(name: str, words: list[str]) -> int:
    spec, flags = _described(name, words)
    from penstock.pipelines.api.sample import tables_planned
    from penstock.pipelines.monitor.store_cost import RequestPrices, StoreCost
    from penstock.settings import seconds

    prices = RequestPrices.parse(text(flags, "request-prices"))
    looked, tables = tables_planned(spec, number(flags, "sample", least=1) or 1000)
    kept = [
        (table.options, bool(table.primary_keys), seconds(table.freshness or "0s"))
        for table in tables
        if table.problem is None
    ]
    cost = StoreCost.of(spec.sink.catalog.warehouse, kept, spec.pipeline.trigger, prices)
    if (wanted := text(flags, "explain")) is not None:
        names = [table.table for table in tables]
        tables = [table for table in tables if _is_called(table, wanted)]
        if not tables:
            hint = did_you_mean(wanted, names, "penstock plan FILE  without --explain lists the tables", most=3)
            raise ConfigError(f"table {wanted} is not in the plan", hint=hint)
    if yes(flags, "diff"):
        tables = [table for table in tables if table.action != "keep"]
    if wants_json(flags):
        facts = {"pipeline": spec.pipeline.name, "source": looked, "tables": [asdict(table) for table in tables]}
        answer(flags, facts | {"store_cost": cost and cost.facts})
    else:
        _print_plan(looked, tables, explain=wanted is not None, diff=yes(flags, "diff"))
        if cost is not None and wanted is None:
            print(f"\n{cost}")
    return 5 if any(table.action == "refuse" for table in tables) else 0


def _described(name: str, words: list[str]) -> tuple[PipelineSpec, Flags]:
    if action_of(words) is not None:
        return spec_of_flags(name, words, FLAGS, _DOES)
    path, flags = file_given(name, FLAGS, words, _DOES)
    from penstock.pipelines.config import yaml_file

    return yaml_file.load(path), flags


def _is_called(table: PlannedTable, wanted: str) -> bool:
    """Return whether the table has this name, or its source has, with or without the database."""
    names = {table.table, *table.sources}
    return wanted in names or wanted in {name.partition(".")[2] for name in names}


def _print_plan(looked: str, tables: list[PlannedTable], *, explain: bool, diff: bool) -> None:
    print(looked)
    if not tables:
        print("\nno changes" if diff else "\nno tables")
    for table in tables:
        sources = f"   from {', '.join(table.sources[:3])}{' and more' if len(table.sources) > 3 else ''}"
        print(f"\n{table.heading}{sources if any(table.sources) else ''}")
        if table.problem is not None:
            print(f"  {table.problem}")
            continue
        if diff and table.action == "alter":
            for column in table.columns:
                if column.change:
                    print(f"  {column.change}")
            continue
        if table.action == "keep" and not explain:
            print("  nothing to do")
            _rows(table)
            continue
        _keys(table)
        for warning in table.warnings:
            print(f"  warning: {warning}")
        _rows(table)
        _columns(table)


def _rows(table: PlannedTable) -> None:
    if table.freshness is not None:
        print(f"  freshness {table.freshness}")
    for line in table.selections:
        print(f"  {line}")
    for expectation in table.expectations:
        print(f"  expects {expectation}")


def _keys(table: PlannedTable) -> None:
    keys = f"primary key {', '.join(table.primary_keys)}" if table.primary_keys else "no primary key: an append table"
    partitions = f"   partitioned by {', '.join(table.partition_keys)}" if table.partition_keys else ""
    print(f"  {keys}{partitions}")
    if table.options:
        print("  " + "  ".join(f"{name}={value}" for name, value in sorted(table.options.items())))
    for name, note in table.unused_options.items():
        print(f"  {name} has no effect: {note}")


def _columns(table: PlannedTable) -> None:
    changed = any(column.change for column in table.columns)
    names = ("column", "type", "source", "why", *(("change",) if changed else ()))
    rows = [
        (column.name, column.type, column.source, column.reason, *((column.change,) if changed else ()))
        for column in table.columns
    ]
    print_rows(names, rows, indent="  ")
