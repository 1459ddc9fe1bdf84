from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock.errors import TableCorrupt
from penstock.table.dynamic_buckets.assigner import decode_hashes, encode_hashes
from penstock.table.files.deletion_vectors import decode_vectors, encode_vectors
from penstock.table.meta.entries import VectorRange
from tests.golden.cases import Case
from tests.golden.relations import difference
from tests.unit.table.files.golden_rows import GoldenFiles

DELETED = np.array([5, 6, 77])
BYTES = bytes.fromhex("010000001a5e43f2d03a300000010000000000020010000000050006004d00677de6c2")
BYTES64 = bytes.fromhex(
    "0100000026d1d339640100000000000000000000003a300000010000000000020010000000050006004d00ce712a10"
)


@pytest.mark.parametrize(("bitmap64", "expected", "length"), [(False, BYTES, 26), (True, BYTES64, 46)])
def test_vectors_have_the_layout_of_java(bitmap64: bool, expected: bytes, length: int) -> None:
    data, ranges = encode_vectors({"data-x.parquet": DELETED}, bitmap64=bitmap64)

    assert data == expected
    assert ranges == (VectorRange("data-x.parquet", 1, length, 3),)
    assert decode_vectors(data, ranges, "index-1")["data-x.parquet"].tolist() == [5, 6, 77]


@pytest.mark.parametrize("bitmap64", [False, True])
def test_a_file_contains_many_vectors(bitmap64: bool) -> None:
    random = np.random.default_rng(7)
    vectors = {f"f{n}": np.flatnonzero(random.random(200_000) < share) for n, share in enumerate((0.5, 0.001, 0.0))}
    if bitmap64:
        vectors["far"] = np.array([3, 2**33])

    data, ranges = encode_vectors(vectors, bitmap64=bitmap64)
    found = decode_vectors(data, ranges, "index-1")

    assert list(found) == list(vectors)
    assert all((found[name] == vectors[name]).all() for name in vectors)
    assert [range_.cardinality for range_ in ranges] == [len(vector) for vector in vectors.values()]


@pytest.mark.parametrize(
    ("data", "place", "message"),
    [
        (b"\x02" + BYTES[1:], VectorRange("f", 1, 26), "version 1"),
        (BYTES[:20], VectorRange("f", 1, 26), "length or kind"),
        (BYTES, VectorRange("f", 3, 26), "length or kind"),
        (BYTES, VectorRange("f", 900, 26), "outside"),
        (BYTES, VectorRange("f", 1, 25), "length or kind"),
        (BYTES[:20] + b"\x09" + BYTES[21:], VectorRange("f", 1, 26), "checksum"),
    ],
)
def test_damaged_vectors_are_refused(data: bytes, place: VectorRange, message: str) -> None:
    with pytest.raises(TableCorrupt, match=message) as caught:
        decode_vectors(data, [place], "index-1")

    assert caught.value.facts["file"] == "index-1"


@pytest.mark.parametrize(
    "name", ["dv_pk", "dv_bitmap64", "dv_lookup_partitioned", "dv_partial_update", "layout_data_dir", "dv_orc"]
)
def test_vectors_of_java_select_the_rows_that_java_reads(name: str) -> None:
    golden = GoldenFiles(Case(name))
    vectors: dict[str, Any] = {}
    for description in golden.case.expected["index_files"]:
        ranges = [VectorRange(*item) for item in description["deletion_vectors"]]
        data = golden.store.read(golden.paths[description["file"]])
        vectors |= decode_vectors(data, ranges, "index-1")
        assert encode_again(data, ranges) == (data, tuple(ranges))

    assert difference(golden.case.latest, golden.rows(vectors)) is None


def encode_again(data: bytes, ranges: list[VectorRange]) -> tuple[bytes, tuple[VectorRange, ...]]:
    again, places = encode_vectors(decode_vectors(data, ranges, "index-1"), bitmap64=data[5:9].hex() == "d1d33964")
    return again, tuple(replace(place) for place in places)


def test_hashes_are_big_endian_and_counted() -> None:
    hashes = np.array([-300363099, 1465514398], np.int32)

    data = encode_hashes(hashes)

    assert data.hex() == "ee18d2a55759f99e"
    assert decode_hashes(data, 2, "index-2").tolist() == hashes.tolist()
    with pytest.raises(TableCorrupt, match="cannot contain 3"):
        decode_hashes(data, 3, "index-2")
