"""The progress of a pipeline that continues on another server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.ingest.mysql.binlog.log_plan import PlanLimits
from penstock.ingest.mysql.binlog.plan import RangePlanner
from penstock.ingest.mysql.ddl.history import SchemaHistory
from penstock.ingest.mysql.offsets import Progress
from penstock.ingest.mysql.position import LogPosition
from penstock.ingest.mysql.resumed_progress import moved_to_server
from penstock.ingest.mysql.server.connection import ServerFacts
from tests.binlog_files import file_segments
from tests.unit.ingest.mysql.logs import LOGS

BEGUN = 1_763_800_000


@pytest.mark.parametrize("log", ["mysql-plain", "mariadb-plain"])
def test_a_file_that_two_servers_began_in_one_second_is_read_from_its_first_event(log: str) -> None:
    is_mariadb = log.startswith("mariadb")
    found = [replace(segment, begun=BEGUN) for segment in file_segments(LOGS / f"{log}.000001", 4)]
    whole = RangePlanner(LogPosition(f"{log}.000001", 4), PlanLimits(), SchemaHistory(mariadb=is_mariadb)).plan(found)
    before = Progress("before", LogPosition(f"{log}.000001", 900, begun=BEGUN))
    facts = ServerFacts("mariadb" if is_mariadb else "mysql", (11, 8, 0), "now", lower_case_names=False)
    history = SchemaHistory(mariadb=is_mariadb)
    moved = moved_to_server(history, facts, before)
    plan = RangePlanner(moved.log, PlanLimits(by_gtid=moved.by_gtid), history).plan(found)
    assert [part.until for part in plan.ranges] == [part.until for part in whole.ranges]
    assert plan.ranges[0].start == int(found[0].pos[0])
