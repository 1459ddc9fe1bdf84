"""Changes of tables between two plans: when they are noted, and when they are applied."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.ingest.postgres import altered_tables, definition_change
from penstock.ingest.postgres.altered_tables import applied, forgotten, noted, with_new
from penstock.ingest.postgres.offsets import AlteredTable, PgProgress
from penstock.ingest.postgres.server.catalog import PgTableFacts
from penstock.ingest.postgres.server.connection import PgConnection
from penstock.ingest.postgres.server.table_version import TableVersion
from penstock.ingest.postgres.settings import PgSettings
from penstock.ingest.postgres.snapshot.chunks import KeyChunk
from penstock.ingest.source import Barrier

T, U = ("public", "t"), ("public", "u")
PROGRESS = PgProgress(
    server="77",
    database="shop",
    slot="s",
    log=16,
    known=(T, U),
    versions={T: TableVersion(7, 2), U: TableVersion(8, 2)},
)
CHUNK = KeyChunk(7, *T, ("a",), ("integer",), ("1",), ("2",), 3)


def settings(**more: Any) -> PgSettings:
    chosen = dict.fromkeys(("fills_added_columns", "reads_tables"), True)
    others = dict.fromkeys(("shares_targets", "follows_truncate"), False)
    return cast("PgSettings", SimpleNamespace(**{**chosen, **others, **more}))


def facts(name: tuple[str, str], oid: int, columns: int = 2) -> PgTableFacts:
    return PgTableFacts(oid, *name, has_key=True, identity="d", rows=1, columns=columns)


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose log ends at 20, and whose added columns have values."""
    monkeypatch.setattr(altered_tables, "reachable_end", lambda _: 20)
    monkeypatch.setattr(definition_change, "filled_columns", lambda _, before, now: [f"c{now.columns}"])
    monkeypatch.setattr(
        altered_tables,
        "versions_of",
        lambda _, tables: {table.name: TableVersion(table.oid, table.columns) for table in tables},
    )


def note(progress: PgProgress, *tables: PgTableFacts, **more: Any) -> PgProgress:
    return noted(cast("PgConnection", None), settings(**more), progress, tables)


def test_nothing_is_noted_of_tables_that_are_the_same() -> None:
    assert note(PROGRESS, facts(T, 7), facts(U, 8)) == PROGRESS


