from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.table.files.file_reader import FileReader
from penstock.table.handle import Table

pytestmark = pytest.mark.slow

COLUMNS = [("k", "INT NOT NULL"), ("t", "STRING NOT NULL"), ("a", "BIGINT"), ("b", "STRING")]
ENGINES: list[dict[str, str]] = [
    {},
    {"sequence.field": "a"},
    {"merge-engine": "partial-update"},
    {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"},
    {"file.format": "orc"},
]
FILTERS = [
    (pc.field("k") >= 500) & (pc.field("k") <= 520),
    (pc.field("k") > 900) & (pc.field("a") > 50),
    pc.field("k").isin([3, 777, 999, 5_000]),
    (pc.field("k") < 40) & (pc.field("t") == "t1"),
    (pc.field("k") == 10) | (pc.field("b") == "b5"),
]


def overlapping(folder: Path, options: dict[str, str]) -> Table:
    """Return a table of one bucket with five overlapping runs. Some runs contain deletes."""
    catalog = penstock.Catalog(str(folder))
    catalog.create_database("d")
    given = {"bucket": "1", "write-only": "true", **options}
    table = catalog.create_table("d.t", COLUMNS, primary_keys=["k", "t"], options=given)
    chance = np.random.default_rng(3)
    for turn in range(5):
        keys = chance.choice(1_000, 1_000 if turn == 0 else 300, replace=False).astype(np.int32)
        texts = pa.array([f"t{key % 3}" for key in keys])
        numbers = pa.array(chance.integers(0, 100, len(keys)), mask=chance.random(len(keys)) < 0.3)
        rows = pa.table({"k": keys, "t": texts, "a": numbers, "b": [f"b{key % 11}" for key in keys]})
        with table.writer() as writer:
            writer.write(rows)
            if turn > 1 and "merge-engine" not in options:
                writer.write(rows.slice(0, 50), kinds=np.full(50, 3, np.int8))
            writer.commit()
    return table.refresh()


@pytest.mark.parametrize("options", ENGINES, ids=lambda given: ",".join(given.values()) or "deduplicate")
def test_filtered_reads_of_several_runs_return_what_a_filter_of_all_rows_returns(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.table.files.file_writer._LEAST_GROUP_ROWS", 128)
    monkeypatch.setattr("penstock.table.files.file_writer.GROUP_ROWS", 128)
    table = overlapping(tmp_path, options)
    everything = table.scan().to_arrow().sort_by("k")

    assert not table.scan().plan().splits[0].raw
    for where in FILTERS:
        expected = everything.filter(where)
        for columns in (None, ["b"], ["k"]):
            found = table.scan(where=where, columns=columns)
            order = [(name, "ascending") for name in columns or ["k"]]
            wanted = expected.select(columns or everything.column_names).sort_by(order)
            assert found.to_arrow().sort_by(order).equals(wanted)
        assert table.scan(where=where).count() == len(expected)


def test_runs_are_read_only_where_keys_may_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.table.files.file_writer._LEAST_GROUP_ROWS", 128)
    monkeypatch.setattr("penstock.table.files.file_writer.GROUP_ROWS", 128)
    read = [0]
    original = FileReader.read

    def counted(self: FileReader, *arguments: Any, **given: Any) -> Any:
        for batch in original(self, *arguments, **given):
            read[0] += batch.num_rows
            yield batch

    table = overlapping(tmp_path, {})
    monkeypatch.setattr(FileReader, "read", counted)

    assert table.scan(where=pc.field("k") == 777).to_arrow()["k"].to_pylist() in ([], [777])
    # Each of five runs has the key at most once, and is read for its key columns and for the wanted columns.
    assert 0 < read[0] <= 10
