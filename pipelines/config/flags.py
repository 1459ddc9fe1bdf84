"""The flags of the sync actions: the flags of every pipeline, and flags that the kind of source adds.

Imports nothing heavy, because the command line loads it at every start.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ingest.sync_actions import SYNC_ACTIONS, Flag, FlagKind, SyncActions


def without_effect(*names: str, kind: FlagKind = "text") -> tuple[Flag, ...]:
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
    Flag("computed-column", "computed column: 'dt=date_format(created, yyyy-MM-dd)'; may be repeated", "texts", "DEF"),
    Flag(
        "metadata-column",
        "metadata columns, which say where a row came from; may be repeated or separated by commas",
        "list",
        "NAME",
    ),
    Flag("metadata-column-prefix", "prefix of the names of metadata columns", metavar="TEXT"),
    Flag("type-mapping", "options for the mapping of source types to table types", "list", "OPTION"),
    Flag(
        "deletes",
        "hard; soft: deleted rows stay, marked; history: every version of a row stays (default: hard)",
        metavar="KIND",
    ),
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
    Flag("parallelism", "number of tasks of a batch that Spark runs (default: all cores)", metavar="N"),
    Flag(
        "spark",
        "when-needed: batches of up to a million records run without Spark; always: none do (default: when-needed)",
        metavar="MODE",
    ),
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
_TABLE, _DATABASE = "-sync-table", "-sync-database"


@dataclass(frozen=True, slots=True)
class SyncAction:
    """One command of a kind of source, such as kafka-sync-table."""

    name: str
    actions: SyncActions

    @property
    def writes_one_table(self) -> bool:
        return self.name.endswith(_TABLE)

    @property
    def flags(self) -> tuple[Flag, ...]:
        own = self.actions
        if self.writes_one_table:
            return (*TARGET, TABLE, *SHAPE, *own.flags, *CONFS, *RUNNING)
        return (*TARGET, *SHAPE, *NAMING, *own.database_flags, *own.flags, *CONFS, *RUNNING)

    @property
    def description(self) -> str:
        if self.writes_one_table:
            return f"write {self.actions.tables} to one table"
        return f"write {self.actions.database} to one table per source table"

    @property
    def example(self) -> str:
        own, target = self.actions, "--warehouse /lake --database ods"
        parts = [target, own.example, own.database_example]
        if self.writes_one_table:
            parts = [f"{target} --table orders", own.example, own.table_example]
        return " ".join(["penstock", self.name, *filter(None, parts)])


def sync_action(name: str) -> SyncAction | None:
    """Return the action of this name, of Penstock or of a package; None if the name is unknown."""
    for form in (_TABLE, _DATABASE):
        if name.endswith(form):
            found = SYNC_ACTIONS.find(name.removesuffix(form))
            return None if found is None else SyncAction(name, found)
    return None


def built_in_actions() -> dict[str, SyncAction]:
    """Return Penstock's own actions. To find actions of packages takes too long at each start of the command line."""
    types = {name: SYNC_ACTIONS.find(name) for name in SYNC_ACTIONS.built_in}
    return _by_name({name: found for name, found in types.items() if found is not None})


def all_actions() -> dict[str, SyncAction]:
    """Return all actions, except the actions of packages that cannot be imported."""
    return _by_name(SYNC_ACTIONS.importable())


def _by_name(types: dict[str, SyncActions]) -> dict[str, SyncAction]:
    found = [SyncAction(f"{name}{form}", actions) for name, actions in types.items() for form in (_TABLE, _DATABASE)]
    return {action.name: action for action in found}
