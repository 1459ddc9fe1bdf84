"""Commits that ended half way are completed: no row twice, none hidden, and no file of a snapshot deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import CommitConflict, StoreError
from penstock.storage.base import Storage
from penstock.storage.environment import seeded
from penstock.table.commit import committer as commits
from penstock.table.commit.attempt import commit_snapshot
from penstock.table.handle import Table
from penstock.table.meta.snapshot import CommitKind
from penstock.table.meta.store import TableStore
from penstock.table.operations.write import TableWriter
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

SHOWN_BY_COMPACTION: dict[str, Mapping[str, str]] = {
    "vectors": {"deletion-vectors.enabled": "true"},
    "lookup": {"changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row", "changelog-producer": "lookup"},
}
TABLES: dict[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "append": ((), {"bucket": "-1"}),
    "keyed": (("id",), {"bucket": "1"}),
    **{name: (("id",), {"bucket": "1", **options}) for name, options in SHOWN_BY_COMPACTION.items()},
}


class Killed(BaseException):
    """The process is gone."""


class Away:
    """A store that loses the reply to the put of one snapshot, numbered from 1, and is away for some time after it."""

    def __init__(self, inner: Storage, put: int) -> None:
        self._inner, self._puts_left = inner, put
        self.is_away = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            if self.is_away:
                raise ConnectionError("the store is away")
            done = found(*arguments)
            if name == "create" and "/snapshot-" in arguments[0]:
                self._puts_left -= 1
                if self._puts_left == 0:
                    self.is_away = True
                    raise ConnectionError("the reply was lost")
            return done

        return call


def die_between_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def land(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            raise Killed
        return plain(*arguments)

    plain = commit_snapshot
    monkeypatch.setattr(commits, "commit_snapshot", land)


def writer_of(table: Table, way: str) -> TableWriter:
    return table.writer(commit_user="job") if way == "write" else table.overwrite(commit_user="job")


@pytest.mark.parametrize("way", ["write", "overwrite"])
@pytest.mark.parametrize("name", SHOWN_BY_COMPACTION)
def test_a_replay_completes_the_compaction_of_a_killed_process(
    tmp_path: Path, name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path, options={"bucket": "1", **SHOWN_BY_COMPACTION[name]})
    with table.writer(commit_user="job") as writer:
        writer.write(rows(table, (1, "a", None), (2, "b", None)))
        writer.commit(0)

    def job() -> None:
        with writer_of(table.refresh(), way) as writer:
            writer.write(rows(table, (2, "c", None), (3, "d", None)))
            writer.commit(1)

    die_between_snapshots(monkeypatch)
    with pytest.raises(Killed):
        job()
    job()
    job()  # nothing is left to do
    second = "b" if name == "first-row" and way == "write" else "c"
    first = [(1, "a", None)] if way == "write" else []
    assert content(table.refresh()) == [*first, (2, second, None), (3, "d", None)]
    kinds = [snapshot.commit_kind for snapshot in table.refresh().snapshots]
    assert kinds[-2:] == [CommitKind.APPEND if way == "write" else CommitKind.OVERWRITE, CommitKind.COMPACT]
    check_invariants(table.refresh())


@pytest.mark.parametrize("waits", ["true", "false"])
def test_a_replay_completes_the_compaction_of_the_partition_that_a_key_left(
    tmp_path: Path, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [("id", "STRING NOT NULL"), ("p", "STRING NOT NULL"), ("v", "INT")]
    options = {"bucket": "-1", "changelog-producer": "lookup", "lookup-wait": waits}
    table = new_table(tmp_path, columns, partitions=("p",), options=options)

    def commit(number: int, partition: str) -> None:
        with table.refresh().writer(commit_user="job") as writer:
            writer.write(rows(table, ("1", partition, number)))
            writer.commit(number)

    commit(0, "a")
    with monkeypatch.context() as patch:
        die_between_snapshots(patch)
        with pytest.raises(Killed):
            commit(1, "b")
    commit(1, "b")
    newest = table.refresh().latest_snapshot
    assert newest is not None
    changes = [(row["rowkind"], row["p"]) for row in table.changes(0, newest.id).to_pylist()]
    assert changes == [("+I", "a"), ("-D", "a"), ("+I", "b")]
    check_invariants(table)


def test_a_replay_of_a_complete_commit_keeps_level_0_of_other_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path, options={"bucket": "1", "changelog-producer": "lookup"})

    def commit(user: str, key: int) -> None:
        with table.refresh().writer(commit_user=user) as writer:
            writer.write(rows(table, (key, "a", None)))
            writer.commit(1)

    commit("job", 1)
    with monkeypatch.context() as patch:
        die_between_snapshots(patch)
        with pytest.raises(Killed):
            commit("other", 2)
    commit("job", 1)
    done = [(snapshot.commit_user, snapshot.commit_kind) for snapshot in table.refresh().snapshots]
    assert done == [("job", CommitKind.APPEND), ("job", CommitKind.COMPACT), ("other", CommitKind.APPEND)]
    commit("other", 2)
    assert content(table.refresh()) == [(1, "a", None), (2, "a", None)]
    check_invariants(table.refresh())


@pytest.mark.parametrize("identifier", [None, 7])
@pytest.mark.parametrize("put", [1, 2])
@pytest.mark.parametrize("way", ["write", "overwrite"])
@pytest.mark.parametrize("name", TABLES)
def test_commit_messages_are_committed_again_after_a_store_outage(
    tmp_path: Path, name: str, way: str, put: int, identifier: int | None
) -> None:
    keys, options = TABLES[name]
    table = new_table(tmp_path, keys=keys, options=options)
    writer = writer_of(table, way)
    writer.write(rows(table, (1, "a", None), (2, "b", None)))
    messages = writer.prepare(identifier)
    away = Away(table.store.storage, put)
    writer.store = TableStore.open(away, table.store.paths.root, ambient=seeded(5))  # type: ignore[arg-type]
    with contextlib.suppress(StoreError):  # where there is no second snapshot, nothing fails
        writer.commit_messages(messages, identifier)
    failed, away.is_away = away.is_away, False
    if failed or identifier is not None:
        writer.commit_messages(messages, identifier)
    assert content(table.refresh()) == [(1, "a", None), (2, "b", None)]
    check_invariants(table.refresh())


@pytest.mark.parametrize("name", ["vectors", "lookup"])
@pytest.mark.parametrize("way", ["overwrite", "rescale"])
def test_an_overwrite_keeps_its_files_when_its_compaction_is_lost(
    tmp_path: Path, name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path, options={"bucket": "1", **SHOWN_BY_COMPACTION[name]})
    with table.writer() as writer:
        writer.write(rows(table, *((key, "a", None) for key in range(50))))
        writer.commit()
    plain, calls = commit_snapshot, []

    def land(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 2:
            monkeypatch.setattr(commits, "commit_snapshot", plain)
            assert table.refresh().compact()
        return plain(*arguments)

    monkeypatch.setattr(commits, "commit_snapshot", land)
    if way == "overwrite":
        with table.overwrite() as writer:
            writer.write(rows(table, *((key, "b", None) for key in range(20))))
    else:
        table.rescale(2)
    assert len(calls) == 2
    assert len(content(table.refresh())) == (20 if way == "overwrite" else 50)
    check_invariants(table.refresh())


def test_a_conflict_after_an_unknown_result_deletes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path)
    writer = table.writer(commit_user="job")
    writer.write(rows(table, (1, "a", None)))
    messages = writer.prepare(7)
    outcomes: list[Exception] = [TimeoutError("no answer"), CommitConflict("a rule")]

    def land(*arguments: Any) -> Any:
        raise outcomes.pop(0)

    with monkeypatch.context() as patch:
        patch.setattr(commits, "commit_snapshot", land)
        for error in (StoreError, CommitConflict):
            with pytest.raises(error):
                writer.commit_messages(messages, 7)
    assert list(tmp_path.rglob("data-*"))
    writer.commit_messages(messages, 7)
    assert content(table.refresh()) == [(1, "a", None)]
