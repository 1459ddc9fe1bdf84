"""What `penstock.sql` returns of a SELECT over a stream: the changes of all its snapshots and buckets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.table.sql.interpreter import Interpreter
from tests.waiting import StopAtFirstWait

STREAMING = "SET 'execution.runtime-mode' = 'streaming';"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    catalog = penstock.Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    table = catalog.create_table(
        "d.t", [("k", "INT NOT NULL"), ("v", "INT")], primary_keys=["k"], options={"bucket": "2"}
    )
    for values in ({"k": [1, 2, 3, 4], "v": [0, 0, 0, 0]}, {"k": [1, 2], "v": [1, 1]}):
        with table.writer() as writer:
            writer.write(pa.table(values, schema=table.schema))
            writer.commit()
    return tmp_path


def shown(warehouse: Path, script: str) -> list[tuple[object, ...]]:
    result = penstock.sql(STREAMING + script, warehouse, database="d", until_caught_up=True)
    return sorted(tuple(row.values()) for row in result.to_pylist())


def test_a_stream_returns_the_rows_of_all_snapshots_and_buckets(warehouse: Path) -> None:
    whole = [("+I", 1, 1), ("+I", 2, 1), ("+I", 3, 0), ("+I", 4, 0)]
    assert shown(warehouse, "SELECT k, v FROM t") == whole
    changes = "SELECT k, v FROM t /*+ OPTIONS('scan.mode'='from-snapshot', 'scan.snapshot-id'='1') */"
    expected = sorted([("+I", k, 0) for k in (1, 2, 3, 4)] + [("+I", k, 1) for k in (1, 2)])
    assert [(str(kind).replace("+U", "+I"), *rest) for kind, *rest in shown(warehouse, changes)] == expected


def test_only_the_last_of_several_streams_is_returned(warehouse: Path) -> None:
    assert len(shown(warehouse, "SELECT k FROM t; SELECT k FROM t WHERE k > 3")) == 1
    assert shown(warehouse, "SELECT k FROM t; SELECT k FROM t WHERE k > 4") == []
    assert len(shown(warehouse, "SELECT k FROM t UNION ALL SELECT v FROM t")) == 8


@pytest.mark.parametrize("query", ["SELECT k FROM t WHERE k > 4; SELECT k FROM t", "SELECT k FROM t"])
def test_streams_that_are_stopped_return_the_rows_of_the_last_one(query: str, warehouse: Path) -> None:
    with Interpreter(penstock.Catalog(warehouse), "d", stop=StopAtFirstWait()) as interpreter:
        result = interpreter.last_result(STREAMING + query)
    assert result is not None
    assert sorted(result["k"].to_pylist()) == [1, 2, 3, 4]


def test_selects_of_different_types_are_refused(warehouse: Path) -> None:
    with pytest.raises(ConfigError, match="do not fit into one column"):
        shown(warehouse, "SELECT k FROM t UNION ALL SELECT 'a' || v FROM t")
