"""`penstock demo`: a day in a small shop, from recorded canal messages to tables, on this machine alone."""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.ingest.sync_actions import Flag
from penstock.pipelines.commands.arguments import parse
from penstock.pipelines.commands.target import yes

if TYPE_CHECKING:
    from penstock.pipelines.config.model import PipelineSpec
    from penstock.table.handle import Table

RECORDED = Path(__file__).resolve().parents[1] / "demo"
FLAGS = (
    Flag("folder", "folder for the warehouse; it is kept afterwards (default: a new temporary folder)", metavar="PATH"),
    Flag("spark", "when-needed: without Spark, as the batches are small; always: by Spark", metavar="MODE"),
    Flag("json", "print the result as JSON; progress goes to stderr", "bool"),
)
TABLES = ("customers", "products", "orders")


def command(name: str, words: list[str]) -> int:
    flags = parse(name, FLAGS, words, "Ingest a day of a small shop's changes into tables: no server, no network.")
    folder = Path(flags.get("folder", [tempfile.mkdtemp(prefix="penstock-demo-")])[-1]).absolute()
    demo = Demo(folder, flags.get("spark", ["when-needed"])[-1], time.monotonic())
    if not yes(flags, "json"):
        demo.run()
        return 0
    # With --json, standard output contains the result alone.
    with contextlib.redirect_stdout(sys.stderr):
        demo.run()
    print(json.dumps(demo.facts()))
    return 0


@dataclass(frozen=True, slots=True)
class Demo:
    folder: Path
    spark: str
    began: float

    def run(self) -> None:
        say("A shop's database logs its changes; canal publishes them as JSON, one change per line.")
        print(f"  {put(self.folder, 'morning')}")
        say("penstock writes them to Paimon tables, which are created as they appear.")
        self._carry()
        self._afternoon()
        self._look_back()
        warehouse = self.folder / "warehouse"
        say(f"That took {time.monotonic() - self.began:.0f} s. The tables are kept; any Paimon reader can open them:")
        print(f"  >>> penstock.Catalog({str(warehouse)!r}).table('shop.orders').scan().to_pandas()")

    def facts(self) -> dict[str, object]:
        tables = {f"shop.{name}": self._table(name).scan().to_arrow().num_rows for name in TABLES}
        seconds = round(time.monotonic() - self.began, 1)
        return {"warehouse": str(self.folder / "warehouse"), "rows": tables, "seconds": seconds}

    def _afternoon(self) -> None:
        from penstock.table.values.types import type_json

        say("At noon the shop alters a table while it is selling:")
        print("  ALTER TABLE orders ADD COLUMN coupon VARCHAR(20), MODIFY amount DECIMAL(12,2)")
        before = self._table("orders").definition
        print(f"  {put(self.folder, 'afternoon', compressed=True)}")
        self._carry()
        after = self._table("orders").definition
        types = {column.name: type_json(column.type) for column in before.fields}
        for column in after.fields:
            now = type_json(column.type)
            if types.get(column.name) != now:
                old = f"{types[column.name]} -> " if column.name in types else "new, "
                print(f"  shop.orders  {column.name:<8} {old}{now}   schema {before.id} -> {after.id}")

    def _look_back(self) -> None:
        import pyarrow.compute as pc

        orders = self._table("orders")
        say("A query: the value of the orders by status.")
        worth = orders.scan(columns=["status", "amount"]).to_arrow().group_by("status")
        totals = worth.aggregate([("amount", "sum"), ("amount", "count")]).sort_by("status")
        show(
            ("status", "orders", "worth"),
            zip(*(totals[name] for name in ("status", "amount_count", "amount_sum")), strict=True),
        )
        say("Time travel: the same three orders in the morning and now.")
        wanted = pc.field("id").isin([1001, 1003, 1004])
        columns = ["id", "quantity", "amount", "status"]
        for label, snapshot in (("morning", 1), ("now", None)):
            print(f"  {label}")
            rows = orders.scan(columns=columns, where=wanted, snapshot=snapshot).to_arrow().sort_by("id")
            show(rows.column_names, rows_of(rows))
        say("The changelog: the old and new rows of the orders that changed in the afternoon.")
        changes = orders.changes(1, orders.store.snapshots.latest_id() or 1)
        shown = changes.select(["rowkind", "id", "quantity", "amount", "status", "coupon"])
        show(shown.column_names, rows_of(shown))

    def _carry(self) -> None:
        from penstock.pipelines.api.run import run_here

        began = time.monotonic()
        # Spark's warnings are about this machine, and not about the demo.
        run_here(spec_of(self.folder, self.spark), settings={"spark.log.level": "OFF"})
        tables = {name: self._table(name) for name in TABLES}
        facts = [
            (name, table.scan().to_arrow().num_rows, table.store.snapshots.latest_id(), table.schema_id)
            for name, table in tables.items()
        ]
        show(("table", "rows", "snapshot", "schema"), facts)
        print(f"  committed after {time.monotonic() - began:.1f} s")

    def _table(self, name: str) -> Table:
        import penstock

        return penstock.Catalog(str(self.folder / "warehouse")).table(f"shop.{name}")


def put(folder: Path, part: str, *, compressed: bool = False) -> str:
    """Write the messages into the folder of the source, and print where and how many.

    The file is moved there when it is complete, because the job may read it at once.
    """
    inbox = folder / "in"
    inbox.mkdir(parents=True, exist_ok=True)
    data = (RECORDED / f"{part}.json").read_bytes()
    target = inbox / (f"{part}.json.gz" if compressed else f"{part}.json")
    # The source does not read files whose names begin with a dot.
    half = target.with_name(f".{target.name}")
    half.write_bytes(gzip.compress(data) if compressed else data)
    shutil.move(half, target)
    return f"{target}   {len(data.splitlines())} messages"


def spec_of(folder: Path, spark: str) -> PipelineSpec:
    from penstock.pipelines.config.load import parsed

    return parsed(
        {
            "pipeline": {"name": "demo", "until": "caught-up", "spark": spark},
            "source": {"type": "files", "path": str(folder / "in"), "value.format": "canal-json"},
            "sink": {
                "catalog": {"warehouse": str(folder / "warehouse")},
                "database": "shop",
                "table-options": {"bucket": "1", "changelog-producer": "input"},
            },
        }
    )


def say(text: str) -> None:
    print(f"\n{text}")


def rows_of(table: Any) -> Iterable[Sequence[Any]]:
    return zip(*table.columns, strict=True)


def show(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Return lines with the columns below their names, and numbers aligned to the right."""
    values = [[cell.as_py() if hasattr(cell, "as_py") else cell for cell in row] for row in rows]
    texts = [["" if value is None else str(value) for value in row] for row in values]
    widths = [max(len(name), *(len(row[place]) for row in texts)) for place, name in enumerate(names)]
    right = [all(not isinstance(row[place], str) for row in values) for place in range(len(names))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        )
        return "  " + "  ".join(padded).rstrip()

    print(line(list(names)))
    print("  " + "  ".join("-" * width for width in widths))
    for row in texts:
        print(line(row))
