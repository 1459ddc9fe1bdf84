"""The flags of the sync actions: one table that the parser, the help texts and the docs all read.

Imports nothing heavy, because the command line loads it at every start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from penstock.errors import ConfigError

Kind = Literal["text", "list", "bool", "pairs"]  # pairs: a repeated k=v; list: repeated, or separated by commas


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    help: str
    kind: Kind = "text"
    metavar: str | None = None
    required: bool = False
    has_effect: bool = True


def without_effect(*names: str, kind: Kind = "text") -> tuple[Flag, ...]:
    """Return flags that are accepted because Paimon's commands have them, and that change nothing here."""
    return tuple(Flag(name, "accepted without effect", kind, has_effect=False) for name in names)


TARGET = (
    Flag("warehouse", "folder or URL of the warehouse; the same as --catalog-conf warehouse=...", metavar="PATH"),
    Flag("database", "database of the warehouse; created if missing", metavar="NAME", required=True),
)
TABLE = Flag("table", "table of the warehouse; created if missing", metavar="NAME", required=True)

SHAPE = (
    Flag("partition-keys", "partition columns of new tables", "list", "A,B"),
    Flag("primary-keys", "primary key of new tables (default: the source's)", "list", "A,B"),
    Flag("computed-column", "computed column: 'dt=date_format(created, yyyy-MM-dd)'; may be repeated", "text", "DEF"),
    Flag(
        "metadata-column",
        "metadata columns, which say where a row came from; may be repeated or separated by commas",
        "list",
        "NAME",
    ),
    Flag("metadata-column-prefix", "prefix of the names of metadata columns", metavar="TEXT"),
    Flag("type-mapping", "options for the mapping of source types to table types", "list", "OPTION"),
    Flag("sync-primary-keys-from-source-schema", "use the source's key if no key is set (default: true)", "bool"),
)
NAMING = (
    Flag("table-prefix", "prefix of all table names", metavar="TEXT"),
    Flag("table-suffix", "suffix of all table names", metavar="TEXT"),
    Flag("table-prefix-db", "prefix for the tables of one source database; may be repeated", "pairs", "DB=TEXT"),
    Flag("table-suffix-db", "suffix for the tables of one source database; may be repeated", "pairs", "DB=TEXT"),
    Flag("table-mapping", "target name of one source table; may be repeated", "pairs", "SOURCE=TABLE"),
    Flag("including-tables", "source tables to capture, as a regular expression (default: .*)", metavar="REGEX"),
    Flag("excluding-tables", "source tables to exclude; wins over the included ones", metavar="REGEX"),
    Flag("including-dbs", "source databases to capture, as a regular expression (default: .*)", metavar="REGEX"),
    Flag("excluding-dbs", "source databases to exclude; wins over the included ones", metavar="REGEX"),
    Flag(
        "multiple-table-partition-keys", "partition columns for one source table; may be repeated", "pairs", "TABLE=A,B"
    ),
    Flag("ignore-incompatible", "skip tables that cannot store the types of the source (default: false)", "bool"),
    Flag("merge-shards", "write tables with the same name in several databases to one table (default: true)", "bool"),
    Flag("mode", "divided or combined; both have the same effect", metavar="MODE"),
    Flag("eager-init", "create a snapshot of every table with each batch, even without rows (default: false)", "bool"),
    Flag(
        "schema-init-max-read",
        "number of records to examine for creating tables before the first batch (default: 1000)",
        metavar="N",
    ),
)
CONFS = (
    Flag("catalog-conf", "option of the catalog; may be repeated", "pairs", "K=V"),
    Flag("table-conf", "option of new tables; may be repeated", "pairs", "K=V"),
)
RUNNING = (
    Flag("name", "name of the pipeline: used as commit user and for the checkpoint folder", metavar="NAME"),
    Flag("job-name", "the same as --name", metavar="NAME"),
    Flag("checkpoint", "folder of the checkpoint (default: <warehouse>/_penstock/<name>)", metavar="PATH"),
    Flag("trigger", "time between batches (default: 30s)", metavar="TIME"),
    Flag("until-caught-up", "read what the source contains now, commit, exit with code 0", "bool"),
    Flag("max-batch-rows", "maximum number of records per batch", metavar="N"),
    Flag("max-batch-bytes", "maximum number of bytes per batch", metavar="SIZE"),
    Flag("parallelism", "number of tasks per batch (default: all cores)", metavar="N"),
    Flag(
        "compaction",
        "inline: compact in the write tasks; background: in separate tasks (default: inline)",
        metavar="MODE",
    ),
    Flag("on-bad-record", "fail, skip or dead-letter (default: fail)", metavar="POLICY"),
    Flag("dead-letter-table", "table for bad records (default: __penstock_dead_letters)", metavar="NAME"),
    Flag(
        "max-bad-records",
        "maximum number of bad records per batch; the job stops beyond it (default: 1000)",
        metavar="N",
    ),
    Flag("max-bad-share", "maximum share of bad records, once there are more than ten (default: 0.1)", metavar="PART"),
    Flag("isolate", "park a table that fails, and continue with the others (default: false)", "bool"),
    Flag("retry", "let parked tables apply the batches they missed first (default: false)", "bool"),
    Flag("wait-for-data", "wait for a first record if the table does not exist yet (default: false)", "bool"),
    Flag(
        "accept-replay", "continue with a new checkpoint, although rows may be written twice (default: false)", "bool"
    ),
    Flag("resume-from-tables", "start a new checkpoint at the position of the tables (default: false)", "bool"),
    Flag("accept-gap", "continue where the source has deleted records, with a gap (default: false)", "bool"),
    Flag("from", "start position of a new checkpoint: earliest, latest or a time", metavar="PLACE"),
    Flag("master", "Spark master (default: this machine, all cores)", metavar="URL"),
    Flag("spark-conf", "setting of the Spark session; may be repeated", "pairs", "K=V"),
    Flag("json", "print the result as JSON", "bool"),
    *without_effect("force-start-flink-job", kind="bool"),
)
KAFKA = Flag(
    "kafka-conf", "option of the Kafka source: topic, value.format, properties.*; may be repeated", "pairs", "K=V"
)

