"""Deletion vectors in Iceberg's form: Puffin files, one for each index file of the table."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.table.files.deletion_vectors import decode_vectors, encode_vectors
from penstock.table.meta.entries import VectorRange

_MAGIC = b"PFA1"
_SIZE = struct.Struct("<i")
_ROW_POSITION_ID = 2147483645  # the id of Iceberg's metadata column _pos
SUFFIX = ".puffin"


def puffin_of(index: bytes, ranges: Sequence[VectorRange], uris: Sequence[str], where: str) -> PuffinFile:
    """Return the deletion vectors of an index file, read from `where`, as a Puffin file.

    `uris` are the URIs of the data files, in the order of the ranges.
    """
    vectors = decode_vectors(index, ranges, where)
    # Vectors of 64 bits have Iceberg's encoding already; vectors of 32 bits are converted.
    data, wide = encode_vectors(vectors, bitmap64=True)
    body, shift = data[1:], len(_MAGIC) - 1  # without the version of Paimon's file
    blobs = [
        PuffinBlob(uri, vector.offset + shift, vector.length, vector.cardinality or 0)
        for uri, vector in zip(uris, wide, strict=True)
    ]
    footer = json.dumps({"blobs": [blob.node for blob in blobs], "properties": {}}).encode()
    end = _MAGIC + footer + _SIZE.pack(len(footer)) + bytes(4) + _MAGIC
    return PuffinFile(_MAGIC + body + end, tuple(blobs))


@dataclass(frozen=True, slots=True)
class PuffinBlob:
    """The place of the deletion vector of a data file in a Puffin file, and the number of rows it deletes."""

    data_file: str
    offset: int
    length: int
    cardinality: int

    @property
    def node(self) -> dict[str, Any]:
        return {
            "type": "deletion-vector-v1",
            "fields": [_ROW_POSITION_ID],
            "snapshot-id": -1,  # known to manifests only
            "sequence-number": -1,
            "offset": self.offset,
            "length": self.length,
            "properties": {"referenced-data-file": self.data_file, "cardinality": str(self.cardinality)},
        }


@dataclass(frozen=True, slots=True)
class PuffinFile:
    """The content of a Puffin file, and its deletion vectors."""

    data: bytes
    blobs: tuple[PuffinBlob, ...]


def puffin_name(index_file: str) -> str:
    """Return the name of the Puffin file for an index file. Both are written once and never change."""
    return index_file + SUFFIX


def puffin_names(paths: Iterable[str]) -> set[str]:
    """Return the names of the Puffin files among files of any kind."""
    return {name for path in paths if (name := path.rpartition("/")[2]).endswith(SUFFIX)}
