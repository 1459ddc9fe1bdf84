"""Tables whose folder the user chooses, which Paimon calls external: DROP TABLE removes their name alone."""

from __future__ import annotations

import re

from penstock.errors import ConfigError
from penstock.table.options.definition import PATH
from penstock.table.schema.table_schema import TableSchema
from penstock.table.schema.type_text import written

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]+:")


def checked_path(path: str) -> str:
    """Return the path without slashes at its end. ConfigError if its meaning depends on the working folder."""
    if not _ABSOLUTE.match(path):
        raise ConfigError(f"path = {path} is a relative path", hint="write an absolute path or a URL")
    return path.rstrip("/")


def check_same(existing: TableSchema, wanted: TableSchema, name: str, path: str) -> None:
    """Raise ConfigError unless the table that is in the folder already has the wanted columns, keys and options."""
    for aspect, own, given in (
        ("columns", _columns(existing), _columns(wanted)),
        ("primary key", ", ".join(existing.primary_keys), ", ".join(wanted.primary_keys)),
        ("partition columns", ", ".join(existing.partition_keys), ", ".join(wanted.partition_keys)),
    ):
        if own != given:
            raise ConfigError(
                f"the folder contains a table with other {aspect}",
                table=name,
                path=path,
                found=own or "none",
                hint="leave the columns and keys out to use the table as it is, or choose another path",
                paimon_message="New schema is not equal to exists schema",
            )
    differ = [key for key, text in wanted.options.items() if key != PATH.key and existing.options.get(key) != text]
    if differ:
        raise ConfigError(
            f"the folder contains a table with another value of {differ[0]!r}",
            table=name,
            path=path,
            value=existing.options.get(differ[0]),
            hint="leave it out here; ALTER TABLE ... SET changes it",
            paimon_message="New schema's options are not equal to the exists schema's",
        )


def _columns(schema: TableSchema) -> str:
    return ", ".join(f"{field.name} {written(field.type)}" for field in schema.fields)
