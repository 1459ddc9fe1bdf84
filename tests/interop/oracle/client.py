"""Java Paimon, asked and commanded from Python: one JVM, many calls, rows as golden relations.

with Oracle.started(log=folder / "oracle.log") as oracle:
    path = oracle.create(warehouse, "shop.orders", [("id", "INT NOT NULL")], primary_keys=["id"])
    oracle.write(path, [("+I", 1)])
    assert difference(oracle.read(path), penstock.open_table(path).scan().to_arrow()) is None

    path = oracle.create(folder, "shop.orders", [("id", "INT NOT NULL")], primary_keys=["id"])
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.golden.relations import Change, Relation, Type

HERE = Path(__file__).resolve().parent
Rows = Iterable[Sequence[Any]]


class JavaRefused(Exception):
    """Java Paimon threw. `trace` is its stack trace."""

    def __init__(self, operation: Mapping[str, Any], message: str, trace: str) -> None:
        super().__init__(f"{operation['op']}: {message}")
        self.message, self.trace = message, trace


def home() -> Path:
    """Return the folder that keeps jars and classes between runs."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock"
    return Path(os.environ.get("PENSTOCK_SERVERS", default)) / "oracle"


def environment() -> dict[str, str]:
    spark = importlib.util.find_spec("pyspark")
    found = {"ORACLE_SPARK_JARS": str(Path(spark.origin).parent / "jars")} if spark and spark.origin else {}
    # Java keeps where the keys of cross-partition tables lie in RocksDB.
    return {**os.environ, "ORACLE_ROCKSDB": "1", **found}


