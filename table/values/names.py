"""Names that become one step of a path: of databases, tables, branches, tags and consumers."""

from __future__ import annotations

from penstock.errors import ConfigError

LONGEST = 250  # bytes; a folder's name has 255, and some are longer by a prefix or suffix
LONGEST_NEW = 200  # of a file that is written aside first, under a longer name


def path_step(name: str, what: str, *, longest: int = LONGEST, **facts: object) -> str:
    """Return the name, where it stays in its folder. ConfigError for one that leads out of it, or is no name at all."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        length = 0
    if 0 < length <= longest and name.strip() and name not in {".", ".."} and not any(one in name for one in "/\0"):
        return name
    shown = name[:80].encode("utf-8", "backslashreplace").decode()
    hint = f"a name has {longest} bytes at most" if length > longest else "leave out slashes, NUL and dots alone"
    raise ConfigError(f"{shown!r} cannot be the name of a {what}", hint=hint, **facts)


def relative_folder(path: str, option: str) -> str | None:
    """Return the folder below a table that an option names, None where it names none. ConfigError for one outside."""
    path = path.strip().strip("/")
    if not path:
        return None
    steps = path.split("/")
    if any(step in {"", ".", ".."} or "\0" in step for step in steps):
        raise ConfigError(
            f"{option} leads out of the table's folder",
            value=repr(path[:200]),
            hint="name a folder below the table, as in  data  or  files/data",
        )
    return path
