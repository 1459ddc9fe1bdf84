"""Rows that pass the step which finds the buckets of keys. What it does with keys is tested with whole pipelines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.pipelines.mapping.target_tables import TargetVersion
from penstock.pipelines.tasks.key_placement import KeyPlacement
from penstock.pipelines.tasks.shuffle_rows import NO_TABLE, SCHEMA, Blob, as_batch
from penstock.table.catalog.settings import CatalogSettings

_LARGE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def test_rows_that_pass_have_the_types_of_those_that_the_step_makes(tmp_path: Path) -> None:
    """With useLargeVarTypes, Spark's batches have large types, and all batches of one output must have the same."""
    rows = as_batch(3, 0, [Blob(NO_TABLE, TargetVersion(0), b"", 0, 0, 1, b"a report")])
    large = pa.schema([field.with_type(_LARGE.get(field.type, field.type)) for field in SCHEMA])
    step = KeyPlacement(CatalogSettings.of(str(tmp_path), {}), 1)
    assert list(step.placed([rows.cast(large), rows])) == [rows, rows]
