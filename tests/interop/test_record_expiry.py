"""Records that have had their time: the same ones go in our compactions as in Java's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from penstock.storage.local import LocalStorage
from penstock.table.meta.store import TableStore
from penstock.table.operations.compact import compact_table
from tests.golden.relations import difference
from tests.interop.oracle.client import Oracle

NOW = int(time.time())
DAY = 86_400
# Far from the border of two days: time goes on between the import of a module and its tests.
AGES = (10 * DAY, 3 * DAY, 2 * DAY + 36_000, 2 * DAY - 36_000, 60, -DAY)


def written(seconds: int, kind: str) -> Any:
    match kind:
        case "INT" | "BIGINT":
            return seconds
        case "BIGINT millis":
            return seconds * 1000
        case _:
            return time.strftime("%Y-%m-%dT%H:%M:%S.000000", time.gmtime(seconds))


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "BIGINT millis", "TIMESTAMP(6)"])
@pytest.mark.parametrize("producer", ["none", "full-compaction", "lookup"])
def test_the_same_records_expire_as_in_java(oracle: Oracle, tmp_path: Path, kind: str, producer: str) -> None:
    options = {
        "bucket": "1",
        "record-level.expire-time": "2 d",
        "record-level.time-field": "at",
        "changelog-producer": producer,
        "num-sorted-run.compaction-trigger": "100",
    }
    columns = [("id", "INT NOT NULL"), ("at", kind.split(" ")[0])]
    paths = []
    for name in ("ours", "javas"):
        path = oracle.create(tmp_path / name, "shop.t", columns, primary_keys=["id"], options=options)
        rows = [("+I", number, written(NOW - age, kind)) for number, age in enumerate(AGES)]
        oracle.write(path, [*rows, ("+I", 99, None)], user="u", identifier=1, compact="none")
        oracle.write(path, [("+I", 0, written(NOW, kind)), ("-D", 4, None)], user="u", identifier=2, compact="none")
        paths.append(path)
    ours, javas = paths
    store = TableStore.open(LocalStorage(sync=False), str(ours))
    compact_table(store)
    oracle.compact(javas)
    assert difference(oracle.read(ours), oracle.read(javas)) is None
    assert sorted(row[0] for row in oracle.read(ours).rows) == [0, 3, 5, 99]
    changes = [oracle.incremental(path, 0, 3, "changelog").rows for path in paths] if producer != "none" else [[], []]
    assert sorted(map(str, changes[0])) == sorted(map(str, changes[1]))
    assert compact_table(store) == []


def test_a_file_at_the_top_level_is_rewritten_if_records_expired(oracle: Oracle, tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true"}
    path = oracle.create(
        tmp_path, "shop.t", [("id", "INT NOT NULL"), ("at", "INT")], primary_keys=["id"], options=options
    )
    oracle.write(path, [("+I", number, NOW - age) for number, age in enumerate(AGES)])
    oracle.compact(path)
    store = TableStore.open(LocalStorage(sync=False), str(path))
    assert compact_table(store) == []
    over = {"record-level.expire-time": "2 d", "record-level.time-field": "at"}
    assert len(compact_table(store, options=over)) == 1
    assert sorted(row[0] for row in oracle.read(path).rows) == [3, 4, 5]
    assert compact_table(store, options=over) == []
    assert len(compact_table(store, options={"compaction.force-rewrite-all-files": "true"})) == 1
