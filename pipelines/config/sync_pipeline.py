"""The pipeline that the flags of a sync action describe: the same object that a YAML file describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.errors import ConfigError
from penstock.pipelines.config.flags import pairs, words
from penstock.pipelines.config.kafka_conf import bounded, kafka_source
from penstock.pipelines.config.load import parsed
from penstock.pipelines.config.model import PipelineSpec
from penstock.pipelines.config.mysql_conf import ends_by_itself, mysql_source
from penstock.pipelines.config.postgres_conf import postgres_source

MODES = ("divided", "combined")
Given = Mapping[str, Sequence[str]]  # flag name with hyphens -> the values on the command line, in order


def kafka_pipeline(given: Given) -> PipelineSpec:
    """Return the pipeline of kafka-sync-table (if `--table` is given) or of kafka-sync-database."""
    return parsed(kafka_values(given))


def _keyless(given: Given) -> dict[str, Any]:
    said = _last(given, "include-keyless")
    # `--include-keyless` says "leave-out" where the key `sink.no-primary-key` of a file says "skip".
    return {"no-primary-key": "skip" if said == "leave-out" else said} if said else {}


def mysql_pipeline(given: Given) -> PipelineSpec:
    """Return the pipeline of mysql-sync-table (if `--table` is given) or of mysql-sync-database."""
    return parsed(mysql_values(given))


def kafka_values(given: Given) -> dict[str, Any]:
    """Return the same pipeline as plain values, under the keys of a pipeline file."""
    conf = pairs(given.get("kafka-conf", ()))
    pipeline = _pipeline(given)
    if bounded(conf):
        pipeline["until"] = "caught-up"
    return {
        "pipeline": pipeline,
        "source": kafka_source(conf),
        "selection": _named(given, "including-tables", "excluding-tables", "including-dbs", "excluding-dbs"),
        "sink": _sink(given) | _keyless(given),
        "errors": _errors(given),
    }


def mysql_values(given: Given) -> dict[str, Any]:
    """Return the same pipeline as plain values, under the keys of a pipeline file."""
    conf = pairs(given.get("mysql-conf", ()))
    pipeline = _pipeline(given)
    if ends_by_itself(conf):
        pipeline["until"] = "caught-up"
    policies = {"on-truncate": "truncate", "on-drop": "drop", "on-rename-column": "rename-column"}
    source = mysql_source(conf, names_table=bool(given.get("table")))
    keyless = _renamed(given, {"include-keyless": "keyless"})
    return {
        "pipeline": pipeline,
        "source": source | {"ddl": _renamed(given, policies)} | keyless,
        "selection": _named(given, "including-tables", "excluding-tables", "including-dbs", "excluding-dbs"),
        "sink": _sink(given),
        "errors": _errors(given),
    }


def postgres_values(given: Given) -> dict[str, Any]:
    """Return the pipeline of postgres-sync-table or postgres-sync-database, under the keys of a pipeline file."""
    conf = pairs(given.get("postgres-conf", ()))
    pipeline = _pipeline(given)
    if ends_by_itself(conf):
        pipeline["until"] = "caught-up"
    source = postgres_source(conf, names_table=bool(given.get("table")))
    return {
        "pipeline": pipeline,
        "source": source | _renamed(given, {"include-keyless": "keyless"}),
        "selection": _named(given, "including-tables", "excluding-tables", "including-dbs", "excluding-dbs"),
        "sink": _sink(given),
        "errors": _errors(given),
    }


_VALUES: dict[str, Callable[[Given], dict[str, Any]]] = {
    "kafka": kafka_values,
    "mysql": mysql_values,
    "postgres": postgres_values,
}


def action_values(action: str, given: Given) -> dict[str, Any]:
    """Return the pipeline of a sync action, such as mysql-sync-table, under the keys of a pipeline file."""
    return _VALUES[action.partition("-")[0]](given)


def _pipeline(given: Given) -> dict[str, Any]:
    name = _last(given, "name") or _last(given, "job-name") or _default_name(given)
    made = _named(
        given, "checkpoint", "trigger", "parallelism", "accept-replay", "resume-from-tables", "accept-gap", "resnapshot"
    )
    made |= _renamed(given, {"retry": "retry-parked"})
    if "reset" in given:
        made["reset"] = [_in(word, _last(given, "database")) for word in words(given["reset"])]
    limits = _renamed(given, {"max-batch-rows": "rows", "max-batch-bytes": "bytes"})
    until = "caught-up" if _last(given, "until-caught-up") == "true" else "forever"
    return {"name": name, "until": until, "max-batch": limits, **made}


def _in(table: str, database: str | None) -> str:
    """Return `orders` as `ods.orders`, qualified with the single database that a sync action writes to."""
    return table if "." in table or not database else f"{database}.{table}"


def _errors(given: Given) -> dict[str, Any]:
    limits = _renamed(given, {"max-bad-records": "max-per-batch", "max-bad-share": "max-share"})
    letters = _renamed(given, {"dead-letter-table": "table"})
    return {
        **_renamed(given, {"on-bad-record": "bad-record", "isolate": "isolate"}),
        "skip": limits,
        "dead-letter": limits | letters,
    }


def _default_name(given: Given) -> str:
    return ".".join(filter(None, (_last(given, "database"), _last(given, "table"))))


def _sink(given: Given) -> dict[str, Any]:
    mode = _last(given, "mode")
    if mode is not None and mode.lower() not in MODES:
        raise ConfigError(f"Unsupported mode: {mode}", hint=f"use {' or '.join(MODES)}; both have the same effect")
    conf = pairs(given.get("catalog-conf", ()))
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
        "compaction": _renamed(given, {"compaction": "mode"}),
        "primary-keys": words(given.get("primary-keys", ())),
        "partition-keys": words(given.get("partition-keys", ())),
        "multiple-table-partition-keys": {table: words([keys]) for table, keys in per_table.items()},
        "computed-columns": tuple(given.get("computed-column", ())),
        "metadata-columns": words(given.get("metadata-column", ())),
        "type-mapping": words(given.get("type-mapping", ())),
        "table-options": pairs(given.get("table-conf", ())),
    }


def _last(given: Given, flag: str) -> str | None:
    values = given.get(flag)
    return values[-1] if values else None


def _named(given: Given, *flags: str) -> dict[str, Any]:
    return {flag: given[flag][-1] for flag in flags if given.get(flag)}


def _renamed(given: Given, names: Mapping[str, str]) -> dict[str, Any]:
    return {key: given[flag][-1] for flag, key in names.items() if given.get(flag)}
