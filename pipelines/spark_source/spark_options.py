"""The options of reads and writes by Spark: applied, refused by name with an alternative, or logged once."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ConfigError, nearest
from penstock.storage.catalog_options import is_catalog_option
from penstock.storage.options import is_store_option
from penstock.table.options.catalog import KEYS, find
from penstock.table.options.checks import check_given, report
from penstock.table.options.declaration import acts
from penstock.table.options.definition import BRANCH, PATH
from penstock.table.options.kinds import FLAG, TEXT, WHOLE, one_of
from penstock.table.options.spark import READ_CHANGELOG
from penstock.table.options.table_options import TableOptions
from penstock.table.system.tables import check_system_options

# Options of this format itself; all others override table options for this one read or write.
ROW_KIND = acts("rowkind", FLAG, "false", "Shows row kinds in a column rowkind.")
COMMIT_USER = acts("commit-user", TEXT, None, "Is the commit user of a write.")
COMMIT_IDENTIFIER = acts("commit-identifier", WHOLE, None, "Is the commit identifier of a write.")
OVERWRITE_PARTITION = acts("overwrite-partition", TEXT, None, "Names the partition that a write replaces.")
# In lower case, as all names of options that Spark passes.
OVERWRITE_MODE = acts(
    "partitionoverwritemode", one_of("static", "dynamic"), "static", "Says which partitions a write replaces."
)
# Options that a Spark catalog adds to the reads and writes of its tables.
CATALOG_TABLE = acts("catalog-table", TEXT, None, "Names the table in its catalog, as JSON.")
PLANNED_SNAPSHOT = acts(
    "planned-snapshot", WHOLE, None, "Is the snapshot that a statement reads, 0 for an empty table."
)
BASE_SNAPSHOT = acts("base-snapshot", WHOLE, None, "Is the snapshot whose rows an overwrite computes new ones from.")
ROW_CHANGES = acts("row-changes", TEXT, None, "Names a statement that writes kinds, old rows and new rows.")
CHANGES_BY_BUCKET = acts("changes-by-bucket", FLAG, "false", "Says that all changes of a bucket come to one task.")
ONLY_FIRST = acts("only-first-columns", WHOLE, None, "Is how many columns of the rows are written.")
# Options of streaming SQL.
STREAM_TABLE = acts("stream-table", WHOLE, None, "Is the number of a table in a query that is run as a stream.")
STREAM_RANGE = acts("stream-range", TEXT, None, "Names the offsets between which a stream is read, as JSON.")
STREAM_CHANGES = acts("stream-changes", FLAG, "false", "Says that the rows of a write are changes, with their numbers.")
COMMIT_PROPERTIES = acts("commit-properties", TEXT, None, "Are properties of a write's snapshot, as JSON.")
GLOBAL_TABLE = acts("global-table", TEXT, None, "Names a table of the database sys.")
_OF_CATALOGS = (
    CATALOG_TABLE,
    GLOBAL_TABLE,
    PLANNED_SNAPSHOT,
    BASE_SNAPSHOT,
    ROW_CHANGES,
    CHANGES_BY_BUCKET,
    ONLY_FIRST,
)
_OF_STREAMS = (STREAM_TABLE, STREAM_RANGE, STREAM_CHANGES, COMMIT_PROPERTIES)
_OF_WRITES = (COMMIT_USER, COMMIT_IDENTIFIER, OVERWRITE_PARTITION, OVERWRITE_MODE)
_OWN = (PATH, ROW_KIND, READ_CHANGELOG, BRANCH, *_OF_WRITES, *_OF_CATALOGS, *_OF_STREAMS)
OWN = tuple(option.key for option in _OWN)
# What Spark adds to the options of a user.
_OF_SPARK = {"checkpointlocation", "queryname", "provider", "location"}
# The options of a read that choose its snapshot, the columns that it shows, or how a stream reads: a Spark catalog
# learns them when a statement is analyzed.
_SHOWN = {ROW_KIND.key, READ_CHANGELOG.key, BRANCH.key}
_EARLY = ("scan.", "incremental-", "consumer", "read.stream.", "streaming")
READ_OPTIONS = tuple(key for key in (*KEYS, *OWN) if key.startswith(_EARLY) or key in _SHOWN)
_NAMES = sorted({*OWN, *KEYS})
# Names that other table formats use.
_MEANT = {"snapshot": "scan.snapshot-id", "snapshot-id": "scan.snapshot-id", "tag": "scan.tag-name"}
_MEANT |= {"versionasof": "scan.version", "timestampasof": "scan.timestamp", "as-of-timestamp": "scan.timestamp-millis"}
_ENDS = "use  trigger(availableNow=True)  to end a stream at the latest snapshot"
_WAITS = "set the polling interval with .trigger(processingTime='10 seconds') on the query"
_BOUNDED = "limit a batch with read.stream.maxRowsPerTrigger"
_ALTER = (
    "alter the table first: Catalog.alter_table, or a pipeline's schema evolution; in a catalog of Spark "
    "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT * FROM v, where v is a view of the rows"
)
# As table options these may be ignored; a user who sets them for a single query expects an effect.
_INSTEAD = {
    "scan.creation-time-millis": "use scan.timestamp-millis, or scan.file-creation-time-millis",
    "scan.bounded": _ENDS,
    "scan.bounded.watermark": _ENDS,
    "scan.partitions": "use .where(...) on the partition columns to read only some partitions",
    "scan.max-snapshot.count": _BOUNDED,
    "consumer.mode": "remove it: a consumer advances when its batch is done, which is exactly-once",
    "consumer.changelog-only": "remove it: snapshots that a consumer has not read do not expire",
    "continuous.discovery-interval": _WAITS,
    "streaming.read.snapshot.delay": _WAITS,
    "read.stream.maxfilespertrigger": _BOUNDED,
    "read.stream.maxbytespertrigger": _BOUNDED,
    "read.stream.minrowspertrigger": _WAITS,
    "read.stream.maxtriggerdelayms": _WAITS,
    "batch-scan-mode": "remove it: tasks read the files of one snapshot",
    "stream-scan-mode": "remove it: a stream reads snapshot by snapshot",
    "query-auth.enabled": "remove it: access is controlled by the permissions of the files",
    "mergeschema": _ALTER,
    "write.merge-schema": _ALTER,
    "write.merge-schema.explicit-cast": _ALTER,
}
# Options with which Spark loads a table. Those of writes are refused then: afterwards Spark compares the columns of the
# rows with the table, and ends with an error that does not name the option.
LOADING_OPTIONS = (*READ_OPTIONS, *(name for name, instead in _INSTEAD.items() if instead is _ALTER))
_TRAVELS = ("scan.", "incremental-", "consumer")


def check_options(given: Mapping[str, str]) -> None:
    """Raise ConfigError for unknown options and for options that would be silently ignored.

    Options of stores (keys, endpoints) and of catalogs are in the same mapping, and are checked when they are opened.
    """
    # The properties of an entry in Spark's own catalog, and what Spark notes there, come with each read.
    of_entry = {"provider", "location"} <= given.keys()
    for option in _OWN:
        TableOptions(given)[option]  # raises for a value of another type
    for name, text in given.items():
        if name in _INSTEAD:
            raise ConfigError(f"{name} is not supported", option=name, hint=_INSTEAD[name])
        if name in OWN:
            continue
        if find(name) is not None:
            check_given({name: text})
        elif not (name in _OF_SPARK or is_store_option(name) or is_catalog_option(name)):
            _check_unknown(name, of_entry=of_entry)
    report("read or written by Spark", {name: text for name, text in given.items() if name not in OWN})


def _check_unknown(name: str, *, of_entry: bool) -> None:
    """Raise ConfigError for a name that is no option. Properties of an entry of Spark may have any other name."""
    # Only very similar names count as misspelt.
    meant = _MEANT.get(name) or nearest(name, _NAMES, cutoff=0.85)
    if meant or not of_entry:
        hint = f"did you mean {meant}?" if meant else "see the options of reads and writes in docs/tables.md"
        raise ConfigError(f"{name!r} is not an option of a read or a write", option=name, hint=hint)


def check_options_of_system_table(system: str, given: Mapping[str, str], table: str) -> None:
    """Raise ConfigError for options that the system table cannot follow."""
    for name in (ROW_KIND.key, READ_CHANGELOG.key):
        if name in given:
            raise ConfigError(
                "the row kinds of a system table cannot be shown",
                table=f"{table}${system}",
                option=name,
                hint="read the changes of the table itself, with incremental-between or as a stream with rowkind=true",
            )
    check_system_options(system, travel_options(given), table)


def travel_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that select rows."""
    return {name: text for name, text in given.items() if name.startswith(_TRAVELS)}
