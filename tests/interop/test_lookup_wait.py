"""Commits that go ahead of their compaction: Java reads the table and its changes, and goes on with it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock
from penstock.table.meta.live import live_entries
from tests.golden.relations import difference
from tests.golden.rows import arrow_changes
from tests.interop.oracle.client import Oracle

COLUMNS = [("id", "INT NOT NULL"), ("v", "INT"), ("w", "STRING")]
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {"changelog-producer": "lookup"},
    "partial-update": {"changelog-producer": "lookup", "partial-update.remove-record-on-delete": "true"},
    "aggregation": {"changelog-producer": "lookup", "fields.v.aggregate-function": "sum"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "first-row": {},
}


def drawn(random: Random, name: str) -> list[list[Any]]:
    kinds = ["+I"] if name == "first-row" else ["+I", "+I", "-D"] if name in {"deduplicate", "vectors"} else ["+I"]
    return [
        [random.choice(kinds), key, random.randint(0, 9), random.choice(["x", "y"])]
        for key in random.sample(range(30), 12)
    ]


def java_changes(oracle: Oracle, path: Path) -> list[tuple[Any, ...]]:
    changes = [change.rows for change in oracle.stream(path)]
    return [(kind, *row) for rows in changes for kind, row in zip(rows.kinds or (), rows.rows, strict=True)]


def held(changes: list[tuple[Any, ...]]) -> Counter[Any]:
    """Return the rows of a reader of the changes; each retract must remove a row that it has."""
    rows = Counter[Any]()
    for kind, *row in changes:
        rows[tuple(row)] += 1 if kind in {"+I", "+U"} else -1
    assert not [row for row, count in rows.items() if count not in {0, 1}]
    return +rows


@pytest.mark.parametrize("name", ENGINES)
def test_java_reads_and_continues_commits_without_lookup_wait(oracle: Oracle, tmp_path: Path, name: str) -> None:
    engine = {} if name in {"deduplicate", "vectors"} else {"merge-engine": name}
    options = {"bucket": "2", **engine, **ENGINES[name]}
    lagging = oracle.create(
        tmp_path, "db.lagging", COLUMNS, primary_keys=["id"], options={**options, "lookup-wait": "false"}
    )
    java = oracle.create(tmp_path, "db.java", COLUMNS, primary_keys=["id"], options=options)
    random = Random(name)
    with penstock.open_table(str(lagging)).writer(commit_user="ours") as writer:
        for number in range(6):
            rows = drawn(random, name)
            writer.write(*arrow_changes(rows, COLUMNS))
            writer.commit(number)
            oracle.write(java, rows, compact="auto")
            if name in {"deduplicate", "partial-update", "aggregation"}:  # level 0 shows in a read
                assert difference(oracle.read(java), penstock.open_table(str(lagging)).scan().to_arrow()) is None
                assert difference(oracle.read(java), oracle.read(lagging)) is None
    rows = drawn(random, name)
    for path in (lagging, java):  # Java compacts what ours left, and tells of it
        oracle.write(path, rows, compact="auto")
    table = penstock.open_table(str(lagging))
    assert table.latest_snapshot is not None
    assert all(entry.file.level > 0 for entry in live_entries(table.store, table.latest_snapshot))
    assert difference(oracle.read(java), oracle.read(lagging)) is None
    assert difference(oracle.read(java), table.scan().to_arrow()) is None
    if "changelog-producer" in options:
        assert held(java_changes(oracle, lagging)) == Counter(map(tuple, oracle.read(lagging).rows))
        ours = table.changes(0, table.latest_snapshot.id).to_pylist()
        assert Counter(tuple(row.values()) for row in ours) == Counter(java_changes(oracle, lagging))
