"""Partitions that a TRUNCATE of their own emptied."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any, cast

import pytest

from penstock.ingest.postgres.errors import NoFreeSlot
from penstock.ingest.postgres.server import emptied_partitions as module
from penstock.ingest.postgres.server.catalog import PgTableFacts
from penstock.ingest.postgres.server.emptied_partitions import emptied_partitions
from penstock.ingest.postgres.server.table_version import TableVersion

BEFORE = TableVersion(7, 2, files=30, parts=(20, 2, 30))  # partitions 10 and 20


class Server:
    """A server with the files of partitions, and a log with these lines of test_decoding."""

    def __init__(self, files: dict[int, int], *lines: str, tables: frozenset[str] = frozenset()) -> None:
        self.files, self.lines, self.looks = files, lines, 0
        self.tables = tables  # which exist beside the partitions

    def literal(self, text: str) -> str:
        return f"'{text}'"

    def rows(self, sql: str) -> list[tuple[str, ...]]:
        if "pg_partition_tree" in sql:
            leaves = [
                (str(oid), f"public.p{oid}", "t", str(file), "f" if file == oid else "t")
                for oid, file in self.files.items()
            ]
            return [("7", "public.t", "f", "0", "t"), *leaves]
        if "peek_changes" in sql:
            self.looks += 1
            return [(line,) for line in self.lines]
        if "to_regclass" in sql:
            return [() for name in re.findall(r"\('([^']*)'\)", sql) if name not in self.tables]
        assert "pg_drop_replication_slot" in sql
        return []


@pytest.fixture(autouse=True)
def log_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "reachable_end", lambda _: 20)
    monkeypatch.setattr(module, "copied_slot", lambda *_: "copy")


def emptied(server: Server) -> tuple[str, ...]:
    now = PgTableFacts(
        7,
        "public",
        "t",
        has_key=True,
        identity="d",
        rows=1,
        kind="p",
        files=sum(server.files.values()),
        parts=(1, 1, 1),
    )
    found = emptied_partitions(cast("Any", server), "slot", BEFORE, now)
    assert found.is_sure
    return found.names


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("table public.p10: TRUNCATE: (no-flags)", ("public.p10",)),
        ('table public."x, y", public.p10, public.p20: TRUNCATE: restart_seqs cascade', ("public.p10", "public.p20")),
        ("table public.t, public.p10, public.p20: TRUNCATE: (no-flags)", ()),
        ("table public.other: TRUNCATE: (no-flags)", ()),
        ("table public.x: INSERT: v[text]:'public.p10: TRUNCATE: (no-flags)' w[int]:1", ()),
    ],
)
def test_partitions_are_found_in_the_log(line: str, names: tuple[str, ...]) -> None:
    tables = frozenset({"public.t", "public.other"})
    assert emptied(Server({10: 11, 20: 20}, line, tables=tables)) == names


@pytest.mark.parametrize(
    ("files", "looks"),
    [
        ({10: 10, 20: 20}, 0),
        ({10: 10, 20: 20, 21: 21}, 1),
        ({10: 10, 20: 20, 21: 22}, 1),
        ({10: 10}, 1),
        ({10: 12, 20: 20}, 1),
    ],
)
def test_the_log_is_read_only_if_partitions_or_their_files_are_new(files: dict[int, int], looks: int) -> None:
    server = Server(files)
    assert emptied(server) == ()
    assert server.looks == looks


def test_a_partition_that_was_truncated_in_the_file_that_it_was_made_with_is_found() -> None:
    server = Server({10: 10, 20: 20, 21: 21}, "table public.p21: TRUNCATE: (no-flags)")
    assert emptied(server) == ("public.p21",)


@pytest.mark.parametrize("file", [21, 22])
def test_new_partitions_are_not_examined_without_a_free_slot(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, file: int
) -> None:
    def full(*_: object) -> str:
        raise NoFreeSlot("all slots are in use")

    monkeypatch.setattr(module, "copied_slot", full)
    with nullcontext() if file == 21 else pytest.raises(NoFreeSlot):
        assert emptied(Server({10: 10, 20: 20, 21: file})) == ()
    assert ("event=new_partitions_not_examined table=public.t" in caplog.text) is (file == 21)


@pytest.mark.parametrize(("exists", "names"), [(True, ()), (False, ("public.p10",))])
def test_a_partition_with_a_new_name_is_found_by_its_file(*, exists: bool, names: tuple[str, ...]) -> None:
    tables = frozenset({"public.old"} if exists else ())
    found = emptied(Server({10: 11, 20: 20}, "table public.old: TRUNCATE: (no-flags)", tables=tables))
    assert found == names
