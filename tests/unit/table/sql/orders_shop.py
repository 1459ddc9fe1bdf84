"""A warehouse with a table of orders, for tests of SQL statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import PenstockError
from penstock.table.sql.interpreter import Interpreter
from tests.invariants import check_invariants

ORDERS = """
CREATE DATABASE shop;
USE shop;
CREATE TABLE orders (
    id INT, status STRING COMMENT 'how far', amount DECIMAL(10, 2) DEFAULT 1.50, dt STRING,
    PRIMARY KEY (id, dt) NOT ENFORCED
) PARTITIONED BY (dt) WITH ('bucket' = '2');
INSERT INTO orders VALUES (1, 'new', 3.1, 'a'), (2, 'new', null, 'a'), (3, 'paid', 7, 'b');
"""


class OrdersShop:
    """A warehouse with a table of orders."""

    def __init__(self, folder: Path) -> None:
        self.catalog = penstock.Catalog(folder, {"local.sync": "false"})
        self.interpreter = Interpreter(self.catalog)
        self.run(ORDERS)

    def run(self, script: str) -> pa.Table:
        return list(self.interpreter.run(script))[-1]

    def rows(self, query: str = "SELECT * FROM orders ORDER BY id") -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in self.run(query).to_pylist()]

    def refused(self, script: str) -> PenstockError:
        before = self.state()
        with pytest.raises(PenstockError) as caught:
            self.run(script)
        assert self.state() == before
        return caught.value

    def state(self) -> dict[str, object]:
        names = [f"{item}.{table}" for item in self.catalog.databases() for table in self.catalog.tables(item)]
        tables = {name: self.catalog.table(name) for name in names}
        return {
            name: (item.schema_id, item.latest_snapshot and item.latest_snapshot.id) for name, item in tables.items()
        }


@contextmanager
def opened_shop(folder: Path) -> Iterator[OrdersShop]:
    """Yield the warehouse, and check the files of its tables at the end."""
    shop = OrdersShop(folder / "warehouse")
    with shop.interpreter:
        yield shop
        for name in shop.state():
            check_invariants(shop.catalog.table(name))
