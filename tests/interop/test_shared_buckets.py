"""Several write-only jobs, one of them Java, in one bucket: Java reads and compacts what ours renumbered."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle

COLUMNS = [("k", "INT NOT NULL"), ("l", "STRING"), ("r", "STRING"), ("n", "INT")]
ENGINES = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"},
    "sequence.field": {"sequence.field": "n"},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_jobs_of_ours_and_of_java_write_one_bucket(oracle: Oracle, tmp_path: Path, engine: str) -> None:
    options = {"bucket": "1", "write-only": "true", **ENGINES[engine]}
    path = oracle.create(tmp_path, "shop.t", COLUMNS, options=options, primary_keys=["k"])
    table = penstock.open_table(str(path))
    for turn in range(3):
        with table.writer(commit_user="left") as left, table.writer(commit_user="right") as right:
            left.write(pa.table({"k": [1, 2], "l": [f"l{turn}", "l"], "r": [None, None], "n": [1, turn]}, table.schema))
            right.write(
                pa.table({"k": [1, 3], "l": [None, None], "r": [f"r{turn}", "r"], "n": [1, turn]}, table.schema)
            )
            oracle.write(path, [("+I", 1, "java", "java", 1)], user="java", identifier=turn + 1)
            right.commit(identifier=turn)
            left.commit(identifier=turn)
    expected = {
        "deduplicate": (1, "l2", None, 1),
        "partial-update": (1, "l2", "r2", 1),
        "aggregation": (1, "l2", "r2", 9),
        "sequence.field": (1, "l2", None, 1),
    }[engine]
    assert tuple(table.scan(where="k = 1").to_arrow().to_pylist()[0].values()) == expected
    assert difference(oracle.read(path), table.scan().to_arrow()) is None
    oracle.compact(path)
    assert difference(oracle.read(path), table.scan().to_arrow()) is None
    assert tuple(table.scan(where="k = 1").to_arrow().to_pylist()[0].values()) == expected
