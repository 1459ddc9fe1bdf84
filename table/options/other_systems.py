"""Options of systems that Paimon writes to besides the table: Iceberg's metadata and a log system."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, Stops, TableOption, refused, reported
from penstock.table.options.kinds import COUNT, DURATION, FLAG, POSITIVE, TEXT, Kind, one_of

_NO_ICEBERG = "no Iceberg metadata is written"
_NO_LOG = "no log system is written or read"


def _of_iceberg(name: str, kind: Kind[object], default: str | None, meaning: str) -> TableOption[object]:
    return reported(f"metadata.iceberg.{name}", kind, default, meaning, _NO_ICEBERG, scope=Scope.ICEBERG)


OPTIONS: tuple[TableOption[object], ...] = (
    refused(
        "metadata.iceberg.storage",
        one_of("disabled", "table-location", "hadoop-catalog", "hive-catalog", "rest-catalog"),
        "disabled",
        "Writes Iceberg metadata beside each snapshot.",
        f"remove it: {_NO_ICEBERG}; Iceberg's readers would see an old table",
        scope=Scope.ICEBERG,
    ),
    _of_iceberg(
        "storage-location", one_of("table-location", "catalog-location"), None, "The location of the Iceberg metadata."
    ),
    _of_iceberg("format-version", POSITIVE, "2", "The version of Iceberg's format."),
    _of_iceberg("compaction.min.file-num", POSITIVE, "10", "The number of manifests at which they may be merged."),
    _of_iceberg("compaction.max.file-num", POSITIVE, "50", "The number of manifests at which they must be merged."),
    _of_iceberg("delete-after-commit.enabled", FLAG, "true", "Deletes old metadata."),
    _of_iceberg("previous-versions-max", COUNT, "0", "The number of old metadata versions that are kept."),
    _of_iceberg("uri", TEXT, None, "The URI of the Hive metastore."),
    _of_iceberg("hive-conf-dir", TEXT, None, "The folder with Hive's configuration."),
    _of_iceberg("hadoop-conf-dir", TEXT, None, "The folder with Hadoop's configuration."),
    _of_iceberg("manifest-compression", TEXT, "snappy", "The compression of its manifests."),
    _of_iceberg("manifest-legacy-version", FLAG, "false", "Writes manifests of Iceberg 1.4."),
    _of_iceberg("hive-client-class", TEXT, None, "The class of the metastore's client."),
    _of_iceberg("database", TEXT, None, "Names the database in the metastore."),
    _of_iceberg("table", TEXT, None, "Names the table in the metastore."),
    _of_iceberg("glue.skip-archive", FLAG, "false", "Keeps no old versions in AWS Glue."),
    _of_iceberg("hive-skip-update-stats", FLAG, "false", "Keeps no statistics in Hive."),
    _of_iceberg("rest.<name>", TEXT, None, "An option of a REST catalog."),
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
