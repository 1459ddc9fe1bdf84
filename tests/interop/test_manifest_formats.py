"""Tables whose manifests are not in Avro: Java goes on where ours wrote, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from tests.golden.relations import difference
from tests.golden.rows import arrow_changes
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants

COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING NOT NULL"), ("v", "INT")]


@pytest.mark.parametrize("file_format", ["orc", "parquet"])
def test_we_and_java_write_manifests_in_turn(oracle: Oracle, tmp_path: Path, file_format: str) -> None:
    """With deletion vectors, so that index manifests are there too, and merges of manifests."""
    options = {"manifest.format": file_format, "manifest.merge-min-count": "3", "deletion-vectors.enabled": "true"}
    path = oracle.create(
        tmp_path, "b.t", COLUMNS, primary_keys=["id", "p"], partition_keys=["p"], options={"bucket": "2", **options}
    )
    table = penstock.open_table(str(path))
    for turn in range(6):
        rows = [["+I", key, "ab"[key % 2], turn] for key in range(turn, turn + 12)] + [["-D", turn, "ab"[turn % 2], 0]]
        if turn % 2:
            oracle.write(path, rows, compact="auto")
        else:
            with table.writer() as writer:
                writer.write(*arrow_changes(rows, COLUMNS))
                writer.commit()
        assert difference(oracle.read(path), table.scan().to_arrow()) is None
    table.compact()
    assert len(oracle.read(path).rows) == 11
    magic = {"orc": b"ORC", "parquet": b"PAR1"}[file_format]
    assert all(found.read_bytes().startswith(magic) for found in (path / "manifest").iterdir())
    check_invariants(table, oracle=oracle)
