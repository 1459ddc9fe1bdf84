"""Commits of transactions that were prepared before the pipeline began: an error, unless no table was read before."""

from __future__ import annotations

import logging
from typing import cast

import pytest

from penstock.ingest.mysql.binlog.log_plan import LogPlan
from penstock.ingest.mysql.binlog.prepared_transactions import LoneCommit
from penstock.ingest.mysql.errors import UnsupportedBinlogEvent
from penstock.ingest.mysql.lone_commits import check_lone_commits
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.settings import FollowSettings

AT = LogPosition("binlog.000001", 4)
CAPTURED = [("shop", "orders"), ("shop", "users")]


class Settings:
    def __init__(self, *, accept_gap: bool = False, reads_tables: bool = True) -> None:
        self.accept_gap, self.reads_tables = accept_gap, reads_tables


def check(
    settings: Settings, waiting: list[tuple[str, str]], prepared: tuple[str, ...] | None = (), commits: int = 1
) -> None:
    found = tuple(LoneCommit("x'61',x'',1", "binlog.000001", 100 + number) for number in range(commits))
    plan = LogPlan((), AT, prepared=prepared, lone_commits=found)
    before = Progress("server", AT, waiting=tuple(waiting), prepared=prepared)
    check_lone_commits(cast("FollowSettings", settings), before, plan, lambda: CAPTURED)


def test_a_commit_before_any_table_was_read_is_in_the_rows_of_all_tables() -> None:
    check(Settings(), CAPTURED)


@pytest.mark.parametrize("waiting", [[], CAPTURED[:1]])
def test_a_commit_after_a_table_was_read_is_an_error(waiting: list[tuple[str, str]]) -> None:
    with pytest.raises(UnsupportedBinlogEvent) as caught:
        check(Settings(), waiting)
    assert caught.value.facts["pos"] == 100
    assert "--resnapshot" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("settings", "prepared"),
    [(Settings(accept_gap=True), ()), (Settings(reads_tables=False), ()), (Settings(), None)],
    ids=["gap accepted", "tables not read", "offsets of former versions"],
)
def test_a_commit_that_may_concern_no_table_is_logged(
    settings: Settings, prepared: tuple[str, ...] | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        check(settings, [], prepared, commits=2)
    assert [record.getMessage() for record in caplog.records] == [
        "event=xa_rows_may_be_missing transactions=2 first=x'61',x'',1 file=binlog.000001 pos=100"
    ]


LATE = LoneCommit("x'62',x'',1", "binlog.000001", 300, (("shop", "users"),))


def test_a_commit_of_rows_that_one_table_lacks_is_an_error_once_this_table_was_read() -> None:
    plan, before = LogPlan((), AT, lone_commits=(LATE,)), Progress("server", AT)
    waiting = Progress("server", AT, waiting=(("shop", "users"),))
    check_lone_commits(cast("FollowSettings", Settings()), waiting, plan, lambda: CAPTURED)
    check_lone_commits(cast("FollowSettings", Settings()), before, plan, lambda: [("shop", "orders")])
    with pytest.raises(UnsupportedBinlogEvent) as caught:
        check_lone_commits(cast("FollowSettings", Settings()), before, plan, lambda: CAPTURED)
    assert caught.value.facts["tables"] == "shop.users"
    assert "snapshot TABLE" in (caught.value.hint or "")


def test_a_plan_without_such_commits_is_accepted() -> None:
    check(Settings(), [], commits=0)
