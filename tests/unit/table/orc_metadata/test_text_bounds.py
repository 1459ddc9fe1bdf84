"""Bounds of long texts in ORC files are cut as Java's writer cuts them, and enclose the texts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.table.files.encoding import Encoding
from penstock.table.files.orc.reader import OrcWriter, read
from penstock.table.orc_metadata.protobuf import BYTES, Message
from penstock.table.orc_metadata.tail import OrcTail, Stream
from penstock.table.orc_metadata.text_bounds import with_short_bounds
from penstock.table.values.types import STRING, Field

FIELDS = (Field(0, "v", STRING),)


def texts_of(minimum: str, maximum: str) -> dict[int, str]:
    """The bounds that remain of these, by their field."""
    texts = Message([(1, BYTES, minimum.encode()), (2, BYTES, maximum.encode()), (3, 0, 7)])
    found = with_short_bounds(Message([(1, 0, 2), (4, BYTES, texts.encode())])).messages(4)[0]
    assert found.integer(3) == 7
    return {number: value.decode() for number, _, value in found.fields if isinstance(value, bytes)}


def test_short_bounds_stay() -> None:
    assert texts_of("a", "b" * 1024) == {1: "a", 2: "b" * 1024}


@pytest.mark.parametrize(
    ("text", "lower", "upper"),
    [
        ("a" * 1025, "a" * 1024, "a" * 1023 + "b"),
        ("a" + "é" * 600, "a" + "é" * 511, "a" + "é" * 510 + "ê"),
        ("a" + "\U0010ffff" * 300, "a" + "\U0010ffff" * 255, "b"),
        ("\ud7ff" * 400, "\ud7ff" * 341, "\ud7ff" * 340 + "\ue000"),
    ],
    ids=["ascii", "two bytes", "last character", "before the surrogates"],
)
def test_long_bounds_enclose_the_text(text: str, lower: str, upper: str) -> None:
    assert texts_of(text, text) == {4: lower, 5: upper}
    assert lower.encode() <= text.encode() < upper.encode()


def test_a_text_that_no_short_one_is_above_is_its_own_bound() -> None:
    assert texts_of("a", "\U0010ffff" * 300) == {1: "a", 5: "\U0010ffff" * 300}


def file_of(path: Path, *stripes: list[str]) -> Path:
    with pa.OSFile(str(path), "wb") as out:
        writer = OrcWriter(out, FIELDS, Encoding("zstd"), pa.table({"v": stripes[0]}))
        for texts in stripes:
            writer.write(pa.table({"v": texts}))
        writer.close()
    return path


def test_a_file_has_long_texts_only_as_values(tmp_path: Path) -> None:
    texts = ["b" * 3_000_000, "a" * 3_000_000, "c"]
    path = file_of(tmp_path / "f.orc", texts, texts[::-1])
    with pa.OSFile(str(path)) as source:
        tail = OrcTail(source)
        assert tail.size < 20_000
        for stripe in (0, 1):
            column = tail.metadata.messages(1)[stripe].messages(1)[1].messages(4)[0]
            assert (column.text(4), column.text(2), column.integer(3) >> 1) == ("a" * 1024, "c", 6_000_001)
            index = next(part for part in tail.parts(stripe) if (part.kind, part.column) == (Stream.ROW_INDEX, 1))
            entry = tail.message(index.offset, index.length).messages(1)[0]
            assert entry.messages(2)[0].messages(4)[0].text(4) == "a" * 1024
        found = [value for _, batch in read(source, FIELDS, batch_rows=10) for value in batch.column(0).to_pylist()]
    assert found == [*texts, *texts[::-1]]
    assert orc.read_table(str(path)).column(0).to_pylist() == found
