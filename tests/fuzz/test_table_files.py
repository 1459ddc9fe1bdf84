"""Damaged files of tables: whatever is read of them, it is rows or an error of ours that names the file."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.storage.environment import seeded
from penstock.table.catalog.catalog import Catalog
from penstock.table.catalog.path_tables import open_table
from tests.fuzz.mutations import changed, changed_document, changed_in_place, held, seeds

COLUMNS = [
    ("id", "BIGINT NOT NULL"),
    ("p", "STRING NOT NULL"),
    ("d", "DECIMAL(10, 2)"),
    ("t", "TIMESTAMP(6)"),
    ("l", "ARRAY<INT>"),
    ("c", "CHAR(3)"),
]
OPTIONS: dict[str, dict[str, str]] = {
    "parquet": {"file.format": "parquet", "changelog-producer": "lookup", "deletion-vectors.enabled": "true"},
    "orc": {"file.format": "orc", "changelog-producer": "input", "file.compression": "none"},
    "avro": {"file.format": "avro"},
    "parquet manifests": {"manifest.format": "parquet", "bucket": "-1"},
}
SYSTEM = (
    *("snapshots", "schemas", "options", "files", "manifests", "partitions", "buckets", "tags", "branches"),
    *("consumers", "statistics", "audit_log", "aggregation_fields", "table_indexes"),
)
ROOMS = ("schema", "snapshot", "manifest", "index", "statistics", "tag", "consumer", "bucket-")


def _rows(first: int) -> pa.Table:
    numbers = range(first, first + 30)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "p": [f"p{number % 2}" for number in numbers],
            "d": pa.array([None if number % 7 == 0 else number for number in numbers], pa.int64()).cast(
                pa.decimal128(21, 2)
            ).cast(pa.decimal128(10, 2)),
            "t": pa.array([number * 1_000_003 for number in numbers], pa.timestamp("us")),
            "l": [[number, None] for number in numbers],
            "c": ["abc"] * 30,
        }
    )  # fmt: skip


@pytest.fixture(scope="module", params=sorted(OPTIONS))
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table")
    catalog = Catalog(str(folder), {"local.sync": "false"}, ambient=seeded(1))
    catalog.create_database("d")
    options = {"bucket": "1", **OPTIONS[request.param]}
    keys = [] if options["bucket"] == "-1" else ["id", "p"]
    table = catalog.create_table("d.t", COLUMNS, primary_keys=keys, partition_keys=["p"], options=options)
    for first in (0, 20, 10):
        with table.writer() as writer:
            writer.write(_rows(first))
            writer.commit()
    table.compact(full=True)
    table.create_tag("x")
    table.create_branch("b", tag="x")
    table.reset_consumer("c", 1)
    table.analyze()
    return Path(table.path)


def _damage(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    if data[:1] == b"{" and chance.random() < 0.7:
        path.write_text(json.dumps(changed_document(json.loads(data), chance)))
        return
    # Half of all damage lies in the end of the file, where footers are.
    cut = max(0, len(data) - 400) if chance.random() < 0.5 else 0
    # A data file's length is in its manifest, and another one is noticed before the file is looked at.
    change = changed_in_place if "bucket-" in str(path) and chance.random() < 0.8 else changed
    path.write_bytes(data[:cut] + change(data[cut:], chance))


def _read(root: Path, chance: random.Random) -> None:
    table = open_table(str(root))
    match chance.randrange(6):
        case 0:
            table.scan(tag="x").to_arrow()
        case 1:
            table.scan(branch="b").to_arrow()
        case 2:
            table.system(chance.choice(SYSTEM))
        case 3:
            table.changes(0, 3)
        case 4:
            table.scan(columns=["d", "p"]).to_arrow()
        case 5:
            table.scan().to_arrow().validate(full=True)


def test_a_damaged_file_results_in_rows_or_an_error_that_names_it(
    original: Path, request: pytest.FixtureRequest
) -> None:
    ended: Counter[str] = Counter()
    files = [
        path for path in sorted(original.rglob("*")) if path.is_file() and any(room in str(path) for room in ROOMS)
    ]
    for chance in seeds(request, 250, 20_000):
        path = chance.choice(files)
        kept = path.read_bytes()
        try:
            _damage(path, chance)
            what: Any = (path.name, path.read_bytes())
            size = sum(file.stat().st_size for file in files)
            ended[held(partial(_read, original, chance), what, size=size)] += 1
        finally:
            path.write_bytes(kept)
    # Of few inputs, as a short run on a busy machine has them, few are of a kind.
    least = min(10, ended.total() // 25)
    assert ended["well"] > least
    assert ended["TableCorrupt"] > least
