"""Iceberg metadata beside tables, read by pyiceberg."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import cramjam
import pyarrow as pa

from penstock.table.handle import Table

AT_TABLE = {"metadata.iceberg.storage": "table-location"}
VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
}


class _Snappy(types.ModuleType):
    """What pyiceberg needs of python-snappy, which is not among the requirements."""

    def __init__(self) -> None:
        super().__init__("snappy")

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.decompress_raw(data))


sys.modules.setdefault("snappy", _Snappy())


def folder_of(table: Table) -> Path:
    """The metadata folder of a table with `table-location`."""
    return Path(table.path) / "metadata"


def newest(folder: Path) -> Path:
    """The metadata that the hint names."""
    return folder / f"v{(folder / 'version-hint.text').read_text()}.metadata.json"


def opened(folder: Path) -> Any:
    """The table as pyiceberg opens it."""
    # Imported here: pyiceberg looks for snappy when it is imported.
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(newest(folder)))


def iceberg_rows(folder: Path, snapshot: int | None = None) -> pa.Table:
    return opened(folder).scan(snapshot_id=snapshot).to_arrow()


def ordered(rows: pa.Table) -> list[str]:
    """The rows in a form that compares: without order, and with the values of a column in Python's types."""
    return sorted(repr([_plain(value) for value in row.values()]) for row in rows.to_pylist())


def _plain(value: Any) -> Any:
    # Readers return maps as dicts or as lists of pairs.
    if isinstance(value, dict):
        return sorted(map(repr, value.items()))
    if isinstance(value, list):
        return sorted(map(repr, value)) if value and isinstance(value[0], tuple) else [_plain(item) for item in value]
    return value


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
