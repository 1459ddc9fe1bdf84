"""An address that leads to several servers: rows are not read on one that lacks changes which were read before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.ingest.database.findings import ConnectionLost
from penstock.ingest.postgres.read_range import PLANNED
from penstock.ingest.postgres.server.connection import connected
from penstock.ingest.postgres.server.lsn import lsn_text
from penstock.ingest.postgres.server.server_identity import require_read, server_identity
from penstock.ingest.postgres.source import PgSource
from tests.integration.postgres.sync import PgPlayground, PgSync
from tests.integration.postgres.test_connection import address

pytestmark = pytest.mark.postgres


def test_a_server_must_have_the_log_from_which_the_changes_follow(server: PgPlayground) -> None:
    with connected(address(server)) as connection:
        found = server_identity(connection)
        require_read(connection, found.system, found.timeline, found.end)
        require_read(connection, found.system, 0, 0)  # offsets of former versions have no timeline
        for system, timeline, position in [
            ("1", found.timeline, found.end),
            (found.system, found.timeline + 1, found.end),
            (found.system, found.timeline, found.end + (1 << 40)),
        ]:
            with pytest.raises(ConnectionLost, match="on another server"):
                require_read(connection, system, timeline, position)


def test_rows_of_a_server_that_is_late_are_not_read(
    server: PgPlayground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.create("t", "id int PRIMARY KEY")
    server.run("INSERT INTO t VALUES (1)")
    sync, plan = PgSync(server, tmp_path, "t", ["table-name=t"]), PgSource.plan

    def late(source: PgSource, *given: Any) -> Any:
        found = plan(source, *given)
        for range_ in found:
            if PLANNED in range_.start:
                range_.start[PLANNED][2] = lsn_text(1 << 60)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(PgSource, "plan", late)
        with pytest.raises(ConnectionLost, match="on another server"):
            sync.run()
    sync.run()
    assert list(sync.rows("t")) == [1]
