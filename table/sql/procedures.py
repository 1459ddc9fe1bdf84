"""The procedures of CALL, with Paimon's names and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import ConfigError, did_you_mean
from penstock.table.catalog.catalog import Catalog
from penstock.table.handle import Table
from penstock.table.options.iceberg import ICEBERG_STORAGE
from penstock.table.options.kinds import parse_duration
from penstock.table.sql.grammar.statements import CallProcedure
from penstock.table.sql.queries.context import SqlContext, done, one_column

Arguments = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: its parameters in order, of which the first `required` must be set, and what it calls."""

    parameters: tuple[str, ...]
    required: int
    run: Callable[[Catalog, Arguments], object]


def call(context: SqlContext, statement: CallProcedure) -> pa.Table:
    """Run CALL."""
    procedure = find_procedure(statement.name)
    results = run_procedure(procedure, context.catalog, _arguments(context, statement, procedure))
    return done() if results is None else one_column("result", results)


def find_procedure(name: str) -> Procedure:
    """Return the procedure of a name."""
    if name not in PROCEDURES:
        hint = did_you_mean(name, PROCEDURES, "SHOW PROCEDURES lists them")
        raise ConfigError(f"there is no procedure {name!r}", hint=hint)
    return PROCEDURES[name]


def run_procedure(procedure: Procedure, catalog: Catalog, arguments: Arguments) -> list[str] | None:
    """Run a procedure, and return its results as texts; None if it has none."""
    found = procedure.run(catalog, arguments)
    if isinstance(found, list):
        return [str(one) for one in found]
    return None if found is None else [str(found)]


def _arguments(context: SqlContext, statement: CallProcedure, procedure: Procedure) -> dict[str, str]:
    """Return the values by parameter, as text; NULL is left out."""
    names = procedure.parameters
    usage = f"CALL sys.{statement.name}({', '.join(names)})"
    if len(statement.positional) > len(names):
        raise ConfigError(f"{statement.name} has {len(names)} parameters", hint=usage)
    texts = dict(zip(names, statement.positional, strict=False))
    for name, text in statement.named.items():
        if name not in names or name in texts:
            why = "set twice" if name in names else "unknown"
            raise ConfigError(f"the argument {name!r} of {statement.name} is {why}", hint=usage)
        texts[name] = text
    # Arguments are expressions of SQL, such as a time that is computed, so DuckDB evaluates them.
    values = {name: _value(context, text) for name, text in texts.items()}
    arguments = {name: value for name, value in values.items() if value is not None}
    missing = [name for name in names[: procedure.required] if name not in arguments]
    if missing:
        raise ConfigError(f"{statement.name} needs the argument {missing[0]!r}", hint=usage)
    if "table" in arguments:
        arguments["table"] = context.full_name(arguments["table"].split("."))
    return arguments


def _value(context: SqlContext, text: str) -> str | None:
    value = context.session.query(f"SELECT CAST(({text}) AS VARCHAR) AS value")["value"][0].as_py()
    return None if value is None else str(value)


def _table(catalog: Catalog, given: Arguments) -> Table:
    return catalog.table(given["table"])


