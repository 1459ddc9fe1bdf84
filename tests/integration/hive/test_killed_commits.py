"""Writers that are killed between a commit and the metastore's partitions: missing ones are named, and added later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock
from penstock.pipelines.commands.main import main
from penstock.table.catalog.hive_partitions import HivePartitions
from penstock.table.metastore.hive_client import HiveMetastore
from tests.here import note_as_spark_does, run
from tests.invariants import check_invariants
from tests.shop import Shop, insert

pytestmark = [pytest.mark.hive, pytest.mark.slow]
NOTHING, ONE, BOTH = set[str](), {"dt=a"}, {"dt=a", "dt=b"}


@pytest.fixture
def lake(metastore: str, tmp_path: Path) -> Iterator[penstock.Catalog]:
    catalog = penstock.Catalog(f"{tmp_path}/warehouse", {"metastore": "hive", "uri": metastore})
    yield catalog
    catalog.drop_database("ods", cascade=True)


def run_shop(folder: str, metastore: str) -> None:
    """Run the pipeline of orders by day until it has read its inbox."""
    catalog = {"warehouse": f"{folder}/warehouse", "metastore": "hive", "options": {"uri": metastore}}
    sink = {"catalog": catalog, "partition-keys": ["dt"]}
    sink["table-options"] = {"bucket": "1", "metastore.partitioned-table": "true"}
    run(Shop(Path(folder)).spec(sink=sink))


def killed_at(point: str, folder: str, metastore: str) -> None:
    """Run the pipeline in a process that is killed when it has committed: before, in or after the request."""
    whole: Callable[..., None] = HivePartitions.follow

    def follow(*given: object) -> None:
        if point == "after":
            whole(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    def add(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if point == "within":
        HiveMetastore.add_partitions = add  # type: ignore[method-assign]
    else:
        HivePartitions.follow = follow  # type: ignore[method-assign]
    run_shop(folder, metastore)


def kill(point: str, folder: Path, metastore: str) -> None:
    code = f"import sys; from {__name__} import killed_at; killed_at(*sys.argv[1:])"
    words = [sys.executable, "-c", code, point, str(folder), metastore]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL


def shown(metastore: str) -> set[str]:
    return HiveMetastore.of(metastore).partition_names("ods", "orders")


def status(folder: Path, metastore: str, capsys: pytest.CaptureFixture[str]) -> str:
    note_as_spark_does(folder / "checkpoint")
    where = ["--warehouse", f"{folder}/warehouse", "--catalog-conf", "metastore=hive"]
    where += ["--catalog-conf", f"uri={metastore}", "--checkpoint", f"{folder}/checkpoint"]
    main(["status", "shop", *where])
    return capsys.readouterr().out


@pytest.mark.parametrize(("point", "left"), [("before", NOTHING), ("within", NOTHING), ("after", ONE)])
def test_what_a_killed_writer_owes_the_metastore_is_named_and_mended_by_the_next_commit(
    lake: penstock.Catalog,
    metastore: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    point: str,
    left: set[str],
) -> None:
    shop = Shop(tmp_path)
    shop.put("1.json", insert("orders", {"id": 1, "dt": "a"}))
    kill(point, tmp_path, metastore)
    assert lake.table("ods.orders").scan().to_arrow()["id"].to_pylist() == [1]
    assert shown(metastore) == left
    owes = "ods.orders: the metastore does not follow the table in 1 partition (dt=a)"
    assert (owes in status(tmp_path, metastore, capsys)) == (left == NOTHING)
    shop.put("2.json", insert("orders", {"id": 2, "dt": "b"}))
    run_shop(str(tmp_path), metastore)
    assert shown(metastore) == BOTH
    assert owes not in status(tmp_path, metastore, capsys)
    table = lake.table("ods.orders")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    check_invariants(table)


def test_what_a_killed_writer_owes_the_metastore_is_mended_by_a_repair(
    lake: penstock.Catalog, metastore: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Shop(tmp_path).put("1.json", insert("orders", {"id": 1, "dt": "a"}))
    kill("before", tmp_path, metastore)
    assert "penstock repair --identifier ods.orders" in status(tmp_path, metastore, capsys)
    where = ["--warehouse", f"{tmp_path}/warehouse", "--catalog-conf", "metastore=hive"]
    assert main(["repair", *where, "--catalog-conf", f"uri={metastore}", "--identifier", "ods.orders"]) == 0
    assert shown(metastore) == ONE
    capsys.readouterr()
    assert "does not follow" not in status(tmp_path, metastore, capsys)
