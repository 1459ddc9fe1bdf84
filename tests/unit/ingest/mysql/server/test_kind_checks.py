from __future__ import annotations

import pytest

from penstock.ingest.mysql.server.connection import ServerFacts
from penstock.ingest.mysql.server.kind_checks import check_kind

MYSQL = ServerFacts("mysql", (8, 4, 3), "uuid", lower_case_names=False)
MARIADB = ServerFacts("mariadb", (11, 4, 2), "1", lower_case_names=False)
# As these servers show them; none of them can be started by the tests.
SAFE = {"version": "8.4.3", "version_comment": "MySQL Community Server - GPL", "basedir": "/usr/", "sync_binlog": "1"}
GALERA = {"wsrep_on": "ON", "log_slave_updates": "ON", "wsrep_gtid_mode": "ON", "sync_binlog": "1"}


def test_an_ordinary_server_has_no_findings() -> None:
    assert list(check_kind(MYSQL, SAFE)) == []
    assert list(check_kind(MARIADB, {**SAFE, "wsrep_on": "OFF", "log_slave_updates": "OFF"})) == []


@pytest.mark.parametrize(
    ("facts", "settings", "found"),
    [
        (MYSQL, {"version": "8.0.30-Vitess"}, [("error", "this is Vitess")]),
        (MYSQL, {"version_comment": "Version: 21.0.0 Vitess"}, [("error", "this is Vitess")]),
        (MARIADB, GALERA, []),
        (MARIADB, {**GALERA, "wsrep_gtid_mode": "OFF"}, [("warning", "number transactions differently")]),
        (MARIADB, {**GALERA, "log_slave_updates": "OFF"}, [("error", "does not log the changes of other nodes")]),
        # Percona XtraDB Cluster has the same GTIDs on all nodes.
        (MYSQL, {"wsrep_on": "ON", "log_replica_updates": "ON", "sync_binlog": "1"}, []),
        (MYSQL, {**SAFE, "aurora_version": "3.05.2"}, [("warning", "remove binlogs as soon as they can")]),
        (MYSQL, {**SAFE, "basedir": "/rdsdbbin/mysql/"}, [("warning", "remove binlogs as soon as they can")]),
        (MARIADB, {**SAFE, "sync_binlog": "0"}, [("warning", "a crash of the server may lose the end of its binlog")]),
        (MYSQL, {**SAFE, "sync_binlog": "1000"}, [("warning", "a crash of the server may lose the end of its binlog")]),
    ],
)
def test_other_servers_are_named(facts: ServerFacts, settings: dict[str, str], found: list[tuple[str, str]]) -> None:
    findings = list(check_kind(facts, settings))
    assert len(findings) == len(found)
    for finding, (level, text) in zip(findings, found, strict=True):
        assert finding.level == level
        assert text in finding.message
        assert finding.fix
