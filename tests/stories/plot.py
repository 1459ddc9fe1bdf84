"""Generates a story from a seed: the table, its options, and steps that are possible one after the other."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.story import Step, Story
from tests.stories.clients import client_steps, has_clients
from tests.stories.further import further_options, further_steps
from tests.stories.timed import RECORD_TIME, Timed, is_timed, timed
from tests.stories.wider import Column, Wide, cell, is_long, is_wide, wider, wider_steps

KEYS = 12
LONG = 60  # steps
PARTITIONS = ("a", "q/r", "%2e%2e", "it's")
ENGINES = ("deduplicate", "deduplicate", "partial-update", "aggregation", "first-row")
PRODUCERS = ("none", "none", "input", "lookup", "full-compaction")
SUMS = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.v.aggregate-function": "max"}
# Aggregates that take -U and -D rows; those of added columns would not.
RETRACTS = {**SUMS, "fields.v.ignore-retract": "true"}
# Options that change when and how files are written, but never what a reader sees: (key, values).
SHAPES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("file.format", ("parquet", "orc", "avro")),
    ("num-sorted-run.compaction-trigger", ("2", "3", "8")),
    ("num-levels", ("3", "5")),
    ("target-file-size", ("1 kb", "4 kb")),
    ("write-buffer-size", ("2 kb", "64 kb")),
    ("manifest.target-file-size", ("1 b", "2 kb")),
    ("manifest.merge-min-count", ("2", "5")),
    ("manifest.full-compaction-threshold-size", ("1 b", "2 kb")),
    ("snapshot.num-retained.max", ("2", "4")),
    ("changelog.num-retained.max", ("6",)),
    ("data-file.path-directory", ("files",)),
    ("lookup-wait", ("false",)),
    ("compaction.min.file-num", ("2",)),
    ("metadata.stats-mode", ("none", "full")),
    ("snapshot.expire.limit", ("1", "10")),
    ("write-only", ("true",)),
)


@dataclass
class Plot:
    """Draws the steps. Tracks just enough of the table to draw steps that are possible."""

    draw: random.Random
    story: Story
    kind: str
    columns: list[str] = field(default_factory=list)
    tags: int = 0
    branches: int = 0
    added: int = 0
    lines: list[str | None] = field(default_factory=lambda: [None])
    wide: Wide | None = None
    timed: Timed | None = None

    @property
    def partitions(self) -> Sequence[str]:
        return (self.timed and self.timed.partitions) or PARTITIONS[:3]

    @property
    def engine(self) -> str:
        return self.story.options.get("merge-engine", "deduplicate")

    @property
    def deletes(self) -> bool:
        if self.wide is not None and self.wide.kinds is not None:
            return self.wide.deletes
        keyed = self.story.primary_keys and self.engine == "deduplicate"
        return bool(keyed) and "sequence.field" not in self.story.options

    @property
    def retracts(self) -> bool:
        return "fields.v.ignore-retract" in self.story.options

    # steps

    def step(self) -> Step:
        return getattr(self, f"_{self.draw.choices(*zip(*self._weights().items(), strict=True))[0]}")()  # type: ignore[no-any-return]

    def _weights(self) -> Mapping[str, int]:
        weights = {
            "write": 40,
            "again": 4,
            "compact": 12,
            "meanwhile": 14,
            "expire": 5,
            "tag": 4,
            "delete_tag": 1,
            "rollback": 2,
            "branch": 3,
            "fast_forward": 2,
            "alter": 4,
            "orphans": 2,
            "days": 2,
            "manifests": 2,
            "overwrite": 5,
            "truncate": 1,
            "delete": 5,
        }
        if self.story.partition_keys:
            weights["drop_partition"] = 3
        if self.kind == "fixed" and self.story.primary_keys:
            weights["rescale"] = 2
        if self.retracts:
            del weights["alter"]
        if self.timed is not None:
            weights |= self.timed.weights
            if RECORD_TIME in self.story.options:
                del weights["again"]  # a row with an earlier time would follow one with a later time
        return weights

    def _rows(self, *, partition: str | None = None, kinds: bool = True) -> list[list[Any]]:
        rows, chosen = [], ("+I",)
        if kinds and self.wide is not None and self.wide.kinds is not None:
            chosen = self.wide.kinds
        elif kinds and (self.deletes or self.retracts):
            chosen = ("+I", "+I", "+U", "-D") if self.deletes else ("+I", "+I", "+U", "-U", "-D")
        for _ in range(self.draw.choice((1, 1, 1, 200) if is_long(self.story.seed) else (1, 2, 3, 6, 12))):
            kind = self.draw.choice(chosen)
            rows.append([kind, *(self._cell(name, partition) for name in self.columns)])
        return rows if self.wide is None else self.wide.fitted(rows, self.columns)

    def _cell(self, name: str, partition: str | None) -> Any:
        if name == "k":
            return self.draw.randrange(KEYS)
        if name == "p":
            return partition or self.draw.choice(self.partitions)
        if name == "e" and self.timed is not None:
            return self.timed.cell(name)
        if name == "n":
            return self.draw.choice((None, self.draw.randrange(-5, 6)))
        if name == "s" and self.wide is None:
            return self.draw.randrange(20)
        if self.wide is not None and name != "v" and name[0] != "x":
            return cell(self.draw, name)
        return self.draw.choice((None, *"abcxyz"))

    def _line(self) -> dict[str, str]:
        branch = self.draw.choice(self.lines)
        return {} if branch is None else {"branch": branch}

    def _write(self) -> Step:
        return {"op": "write", "columns": list(self.columns), "rows": self._rows(), **self._line()}

    def _again(self) -> Step:
        """Repeat the last write to main, as a client does that lost the answer."""
        return {"op": "again"}

    def _compact(self) -> Step:
        return {"op": "compact", "full": self.draw.random() < 0.6, **self._line()}

    def _meanwhile(self) -> Step:
        """One step begins, and at one of its storage operations another process performs another step completely.

        Or it performs the same step, with the same commit identifier, as a second driver of the job would.
        """
        if self.draw.random() < 0.1:
            write = {key: value for key, value in as_adds(self._write()).items() if key != "branch"}
            return {"op": "meanwhile", "step": write, "at": self.draw.randrange(1, 16), "other": write, "twins": True}
        steps = (self._write, self._write, self._compact, self._compact, self._delete, self._overwrite, self._expire)
        first, other = (
            {key: value for key, value in self.draw.choice(some)().items() if key != "branch"}
            for some in ((*steps[:6], self._read, self._orphans), steps)
        )
        if first["op"] == "orphans" and other["op"] == "expire":
            other = {key: value for key, value in self._write().items() if key != "branch"}
        if self.retracts or (
            self.wide is not None and self.wide.groups
        ):  # the other process may remove the row that would be retracted
            first, other = as_adds(first), as_adds(other)
        if first["op"] == "delete" and other["op"] == "write":
            # Which of the other's rows the delete sees would depend on the operation at which the other acts.
            first, other = other, first
        return {"op": "meanwhile", "step": first, "at": self.draw.randrange(1, 16), "other": other}

    def _expire(self) -> Step:
        return {"op": "expire", "retain": self.draw.choice((1, 1, 2, 5))}

    def _tag(self) -> Step:
        self.tags += 1
        return {"op": "tag", "name": f"t{self.tags}", **self._line()}

    def _delete_tag(self) -> Step:
        return {"op": "delete_tag", "which": self.draw.randrange(100)}

    def _rollback(self) -> Step:
        return {"op": "rollback", "which": self.draw.randrange(100), "to": self.draw.choice(("snapshot", "tag"))}

    def _branch(self) -> Step:
        self.branches += 1
        name = f"b{self.branches}"
        self.lines.append(name)
        return {"op": "branch", "name": name, "which": self.draw.randrange(100)}

    def _fast_forward(self) -> Step:
        return {"op": "fast_forward", "which": self.draw.randrange(100)}

    def _alter(self) -> Step:
        if self.wide is not None and self.draw.random() < 0.5:
            return self._alter_number()
        extra = [name for name in self.columns if name.startswith("x")]
        choice = self.draw.choice(("add", "add", "drop", "rename"))
        if choice == "add" or not extra:
            self.added += 1
            line = self._line()
            if not line:  # rows for a branch are fitted to its columns
                self.columns.append(f"x{self.added}")
            return {"op": "alter", "changes": [{"kind": "add", "name": f"x{self.added}", "type": "STRING"}], **line}
        name = self.draw.choice(extra)
        if choice == "drop":
            self.columns.remove(name)
            return {"op": "alter", "changes": [{"kind": "drop", "name": name}]}
        self.added += 1
        self.columns[self.columns.index(name)] = f"x{self.added}"
        return {"op": "alter", "changes": [{"kind": "rename", "name": name, "to": f"x{self.added}"}]}

    def _alter_number(self) -> Step:
        """Add a column of numbers to main, or give such a column a wider type."""
        numbers = [name for name in self.columns if name.startswith("y")]
        # Iceberg has no way from INT to DOUBLE, so that is refused.
        types = ("BIGINT",) if "metadata.iceberg.storage" in self.story.options else ("BIGINT", "DOUBLE")
        if numbers and self.draw.random() < 0.6:
            change = {"kind": "type", "name": self.draw.choice(numbers), "type": self.draw.choice(types)}
            return {"op": "alter", "changes": [change]}
        self.added += 1
        self.columns.append(f"y{self.added}")
        return {"op": "alter", "changes": [{"kind": "add", "name": f"y{self.added}", "type": "INT"}]}

    def _orphans(self) -> Step:
        return {"op": "orphans"}

    def _read(self) -> Step:
        return {"op": "read"}

    def _manifests(self) -> Step:
        return {"op": "manifests"}

    def _days(self) -> Step:
        days = self.draw.choice((1, 8))
        if self.timed is not None:
            self.timed.days += days
        return {"op": "days", "days": days}

    def _maintain(self) -> Step:
        return {"op": "maintain"}

    def _expire_partitions(self) -> Step:
        return {"op": "expire_partitions"}

    def _overwrite(self) -> Step:
        if not self.story.partition_keys:
            return self._overwriting({}, None)
        if self.draw.random() < 0.5:
            return self._overwriting(None, None)
        partition = self.draw.choice(self.partitions)
        return self._overwriting({"p": partition}, partition)

    def _overwriting(self, spec: dict[str, str] | None, partition: str | None) -> Step:
        rows = self._rows(partition=partition, kinds=False)
        return {"op": "write", "columns": list(self.columns), "rows": rows, "overwrite": spec}

    def _truncate(self) -> Step:
        return {"op": "truncate"}

    def _delete(self) -> Step:
        if self.wide is not None and self.wide.kinds is not None:
            if not self.wide.deletes:
                return self._compact()
        elif self.engine != "deduplicate" or {"sequence.field", "ignore-delete"} & self.story.options.keys():
            return self._compact()
        return {"op": "delete", "below": self.draw.randrange(1, KEYS)}

    def _drop_partition(self) -> Step:
        return {"op": "drop_partition", "partition": {"p": self.draw.choice(self.partitions)}}

    def _rescale(self) -> Step:
        return {"op": "rescale", "buckets": self.draw.choice((1, 2, 3))}


def as_adds(step: Step) -> Step:
    return {**step, "rows": [["+I", *cells] for _, *cells in step["rows"]]} if "rows" in step else step


def story_of(seed: int, *, further: bool = True) -> Story:
    """Return the story of a seed. Without `further` it has only what every other implementation can play."""
    draw = random.Random(seed)
    kind = draw.choice(
        ("fixed", "fixed", "fixed", "dynamic", "dynamic", "postpone", "append", "append-buckets", "cross")
    )
    keyed = not kind.startswith("append")
    partitioned = kind == "cross" or draw.random() < 0.4
    columns: list[Column] = [
        ("k", "INT NOT NULL"),
        ("p", "STRING NOT NULL" if keyed else "STRING"),
        ("v", "STRING"),
        ("n", "INT"),
    ]
    if not partitioned:
        del columns[1]
    keys = [] if not keyed else ["k"] if kind == "cross" or not partitioned else ["p", "k"]
    options = _options(draw, kind)
    if further:
        options = further_options(seed, kind, options)
    if options.get("sequence.field"):
        columns.append(("s", "INT"))
    wide = wider(seed, kind, options, columns) if further and is_wide(seed) else None
    if wide is not None:
        options, columns = wide.options, wide.columns
    by_clock = timed(seed, kind, options, columns) if further and is_timed(seed) else None
    if by_clock is not None:
        options, columns = by_clock.options, by_clock.columns
    story = Story(columns, keys, [], options, ["p"] if partitioned else [], seed)
    plot = Plot(draw, story, kind, [name for name, _ in columns], wide=wide, timed=by_clock)
    length = draw.randrange(4, 22)
    steps = [plot._write()] + [plot.step() for _ in range(LONG if is_long(seed) else length)]
    if further:
        steps = further_steps(seed, steps, keys, partitioned)
    if by_clock is not None:
        steps = [step for step in steps if step["op"] != "look"]  # a look may find expired rows, or not
    if wide is not None:
        steps = wider_steps(seed, steps, keyed=keyed)
    if further and has_clients(seed):
        steps = client_steps(seed, steps, keys, options, PARTITIONS[:3] if partitioned else ())
    return Story(columns, keys, steps, options, story.partition_keys, seed)


def _options(draw: random.Random, kind: str) -> dict[str, str]:
    options = {key: draw.choice(values) for key, values in SHAPES if draw.random() < 0.12}
    if "snapshot.num-retained.max" in options:
        options["snapshot.num-retained.min"] = "1"
    if "changelog.num-retained.max" in options:
        options["changelog.num-retained.min"] = "1"
        options["snapshot.num-retained.max"], options["snapshot.num-retained.min"] = "3", "1"
    options["bucket"] = {
        "fixed": draw.choice("123"),
        "append-buckets": draw.choice("12"),
        "postpone": "-2",
    }.get(kind, "-1")
    if kind == "append-buckets":
        options["bucket-key"] = "k"
    if kind.startswith("append"):
        return options | ({"deletion-vectors.enabled": "true"} if kind == "append" and draw.random() < 0.4 else {})
    if kind in {"dynamic", "cross"}:
        options["dynamic-bucket.target-row-num"] = draw.choice(("2", "5", "100"))
    if kind != "cross":
        _add_engine(draw, options)
    producer = draw.choice(PRODUCERS)
    if options.get("merge-engine") == "first-row":
        producer = draw.choice(("none", "lookup"))
    elif options.get("merge-engine") and producer == "input":
        producer = "none"
    if producer != "none":
        options["changelog-producer"] = producer
    if draw.random() < 0.2:
        options["full-compaction.delta-commits"] = draw.choice("23")
    vectors = kind in {"fixed", "dynamic"} and options.get("merge-engine") != "first-row"
    vectors = vectors and producer in {"none", "lookup"}
    if vectors and draw.random() < 0.3:
        options["deletion-vectors.enabled"] = "true"
        if draw.random() < 0.3:
            options["deletion-vectors.bitmap64"] = "true"
    return options


def _add_engine(draw: random.Random, options: dict[str, str]) -> None:
    engine = draw.choice(ENGINES)
    if engine == "aggregation":
        options.update(draw.choice((SUMS, RETRACTS)))
    elif engine != "deduplicate":
        options["merge-engine"] = engine
    elif draw.random() < 0.15:
        options["sequence.field"] = "s"
    elif draw.random() < 0.1:
        options["ignore-delete"] = "true"
