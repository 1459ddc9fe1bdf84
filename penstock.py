"""Penstock: streaming change data into Apache Paimon tables.

This module re-exports the public names and sets how long Arrow keeps freed memory, and does nothing else. Names are
imported on first use, so that `import penstock` and `penstock --help` load neither Arrow nor Spark.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

# Arrow's allocator returns pages to the system 10 ms after they were freed, and each row group takes as many again:
# a twentieth of the CPU of writes and compactions, more on a busy machine. It reads the setting once, when Arrow is
# loaded. `return_freed_memory` still returns all pages at once.
os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")

# In the source tree, this file is in the same folder as the packages that the wheel installs below penstock/.
__path__ = [str(Path(__file__).resolve().parent)]
__version__ = "0.1.0"

if TYPE_CHECKING:
    from penstock.errors import (
        CommitConflict,
        ConfigError,
        DecodeError,
        PenstockError,
        PositionLost,
        SchemaConflict,
        SourceError,
        TableCorrupt,
    )
    from penstock.pipelines.api.pipeline import Pipeline
    from penstock.pipelines.spark_catalog.registration import register
    from penstock.table.catalog.batch_view import BatchView
    from penstock.table.catalog.catalog import Catalog
    from penstock.table.catalog.path_tables import create_table, open_table
    from penstock.table.errors import BranchMissing, SnapshotMissing, TagMissing
    from penstock.table.handle import (
        Table,
    )
    from penstock.table.meta.store import TableMissing
    from penstock.table.schema.changes import (
        AddColumn,
        DropColumn,
        RenameColumn,
        ResetOption,
        SetOption,
        UpdateColumnComment,
        UpdateColumnDefault,
        UpdateColumnNullability,
        UpdateColumnPosition,
        UpdateColumnType,
        UpdateComment,
    )
    from penstock.table.sql.interpreter import sql
    from penstock.table.write.memory_budget import WriteBudget

# The interpreter finds names here; mypy and editors read the imports above.
_HOMES = {
    "penstock.errors": (
        "CommitConflict",
        "ConfigError",
        "DecodeError",
        "PenstockError",
        "PositionLost",
        "SchemaConflict",
        "SourceError",
        "TableCorrupt",
    ),
    "penstock.pipelines.api.pipeline": ("Pipeline",),
    "penstock.pipelines.spark_catalog.registration": ("register",),
    "penstock.table.catalog.batch_view": ("BatchView",),
    "penstock.table.catalog.catalog": ("Catalog",),
    "penstock.table.catalog.path_tables": ("create_table", "open_table"),
    "penstock.table.handle": ("Table",),
    "penstock.table.errors": ("BranchMissing", "SnapshotMissing", "TagMissing"),
    "penstock.table.meta.store": ("TableMissing",),
    "penstock.table.schema.changes": (
        "AddColumn",
        "DropColumn",
        "RenameColumn",
        "ResetOption",
        "SetOption",
        "UpdateColumnComment",
        "UpdateColumnDefault",
        "UpdateColumnNullability",
        "UpdateColumnPosition",
        "UpdateColumnType",
        "UpdateComment",
    ),
    "penstock.table.sql.interpreter": ("sql",),
    "penstock.table.write.memory_budget": ("WriteBudget",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AddColumn",
    "BatchView",
    "BranchMissing",
    "Catalog",
    "CommitConflict",
    "ConfigError",
    "DecodeError",
    "DropColumn",
    "PenstockError",
    "Pipeline",
    "PositionLost",
    "RenameColumn",
    "ResetOption",
    "SchemaConflict",
    "SetOption",
    "SnapshotMissing",
    "SourceError",
    "Table",
    "TableCorrupt",
    "TableMissing",
    "TagMissing",
    "UpdateColumnComment",
    "UpdateColumnDefault",
    "UpdateColumnNullability",
    "UpdateColumnPosition",
    "UpdateColumnType",
    "UpdateComment",
    "WriteBudget",
    "create_table",
    "open_table",
    "register",
    "sql",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


# `python -m penstock` in the source tree, where this file is no package; an installed one has `__main__.py`.
if __name__ == "__main__":
    import sys

    from penstock.pipelines.commands.main import main

    sys.exit(main())
