"""Random options, random rows: a table that ours and Java write in turn stays the table that Java writes alone."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock
from tests.golden.relations import difference
from tests.golden.rows import arrow_changes
from tests.interop.oracle.client import Oracle
from tests.invariants import check_invariants

COLUMNS = [("id", "INT NOT NULL"), ("a", "INT"), ("b", "STRING"), ("s", "INT"), ("t", "INT")]
COMMITS, KEYS = 8, 14
# Seeds from here on draw further options; more of them with PENSTOCK_RANDOM_OPTIONS=50.
FURTHER, MORE = 1000, int(os.environ.get("PENSTOCK_RANDOM_OPTIONS", "3"))
SUMS = ("sum", "max", "min", "last_value", "last_non_null_value", "first_value", "first_non_null_value", "product")
TEXTS = ("listagg", "last_value", "max", "min", "last_non_null_value", "first_value")


def drawn_options(random: Random) -> tuple[dict[str, str], list[str]]:
    """Options that go together, and the kinds of rows that such a table takes."""
    engine = random.choice(["deduplicate", "deduplicate", "partial-update", "aggregation", "first-row"])
    options = {"merge-engine": engine, "bucket": str(random.randint(1, 3))}
    kinds = ["+I"]
    match engine:
        case "deduplicate":
            options |= random.choice([{}, {}, {"sequence.field": "s"}, {"sequence.field": "s,t"}])
            options |= random.choice([{}, {}, {"ignore-delete": "true"}])
            kinds = ["+I", "+I", "+U", "-D"]
        case "partial-update":
            options |= random.choice([{}, {"fields.s.sequence-group": "a,b"}, {"fields.s,t.sequence-group": "a,b"}])
            if "sequence-group" not in " ".join(options) and random.random() < 0.5:
                options["partial-update.remove-record-on-delete"] = "true"
                kinds = ["+I", "+I", "+I", "-D"]
        case "aggregation":
            options["fields.a.aggregate-function"] = random.choice(SUMS)
            options["fields.b.aggregate-function"] = random.choice(TEXTS)
            options |= random.choice([{}, {"fields.default-aggregate-function": "last_value"}])
    changelogs = {"first-row": ["none", "lookup"]}.get(engine, ["none", "input", "lookup", "full-compaction"])
    options["changelog-producer"] = random.choice(changelogs)
    if engine != "first-row" and options["changelog-producer"] in {"none", "lookup"} and random.random() < 0.4:
        options["deletion-vectors.enabled"] = "true"
    if options["changelog-producer"] in {"lookup", "full-compaction"} and random.random() < 0.4:
        options["changelog-producer.row-deduplicate"] = "true"
    options["num-sorted-run.compaction-trigger"] = str(random.randint(2, 5))
    options |= random.choice([{}, {"num-levels": "3"}, {"compaction.size-ratio": "50"}])
    options |= random.choice([{}, {"compaction.force-up-level-0": "true"}])
    options |= random.choice([{}, {}, {"file.format": "orc"}, {"file.format": "avro"}])
    return options, kinds


def further_options(random: Random, options: dict[str, str], kinds: list[str]) -> tuple[dict[str, str], list[str]]:
    """Add options that fewer tables have, and the kinds of rows that they are for."""
    drawn = dict(options)
    match drawn["merge-engine"]:
        case "deduplicate":
            if random.random() < 0.3:
                drawn["ignore-update-before"] = "true"
                kinds = ["+I", "+I", "+U", "-U", "-D"]
        case "partial-update":
            drawn, kinds = further_partial_update(random, drawn, kinds)
        case "aggregation":
            chosen = random.random()
            if chosen < 0.3:
                drawn["aggregation.remove-record-on-delete"] = "true"
                kinds = ["+I", "+I", "+I", "-D"]
            elif chosen < 0.6:
                drawn |= {"fields.a.aggregate-function": "sum", "fields.b.ignore-retract": "true"}
                drawn |= {"fields.s.ignore-retract": "true", "fields.t.ignore-retract": "true"}
                kinds = ["+I", "+I", "+U", "-U", "-D"]
    if drawn["changelog-producer"] in {"lookup", "full-compaction"} and random.random() < 0.3:
        drawn |= {"changelog-producer.row-deduplicate": "true", "changelog-producer.row-deduplicate-ignore-fields": "t"}
    forced = random.choice([{}, {}, {"force-lookup": "true"}])
    last_wins = drawn["merge-engine"] == "deduplicate" and "sequence.field" not in drawn
    if last_wins or drawn["changelog-producer"] != "full-compaction":  # Java loses values there, and we refuse it
        drawn |= forced
    drawn |= random.choice([{}, {"file.format.per.level": "0:avro,1:orc"}, {"changelog-file.format": "orc"}])
    drawn |= random.choice([{}, {}, {"metadata.stats-mode": "none"}, {"data-file.thin-mode": "true"}])
    # Which files are rewritten together depends on their sizes then, and on that the values of an empty group.
    sizes = {} if any("sequence-group" in name for name in drawn) else {"target-file-size": "1 kb"}
    return drawn | random.choice([{}, {}, sizes, {"num-levels": "2"}]), kinds


def further_partial_update(
    random: Random, options: dict[str, str], kinds: list[str]
) -> tuple[dict[str, str], list[str]]:
    groups = [name for name in options if name.endswith(".sequence-group")]
    if not groups:
        return options, kinds
    chosen = random.random()
    if chosen < 0.3:
        return options, ["+I", "+I", "+U", "-U", "-D"]
    if chosen < 0.5:
        first = groups[0].split(".")[1].split(",")[0]
        return options | {"partial-update.remove-record-on-sequence-group": first}, ["+I", "+I", "+I", "-D"]
    if chosen < 0.8:
        return options | {"fields.a.aggregate-function": random.choice(("sum", "last_value", "max"))}, kinds
    return options, kinds


def options_of(seed: int) -> tuple[Random, dict[str, str], list[str]]:
    """Return what a seed draws. Seeds from FURTHER on have further options."""
    random = Random(seed)
    options, kinds = drawn_options(random)
    if seed >= FURTHER:
        options, kinds = further_options(random, options, kinds)
    return random, options, kinds


def deletes_hang_on_sizes(options: Mapping[str, str]) -> bool:
    """How long a delete holds back rows of a lower sequence hangs on when its file reaches the top: on sizes."""
    return "sequence.field" in options


def drawn_rows(random: Random, kinds: list[str]) -> list[list[Any]]:
    def some(value: Any) -> Any:
        return None if random.random() < 0.25 else value

    return [
        [
            random.choice(kinds),
            random.randrange(KEYS),
            some(random.randint(-5, 5)),
            some(random.choice("xyz")),
            some(random.randint(0, 3)),
            some(random.randint(0, 3)),
        ]
        for _ in range(random.randint(1, 12))
    ]


def java_changes(oracle: Oracle, path: Path) -> Counter[Any]:
    changes = [change.rows for change in oracle.stream(path)]
    return Counter((kind, *row) for rows in changes for kind, row in zip(rows.kinds or (), rows.rows, strict=True))


@pytest.mark.parametrize("seed", [*range(8), *range(FURTHER, FURTHER + MORE)])
def test_a_table_written_by_both_equals_one_written_by_java(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    random, options, kinds = options_of(seed)
    if deletes_hang_on_sizes(options):
        options["write-only"] = "true"  # then both are compacted at the moments told here
        if options["changelog-producer"] == "full-compaction":  # Java's writer compacts in full, or is write-only
            options["changelog-producer"] = "input"
    alone, shared = (
        oracle.create(tmp_path, f"db.{name}", COLUMNS, primary_keys=["id"], options=options)
        for name in ("alone", "shared")
    )
    table = penstock.open_table(str(shared))
    for number in range(COMMITS):
        rows = drawn_rows(random, kinds)
        whole = options["changelog-producer"] == "full-compaction"
        oracle.write(alone, rows, compact="full" if whole else "auto")
        if random.random() < 0.6:
            with table.writer(commit_user="ours") as writer:
                writer.write(*arrow_changes(rows, COLUMNS))
                writer.commit(number)
        else:
            oracle.write(shared, rows, compact="full" if whole else "auto")
        if random.random() < 0.2:
            oracle.compact(alone)
            table.compact(full=True) if random.random() < 0.5 else oracle.compact(shared)
        expected, what = oracle.read(alone), f"commit {number} with {options}"
        assert difference(expected, oracle.read(shared)) is None, what
        assert difference(expected, penstock.open_table(str(shared)).scan().to_arrow()) is None, what
    # Of a row whose group has no sequence Java's changelog says other things than its reads: see below. Changes of
    # fields that are ignored are in no changelog.
    excused = ["I4"] if any("sequence-group" in name or "ignore-fields" in name for name in options) else []
    check_invariants(penstock.open_table(str(shared)), excused=excused)
    if options["changelog-producer"] != "none":
        assert java_changes(oracle, shared) == java_changes(oracle, alone), options


def levels_of(oracle: Oracle, path: Path) -> Counter[Any]:
    """Return the files of each level by keys and numbers; sizes differ between two writers of Parquet, ORC or Avro."""
    described = ("bucket", "level", "rows", "deletes", "min_key", "max_key", "min_seq", "max_seq")
    return Counter(str([file[name] for name in described]) for file in oracle.files(path))


@pytest.mark.parametrize("seed", [0, 1, 2, 5, 18, 39, *range(FURTHER + MORE, FURTHER + 2 * MORE)])
def test_both_compact_the_same_files_to_the_same_result(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    """Each step from one copy of the table: what is due then hangs on nothing that differs between the writers."""
    random, options, kinds = options_of(seed)
    table = oracle.create(tmp_path, "db.t", COLUMNS, primary_keys=["id"], options={**options, "write-only": "true"})
    for number in range(COMMITS):
        rows = drawn_rows(random, kinds)
        if random.random() < 0.5:
            with penstock.open_table(str(table)).writer(commit_user="ours") as writer:
                writer.write(*arrow_changes(rows, COLUMNS))
                writer.commit(number)
        else:
            oracle.write(table, rows)
        full, what = random.random() < 0.2, f"commit {number} with {options}"
        ours, javas = (Path(shutil.copytree(table, tmp_path / f"{number}" / who)) for who in ("ours", "javas"))
        penstock.open_table(str(ours)).compact(full=full)
        oracle.compact(javas, full=full)
        assert levels_of(oracle, ours) == levels_of(oracle, javas), what
        expected = oracle.read(javas)
        assert difference(expected, oracle.read(ours)) is None, what
        assert difference(expected, penstock.open_table(str(ours)).scan().to_arrow()) is None, what
        assert java_changes(oracle, ours) == java_changes(oracle, javas), what
        table = random.choice([ours, javas])


def both_written(oracle: Oracle, folder: Path, options: dict[str, str], steps: list[list[Any] | str]) -> list[Path]:
    """The same steps, row by row or a full compaction, once by Java and once by ours."""
    javas, ours = (
        oracle.create(folder, f"db.{name}", COLUMNS, primary_keys=["id"], options={"bucket": "1", **options})
        for name in ("javas", "ours")
    )
    table = penstock.open_table(str(ours))
    for number, step in enumerate(steps):
        if isinstance(step, str):
            oracle.compact(javas)
            table.compact(full=True)
            continue
        oracle.write(javas, [step], compact="auto")
        with table.writer(commit_user="ours") as writer:
            writer.write(*arrow_changes([step], COLUMNS))
            writer.commit(number)
    return [javas, ours]


@pytest.mark.parametrize(("compacted", "seen"), [([], []), (["full"], [[1, 3, "later", 7, None]])])
def test_a_delete_hides_lower_sequences_until_the_top_level(
    oracle: Oracle, tmp_path: Path, compacted: list[list[Any] | str], seen: list[list[Any]]
) -> None:
    rows: list[list[Any] | str] = [["+I", 1, 1, "first", 5, None], ["-D", 1, 2, "gone", 9, None]]
    steps = [*rows, *compacted, ["+I", 1, 3, "later", 7, None]]
    tables = both_written(oracle, tmp_path, {"sequence.field": "s"}, steps)
    assert [oracle.read(path).rows for path in tables] == [seen, seen]
    assert [levels_of(oracle, path) for path in tables[:1]] == [levels_of(oracle, path) for path in tables[1:]]


def test_the_changelog_of_a_null_sequence_group_equals_that_of_java(oracle: Oracle, tmp_path: Path) -> None:
    """The lookup runs the engine, which leaves the group empty; the file went up unmerged, and holds its values."""
    options = {"merge-engine": "partial-update", "fields.s.sequence-group": "a,b", "changelog-producer": "lookup"}
    steps: list[list[Any] | str] = [["+I", 1, 5, "x", None, 3], ["+I", 1, None, None, None, 4]]
    tables = both_written(oracle, tmp_path, options, steps)
    first, before, after = [1, None, None, None, 3], [1, 5, "x", None, 3], [1, None, None, None, 4]
    changes_of_both = {("+I", *first): 1, ("-U", *before): 1, ("+U", *after): 1}
    assert [java_changes(oracle, path) for path in tables] == [changes_of_both, changes_of_both]


def test_a_null_sequence_group_loses_its_values_at_a_rewrite_as_in_java(oracle: Oracle, tmp_path: Path) -> None:
    """So what such a table holds hangs on which files are due together, and that on their sizes: in Java too."""
    options = {"merge-engine": "partial-update", "fields.s.sequence-group": "a,b", "changelog-producer": "lookup"}
    alone: list[Any] = ["+I", 1, None, "z", None, 3]
    for number, (steps, kept) in enumerate([([alone], "z"), ([alone, ["+I", 2, 1, "y", 1, 1], "full"], None)]):
        tables = both_written(oracle, tmp_path / str(number), options, steps)
        assert [min(oracle.read(path).rows) for path in tables] == [[1, None, kept, None, 3]] * 2
        assert java_changes(oracle, tables[0]) == java_changes(oracle, tables[1])
