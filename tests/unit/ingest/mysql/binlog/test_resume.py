"""Whether the binlog of a server is still the one that a pipeline read."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.ingest.mysql.binlog import resume, server_positions
from penstock.ingest.mysql.errors import BinlogReset
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.server.connection import ServerFacts

UUID = "5b0b8d5a-0000-0000-0000-000000000001"
STORED = LogPosition("binlog.000003", 400, f"{UUID}:1-4000000000")
MYSQL = ServerFacts("mysql", (8, 4, 0), UUID, lower_case_names=False)
connection = cast("Any", None)


def answers(monkeypatch: pytest.MonkeyPatch, *, missing: str, owned: str) -> None:
    monkeypatch.setattr(resume, "ask", lambda *_: [(missing,)])
    monkeypatch.setattr(server_positions, "ask", lambda *_: [(owned,)])


@pytest.mark.parametrize("owned", ["", f"{UUID}:1#17"])
def test_a_binlog_that_lacks_billions_of_transactions_is_found_at_once(
    monkeypatch: pytest.MonkeyPatch, owned: str
) -> None:
    """After RESET BINARY LOGS: each transaction of the set was made a text, until no memory was left."""
    answers(monkeypatch, missing=STORED.gtid, owned=owned)
    with pytest.raises(BinlogReset):
        resume._check_same_log(connection, MYSQL, STORED)


def test_transactions_that_are_committing_are_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, missing=f"{UUID}:7-8", owned=f"{UUID}:7#17:8#18:9#19")
    resume._check_same_log(connection, MYSQL, STORED)
    answers(monkeypatch, missing=f"{UUID}:6-8", owned=f"{UUID}:7#17:8#18:9#19")
    with pytest.raises(BinlogReset):
        resume._check_same_log(connection, MYSQL, STORED)