def test_definitions_of_an_older_release_that_cannot_be_compared_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Columns, types or partitions that were altered while the release was replaced are not found."""
    now = [replace(facts(T, 7), marks=5), replace(facts(U, 8), marks=6)]
    older = replace(PROGRESS, versions={T: TableVersion(7, 2), U: TableVersion(8, 2, marks=6)})
    note(older, *now)
    assert "event=definitions_not_compared tables=1 " in caplog.text
    caplog.clear()
    note(replace(PROGRESS, versions={T: TableVersion(7, 2, marks=5), U: TableVersion(8, 2, marks=6)}), *now)
    assert not caplog.text


def test_a_table_that_is_missing_or_created_again_was_dropped_and_noted_once() -> None:
    found = note(PROGRESS, facts(T, 9))
    assert found.altered == (AlteredTable("drop", T, 20), AlteredTable("drop", U, 20))
    assert found.versions == PROGRESS.versions
    assert note(found, facts(T, 9)) == found


def test_columns_that_are_added_twice_before_the_log_has_passed_are_filled_once() -> None:
    found = note(PROGRESS, facts(T, 7, 3), facts(U, 8))
    assert found.altered == (AlteredTable("added-columns", T, 20, ("c3",)),)
    again = note(found, facts(T, 7, 4), facts(U, 8))
    assert again.altered == (AlteredTable("added-columns", T, 20, ("c3", "c4")),)
    assert again.versions[T].columns == 4


def test_a_table_that_is_altered_and_dropped_is_not_filled() -> None:
    altered = note(PROGRESS, facts(T, 7, 3), facts(U, 8))
    assert note(altered, facts(U, 8)).altered == (AlteredTable("drop", T, 20),)


@pytest.mark.parametrize("more", [{"fills_added_columns": False}, {"reads_tables": False}])
def test_columns_stay_null_with_settings_that_do_not_fill_them(more: dict[str, bool]) -> None:
    found = note(PROGRESS, facts(T, 7, 3), facts(U, 8), **more)
    assert (found.altered, found.versions[T].columns) == ((), 3)


def test_changes_are_applied_once_the_log_has_passed_them() -> None:
    noted_ = replace(PROGRESS, altered=(AlteredTable("added-columns", T, 20, ("c",)), AlteredTable("drop", U, 30)))
    assert applied(settings(follows_drop=True), replace(noted_, log=19)) is None
    first = applied(settings(follows_drop=True), replace(noted_, log=20))
    assert first is not None
    assert first.batch.barriers == (Barrier("added-columns", *T, (("c", "c"),)),)
    assert (first.altered, first.known) == (noted_.altered[1:], (T, U))
    second = applied(settings(follows_drop=True), replace(first, log=30))
    assert second is not None
    assert (second.batch.barriers, second.known, list(second.versions)) == ((Barrier("drop", *U),), (T,), [T])


def test_a_drop_that_is_not_followed_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    found = applied(settings(follows_drop=False), replace(PROGRESS, altered=(AlteredTable("drop", T, 16),)))
    assert found is not None
    assert (found.batch.barriers, found.batch.ignored, found.known) == ((), ("drop",), (U,))
    assert "event=drop_not_followed table=public.t" in caplog.text


def test_a_table_that_is_forgotten_is_not_read_on() -> None:
    reading = replace(PROGRESS, waiting=(T, U), rest=CHUNK)
    assert forgotten(reading, [T]) == replace(
        PROGRESS, known=(U,), versions={U: TableVersion(8, 2)}, waiting=(U,), rest=None
    )


def test_a_new_table_that_is_altered_meanwhile_is_read_once_the_log_has_passed_it() -> None:
    found = with_new(cast("PgConnection", None), replace(PROGRESS, altered=()), [T])
    assert found.altered == (AlteredTable("new", T, 20),)
    assert (found.unread, found.is_settled) == ([T], False)
    altered = note(found, facts(T, 7, 3), facts(U, 8))
    assert altered.altered == (AlteredTable("new", T, 20),)
    read = applied(settings(follows_drop=True), replace(altered, log=20))
    assert read is not None
    assert (read.waiting, read.batch.barriers, read.altered) == ((T,), (), ())
    assert note(found, facts(U, 8)).altered == (AlteredTable("drop", T, 20),)


@pytest.mark.parametrize(
    ("key_marks", "shares", "wanted"),
    [
        (5, False, ("changed-values", ("a",), Barrier("changed-values", *T, (("a", "a"),)))),
        (6, False, ("replaced", (), Barrier("truncate", *T))),
        (6, True, ("changed-values", ("a", "id"), Barrier("changed-values", *T, (("a", "a"), ("id", "id"))))),
    ],
)
def test_a_table_whose_key_was_written_is_emptied_unless_it_has_other_sources(
    monkeypatch: pytest.MonkeyPatch, key_marks: int, shares: bool, wanted: tuple[str, tuple[str, ...], Barrier]
) -> None:
    before = TableVersion(7, 2, ("id",), "", 10, 20, 5)
    now = replace(before, files=11, marks=21, key_marks=key_marks)
    monkeypatch.setattr(altered_tables, "versions_of", lambda *_: {T: now})
    monkeypatch.setattr(definition_change, "last_changed_columns", lambda *_: ["a"])
    progress = replace(PROGRESS, known=(T,), versions={T: before})
    found = note(progress, replace(facts(T, 7), files=11, marks=21), shares_targets=shares)
    kind, columns, barrier = wanted
    assert [(altered.kind, altered.columns, altered.barrier) for altered in found.altered] == [(kind, columns, barrier)]
    assert found.versions[T] == now
    passed = applied(settings(follows_drop=False), replace(found, log=20))
    assert passed is not None
    assert passed.batch.barriers == (barrier,)
    assert passed.waiting == ((T,) if kind == "replaced" else ())
