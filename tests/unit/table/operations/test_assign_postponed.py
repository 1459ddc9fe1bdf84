"""Rows that wait for their bucket (bucket = -2), and the compaction that gives them one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.storage.environment import Environment
from penstock.table.handle import Table
from tests.invariants import check_invariants
from tests.unit.table.tables import content, new_table, rows

COLUMNS = [("id", "INT NOT NULL"), ("v", "INT")]


@pytest.mark.parametrize("levels", [{}, {"num-levels": "2"}])
@pytest.mark.parametrize("write_only", ["false", "true"])
@pytest.mark.parametrize(
    "compaction",
    [
        {},
        {"full-compaction.delta-commits": "3"},
        {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
        {"changelog-producer": "full-compaction"},
        {"changelog-producer": "lookup"},
    ],
)
def test_postponed_rows_become_visible_by_a_compaction(
    tmp_path: Path, compaction: dict[str, str], write_only: str, levels: dict[str, str]
) -> None:
    options = {"bucket": "-2", "write-only": write_only, **compaction, **levels}
    table = new_table(tmp_path, COLUMNS, options=options)
    expected = {}
    for number in range(1, 6):
        with table.writer(commit_user="etl") as writer:
            writer.write(rows(table, (number, number), (1, number)))
            writer.commit(number)
        expected |= {number: number, 1: number}
        if number in {2, 5}:
            table.compact()
            assert dict(content(table)) == expected
            assert len(content(table)) == len(expected)
    check_invariants(table)


def test_writers_of_postponed_rows_do_not_conflict(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, options={"bucket": "-2"})
    with table.writer(commit_user="one") as first, table.writer(commit_user="two") as two:
        first.write(rows(table, (1, 1)))
        two.write(rows(table, (2, 2)))
        first.commit(1)
        two.commit(1)
    table.compact()
    assert content(table) == [(1, 1), (2, 2)]


def test_rows_of_hosts_with_different_clocks_are_merged_in_the_order_of_their_commits(tmp_path: Path) -> None:
    table = new_table(tmp_path, COLUMNS, options={"bucket": "-2"})
    for place, millis in enumerate((5_000_000, 1_000_000, 3_000_000)):
        environment = Environment(now_millis=lambda millis=millis: millis)  # type: ignore[misc]
        with Table(replace(table.store, ambient=environment)).writer() as writer:
            writer.write(rows(table, (1, place)))
            writer.commit()
    table.compact()
    assert content(table) == [(1, 2)]


@pytest.mark.slow
def test_a_delete_reports_the_rows_that_wait_for_their_bucket(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = new_table(tmp_path, COLUMNS, options={"bucket": "-2", "write-only": "true"})
    for number in (1, 2):
        with table.writer() as writer:
            writer.write(rows(table, (number, number)))
            writer.commit()
        if number == 1:
            table.compact()
    table.delete("id < 9")
    assert "rows=1: DELETE does not see rows that wait for their bucket" in caplog.text
    table.compact()
    assert content(table) == [(2, 2)]
    caplog.clear()
    table.delete("id = 1")
    assert not caplog.text
