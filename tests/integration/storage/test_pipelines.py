"""Whole pipelines, their kills and their readers in object stores of other makers than moto."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.pipelines.spark.session_settings import package_home
from penstock.table.handle import Table
from tests import waiting
from tests.integration.storage.places import Place, place
from tests.invariants import check_invariants
from tests.shop import Shop, change

STORES = [
    pytest.param("azure", marks=pytest.mark.azure),
    pytest.param("google"),
    pytest.param("s3gateway", marks=pytest.mark.s3gateway),
]
pytestmark = pytest.mark.slow
OPTIONS = {
    "bucket": "2",
    "changelog-producer": "lookup",
    "num-sorted-run.compaction-trigger": "3",
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "6",
}
KILLS = 2


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch, place(request.param, tmp_path_factory.mktemp("store")) as opened:
        for name, text in opened.environment.items():
            patch.setenv(name, text)
        yield opened


def described(shop: Shop, store: Place, name: str) -> None:
    """Write a pipeline whose tables are in the store."""
    catalog = {"warehouse": f"{store.url}/{name}", "options": store.options}
    spec = {
        "version": 1,
        "pipeline": {"name": name, "trigger": "100ms", "checkpoint": str(shop.folder / "checkpoint")},
        "source": {"type": "files", "path": str(shop.inbox), "value.format": "canal-json"},
        "sink": {"catalog": catalog, "database": "ods", "table-options": OPTIONS},
    }
    shop.inbox.mkdir(parents=True, exist_ok=True)
    (shop.folder / "shop.yaml").write_text(json.dumps(spec))


def log(folder: Path) -> str:
    return (folder / "log").read_text()[-3000:]


def table(store: Place, name: str) -> Table:
    return penstock.Catalog(f"{store.url}/{name}", store.options).table("ods.orders")


def command(*words: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-m", "penstock.pipelines.commands.main", *words]


def done(folder: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": package_home()}
    ended = subprocess.run(
        command(*words), cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


@contextmanager
def running(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"PYTHONPATH": package_home()}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command("run", "shop.yaml"), cwd=folder, env=environment, stderr=log, stdout=log)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def changes(shop: Shop, rows: dict[int, str], rng: random.Random, first: int, files: int) -> None:
    """Put files of inserts, updates and deletes into the inbox, and make the same changes to the rows."""
    for number in range(first, first + files):
        messages = []
        for turn in range(4):
            key, value = rng.randrange(40), f"v{number}-{turn}"
            if key not in rows:
                messages.append(change("INSERT", "orders", {"id": key, "v": value}))
            elif rng.random() < 0.7:
                messages.append(change("UPDATE", "orders", {"id": key, "v": value}, old=[{"v": rows[key]}]))
            else:
                messages.append(change("DELETE", "orders", {"id": key, "v": rows.pop(key)}))
                continue
            rows[key] = value
        shop.put(f"{number:04}.json", *messages)


def snapshots(store: Place, name: str) -> int:
    try:
        latest = table(store, name).store.snapshots.latest()
    except penstock.PenstockError:
        return 0
    return latest.id if latest else 0


def found(store: Place, name: str) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table(store, name).scan().to_arrow().to_pylist()}


def test_a_pipeline_that_is_killed_loses_and_doubles_nothing(store: Place, tmp_path: Path) -> None:
    shop, rng, rows = Shop(tmp_path), random.Random(16), dict[int, str]()
    described(shop, store, "killed")
    for turn in range(KILLS):
        with running(tmp_path) as process:

            def went_on(before: int, process: subprocess.Popen[bytes] = process) -> bool:
                assert process.poll() is None, log(tmp_path)
                return snapshots(store, "killed") > before

            for number in range(4 * turn, 4 * turn + 3):
                before = snapshots(store, "killed")
                changes(shop, rows, rng, number, 1)
                waiting.until(lambda before=before: went_on(before), lambda: log(tmp_path))  # type: ignore[misc]
            changes(shop, rows, rng, 4 * turn + 3, 1)
    done(tmp_path, "run", "shop.yaml", "--until-caught-up")
    orders = table(store, "killed")
    assert found(store, "killed") == rows
    assert orders.snapshots[0].id > 1  # others have expired
    assert "COMPACT" in {snapshot.commit_kind for snapshot in orders.snapshots}
    check_invariants(orders)


def test_tags_full_compactions_and_expiry_keep_the_rows(store: Place, tmp_path: Path) -> None:
    shop, rng, rows = Shop(tmp_path), random.Random(17), dict[int, str]()
    described(shop, store, "commands")
    changes(shop, rows, rng, 0, 6)
    done(tmp_path, "run", "shop.yaml", "--until-caught-up")
    orders, tagged = table(store, "commands"), dict(rows)
    orders.create_tag("before")
    changes(shop, rows, rng, 6, 6)
    done(tmp_path, "run", "shop.yaml", "--until-caught-up")
    orders = orders.refresh()
    orders.compact(full=True)
    orders.expire_snapshots(retain_max=1, retain_min=1)
    assert len(orders.refresh().snapshots) <= 2  # the newest, and that of the pipeline
    assert found(store, "commands") == rows
    assert {row["id"]: row["v"] for row in orders.scan(tag="before").to_arrow().to_pylist()} == tagged
    orders.delete_tag("before")
    orders.remove_orphan_files(older_than="1970-01-01 00:00:00")
    check_invariants(orders.refresh())


def asked(store: Place, folder: Path, name: str, *flags: str) -> Any:
    options = [word for option, text in store.options.items() for word in ("--catalog-conf", f"{option}={text}")]
    words = ["sql", "--warehouse", f"{store.url}/{name}", *options, *flags, "--output", "json"]
    return json.loads(done(folder, *words, "SELECT id, v FROM ods.orders ORDER BY id"))


def check_sql(store: Place, folder: Path, engine: str) -> None:
    shop, rng, rows, name = Shop(folder), random.Random(18), dict[int, str](), f"sql_{engine}"
    described(shop, store, name)
    changes(shop, rows, rng, 0, 6)
    done(folder, "run", "shop.yaml", "--until-caught-up")
    assert asked(store, folder, name, "--engine", engine)["rows"] == [[key, rows[key]] for key in sorted(rows)]


def test_rows_are_read_by_sql(store: Place, tmp_path: Path) -> None:
    check_sql(store, tmp_path, "duckdb")


@pytest.mark.spark
@pytest.mark.parametrize("store", STORES[:2], indirect=True)
def test_rows_are_read_by_spark_without_a_connector_of_hadoop(store: Place, tmp_path: Path) -> None:
    check_sql(store, tmp_path, "spark")


def test_commits_of_several_writers_at_once_are_all_there(store: Place) -> None:
    lake = penstock.Catalog(f"{store.url}/writers", store.options)
    lake.create_database("ods")
    lake.create_table("ods.orders", [("id", "BIGINT"), ("v", "STRING")], (), (), {"bucket": "-1"})

    def write(writer: int) -> None:
        for turn in range(6):
            orders = penstock.Catalog(f"{store.url}/writers", store.options).table("ods.orders")
            with orders.writer() as batch:
                batch.write(pa.table({"id": [100 * writer + turn], "v": ["x"]}))
                batch.commit()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    orders = lake.table("ods.orders")
    assert sorted(orders.scan().to_arrow()["id"].to_pylist()) == [100 * w + t for w in range(3) for t in range(6)]
    assert [snapshot.id for snapshot in orders.snapshots] == list(range(1, 19))
    check_invariants(orders)
