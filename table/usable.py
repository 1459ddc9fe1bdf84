"""What can be a table at all, told before one is made: by its name, and by all that its schema says together."""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.table.files.encoding import encoding_of
from penstock.table.layout import Layout
from penstock.table.lsm.merge.spec import MergeSpec
from penstock.table.schema.table_schema import TableSchema

_LONGEST_NAME = 250  # bytes; a folder has 255, with .db


def check_usable(schema: TableSchema) -> None:
    """What the schema alone cannot tell: whether rows find their bucket, files a codec, keys their merge engine."""
    Layout.of(schema)
    encoding_of(schema.options)
    if schema.primary_keys:
        MergeSpec.of(schema)


def check_name(name: str, what: str, *, more: str = "") -> None:
    """A name is that of a folder, and what follows a `$` in it would name a system table."""
    if not name.strip(".") or any(sign in name for sign in "$/\\\0") or name != name.strip():
        hint = "leave out $, slashes and outer blanks"
    elif len(name.encode()) > _LONGEST_NAME:
        hint = f"a name has {_LONGEST_NAME} bytes at most"
    else:
        return
    raise ConfigError(f"{name[:80]!r} cannot be the name of a {what}", hint=hint + more)
