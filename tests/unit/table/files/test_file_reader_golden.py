"""Files that Java wrote, read one by one: every type, codec, layout and schema change."""

from __future__ import annotations

import pytest

from tests.golden.cases import Case
from tests.golden.relations import difference
from tests.unit.table.files.golden_rows import GoldenFiles

CASES = [
    "types_append_avro",
    "types_pk_avro",
    "codecs_avro",
    "layout_thin_mode_avro",
    "layout_format_per_level",
    "py_append_avro",
    "types_append_orc",
    "types_pk_orc",
    "codecs_orc",
    "evolve_pk_orc",
    "py_append_orc",
    "evolve_append_parquet",
    "evolve_pk_parquet",
    "evolve_pk_avro",
    "evolve_nullability",
    "types_append_parquet",
    "types_pk_parquet",
    "codecs_parquet",
    "codecs_parquet_lz4",
    "layout_thin_mode",
    "layout_file_index",
    "layout_manifest_small",
    "layout_changelog_format",
    "stats_none",
    "py_append_types",
    "py_append_bucketed",
    "py_pk_types",
    "py_dynamic",
]


@pytest.mark.parametrize("name", CASES)
def test_a_table_of_java_is_read_file_by_file(name: str) -> None:
    case = Case(name)

    assert difference(case.latest, GoldenFiles(case).rows()) is None
