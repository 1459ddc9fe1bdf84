"""The postponed bucket (-2), where rows are stored unmerged until a compaction distributes them to real buckets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from penstock.table.buckets.layout import Layout
from penstock.table.options.files import (
    DATA_FILE_PREFIX,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    METADATA_STATS_MODE,
    METADATA_STATS_MODE_PER_LEVEL,
)
from penstock.table.options.table_options import TableOptions

_PER_LEVEL = {FILE_FORMAT_PER_LEVEL.key, FILE_COMPRESSION_PER_LEVEL.key, METADATA_STATS_MODE_PER_LEVEL.key}


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of a file: the job's user, and its number among the writers that share the rows by key."""

    user: str = "penstock"
    number: int = 0


ALONE = Writer()


def postponed_layout(layout: Layout, writer: Writer) -> Layout:
    """Return the layout of a postponed file as Java writes it: Avro without statistics, named after its writer.

    Java compacts the files of one writer number in sequence, and those of different writers in parallel.
    """
    options = {key: value for key, value in layout.schema.options.items() if key not in _PER_LEVEL}
    prefix = TableOptions(options)[DATA_FILE_PREFIX]
    user = re.sub(r"[^\w.-]", "_", writer.user)
    options |= {
        FILE_FORMAT.key: "avro",
        METADATA_STATS_MODE.key: "none",
        DATA_FILE_PREFIX.key: f"{prefix}-u-{user}-s-{writer.number}-w-",
    }
    return replace(layout, schema=replace(layout.schema, options=options))
