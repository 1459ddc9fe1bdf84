"""The names of Paimon's table options, asked only when a table is made or altered: a misspelt one is found at once.

No one reads options from here; each room names the keys it reads itself.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from penstock.errors import ConfigError

# Of Paimon 1.3; sink, scan and lookup options of its Flink and Spark connectors are kept for whoever shares the table.
_NAMES = """
    aggregation.remove-record-on-delete alter-column-null-to-not-null.disabled async-file-write auto-create
    batch-scan-mode branch bucket bucket-append-ordered bucket-function.type bucket-key cache-page-size
    cdc.log-corrupt-record cdc.schema-change-retry-interval cdc.schema-change-retry-max-num cdc.skip-corrupt-record
    changelog-file.compression changelog-file.format changelog-file.prefix changelog-file.stats-mode
    changelog-producer changelog-producer.compaction-interval changelog-producer.row-deduplicate
    changelog-producer.row-deduplicate-ignore-fields changelog.num-retained.max changelog.num-retained.min
    changelog.precommit-compact.buffer-size changelog.precommit-compact.thread-num changelog.time-retained
    clustering.columns clustering.history-partition.idle-to-full-sort clustering.history-partition.limit
    clustering.incremental clustering.strategy comment commit.callbacks commit.custom-listeners commit.force-compact
    commit.force-create-snapshot commit.max-retries commit.max-retry-wait commit.min-retry-wait
    commit.strict-mode.last-safe-snapshot commit.timeout commit.user-prefix compaction.delete-ratio-threshold
    compaction.force-rewrite-all-files compaction.force-up-level-0 compaction.max-size-amplification-percent
    compaction.max.file-num compaction.min.file-num compaction.offpeak-ratio compaction.offpeak.end.hour
    compaction.offpeak.start.hour compaction.optimization-interval compaction.size-ratio
    compaction.total-size-threshold consumer-id consumer.changelog-only consumer.expiration-time
    consumer.ignore-progress consumer.mode continuous.discovery-interval
    cross-partition-upsert.bootstrap-parallelism cross-partition-upsert.index-ttl data-evolution.enabled
    data-file.external-paths data-file.external-paths.specific-fs data-file.external-paths.strategy
    data-file.path-directory data-file.prefix data-file.thin-mode delete.force-produce-changelog
    deletion-vector.index-file.target-size deletion-vectors.bitmap64 deletion-vectors.enabled
    disable-explicit-type-casting dynamic-bucket.assigner-parallelism dynamic-bucket.initial-buckets
    dynamic-bucket.max-buckets dynamic-bucket.target-row-num dynamic-partition-overwrite
    end-input.check-partition-expire end-input.watermark file-index.in-manifest-threshold file-index.read.enabled
    file-operation.thread-num file-reader-async-threshold file.block-size file.compression
    file.compression.per.level file.compression.zstd-level file.format file.format.per.level
    file.suffix.include.compression filesystem.job-level-settings.enabled force-lookup
    full-compaction.delta-commits ignore-delete ignore-update-before incremental-between
    incremental-between-scan-mode incremental-between-timestamp incremental-to-auto-tag
    index-file-in-data-file-dir local-merge-buffer-size local-sort.max-num-file-handles lookup-compact
    lookup-compact.max-interval lookup-wait manifest.compression manifest.delete-file-drop-stats manifest.format
    manifest.full-compaction-threshold-size manifest.merge-min-count manifest.target-file-size merge-engine
    metadata.stats-dense-store metadata.stats-keep-first-n-columns metadata.stats-mode
    metadata.stats-mode.per.level metastore.partitioned-table metastore.tag-to-partition
    metastore.tag-to-partition.preview num-levels num-sorted-run.compaction-trigger num-sorted-run.stop-trigger
    owner page-size partial-update.ignore-delete partial-update.remove-record-on-delete
    partial-update.remove-record-on-sequence-group partition partition.default-name partition.end-input-to-done
    partition.expiration-batch-size partition.expiration-check-interval partition.expiration-max-num
    partition.expiration-strategy partition.expiration-time partition.idle-time-to-done
    partition.idle-time-to-report-statistic partition.legacy-name partition.mark-done-action
    partition.mark-done-action.custom.class partition.mark-done-action.http.params
    partition.mark-done-action.http.url partition.mark-done-action.mode partition.mark-done.recover-from-state
    partition.sink-strategy partition.time-interval partition.timestamp-formatter partition.timestamp-pattern path
    postpone.default-bucket-num precommit-compact primary-key query-auth.enabled read.batch-size read.changelog
    read.shuffle-bucket-with-partition record-level.expire-time record-level.time-field row-tracking.enabled
    rowkind.field scan.bounded scan.bounded.watermark scan.creation-time-millis scan.dedicated-split-generation
    scan.fallback-branch scan.file-creation-time-millis scan.infer-parallelism scan.infer-parallelism.max
    scan.manifest.parallelism scan.max-snapshot.count scan.max-splits-per-task scan.mode scan.parallelism
    scan.partitions scan.plan-sort-partition scan.push-down scan.remove-normalize scan.snapshot-id
    scan.split-enumerator.batch-size scan.split-enumerator.mode scan.tag-name scan.timestamp scan.timestamp-millis
    scan.version scan.watermark sequence.field sequence.field.sort-order sink.clustering.sample-factor
    sink.clustering.sort-in-cluster sink.committer-cpu sink.committer-memory sink.committer-operator-chaining
    sink.cross-partition.managed-memory sink.managed.writer-buffer-memory sink.operator-uid.suffix
    sink.parallelism sink.process-time-zone sink.savepoint.auto-tag sink.use-managed-memory-allocator
    sink.watermark-time-zone sink.writer-coordinator.cache-memory sink.writer-coordinator.enabled
    sink.writer-coordinator.page-size sink.writer-cpu sink.writer-memory sink.writer-refresh-detectors
    snapshot.clean-empty-directories snapshot.expire.execution-mode snapshot.expire.limit
    snapshot.ignore-empty-commit snapshot.num-retained.max snapshot.num-retained.min snapshot.time-retained
    snapshot.watermark-idle-timeout sort-compaction.local-sample.magnification sort-compaction.range-strategy
    sort-engine sort-spill-buffer-size sort-spill-threshold source.checkpoint-align.enabled
    source.checkpoint-align.timeout source.operator-uid.suffix source.split.open-file-cost
    source.split.target-size spill-compression spill-compression.zstd-level stream-scan-mode
    streaming-read-append-overwrite streaming-read-mode streaming-read-overwrite streaming.read.snapshot.delay
    tag.automatic-completion tag.automatic-creation tag.batch.customized-name tag.callbacks
    tag.create-success-file tag.creation-delay tag.creation-period tag.creation-period-duration
    tag.default-time-retained tag.num-retained-max tag.period-formatter tag.time-expire-enabled target-file-size
    type unaware-bucket.compaction.parallelism upsert-key write-buffer-for-append write-buffer-size
    write-buffer-spill.max-disk-size write-buffer-spillable write-max-writers-to-spill write-only
    write.batch-memory write.batch-size write.merge-schema write.merge-schema.explicit-cast write.use-v2-write
    zorder.var-length-contribution changelog-producer.lookup-wait deduplicate.ignore-delete delete-file.thread-num
    first-row.ignore-delete sink.clustering.by-columns sink.clustering.strategy
    snapshot.expire.clean-empty-directories write.compaction-skip