MYSQL = Flag(
    "mysql-conf", "option of the MySQL source: hostname, username, database-name, ...; may be repeated", "pairs", "K=V"
)
INCLUDE_KEYLESS = Flag(
    "include-keyless",
    "tables without a key: append, leave-out or fail (default: leave-out; messages that say nothing of keys: append)",
    metavar="POLICY",
)
MYSQL_DDL = (
    Flag(
        "on-truncate",
        "TRUNCATE at the source: ignore, or delete-all to empty the table (default: ignore)",
        metavar="POLICY",
    ),
    Flag(
        "on-drop",
        (
            "a source table that is dropped, replaced or renamed to an excluded name: ignore, or delete-all to "
            "empty the table (default: ignore)"
        ),
        metavar="POLICY",
    ),
    Flag(
        "on-rename-column",
        "a renamed column at the source: add a new column, or rename the column with its values (default: add)",
    ),
    Flag(
        "resnapshot",
        "empty the tables and read them again, if the binlog is lost or unreliable (default: false)",
        "bool",
    ),
    Flag(
        "reset",
        "empty these tables and read their source again, while the others continue; may be repeated",
        "list",
        "TABLE",
    ),
    INCLUDE_KEYLESS,
)

POSTGRES = Flag(
    "postgres-conf",
    "option of the PostgreSQL source: hostname, username, database-name, slot.name, ...; may be repeated",
    "pairs",
    "K=V",
)
REREAD = tuple(flag for flag in MYSQL_DDL if flag.name in {"resnapshot", "reset"})

MYSQL_TABLE = (*TARGET, TABLE, *SHAPE, MYSQL, *MYSQL_DDL, *CONFS, *RUNNING)
MYSQL_DATABASE = (*TARGET, *SHAPE, *NAMING, MYSQL, *MYSQL_DDL, *CONFS, *RUNNING)
POSTGRES_TABLE = (*TARGET, TABLE, *SHAPE, POSTGRES, *REREAD, INCLUDE_KEYLESS, *CONFS, *RUNNING)
POSTGRES_DATABASE = (*TARGET, *SHAPE, *NAMING, POSTGRES, *REREAD, INCLUDE_KEYLESS, *CONFS, *RUNNING)
KAFKA_TABLE = (*TARGET, TABLE, *SHAPE, KAFKA, *CONFS, *RUNNING)
KAFKA_DATABASE = (*TARGET, *SHAPE, *NAMING, INCLUDE_KEYLESS, KAFKA, *CONFS, *RUNNING)


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """Split each text at its first `=` and trim both sides; the last value of a repeated key wins."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"Invalid key-value string '{text}'. Please use format 'key=value'")
        found[key.strip()] = value.strip()
    return found


def words(texts: Iterable[str]) -> tuple[str, ...]:
    """Return all comma-separated parts, in order."""
    return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())
