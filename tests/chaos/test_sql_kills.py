"""`penstock sql` that is killed or interrupted while a statement writes: it is done, or it has changed nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.table.catalog.catalog import Catalog
from penstock.table.sql.interpreter import Interpreter
from tests.invariants import check_invariants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = {"local.sync": "false"}
ROWS = 30_000
TABLES = f"""
CREATE DATABASE shop; USE shop;
CREATE TABLE keyed (id BIGINT, v BIGINT, p STRING, PRIMARY KEY (id, p) NOT ENFORCED) PARTITIONED BY (p)
    WITH ('bucket' = '2');
CREATE TABLE plain (id BIGINT, v BIGINT, p STRING) PARTITIONED BY (p);
INSERT INTO keyed SELECT i, i, CASE i % 2 WHEN 0 THEN 'a/b' END FROM range({ROWS}) AS r(i) WHERE i % 2 = 0;
INSERT INTO plain SELECT i, i, CASE i % 2 WHEN 0 THEN 'a/b' END FROM range({ROWS}) AS r(i);
"""
STATEMENTS = {
    "insert": "INSERT INTO shop.{t} SELECT i + 1000000, i, 'ü' FROM range(30000) AS r(i)",
    "update": "UPDATE shop.{t} SET v = -1 WHERE id % 3 = 0",
    "delete": "DELETE FROM shop.{t} WHERE id % 3 = 0",
    "merge": "MERGE INTO shop.{t} t USING (SELECT i AS id, 'a/b' AS p FROM range(25000, 35000) AS r(i)) s "
    "ON t.id = s.id AND t.p = s.p WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, 0, s.p)",
    "overwrite": "INSERT OVERWRITE shop.{t} SELECT i, -5, 'a/b' FROM range(30000) AS r(i)",
}
SUMS = "SELECT count(*), sum(v), sum(id), count(DISTINCT p) FROM shop.{t}"


def sums(catalog: Catalog, table: str) -> list[object]:
    with Interpreter(catalog) as interpreter:
        (found,) = interpreter.run(SUMS.format(t=table))
        return list(found.to_pylist()[0].values())


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.suffix in {".parquet", ""} and path.is_file()}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = Catalog(f"{tmp_path}/warehouse", OPTIONS)
    with Interpreter(opened) as interpreter:
        list(interpreter.run(TABLES))
    yield opened
    for table in ("keyed", "plain"):
        check_invariants(opened.table(f"shop.{table}"))


def stopped_behind(words: list[str], folder: Path, count: int, number: signal.Signals) -> str:
    """Run a command, send it a signal once it has written so many files, and return what it printed as an error."""
    before = files(folder)
    command = [sys.executable, "-m", "penstock.pipelines.commands.main", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as job:
        while job.poll() is None and len(files(folder) - before) < count:
            time.sleep(0.001)  # shorter than the time that a statement takes for a file
        job.send_signal(number)
        return job.communicate()[1]


@pytest.mark.parametrize("table", ["keyed", "plain"])
@pytest.mark.parametrize("verb", list(STATEMENTS))
def test_a_statement_that_is_stopped_is_done_or_has_changed_nothing(catalog: Catalog, verb: str, table: str) -> None:
    statement = STATEMENTS[verb].format(t=table)
    folder = Path(catalog.table(f"shop.{table}").path)
    before, first = sums(catalog, table), catalog.table(f"shop.{table}").latest_snapshot
    words = ["sql", statement, "--warehouse", catalog.warehouse, "--catalog-conf", "local.sync=false"]
    outcomes = []
    for count, number in ((1, signal.SIGKILL), (2, signal.SIGINT), (4, signal.SIGKILL)):
        said = stopped_behind(words, folder, count, number)
        assert "Traceback" not in said
        latest = catalog.table(f"shop.{table}").latest_snapshot
        assert first is not None
        assert latest is not None
        outcomes.append(latest.id - first.id)
        if latest.id > first.id:
            break
        assert sums(catalog, table) == before
    assert outcomes[-1] in {0, 1}
    if not outcomes[-1]:
        # What is left of the statement does not disturb the next one.
        with Interpreter(catalog) as interpreter:
            list(interpreter.run(statement))
    reached = sums(catalog, table)
    fresh = Catalog(f"{catalog.warehouse}-again", OPTIONS)
    with Interpreter(fresh) as interpreter:
        list(interpreter.run(f"{TABLES}; {statement}"))
    assert reached == sums(fresh, table)
