"""The mapping from declared source types to Paimon types, with a type table per dialect."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache

from penstock.errors import ConfigError, SchemaConflict
from penstock.formats.change import SourceField
from penstock.formats.debezium.connect import ZONED_TIMESTAMP, ConnectType
from penstock.schema_evolution.types.debezium import avro_type, debezium_type
from penstock.schema_evolution.types.mapping import TypeMapping
from penstock.schema_evolution.types.mysql import knows, mysql_type
from penstock.schema_evolution.types.postgres import postgres_type
from penstock.table.values.types import STRING, AtomicType, DataType, parse_type, type_json

_DIALECTS: dict[str, Callable[[str, TypeMapping], DataType]] = {
    "mysql": mysql_type,
    "aliyun": mysql_type,
    "debezium": debezium_type,
    "avro": avro_type,
    "postgres": postgres_type,
}


TYPED = "paimon:"  # prefix of a computed column's type: the rest is a Paimon type, in any dialect


def typed(type_: DataType) -> str:
    """Return a Paimon type as the declared type of a column."""
    node = type_json(type_)
    return f"{TYPED}{node if isinstance(node, str) else json.dumps(node)}"


def paimon_type(dialect: str, field: SourceField, mapping: TypeMapping) -> DataType:
    """Return the column's type in a new table; always nullable (`ColumnRules` adds NOT NULL)."""
    return _mapped(dialect, field.type, mapping)


def holds_bits(dialect: str, field: SourceField) -> bool:
    """Return whether the values are the bytes of BIT(n): no other type is a BINARY."""
    try:
        type_ = _mapped(dialect, field.type, TypeMapping())
    except SchemaConflict:  # `to-string` reads columns whose declared type is not valid
        return False
    return isinstance(type_, AtomicType) and type_.root == "BINARY"


def holds_instants(dialect: str, field: SourceField) -> bool:
    """Return whether texts of the column are instants in UTC, which have no time zone behind them."""
    return dialect in {"debezium", "avro"} and ZONED_TIMESTAMP in (field.type or "")


def is_known(dialect: str, field: SourceField) -> bool:
    """Return whether the declared type is known; values of unknown types are stored as bytes."""
    untyped = field.type is None or field.type.startswith(TYPED)
    if untyped:
        return True
    declared = field.type or ""
    if _DIALECTS.get(dialect) is debezium_type:
        declared = ConnectType.parse(declared).source_type or ""
        return not declared or knows(declared)
    return _DIALECTS.get(dialect) is not mysql_type or knows(declared)


@lru_cache(maxsize=8192)
def _mapped(dialect: str, declared: str | None, mapping: TypeMapping) -> DataType:
    type_ = _unchecked(dialect, declared, mapping)
    try:
        # Reading the type back rejects lengths and precisions that Paimon does not allow.
        parse_type(type_json(type_))
    except ConfigError as error:
        raise SchemaConflict(
            f"unknown declared type {(declared or '')[:80]}: {error.message}",
            hint="correct the type that the producer declares, or set  --type-mapping to-string",
        ) from error
    return type_


def _unchecked(dialect: str, declared: str | None, mapping: TypeMapping) -> DataType:
    if declared is None or mapping.to_string:
        return STRING
    if declared.startswith(TYPED):
        text = declared.removeprefix(TYPED)
        return parse_type(json.loads(text) if text.startswith("{") else text)
    known: Callable[[str, TypeMapping], DataType] | None = _DIALECTS.get(dialect)
    if known is None:
        raise SchemaConflict(
            f"the type dialect {dialect!r} is unknown",
            type=declared,
            hint=f"the source or format must declare one of {', '.join(sorted(_DIALECTS))}",
        )
    return known(declared, mapping)
