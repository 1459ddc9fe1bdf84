"""The flags of the sync actions: one table that the parser, the help texts and the docs all read.

Imports nothing heavy, because the command line loads it at every start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "list", "bool", "pairs"]  # pairs: a repeated k=v; list: repeated, or separated by commas


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    help: str
    kind: Kind = "text"
    metavar: str | None = None
    required: bool = False


TARGET = (
    Flag("warehouse", "folder or URL of the warehouse; short for --catalog-conf warehouse=...", metavar="PATH"),
    Flag("database", "database of the warehouse; made when missing", metavar="NAME", required=True),
)
TABLE = Flag("table", "table of the warehouse; made when missing", metavar="NAME", required=True)

SHAPE = (
    Flag("partition-keys", "columns that partition new tables", "list", "A,B"),
    Flag("primary-keys", "key of new tables; default: the source's", "list", "A,B"),
    Flag("computed-column", "a column made from others: 'dt=date_format(created, yyyy-MM-dd)'; repeat", "text", "DEF"),
    Flag("metadata-column", "columns that tell where a row came from; repeat or separate by commas", "list", "NAME"),
    Flag("metadata-column-prefix", "put before the names of metadata columns", metavar="TEXT"),
    Flag("type-mapping", "options for how source types become table types", "list", "OPTION"),
    Flag("sync-primary-keys-from-source-schema", "use the source's key where none is given (true)", "bool"),
)
NAMING = (
    Flag("table-prefix", "put before each table's name", metavar="TEXT"),
    Flag("table-suffix", "put after each table's name", metavar="TEXT"),
    Flag("table-prefix-db", "prefix for the tables of one source database; repeat", "pairs", "DB=TEXT"),
    Flag("table-suffix-db", "suffix for the tables of one source database; repeat", "pairs", "DB=TEXT"),
    Flag("table-mapping", "name for one source table; repeat", "pairs", "SOURCE=TABLE"),
    Flag("including-tables", "source tables to take, a regular expression (.*)", metavar="REGEX"),
    Flag("excluding-tables", "source tables to leave out; wins", metavar="REGEX"),
    Flag("including-dbs", "source databases to take, a regular expression (.*)", metavar="REGEX"),
    Flag("excluding-dbs", "source databases to leave out; wins", metavar="REGEX"),
    Flag("multiple-table-partition-keys", "partition columns for one source table; repeat", "pairs", "TABLE=A,B"),
    Flag("ignore-incompatible", "leave out tables that cannot hold what the source declares (false)", "bool"),
    Flag("merge-shards", "tables of one name in several databases become one table (true)", "bool"),
    Flag("mode", "divided or combined; both work the same here", metavar="MODE"),
    Flag("eager-init", "a snapshot for every table with each batch, empty where there are no rows (false)", "bool"),
    Flag("schema-init-max-read", "records looked at to make the tables before the first batch (1000)", metavar="N"),
)
CONFS = (
    Flag("catalog-conf", "option of the catalog; repeat", "pairs", "K=V"),
    Flag("table-conf", "option of the tables; repeat", "pairs", "K=V"),
)
RUNNING = (
    Flag("name", "name of the pipeline: its commit user, its checkpoint folder", metavar="NAME"),
    Flag("job-name", "the same as --name", metavar="NAME"),
    Flag("checkpoint", "folder of the checkpoint (<warehouse>/_penstock/<name>)", metavar="PATH"),
    Flag("trigger", "time between batches (30s)", metavar="TIME"),
    Flag("until-caught-up", "take what is there now, commit, exit 0", "bool"),
    Flag("max-batch-rows", "records in one batch at most", metavar="N"),
    Flag("max-batch-bytes", "bytes in one batch at most", metavar="SIZE"),
    Flag("parallelism", "tasks per batch (all cores)", metavar="N"),
    Flag("compaction", "inline: by the tasks that write; background: beside them (inline)", metavar="MODE"),
    Flag("on-bad-record", "fail, skip or dead-letter (fail)", metavar="POLICY"),
    Flag("dead-letter-table", "table that keeps bad records (__penstock_dead_letters)", metavar="NAME"),
    Flag("max-bad-records", "bad records in one batch at most, else the job stops (1000)", metavar="N"),
    Flag("max-bad-share", "share of bad records at most, once there are more than ten (0.1)", metavar="PART"),
    Flag("isolate", "a table that fails is parked, the others go on (false)", "bool"),
    Flag("retry", "have parked tables take first what went by without them (false)", "bool"),
    Flag("wait-for-data", "wait for a first record where the table does not exist yet (false)", "bool"),
    Flag("accept-replay", "go on with a new checkpoint though rows may come twice (false)", "bool"),
    Flag("resume-from-tables", "start a new checkpoint where the tables are (false)", "bool"),
    Flag("accept-gap", "go on where records are gone at the source, with a hole (false)", "bool"),
    Flag("from", "where a new checkpoint begins: earliest, latest or a time", metavar="PLACE"),
    Flag("master", "Spark's master (this machine, all cores)", metavar="URL"),
    Flag("spark-conf", "setting of the Spark session; repeat", "pairs", "K=V"),
    Flag("json", "say at the end, as JSON, what was done", "bool"),
    Flag("force-start-flink-job", "accepted, no effect", "bool"),
)
KAFKA = Flag("kafka-conf", "option of the Kafka source: topic, value.format, properties.*; repeat", "pairs", "K=V")

MYSQL = Flag("mysql-conf", "option of the MySQL source: hostname, username, database-name, ...; repeat", "pairs", "K=V")
INCLUDE_KEYLESS = Flag(
    "include-keyless",
    "tables without a key: append, leave-out or fail (MySQL leave-out, else append)",
    metavar="POLICY",
)
MYSQL_DDL = (
    Flag("on-truncate", "ignore, or delete-all: a table emptied at the source is emptied (ignore)", metavar="POLICY"),
    Flag(
        "on-drop",
        "ignore, or delete-all: a table dropped, replaced or renamed away is emptied (ignore)",
        metavar="POLICY",
    ),
    Flag("on-rename-column", "add: a new column beside the old one; rename: the column keeps its rows (add)"),
    Flag("resnapshot", "empty the tables and read them again, where the log is gone or in doubt (false)", "bool"),
    Flag("reset", "empty these tables and read their source again, beside the others; repeat", "list", "TABLE"),
    INCLUDE_KEYLESS,
)

MYSQL_TABLE = (*TARGET, TABLE, *SHAPE, MYSQL, *MYSQL_DDL, *CONFS, *RUNNING)
MYSQL_DATABASE = (*TARGET, *SHAPE, *NAMING, MYSQL, *MYSQL_DDL, *CONFS, *RUNNING)
KAFKA_TABLE = (*TARGET, TABLE, *SHAPE, KAFKA, *CONFS, *RUNNING)
KAFKA_DATABASE = (*TARGET, *SHAPE, *NAMING, INCLUDE_KEYLESS, KAFKA, *CONFS, *RUNNING)
