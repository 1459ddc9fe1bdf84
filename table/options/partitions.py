"""Options of partitions and of tags."""

from __future__ import annotations

from penstock.table.options.declaration import Scope, TableOption, acts, refused, reported
from penstock.table.options.kinds import COUNT, DURATION, FLAG, POSITIVE, TEXT, one_of, some_of

_NO_CLASS = "remove it: Java classes are not called"
_TAG_MODES = one_of("none", "process-time", "watermark", "batch")

PARTITION_DEFAULT_NAME = acts(
    "partition.default-name", TEXT, "__DEFAULT_PARTITION__", "The folder of partitions whose value is null."
)
PARTITION_LEGACY_NAME = acts(
    "partition.legacy-name", FLAG, "true", "Names folders of DATE and TIME partitions by numbers, as Paimon did."
)
PARTITION_EXPIRATION_TIME = acts(
    "partition.expiration-time", DURATION, None, "The age above which partitions are dropped."
)
PARTITION_EXPIRATION_CHECK_INTERVAL = acts(
    "partition.expiration-check-interval", DURATION, "1 h", "How often partitions are checked for expiry."
)
PARTITION_EXPIRATION_STRATEGY = acts(
    "partition.expiration-strategy",
    one_of("values-time", "update-time"),
    "values-time",
    "Whether the age of a partition follows from its values or from its last change.",
)
PARTITION_EXPIRATION_MAX_NUM = acts(
    "partition.expiration-max-num", POSITIVE, "100", "The maximum number of partitions that are dropped at once."
)
PARTITION_EXPIRATION_BATCH_SIZE = acts(
    "partition.expiration-batch-size", POSITIVE, None, "The maximum number of partitions that one commit drops."
)
PARTITION_TIMESTAMP_FORMATTER = acts(
    "partition.timestamp-formatter", TEXT, None, "The format of the time in partition values: yyyy-MM-dd."
)
PARTITION_TIMESTAMP_PATTERN = acts(
    "partition.timestamp-pattern", TEXT, None, "Combines several partition columns into one text: $dt $hour."
)
END_INPUT_CHECK_PARTITION_EXPIRE = acts(
    "end-input.check-partition-expire", FLAG, "false", "Checks partitions for expiry at the end of a batch write."
)
DYNAMIC_PARTITION_OVERWRITE = acts(
    "dynamic-partition-overwrite", FLAG, "true", "Lets an overwrite replace only the partitions of its rows."
)
PARTITION_MARK_DONE_ACTION = acts(
    "partition.mark-done-action",
    some_of("success-file", "http-report"),
    "success-file",
    "How a partition is marked as done.",
)
PARTITION_MARK_DONE_ACTION_HTTP_URL = acts(
    "partition.mark-done-action.http.url", TEXT, None, "The URL to which done partitions are reported."
)
PARTITION_MARK_DONE_ACTION_HTTP_PARAMS = acts(
    "partition.mark-done-action.http.params", TEXT, None, "Parameters that are added to the report."
)
PARTITION_MARK_DONE_ACTION_HTTP_TIMEOUT = acts(
    "partition.mark-done-action.http.timeout", DURATION, "10 s", "The timeout of the report."
)
PARTITION_MARK_DONE_ACTION_MODE = acts(
    "partition.mark-done-action.mode",
    one_of("process-time", "watermark"),
    "process-time",
    "Which clock marks a partition as done.",
)
PARTITION_IDLE_TIME_TO_DONE = acts(
    "partition.idle-time-to-done", DURATION, None, "The time without rows after which a partition is marked as done."
)
PARTITION_TIME_INTERVAL = acts(
    "partition.time-interval", DURATION, None, "The period of time that a partition covers: 1 d, 1 h."
)
PARTITION_END_INPUT_TO_DONE = acts(
    "partition.end-input-to-done", FLAG, "false", "Marks the written partitions as done after a batch write."
)
TAG_AUTOMATIC_CREATION = acts(
    "tag.automatic-creation", _TAG_MODES, "none", "The clock that creates tags automatically."
)
TAG_CREATION_PERIOD = acts(
    "tag.creation-period",
    one_of("daily", "hourly", "two-hours"),
    "daily",
    "How often a tag is created.",
)
TAG_CREATION_PERIOD_DURATION = acts(
    "tag.creation-period-duration", DURATION, None, "The period as a duration, instead of tag.creation-period."
)
TAG_CREATION_DELAY = acts("tag.creation-delay", DURATION, "0 ms", "The time to wait for late rows after a period.")
TAG_PERIOD_FORMATTER = acts(
    "tag.period-formatter",
    one_of("with_dashes", "without_dashes", "without_dashes_and_spaces"),
    "with_dashes",
    "The format of the name of a tag.",
)
TAG_AUTOMATIC_COMPLETION = acts(
    "tag.automatic-completion", FLAG, "false", "Creates the tags of periods that were missed."
)
TAG_NUM_RETAINED_MAX = acts("tag.num-retained-max", COUNT, None, "The maximum number of automatic tags that are kept.")
TAG_DEFAULT_TIME_RETAINED = acts("tag.default-time-retained", DURATION, None, "How long a new tag is kept.")
TAG_TIME_EXPIRE_ENABLED = acts("tag.time-expire-enabled", FLAG, "true", "Lets tags expire by their time.")
TAG_CREATE_SUCCESS_FILE = acts("tag.create-success-file", FLAG, "false", "Writes a success file for each new tag.")
TAG_BATCH_CUSTOMIZED_NAME = acts("tag.batch.customized-name", TEXT, None, "Names the tag of a batch write.")
SINK_PROCESS_TIME_ZONE = acts(
    "sink.process-time-zone",
    TEXT,
    None,
    "The time zone of automatic tags made by the clock; default: the machine's.",
)
SINK_WATERMARK_TIME_ZONE = acts(
    "sink.watermark-time-zone", TEXT, "UTC", "The time zone of automatic tags made by the watermark."
)

