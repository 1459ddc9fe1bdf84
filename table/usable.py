"""Checks of a new table, or a new version of its schema, that need more than the schema's own rules."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.files.encoding import encoding_of
from penstock.table.layout import Layout
from penstock.table.lsm.merge.spec import MergeSpec
from penstock.table.read.time_travel import Travel
from penstock.table.schema.table_schema import TableSchema

_LONGEST_NAME = 250  # bytes; a folder has 255, with .db


def check_usable(schema: TableSchema) -> None:
    """ConfigError unless rows find a bucket, files a codec, keys a merge engine and reads a snapshot."""
    Layout.of(schema)
    encoding_of(schema.options)
    if schema.primary_keys:
        MergeSpec.of(schema)
    Travel.of(schema.options)


def check_name(name: str, what: str, *, more: str = "") -> None:
    """A name is that of a folder, and what follows a `$` in it would name a system table."""
    if not name.strip(".") or any(sign in name for sign in "$/\\\0") or name != name.strip():
        hint = "leave out $, slashes and outer blanks"
    elif len(name.encode()) > _LONGEST_NAME:
        hint = f"a name has {_LONGEST_NAME} bytes at most"
    else:
        return
    raise ConfigError(f"{name[:80]!r} cannot be the name of a {what}", hint=hint + more)
