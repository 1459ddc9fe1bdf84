"""Sorted rows of a write buffer on local disk: compressed Arrow, in batches whose boundaries never split a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.errors import ConfigError
from penstock.table.options.table_options import TableOptions
from penstock.table.options.writers import SPILL_COMPRESSION, SPILL_COMPRESSION_ZSTD_LEVEL

_CODECS = {"zstd": "zstd", "lz4": "lz4", "none": None, "lzo": "lz4"}


@dataclass(frozen=True, slots=True)
class SpilledRun:
    """A file of sorted rows on local disk."""

    path: Path
    size: int

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches; only one is decompressed at a time."""
        with pa.OSFile(str(self.path)) as source, pa.ipc.open_stream(source) as stream:
            yield from stream

    def delete(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)


def spill(path: Path, pieces: Iterable[pa.Table], options: TableOptions) -> SpilledRun:
    """Write each piece as one batch. If it dies half way, an incomplete file remains in a temporary folder."""
    writer = None
    try:
        for piece in pieces:
            writer = writer or pa.ipc.new_stream(str(path), piece.schema, options=_encoding(options))
            for batch in piece.combine_chunks().to_batches():
                writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()
    return SpilledRun(path, path.stat().st_size)


def _encoding(options: TableOptions) -> pa.ipc.IpcWriteOptions:
    name = options[SPILL_COMPRESSION].strip().lower()
    if name not in _CODECS:
        raise ConfigError(f"spill-compression = {name!r} is not known", hint=f"choices are {', '.join(_CODECS)}")
    level = options[SPILL_COMPRESSION_ZSTD_LEVEL]
    codec = pa.Codec("zstd", level) if name == "zstd" else _CODECS[name]
    return pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
