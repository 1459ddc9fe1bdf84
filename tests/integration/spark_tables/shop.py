"""A table of orders to read and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException

from penstock.errors import PenstockError
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table

ORDERS = [("id", "INT NOT NULL"), ("name", "STRING"), ("q", "INT")]


def error_message(error: PySparkException, kind: type[PenstockError]) -> str:
    """Return our error from the end of Spark's text: the message, its facts and the hint."""
    _, named, text = str(error).rpartition(f"{kind.__module__}.{kind.__qualname__}: ")
    assert named, str(error)
    assert "Traceback" not in str(error)
    assert "penstock-error" not in str(error)
    return text


def orders(catalog: Catalog, options: Mapping[str, str] | None = None) -> Table:
    return catalog.create_table("shop.orders", ORDERS, primary_keys=["id"], options=options or {"bucket": "2"})


def add(table: Table, *rows: tuple[object, ...], kinds: Sequence[str] | None = None) -> None:
    named = [dict(zip(table.schema.names, row, strict=True)) for row in rows]
    with table.writer() as writer:
        writer.write(pa.Table.from_pylist(named, schema=table.schema), kinds)
        writer.commit()
