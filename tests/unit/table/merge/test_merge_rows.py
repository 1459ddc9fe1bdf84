"""Every merge engine against its row-by-row model, on random runs of random rows."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

import pytest

from penstock.table.merge.merge_rows import merge_rows
from penstock.table.merge.spec import MergeSpec
from tests.unit.table.merge.engine_model import Row, merge_key
from tests.unit.table.merge.engine_tables import TABLES, random_row
from tests.unit.table.merge.tables import rows_table, spec_of

pytestmark = pytest.mark.slow


def random_runs(random: Random, columns: dict[str, Any], kinds: list[int]) -> list[list[tuple[int, int, Row]]]:
    """Sorted runs, older first: one row a key in each."""
    sequence = itertools.count()
    result = []
    for _ in range(random.randint(1, 6)):
        run = []
        for key in sorted(random.sample(range(40), random.randint(5, 40))):
            row = random_row(random, columns)
            run.append((next(sequence), random.choice(kinds), {**row, "k": key}))
        result.append(run)
    return result


def canonical(value: Any, *, unordered: bool = False) -> Any:
    if isinstance(value, list):
        items = [canonical(item) for item in value]
        return sorted(items, key=repr) if unordered else items
    if isinstance(value, tuple):
        return [canonical(item) for item in value]
    if isinstance(value, dict):
        return {name: canonical(value[name]) for name in sorted(value)}
    if isinstance(value, float):
        return (value, math.copysign(1, value))
    return value


def expected(spec: MergeSpec, given: list[list[tuple[int, int, Row]]], *, bypass: bool = True) -> list[Any]:
    by_key: dict[int, list[tuple[int, int, Row]]] = {}
    for record in itertools.chain(*given):
        by_key.setdefault(record[2]["k"], []).append(record)
    rows = []
    for key in sorted(by_key):
        records = sorted(by_key[key], key=lambda record: (sequence_of(spec, record[2]), record[0]))
        merged = merge_key(spec, [(kind, row) for _, kind, row in records], bypass=bypass)
        if merged is not None:
            rows.append(shown(spec, merged[1]))
    return rows


def sequence_of(spec: MergeSpec, row: Row) -> tuple[Any, ...]:
    parts: list[Any] = [row[name] for name in spec.sequence_fields]
    if spec.descending:
        return tuple((part is not None, -(part or 0)) for part in parts)
    return tuple((part is not None, part if part is not None else 0) for part in parts)


def shown(spec: MergeSpec, row: Row) -> dict[str, Any]:
    functions = {name: aggregate.function.name for name, aggregate in spec.aggregates.items()}
    loose = {
        name
        for name, aggregate in spec.aggregates.items()
        if functions[name] == "merge_map"
        or (functions[name] in {"collect", "nested_update"} and (aggregate.distinct or aggregate.nested_key))
    }
    return {name: canonical(value, unordered=name in loose) for name, value in row.items()}


@pytest.mark.parametrize("bypass", [True, False], ids=["bypass", "no bypass"])
@pytest.mark.parametrize("name", TABLES)
def test_merged_runs_equal_the_model(name: str, bypass: bool) -> None:
    columns, options, kinds = TABLES[name]
    spec = spec_of(columns, options)
    for seed in range(8):
        runs = random_runs(Random(f"{name} {seed}"), columns, kinds)
        merged = merge_rows(spec, [rows_table(spec, run) for run in runs], drop_deletes=True, bypass=bypass)
        found = [shown(spec, row) for row in merged.drop_columns(["_SEQUENCE_NUMBER", "_VALUE_KIND"]).to_pylist()]
        for ours, model in zip(found, expected(spec, runs, bypass=bypass), strict=True):
            assert ours == model, f"seed {seed}"
