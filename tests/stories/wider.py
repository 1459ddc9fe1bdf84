"""Options that change the rows of a table, and the columns that they need: a part of the stories has them.

Stories with seeds below `FIRST` never have them, and of the others every third one, so that the rest is played as
before. Only options and rows are drawn whose result does not depend on which files a compaction rewrites together:
a model that is a dict could not know it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.golden.relations import Type
from tests.simulation.story import Step

FIRST = 1000
Column = tuple[str, Type]
Draw = random.Random
ADDS = ("+I",)
ALL_KINDS = ("+I", "+I", "+U", "-U", "-D")
ROW: Type = {"type": "ROW", "fields": [{"name": "a", "type": "INT"}, {"name": "b", "type": "STRING"}]}
NESTED: Mapping[str, Type] = {
    "o": ROW,
    "l": {"type": "ARRAY", "element": "INT"},
    "m": {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"},
    "g": {"type": "ARRAY", "element": ROW},
}
SIMPLE: Mapping[str, Type] = {"s": "INT", "t": "INT", "b": "BOOLEAN", "r": "STRING"}
# The functions of each column that every merge applies in the same way, however many rows were merged before.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "n": ("sum", "max", "min", "last_value", "last_non_null_value", "first_value", "first_non_null_value", "product"),
    "v": ("max", "min", "listagg", "last_value", "last_non_null_value", "first_value", "first_non_null_value"),
    "b": ("bool_and", "bool_or", "last_value"),
    "l": ("collect", "last_non_null_value"),
    "m": ("merge_map", "first_non_null_value"),
    "g": ("nested_update",),
}
# Functions that give the same result for rows that arrive in another order than that of their sequence.
ORDERED = {"n": ("sum", "max", "min", "last_value"), "v": ("max", "min", "last_value")}
# Options that change when and how files are written, but not what a reader sees: (key, values).
SHAPES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("file.compression.zstd-level", ("3",)),
    ("parquet.compression", ("gzip", "none")),
    ("parquet.dictionary.page.size", ("100",)),
    ("orc.compress", ("zlib", "none")),
    ("avro.codec", ("deflate", "null")),
    ("commit.max-retries", ("20",)),
    ("commit.min-retry-wait", ("1 ms",)),
    ("commit.max-retry-wait", ("5 ms",)),
    ("snapshot.time-retained", ("1 h", "2 d")),
    ("changelog.time-retained", ("1 h", "2 d")),
    ("consumer.expiration-time", ("1 d",)),
    ("partition.default-name", ("none",)),
    ("write-buffer-spill.max-disk-size", ("1 kb",)),
    ("spill-compression.zstd-level", ("3",)),
    ("lookup.cache-max-disk-size", ("1 kb",)),
    ("postpone.default-bucket-num", ("1", "2")),
    ("penstock.key-index.max-disk-size", ("64 kb",)),
    ("cdc.log-corrupt-record", ("true",)),
)
# With Iceberg metadata, and in tables with partitions.
ICEBERG: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("metadata.iceberg.storage-location", ("table-location", "catalog-location")),
    ("metadata.iceberg.format-version", ("2", "3")),
    ("metadata.iceberg.compaction.min.file-num", ("2",)),
    ("metadata.iceberg.compaction.max.file-num", ("3",)),
    ("metadata.iceberg.previous-versions-max", ("1", "3")),
    ("metadata.iceberg.manifest-compression", ("none", "gzip", "zstd")),
    ("metadata.iceberg.manifest-legacy-version", ("true",)),
)
# Options of a single job, whose rows are the same with other options: (key, values).
HINTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("write-only", ("true", "true", "false")),
    ("num-sorted-run.compaction-trigger", ("1", "2", "9")),
    ("num-levels", ("3", "6")),
    ("target-file-size", ("1 kb", "1 mb")),
    ("file.format", ("parquet", "orc", "avro")),
    ("file.compression", ("none",)),
    ("write-buffer-size", ("2 kb",)),
    ("full-compaction.delta-commits", ("1", "2")),
    ("compaction.optimization-interval", ("0 s",)),
    ("lookup-wait", ("true", "false")),
    ("deletion-vectors.bitmap64", ("true", "false")),
    ("manifest.target-file-size", ("1 b",)),
    ("manifest.merge-min-count", ("2",)),
    ("manifest.format", ("orc",)),
    ("commit.force-compact", ("true",)),
    ("dynamic-bucket.target-row-num", ("1", "100")),
    ("dynamic-bucket.max-buckets", ("1", "9")),
    ("compaction.force-rewrite-all-files", ("true",)),
    ("compaction.force-up-level-0", ("true",)),
    ("lookup-compact", ("GENTLE",)),
    ("data-file.thin-mode", ("true", "false")),
    ("metadata.stats-mode", ("none",)),
    ("data-file.prefix", ("e-",)),
)
TRAVELS = ("scan.snapshot-id", "scan.version", "scan.timestamp-millis", "scan.tag-name")
BETWEEN = ("incremental-between", "incremental-between-scan-mode")
PARTITIONED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("dynamic-partition-overwrite", ("false",)),
    ("partition.end-input-to-done", ("true",)),
    ("partition.mark-done-action", ("success-file",)),
)


@dataclass(slots=True)
class Wide:
    """The table of a story: what the plot needs to draw its rows and steps.

    `kinds` are the row kinds that it takes; None: as without these options.
    """

    options: dict[str, str]
    columns: list[Column]
    kinds: tuple[str, ...] | None = None
    deletes: bool = False
    groups: list[tuple[str, str]] = field(default_factory=list)  # the fields and the columns of each sequence group

    def fitted(self, rows: list[list[Any]], columns: Sequence[str]) -> list[list[Any]]:
        """Return the rows as the options need them: kinds in their column, no values in groups without a sequence."""
        for row in rows:
            if "r" in columns:
                row[1 + columns.index("r")], row[0] = row[0], "+I"
            for fields, names in self.groups:
                if all(row[1 + columns.index(name)] is None for name in fields):
                    for name in names:
                        row[1 + columns.index(name)] = None
        return rows


def is_wide(seed: int) -> bool:
    return seed >= FIRST and seed % 3 == 0


def is_long(seed: int) -> bool:
    """Return whether the story has many steps, and large batches beside single rows."""
    return seed >= FIRST and seed % 60 == 0


def wider(seed: int, kind: str, options: Mapping[str, str], columns: Sequence[Column]) -> Wide:
    """Return the table of a seed with further options and columns."""
    draw = random.Random(f"{seed} wider")
    wide = Wide(dict(options), list(columns))
    if not kind.startswith("append"):
        _fresh_engine(wide)
        draw.choice(_engines(kind))(draw, wide, kind)
        _fit_producer(draw, wide, kind)
    if "merge-engine" not in wide.options or wide.options["merge-engine"] == "first-row" or draw.random() < 0.3:
        wide.columns += [(name, type_) for name, type_ in NESTED.items() if draw.random() < 0.25]
    wide.columns = list(dict(wide.columns).items())
    if kind == "append" and draw.random() < 0.4:
        wide.options["row-tracking.enabled"] = "true"
    shapes = [*SHAPES, *(PARTITIONED if "p" in dict(columns) else ())]
    drawn = {key: draw.choice(values) for key, values in shapes if draw.random() < 0.1}
    if kind != "postpone":
        drawn.pop("postpone.default-bucket-num", None)
    if draw.random() < 0.15 and _may_be_iceberg(wide):
        drawn["metadata.iceberg.storage"] = draw.choice(("table-location", "hadoop-catalog"))
        drawn |= {key: draw.choice(values) for key, values in ICEBERG if draw.random() < 0.3}
    wide.options = drawn | wide.options
    return wide


def wider_steps(seed: int, steps: Sequence[Step], *, keyed: bool) -> list[Step]:
    """Add reads of older snapshots, and of the difference between two, each by one of the options for it."""
    draw, made = random.Random(f"{seed} wider steps"), _with_hints(seed, steps)
    for _ in range(draw.choice((0, 0, 2, 4))):
        step: Step = {"op": "travel", "which": draw.randrange(100), "options": [draw.choice(TRAVELS)]}
        if keyed and draw.random() < 0.3:
            step = {"op": "between", "which": draw.randrange(100), "until": draw.randrange(100), "options": BETWEEN}
        made.insert(draw.randint(1, len(made)), step)
    return made


def _with_hints(seed: int, steps: Sequence[Step]) -> list[Step]:
    """Give writes and compactions options of their own, as jobs of other programs have them."""
    draw = random.Random(f"{seed} hints")
    if draw.random() < 0.5:
        return list(steps)
    return [_hinted(draw, step) for step in steps]


def _hinted(draw: Draw, step: Step) -> Step:
    if step["op"] == "meanwhile":
        pair = {name: _hinted(draw, step[name]) for name in ("step", "other")}
        return {**step, **pair}
    if step["op"] not in {"write", "compact"} or draw.random() < 0.4:
        return step
    hints = draw.sample(HINTS, min(len(HINTS), draw.choice((1, 2, 3))))
    return {**step, "options": {key: draw.choice(values) for key, values in hints}}


def _may_be_iceberg(wide: Wide) -> bool:
    texts = wide.options
    formats = {texts.get("file.format", "parquet")} | {key for key in texts if key == "file.format.per.level"}
    return (
        formats == {"parquet"} and "deletion-vectors.enabled" not in texts and "metadata.iceberg.storage" not in texts
    )


def _fresh_engine(wide: Wide) -> None:
    functions = tuple(f"fields.{name}.{word}" for name in "nv" for word in ("aggregate", "ignore"))
    dropped = ("merge-engine", "sequence.field", "ignore-delete", *functions)
    wide.options = {key: value for key, value in wide.options.items() if not key.startswith(dropped)}
    wide.columns = [column for column in wide.columns if column[0] != "s"]


def _engines(kind: str) -> Sequence[Callable[[Draw, Wide, str], None]]:
    anywhere = (_aggregates, _aggregates, _partial_update, _first_row, _deduplicate)
    if kind == "cross":  # sequences are refused where keys move between partitions
        return (*anywhere, _removing)
    # The rows of several commits that were postponed are merged before they meet the older row of their key. A delete
    # and a later row of its key then remove nothing, as in one commit, and as in Paimon.
    removing = () if kind == "postpone" else (_removing, _removing_groups)
    return (*anywhere, _sequences, _groups, _groups, *removing, _sorted_sums)


def _deduplicate(draw: Draw, wide: Wide, kind: str) -> None:
    wide.kinds, wide.deletes = ("+I", "+I", "+U", "-D"), True
    chosen = draw.random()
    if chosen < 0.4:
        wide.options["ignore-update-before"] = "true"
        wide.kinds = ALL_KINDS
    elif chosen < 0.8 and kind != "postpone":
        wide.options["rowkind.field"] = "r"
        wide.columns.append(("r", "STRING"))
        wide.kinds, wide.deletes = ALL_KINDS, False


def _sequences(draw: Draw, wide: Wide, kind: str) -> None:
    # Until the top level, a delete hides later rows of lower sequences: there are no deletes.
    names = draw.choice((("s",), ("s", "t")))
    wide.options["sequence.field"] = ",".join(names)
    wide.columns += [(name, SIMPLE[name]) for name in names]
    wide.kinds = ADDS
    if draw.random() < 0.5:
        wide.options["sequence.field.sort-order"] = "descending"


def _aggregates(draw: Draw, wide: Wide, kind: str) -> None:
    wide.options["merge-engine"] = "aggregation"
    wide.columns += [(name, (SIMPLE | NESTED)[name]) for name in ("b", "l", "m", "g") if draw.random() < 0.4]
    for name in sorted(set(dict(wide.columns)) & set(FUNCTIONS)):
        if draw.random() < 0.8:
            wide.options[f"fields.{name}.aggregate-function"] = draw.choice(FUNCTIONS[name])
    wide.kinds = ADDS
    _add_function_options(draw, wide)
    if draw.random() < 0.3:
        wide.options["fields.default-aggregate-function"] = draw.choice(("last_value", "first_non_null_value"))
    if draw.random() < 0.2:
        wide.options["ignore-delete"] = "true"
        wide.kinds = ALL_KINDS


def _add_function_options(draw: Draw, wide: Wide) -> None:
    functions = {key.split(".")[1]: value for key, value in wide.options.items() if key.endswith(".aggregate-function")}
    match functions.get("l"), draw.random():
        case "collect", chosen if chosen < 0.5:
            wide.options["fields.l.distinct"] = "true"
    match functions.get("v"), draw.random():
        case "listagg", chosen if chosen < 0.5:
            wide.options["fields.v.list-agg-delimiter"] = "; "
    match functions.get("g"), draw.random():
        case "nested_update", chosen if chosen < 0.4:
            wide.options["fields.g.nested-key"] = "a"
        case "nested_update", chosen if chosen < 0.8:
            wide.options["fields.g.count-limit"] = "4"


def _sorted_sums(draw: Draw, wide: Wide, kind: str) -> None:
    wide.options |= {"merge-engine": "aggregation", "sequence.field": "s"}
    wide.options |= {f"fields.{name}.aggregate-function": draw.choice(names) for name, names in ORDERED.items()}
    wide.options["fields.default-aggregate-function"] = "last_value"
    wide.columns.append(("s", "INT"))
    wide.kinds = ADDS


def _partial_update(draw: Draw, wide: Wide, kind: str) -> None:
    wide.options["merge-engine"] = "partial-update"
    wide.kinds = ADDS
    if draw.random() < 0.5:
        wide.options["ignore-delete"] = "true"
        wide.kinds = ALL_KINDS


def _groups(draw: Draw, wide: Wide, kind: str) -> None:
    wide.options["merge-engine"] = "partial-update"
    # Columns have names of one letter.
    wide.groups = draw.choice(([("s", "vn")], [("s", "v"), ("t", "n")], [("st", "v")], [("s", "n")]))
    for fields, names in wide.groups:
        wide.options[f"fields.{','.join(fields)}.sequence-group"] = ",".join(names)
        wide.columns += [(name, "INT") for name in fields]
    wide.kinds = ALL_KINDS
    if draw.random() < 0.4:
        for name in "".join(names for _, names in wide.groups):
            wide.options[f"fields.{name}.aggregate-function"] = draw.choice(ORDERED[name])
        wide.kinds = ADDS


def _removing_groups(draw: Draw, wide: Wide, kind: str) -> None:
    wide.options["merge-engine"] = "partial-update"
    wide.options |= {"fields.s.sequence-group": "v", "fields.t.sequence-group": "n"}
    wide.options["partial-update.remove-record-on-sequence-group"] = draw.choice(("s", "s,t"))
    wide.groups = [("s", "v"), ("t", "n")]
    wide.columns += [("s", "INT"), ("t", "INT")]
    wide.kinds = ("+I", "+I", "+I", "-D")
    _merge_with_upper_levels(draw, wide, kind)


def _removing(draw: Draw, wide: Wide, kind: str) -> None:
    engine = draw.choice(("partial-update", "aggregation"))
    wide.options["merge-engine"] = engine
    wide.options[f"{engine}.remove-record-on-delete"] = "true"
    if engine == "aggregation":
        # A first value is remembered over a delete within one merge, and not from one to the next, as in Java.
        for name in ("n", "v"):
            names = [function for function in FUNCTIONS[name] if not function.startswith("first")]
            wide.options[f"fields.{name}.aggregate-function"] = draw.choice(names)
    wide.kinds, wide.deletes = ("+I", "+I", "+I", "-D"), True
    _merge_with_upper_levels(draw, wide, kind)


def _merge_with_upper_levels(draw: Draw, wide: Wide, kind: str) -> None:
    """Let each compaction see the older row of a key: otherwise the next row may replace a delete before it acts."""
    if wide.options.get("deletion-vectors.enabled") == "true":
        return
    if draw.random() < 0.5:
        wide.options["changelog-producer"] = "lookup"
    else:
        wide.options["force-lookup"] = "true"
        wide.options.pop("changelog-producer", None)


def _first_row(draw: Draw, wide: Wide, kind: str) -> None:
    wide.options["merge-engine"] = "first-row"
    wide.kinds = ADDS
    if draw.random() < 0.5:
        wide.options["ignore-delete"] = "true"
        wide.kinds = ALL_KINDS


def _fit_producer(draw: Draw, wide: Wide, kind: str) -> None:
    """Replace options that the engine excludes."""
    options = wide.options
    engine, producer = options.get("merge-engine", "deduplicate"), options.get("changelog-producer", "none")
    if engine == "first-row":
        for key in ("deletion-vectors.enabled", "deletion-vectors.bitmap64", "deletion-vectors.modifiable"):
            options.pop(key, None)
        if producer not in {"none", "lookup"}:
            del options["changelog-producer"]
    elif engine != "deduplicate" and producer == "input":
        del options["changelog-producer"]
    last_wins = engine == "deduplicate" and "sequence.field" not in options
    if options.get("changelog-producer") == "full-compaction" and not last_wins:
        options.pop("force-lookup", None)


def cell(draw: Draw, name: str) -> Any:
    """Return a value of a column of `NESTED`, of `SIMPLE`, or of one that was added with a number as its type."""
    if draw.random() < 0.2:
        return None
    match name[0]:
        case "b":
            return draw.random() < 0.5
        case "o":
            return _members(draw, draw.randrange(4))
        case "l":
            return draw.sample(range(5), draw.randrange(4))  # without duplicates, which only a merge removes
        case "m":
            return [[key, draw.randrange(9)] for key in draw.sample("abc", draw.randrange(3))]
        case "g":
            return [_members(draw, number) for number in draw.sample(range(4), draw.randrange(4))]
    return draw.randrange(20)


def _members(draw: Draw, number: int) -> dict[str, Any]:
    return {"a": number, "b": draw.choice((None, *"xyz"))}