OPTIONS: tuple[TableOption[object], ...] = (
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
    PARTITION_EXPIRATION_TIME,
    PARTITION_EXPIRATION_CHECK_INTERVAL,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_MAX_NUM,
    PARTITION_EXPIRATION_BATCH_SIZE,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    reported(
        "partition.timestamp-format.strict",
        FLAG,
        "false",
        "Refuses rows whose partition value is not a time.",
        "such partitions are written, and never expire",
        later=True,
    ),
    END_INPUT_CHECK_PARTITION_EXPIRE,
    DYNAMIC_PARTITION_OVERWRITE,
    PARTITION_MARK_DONE_ACTION,
    PARTITION_MARK_DONE_ACTION_HTTP_URL,
    PARTITION_MARK_DONE_ACTION_HTTP_PARAMS,
    PARTITION_MARK_DONE_ACTION_HTTP_TIMEOUT,
    refused(
        "partition.mark-done-action.custom.class",
        TEXT,
        None,
        "Names the Java class that marks a partition as done.",
        "use partition.mark-done-action = success-file or http-report",
    ),
    PARTITION_MARK_DONE_ACTION_MODE,
    PARTITION_IDLE_TIME_TO_DONE,
    PARTITION_TIME_INTERVAL,
    PARTITION_END_INPUT_TO_DONE,
    reported(
        "partition.mark-done.recover-from-state",
        FLAG,
        "true",
        "Lets a Flink job remember which partitions are not done yet.",
        "the table's files determine it",
        scope=Scope.FLINK,
        harmless=("false",),
    ),
    reported(
        "partition.idle-time-to-report-statistic",
        DURATION,
        "0 ms",
        "Reports statistics of a partition to a Hive metastore after this time.",
        "partitions are not reported to a metastore",
    ),
    TAG_AUTOMATIC_CREATION,
    TAG_CREATION_PERIOD,
    TAG_CREATION_PERIOD_DURATION,
    TAG_CREATION_DELAY,
    TAG_PERIOD_FORMATTER,
    TAG_AUTOMATIC_COMPLETION,
    TAG_NUM_RETAINED_MAX,
    TAG_DEFAULT_TIME_RETAINED,
    TAG_TIME_EXPIRE_ENABLED,
    TAG_CREATE_SUCCESS_FILE,
    TAG_BATCH_CUSTOMIZED_NAME,
    refused("tag.callbacks", TEXT, None, "Names Java classes to call after each tag.", _NO_CLASS),
    reported("tag.callback.<class>.param", TEXT, None, "The parameter of such a class.", "no Java class is called"),
    SINK_PROCESS_TIME_ZONE,
    SINK_WATERMARK_TIME_ZONE,
)
