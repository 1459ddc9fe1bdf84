"""The pipeline that the flags of a sync action describe: the same object that a YAML file describes."""

from __future__ import annotations

from typing import Any

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import FlagValues, pairs, renamed, words
from penstock.pipelines.config.flags import SyncAction
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.storage.open import one_place

MODES = ("divided", "combined")


def action_pipeline(action: SyncAction, flags: FlagValues) -> PipelineSpec:
    """Return the pipeline of a sync action, such as mysql-sync-table."""
    return parsed(action_values(action, flags))


def action_values(action: SyncAction, flags: FlagValues) -> dict[str, Any]:
    """Return the same pipeline as plain values, under the keys of a pipeline file."""
    pipeline = _pipeline(flags)  # before the source: errors of the target come first
    source = action.actions.translate(flags)
    return {
        "pipeline": pipeline | source.pipeline,
        "source": source.section,
        "selection": _named(flags, "including-tables", "excluding-tables", "including-dbs", "excluding-dbs"),
        "sink": _sink(flags) | source.sink,
        "errors": _errors(flags),
    }


def _pipeline(flags: FlagValues) -> dict[str, Any]:
    name = _last(flags, "name") or _last(flags, "job-name") or _default_name(flags)
    running = ("checkpoint", "trigger", "parallelism", "spark")
    made = _named(flags, *running, "accept-replay", "resume-from-tables", "accept-gap", "resnapshot")
    made |= renamed(flags, {"retry": "retry-parked"})
    if "reset" in flags:
        made["reset"] = [_in(word, _last(flags, "database")) for word in words(flags["reset"])]
    limits = renamed(flags, {"max-batch-rows": "rows", "max-batch-bytes": "bytes"})
    until = "caught-up" if _last(flags, "until-caught-up") == "true" else "forever"
    return {"name": name, "until": until, "max-batch": limits, **made}


def _in(table: str, database: str | None) -> str:
    """Return `orders` as `ods.orders`, qualified with the single database that a sync action writes to."""
    return table if "." in table or not database else f"{database}.{table}"


def _errors(flags: FlagValues) -> dict[str, Any]:
    # Another flag chooses between skipping and keeping bad records, so the limits are set for both.
    limits = renamed(flags, {"max-bad-records": "max-per-batch", "max-bad-share": "max-share"})
    letters = renamed(flags, {"dead-letter-table": "table"})
    return {
        **renamed(flags, {"on-bad-record": "bad-record", "isolate": "isolate"}),
        "skip": limits,
        "dead-letter": limits | letters,
    }


def _default_name(flags: FlagValues) -> str:
    return ".".join(filter(None, (_last(flags, "database"), _last(flags, "table"))))


def _sink(flags: FlagValues) -> dict[str, Any]:
    mode = _last(flags, "mode")
    if mode is not None and mode.lower() not in MODES:
        raise ConfigError(f"Unsupported mode: {mode}", hint=f"use {' or '.join(MODES)}; both have the same effect")
    conf = pairs(flags.get("catalog-conf", ()))
    # Paimon's actions accept both spellings.
    warehouse = one_place("--warehouse", _last(flags, "warehouse"), "--catalog-conf", conf.pop("warehouse", None))
    if not warehouse:
        raise ConfigError("no warehouse is set", hint="--warehouse PATH, or --catalog-conf warehouse=PATH")
    catalog: dict[str, Any] = {"warehouse": warehouse}
    for key in ("metastore", "case-sensitive"):
        if key in conf:
            catalog[key] = conf.pop(key)
    naming: dict[str, Any] = _named(flags, "table-prefix", "table-suffix", "merge-shards")
    for flag in ("table-prefix-db", "table-suffix-db", "table-mapping"):
        naming[flag] = pairs(flags.get(flag, ()))
    per_table = pairs(flags.get("multiple-table-partition-keys", ()))
    plain = _named(
        flags,
        "database",
        "table",
        "deletes",
        "metadata-column-prefix",
        "sync-primary-keys-from-source-schema",
        "ignore-incompatible",
        "eager-init",
        "schema-init-max-read",
        "wait-for-data",
    )
    return {
        **plain,
        "catalog": {**catalog, "options": conf},
        "naming": naming,
        "compaction": renamed(flags, {"compaction": "mode"}),
        "primary-keys": words(flags.get("primary-keys", ())),
        "partition-keys": words(flags.get("partition-keys", ())),
        "multiple-table-partition-keys": {table: words([keys]) for table, keys in per_table.items()},
        "computed-columns": tuple(flags.get("computed-column", ())),
        "metadata-columns": words(flags.get("metadata-column", ())),
        "type-mapping": words(flags.get("type-mapping", ())),
        "table-options": pairs(flags.get("table-conf", ())),
    }


def _last(flags: FlagValues, flag: str) -> str | None:
    values = flags.get(flag)
    return values[-1] if values else None


def _named(flags: FlagValues, *names: str) -> dict[str, Any]:
    return {name: flags[name][-1] for name in names if flags.get(name)}
