"""Texts of many small batches that are cast at once: every row, bad record and count is as without it."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from penstock.formats.change import ChangeBatch, SourceField, SourceSchema
from penstock.schema_evolution.casts_together import FEW_ROWS, FEWEST_COLUMNS, cast_together
from penstock.schema_evolution.computed_columns import ComputedColumn
from penstock.schema_evolution.drift import ColumnRules
from penstock.schema_evolution.fit import Fit, FittedRows
from penstock.table.schema.new_schema import create_schema

# Texts by type: those that fit, and those that do not, are cut, or are not in Arrow's format.
TEXTS: dict[str, tuple[list[str | None], list[str]]] = {
    "TINYINT": (["1", "-7", None], ["0x1F", "300", "1.0", ""]),
    "INT": (["12", "-99", None], ["0XFF", "1e3", "9999999999"]),
    "BIGINT": (["1", "2", "30"], ["x", "1.5", "99999999999999999999"]),
    "FLOAT": (["1.5", "9.899999618530273", None], ["1e300", "one"]),
    "DOUBLE": (["1.5", "-0.25", None], ["1e999", "0.10000000000000000001"]),
    "DECIMAL(10, 2)": (["1.50", "-3", None], ["1e3", "1.505", "123456789012", "1e-9999"]),
    "BOOLEAN": (["true", "0", None], ["maybe", "2"]),
    "DATE": (["2024-02-29", "1969-12-31", None], ["0000-00-00", "2024-02-30", "0000-12-31"]),
    "TIMESTAMP(0)": (["2024-02-29 10:11:12", None], ["2024-02-29 10:11:12.5", "0000-00-00 00:00:00"]),
    "TIMESTAMP(3)": (["1969-01-01 00:00:00.123", None], ["2024-02-29 10:11:12.123456", "never"]),
    "TIMESTAMP_LTZ(3)": (["2024-07-01 10:11:12.123", None], ["never"]),
    "TIME": (["10:11:12", None], ["-01:00:00"]),
    "VARCHAR(5)": (["a", "abcde", None], ["abcdef"]),
    "STRING": (["a", "", None], []),
    "BYTES": (["a", None], []),
}


def fit_of(chosen: random.Random, key: str) -> tuple[Fit, dict[str, str]]:
    """Return a fit for a table of random columns, and the columns with their keys in TEXTS."""
    names = [name for name in TEXTS if chosen.random() < 0.9]
    types = {"id": key, "name": "STRING"} | {f"C{place}": name for place, name in enumerate(names)}
    declared = [(name, f"{type_} NOT NULL" if chosen.random() < 0.1 else type_) for name, type_ in types.items()]
    computed = (ComputedColumn.of("made=trim(name)"),) if chosen.random() < 0.3 else ()
    declared += [("made", "STRING")] if computed else []
    schema = create_schema(declared, ["id"], [], {"bucket": "1"}, now=0)
    return Fit(schema, ColumnRules(), computed=computed, zone=chosen.choice(["UTC", "Europe/Berlin"])), types


def batch_of(types: dict[str, str], chosen: random.Random, odd: float) -> ChangeBatch:
    """Return some rows with texts for these columns, of which the source may lack some."""
    count, columns = chosen.randrange(1, 40), {}
    for name, type_ in types.items():
        if name in {"id", "name"} or chosen.random() < 0.95:
            good, bad = TEXTS[type_]
            texts = [chosen.choice(bad) if bad and chosen.random() < odd else chosen.choice(good) for _ in range(count)]
            columns[name] = pa.array(texts, pa.string())
    rows = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
    return ChangeBatch.inserts(SourceSchema("text", "s", "t", tuple(SourceField(name) for name in columns)), rows)


def shown(fitted: FittedRows) -> tuple[object, ...]:
    batch = fitted.batch
    kept = batch.rows.schema, batch.rows.to_pylist(), batch.kinds.tolist(), batch.positions.tolist()
    return (*kept, fitted.bad, fitted.nulled, fitted.inexact)


@pytest.mark.parametrize("odd", [0.0, 0.002, 0.05])
@pytest.mark.parametrize("seed", range(5))
def test_rows_bad_records_and_counts_are_those_of_batches_that_are_cast_alone(seed: int, odd: float) -> None:
    chosen = random.Random(f"{seed} {odd}")
    key = chosen.choice(["BIGINT", "INT", "DOUBLE", "DECIMAL(10, 2)", "TIMESTAMP(3)", "DATE"])
    fits = [fit_of(chosen, key) for _ in range(3)]
    pairs = [(fit, batch_of(types, chosen, odd)) for fit, types in fits for _ in range(chosen.randrange(1, 6))]
    pairs.append((fits[0][0], pairs[0][1].filter(np.zeros(len(pairs[0][1]), np.bool_))))
    together = cast_together([batch for _, batch in pairs], [fit for fit, _ in pairs])
    for (fit, batch), cast in zip(pairs, together, strict=True):
        assert shown(fit.rows(cast)) == shown(fit.rows(batch))


def plain(count: int, texts: str = "7") -> tuple[Fit, ChangeBatch]:
    schema = create_schema([("id", "BIGINT")], ["id"], [], {"bucket": "1"}, now=0)
    rows = pa.RecordBatch.from_arrays([pa.array([texts] * count, pa.string())], names=["id"])
    return Fit(schema, ColumnRules()), ChangeBatch.inserts(SourceSchema("text", "s", "t", (SourceField("id"),)), rows)


def types(pairs: list[tuple[Fit, ChangeBatch]]) -> list[str]:
    cast = cast_together([batch for _, batch in pairs], [fit for fit, _ in pairs])
    return [str(batch.rows.schema.field(0).type) for batch in cast]


def test_only_small_batches_of_which_there_are_some_are_cast() -> None:
    few = [plain(3)] * FEWEST_COLUMNS
    assert types(few) == ["int64"] * FEWEST_COLUMNS
    assert types(few[1:]) == ["string"] * (FEWEST_COLUMNS - 1)
    assert types([plain(FEW_ROWS), *few]) == ["string", *["int64"] * FEWEST_COLUMNS]


def test_one_text_that_does_not_fit_leaves_all_columns_of_the_type_as_they_are() -> None:
    assert types([*[plain(3)] * FEWEST_COLUMNS, plain(1, "x")]) == ["string"] * (FEWEST_COLUMNS + 1)


def test_a_batch_without_a_target_stays_as_it_is() -> None:
    pairs = [plain(3) for _ in range(FEWEST_COLUMNS + 1)]
    batches = [batch for _, batch in pairs]
    cast = cast_together(batches, [None, *(fit for fit, _ in pairs[1:])])
    assert cast[0] is batches[0]
    assert cast[1] is not batches[1]