"""
KNOWN_OPTIONS = frozenset(_NAMES.split())
# Names that go on with a column, a format's own option or a connector's.
KNOWN_PREFIXES = (
    "avro.",
    "commit.callback.",
    "csv.",
    "fields.",
    "file-index.",
    "json.",
    "log.",
    "lookup.",
    "materialized-table.",
    "metadata.iceberg.",
    "orc.",
    "parquet.",
    "penstock.",
    "read.stream.",
    "rocksdb.",
    "scan.watermark.",
    "tag.callback.",
)
# What later releases do differently when these are set, and nothing here knows of.
_UNSUPPORTED = (
    "chain-table.enabled",
    "data-evolution.enabled",
    "deletion-vectors.merge-on-read",
    "key-value.sequence_number.enabled",
    "pk-clustering-override",
    "postpone.merge-on-read",
    "primary-key.nullable",
    "sequence.snapshot-ordering",
)


def check_known(names: Iterable[str]) -> None:
    """ConfigError for the first name that is no option, with the nearest that is one."""
    for name in names:
        if name not in KNOWN_OPTIONS and not name.startswith(KNOWN_PREFIXES):
            near = difflib.get_close_matches(name, KNOWN_OPTIONS, 1)
            raise ConfigError(
                f"{name!r} is no table option",
                hint=f"did you mean {near[0]}?" if near else "options of your own begin with penstock.",
            )


def check_supported(options: Iterable[tuple[str, str]]) -> None:
    """ConfigError when a table asks for what is not implemented and would read or write wrong rows without."""
    for name, value in options:
        if name in _UNSUPPORTED and value.strip().lower() == "true":
            raise ConfigError(f"tables with {name} are not supported", option=name)
