"""The postponed bucket (-2): rows wait there as they came until a compaction gives them real buckets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from penstock.table.buckets.layout import Layout
from penstock.table.schema.options import Options

_PER_LEVEL = ("file.format.per.level", "file.compression.per.level", "metadata.stats-mode.per.level")


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: the job's user, and the number among the writers that share its rows by key."""

    user: str = "penstock"
    number: int = 0


ALONE = Writer()


def postponed_layout(layout: Layout, writer: Writer) -> Layout:
    """How Java writes these files: in Avro without statistics, named after their writer.

    Java compacts the files of one writer number one after the other, and those of others beside them.
    """
    options = {key: value for key, value in layout.schema.options.items() if key not in _PER_LEVEL}
    prefix = Options(options).text("data-file.prefix", "data-")
    user = re.sub(r"[^\w.-]", "_", writer.user)
    options |= {
        "file.format": "avro",
        "metadata.stats-mode": "none",
        "data-file.prefix": f"{prefix}-u-{user}-s-{writer.number}-w-",
    }
    return replace(layout, schema=replace(layout.schema, options=options))
