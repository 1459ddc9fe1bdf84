"""Merging runs batch by batch gives what merging them at once gives, in bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest

from penstock.table.merge.bounded_merge import SortedRun, merge_runs, steps
from penstock.table.merge.merge_rows import merge_rows
from penstock.table.merge.spec import MergeSpec
from tests.unit.table.merge.tables import rows_table, spec_of

KEYS = {
    "one integer": ({"k": "BIGINT NOT NULL"}, lambda n: {"k": n * 1_000_003 - 40}),
    "a text": ({"k": "STRING NOT NULL"}, lambda n: {"k": "x" * (n % 5) + chr(97 + n % 26) + str(n)}),
    "a text and a number": (
        {"k": "STRING NOT NULL", "l": "INT NOT NULL"},
        lambda n: {"k": "ab\0c"[: n % 5], "l": -n},
    ),
    "two numbers": ({"k": "BIGINT NOT NULL", "l": "DOUBLE NOT NULL"}, lambda n: {"k": n % 7, "l": n / 3 - 5}),
    "a moment and a text": (
        {"k": "TIMESTAMP(9) NOT NULL", "l": "STRING NOT NULL"},
        lambda n: {"k": n // 3, "l": str(n % 3)},
    ),
    "a decimal": ({"k": "DECIMAL(30, 2) NOT NULL"}, lambda n: {"k": n * 10**20 - 10**21}),
}


def spec_and_runs(name: str, seed: int, count: int) -> tuple[MergeSpec, list[pa.Table]]:
    columns, key_of = KEYS[name]
    spec = spec_of({**columns, "a": "INT", "b": "STRING"}, {"merge-engine": "partial-update"}, tuple(columns))
    random, sequence, runs = Random(f"{name} {seed}"), itertools.count(), []
    for _ in range(count):
        keys = random.sample(range(60), random.randint(1, 60))
        records = [(key_of(n), n) for n in keys]
        records.sort(key=lambda pair: tuple(pair[0].values()))
        rows = [{**k, "a": random.choice([None, n]), "b": random.choice([None, str(n)])} for k, n in records]
        runs.append(rows_table(spec, [(next(sequence), 0, row) for row in rows]))
    return spec, runs


def batches(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches(max_chunksize=rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_merging_in_steps_equals_merging_at_once(name: str, rows: int) -> None:
    for seed in range(3):
        spec, runs = spec_and_runs(name, seed, 5)
        whole = merge_rows(spec, runs, drop_deletes=False)
        stepwise = merge_runs(spec, [SortedRun(0, batches(run, rows)) for run in runs], drop_deletes=False)
        assert pa.concat_tables(stepwise).equals(whole)


@pytest.mark.parametrize("name", ["one integer", "a text"])
def test_more_runs_than_the_limit_merge_in_two_rounds(name: str, tmp_path: object) -> None:
    spec, runs = spec_and_runs(name, 1, 17)
    open_now = most = 0

    def watched(run: pa.Table) -> Iterator[pa.RecordBatch]:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        yield from batches(run, 9)
        open_now -= 1

    sorted_runs = [SortedRun(5 if place == 0 else 0, watched(run)) for place, run in enumerate(runs)]
    found = merge_runs(spec, sorted_runs, drop_deletes=False, max_open=4, spill_folder=str(tmp_path))
    assert pa.concat_tables(found).equals(merge_rows(spec, runs, drop_deletes=False))
    assert most <= 4


def test_a_step_keeps_at_most_one_batch_of_each_run() -> None:
    spec, runs = spec_and_runs("one integer", 2, 4)
    for step in steps(spec, [SortedRun(0, batches(run, 8)) for run in runs]):
        assert len(step.parts) <= 4
        assert all(len(part) <= 8 for part in step.parts)


def test_a_single_run_passes_without_being_copied() -> None:
    spec, runs = spec_and_runs("one integer", 3, 1)
    [merged] = merge_runs(spec, [SortedRun(3, batches(runs[0], 1000))], drop_deletes=True)
    assert merged.column("b").chunk(0).buffers()[2].address == runs[0].column("b").chunk(0).buffers()[2].address


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "first-row"])
def test_an_unordered_merge_has_the_same_rows(engine: str) -> None:
    spec = spec_of({"k": "INT NOT NULL", "a": "INT"}, {"merge-engine": engine})
    random, sequence = Random(engine), itertools.count()
    runs = []
    for _ in range(4):
        keys = sorted(random.sample(range(50), 25))
        kinds = [random.choice([0, 3]) if engine == "deduplicate" else 0 for _ in keys]
        rows = [{"k": key, "a": random.choice([None, key])} for key in keys]
        runs.append(rows_table(spec, [(next(sequence), kind, row) for kind, row in zip(kinds, rows, strict=True)]))
    loose = merge_rows(spec, runs, drop_deletes=True, ordered=False)
    assert loose.sort_by("k").equals(merge_rows(spec, runs, drop_deletes=True).combine_chunks())
