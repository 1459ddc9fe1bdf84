"""The table of a command: the flags that all table commands share, and the catalog or table they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import Flag, pairs
from penstock.pipelines.commands.arguments import Flags, one_value

if TYPE_CHECKING:
    from penstock.table.catalog.catalog import Catalog
    from penstock.table.handle import Table

JSON = Flag("json", "print the result as JSON", "bool")
REQUEST_PRICES = Flag(
    "request-prices",
    "US dollars for 1,000 writes and for 1,000 reads of the object store (default: 0.005,0.0004, S3 Standard)",
    metavar="WRITES,READS",
)
WAREHOUSE = (
    Flag("warehouse", "folder or URL of the warehouse; the same as --catalog-conf warehouse=...", metavar="PATH"),
    Flag("catalog-conf", "option of the catalog; may be repeated", "pairs", "K=V"),
    JSON,
)
READING = (
    *WAREHOUSE,
    Flag("pipeline", "read warehouse and catalog options from this pipeline file", metavar="FILE"),
)
DATABASE = Flag("database", "database of the warehouse", metavar="NAME", required=True)
ON_TABLE = (*WAREHOUSE, DATABASE, Flag("table", "table of the database", metavar="NAME", required=True))
PARTITION = Flag(
    "partition", "partition, as values of all or some partition columns; may be repeated", "texts", "K=V,K2=V2"
)
NEEDED_PARTITION = Flag("partition", PARTITION.help, "texts", PARTITION.metavar, required=True)


def catalog_of(flags: Flags) -> Catalog:
    from penstock.table.catalog.catalog import Catalog

    return Catalog(*warehouse_and_options(flags))


def warehouse_and_options(flags: Flags) -> tuple[str, dict[str, str]]:
    """Return the warehouse that the flags name, and the options of its catalog."""
    from penstock.storage.open import one_place

    options = pairs(flags.get("catalog-conf", ()))
    named = options.pop("warehouse", None)
    warehouse = one_place("--warehouse", text(flags, "warehouse"), "--catalog-conf", named)
    if (file := text(flags, "pipeline")) is not None:
        from penstock.pipelines.config import yaml_file
        from penstock.pipelines.mapping.target_tables import settings_of

        described = yaml_file.load(Path(file)).sink.catalog
        settings = settings_of(described)
        # Flags win over the file.
        warehouse, options = warehouse or settings.warehouse, {**dict(settings.options), **options}
    if warehouse is None:
        raise ConfigError("no warehouse is given", hint="--warehouse PATH")
    return warehouse, options


def warehouse_of(flags: Flags) -> Catalog:
    """Return the catalog; ConfigError if it does not exist, because a misspelt path must not look like an empty one."""
    catalog = catalog_of(flags)
    if catalog.backend.is_missing():
        raise ConfigError(
            "the warehouse does not exist",
            path=catalog.warehouse,
            hint="check the path; the first run creates the warehouse",
        )
    return catalog


def table_of(flags: Flags) -> Table:
    """Return the table that `--table` names. `orders$branch_b` is a branch."""
    from penstock.table.handle import Table

    name = f"{needed(flags, 'database')}.{needed(flags, 'table')}"
    table = catalog_of(flags).table(name)
    if not isinstance(table, Table):
        raise ConfigError(f"{name} is a system table", hint="system tables can be read, but not changed")
    return table


def text(flags: Flags, flag: str) -> str | None:
    """Return the value of a flag that has only one."""
    return one_value(flag, flags[flag]) if flag in flags else None


def needed(flags: Flags, flag: str) -> str:
    found = text(flags, flag)
    if found is None:
        raise ConfigError(f"--{flag} is required", hint=f"add  --{flag} VALUE ; --help describes it")
    return found


def yes(flags: Flags, flag: str) -> bool:
    return (text(flags, flag) or "false").lower() == "true"


def number(flags: Flags, flag: str, least: int | None = None) -> int | None:
    """Return an integer; ConfigError if it is less than `least`."""
    found = text(flags, flag)
    if found is None:
        return None
    try:
        value = int(found)
    except ValueError as reason:
        raise ConfigError(f"--{flag} {found!r} is not an integer", hint="write digits only, such as 100") from reason
    if least is not None and value < least:
        raise ConfigError(f"--{flag} {value} is too small", hint=f"the least is {least}")
    return value


def moment(flags: Flags, flag: str) -> datetime | None:
    """Return a time: `2026-01-31 12:00:00` in this machine's zone or with an offset, or epoch milliseconds."""
    found = text(flags, flag)
    if found is None:
        return None
    try:
        return datetime.fromtimestamp(int(found) / 1000).astimezone() if found.isdecimal() else _zoned(found)
    except ValueError as reason:
        raise ConfigError(f"--{flag} {found!r} is not a time", hint="write it as 2026-01-31 12:00:00") from reason


def _zoned(written: str) -> datetime:
    return datetime.fromisoformat(written).astimezone()


def millis(flags: Flags, flag: str) -> int | None:
    """Return a span of time such as `7 d` or `30 min` in milliseconds. Java's ISO form (`P7D`) is not accepted."""
    from penstock.table.options.kinds import parse_duration

    found = text(flags, flag)
    return None if found is None else parse_duration(found)


def chosen(flags: Flags, names: Iterable[str], including: str, excluding: str | None = None) -> list[str]:
    """Return the names that fully match the expression of one flag (default: all), but not that of the other."""
    wanted = _expression(flags, including) or re.compile(".*")
    excluded = _expression(flags, excluding) if excluding else None
    return [name for name in names if wanted.fullmatch(name) and not (excluded and excluded.fullmatch(name))]


def _expression(flags: Flags, flag: str) -> re.Pattern[str] | None:
    written = text(flags, flag)
    try:
        return re.compile(written) if written else None
    except re.error as reason:
        raise ConfigError(
            f"--{flag} {written!r} is not a regular expression: {reason}",
            hint="escape characters that are meant literally with a backslash, such as  \\(",
        ) from reason


def partitions(flags: Flags) -> list[dict[str, object]]:
    """Return each `--partition k=v,k2=v2` as a mapping. A `;` separates several in one flag."""
    specs = [part for written in flags.get("partition", ()) for part in written.split(";") if part.strip()]
    return [_partition(spec, [part for part in spec.split(",") if part.strip()]) for spec in specs]


def _partition(written: str, parts: Sequence[str]) -> dict[str, object]:
    found = pairs(parts)
    if len(found) < len(parts):
        raise ConfigError(
            f"--partition {written!r} contains a column twice", hint="repeat --partition for several partitions"
        )
    return dict(found)
