"""The layers of docs/examples in a warehouse of a test, and what DuckDB computes from their sources."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from penstock.pipelines.config.yaml_file import read
from penstock.table.catalog.catalog import Catalog
from penstock.table.lookup.matches import LOOKUP
from penstock.table.sql.interpreter import Interpreter
from tests.here import run
from tests.invariants import check_invariants

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples" / "layers"
LAYERS = ("dim-users", "dwd-orders", "dws-cities", "wide-orders")
SOURCES: dict[str, tuple[list[tuple[str, str]], str]] = {
    "ods_north.users": ([("id", "BIGINT NOT NULL"), ("name", "STRING"), ("city", "STRING")], "id"),
    "ods_south.users": ([("id", "BIGINT NOT NULL"), ("name", "STRING"), ("city", "STRING")], "id"),
    "dim.products": ([("code", "STRING NOT NULL"), ("price", "BIGINT")], "code"),
    "ods.orders": (
        [("id", "BIGINT NOT NULL"), ("user_id", "BIGINT"), ("product", "STRING"), ("pieces", "BIGINT")],
        "id",
    ),
    "ods.payments": ([("id", "BIGINT NOT NULL"), ("paid", "BIGINT")], "id"),
}


class Warehouse:
    """A warehouse with the source tables of the examples."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        folder.mkdir(exist_ok=True)
        self.catalog = Catalog(f"{folder}/warehouse")
        for name, (columns, key) in SOURCES.items():
            self.catalog.create_database(name.partition(".")[0], ignore_if_exists=True)
            options = {"bucket": "1", "changelog-producer": "lookup"}
            self.catalog.create_table(name, columns, primary_keys=[key], options=options)
        self.write("dim.products", [{"code": code, "price": price} for price, code in enumerate("abc", 1)])
        for name in LAYERS:
            text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
            (folder / f"{name}.yaml").write_text(text.replace("warehouse: warehouse", f"warehouse: {folder}/warehouse"))

    def write(self, name: str, rows: list[dict[str, Any]], kinds: list[str] | None = None) -> None:
        table = self.catalog.table(name)
        with table.writer() as writer:
            writer.write(pa.Table.from_pylist(rows, schema=table.schema), kinds)
            writer.commit()

    def change(self) -> None:
        """Write a round of users, orders and payments."""
        chance = self.chance
        for number, name in enumerate(("ods_north.users", "ods_south.users")):
            ids = {100 * number + chance.randrange(10) for _ in range(5)}
            self.write(name, [{"id": number, "name": f"user {number}", "city": chance.choice("xyz")} for number in ids])
        ids = {chance.randrange(60) for _ in range(30)}
        orders = [
            {
                "id": number,
                "user_id": chance.choice([1, 2, 3, 101, 102, 999]),
                "product": chance.choice("abc"),
                "pieces": 1,
            }
            for number in ids
        ]
        self.write("ods.orders", orders, [chance.choice(["+U", "+U", "+U", "-D"]) for _ in ids])
        self.write("ods.payments", [{"id": number, "paid": number * 10} for number in ids if number % 3 == 0])

    def run(self, *layers: str) -> None:
        for name in layers or LAYERS:
            run(read((self.folder / f"{name}.yaml").read_text(encoding="utf-8")))

    def run_sql(self, *layers: str) -> None:
        """Run the SQL scripts of the layers instead of the pipeline files."""
        for name in layers or LAYERS:
            script = (EXAMPLES / f"{name}.sql").read_text(encoding="utf-8").replace("'1s'", "'1ms'")
            with Interpreter(self.catalog, until_caught_up=True) as interpreter:
                for _ in interpreter.run(script):
                    pass

    def rows(self, name: str) -> pa.Table:
        table = self.catalog.table(name)
        check_invariants(table)
        return table.scan().to_arrow()

    def check(self) -> None:
        """Compare each layer with the tables that it is made of."""
        names = {
            "north": "ods_north.users",
            "south": "ods_south.users",
            "users": "dim.users",
            "products": "dim.products",
            "orders": "ods.orders",
            "payments": "ods.payments",
            "dwd": "dwd.orders",
            "cities": "dws.cities",
            "wide": "dwd.wide_orders",
        }
        connection = duckdb.connect()
        for name, table in names.items():
            rows = self.rows(table)
            assert rows.num_rows, table
            connection.register(name, rows)
        queries = {
            "SELECT id, name, city FROM users": "SELECT id, name, upper(city) FROM north UNION ALL "
            "SELECT id, name, upper(city) FROM south",
            "SELECT id, user_id, pieces, amount FROM dwd": "SELECT id, user_id, pieces, pieces * price FROM orders "
            "JOIN products ON product = code",
            "SELECT city, orders, pieces, amount FROM cities WHERE orders <> 0": "SELECT coalesce(city, 'unknown'), "
            "count(*), sum(pieces), sum(amount) FROM dwd GROUP BY 1",
            "SELECT id, paid FROM wide WHERE paid IS NOT NULL": "SELECT id, paid FROM payments",
        }
        for found, wanted in queries.items():
            left, right = (sorted(connection.sql(query).fetchall()) for query in (found, wanted))
            assert left == right, found
        self._check_lookups()

    def _check_lookups(self) -> None:
        """Compare the columns of users with the snapshots that each commit names.

        A key that the first of them has not is asked for again, and may be found at any of the others.
        """
        target = self.catalog.table("dwd.orders")
        assert any(f"{LOOKUP}dim.users" in snapshot.properties for snapshot in target.snapshots)
        for snapshot in target.snapshots:
            at = snapshot.properties.get(f"{LOOKUP}dim.users")
            if at is None:
                continue
            first, last = (int(at.split("-")[place]) for place in (0, -1))
            cities = [self._cities(number) for number in range(first, last + 1)]
            for row in target.changes(snapshot.id - 1, snapshot.id).to_pylist():
                if row["rowkind"] in {"+I", "+U"}:
                    user = row["user_id"]
                    found = [known[user] for known in cities if user in known]
                    wanted = found[:1] if user in cities[0] else found
                    if user not in cities[-1]:
                        wanted = [*wanted, None]
                    assert row["city"] in wanted, (snapshot.id, at, row)

    def _cities(self, snapshot: int) -> dict[int, str]:
        """Return the cities of the users at a snapshot; 0 is the empty table."""
        rows = self.catalog.table("dim.users").scan(snapshot=snapshot).to_arrow() if snapshot else None
        return {row["id"]: row["city"] for row in rows.to_pylist()} if rows is not None else {}