def _number(given: Arguments, name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.lstrip("-").isdigit():
        raise ConfigError(f"the argument {name!r} must be an integer, not {text!r}")
    return int(text)


def _flag(given: Arguments, name: str) -> bool:
    return given.get(name, "false").lower() == "true"


def _names(given: Arguments, name: str) -> list[str]:
    return [one.strip() for one in given.get(name, "").split(",") if one.strip()]


def _specs(given: Arguments, name: str) -> list[dict[str, object]] | None:
    """Return partitions written as `dt=1,hh=2;dt=2,hh=3`."""
    if name not in given:
        return None
    specs: list[dict[str, object]] = []
    for text in given[name].split(";"):
        pairs = [part.partition("=") for part in text.split(",")]
        if any(not equals for _, equals, _ in pairs):
            raise ConfigError(f"{text!r} is not a partition", hint="write partitions as 'dt=1,hh=2;dt=2,hh=3'")
        specs.append({key.strip(): value.strip().strip("'") for key, _, value in pairs})
    return specs


def _compact(catalog: Catalog, given: Arguments) -> object:
    table, strategy = _table(catalog, given), given.get("order_strategy", "none").lower()
    partitions = _specs(given, "partitions")
    if strategy not in {"none", ""}:
        if partitions is not None:
            raise ConfigError("a sort of some partitions is not supported in SQL", hint="penstock compact --partition")
        return _ids(table.sort(_names(given, "order_by"), strategy))
    return _ids(table.compact(full=given.get("compact_strategy", "full") == "full", partitions=partitions))


def _ids(snapshots: Sequence[object]) -> list[str]:
    return [f"snapshot {snapshot.id}" for snapshot in snapshots]  # type: ignore[attr-defined]  # all kinds of snapshots


def _fast_forward(catalog: Catalog, given: Arguments) -> None:
    _table(catalog, given).fast_forward(given["branch"])


def _create_tag(catalog: Catalog, given: Arguments) -> None:
    retained = given.get("time_retained")
    millis = None if retained is None else parse_duration(retained)
    _table(catalog, given).create_tag(given["tag"], _number(given, "snapshot"), retain_millis=millis)


def _delete_tags(catalog: Catalog, given: Arguments) -> None:
    table = _table(catalog, given)
    names = _names(given, "tag")
    # All names are checked before the first tag is deleted.
    missing = [name for name in names if name not in table.tags]
    if missing:
        raise ConfigError(f"there is no tag {missing[0]!r}", table=table.name, tags=", ".join(table.tags))
    for name in names:
        table.delete_tag(name)


def _rollback(catalog: Catalog, given: Arguments) -> str:
    table, version = _table(catalog, given), given["version"]
    # A tag may have a name of digits, and is then meant before the snapshot with this id.
    is_tag = version in table.tags or not version.isdigit()
    return f"snapshot {table.rollback_to(version if is_tag else int(version)).id}"


def _expire_snapshots(catalog: Catalog, given: Arguments) -> str:
    expired = _table(catalog, given).expire_snapshots(
        retain_max=_number(given, "retain_max"),
        retain_min=_number(given, "retain_min"),
        older_than=given.get("older_than"),
        max_deletes=_number(given, "max_deletes"),
    )
    return str(expired)


def _remove_orphan_files(catalog: Catalog, given: Arguments) -> list[str]:
    table = _table(catalog, given)
    found = table.remove_orphan_files(dry_run=_flag(given, "dry_run"), older_than=given.get("older_than"))
    return [orphan.path for orphan in found]


def _rescale(catalog: Catalog, given: Arguments) -> object:
    partitions: Sequence[dict[str, object] | None] = _specs(given, "partition") or [None]
    table = _table(catalog, given)
    return [one for spec in partitions for one in _ids(table.rescale(_number(given, "bucket_num"), spec))]


def _drop_partitions(catalog: Catalog, given: Arguments) -> object:
    return _ids(_table(catalog, given).drop_partitions(_specs(given, "partitions") or []))


def _analyze(catalog: Catalog, given: Arguments) -> None:
    _table(catalog, given).analyze(_names(given, "columns") or None)


def _repair(catalog: Catalog, given: Arguments) -> list[str]:
    return [f"{one.name}: {one.outcome}" for one in catalog.repair(given.get("database_or_table"))]


def publish_iceberg(table: Table) -> int | None:
    """Write the Iceberg metadata of a table, and return the snapshot that it contains; None without a snapshot."""
    published = table.publish_iceberg()
    if published is None and table.options.get(ICEBERG_STORAGE.key, "disabled") == "disabled":
        raise ConfigError(
            "the table has no Iceberg metadata",
            table=table.name,
            hint=f"set its option first: {ICEBERG_STORAGE.key} = table-location",
        )
    return published


def _publish_iceberg(catalog: Catalog, given: Arguments) -> str | None:
    published = publish_iceberg(_table(catalog, given))
    return None if published is None else f"snapshot {published}"


PROCEDURES: Mapping[str, Procedure] = {
    "compact": Procedure(("table", "partitions", "order_strategy", "order_by", "compact_strategy"), 1, _compact),
    "create_tag": Procedure(("table", "tag", "snapshot", "time_retained"), 2, _create_tag),
    "replace_tag": Procedure(
        ("table", "tag", "snapshot"),
        2,
        lambda catalog, given: _table(catalog, given).replace_tag(given["tag"], _number(given, "snapshot")),
    ),
    "rename_tag": Procedure(
        ("table", "tag", "target_tag"),
        3,
        lambda catalog, given: _table(catalog, given).rename_tag(given["tag"], given["target_tag"]),
    ),
    "delete_tag": Procedure(("table", "tag"), 2, _delete_tags),
    "create_branch": Procedure(
        ("table", "branch", "tag"),
        2,
        lambda catalog, given: _table(catalog, given).create_branch(given["branch"], given.get("tag")) and None,
    ),
    "delete_branch": Procedure(
        ("table", "branch"), 2, lambda catalog, given: _table(catalog, given).delete_branch(given["branch"])
    ),
    "fast_forward": Procedure(("table", "branch"), 2, _fast_forward),
    "rollback": Procedure(("table", "version"), 2, _rollback),
    "expire_snapshots": Procedure(
        ("table", "retain_max", "retain_min", "older_than", "max_deletes"), 1, _expire_snapshots
    ),
    "expire_tags": Procedure(
        ("table", "older_than"),
        1,
        lambda catalog, given: _table(catalog, given).expire_tags(older_than=given.get("older_than")),
    ),
    "expire_partitions": Procedure(("table",), 1, lambda catalog, given: _table(catalog, given).expire_partitions()),
    "drop_partition": Procedure(("table", "partitions"), 2, _drop_partitions),
    "mark_partition_done": Procedure(
        ("table", "partitions"),
        2,
        lambda catalog, given: _table(catalog, given).mark_partitions_done(_specs(given, "partitions") or []),
    ),
    "remove_orphan_files": Procedure(("table", "older_than", "dry_run"), 1, _remove_orphan_files),
    "reset_consumer": Procedure(
        ("table", "consumer_id", "next_snapshot_id"),
        2,
        lambda catalog, given: _table(catalog, given).reset_consumer(
            given["consumer_id"], _number(given, "next_snapshot_id")
        ),
    ),
    "rescale": Procedure(("table", "bucket_num", "partition"), 1, _rescale),
    "compact_manifest": Procedure(
        ("table",), 1, lambda catalog, given: _table(catalog, given).compact_manifests() and None
    ),
    "analyze": Procedure(("table", "columns"), 1, _analyze),
    "repair": Procedure(("database_or_table",), 0, _repair),
    "publish_iceberg": Procedure(("table",), 1, _publish_iceberg),
}
