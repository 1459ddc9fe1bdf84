"""Tables whose rows get their buckets later: written by a Spark job, compacted by the command, read by Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.pipelines.commands.main import main
from penstock.pipelines.job import build
from penstock.pipelines.job.job_run import JobRun
from penstock.table.meta.live import live_entries
from penstock.table.meta.paths import POSTPONE_BUCKET
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants
from tests.shop import Shop, change, insert

pytestmark = pytest.mark.spark

OPTIONS = {"bucket": "-2", "postpone.default-bucket-num": "3", "changelog-producer": "lookup"}
KEYS = range(40)


def carry(shop: Shop, spark: SparkSession) -> None:
    JobRun(build.job(shop.spec(sink={"table-options": OPTIONS})), spark).run()


def compact(shop: Shop, capsys: pytest.CaptureFixture[str]) -> list[int]:
    capsys.readouterr()
    place = ("--warehouse", f"{shop.folder}/warehouse", "--database", "ods", "--table", "orders")
    assert main(["compact", *place, "--json"]) == 0
    return list(json.loads(capsys.readouterr().out)["snapshots"])


def read_by_java(oracle: Oracle, shop: Shop) -> list[tuple[Any, ...]]:
    found = oracle.read(Path(shop.table("orders").path))
    places = [found.columns.index(name) for name in ("id", "name")]
    return sorted(tuple(row[place] for place in places) for row in found.rows)


def buckets(shop: Shop) -> set[int]:
    latest = shop.table("orders").latest_snapshot
    assert latest is not None
    return {entry.bucket for entry in live_entries(shop.table("orders").store, latest)}


def test_the_compact_command_assigns_buckets_to_postponed_rows(
    oracle: Oracle, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(tmp_path)
    for part in range(4):  # each a task of its own
        shop.put(f"1{part}.json", insert("orders", *({"id": key, "name": "a"} for key in KEYS if key % 4 == part)))
    carry(shop, spark)
    assert buckets(shop) == {POSTPONE_BUCKET}
    assert read_by_java(oracle, shop) == []
    assert compact(shop, capsys)
    assert buckets(shop) == {0, 1, 2}
    assert read_by_java(oracle, shop) == [(key, "a") for key in KEYS]
    shop.put("20.json", change("UPDATE", "orders", {"id": 1, "name": "b"}, old=[{"name": "a"}]))
    shop.put("21.json", change("DELETE", "orders", {"id": 2, "name": "a"}), insert("orders", {"id": 90, "name": "c"}))
    carry(shop, spark)
    compact(shop, capsys)
    expected = [(key, "b" if key == 1 else "a") for key in KEYS if key != 2] + [(90, "c")]
    assert read_by_java(oracle, shop) == expected
    assert [(row["id"], row["name"]) for row in shop.rows("orders")] == expected
    table = shop.table("orders")
    kinds = [kind for change in oracle.stream(Path(table.path)) for kind in change.rows.kinds or ()]
    assert sorted(kinds) == sorted(["+I"] * (len(KEYS) + 1) + ["-U", "+U", "-D"])
    check_invariants(table)
