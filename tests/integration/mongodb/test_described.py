"""The columns of a collection whose documents have different ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.pipelines.api.sample import tables_planned
from penstock.pipelines.spark_cdc.declared_columns import declared_schema
from penstock.pipelines.spark_cdc.read_options import CdcRead
from tests.integration.mongodb.sync import MongoPlayground, MongoSync

pytestmark = pytest.mark.mongodb


def columns(server: MongoPlayground, **options: str) -> list[str]:
    read = CdcRead.of("mongodb", {"hosts": server.hosts, "table": "play.t"} | options)
    return [name for name in declared_schema(read).names if not name.startswith(("rowkind", "_cdc_"))]


def test_a_stream_has_the_columns_of_the_first_and_the_last_documents(server: MongoPlayground) -> None:
    """A query that restarts after a new column must find it, or the same error ends it for ever."""
    server.db.t.insert_many([{"_id": number, f"c{number}": "x"} for number in range(6)])
    assert columns(server) == ["_id", *(f"c{number}" for number in range(6))]
    assert columns(server, **{"sample-records": "2"}) == ["_id", "c0", "c1", "c5", "c4"]
    server.db.t.insert_one({"_id": 6, "new": 1})
    assert "new" in columns(server, **{"sample-records": "2"})


def test_a_plan_has_the_columns_of_several_documents_and_says_of_how_many(
    server: MongoPlayground, tmp_path: Path
) -> None:
    server.db.orders.insert_many([{"_id": number, f"c{number}": "x"} for number in range(10)])
    spec = MongoSync(server, tmp_path, "orders", ()).spec
    for records, columns in ((4, {"_id", "c0", "c1", "c8", "c9"}), (100, {"_id", *(f"c{n}" for n in range(10))})):
        looked, [table] = tables_planned(spec, records)
        assert {column.name for column in table.columns} == columns
        assert f"the columns of the first {records // 2} and the last {records // 2} rows of each" in looked
