"""Buffers of long rows: they are copied in pieces of a number of bytes, and not of rows alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.table.catalog.catalog import Catalog
from penstock.table.merge.key_groups import KeyGroups
from penstock.table.merge.merge_rows import merge_groups
from penstock.table.write import keyed_buffer


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_long_rows_are_merged_in_pieces_of_few_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr(keyed_buffer, "_PIECE_BYTES", 10_000)
    sizes = list[int]()

    def merged(merge: object, groups: KeyGroups) -> object:
        sizes.append(len(groups.order))
        return merge_groups(merge, groups)  # type: ignore[arg-type]

    monkeypatch.setattr(keyed_buffer, "merge_groups", merged)
    catalog = Catalog(tmp_path, {"local.sync": "false"})
    catalog.create_database("d")
    options = {"bucket": "1", "write-only": "true", "merge-engine": engine}
    table = catalog.create_table("d.t", [("id", "INT NOT NULL"), ("v", "STRING")], primary_keys=["id"], options=options)
    # One key has more rows than a piece, and stays whole.
    ids = [*range(100), *[7] * 30, *range(100)]
    with table.writer() as writer:
        writer.write(pa.table({"id": ids, "v": [f"{number:01000}" for number in range(len(ids))]}, schema=table.schema))
        writer.commit()
    assert sum(sizes) == len(ids)
    assert len(sizes) > 10
    assert sorted(sizes)[-2] <= 12
    assert max(sizes) <= 45
    last = {key: f"{number:01000}" for number, key in enumerate(ids)}
    assert {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()} == last
