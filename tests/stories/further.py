"""Further axes of stories. They are drawn apart, so that the other steps and options of a seed stay as they were."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.simulation.story import Step

# Options that change how files are written, but never what a reader sees: (key, values).
SHAPES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dynamic-bucket.initial-buckets", ("2",)),
    ("dynamic-bucket.max-buckets", ("1", "3")),
    ("index-file-in-data-file-dir", ("true",)),
    ("data-file.thin-mode", ("true",)),
    ("file.format.per.level", ("0:avro", "0:orc,5:avro")),
    ("metadata.stats-dense-store", ("false",)),
    ("metadata.stats-keep-first-n-columns", ("1",)),
    ("manifest.format", ("orc", "parquet")),
    ("manifest.compression", ("none", "snappy")),
    ("manifest.delete-file-drop-stats", ("true",)),
    ("commit.force-compact", ("true",)),
    ("compaction.force-up-level-0", ("true",)),
    ("compaction.force-rewrite-all-files", ("true",)),
    ("compaction.optimization-interval", ("0 s", "1 h")),
    ("snapshot.clean-empty-directories", ("true",)),
    ("num-sorted-run.stop-trigger", ("2",)),
    ("compaction.delete-ratio-threshold", ("0.01",)),
    ("bucket-function.type", ("mod",)),
    ("partition.legacy-name", ("false",)),
    ("changelog-file.format", ("avro", "orc")),
    ("changelog-producer.row-deduplicate", ("true",)),
    ("commit.force-create-snapshot", ("true",)),
    ("lookup-compact", ("GENTLE",)),
    ("file.compression", ("none", "snappy")),
    ("write-buffer-spillable", ("true",)),
    ("deletion-vectors.modifiable", ("true",)),
    ("compaction.max-size-amplification-percent", ("20", "1000")),
    ("compaction.size-ratio", ("0", "100")),
    ("compaction.total-size-threshold", ("1 kb", "1 mb")),
    ("compaction.incremental-size-threshold", ("1 b", "1 mb")),
    ("compaction.offpeak-ratio", ("50",)),
    ("force-lookup", ("true",)),
    ("lookup-compact.max-interval", ("1", "3")),
    ("file.compression.per.level", ("0:none,5:snappy", "0:snappy")),
    ("file.suffix.include.compression", ("true",)),
    ("data-file.prefix", ("d-",)),
    ("changelog-file.prefix", ("data-",)),
    ("changelog-file.compression", ("none",)),
    ("changelog-file.stats-mode", ("none", "full")),
    ("metadata.stats-mode.per.level", ("0:none", "0:none,5:full")),
    ("fields.k.stats-mode", ("none",)),
    ("fields.v.stats-mode", ("truncate(1)", "none")),
    ("parquet.enable.dictionary", ("false",)),
    ("parquet.page.size", ("100",)),
    ("snapshot.ignore-empty-commit", ("false",)),
    ("read.batch-size", ("1", "3")),
    ("source.split.target-size", ("1 b",)),
    ("source.split.open-file-cost", ("1 b",)),
    ("spill-compression", ("none", "lz4")),
    ("changelog-producer.row-deduplicate-ignore-fields", ("n",)),
    ("metadata.iceberg.storage", ("table-location",)),
    ("metadata.iceberg.delete-after-commit.enabled", ("false",)),
)
RESIDENT = {"write", "compact", "delete", "expire", "truncate", "drop_partition", "orphans", "alter", "tag", "rollback"}


def further_options(seed: int, kind: str, options: dict[str, str]) -> dict[str, str]:
    draw = random.Random(f"{seed} further options")
    drawn = {key: draw.choice(values) for key, values in SHAPES if draw.random() < 0.05}
    if kind not in {"dynamic", "cross"}:
        drawn = {key: value for key, value in drawn.items() if not key.startswith("dynamic-bucket")}
    if kind == "cross" or kind == "postpone" or kind == "append":
        drawn.pop("bucket-function.type", None)
    # Iceberg metadata is refused for them.
    vectors, formats = options.get("deletion-vectors.enabled") == "true", {options.get("file.format", "parquet")}
    if vectors or formats != {"parquet"} or "file.format.per.level" in drawn:
        drawn.pop("metadata.iceberg.storage", None)
    if "compaction.offpeak-ratio" in drawn:
        drawn |= {"compaction.offpeak.start.hour": "0", "compaction.offpeak.end.hour": "23"}
    if options.get("deletion-vectors.enabled") != "true":
        drawn.pop("deletion-vectors.modifiable", None)
    last_wins = options.get("merge-engine", "deduplicate") == "deduplicate" and "sequence.field" not in options
    if options.get("changelog-producer") == "full-compaction" and not last_wins:
        drawn.pop("force-lookup", None)  # refused
    return drawn | options


def further_steps(seed: int, steps: Sequence[Step], keys: Sequence[str], partitioned: bool) -> list[Step]:
    """Add steps of a process that looks rows up, and the table created again; let one process perform several steps."""
    draw, made = random.Random(f"{seed} further steps"), list(steps)
    if draw.random() < 0.4:
        made = [{**step, "resident": True} if _may_stay(step) and draw.random() < 0.5 else step for step in made]
    if draw.random() < 0.3:
        ways: list[list[str]] = [["k"], ["v"], list(keys) or ["k"], list(keys) or ["v"]]
        by = draw.choice(ways if not partitioned else [*ways, ["p", "v"]])
        for _ in range(draw.choice((2, 3, 5))):
            made.insert(draw.randint(1, len(made)), {"op": "look", "by": by})
    if draw.random() < 0.08:
        made.insert(draw.randint(1, len(made)), {"op": "recreate"})
    return made


def _may_stay(step: Step) -> bool:
    return step["op"] in RESIDENT and "branch" not in step
