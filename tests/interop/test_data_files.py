"""Files of ours as Java reads them: every type in every format, random rows, before and after Java compacts them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.table.catalog.path_tables import create_table, open_table
from tests.golden.relations import difference
from tests.golden.rows import arrow_rows, parsed
from tests.interop.oracle.client import Oracle
from tests.strategies import Columns, columns, rows
from tests.unit.table.files.test_round_trips import beyond_avro, relation

NUMBERS = itertools.count()
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]


def made(folder: Path, of: Columns, drawn: list[Any], file_format: str) -> Path:
    path = folder / f"t{next(NUMBERS)}"
    options = {"file.format": file_format, "bucket": "1" if of.keys else "-1"}
    fields = [(name, parsed(kind)) for name, kind in of.columns]
    table = create_table(str(path), fields, primary_keys=of.primary_keys, options=options)
    with table.writer(commit_user="u") as writer:
        writer.write(arrow_rows(drawn, of.columns))
        writer.commit(identifier=1)
    return path


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@settings(max_examples=20, deadline=None, suppress_health_check=QUIET)
@given(data=st.data())
def test_java_reads_and_compacts_our_files(
    file_format: str, oracle: Oracle, tmp_path: Path, data: st.DataObject
) -> None:
    of = data.draw(columns(depth=2, keyed=True))
    if file_format == "avro" and any(beyond_avro(kind) for _, kind in of.columns):
        return
    drawn = data.draw(rows(of).filter(bool))
    wanted = relation(of, drawn, file_format)
    path = made(tmp_path, of, drawn, file_format)

    assert difference(wanted, oracle.read(path)) is None

    oracle.compact(path)

    assert difference(wanted, open_table(str(path)).scan().to_arrow()) is None
