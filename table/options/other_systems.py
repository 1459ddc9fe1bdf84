"""Options of the log system that Paimon writes to besides the table."""

from __future__ import annotations

from penstock.table.options.declaration import Stops, TableOption, refused, reported
from penstock.table.options.kinds import DURATION, FLAG, POSITIVE, TEXT, one_of

_NO_LOG = "no log system is written or read"


OPTIONS: tuple[TableOption[object], ...] = (
    refused(
        # Writes are refused too: readers of the log would miss rows that are only in the table.
        "log.system",
        TEXT,
        "none",
        "Writes all changes to Kafka as well.",
        f"remove it: {_NO_LOG}; streams read the table's changelog",
        stops=Stops.WRITING,
    ),
    reported("log.system.partitions", POSITIVE, "1", "The number of partitions of the topic.", _NO_LOG),
    reported("log.system.replication", POSITIVE, "1", "The replication of the topic.", _NO_LOG),
    reported("log.system.auto-register", FLAG, "false", "Creates the topic.", _NO_LOG),
    reported(
        "log.system.auto-register-timeout", DURATION, "1 min", "The longest time for creating the topic.", _NO_LOG
    ),
    reported(
        "log.consistency", one_of("transactional", "eventual"), "transactional", "When rows are visible.", _NO_LOG
    ),
    reported("log.changelog-mode", one_of("auto", "all", "upsert"), "auto", "Which changes are written.", _NO_LOG),
    reported("log.key.format", TEXT, "json", "The format of keys.", _NO_LOG),
    reported("log.format", TEXT, "debezium-json", "The format of values.", _NO_LOG),
    reported("log.ignore-delete", FLAG, "false", "Ignores deletes.", _NO_LOG),
    reported("kafka.bootstrap.servers", TEXT, None, "The addresses of the Kafka brokers.", _NO_LOG),
    reported("kafka.topic", TEXT, None, "Names the topic.", _NO_LOG),
)
