"""Checks of the kind of server: clusters, clouds and proxies write another binlog than a single server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.ingest.database.findings import ServerFinding, error_finding, warning_finding
from penstock.ingest.mysql.errors import BinlogDisabled
from penstock.ingest.mysql.server.table_checks import setting_statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.ingest.mysql.server.connection import ServerFacts

SETTINGS = (
    "aurora_version",
    "basedir",
    "log_replica_updates",
    "log_slave_updates",
    "sync_binlog",
    "version",
    "version_comment",
    "wsrep_gtid_mode",
    "wsrep_on",
)
_RDS_FOLDER = "/rdsdbbin"


def logs_replicated(settings: Mapping[str, str]) -> str:
    """Return whether the server logs changes of other servers, as the setting says."""
    # MySQL renamed the setting in 8.0.26; MariaDB has the old name.
    return settings.get("log_replica_updates") or settings.get("log_slave_updates") or "ON"


def check_kind(facts: ServerFacts, settings: Mapping[str, str]) -> Iterator[ServerFinding]:
    """Yield findings on Vitess, Galera, Amazon's servers, and on a binlog whose end a crash may lose."""
    seen = f"{settings.get('version', '')} {settings.get('version_comment', '')}".strip()
    if "vitess" in seen.lower():
        fix = "read the MySQL server of each shard, or Kafka topics that Debezium's connector for Vitess writes"
        yield error_finding(SourceError, "this is Vitess, which offers no binlog", seen, "a MySQL server", fix)
        return
    if settings.get("wsrep_on") == "ON":
        yield from _galera(facts, settings)
    if "aurora_version" in settings or settings.get("basedir", "").startswith(_RDS_FOLDER):
        fix = "CALL mysql.rds_set_configuration('binlog retention hours', 168);  -- and connect to the writer"
        yield warning_finding(
            SourceError,
            "Amazon's servers remove binlogs as soon as they can, which no variable shows",
            seen,
            "binlogs that are kept for days",
            fix,
        )
    if (syncs := settings.get("sync_binlog", "1")) != "1":
        fix = setting_statement(facts, "sync_binlog", 1, "a crash then loses nothing that a pipeline has read")
        problem = "a crash of the server may lose the end of its binlog, which the pipeline has read by then"
        yield warning_finding(SourceError, problem, f"sync_binlog = {syncs}", "1", fix)


def _galera(facts: ServerFacts, settings: Mapping[str, str]) -> Iterator[ServerFinding]:
    logged = logs_replicated(settings)
    if logged != "ON":
        name = "log_slave_updates" if facts.is_mariadb else "log_replica_updates"
        fix = f"start the node with {name}=ON (needs a restart)"
        problem = "this node of a Galera cluster does not log the changes of other nodes"
        yield error_finding(BinlogDisabled, problem, logged, "ON", fix)
    if facts.is_mariadb and settings.get("wsrep_gtid_mode") != "ON":
        fix = "SET GLOBAL wsrep_gtid_mode = ON on all nodes, or set hostname to the address of one node"
        problem = "the nodes of this Galera cluster number transactions differently: a pipeline cannot change nodes"
        yield warning_finding(SourceError, problem, settings.get("wsrep_gtid_mode"), "wsrep_gtid_mode = ON", fix)