def prepare() -> None:
    """Fetch and compile what is not there yet; one process does it, the others wait."""
    home().mkdir(parents=True, exist_ok=True)
    with (home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([HERE / "run", "prepare"], env=environment(), check=True)


class Oracle:
    """A running JVM that answers one question at a time."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log

    @classmethod
    @contextlib.contextmanager
    def started(cls, log: Path) -> Iterator[Oracle]:
        """The JVM lives as long as the block; what it says on stderr goes to `log`."""
        prepare()
        with log.open("w") as errors:
            process = subprocess.Popen(
                [HERE / "run", "serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(),
                encoding="utf-8",
            )
        with process:
            yield cls(process, log)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=240)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def ask(self, op: str, **arguments: Any) -> Any:
        """One operation in the oracle's own words; arguments that are None are left out."""
        question = {"op": op} | {key: plain(value) for key, value in arguments.items() if value is not None}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the oracle's JVM is gone: {self._log.read_text(errors='replace')[-2000:]}")
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise JavaRefused(question, answer["error"], answer["trace"])
        return answer

    # ------------------------------------------------------------------------------------------ reading

    def read(
        self,
        path: Path,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: int | None = None,
        branch: str | None = None,
        options: Mapping[str, str] | None = None,
        buckets: bool = False,
        where: Sequence[Any] | None = None,
    ) -> Relation:
        """The rows of a batch read; with `buckets` also the bucket each one came from.

        `where`: a condition as `predicate` of Oracle.java takes it. Java may return further rows.
        """
        place = {"snapshot": snapshot, "tag": tag, "timestamp": timestamp, "branch": branch}
        return relation(
            self.ask("read", path=path, options=options, buckets=buckets, where=where, **place), kinds=False
        )

    def system(self, path: Path, table: str, *, options: Mapping[str, str] | None = None) -> Relation:
        """A system table: snapshots, files, audit_log, ..."""
        return relation(self.ask("read", path=path, system=table, options=options), kinds=False)

    def incremental(self, path: Path, start: int | str, end: int | str, mode: str = "auto") -> Relation:
        """Changes after `start` up to and with `end` (snapshot ids or tags), with kinds."""
        return relation(self.ask("incremental", path=path, between=f"{start},{end}", mode=mode), kinds=True)

    def stream(
        self, path: Path, start: int | None = None, end: int | None = None, *, full: bool = False
    ) -> list[Change]:
        """Return the changes from snapshot `start` (included) to `end`; `full` begins with all rows of `start`."""
        answer = self.ask("stream", path=path, full=full, **{"from": start, "to": end})
        return [Change(part["snapshot"], relation({**answer, **part}, kinds=True)) for part in answer["changes"]]

    def info(self, path: Path, *, snapshot: int | None = None, branch: str | None = None) -> dict[str, Any]:
        """Keys, options, schemas, snapshots, tags, branches, consumers, statistics, files, index files."""
        return dict(self.ask("info", path=path, snapshot=snapshot, branch=branch))

    def files(self, path: Path, *, snapshot: int | None = None) -> list[dict[str, Any]]:
        """Live data files: partition, bucket, level, rows, keys, sequence range, statistics as [min, max, nulls]."""
        return list(self.ask("files", path=path, snapshot=snapshot)["files"])

    def vectors(
        self, types: Sequence[Type], rows: Rows, buckets: Sequence[int], function: str = "default"
    ) -> list[dict[str, Any]]:
        """BinaryRow bytes (hex), hash and buckets of keys."""
        answer = self.ask("vectors", types=types, rows=rows, buckets=buckets, function=function)
        return list(answer["vectors"])

    def tables(self, warehouse: Path) -> list[str]:
        return sorted(self.ask("tables", warehouse=warehouse)["tables"])

    # ------------------------------------------------------------------------------------------ writing

    def create(
        self,
        warehouse: Path,
        table: str,
        columns: Sequence[Sequence[Any]],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Path:
        """Make `database.table` of (name, type[, comment]) columns; gives its folder."""
        keys = {"pk": primary_keys, "partition": partition_keys}
        self.ask(
            "create", warehouse=warehouse, table=table, columns=columns, options=options or {}, comment=comment, **keys
        )
        database, _, name = table.partition(".")
        return warehouse / f"{database}.db" / name

    def alter(self, path: Path, changes: Sequence[Mapping[str, Any]]) -> None:
        """Kinds: add, rename, drop, type, nullability, comment, default, move, set, unset, table_comment."""
        self.ask("alter", path=path, changes=changes)

    def write(
        self,
        path: Path,
        rows: Rows,
        *,
        user: str | None = None,
        identifier: int | None = None,
        compact: str = "none",
        overwrite: Mapping[str, str] | None = None,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        branch: str | None = None,
        assigners: int | None = None,
    ) -> int:
        """Commit rows, each ("+I", value, ...); gives the latest snapshot's id. `compact`: none, auto or full.

        `assigners`: how many give out dynamic buckets side by side.
        """
        answer = self.ask(
            "write",
            path=path,
            rows=rows,
            user=user,
            identifier=identifier,
            compact=compact,
            overwrite=overwrite,
            watermark=watermark,
            properties=properties,
            options=options,
            branch=branch,
            assigners=assigners,
        )
        return int(answer["latest"])

    def compact(self, path: Path, *, full: bool = True, user: str | None = None, buckets: Sequence[int] = ()) -> int:
        answer = self.ask("compact", path=path, full=full, user=user, buckets=[str(bucket) for bucket in buckets])
        return int(answer["latest"])

    # ------------------------------------------------------------------------------------------ maintaining

    def tag(self, path: Path, name: str, snapshot: int | None = None, *, retain: str | None = None) -> None:
        self.ask("tag", path=path, name=name, snapshot=snapshot, retain=retain)

    def delete_tag(self, path: Path, name: str) -> None:
        self.ask("delete_tag", path=path, name=name)

    def branch(self, path: Path, name: str, tag: str | None = None) -> None:
        self.ask("branch", path=path, name=name, tag=tag)

    def fast_forward(self, path: Path, branch: str) -> None:
        self.ask("fast_forward", path=path, name=branch)

    def rollback(self, path: Path, *, snapshot: int | None = None, tag: str | None = None) -> None:
        self.ask("rollback", path=path, snapshot=snapshot, tag=tag)

    def expire(self, path: Path, *, retain: int, changelog_retain: int | None = None) -> int:
        """Keep the newest `retain` snapshots; gives the number expired."""
        return int(self.ask("expire", path=path, retain=retain, changelog_retain=changelog_retain)["expired"])

    def consumer(self, path: Path, name: str, next_snapshot: int) -> None:
        self.ask("consumer", path=path, name=name, next=next_snapshot)

    def truncate(self, path: Path) -> None:
        self.ask("truncate", path=path)

    def drop_partition(self, path: Path, partition: Mapping[str, str]) -> None:
        self.ask("drop_partition", path=path, partition=partition)

    def compact_manifests(self, path: Path) -> None:
        self.ask("compact_manifests", path=path)

    def analyze(self, path: Path) -> None:
        self.ask("analyze", path=path)


def plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else value


def relation(answer: Mapping[str, Any], *, kinds: bool) -> Relation:
    rows = answer["rows"]
    return Relation(
        columns=tuple(answer["columns"]),
        types=tuple(answer["types"]),
        rows=[row[1:] for row in rows] if kinds else rows,
        kinds=[row[0] for row in rows] if kinds else None,
        buckets=answer.get("buckets"),
    )
