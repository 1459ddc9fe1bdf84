"""ORC footers that liborc or Arrow would die of: they are refused before they get there."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.errors import TableCorrupt
from penstock.table.files.orc.reader import read
from penstock.table.meta.container import REQUIRED, RecordShape, read_records
from penstock.table.orc_metadata.protobuf import Message
from penstock.table.orc_metadata.tail import OrcTail, OrcType
from penstock.table.values.types import Field, parse_type

FIELDS = [Field(0, "d", parse_type("DECIMAL(10, 2)")), Field(1, "l", parse_type({"type": "ARRAY", "element": "INT"}))]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = pa.table({"d": pa.array([Decimal("1.50")], pa.decimal128(10, 2)), "l": [[1, 2]]})
    orc.write_table(rows, str(tmp_path / "f.orc"), compression="uncompressed")
    return tmp_path / "f.orc"


def with_type(file: Path, kind: int, *changes: tuple[int, int]) -> None:
    """Put other numbers into the footer's type of this kind."""
    data = file.read_bytes()
    with pa.OSFile(str(file)) as source:
        tail = OrcTail(source)
    types = tail.types
    chosen = next(type_ for type_ in types if type_.integer(1) == kind)
    for number, value in changes:
        chosen.put(number, value)
    footer = Message(list(tail.footer.fields))
    footer.put_messages(4, types)
    metadata = data[tail.footer_start - tail.postscript.integer(5) : tail.footer_start]
    file.write_bytes(data[: tail.footer_start - len(metadata)] + tail.ending(metadata, footer))


def rows_of(file: Path) -> list[dict[str, object]]:
    with pa.OSFile(str(file)) as source:
        return [row for _, batch in read(source, FIELDS, batch_rows=10) for row in batch.to_pylist()]


def test_the_file_is_written_back_unchanged(file: Path) -> None:
    with_type(file, OrcType.DECIMAL)
    assert rows_of(file) == [{"d": Decimal("1.50"), "l": [1, 2]}]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (OrcType.DECIMAL, [(5, 200)]),
        (OrcType.DECIMAL, [(5, 0)]),
        (OrcType.DECIMAL, [(6, 40)]),
        (OrcType.DECIMAL, [(1, 99)]),
        (OrcType.LIST, [(2, 0)]),
        (OrcType.LIST, [(2, 99)]),
        (OrcType.LIST, [(1, OrcType.MAP)]),
        (OrcType.LIST, [(1, OrcType.UNION)]),
        (OrcType.STRUCT, [(1, OrcType.LIST)]),
    ],
)
def test_impossible_types_are_refused(file: Path, kind: int, changes: list[tuple[int, int]]) -> None:
    with_type(file, kind, *changes)
    with pytest.raises(TableCorrupt, match="metadata of an ORC file"):
        rows_of(file)


def test_a_manifest_with_such_a_footer_is_refused_by_its_name(file: Path) -> None:
    shape = RecordShape(lambda d: d, {"d": REQUIRED})
    assert read_records(file.read_bytes(), shape, "manifest/m", {}) == [Decimal("1.50")]
    with_type(file, OrcType.DECIMAL, (5, 200))
    with pytest.raises(TableCorrupt, match="metadata of an ORC file") as caught:
        read_records(file.read_bytes(), shape, "manifest/m", {"snapshot": 3})
    assert (caught.value.facts["file"], caught.value.facts["snapshot"]) == ("manifest/m", 3)
