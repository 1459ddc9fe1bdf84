"""Names that users give: checks of those that become a component of a path, and the error for unknown columns."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Sequence

from penstock.errors import ConfigError, did_you_mean
from penstock.table.values.arguments import as_text

_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
LONGEST = 250  # bytes; file systems allow 255 for a folder, and some folder names have a prefix or suffix
LONGEST_NEW = 200  # for files that are first written under a longer temporary name


def path_step(name: str, noun: str, *, longest: int = LONGEST, **facts: object) -> str:
    """Return the name if it is a valid path component.

    Raise ConfigError if it is empty, too long or leaves its folder.
    """
    as_text(name, f"the name of a {noun}")
    try:
        # A lone surrogate cannot be encoded as UTF-8.
        length = len(name.encode())
    except UnicodeEncodeError:
        length = 0
    if 0 < length <= longest and name.strip() and name not in {".", ".."} and not any(mark in name for mark in "/\0"):
        return name
    shown = name[:80].encode("utf-8", "backslashreplace").decode()
    hint = (
        f"a name has {longest} bytes at most"
        if length > longest
        else "remove slashes and NUL; a name cannot consist of dots"
    )
    raise ConfigError(f"{shown!r} cannot be the name of a {noun}", hint=hint, **facts)


def relative_folder(path: str, option: str) -> str | None:
    """Return the folder below the table that an option names, or None if the option is empty.

    Raise ConfigError for a path that leads outside the table's folder.
    """
    path = path.strip().strip("/")
    if not path:
        return None
    steps = path.split("/")
    if any(step in {"", ".", ".."} or "\0" in step for step in steps):
        raise ConfigError(
            f"{option} leads out of the table's folder",
            value=repr(path[:200]),
            hint="use a folder below the table, as in  data  or  files/data",
        )
    return path


def no_column(unknown: Sequence[str], names: Iterable[str], table: str | None = None, **facts: object) -> ConfigError:
    """Return the error for columns that the table does not have."""
    known = list(names)
    return ConfigError(
        f"the table has no column {', '.join(map(repr, unknown))}",
        table=table,
        columns=", ".join(known),
        hint=did_you_mean(str(unknown[0]), known),
        **facts,
    )


def alike_columns(names: Iterable[str]) -> list[str]:
    """Return names that DuckDB does not distinguish: it reads the first of these columns for all of them."""
    listed = list(names)
    times = Counter(name.translate(_SMALL) for name in listed)
    return [name for name in listed if times[name.translate(_SMALL)] > 1]


def refuse_alike(names: Iterable[str], table: str | None = None) -> None:
    """Raise ConfigError if the names of two columns differ only in case: DuckDB takes them for one."""
    if alike := alike_columns(names):
        raise ConfigError(
            f"SQL does not distinguish the columns {', '.join(map(repr, alike))}",
            table=table,
            hint="rename one:  ALTER TABLE t RENAME COLUMN a TO b;  or read the table in Python:"
            " scan(columns=[...], where=...) with an Arrow expression as the condition",
        )
