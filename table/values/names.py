"""Checks of names that become one component of a path: databases, tables, branches, tags and consumers."""

from __future__ import annotations

from penstock.errors import ConfigError

LONGEST = 250  # bytes; file systems allow 255 for a folder, and some folder names have a prefix or suffix
LONGEST_NEW = 200  # for files that are first written under a longer temporary name


def path_step(name: str, what: str, *, longest: int = LONGEST, **facts: object) -> str:
    """Return the name if it is a valid path component.

    Raise ConfigError if it is empty, too long or leaves its folder.
    """
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        length = 0
    if 0 < length <= longest and name.strip() and name not in {".", ".."} and not any(one in name for one in "/\0"):
        return name
    shown = name[:80].encode("utf-8", "backslashreplace").decode()
    hint = (
        f"a name has {longest} bytes at most"
        if length > longest
        else "remove slashes and NUL; a name cannot consist of dots"
    )
    raise ConfigError(f"{shown!r} cannot be the name of a {what}", hint=hint, **facts)


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
