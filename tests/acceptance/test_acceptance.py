"""The acceptance suite, answered by Penstock, pypaimon and pypaimon-rust, and by a reader that returns wrong rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.table.catalog.path_tables import open_table
from tests.acceptance.__main__ import check, check_table, read_with_penstock
from tests.acceptance.suite import Read, answer, reads_in, unpack, verdicts
from tests.golden.relations import difference
from tests.interop.peer_process import PeerRefused
from tests.interop.pypaimon.client import Pypaimon
from tests.interop.pypaimon_rust.client import PypaimonRust

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

# pypaimon refuses these tables, or returns other rows than Java Paimon does.
REFUSED = {
    "dv_bitmap64", "dv_partial_update", "layout_manifest_orc", "merge_agg_ignore_retract", "merge_agg_remove",
    "merge_partial_ignore_delete", "merge_partial_remove", "merge_seqgroup", "merge_seqgroup_default_agg",
    "merge_seqgroup_delete", "merge_seqgroup_multi_lookup", "merge_seqgroup_remove", "types_append_avro",
    "types_append_orc", "types_append_parquet", "types_pk_avro", "types_pk_orc", "types_pk_parquet",
}  # fmt: skip
OTHER_ROWS = {"codecs_orc", "dv_orc", "evolve_pk_orc", "merge_agg_lookup_levels"}
# The same for pypaimon-rust.
REFUSED_BY_RUST = {
    "append_row_tracking", "codecs_orc", "dv_orc", "evolve_pk_orc", "layout_manifest_orc", "part_float_decimal",
    "types_append_orc", "types_pk_orc",
}  # fmt: skip
OTHER_ROWS_OF_RUST = {"merge_agg_lookup_levels", "merge_seqgroup_multi_lookup", "types_pk_avro"}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("acceptance")
    assert unpack(folder) > 1000
    return folder


def test_penstock_gives_every_answer(suite: Path) -> None:
    read_with_penstock(suite)
    wrong = [(read.case, read.name, verdict) for read, verdict in verdicts(suite) if verdict != "right"]
    assert wrong == []
    assert check(suite) == 0


def test_pypaimon_gives_the_newest_rows_of_the_tables_that_it_can_read(suite: Path, pypaimon: Pypaimon) -> None:
    found = refused_and_other(suite, lambda case: pypaimon.read(suite / case / "table"))
    assert found == (REFUSED, OTHER_ROWS)


def test_pypaimon_rust_gives_the_newest_rows_of_the_tables_that_it_can_read(suite: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake" / "suite.db"
    lake.mkdir(parents=True)

    def read(case: str) -> pa.Table:
        # pypaimon-rust opens tables of a warehouse by their names.
        (lake / case).symlink_to(suite / case / "table")
        return rust.read(lake / case)

    with PypaimonRust.started(tmp_path) as rust:
        found = refused_and_other(suite, read)
    assert found == (REFUSED_BY_RUST, OTHER_ROWS_OF_RUST)


def refused_and_other(suite: Path, answer_of: Callable[[str], pa.Table]) -> tuple[set[str], set[str]]:
    """Return the cases whose newest rows a reader refuses, and the cases for which it returns other rows."""
    refused, other = set(), set()
    for read in (read for read in reads_in(suite) if read.name == "latest"):
        try:
            rows = answer_of(read.case)
        except PeerRefused:
            refused.add(read.case)
            continue
        is_empty = not rows.num_columns and not read.rows.rows  # pypaimon-rust returns no batch then, and no columns
        if not is_empty and difference(read.rows, rows) is not None:
            other.add(read.case)
    return refused, other


def test_wrong_and_missing_answers_are_found(suite: Path, tmp_path: Path) -> None:
    reads = [read for read in reads_in(suite) if read.name == "latest" and len(read.rows) > 1][:2]
    folder = tmp_path / "copy"
    for read in reads:
        (folder / read.case).mkdir(parents=True)
        (folder / read.case / "reads.json").write_bytes((suite / read.case / "reads.json").read_bytes())
    rows = rows_of(suite, reads[0])
    answer(folder, reads[0], rows.slice(1))
    found = {(read.case, read.name): verdict for read, verdict in verdicts(folder)}
    assert "rows are missing" in found[reads[0].case, "latest"]
    assert found[reads[1].case, "latest"] == "missing"
    answer(folder, reads[0], rows)
    assert next(verdict for read, verdict in verdicts(folder) if read.name == "latest") == "right"
    assert check(folder) == 1


def rows_of(suite: Path, read: Read) -> pa.Table:
    return open_table(str(suite / read.case / "table")).scan().to_arrow()


@pytest.mark.parametrize("name", ["merge_dedup", "dv_pk", "bucket_dynamic"])
def test_tables_of_the_suite_keep_the_invariants(suite: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_table(suite / name / "table") == 0, capsys.readouterr().out


def test_a_table_of_pypaimon_keeps_the_invariants(pypaimon: Pypaimon, tmp_path: Path) -> None:
    columns = [("k", "INT NOT NULL"), ("v", "STRING")]
    path = pypaimon.create(tmp_path, "d.t", columns, primary_keys=["k"], options={"bucket": "1"})
    for first in (1, 2):
        pypaimon.write(path, pa.table({"k": pa.array([first, 3], pa.int32()), "v": ["a", str(first)]}))
    assert check_table(path) == 0


@pytest.mark.parametrize(
    ("files", "broken"), [("bucket-*/data-*", "I2 "), ("snapshot/snapshot-2", "I1 "), ("schema/schema-0", "no table")]
)
def test_a_broken_table_is_reported_with_its_invariant(
    files: str, broken: str, suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(suite / "merge_dedup" / "table", tmp_path / "table")
    min((tmp_path / "table").glob(files)).unlink()
    assert check_table(tmp_path / "table") == 1
    assert broken in capsys.readouterr().out
