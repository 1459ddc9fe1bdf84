"""The pipeline that the flags of a sync action describe: the same object that a YAML file describes."""

from __future__ import annotations

from typing import Any

from penstock.errors import ConfigError
from penstock.ingest.sync_actions import FlagValues, pairs, renamed, words
from penstock.pipelines.config.flags import SyncAction
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec

MODES = ("divided", "combined")


def action_pipeline(action: SyncAction, given: FlagValues) -> PipelineSpec:
    """Return the pipeline of a sync action, such as mysql-sync-table."""
    return parsed(action_values(action, given))


def action_values(action: SyncAction, given: FlagValues) -> dict[str, Any]:
    """Return the same pipeline as plain values, under the keys of a pipeline file."""
    pipeline = _pipeline(given)  # before the source: errors of the target come first
    source = action.actions.translate(given)
    return {
        "pipeline": pipeline | source.pipeline,
        "source": source.section,
        "selection": _named(given, "including-tables", "excluding-tables", "including-dbs", "excluding-dbs"),
        "sink": _sink(given) | source.sink,
        "errors": _errors(given),
    }


def _pipeline(given: FlagValues) -> dict[str, Any]:
    name = _last(given, "name") or _last(given, "job-name") or _default_name(given)
    running = ("checkpoint", "trigger", "parallelism", "spark")
    made = _named(given, *running, "accept-replay", "resume-from-tables", "accept-gap", "resnapshot")
    made |= renamed(given, {"retry": "retry-parked"})
    if "reset" in given:
        made["reset"] = [_in(word, _last(given, "database")) for word in words(given["reset"])]
    limits = renamed(given, {"max-batch-rows": "rows", "max-batch-bytes": "bytes"})
    until = "caught-up" if _last(given, "until-caught-up") == "true" else "forever"
    return {"name": name, "until": until, "max-batch": limits, **made}


def _in(table: str, database: str | None) -> str:
    """Return `orders` as `ods.orders`, qualified with the single database that a sync action writes to."""
    return table if "." in table or not database else f"{database}.{table}"


def _errors(given: FlagValues) -> dict[str, Any]:
    # Another flag chooses between skipping and keeping bad records, so the limits are set for both.
    limits = renamed(given, {"max-bad-records": "max-per-batch", "max-bad-share": "max-share"})
    letters = renamed(given, {"dead-letter-table": "table"})
    return {
        **renamed(given, {"on-bad-record": "bad-record", "isolate": "isolate"}),
        "skip": limits,
        "dead-letter": limits | letters,
    }


def _default_name(given: FlagValues) -> str:
    return ".".join(filter(None, (_last(given, "database"), _last(given, "table"))))


def _sink(given: FlagValues) -> dict[str, Any]:
    mode = _last(given, "mode")
    if mode is not None and mode.lower() not in MODES:
        raise ConfigError(f"Unsupported mode: {mode}", hint=f"use {' or '.join(MODES)}; both have the same effect")
    conf = pairs(given.get("catalog-conf", ()))
    # Paimon's actions accept both spellings.
    warehouse = conf.pop("warehouse", None) or _last(given, "warehouse")
    if not warehouse:
        raise ConfigError("no warehouse is set", hint="--warehouse PATH, or --catalog-conf warehouse=PATH")
    catalog: dict[str, Any] = {"warehouse": warehouse}
    for key in ("metastore", "case-sensitive"):
        if key in conf:
            catalog[key] = conf.pop(key)
    naming: dict[str, Any] = _named(given, "table-prefix", "table-suffix", "merge-shards")
    for flag in ("table-prefix-db", "table-suffix-db", "table-mapping"):
        naming[flag] = pairs(given.get(flag, ()))
    per_table = pairs(given.get("multiple-table-partition-keys", ()))
    plain = _named(
        given,
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
        "compaction": renamed(given, {"compaction": "mode"}),
        "primary-keys": words(given.get("primary-keys", ())),
        "partition-keys": words(given.get("partition-keys", ())),
        "multiple-table-partition-keys": {table: words([keys]) for table, keys in per_table.items()},
        "computed-columns": tuple(given.get("computed-column", ())),
        "metadata-columns": words(given.get("metadata-column", ())),
        "type-mapping": words(given.get("type-mapping", ())),
        "table-options": pairs(given.get("table-conf", ())),
    }


def _last(given: FlagValues, flag: str) -> str | None:
    values = given.get(flag)
    return values[-1] if values else None


def _named(given: FlagValues, *flags: str) -> dict[str, Any]:
    return {flag: given[flag][-1] for flag in flags if given.get(flag)}
