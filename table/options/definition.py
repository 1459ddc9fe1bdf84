"""Options that define a table: its keys, its kind, its place."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import FLAG, NAMES, TEXT, one_of

_MATERIALIZED = "the table is treated as an ordinary table; another job refreshes it"
_UNITS = one_of("SECOND", "MINUTE", "HOUR", "DAY")
_REFRESH = one_of("CONTINUOUS", "FULL", "AUTOMATIC")

# Schema files contain keys as members: these two options are removed when a schema is created.
PRIMARY_KEY = acts("primary-key", NAMES, "", "Names the primary key columns, where CREATE TABLE does not.")
PARTITION = acts("partition", NAMES, "", "Names the partition columns, where CREATE TABLE does not.")
PATH = acts(
    "path",
    TEXT,
    None,
    "The folder of the table. A catalog accepts it if it is of the kind hive; others choose the folder.",
)
BRANCH = acts("branch", TEXT, "main", "Names the branch that is read or written.", scope=Scope.READ)
ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED = acts(
    "alter-column-null-to-not-null.disabled",
    FLAG,
    "true",
    "Refuses to make a nullable column NOT NULL.",
)
DISABLE_EXPLICIT_TYPE_CASTING = acts(
    "disable-explicit-type-casting",
    FLAG,
    "false",
    "Refuses type changes of a column that can lose values, such as BIGINT to INT.",
)
METASTORE_PARTITIONED_TABLE = acts(
    "metastore.partitioned-table",
    FLAG,
    "false",
    "Adds the partitions to the metastore of a Hive catalog. In other catalogs, readers find them in the metadata.",
)
METASTORE_TAG_TO_PARTITION = acts(
    "metastore.tag-to-partition",
    TEXT,
    None,
    "The column that shows each tag as a partition of a table in a Hive metastore. In other catalogs, read the tags.",
)

OPTIONS: tuple[TableOption[object], ...] = (
    PRIMARY_KEY,
    PARTITION,
    refused(
        "type",
        one_of("table", "format-table", "materialized-table", "object-table", "lance-table", "iceberg-table"),
        "table",
        "The kind of table: only ordinary Paimon tables are supported.",
        "leave type out to make an ordinary table",
        harmless=("table",),
        # It has the rows of an ordinary table. Only its refresh is particular, and another job does that.
        tolerated=("materialized-table",),
        stops=Stops.READING,
    ),
    PATH,
    BRANCH,
    refused(
        "auto-create",
        FLAG,
        "false",
        "Lets a reader or writer create the table's folder.",
        "remove it: create the table once, with create_table or a pipeline",
    ),
    reported("owner", TEXT, None, "Names the owner of the table.", "it is stored but not checked"),
    reported("comment", TEXT, None, "Describes the table.", "it is stored; set the comment of the table instead"),
    ALTER_COLUMN_NULL_TO_NOT_NULL_DISABLED,
    DISABLE_EXPLICIT_TYPE_CASTING,
    reported(
        "add-column-before-partition",
        FLAG,
        "false",
        "Puts a new column before the first partition column.",
        "new columns are added at the end, or at the position that AddColumn names",
        later=True,
    ),
    refused(
        "primary-key.nullable",
        FLAG,
        "false",
        "Allows null in primary key columns.",
        "remove it: key columns are NOT NULL",
        stops=Stops.READING,
        later=True,
    ),
    refused(
        # Refused also for reads: without the catalog's rules they would return rows that the user may not see.
        "query-auth.enabled",
        FLAG,
        "false",
        "Asks the catalog which rows and columns a query may read.",
        "no catalog is asked; use the permissions of the file system",
        stops=Stops.READING,
    ),
    METASTORE_PARTITIONED_TABLE,
    METASTORE_TAG_TO_PARTITION,
    reported(
        "metastore.tag-to-partition.preview",
        one_of("none", "process-time", "watermark", "batch"),
        "none",
        "Shows snapshots in a Hive metastore before they get their tag.",
        "a tag is added to the metastore when it exists",
        harmless=("none",),
    ),
    reported("materialized-table.definition-query", TEXT, None, "The query of a materialized table.", _MATERIALIZED),
    reported(
        "materialized-table.interval-freshness",
        TEXT,
        None,
        "The maximum age of the rows of a materialized table.",
        _MATERIALIZED,
    ),
    reported(
        "materialized-table.interval-freshness.time-unit",
        _UNITS,
        None,
        "The unit of materialized-table.interval-freshness.",
        _MATERIALIZED,
    ),
    reported(
        "materialized-table.logical-refresh-mode",
        _REFRESH,
        None,
        "How a materialized table is to be refreshed.",
        _MATERIALIZED,
    ),
    reported(
        "materialized-table.refresh-mode", _REFRESH, None, "How a materialized table is refreshed.", _MATERIALIZED
    ),
    reported(
        "materialized-table.refresh-status",
        one_of("INITIALIZING", "ACTIVATED", "SUSPENDED"),
        None,
        "Whether a materialized table is being refreshed.",
        _MATERIALIZED,
    ),
    reported(
        "materialized-table.refresh-handler-description", TEXT, None, "Describes the refreshing job.", _MATERIALIZED
    ),
    reported("materialized-table.refresh-handler-bytes", TEXT, None, "Identifies the refreshing job.", _MATERIALIZED),
    acts("penstock.<name>", TEXT, None, "An option of Penstock, or your own note."),
)
