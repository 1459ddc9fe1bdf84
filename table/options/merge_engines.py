"""Options that say how rows of one key become one."""

from __future__ import annotations

from penstock.table.options.declaration import Stops, TableOption, acts, refused, reported
from penstock.table.options.kinds import COLUMN, COUNT, DURATION, FLAG, NAMES, TEXT, one_of

_NESTED = "nested rows are merged by their nested-key, the later row wins"

MERGE_ENGINE = acts(
    "merge-engine",
    one_of("deduplicate", "partial-update", "aggregation", "first-row"),
    "deduplicate",
    "How the rows of a key are merged into one row.",
)
IGNORE_DELETE = acts(
    "ignore-delete",
    FLAG,
    "false",
    "Ignores deletes.",
    old_keys=("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
)
IGNORE_UPDATE_BEFORE = acts("ignore-update-before", FLAG, "false", "Ignores the before images of updates.")
SEQUENCE_FIELD = acts("sequence.field", NAMES, "", "The columns whose values decide which of two rows is newer.")
SEQUENCE_FIELD_SORT_ORDER = acts(
    "sequence.field.sort-order",
    one_of("ascending", "descending"),
    "ascending",
    "Whether the higher or the lower sequence value wins.",
)
ROWKIND_FIELD = acts("rowkind.field", COLUMN, None, "The column that contains the row kind: +I, -U, +U or -D.")
PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE = acts(
    "partial-update.remove-record-on-delete",
    FLAG,
    "false",
    "Removes the whole row when a delete arrives, in partial-update tables.",
)
PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP = acts(
    "partial-update.remove-record-on-sequence-group",
    NAMES,
    "",
    "Removes the whole row when a delete of these sequence groups arrives.",
)
AGGREGATION_REMOVE_RECORD_ON_DELETE = acts(
    "aggregation.remove-record-on-delete",
    FLAG,
    "false",
    "Removes the whole row when a delete arrives, in aggregation tables.",
)
FIELDS_DEFAULT_AGGREGATE_FUNCTION = acts(
    "fields.default-aggregate-function", TEXT, None, "The aggregate function of columns without their own."
)
FIELD_AGGREGATE_FUNCTION = acts("fields.<column>.aggregate-function", TEXT, None, "The aggregate function of a column.")
FIELD_IGNORE_RETRACT = acts("fields.<column>.ignore-retract", FLAG, "false", "Ignores retractions for this column.")
FIELD_DISTINCT = acts("fields.<column>.distinct", FLAG, "false", "Collects each distinct value once.")
FIELD_LIST_AGG_DELIMITER = acts(
    "fields.<column>.list-agg-delimiter", TEXT, ",", "The separator of the texts that listagg joins."
)
FIELD_NESTED_KEY = acts(
    "fields.<column>.nested-key", NAMES, "", "Names the key members of the rows that nested_update collects."
)
FIELD_COUNT_LIMIT = acts(
    "fields.<column>.count-limit", COUNT, None, "The maximum number of rows that nested_update collects."
)
FIELD_SEQUENCE_GROUP = acts(
    "fields.<columns>.sequence-group",
    NAMES,
    "",
    "Names the columns that are updated when the sequence columns in the key rise.",
)
RECORD_LEVEL_EXPIRE_TIME = acts(
    "record-level.expire-time", DURATION, None, "The age above which rows are dropped by compaction."
)
RECORD_LEVEL_TIME_FIELD = acts("record-level.time-field", COLUMN, None, "Names the column with the time of a row.")

# Merge engines with aggregate functions obey these.
AGGREGATE_OPTIONS: tuple[TableOption[object], ...] = (
    FIELDS_DEFAULT_AGGREGATE_FUNCTION,
    FIELD_AGGREGATE_FUNCTION,
    FIELD_IGNORE_RETRACT,
    FIELD_DISTINCT,
    FIELD_LIST_AGG_DELIMITER,
    FIELD_NESTED_KEY,
    FIELD_COUNT_LIMIT,
)
OPTIONS: tuple[TableOption[object], ...] = (
    MERGE_ENGINE,
    IGNORE_DELETE,
    IGNORE_UPDATE_BEFORE,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
    ROWKIND_FIELD,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    *AGGREGATE_OPTIONS,
    FIELD_SEQUENCE_GROUP,
    refused(
        # The refused options of later releases change how rows merge, so they are refused for reads too: a read
        # without them would return other rows.
        "fields.<column>.nested-key-null-strategy",
        TEXT,
        None,
        "The treatment of a null key by nested_update.",
        "remove it",
        stops=Stops.READING,
        later=True,
    ),
    refused(
        "fields.<column>.nested-sequence-field",
        TEXT,
        None,
        "Which of two nested rows is newer.",
        f"remove it: {_NESTED}",
        stops=Stops.READING,
        later=True,
    ),
    refused(
        "fields.<column>.ts-field",
        TEXT,
        None,
        "Names the time of entries that merge_map_with_keytime merges.",
        "that aggregate function is of a later Paimon: choose another",
        stops=Stops.READING,
        later=True,
    ),
    refused(
        "fields.<column>.map.storage-layout",
        TEXT,
        None,
        "Stores a map column in several columns.",
        "remove it: maps are stored as maps",
        stops=Stops.READING,
        later=True,
    ),
    refused(
        "sequence.snapshot-ordering",
        FLAG,
        "false",
        "Lets the row of the later snapshot win, whatever its sequence number.",
        "set sequence.field to a column that orders the rows",
        stops=Stops.READING,
        later=True,
    ),
    reported(
        "write.sequence-number-init-mode",
        one_of("scan", "snapshot"),
        "scan",
        "Where a writer finds the next sequence number.",
        "the files of the bucket determine it",
        later=True,
    ),
    RECORD_LEVEL_EXPIRE_TIME,
    RECORD_LEVEL_TIME_FIELD,
    refused(
        "upsert-key",
        TEXT,
        None,
        "Makes Spark's INSERT INTO an append table replace the rows of this key.",
        "create the table with a primary key, or use  penstock merge-into",
        stops=Stops.WRITING,
    ),
)
