"""The requests of a commit to an object store, counted at a server with the interface of S3."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from moto.server import DomainDispatcherApplication, ThreadedMotoServer

import penstock
from penstock.pipelines.driver.commit import Commits
from penstock.pipelines.ledger.batch_identity import BatchIdentity
from penstock.pipelines.mapping.target_tables import versions_now
from penstock.pipelines.tasks.router import Router
from penstock.pipelines.tasks.shuffle_rows import pieces
from penstock.pipelines.tasks.table_task_writer import TableTaskWriter, WriteTask
from penstock.table.catalog.settings import CatalogSettings
from penstock.table.commit.request_estimate import Requests, requests_of_batch
from penstock.table.meta.entries import CommitMessage
from penstock.table.options.buckets import BUCKET
from penstock.table.options.changelogs import CHANGELOG_PRODUCER
from penstock.table.options.table_options import TableOptions
from tests.servers import s3

TUNING = Path(__file__).resolve().parents[4] / "docs/tuning.md"
ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
Wsgi = Callable[[Any, dict[str, str], Any], Iterable[bytes]]


@dataclass(slots=True)
class Log:
    """The requests that the server has received, by verb and address."""

    options: dict[str, str]
    entries: list[tuple[str, str]] = field(default_factory=list)

    def add(self, method: str, path: str, query: str) -> None:
        lists = method == "GET" and "list-type" in query
        self.entries.append(("LIST" if lists else method, f"{path}?{query}" if query else path))

    @property
    def counted(self) -> Requests:
        verbs = Counter(verb for verb, _ in self.entries)
        counted = Requests(
            puts=verbs.pop("PUT", 0), lists=verbs.pop("LIST", 0), reads=verbs.pop("GET", 0) + verbs.pop("HEAD", 0)
        )
        assert not verbs, self.entries
        return counted

    def __str__(self) -> str:
        return "\n".join(f"{verb:4} {path}" for verb, path in self.entries)


@pytest.fixture(scope="module")
def log() -> Iterator[Log]:
    """Run a server of an object store, and yield its log."""
    received = Log({})
    answer: Wsgi = DomainDispatcherApplication.__call__

    def logged(app: Any, environ: dict[str, str], start: Any) -> Iterable[bytes]:
        received.add(environ["REQUEST_METHOD"], environ["PATH_INFO"], environ.get("QUERY_STRING", ""))
        return answer(app, environ, start)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DomainDispatcherApplication, "__call__", logged)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        s3.create_bucket(f"http://{host}:{port}")
        received.options |= {
            "s3.endpoint": f"http://{host}:{port}",
            "s3.access-key": s3.ACCESS_KEY,
            "s3.secret-key": s3.SECRET_KEY,
            "s3.path.style.access": "true",
        }
        yield received
        server.stop()


def table_of(log: Log, name: str, keys: tuple[str, ...], options: dict[str, str]) -> CatalogSettings:
    settings = CatalogSettings.of("s3://lake/warehouse", log.options)
    catalog = penstock.Catalog("s3://lake/warehouse", log.options)
    catalog.create_database("db", ignore_if_exists=True)
    catalog.create_table(name, ROWS, primary_keys=keys, options=options)
    return settings


def written(tasks: CatalogSettings, name: str, number: int) -> list[CommitMessage]:
    """Return the messages of the read and write tasks of a batch."""
    versions = versions_now(tasks, {name: tasks.store(name).schema_last_read().id})
    ids = list(range(50))
    rows = pa.RecordBatch.from_pydict({"id": ids, "v": [f"{number}"] * 50}, schema=ROWS)
    writer = TableTaskWriter(WriteTask(tasks, 1, user="job"), name, versions[name], 0)
    messages: list[CommitMessage] = []
    for part in Router(tasks, name, versions[name], 1).parts(rows, 0):
        if not writer.accepts(part.partition, part.bucket):
            messages += writer.finish()
        for _, blob in pieces(rows.take(pa.array(part.rows)), np.zeros(len(part.rows), np.int8), name):
            writer.write(part.partition, part.bucket, blob)
    return [*messages, *writer.finish()]


def identity(number: int) -> BatchIdentity:
    return BatchIdentity("p", "checkpoint", number, {"at": number}, {"at": number + 1})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("producer", "buckets"), [*itertools.product(["append", "none", "input", "lookup"], [1, 4]), ("dynamic", 1)]
)
def test_a_batch_makes_as_many_requests_as_the_estimate_says(log: Log, producer: str, buckets: int) -> None:
    name = f"db.{producer}_{buckets}"
    keys = () if producer == "append" else ("id",)
    options = {
        "append": {"bucket": f"{buckets}", "bucket-key": "id"},
        "dynamic": {"bucket": "-1"},
    }.get(producer, {"bucket": f"{buckets}", "changelog-producer": producer})
    driver = table_of(log, name, keys, options)
    # Other options make other stores: tasks share no cache with the driver, as in a cluster.
    tasks = CatalogSettings.of(driver.warehouse, {**log.options, "s3.region": "us-east-1"})
    commits = Commits(driver)
    for number in range(3):
        log.entries.clear()
        messages = written(tasks, name, number)
        done = commits.commit(identity(number), {name: messages}, {})
        assert done.schemas
        assert not done.failed
    counted, shown = log.counted, f"{log}"
    assert counted == requests_of_batch(driver.store(name).schema().typed, buckets, keyed=bool(keys)), shown
    assert tasks.open().table(name).scan().to_arrow().num_rows == (150 if producer == "append" else 50)


@pytest.mark.parametrize("buckets", [1, 4])
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_the_page_on_tuning_shows_the_estimate(producer: str, buckets: int) -> None:
    lines = (TUNING.read_text().partition("| changelog producer |")[2]).splitlines()
    [row] = [line for line in lines if line.startswith(f"| `{producer}`")]
    counts = [_count(cell, buckets) for cell in row.split("|")[2:5]]
    options = TableOptions({CHANGELOG_PRODUCER.key: producer, BUCKET.key: f"{buckets}"})
    assert Requests(*counts) == requests_of_batch(options, buckets, keyed=True)


def _count(cell: str, buckets: int) -> int:
    """Return the number that a cell such as `5 + 2b` stands for."""
    fixed, _, each = cell.partition("(")[0].strip().partition(" + ")
    return int(fixed) + (int(each.removesuffix("b") or 1) * buckets if each else 0)


@pytest.mark.slow
def test_a_table_without_rows_in_a_batch_costs_nothing(log: Log) -> None:
    driver = table_of(log, "db.idle", ("id",), {"bucket": "1"})
    log.entries.clear()
    Commits(driver).commit(identity(0), {}, {})
    assert log.entries == []
